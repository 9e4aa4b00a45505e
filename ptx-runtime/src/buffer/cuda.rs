//! The memory of a buffer on a CUDA device: cudarc's, with an order of its uses.
#![allow(unsafe_code, reason = "calls of the driver, and memory that is seen as another type")]

use super::Bound;
use super::order::{Order, note_unless_captured, parts, patiently};
use super::uses::{Access, Borrow, Recorded};
use crate::context::{Event, bind, drop_aside, free, record, set_aside, synchronize, wait_for, within};
use crate::device::cuda::CudaDevice;
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::graph;
#[cfg(all(target_os = "linux", feature = "processes"))]
use crate::process_group::handles::Mapping;
use crate::stream::{Entered, StreamRef, Submission, Turn, is_per_thread, synchronize_context, unknown_state};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError, result};
use std::sync::Arc;

/// Bytes on a device, which a buffer owns and graphs hold.
pub(crate) struct CudaMemory {
    order: Order,
    address: u64,
    len: usize,
    /// There until the memory is given away or freed.
    slice: Option<CudaSlice<u8>>,
    /// What it lies in, if that is memory that processes share.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    mapping: Option<Arc<Mapping>>,
}

impl CudaMemory {
    fn new(mut slice: CudaSlice<u8>) -> Result<CudaMemory> {
        let (order, address) = Order::of(&mut slice)?;
        let mut memory = CudaMemory::without_slice(order, (address, slice.len()));
        memory.slice = Some(slice);
        Ok(memory)
    }

    fn without_slice(order: Order, (address, len): (u64, usize)) -> CudaMemory {
        CudaMemory {
            order,
            address,
            len,
            slice: None,
            #[cfg(all(target_os = "linux", feature = "processes"))]
            mapping: None,
        }
    }

    /// `len` bytes of memory that processes share, from `offset` on. The last that has the mapping waits for the device, and frees it.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(super) fn of_mapping(device: &CudaDevice, mapping: Arc<Mapping>, (offset, len): (usize, usize)) -> CudaMemory {
        let (order, address) = (Order::of_module(device.default_stream().clone()), mapping.address() + offset as u64);
        let mut memory = CudaMemory::without_slice(order, (address, len));
        memory.mapping = Some(mapping);
        memory
    }

    /// `bytes` bytes without defined contents. There is always at least one, so that the address is the buffer's own.
    pub(super) fn allocate(device: &CudaDevice, bytes: usize) -> Result<CudaMemory> {
        drop_aside();
        // SAFETY: bytes have no invalid values, and `Buffer` fills them before anybody reads.
        let slice = bind(device.context()).and_then(|()| unsafe { device.default_stream().alloc::<u8>(bytes.max(1)) });
        let failed = |e| cudarc_error(&format!("{bytes} bytes are asked for on {}", device.name()), e);
        slice.map_err(failed).and_then(CudaMemory::new)
    }

    /// The same outside of the driver's pools, whose memory other GPUs do not reach.
    pub(super) fn reachable(device: &CudaDevice, bytes: usize) -> Result<CudaMemory> {
        drop_aside();
        let bytes = bytes.max(1);
        // SAFETY: the context is current; the memory is handed over to a slice.
        let address = bind(device.context()).and_then(|()| unsafe { result::malloc_sync(bytes) });
        let failed = |e| cudarc_error(&format!("{bytes} bytes are asked for on {}", device.name()), e);
        // SAFETY: nobody else has the memory, which has so many bytes. The driver frees it in the order of a stream, too.
        let slice = address.map(|address| unsafe { device.default_stream().upgrade_device_ptr::<u8>(address, bytes) });
        slice.map_err(failed).and_then(CudaMemory::new)
    }

    /// The user's memory.
    pub(super) fn from_slice<T>(slice: CudaSlice<T>) -> Result<CudaMemory> {
        let bytes = slice.num_bytes();
        if is_per_thread(slice.stream()) {
            // Another thread may have allocated and written it on its own stream of that name.
            synchronize_context(slice.context()).map_err(changes_hands)?;
        }
        retype(slice, bytes).and_then(CudaMemory::new)
    }

    /// A variable of a module, which lives as long as the context. Every launch may use it, so no borrow orders its uses: each has it
    /// alone until it is submitted, as graphs do.
    pub(crate) fn of_module(context: &Arc<CudaContext>, address: u64, len: usize) -> CudaMemory {
        CudaMemory::without_slice(Order::of_module(context.default_stream()), (address, len))
    }

    /// As [`bind`](CudaMemory::bind), for variables of modules.
    pub(crate) fn bind_shared<'s>(self: &'s Arc<Self>, stream: StreamRef<'s>, access: Access) -> Result<Bound<'s>> {
        self.bind_by(stream, access, |on| patiently(|| self.begin_graph(on, access, stream.submission)).map(Some))
    }

    /// Copies all of a module's variable out on `on`, and waits.
    pub(crate) fn read_shared(self: &Arc<Self>, on: &Arc<CudaStream>, into: &mut [u8]) -> Result<()> {
        let _turn = outside_of_captures(on, captured)?;
        // As a write: it waits for all uses, so that they can be forgotten, and their streams.
        let recorded = patiently(|| self.begin_graph(on, Access::Write, None))?;
        let begun = self.order.begun();
        self.copy_out(on, recorded, 0, into)?;
        self.order.ended(begun);
        Ok(())
    }

    /// Copies all of a module's variable in on `on`; see [`write`](CudaMemory::write).
    pub(crate) fn write_shared(self: &Arc<Self>, on: &Arc<CudaStream>, from: &[u8]) -> Result<()> {
        let _turn = outside_of_captures(on, captured)?;
        let recorded = patiently(|| self.begin_graph(on, Access::Write, None))?;
        self.copy_in(on, recorded, 0, from)
    }

    /// As the user's memory.
    pub(super) fn into_slice<T>(mut self, len: usize) -> Result<CudaSlice<T>> {
        self.order.lend_mut().map_err(changes_hands)?;
        let slice = self.slice.take().ok_or_else(|| changes_hands(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE)))?;
        retype(slice, len)
    }

    /// Name of the device in errors.
    pub(super) fn place(&self) -> String {
        format!("CUDA device {}", self.home().context().ordinal())
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn home(&self) -> &Arc<CudaStream> {
        self.order.home()
    }

    /// Ready to be read or written by work on `stream`.
    #[inline]
    pub(super) fn bind<'s>(
        self: &'s Arc<Self>,
        stream: StreamRef<'s>,
        (access, borrow): (Access, Borrow),
    ) -> Result<Bound<'s>> {
        self.bind_by(stream, access, |on| self.begin(on, (access, borrow), stream.submission))
    }

    /// Ready for work on `stream`: `begin` lets it wait for other uses. A capture notes the memory instead.
    #[inline]
    fn bind_by<'s>(
        self: &'s Arc<Self>,
        stream: StreamRef<'s>,
        access: Access,
        begin: impl FnOnce(&'s Arc<CudaStream>) -> Result<Option<Recorded<'s>>>,
    ) -> Result<Bound<'s>> {
        let (on, Entered { capture, turn }) = Bound::same_context(self.home(), stream)?;
        let recorded = match capture {
            None => begin(on)?,
            Some(capture) => {
                graph::note(on, &capture, Some((self, access)))?;
                None
            }
        };
        Ok(Bound::recorded(self.address, recorded).during(turn))
    }

    #[inline]
    fn begin<'s>(
        self: &'s Arc<Self>,
        on: &'s Arc<CudaStream>,
        uses: (Access, Borrow),
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Option<Recorded<'s>>> {
        self.order.begin(on, uses, submission, || Arc::strong_count(self) == 1)
    }

    /// A graph holds it from now on.
    pub(crate) fn hold(&self) {
        self.order.hold();
    }

    /// Lets `on` wait for the uses that come before the launch of a graph; `None` if another thread is about to submit one.
    pub(crate) fn begin_graph<'s>(
        &'s self,
        on: &'s Arc<CudaStream>,
        access: Access,
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Option<Recorded<'s>>> {
        self.order.begin_graph(on, access, submission)
    }

    /// Copies out on the home stream, and waits.
    pub(super) fn read(self: &Arc<Self>, offset: usize, into: &mut [u8], borrow: Borrow) -> Result<()> {
        let (home, _turn) = (self.home(), outside_of_captures(self.home(), captured)?);
        let recorded = self.begin(home, (Access::Read, borrow), None)?;
        self.copy_out(home, recorded, offset, into)
    }

    /// Copies out on a stream that is not captured, and waits. `recorded` records the use.
    fn copy_out<R>(&self, on: &CudaStream, recorded: R, offset: usize, into: &mut [u8]) -> Result<()> {
        bind(on.context()).map_err(downloads)?;
        // SAFETY: the view lies in the buffer; `into` is borrowed until the stream was waited for.
        unsafe { result::memcpy_dtoh_async(into, self.address + offset as u64, on.cu_stream()) }.map_err(downloads)?;
        drop(recorded);
        synchronize(on).map_err(downloads)
    }

    /// Copies in on the home stream. `from` is no longer needed when it returns: of pageable memory the driver takes a copy
    /// first, for pinned memory the stream is waited for.
    pub(super) fn write(self: &Arc<Self>, offset: usize, from: &[u8], borrow: Borrow) -> Result<()> {
        let (home, _turn) = (self.home(), outside_of_captures(self.home(), captured)?);
        let recorded = self.begin(home, (Access::Write, borrow), None)?;
        self.copy_in(home, recorded, offset, from)
    }

    /// Copies in on a stream that is not captured. `recorded` records the use.
    fn copy_in<R>(&self, on: &CudaStream, recorded: R, offset: usize, from: &[u8]) -> Result<()> {
        bind(on.context()).map_err(uploads)?;
        // SAFETY: the view lies in the buffer; what becomes of `from` is said at `write`.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, from, on.cu_stream()) }.map_err(uploads)?;
        drop(recorded);
        match Driver::get()?.is_pageable(from) {
            true => Ok(()),
            false => synchronize(on).map_err(uploads),
        }
    }

    /// Waits for the work on the home stream. If that is all there was, nothing waits for it anymore.
    pub(super) fn wait(&self) -> Result<()> {
        let begun = self.order.begun();
        synchronize(self.home()).map_err(|e| cudarc_error("work on a buffer failed", e))?;
        self.order.ended(begun);
        Ok(())
    }

    /// Every byte becomes zero, on the home stream.
    pub(super) fn clear(self: &Arc<Self>) -> Result<()> {
        let home = self.home();
        let _bound = self.bind(StreamRef::cuda(home), (Access::Write, Borrow::Whole))?;
        bind(home.context()).map_err(|e| cudarc_error("a buffer could not be cleared", e))?;
        // SAFETY: all of the buffer, and zero bytes are a value of every plain type.
        unsafe { result::memset_d8_async(self.address, 0, self.len, home.cu_stream()) }
            .map_err(|e| cudarc_error("a buffer could not be cleared", e))
    }

    /// `len` elements from `start` on, for cudarc to read.
    pub(super) fn lend<T>(&self, start: usize, len: usize) -> Option<CudaView<'_, T>> {
        let slice = self.slice.as_ref().filter(|_| self.order.lend())?;
        let bytes = start * size_of::<T>()..(start + len) * size_of::<T>();
        // SAFETY: a buffer's elements are plain data, and its start is aligned for every type.
        unsafe { slice.try_slice(bytes)?.transmute(len) }
    }

    /// The same for cudarc to write.
    pub(super) fn lend_mut<'a, T>(&'a mut self, start: usize, len: usize) -> Option<CudaViewMut<'a, T>> {
        let lent = self.order.lend_mut();
        let is_lent = lent.is_ok();
        note_unless_captured(self.home().context(), lent);
        let bytes = start * size_of::<T>()..(start + len) * size_of::<T>();
        let mut part = self.slice.as_mut().filter(|_| is_lent)?.try_slice_mut(bytes)?;
        // SAFETY: as above.
        let view = unsafe { part.transmute_mut::<T>(len) }?;
        // SAFETY: only the lifetime changes: cudarc ties the view to `part`, a value without a destructor, while what it
        // points to is borrowed as long as the slice is.
        Some(unsafe { std::mem::transmute::<CudaViewMut<'_, T>, CudaViewMut<'a, T>>(view) })
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        let Some(slice) = self.slice.take() else { return };
        let order = std::mem::replace(&mut self.order, Order::of_module(slice.stream().clone()));
        drop_aside();
        drop(Dropped(Some((order, slice))));
    }
}

/// Memory that nobody has any more. Dropping it frees it, or sets it aside: memory that may still be in use is never freed.
struct Dropped(Option<(Order, CudaSlice<u8>)>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let Some((order, slice)) = self.0.take() else { return };
        let home = slice.stream().clone();
        let freed = within(home.context(), || {
            // The stream that frees the memory waits for all uses.
            let gathered = order.gather().and_then(|()| order.home_outside_of_captures());
            let Ok(_turn) = gathered else {
                set_aside(Box::new(Dropped(Some((order, slice)))));
                return gathered.map(drop);
            };
            // SAFETY: the slice lets go of the memory, and the home stream comes after all uses.
            unsafe { free(slice.leak(), &home) }
        });
        note_unless_captured(home.context(), freed);
    }
}

/// The same memory as `len` elements of another type.
fn retype<T, U>(mut slice: CudaSlice<T>, len: usize) -> Result<CudaSlice<U>> {
    let home = slice.stream().clone();
    // cudarc makes two events below, and panics where none can be made: so it is tried before.
    Event::new(home.context()).map_err(changes_hands)?;
    // The home stream waits for the uses of the other streams, also where cudarc no longer does.
    for event in parts(&mut slice).map_err(changes_hands)?.1.into_iter().flatten() {
        wait_for(&home, event).map_err(changes_hands)?;
    }
    let address = slice.leak();
    // SAFETY: the memory is that of the slice, which has let go of it; its elements are plain data.
    let mut slice = unsafe { home.upgrade_device_ptr::<U>(address, len) };
    // To the new events all that was before is a write on the home stream.
    if let (_, Some([_, write])) = parts(&mut slice).map_err(changes_hands)? {
        record(write, &home).map_err(changes_hands)?;
    }
    Ok(slice)
}

/// Keeps a stream, on which the host copies, out of captures.
///
/// # Errors
/// `captured` if it is in one, and those of the driver.
pub(super) fn outside_of_captures(on: &CudaStream, captured: fn() -> Error) -> Result<Option<Turn>> {
    let Entered { capture, turn } = Entered::on(on).map_err(unknown_state)?;
    if capture.is_none() { Ok(turn) } else { Err(captured()) }
}

#[cold]
fn downloads(error: DriverError) -> Error {
    cudarc_error("a download failed", error)
}

#[cold]
fn uploads(error: DriverError) -> Error {
    cudarc_error("an upload failed", error)
}

#[cold]
fn changes_hands(error: DriverError) -> Error {
    cudarc_error("a buffer changes hands", error)
}

#[cold]
fn captured() -> Error {
    Error::new(ErrorKind::Unsupported, "a buffer is copied from or to the host in a capture of its own stream")
        .possible("launches, fills, and copies between device memory can be captured")
        .help("copy before the capture, or after the graph")
}
