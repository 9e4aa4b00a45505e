//! A CUDA GPU: its context, its limits, its default stream. Loading and launching stand in `load` and `launch`.
#![allow(unsafe_code, reason = "the driver is asked for device attributes")]

use crate::context::{self, Event, bind};
use crate::driver::{CPU_DEVICE, Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{beside_captures, synchronize_context};
use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{CudaContext, CudaStream, DriverError};
use ptx_target::Arch;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A CUDA device. A clone is the same one.
#[derive(Clone)]
pub(crate) struct CudaDevice(Arc<State>);

struct State {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    name: String,
}

/// The devices that are alive, by ordinal: the same ordinal gives the same context, and so shares loaded modules.
static OPEN: Mutex<Vec<(usize, Weak<State>)>> = Mutex::new(Vec::new());

impl CudaDevice {
    /// The device with this ordinal, opened at most once at a time.
    pub(crate) fn open(ordinal: usize) -> Result<CudaDevice> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, state)| state.strong_count() > 0);
        if let Some(state) = open.iter().find(|(at, _)| *at == ordinal).and_then(|(_, state)| state.upgrade()) {
            return Ok(CudaDevice(state));
        }
        let driver = Driver::get()?;
        exists(driver, ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|e| cudarc_error("the CUDA device does not open", e))?;
        let device = CudaDevice::of_context(&context)?;
        open.push((ordinal, Arc::downgrade(&device.0)));
        Ok(device)
    }

    /// The device of a context that somebody else made.
    pub(crate) fn of_context(context: &Arc<CudaContext>) -> Result<CudaDevice> {
        context::bound(context)?;
        let name = context.name().map_err(|e| cudarc_error("the device does not tell its name", e))?;
        Ok(CudaDevice(Arc::new(State { context: context.clone(), stream: context.default_stream(), name })))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.0.context
    }

    pub(crate) fn default_stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }

    /// Before the first stream of a context, cudarc waits for all of its work, which would break a capture on another thread. All that
    /// work is on the default stream or comes before it, so that beside a capture the wait for the default stream is enough.
    pub(crate) fn new_stream(&self) -> Result<Arc<CudaStream>> {
        let State { context, stream, .. } = &*self.0;
        let made = beside_captures(|any| match any && !context.is_in_multi_stream_mode() {
            true => Event::behind(stream)?.synchronize().and_then(|()| stream.fork()),
            false => bind(context).and_then(|()| context.new_stream()),
        });
        made.map_err(|e| cudarc_error("no stream could be made", e))
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        let ended = synchronize_context(&self.0.context);
        context::drop_aside();
        ended.map_err(|e| match e.0 {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => waits_in_capture(e),
            _ => cudarc_error("work on the device failed", e),
        })
    }

    pub(crate) fn synchronize_stream(&self, stream: &CudaStream) -> Result<()> {
        context::synchronize(stream).map_err(|e| cudarc_error("work on the stream failed", e))
    }
}

/// Limits of a device, read once per context.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// For errors.
    pub(crate) name: String,
    /// The target that it is: `sm_90`.
    pub(crate) arch: Arch,
    pub(crate) grid: [i64; 3],
    pub(crate) block: [i64; 3],
    /// Threads of a block.
    pub(crate) threads: i64,
    /// Bytes of shared memory that a block may opt in to, static and dynamic together.
    pub(crate) shared: i64,
    pub(crate) multiprocessors: u32,
}

/// The device in an error: `NVIDIA H200 (sm_90)`.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.arch)
    }
}

impl Limits {
    /// The limits of the context's device.
    pub(crate) fn read(context: &CudaContext) -> Result<Limits> {
        context::bound(context)?;
        let ask = |attribute: Attribute| -> Result<i64> {
            let value = context.attribute(attribute).map_err(|e| cudarc_error("the device hides a property", e))?;
            Ok(value.into())
        };
        use Attribute as A;
        let capability = ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Limits {
            name: context.name().map_err(|e| cudarc_error("the device does not tell its name", e))?,
            arch: Arch::base(u16::try_from(capability).unwrap_or(0)),
            grid: [
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            block: [
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            threads: ask(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared: ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            multiprocessors: ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.try_into().unwrap_or(0),
        })
    }
}

#[cold]
fn waits_in_capture(error: DriverError) -> Error {
    cudarc_error("a wait for the whole device, while a stream of this process is captured", error)
        .possible("waits for single streams: `stream.synchronize()`")
        .help("synchronize the device before or after `Stream::capture`; a wait for all of it would break the capture")
}

/// Number of GPUs.
pub(crate) fn count_devices(driver: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: writes one integer.
    driver.check(unsafe { (driver.cuDeviceGetCount)(&raw mut count) }, "the CUDA devices cannot be counted")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn exists(driver: &Driver, ordinal: usize) -> Result<()> {
    let count = count_devices(driver)?;
    if ordinal < count { Ok(()) } else { Err(absent(ordinal, count)) }
}

#[cold]
fn absent(ordinal: usize, count: usize) -> Error {
    let possible = match count {
        0 => "none: the driver sees no GPU".to_owned(),
        1 => "0: this machine has one GPU".to_owned(),
        _ => format!("0 to {}", count - 1),
    };
    Error::new(ErrorKind::NoDevice, format!("CUDA device {ordinal} is asked for"))
        .possible(possible)
        .help(format!("check CUDA_VISIBLE_DEVICES, or use {CPU_DEVICE}"))
}
