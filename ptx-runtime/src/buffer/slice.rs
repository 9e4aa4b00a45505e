//! Device memory as an argument: what may be passed for `&[T]` and `&mut [T]`, and how it is tied to a stream.
#![allow(unsafe_code, reason = "the traits promise memory")]

use super::order::unordered;
use super::{Buffer, Recorded, View, ViewMut};
use crate::context::returning;
use crate::device::cpu::CpuDevice;
use crate::error::{Error, ErrorKind, Result};
use crate::graph;
use crate::param::Arg;
use crate::stream::{Capture, Entered, StreamKind, StreamRef, Turn};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use std::sync::Arc;

/// An argument for a kernel's `&[T]`: `&Buffer<T>`, `&View<T>`, and cudarc's `&CudaSlice<T>`, `&CudaView<T>`; or an [`Option`]
/// of one, whose `None` is the address zero and no elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read by the kernel as `&[{T}]`",
    label = "expected a reference to a buffer or view of `{T}`",
    note = "`&Buffer<{T}>`, `&View<{T}>`, `&CudaSlice<{T}>` and `&CudaView<{T}>` can be passed here; `b`, a `&mut Buffer<{T}>`, as `&*b`"
)]
///
/// # Safety
/// A safe launch relies on both answers. [`len`](ReadSlice::len) returns the same number each time, and the memory that
/// [`bind`](ReadSlice::bind) returns holds that many initialized elements of type `T`, which stay valid and unchanged until the
/// work on the stream has ended; without elements its address is zero. A type that implements several of these traits, or
/// one for several `T`, has the same length in each. A wrapper that passes both calls on to one of the types above keeps the promise.
pub unsafe trait ReadSlice<T> {
    /// Number of elements.
    fn len(&self) -> usize;

    /// Returns true if it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory, made ready to be read by work on `stream`; later writers wait until the result is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when the memory and the stream belong to different devices.
    fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>>;

    /// A stream of the device that it lies on; `None` if it has no memory.
    fn home(&self) -> Option<StreamRef<'_>>;
}

/// An argument for a kernel's `&mut [T]`: `&mut Buffer<T>`, `&mut ViewMut<T>`, and cudarc's `&mut CudaSlice<T>`,
/// `&mut CudaViewMut<T>`; or an [`Option`] of one, whose `None` is the address zero and no elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written by the kernel as `&mut [{T}]`",
    label = "expected a mutable reference to a buffer or view of `{T}`",
    note = "`&mut Buffer<{T}>`, `&mut ViewMut<{T}>`, `&mut CudaSlice<{T}>` and `&mut CudaViewMut<{T}>` can be passed here"
)]
///
/// # Safety
/// A safe launch relies on both answers. [`len`](WriteSlice::len) returns the same number each time, and the memory that
/// [`bind`](WriteSlice::bind) returns holds that many initialized elements of type `T`, which stay valid until the work on the
/// stream has ended and which nothing else reads or writes meanwhile; without elements its address is zero. A type that implements several of these
/// traits, or one for several `T`, has the same length in each. A wrapper that passes both calls on to one of the types above
/// keeps the promise.
pub unsafe trait WriteSlice<T> {
    /// Number of elements.
    fn len(&self) -> usize;

    /// Returns true if it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory, made ready to be written by work on `stream`; later readers and writers wait until the result is
    /// dropped.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when the memory and the stream belong to different devices.
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>>;
}

/// Device memory that is ready for one piece of work on one stream. Dropping it, after the work is submitted, records
/// the use for other streams, where cudarc's context manages them.
pub struct Bound<'s> {
    address: u64,
    _after: After<'s>,
    /// Dropped last: until then no capture begins or ends on the stream. A submission keeps its own.
    _turn: Option<Turn>,
}

/// Action after the work is submitted.
#[allow(dead_code, reason = "both act when they are dropped")]
enum After<'s> {
    Nothing,
    /// An event of ours is recorded.
    Recorded(Recorded<'s>),
    /// cudarc does what it does.
    Cudarc(SyncOnDrop<'s>),
}

impl<'s> Bound<'s> {
    /// As an argument of the launch.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::new(&self.address)
    }

    /// The device address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The same, `bytes` further on.
    #[inline]
    pub(crate) fn plus(self, bytes: usize) -> Bound<'s> {
        Bound { address: self.address + bytes as u64, ..self }
    }

    /// The same, passed by another number: the handle of a texture.
    pub(crate) fn called(self, handle: u64) -> Bound<'s> {
        Bound { address: handle, ..self }
    }

    /// The same, if it has elements; else the address zero, which a kernel can compare with.
    #[inline]
    pub(crate) fn of_elements(self, len: usize) -> Bound<'s> {
        Bound { address: if len == 0 { 0 } else { self.address }, ..self }
    }

    /// No memory: the address zero.
    #[inline]
    fn absent() -> Bound<'s> {
        Bound::recorded(0, None)
    }

    /// Memory of the CPU device.
    #[inline]
    pub(crate) fn cpu(address: u64, home: &CpuDevice, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        match stream.kind {
            StreamKind::Cpu(device) if device.is(home) => Ok(Bound::recorded(address, None)),
            _ => Err(elsewhere(home.name(), stream)),
        }
    }

    /// The same, with the turn that keeps the state of its stream.
    #[inline]
    pub(crate) fn during(self, turn: Option<Turn>) -> Bound<'s> {
        Bound { _turn: turn, ..self }
    }

    /// Memory of cudarc's: `wait` gives its address and lets the stream wait for earlier uses.
    ///
    /// # Errors
    /// Those of the waits, which cudarc parks in the context.
    fn synced(on: &CudaStream, wait: impl FnOnce() -> (u64, SyncOnDrop<'s>)) -> Result<Bound<'s>> {
        let (address, sync) = returning(on.context(), wait).map_err(unordered)?;
        Ok(Bound { address, _after: After::Cudarc(sync), _turn: None })
    }

    /// Memory of ours. `recorded` records the use, if somebody may wait for it.
    #[inline]
    pub(crate) fn recorded(address: u64, recorded: Option<Recorded<'s>>) -> Bound<'s> {
        Bound { address, _after: recorded.map_or(After::Nothing, After::Recorded), _turn: None }
    }

    /// The address alone. cudarc gives it only for a stream that then waits: for one on which nobody else waits, which
    /// leaves the captured one alone.
    #[cold]
    fn captured<T>(slice: &impl DevicePtr<T>, (on, capture): (&CudaStream, Capture)) -> Result<Bound<'s>> {
        graph::note(on, &capture, None)?;
        Ok(Bound::recorded(address_of(slice), None))
    }

    /// Memory of somebody else's on a CUDA device, which nobody orders and no graph holds.
    #[inline]
    pub(crate) fn foreign(address: u64, home: &CudaStream, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let (on, Entered { capture, turn }) = Bound::same_context(home, stream)?;
        if let Some(capture) = capture {
            graph::note(on, &capture, None)?;
        }
        Ok(Bound::recorded(address, None).during(turn))
    }

    /// Memory of cudarc's that work on `stream` will read.
    #[inline]
    pub(crate) fn cuda_read<T>(slice: &'s impl DevicePtr<T>, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let (on, Entered { capture, turn }) = Bound::same_context(slice.stream(), stream)?;
        match capture {
            None => Bound::synced(on, || slice.device_ptr(on)),
            Some(capture) => Bound::captured(slice, (on, capture)),
        }
        .map(|bound| bound.during(turn))
    }

    /// Memory of cudarc's that work on `stream` will write.
    #[inline]
    pub(crate) fn cuda_write<T, S>(slice: &'s mut S, stream: StreamRef<'s>) -> Result<Bound<'s>>
    where
        S: DevicePtr<T> + DevicePtrMut<T>,
    {
        let (on, Entered { capture, turn }) = Bound::same_context(slice.stream(), stream)?;
        match capture {
            None => Bound::synced(on, || slice.device_ptr_mut(on)),
            Some(capture) => Bound::captured(slice, (on, capture)),
        }
        .map(|bound| bound.during(turn))
    }

    /// Returns cudarc's stream and its state, if `home` belongs to the same context.
    #[inline]
    pub(crate) fn same_context(home: &CudaStream, stream: StreamRef<'s>) -> Result<(&'s Arc<CudaStream>, Entered)> {
        match stream.kind {
            StreamKind::Cuda(on) if on.context().cu_ctx() == home.context().cu_ctx() => Ok((on, stream.enter(on)?)),
            _ => Err(elsewhere(&format!("CUDA device {}", home.context().ordinal()), stream)),
        }
    }
}

#[cold]
fn elsewhere(home: &str, stream: StreamRef<'_>) -> Error {
    let stream = stream.to_string();
    let stream = if stream == home { "another such device" } else { &stream };
    Error::new(ErrorKind::WrongDevice, format!("a buffer on {home} is passed to a launch on {stream}"))
        .possible("a kernel reaches only the memory of the device that it runs on")
        .help("make the buffer with the device of the stream, or copy it there with `stream.copy(…)`")
}

/// The address of cudarc's memory. Nothing is ordered by it.
pub(crate) fn address_of<T>(slice: &impl DevicePtr<T>) -> u64 {
    let bystander = slice.stream().context().per_thread_stream();
    let (address, sync) = slice.device_ptr(&bystander);
    std::mem::forget(sync);
    address
}

/// The stream that cudarc's memory was allocated on.
fn of_cudarc<T>(slice: &impl DeviceSlice<T>) -> StreamRef<'_> {
    StreamRef::cuda(slice.stream())
}

/// Implements reading for a type: its binding, and its address. The heads of the implementations are spelled out,
/// since the compiler shows them to whoever passes something else.
macro_rules! readable {
    ($bind:expr, $home:expr) => {
        #[inline]
        fn len(&self) -> usize {
            (**self).len()
        }

        #[inline]
        fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
            Ok($bind(&**self, stream)?.of_elements((**self).len()))
        }

        fn home(&self) -> Option<StreamRef<'_>> {
            Some($home(&**self))
        }
    };
}

/// Implements writing for a type.
macro_rules! writable {
    ($bind:expr) => {
        #[inline]
        fn len(&self) -> usize {
            (**self).len()
        }

        #[inline]
        fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
            let len = (**self).len();
            Ok($bind(&mut **self, stream)?.of_elements(len))
        }
    };
}

#[diagnostic::do_not_recommend]
// SAFETY: a buffer has `len` elements, and orders its uses.
unsafe impl<T> ReadSlice<T> for &Buffer<T> {
    readable!(Buffer::bind_read, Buffer::home);
}

#[diagnostic::do_not_recommend]
// SAFETY: a view lies in its buffer, which orders its uses.
unsafe impl<T> ReadSlice<T> for &View<'_, T> {
    readable!(View::bind_read, View::home);
}

#[diagnostic::do_not_recommend]
// SAFETY: a slice has `len` elements, and cudarc orders its uses.
unsafe impl<T> ReadSlice<T> for &CudaSlice<T> {
    readable!(Bound::cuda_read, of_cudarc);
}

#[diagnostic::do_not_recommend]
// SAFETY: a view lies in its slice, and cudarc orders its uses.
unsafe impl<T> ReadSlice<T> for &CudaView<'_, T> {
    readable!(Bound::cuda_read, of_cudarc);
}

#[diagnostic::do_not_recommend]
// SAFETY: as for `&Buffer`, and it is borrowed alone.
unsafe impl<T> WriteSlice<T> for &mut Buffer<T> {
    writable!(Buffer::bind_write);
}

#[diagnostic::do_not_recommend]
// SAFETY: as for `&View`, and no other view has these elements.
unsafe impl<T> WriteSlice<T> for &mut ViewMut<'_, T> {
    writable!(ViewMut::bind_write);
}

#[diagnostic::do_not_recommend]
// SAFETY: as for `&CudaSlice`, and it is borrowed alone.
unsafe impl<T> WriteSlice<T> for &mut CudaSlice<T> {
    writable!(Bound::cuda_write);
}

#[diagnostic::do_not_recommend]
// SAFETY: as for `&CudaView`, and no other view has these elements.
unsafe impl<T> WriteSlice<T> for &mut CudaViewMut<'_, T> {
    writable!(Bound::cuda_write);
}

#[diagnostic::do_not_recommend]
// SAFETY: calls are passed on; without memory there are no elements.
unsafe impl<T, S: ReadSlice<T>> ReadSlice<T> for Option<S> {
    fn len(&self) -> usize {
        self.as_ref().map_or(0, S::len)
    }

    #[inline]
    fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.as_ref().map_or_else(|| Ok(Bound::absent()), |memory| memory.bind(stream))
    }

    fn home(&self) -> Option<StreamRef<'_>> {
        self.as_ref().and_then(S::home)
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: calls are passed on; without memory there are no elements.
unsafe impl<T, S: WriteSlice<T>> WriteSlice<T> for Option<S> {
    fn len(&self) -> usize {
        self.as_ref().map_or(0, S::len)
    }

    #[inline]
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.as_mut().map_or_else(|| Ok(Bound::absent()), |memory| memory.bind(stream))
    }
}
