//! Buffers: memory of a device, typed, and its parts ([`View`], [`ViewMut`]). Nothing here launches.

mod allocate;
#[cfg(feature = "check")]
mod any;
mod cuda;
mod events;
mod foreign;
mod memory;
mod order;
mod pinned;
mod slice;
mod uses;
mod view;

#[cfg(feature = "check")]
pub use any::AnyMemory;
pub(crate) use cuda::CudaMemory;
pub(crate) use order::patiently;
pub(crate) use pinned::Host;
pub use pinned::Pinned;
pub(crate) use slice::address_of;
pub use slice::{Bound, ReadSlice, WriteSlice};
pub(crate) use uses::{Access, Recorded};
pub use view::{View, ViewMut};

use crate::device::Device;
#[cfg(all(target_os = "linux", feature = "cpu", feature = "processes"))]
use crate::device::cpu::CpuMemory;
use crate::device::cuda::CudaDevice;
use crate::error::{Error, ErrorKind, Result};
use crate::param::KernelParam;
#[cfg(all(target_os = "linux", feature = "processes"))]
use crate::process_group::handles::Mapping;
use crate::stream::StreamRef;
use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use memory::Memory;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;
use uses::Borrow;

/// Element of a buffer: plain data, as kernels take it by value. Numbers, arrays of them, and structs with
/// `#[derive(KernelParam)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a buffer",
    label = "expected integers, floats, or structs with `#[derive(KernelParam)]`"
)]
pub trait Element: KernelParam {}
impl<T: KernelParam> Element for T {}

/// A `Vec<T>` on a device. It belongs to the device that made it, and keeps it alive.
///
/// Uses of a buffer run in the order in which they are submitted, whichever streams and threads submit them: a use waits for the
/// earlier ones that it conflicts with, and the memory is freed after all of them. This holds when a stream, its device or a graph
/// is dropped meanwhile: a buffer keeps the streams alive that may still use it.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let mut x = device.upload(&[1.0f32, 2.0, 3.0])?;
/// x.slice_mut(1..)?.write(&[5.0, 6.0])?;
/// assert_eq!(x.download()?, [1.0, 5.0, 6.0]);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Buffer<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, to read.
    pub fn view(&self) -> View<'_, T> {
        View::new(&self.memory, 0, self.len)
    }

    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.memory, 0, self.len)
    }

    /// A part, to read.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().slice(range)
    }

    /// A part, to write.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the range is not inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.view_mut().into_slice(range)
    }

    /// The elements before number `at`, and those from it on, each to be written.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there are not so many.
    pub fn split_at_mut(&mut self, at: usize) -> Result<(ViewMut<'_, T>, ViewMut<'_, T>)> {
        self.view_mut().into_halves(at)
    }

    /// Its address on the device, for kernels whose PTX declares a pointer as a mere `.u64`. Nothing orders such a
    /// launch after the work of other streams: use the stream that the buffer's device has, or wait.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// cudarc's view of it, for its other libraries; `None` on the CPU device, and if the driver fails.
    ///
    /// cudarc orders its uses by its own events: with one event for all reads of a view, and only among streams of the context that
    /// the buffer belongs to.
    pub fn as_cuda(&self) -> Option<CudaView<'_, T>> {
        self.view().into_cuda()
    }

    /// cudarc's view of it, to write; `None` on the CPU device, and while a [`Graph`](crate::Graph) holds the memory.
    pub fn as_cuda_mut(&mut self) -> Option<CudaViewMut<'_, T>> {
        self.view_mut().into_cuda()
    }

    pub(crate) fn home(&self) -> StreamRef<'_> {
        self.memory.home()
    }

    /// Waits for the work on its home stream, and forgets it: nothing waits for it anymore.
    pub(crate) fn wait(&self) -> Result<()> {
        self.memory.wait()
    }

    #[inline]
    pub(crate) fn bind_read<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.memory.bind_read(0, stream, Borrow::Whole)
    }

    #[inline]
    pub(crate) fn bind_write<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.memory.bind_write(0, stream, Borrow::Whole)
    }
}

impl<T: Element> Buffer<T> {
    /// Memory with no defined contents; the callers fill it at once.
    pub(crate) fn allocate(device: &Device, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let memory = Memory::allocate(device, bytes.ok_or_else(|| too_large(len, size_of::<T>()))?)?;
        Ok(Buffer { memory, len, element: PhantomData })
    }

    /// The same from `cuMemAlloc`: memory that other GPUs reach once their contexts have access to this one's.
    pub(crate) fn reachable(device: &CudaDevice, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let memory = Memory::reachable(device, bytes.ok_or_else(|| too_large(len, size_of::<T>()))?)?;
        Ok(Buffer { memory, len, element: PhantomData })
    }

    /// Memory that lies in a mapping of processes.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(crate) fn of_mapping(device: &CudaDevice, mapping: Arc<Mapping>, offset: usize, len: usize) -> Buffer<T> {
        let memory = CudaMemory::of_mapping(device, mapping, (offset, len * size_of::<T>()));
        Buffer { memory: Memory::Cuda(Arc::new(memory)), len, element: PhantomData }
    }

    /// Memory of a CPU device that processes share.
    #[cfg(all(target_os = "linux", feature = "cpu", feature = "processes"))]
    pub(crate) fn of_cpu(memory: CpuMemory, len: usize) -> Buffer<T> {
        Buffer { memory: Memory::Cpu(memory), len, element: PhantomData }
    }

    /// The same memory, taken over from cudarc. It stays with the stream that it was allocated on, which frees it.
    ///
    /// # Errors
    /// An error of the driver; the memory is freed then.
    pub fn from_cuda(slice: CudaSlice<T>) -> Result<Buffer<T>> {
        let len = slice.len();
        Ok(Buffer { memory: Memory::from_slice(slice)?, len, element: PhantomData })
    }

    /// The same memory, handed over to cudarc.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on the CPU device and while a [`Graph`](crate::Graph) holds the memory, or what the driver
    /// error; the buffer is gone then.
    pub fn into_cuda(self) -> Result<CudaSlice<T>> {
        match self.memory {
            Memory::Cuda(memory) => Arc::into_inner(memory).ok_or_else(held)?.into_slice(self.len),
            Memory::Cpu(_) => Err(not_cuda()),
        }
    }

    /// Its contents, when all work that writes it has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`]), or of the driver.
    pub fn download(&self) -> Result<Vec<T>> {
        self.view().download()
    }

    /// Overwrites it with `data`, which may be changed or dropped as soon as this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the lengths differ, or an error of the driver.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.view_mut().write(data)
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn clear(&mut self) -> Result<()> {
        self.memory.clear()
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} elements on {})", std::any::type_name::<T>(), self.len, self.memory.place())
    }
}

#[cold]
fn too_large(len: usize, size: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("a buffer of {len} elements of {size} bytes is asked for"))
        .possible("a buffer may have as many bytes as an `isize` can count")
}

#[cold]
fn held() -> Error {
    Error::new(ErrorKind::Unsupported, "a buffer that a graph was recorded with is handed over to cudarc")
        .possible("buffers that no graph holds")
        .help("drop the graph before")
}

#[cold]
fn not_cuda() -> Error {
    Error::new(ErrorKind::Unsupported, "a buffer of the CPU device is handed over to cudarc")
        .possible("buffers of CUDA devices")
        .help("`download` it, and upload what that gives")
}
