//! Host memory that a device copies from and to without the host: [`Stream::upload`](crate::Stream::upload) and
//! [`Stream::download`](crate::Stream::download) are what it is for.
#![allow(unsafe_code, reason = "the driver hands out memory without contents")]

use super::{Element, too_large};
use crate::device::{Device, Inner};
use crate::driver::cudarc_error;
use crate::error::{Error, ErrorKind, Result};
use crate::param::zero;
use cudarc::driver::PinnedHostSlice;
use std::fmt;

/// A `Vec<T>` in host memory that is locked in place, so that copies between it and a device run beside the host.
///
/// Looking at it waits for the copies that are under way, and so does dropping it.
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
    Cuda(PinnedHostSlice<u8>),
    /// Of the CPU device, whose copies end when they return.
    Cpu(Vec<T>),
}

impl<T> Pinned<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
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
                // SAFETY: the memory is filled before anybody sees it.
                let memory = unsafe { device.context().alloc_pinned_with_flags::<u8>(bytes.max(1), 0) };
                let mut memory = memory.map_err(failed)?;
                // SAFETY: it has that many bytes.
                unsafe { memory.as_mut_ptr().map_err(failed)?.write_bytes(0, bytes.max(1)) };
                Host::Cuda(memory)
            }
            Inner::Cpu(_) => Host::Cpu(zeros(len)?),
        };
        Ok(Pinned { host, len })
    }

    /// The elements, when the copies that are under way have ended.
    ///
    /// # Errors
    /// The error of work that failed while it ran ([`ErrorKind::Fault`](crate::ErrorKind::Fault)), or of the driver.
    pub fn as_slice(&self) -> Result<&[T]> {
        match &self.host {
            Host::Cuda(memory) => {
                let at = memory.as_ptr().map_err(waited)?.cast::<T>();
                // SAFETY: it has that many elements, and starts at a page; any bytes are a value.
                Ok(unsafe { std::slice::from_raw_parts(at, self.len) })
            }
            Host::Cpu(memory) => Ok(memory),
        }
    }

    /// The elements to write, when the copies that are under way have ended.
    ///
    /// # Errors
    /// As [`as_slice`](Pinned::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        match &mut self.host {
            Host::Cuda(memory) => {
                let at = memory.as_mut_ptr().map_err(waited)?.cast::<T>();
                // SAFETY: as above, and it is borrowed mutably.
                Ok(unsafe { std::slice::from_raw_parts_mut(at, self.len) })
            }
            Host::Cpu(memory) => Ok(memory),
        }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({} elements)", std::any::type_name::<T>(), self.len)
    }
}

fn zeros<T: Element>(len: usize) -> Result<Vec<T>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).map_err(|_| no_host_memory(len * size_of::<T>()))?;
    memory.resize(len, zero());
    Ok(memory)
}

#[cold]
fn no_host_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of host memory are asked for"))
        .help("use less at a time, and copy in parts")
}

fn waited(error: cudarc::driver::DriverError) -> Error {
    cudarc_error("a copy from or to pinned memory failed", error)
}
