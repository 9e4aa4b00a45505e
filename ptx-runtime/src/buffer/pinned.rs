//! Host memory that a device copies from and to without the host: [`Stream::upload`](crate::Stream::upload) and
//! [`Stream::download`](crate::Stream::download) are what it is for.
#![allow(unsafe_code, reason = "the driver hands out memory without contents")]

use super::order::wait_for_all;
use super::uses::{Access, Borrow, Queue, Recorded, Uses};
use super::{Element, too_large};
use crate::context::{bind, note, set_aside, within};
use crate::device::{Device, Inner};
use crate::driver::Handle;
use crate::driver::cudarc_error;
use crate::error::{Error, ErrorKind, Result};
use crate::param::zeros;
use crate::stream::Submission;
use cudarc::driver::{CudaContext, CudaStream, DriverError, PinnedHostSlice};
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `Vec<T>` in host memory that is locked in place, so that copies between it and a device run beside the host.
///
/// [`as_slice`](Pinned::as_slice) waits for the copies that write it, [`as_mut_slice`](Pinned::as_mut_slice) and dropping it wait for all
/// copies that use it, on whichever stream they run. Each copy records an event of its own: later work of the stream is not waited
/// for.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (stream, mut x) = (device.stream(), device.zeros::<f32>(4)?);
/// let (mut host, mut back) = (device.pinned(4)?, device.pinned(4)?);
/// host.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// stream.upload(&host, &mut x)?;
/// stream.download(&x, &mut back)?;
/// assert_eq!(back.as_slice()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct Pinned<T> {
    pub(crate) host: Host<T>,
    len: usize,
}

pub(crate) enum Host<T> {
    /// Of a CUDA context.
    Cuda(PinnedMemory),
    /// Of the CPU device, whose copies end when they return.
    Cpu(Vec<T>),
}

impl<T> Pinned<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Element> Pinned<T> {
    /// `len` zeros.
    pub(crate) fn zeroed(device: &Device, len: usize) -> Result<Pinned<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| too_large(len, size_of::<T>()))?;
        let host = match &device.0 {
            Inner::Cuda(device) => {
                let asked = format!("{bytes} bytes of pinned host memory are asked for");
                let failed = |e| cudarc_error(&asked, e);
                Host::Cuda(PinnedMemory::zeroed(device.context(), bytes).map_err(failed)?)
            }
            Inner::Cpu(_) => Host::Cpu(zeros(len).ok_or_else(|| no_host_memory(len * size_of::<T>()))?),
        };
        Ok(Pinned { host, len })
    }

    /// The elements, when the copies that write them have ended.
    ///
    /// # Errors
    /// The error of work that failed while it ran ([`ErrorKind::Fault`](crate::ErrorKind::Fault)), or of the driver.
    pub fn as_slice(&self) -> Result<&[T]> {
        match &self.host {
            Host::Cuda(memory) => {
                memory.wait(Access::Read).map_err(waited)?;
                let at = memory.at.0.cast::<T>();
                // SAFETY: it has that many elements, and starts at a page; any bytes are a value.
                Ok(unsafe { std::slice::from_raw_parts(at, self.len) })
            }
            Host::Cpu(memory) => Ok(memory),
        }
    }

    /// The elements to write, when all copies that use them have ended.
    ///
    /// # Errors
    /// As [`as_slice`](Pinned::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        match &mut self.host {
            Host::Cuda(memory) => {
                memory.wait(Access::Write).map_err(waited)?;
                let at = memory.at.0.cast::<T>();
                // SAFETY: as above, and it is borrowed mutably.
                Ok(unsafe { std::slice::from_raw_parts_mut(at, self.len) })
            }
            Host::Cpu(memory) => Ok(memory),
        }
    }
}

/// Bytes that a CUDA context has locked, and the copies that are under way.
pub(crate) struct PinnedMemory {
    context: Arc<CudaContext>,
    /// There until it is freed. cudarc's own event is never recorded.
    slice: Option<PinnedHostSlice<u8>>,
    at: Handle<*mut u8>,
    uses: Mutex<Uses>,
    /// Copies that are being submitted.
    open: AtomicUsize,
}

impl PinnedMemory {
    /// `bytes` bytes, and at least one.
    fn zeroed(context: &Arc<CudaContext>, bytes: usize) -> Result<PinnedMemory, DriverError> {
        bind(context)?;
        // SAFETY: the memory is filled before anybody sees it.
        let mut slice = unsafe { context.alloc_pinned_with_flags::<u8>(bytes.max(1), 0) }?;
        let at = slice.as_mut_ptr()?;
        // SAFETY: it has that many bytes.
        unsafe { at.write_bytes(0, bytes.max(1)) };
        let (uses, open) = (Mutex::default(), AtomicUsize::new(0));
        Ok(PinnedMemory { context: context.clone(), slice: Some(slice), at: Handle(at), uses, open })
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The first byte.
    pub(crate) fn at(&self) -> *mut u8 {
        self.at.0
    }

    /// Lets `on` wait for the copies that one of this kind must come after. `Access::Write` needs `&mut Pinned`.
    pub(crate) fn begin<'s>(
        &'s self,
        on: &'s Arc<CudaStream>,
        access: Access,
        submission: &'s Submission<'s>,
    ) -> Result<Recorded<'s>> {
        let (mut uses, queue) = (self.uses(), Queue::of(on));
        let open = self.open.load(Acquire) > 0;
        uses.follow(on, access, open).map_err(waited)?;
        if access == Access::Write {
            uses.retire_others(Some(queue));
            self.open.store(0, Relaxed);
        }
        let mark = uses.enter(on, (access, Borrow::Whole), (false, open), Some(submission)).map_err(waited)?;
        self.open.fetch_add(1, Relaxed);
        Ok(Recorded { on, queue, open: &self.open, mark, theirs: None, busy: None })
    }

    /// Waits on the host for the copies that write it, or for all.
    fn wait(&self, access: Access) -> Result<(), DriverError> {
        let mut uses = self.uses();
        uses.wait(access, self.open.load(Acquire) > 0)?;
        if access == Access::Write {
            uses.retire_others(None);
            self.open.store(0, Relaxed);
        }
        Ok(())
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PinnedMemory {
    /// Memory that a copy may still use is never freed: it is set aside, with the uses.
    fn drop(&mut self) {
        let (slice, waited) = (self.slice.take(), within(&self.context, || self.wait(Access::Write)));
        let ended = waited.or_else(|error| wait_for_all(&self.context, error));
        if ended.is_ok() {
            let freed = within(&self.context, || {
                drop(slice);
                Ok(())
            });
            note(&self.context, freed);
        } else if let Some(slice) = slice {
            let (context, uses) = (self.context.clone(), std::mem::take(&mut *self.uses()));
            let open = AtomicUsize::new(self.open.load(Relaxed));
            let memory = PinnedMemory { context, slice: Some(slice), at: self.at, uses: Mutex::new(uses), open };
            set_aside(Box::new(memory));
        }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({} elements)", std::any::type_name::<T>(), self.len)
    }
}

#[cold]
fn no_host_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of host memory are asked for"))
        .help("use less at a time, and copy in parts")
}

fn waited(error: DriverError) -> Error {
    cudarc_error("a copy from or to pinned memory failed", error)
}
