//! The memory of a buffer on a CUDA device: cudarc's, with an order of its uses.
#![allow(unsafe_code, reason = "calls of the driver, and memory that is seen as another type")]

use super::order::{Order, Recorded};
use crate::device::cuda::CudaDevice;
use crate::driver::{Driver, cudarc_error};
use crate::error::Result;
use crate::graph;
use crate::param::Bound;
use crate::stream::{Events, StreamRef};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut, result};
use std::sync::Arc;

/// What a use does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Bytes on a device, which a buffer owns and graphs hold. The order is declared, and so dropped, before the slice: it lets the stream that frees it wait.
pub(crate) struct CudaMemory {
    order: Order,
    address: u64,
    slice: CudaSlice<u8>,
}

impl CudaMemory {
    fn new(mut slice: CudaSlice<u8>) -> CudaMemory {
        let (order, address) = Order::of(&mut slice);
        CudaMemory { order, address, slice }
    }

    /// `bytes` bytes without defined contents. There is always at least one, so that the address is the buffer's own.
    pub(super) fn allocate(device: &CudaDevice, bytes: usize) -> Result<CudaMemory> {
        // SAFETY: bytes have no invalid values, and `Buffer` fills them before anybody reads.
        let slice = unsafe { device.default_stream().alloc::<u8>(bytes.max(1)) };
        let failed = |e| cudarc_error(&format!("{bytes} bytes are asked for on {}", device.name()), e);
        slice.map(CudaMemory::new).map_err(failed)
    }

    /// The user's memory.
    pub(super) fn from_slice<T>(slice: CudaSlice<T>) -> Result<CudaMemory> {
        let bytes = slice.num_bytes();
        retype(slice, bytes).map(CudaMemory::new)
    }

    /// As the user's memory.
    pub(super) fn into_slice<T>(self, len: usize) -> Result<CudaSlice<T>> {
        let CudaMemory { order, slice, .. } = self;
        drop(order);
        retype(slice, len)
    }

    /// What errors call the device.
    pub(super) fn place(&self) -> String {
        format!("CUDA device {}", self.slice.ordinal())
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn home(&self) -> &Arc<CudaStream> {
        self.order.home()
    }

    /// Ready to be read or written by work on `stream`; a capture notes it instead.
    #[inline]
    pub(super) fn bind<'s>(self: &'s Arc<Self>, stream: StreamRef<'s>, access: Access) -> Result<Bound<'s>> {
        let (on, events) = Bound::same_context(self.home(), stream)?;
        let recorded = match events {
            Events::Kept => self.ordered(on, access)?,
            Events::LeftOut => {
                graph::note(on, Some((self, access)));
                None
            }
        };
        Ok(Bound::recorded(self.address, recorded))
    }

    /// Lets `on` wait for the uses that come before this one.
    #[inline]
    pub(crate) fn ordered<'s>(&'s self, on: &'s Arc<CudaStream>, access: Access) -> Result<Option<Recorded<'s>>> {
        match access {
            Access::Read => self.order.read(on),
            Access::Write => self.order.write(on),
        }
    }

    /// Copies out on the home stream, and waits.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let (home, failed) = (self.home(), |e| cudarc_error("a download failed", e));
        home.context().bind_to_thread().map_err(failed)?;
        let recorded = self.order.read(home)?;
        // SAFETY: the view lies in the buffer; `into` is borrowed until the stream was waited for.
        unsafe { result::memcpy_dtoh_async(into, self.address + offset as u64, home.cu_stream()) }.map_err(failed)?;
        drop(recorded);
        home.synchronize().map_err(failed)
    }

    /// Copies in on the home stream. `from` is no longer needed when it returns: of pageable memory the driver takes a copy
    /// first, for pinned memory the stream is waited for.
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let (home, failed) = (self.home(), |e| cudarc_error("an upload failed", e));
        home.context().bind_to_thread().map_err(failed)?;
        let recorded = self.order.write(home)?;
        // SAFETY: the view lies in the buffer; what becomes of `from` is said above.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, from, home.cu_stream()) }.map_err(failed)?;
        drop(recorded);
        match Driver::get()?.is_pageable(from) {
            true => Ok(()),
            false => home.synchronize().map_err(failed),
        }
    }

    /// Every byte becomes zero, on the home stream.
    pub(super) fn clear(&self) -> Result<()> {
        let (home, failed) = (self.home(), |e| cudarc_error("a buffer could not be cleared", e));
        home.context().bind_to_thread().map_err(failed)?;
        let _recorded = self.order.write(home)?;
        // SAFETY: all of the buffer, and zero bytes are a value of every plain type.
        unsafe { result::memset_d8_async(self.address, 0, self.slice.len(), home.cu_stream()) }.map_err(failed)
    }

    /// `len` elements from `start` on, for cudarc to read.
    pub(super) fn lend<T>(&self, start: usize, len: usize) -> Option<CudaView<'_, T>> {
        self.order.lend();
        let bytes = start * size_of::<T>()..(start + len) * size_of::<T>();
        // SAFETY: a buffer's elements are plain data, and its start is aligned for every type.
        unsafe { self.slice.try_slice(bytes)?.transmute(len) }
    }

    /// The same for cudarc to write.
    pub(super) fn lend_mut<'a, T>(&'a mut self, start: usize, len: usize) -> Option<CudaViewMut<'a, T>> {
        self.order.lend_mut();
        let bytes = start * size_of::<T>()..(start + len) * size_of::<T>();
        let mut part = self.slice.try_slice_mut(bytes)?;
        // SAFETY: as above.
        let view = unsafe { part.transmute_mut::<T>(len) }?;
        // SAFETY: only the lifetime changes: cudarc ties the view to `part`, a value without a destructor, while what it
        // points to is borrowed as long as the slice is.
        Some(unsafe { std::mem::transmute::<CudaViewMut<'_, T>, CudaViewMut<'a, T>>(view) })
    }
}

/// The same memory as `len` elements of another type.
fn retype<T, U>(slice: CudaSlice<T>, len: usize) -> Result<CudaSlice<U>> {
    let home = slice.stream().clone();
    // cudarc makes two events below, and panics where none can be made: so it is tried before.
    home.context().new_event(None).map_err(|e| cudarc_error("a buffer changes hands", e))?;
    // The home stream waits for the uses of the other streams.
    let address = slice.leak();
    // SAFETY: the memory is that of the slice, which has let go of it; its elements are plain data.
    let mut slice = unsafe { home.upgrade_device_ptr::<U>(address, len) };
    // To the new events all that was before is a write on the home stream.
    drop(slice.device_ptr_mut(&home).1);
    Ok(slice)
}
