//! Memory of a GPU that other processes map, too: by the driver's virtual memory, whose handles pass as open files.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::context::{bound, note, set_aside, within};
use crate::device::cuda::CudaDevice;
use crate::driver::{Code, Driver};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::synchronize_context;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, `CU_MEM_LOCATION_TYPE_DEVICE`.
const ONE: c_int = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: c_int = 3;
/// Signals begin at a multiple of this behind the data.
const ALIGN: usize = 512;

/// `CUmemAllocationProp`
#[repr(C)]
struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemLocation`
#[repr(C)]
struct Location {
    kind: c_int,
    ordinal: c_int,
}

/// `CUmemAccessDesc`
#[repr(C)]
struct Access {
    location: Location,
    flags: c_int,
}

/// The place of signals behind so many bytes of data.
pub(crate) fn signals_behind(data: usize) -> usize {
    data.next_multiple_of(ALIGN)
}

/// Memory that is mapped in this process. It goes when this does, and in other processes when theirs does.
pub(crate) struct Mapping(Option<Range>);

/// Addresses, and the handle of the memory there.
struct Range {
    context: Arc<CudaContext>,
    handle: u64,
    address: u64,
    bytes: usize,
    is_mapped: bool,
}

impl Mapping {
    /// New memory of a GPU, of at least so many bytes, and the file for other processes.
    pub(crate) fn allocate(device: &CudaDevice, bytes: usize) -> Result<(Mapping, OwnedFd)> {
        let driver = Driver::get()?;
        bound(device.context())?;
        let asked = format!("{bytes} bytes for other processes are asked for on {}", device.name());
        let properties = Properties {
            kind: ONE,
            handles: ONE,
            location: location(device),
            windows: std::ptr::null_mut(),
            flags: [0; 8],
        };
        let at = (&raw const properties).cast();
        let mut unit = 0;
        // SAFETY: reads the properties and writes one number.
        let code = unsafe { driver.cuMemGetAllocationGranularity()?(&raw mut unit, at, 0) };
        driver.check(code, &asked)?;
        let bytes = bytes.max(1).checked_next_multiple_of(unit.max(1)).ok_or_else(|| too_large(bytes))?;
        let mut handle = 0;
        // SAFETY: the size is a multiple of the granularity; writes one number.
        driver.check(unsafe { driver.cuMemCreate()?(&raw mut handle, bytes, at, 0) }, &asked)?;
        let mapping = Mapping::of(device, handle, bytes)?;
        let mut file: c_int = -1;
        // SAFETY: writes the number of a new file, which nobody else has.
        let code = unsafe { driver.cuMemExportToShareableHandle()?((&raw mut file).cast(), handle, ONE, 0) };
        driver.check(code, &asked)?;
        // SAFETY: as above.
        Ok((mapping, unsafe { OwnedFd::from_raw_fd(file) }))
    }

    /// Memory of another process, by its file and its size there.
    pub(crate) fn import(device: &CudaDevice, file: &OwnedFd, bytes: usize) -> Result<Mapping> {
        let driver = Driver::get()?;
        bound(device.context())?;
        let mut handle = 0;
        let number = std::ptr::without_provenance_mut(file.as_raw_fd() as usize);
        // SAFETY: the number is that of an open file; writes one number.
        let code = unsafe { driver.cuMemImportFromShareableHandle()?(&raw mut handle, number, ONE) };
        driver.check(code, "memory of another process is opened")?;
        Mapping::of(device, handle, bytes)
    }

    /// Maps a handle for the kernels of a GPU.
    fn of(device: &CudaDevice, handle: u64, bytes: usize) -> Result<Mapping> {
        let driver = Driver::get()?;
        let range = Range { context: device.context().clone(), handle, address: 0, bytes, is_mapped: false };
        let mut mapping = Mapping(Some(range));
        mapping.0.as_mut().map_or(Ok(()), |range| range.map(driver, location(device)))?;
        Ok(mapping)
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.as_ref().map_or(0, |range| range.address)
    }

    /// With the room behind what was asked for.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |range| range.bytes)
    }
}

impl Range {
    fn map(&mut self, driver: &Driver, location: Location) -> Result<()> {
        let bytes = self.bytes;
        // SAFETY: writes one number.
        let code = unsafe { driver.cuMemAddressReserve()?(&raw mut self.address, bytes, 0, 0, 0) };
        driver.check(code, "addresses for memory of other processes")?;
        // SAFETY: the addresses are reserved, and the handle has so many bytes.
        let code = unsafe { driver.cuMemMap()?(self.address, bytes, 0, self.handle, 0) };
        driver.check(code, "memory of other processes is mapped")?;
        self.is_mapped = true;
        let access = Access { location, flags: READ_AND_WRITE };
        // SAFETY: the range is mapped; reads one description.
        let code = unsafe { driver.cuMemSetAccess()?(self.address, bytes, (&raw const access).cast(), 1) };
        driver.check(code, "access to memory of another GPU").map_err(|error| {
            error.possible("GPUs that NVLink or one PCIe switch connects, or processes with the same GPU")
        })
    }

    /// Gives everything back; returns the first code that is not zero.
    fn give_back(&self, driver: &Driver) -> Result<Code> {
        let (address, bytes) = (self.address, self.bytes);
        let unmap = if self.is_mapped { Some(driver.cuMemUnmap()?) } else { None };
        let free = if address != 0 { Some(driver.cuMemAddressFree()?) } else { None };
        // SAFETY: the range was mapped by `of`, and no work uses it.
        let unmapped = unmap.map_or(0, |unmap| unsafe { unmap(address, bytes) });
        // SAFETY: the handle is this one's own.
        let released = unsafe { driver.cuMemRelease()?(self.handle) };
        // SAFETY: the range was reserved by `of`, and nothing is mapped there.
        let freed = free.map_or(0, |free| unsafe { free(address, bytes) });
        Ok([unmapped, released, freed].into_iter().find(|code| *code != 0).unwrap_or(0))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Some((range, driver)) = self.0.take().zip(Driver::get().ok()) else { return };
        let context = range.context.clone();
        // Kernels that still run may use it. After the error of one nothing runs.
        match synchronize_context(&context) {
            Err(error) if error.0 == CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
                set_aside(Box::new(Mapping(Some(range))));
            }
            ended => {
                let gone = within(&context, || match range.give_back(driver) {
                    Ok(0) => ended,
                    _ => ended.and(Err(DriverError(CUresult::CUDA_ERROR_UNKNOWN))),
                });
                note(&context, gone);
            }
        }
    }
}

fn location(device: &CudaDevice) -> Location {
    Location { kind: ONE, ordinal: device.context().cu_device() }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes for other processes are asked for"))
}
