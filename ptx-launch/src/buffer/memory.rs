//! The bytes of a buffer, on either kind of device.
#![allow(unsafe_code, reason = "cudarc hands out memory without contents, and views of another type")]

use crate::device::cpu::CpuMemory;
use crate::device::{Device, Inner};
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::param::Bound;
use crate::stream::StreamRef;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr};
use std::sync::Arc;

pub(super) enum Memory {
    Cuda(CudaSlice<u8>),
    Cpu(CpuMemory),
}

impl Memory {
    /// `bytes` bytes without defined contents. There is always at least one, so that the address is the buffer's own.
    pub(super) fn allocate(device: &Device, bytes: usize) -> Result<Memory> {
        match &device.0 {
            Inner::Cuda(device) => {
                // SAFETY: bytes have no invalid values, and `Buffer` fills them before anybody reads.
                let memory = unsafe { device.default_stream().alloc::<u8>(bytes.max(1)) };
                memory
                    .map(Memory::Cuda)
                    .map_err(|e| cudarc_error(&format!("{bytes} bytes are asked for on {}", device.name()), e))
            }
            Inner::Cpu(device) => device.allocate(bytes).map(Memory::Cpu),
        }
    }

    /// What errors call the device.
    pub(super) fn home(&self) -> String {
        match self {
            Memory::Cuda(slice) => format!("CUDA device {}", slice.ordinal()),
            Memory::Cpu(memory) => memory.device().name().to_owned(),
        }
    }

    pub(super) fn address(&self) -> u64 {
        match self {
            Memory::Cuda(slice) => slice.device_ptr(slice.stream()).0,
            Memory::Cpu(memory) => memory.address(),
        }
    }

    #[inline]
    pub(super) fn bind_read<'s>(&'s self, offset: usize, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        match self {
            Memory::Cuda(slice) => Ok(Bound::cuda_read(slice, stream)?.plus(offset)),
            Memory::Cpu(memory) => Ok(Bound::cpu(memory.address(), memory.device(), stream)?.plus(offset)),
        }
    }

    #[inline]
    pub(super) fn bind_write<'s>(&'s mut self, offset: usize, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        match self {
            Memory::Cuda(slice) => Ok(Bound::cuda_write(slice, stream)?.plus(offset)),
            Memory::Cpu(memory) => Ok(Bound::cpu(memory.address(), memory.device(), stream)?.plus(offset)),
        }
    }

    /// Copies out; waits for the writers.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        match self {
            _ if into.is_empty() => Ok(()),
            Memory::Cuda(slice) => {
                let stream = slice.stream();
                let part = slice.try_slice(offset..offset + into.len()).ok_or_else(out_of_bounds)?;
                stream.memcpy_dtoh(&part, into).map_err(|e| cudarc_error("a download failed", e))?;
                stream.synchronize().map_err(|e| cudarc_error("a download failed", e))
            }
            Memory::Cpu(memory) => memory.read(offset, into),
        }
    }

    /// Copies in; `from` is no longer needed when it returns: of pageable memory the driver takes a copy first, for
    /// pinned memory the stream is waited for.
    pub(super) fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        match self {
            _ if from.is_empty() => Ok(()),
            Memory::Cuda(slice) => {
                let stream: Arc<CudaStream> = slice.stream().clone();
                let mut part = slice.try_slice_mut(offset..offset + from.len()).ok_or_else(out_of_bounds)?;
                stream.memcpy_htod(from, &mut part).map_err(|e| cudarc_error("an upload failed", e))?;
                match Driver::get()?.is_pageable(from) {
                    true => Ok(()),
                    false => stream.synchronize().map_err(|e| cudarc_error("an upload failed", e)),
                }
            }
            Memory::Cpu(memory) => memory.write(offset, from),
        }
    }

    /// Every byte becomes zero.
    pub(super) fn clear(&mut self) -> Result<()> {
        match self {
            Memory::Cuda(slice) => {
                let stream = slice.stream().clone();
                stream.memset_zeros(slice).map_err(|e| cudarc_error("a buffer could not be cleared", e))
            }
            Memory::Cpu(memory) => memory.clear(),
        }
    }

    /// `len` elements from `start` on, as cudarc sees them.
    pub(super) fn as_cuda<T>(&self, start: usize, len: usize) -> Option<CudaView<'_, T>> {
        let Memory::Cuda(slice) = self else { return None };
        let bytes = start * size_of::<T>()..(start + len) * size_of::<T>();
        // SAFETY: a buffer's elements are plain data, and its start is aligned for every type.
        unsafe { slice.try_slice(bytes)?.transmute(len) }
    }
}

#[cold]
fn out_of_bounds() -> Error {
    Error::new(ErrorKind::Condition, "a view reaches past the end of its buffer")
}
