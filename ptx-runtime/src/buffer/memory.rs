//! The bytes of a buffer, on either kind of device.

use super::Bound;
use super::cuda::CudaMemory;
use super::uses::{Access, Borrow};
use crate::device::cpu::CpuMemory;
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Inner};
use crate::error::Result;
use crate::stream::StreamRef;
use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use std::sync::Arc;

pub(super) enum Memory {
    Cuda(Arc<CudaMemory>),
    Cpu(CpuMemory),
}

impl Memory {
    /// `bytes` bytes without defined contents.
    pub(super) fn allocate(device: &Device, bytes: usize) -> Result<Memory> {
        match &device.0 {
            Inner::Cuda(device) => CudaMemory::allocate(device, bytes).map(Memory::shared),
            Inner::Cpu(device) => device.allocate(bytes).map(Memory::Cpu),
        }
    }

    /// The same, of which other GPUs may have access.
    pub(super) fn reachable(device: &CudaDevice, bytes: usize) -> Result<Memory> {
        CudaMemory::reachable(device, bytes).map(Memory::shared)
    }

    fn shared(memory: CudaMemory) -> Memory {
        Memory::Cuda(Arc::new(memory))
    }

    /// The user's memory.
    pub(super) fn from_slice<T>(slice: CudaSlice<T>) -> Result<Memory> {
        CudaMemory::from_slice(slice).map(Memory::shared)
    }

    /// Name of the device in errors.
    pub(super) fn place(&self) -> String {
        match self {
            Memory::Cuda(memory) => memory.place(),
            Memory::Cpu(memory) => memory.device().name().to_owned(),
        }
    }

    pub(super) fn address(&self) -> u64 {
        match self {
            Memory::Cuda(memory) => memory.address(),
            Memory::Cpu(memory) => memory.used_address(),
        }
    }

    /// The default stream of its device, on which it is filled and read.
    pub(super) fn home(&self) -> StreamRef<'_> {
        match self {
            Memory::Cuda(memory) => StreamRef::cuda(memory.home()),
            Memory::Cpu(memory) => StreamRef::cpu(memory.device()),
        }
    }

    #[inline]
    pub(super) fn bind_read<'s>(&'s self, offset: usize, stream: StreamRef<'s>, borrow: Borrow) -> Result<Bound<'s>> {
        match self {
            Memory::Cuda(memory) => Ok(memory.bind(stream, (Access::Read, borrow))?.plus(offset)),
            Memory::Cpu(memory) => Ok(Bound::cpu(memory.used_address(), memory.device(), stream)?.plus(offset)),
        }
    }

    /// Only for who holds these bytes alone, by a buffer or a view that can be written.
    #[inline]
    pub(super) fn bind_write<'s>(&'s self, offset: usize, stream: StreamRef<'s>, borrow: Borrow) -> Result<Bound<'s>> {
        match self {
            Memory::Cuda(memory) => Ok(memory.bind(stream, (Access::Write, borrow))?.plus(offset)),
            Memory::Cpu(memory) => Ok(Bound::cpu(memory.used_address(), memory.device(), stream)?.plus(offset)),
        }
    }

    /// Copies out; waits for the writers.
    pub(super) fn read(&self, offset: usize, into: &mut [u8], borrow: Borrow) -> Result<()> {
        match self {
            _ if into.is_empty() => Ok(()),
            Memory::Cuda(memory) => memory.read(offset, into, borrow),
            Memory::Cpu(memory) => memory.read(offset, into),
        }
    }

    /// Copies in; `from` is no longer needed when it returns. Only for who holds these bytes alone.
    pub(super) fn write(&self, offset: usize, from: &[u8], borrow: Borrow) -> Result<()> {
        match self {
            _ if from.is_empty() => Ok(()),
            Memory::Cuda(memory) => memory.write(offset, from, borrow),
            Memory::Cpu(memory) => memory.write(offset, from),
        }
    }

    /// Waits for the work on its home stream.
    pub(super) fn wait(&self) -> Result<()> {
        match self {
            Memory::Cuda(memory) => memory.wait(),
            Memory::Cpu(memory) => memory.device().finish().map(drop),
        }
    }

    /// Every byte becomes zero.
    pub(super) fn clear(&mut self) -> Result<()> {
        match self {
            Memory::Cuda(memory) => memory.clear(),
            Memory::Cpu(memory) => memory.clear(),
        }
    }

    /// `len` elements from `start` on, for cudarc to read.
    pub(super) fn lend<T>(&self, start: usize, len: usize) -> Option<CudaView<'_, T>> {
        match self {
            Memory::Cuda(memory) => memory.lend(start, len),
            Memory::Cpu(_) => None,
        }
    }

    /// The same for cudarc to write.
    pub(super) fn lend_mut<T>(&mut self, start: usize, len: usize) -> Option<CudaViewMut<'_, T>> {
        match self {
            Memory::Cuda(memory) => Arc::get_mut(memory)?.lend_mut(start, len),
            Memory::Cpu(_) => None,
        }
    }
}
