//! Memory that CPU devices of several processes share.
#![allow(unsafe_code, reason = "memory that is mapped")]

use crate::error::{Error, ErrorKind, Result};
use ptx_interp::OutsideMemory;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// Parts of a file begin at a multiple of this, which is one of every page size.
const ROOM: usize = 64 << 10;
/// The most bytes of a file: as many as a CPU device has.
const MOST: usize = 1 << 36;

/// Bytes of a part with its room.
fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(ROOM)
}

/// A file in memory with two parts, of so many bytes, which are zero. Nobody can change its length.
pub(crate) fn allocate([first, second]: [usize; 2]) -> Result<OwnedFd> {
    let bytes = first.checked_add(second).filter(|bytes| *bytes <= MOST - 2 * ROOM);
    let bytes = bytes.ok_or_else(|| no_memory(first, "more than a CPU device has"))?;
    let made = || -> io::Result<OwnedFd> {
        let file = memfd_create("ptx-symmetric", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (room(first) + room(second)) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    };
    made().map_err(|error| no_memory(bytes, &error.to_string()))
}

/// Maps both parts of a file that [`allocate`] made, in this process or in another one.
pub(crate) fn map(file: &OwnedFd, [first, second]: [usize; 2]) -> Result<[Mapping; 2]> {
    let whole = || -> io::Result<bool> {
        let len = rustix::fs::fstat(file)?.st_size as usize;
        Ok(fcntl_get_seals(file)?.contains(SealFlags::SHRINK) && len == room(first) + room(second))
    };
    let mapped =
        |bytes: usize, at: usize| Mapping::new(file, bytes, at).map_err(|error| no_memory(bytes, &error.to_string()));
    match whole() {
        Ok(true) => Ok([mapped(first, 0)?, mapped(second, room(first))?]),
        _ => Err(Error::new(ErrorKind::Fault, "what another rank sent is no memory of the agreed length")),
    }
}

/// Bytes of a file in memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory without a thread of its own; `&mut` is needed to write.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, len: usize, at: usize) -> io::Result<Mapping> {
        let start = match len {
            0 => NonNull::dangling(),
            len => {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                // SAFETY: the kernel chooses the place; the file has so many bytes behind `at`, and cannot become shorter.
                let start = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, file.as_fd(), at as u64) }?;
                NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?
            }
        };
        Ok(Mapping { start, len })
    }
}

impl OutsideMemory for Mapping {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as `self` is. The machine that has it is only used under the lock of the group, and so are those
        // of the other processes: nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody reads, either.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: it was mapped with this length, and nobody has a reference to it.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

#[cold]
fn no_memory(bytes: usize, why: &str) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes are to be shared with other processes: {why}"))
}
