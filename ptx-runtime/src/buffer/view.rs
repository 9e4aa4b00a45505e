//! Parts of buffers, and memory of somebody else's.
#![allow(unsafe_code, reason = "memory at a raw address")]

use super::Bound;
use super::Element;
use super::foreign::Foreign;
use super::memory::Memory;
use super::uses::Borrow;
use crate::error::{Error, ErrorKind, Result};
use crate::param::{bytes, bytes_mut, zeros};
use crate::stream::{Stream, StreamRef};
use cudarc::driver::{CudaView, CudaViewMut};
use std::marker::PhantomData;
use std::ops::{Bound as End, Range, RangeBounds};

/// A `&[T]` on a device.
pub struct View<'a, T> {
    memory: Seen<'a>,
    start: usize,
    len: usize,
    element: PhantomData<&'a [T]>,
}

/// A `&mut [T]` on a device.
pub struct ViewMut<'a, T> {
    memory: Held<'a>,
    start: usize,
    len: usize,
    element: PhantomData<&'a mut [T]>,
}

/// The memory of a view, for its own elements.
#[derive(Clone, Copy)]
enum Seen<'a> {
    /// A buffer's. The borrow determines if others may write other elements.
    Buffer(&'a Memory, Borrow),
    /// At a raw address.
    Foreign(Foreign<'a>),
}

/// The memory of a view that can be written.
enum Held<'a> {
    /// Nobody else has any of it.
    Whole(&'a mut Memory),
    /// Other views have other elements.
    Part(&'a Memory),
    /// At a raw address, and the view's own.
    Foreign(Foreign<'a>),
}

impl<'a> Seen<'a> {
    fn address(self) -> u64 {
        match self {
            Seen::Buffer(memory, _) => memory.address(),
            Seen::Foreign(memory) => memory.address(),
        }
    }

    fn home(self) -> StreamRef<'a> {
        match self {
            Seen::Buffer(memory, _) => memory.home(),
            Seen::Foreign(memory) => memory.home(),
        }
    }

    fn read(self, offset: usize, into: &mut [u8]) -> Result<()> {
        match self {
            Seen::Foreign(_) if into.is_empty() => Ok(()),
            Seen::Buffer(memory, borrow) => memory.read(offset, into, borrow),
            Seen::Foreign(memory) => memory.read(offset, into),
        }
    }
}

impl Held<'_> {
    fn seen(&self) -> Seen<'_> {
        match self {
            Held::Whole(memory) => Seen::Buffer(memory, Borrow::Whole),
            Held::Part(memory) => Seen::Buffer(memory, Borrow::Part),
            Held::Foreign(memory) => Seen::Foreign(*memory),
        }
    }

    fn borrow(&mut self) -> Held<'_> {
        match self {
            Held::Whole(memory) => Held::Whole(memory),
            Held::Part(memory) => Held::Part(memory),
            Held::Foreign(memory) => Held::Foreign(*memory),
        }
    }
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'a, T> View<'a, T> {
    pub(super) fn new(memory: &'a Memory, start: usize, len: usize) -> Self {
        View { memory: Seen::Buffer(memory, Borrow::Whole), start, len, element: PhantomData }
    }

    /// `len` elements at a device address, in memory that somebody else owns: another library, another language. On a CUDA device
    /// it is an address of the context of `stream`, on the CPU device one of the device's own memory. Nothing orders the
    /// uses of this memory: no launch waits for another, and a [`Graph`](crate::Graph) that was recorded with it can only be launched
    /// with [`launch_untracked`](crate::Graph::launch_untracked).
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// # use ptx_launch::prelude::*;
    /// # fn main() -> ptx_launch::Result<()> {
    /// let stream = Device::cpu().stream();
    /// let owner = stream.device().upload(&[1.0f32, 2.0, 3.0])?;
    /// // SAFETY: `owner` has three elements at this address, outlives the view, and nobody writes it meanwhile.
    /// let view = unsafe { View::<f32>::from_raw(&stream, owner.address(), 3) };
    /// assert_eq!(view.slice(1..)?.download()?, [2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// From `address` on, the device of `stream` has `len` initialized elements of type `T`, aligned for it, that stay valid, and that
    /// nothing writes, until all work that was submitted with this view has ended.
    pub unsafe fn from_raw(stream: &'a Stream, address: u64, len: usize) -> Self {
        View { memory: Seen::Foreign(Foreign::new(stream, address)), start: 0, len, element: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the range is not inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<View<'a, T>> {
        let range = inside(&range, self.len)?;
        Ok(View { start: self.start + range.start, len: range.len(), ..*self })
    }

    /// The elements before number `at`, and those from it on.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there are not so many.
    pub fn split_at(&self, at: usize) -> Result<(View<'a, T>, View<'a, T>)> {
        Ok((self.slice(..at)?, self.slice(at..)?))
    }

    /// The same elements as another type of the same size.
    pub(crate) fn cast<U: Element>(self) -> Option<View<'a, U>>
    where
        T: Element,
    {
        let View { memory, start, len, .. } = self;
        (size_of::<T>() == size_of::<U>()).then_some(View { memory, start, len, element: PhantomData })
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> View<'a, u8> {
        let (start, len) = (self.start * size_of::<T>(), self.len * size_of::<T>());
        View { memory: self.memory, start, len, element: PhantomData }
    }

    /// cudarc's view of it; `None` on the CPU device, and for memory at a raw address.
    pub fn into_cuda(self) -> Option<CudaView<'a, T>> {
        match self.memory {
            Seen::Buffer(memory, _) => memory.lend(self.start, self.len),
            Seen::Foreign(_) => None,
        }
    }

    pub(crate) fn home(&self) -> StreamRef<'_> {
        self.memory.home()
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.address() + (self.start * size_of::<T>()) as u64
    }

    #[inline]
    pub(crate) fn bind_read<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let offset = self.start * size_of::<T>();
        match &self.memory {
            Seen::Buffer(memory, borrow) => memory.bind_read(offset, stream, *borrow),
            Seen::Foreign(memory) => memory.bind(offset, stream),
        }
    }
}

impl<T: Element> View<'_, T> {
    /// Its contents, when all work that writes it has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`]), or of the driver.
    pub fn download(&self) -> Result<Vec<T>> {
        let mut data = zeros(self.len).ok_or_else(|| no_host_memory(self.len * size_of::<T>()))?;
        self.memory.read(self.start * size_of::<T>(), bytes_mut(&mut data))?;
        Ok(data)
    }
}

impl<'a, T> ViewMut<'a, T> {
    pub(super) fn new(memory: &'a mut Memory, start: usize, len: usize) -> Self {
        ViewMut { memory: Held::Whole(memory), start, len, element: PhantomData }
    }

    /// `len` elements at a device address, in memory that somebody else owns, to write; see [`View::from_raw`].
    ///
    /// # Safety
    /// As [`View::from_raw`], and nothing else reads or writes these elements until all work that was submitted with this view has
    /// ended.
    pub unsafe fn from_raw(stream: &'a Stream, address: u64, len: usize) -> Self {
        ViewMut { memory: Held::Foreign(Foreign::new(stream, address)), start: 0, len, element: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same elements as another type of the same size.
    pub(crate) fn cast<U: Element>(self) -> Option<ViewMut<'a, U>>
    where
        T: Element,
    {
        let ViewMut { memory, start, len, .. } = self;
        (size_of::<T>() == size_of::<U>()).then_some(ViewMut { memory, start, len, element: PhantomData })
    }

    /// The same part, to read.
    pub fn view(&self) -> View<'_, T> {
        View { memory: self.memory.seen(), start: self.start, len: self.len, element: PhantomData }
    }

    /// A part of it, for as long as it is borrowed.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the range is not inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        let range = inside(&range, self.len)?;
        let (start, len) = (self.start + range.start, range.len());
        Ok(ViewMut { memory: self.memory.borrow(), start, len, element: PhantomData })
    }

    /// All of it, for as long as it is borrowed.
    pub(crate) fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { memory: self.memory.borrow(), ..*self }
    }

    pub(crate) fn address(&self) -> u64 {
        self.view().address()
    }

    /// The elements before number `at`, and those from it on, each to be written: by the same kernel, or by two. Kernels on
    /// different streams do not overlap, since the order of uses is that of the whole buffer.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// # fn main() -> ptx_launch::Result<()> {
    /// let device = Device::cpu();
    /// let mut x = device.upload(&[1u32, 2, 3, 4])?;
    /// let (low, mut high) = x.split_at_mut(2)?;
    /// device.stream().copy(&low.view(), &mut high)?;
    /// assert_eq!(x.download()?, [1, 2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there are not so many.
    pub fn split_at_mut(&mut self, at: usize) -> Result<(ViewMut<'_, T>, ViewMut<'_, T>)> {
        self.reborrow().into_halves(at)
    }

    /// cudarc's view of it, to write; `None` on the CPU device, while a [`Graph`](crate::Graph) holds the memory, for memory
    /// at a raw address, and for what was split: cudarc can split its own view.
    pub fn into_cuda(self) -> Option<CudaViewMut<'a, T>> {
        match self.memory {
            Held::Whole(memory) => memory.lend_mut(self.start, self.len),
            Held::Part(_) | Held::Foreign(_) => None,
        }
    }

    /// A part of it, for as long as the buffer is borrowed.
    pub(super) fn into_slice(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let range = inside(&range, self.len)?;
        Ok(ViewMut { start: self.start + range.start, len: range.len(), ..self })
    }

    /// Both halves, for as long as the buffer is borrowed.
    pub(super) fn into_halves(self, at: usize) -> Result<(ViewMut<'a, T>, ViewMut<'a, T>)> {
        let (low, high) = (inside(&(..at), self.len)?, inside(&(at..), self.len)?);
        let memory: Seen<'a> = match self.memory {
            Held::Whole(memory) => Seen::Buffer(memory, Borrow::Part),
            Held::Part(memory) => Seen::Buffer(memory, Borrow::Part),
            Held::Foreign(memory) => Seen::Foreign(memory),
        };
        let half = |half: Range<usize>| ViewMut {
            memory: match memory {
                Seen::Buffer(memory, _) => Held::Part(memory),
                Seen::Foreign(memory) => Held::Foreign(memory),
            },
            start: self.start + half.start,
            len: half.len(),
            element: PhantomData,
        };
        Ok((half(low), half(high)))
    }

    #[inline]
    pub(crate) fn bind_write<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let offset = self.start * size_of::<T>();
        match &self.memory {
            Held::Whole(memory) => memory.bind_write(offset, stream, Borrow::Whole),
            Held::Part(memory) => memory.bind_write(offset, stream, Borrow::Part),
            Held::Foreign(memory) => memory.bind(offset, stream),
        }
    }
}

impl<T: Element> ViewMut<'_, T> {
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
        if data.len() != self.len {
            return Err(other_length(data.len(), self.len));
        }
        let offset = self.start * size_of::<T>();
        match self.memory.seen() {
            Seen::Foreign(_) if data.is_empty() => Ok(()),
            Seen::Buffer(memory, borrow) => memory.write(offset, bytes(data), borrow),
            Seen::Foreign(memory) => memory.write(offset, bytes(data)),
        }
    }
}

/// `range` as indices, if it lies in `0..len`.
fn inside(range: &impl RangeBounds<usize>, len: usize) -> Result<Range<usize>> {
    let start = match range.start_bound() {
        End::Included(at) => Some(*at),
        End::Excluded(at) => at.checked_add(1),
        End::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        End::Included(at) => at.checked_add(1),
        End::Excluded(at) => Some(*at),
        End::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok(start..end),
        _ => Err(outside((range.start_bound(), range.end_bound()), len)),
    }
}

#[cold]
fn outside(range: (End<&usize>, End<&usize>), len: usize) -> Error {
    let start = match range.0 {
        End::Included(at) => at.to_string(),
        End::Excluded(at) => at.saturating_add(1).to_string(),
        End::Unbounded => String::new(),
    };
    let end = match range.1 {
        End::Included(at) => format!("={at}"),
        End::Excluded(at) => at.to_string(),
        End::Unbounded => String::new(),
    };
    Error::new(ErrorKind::Condition, format!("the elements {start}..{end} are asked for"))
        .possible(format!("a range inside 0..{len}"))
}

#[cold]
fn other_length(data: usize, len: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("{data} elements are written to a buffer of {len}"))
        .possible("as many elements as the buffer or view has")
        .help("take a part with `slice_mut(..)`, or make another buffer with `device.upload(…)`")
}

#[cold]
fn no_host_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of host memory are needed for a download"))
        .help("download it in parts, with `slice(..)`")
}
