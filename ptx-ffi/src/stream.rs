//! The devices and streams of other frameworks: primary contexts, kept for the life of the process, and the stream that a thread used last.
#![allow(unsafe_code, reason = "streams of other frameworks are borrowed")]

use crate::error::{Exception, Raised};
use crate::value::Place;
use crate::watch::is_watching;
use ptx_launch::{Device, Result, Stream};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The most GPUs.
const GPUS: usize = 64;

/// The device of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The CPU device.
    Host,
    /// The CPU device with its watcher.
    Watched,
    /// The GPU with this ordinal.
    Cuda(usize),
}

impl Home {
    /// The device for tensors at a place.
    #[inline]
    pub(crate) fn of(place: Place) -> Home {
        match place {
            _ if is_watching() => Home::Watched,
            Place::Host => Home::Host,
            Place::Cuda(ordinal) => Home::Cuda(ordinal),
        }
    }
}

/// The device of a stream, its handle, and the stream.
type Used = (Home, *mut c_void, Stream);

thread_local! {
    static LAST: Cell<Option<Used>> = const { Cell::new(None) };
}

/// Calls `work` with the stream of this handle on a device.
pub(crate) fn with_stream<R>(
    home: Home,
    raw: *mut c_void,
    work: impl FnOnce(&Stream) -> std::result::Result<R, Raised>,
) -> std::result::Result<R, Raised> {
    // It is away while it is used: a function that calls another one finds none.
    let used = match LAST.take() {
        Some(used) if (used.0, used.1) == (home, raw) => used,
        _ => (home, raw, open(home, raw)?),
    };
    let result = work(&used.2);
    LAST.set(Some(used));
    result
}

fn open(home: Home, raw: *mut c_void) -> std::result::Result<Stream, Raised> {
    match home {
        Home::Host => host_stream(false),
        Home::Watched => host_stream(true),
        Home::Cuda(ordinal) => {
            let device = device(ordinal).map_err(|error| Raised::of_launch(&error))?;
            // SAFETY: the caller of the exported function passes a stream of this device that lives until its work has ended. The
            // handle alone is kept, and used again when somebody passes the same one.
            unsafe { Stream::borrowed(&device, raw) }.map_err(|error| Raised::of_launch(&error))
        }
    }
}

fn device(ordinal: usize) -> Result<Device> {
    static DEVICES: [OnceLock<Device>; GPUS] = [const { OnceLock::new() }; GPUS];
    let Some(slot) = DEVICES.get(ordinal) else { return Device::cuda(ordinal) };
    match slot.get() {
        Some(device) => Ok(device.clone()),
        None => {
            let device = Device::cuda(ordinal)?;
            Ok(slot.get_or_init(|| device).clone())
        }
    }
}

/// The stream of the CPU device. The watcher is on where it is wanted, and where `PTX_WATCH` is set and not 0.
#[cfg(feature = "cpu")]
fn host_stream(watched: bool) -> std::result::Result<Stream, Raised> {
    static DEVICES: [OnceLock<Device>; 2] = [const { OnceLock::new() }; 2];
    let watch = || watched || std::env::var("PTX_WATCH").is_ok_and(|value| !value.is_empty() && value != "0");
    Ok(DEVICES[usize::from(watched)].get_or_init(|| Device::cpu().watch(watch())).stream())
}

#[cfg(not(feature = "cpu"))]
fn host_stream(_: bool) -> std::result::Result<Stream, Raised> {
    let message = "tensors in host memory need the CPU device: build with the feature `cpu` of ptx-ffi";
    Err(Raised::new(Exception::NotImplemented, message))
}

#[cfg(feature = "cpu")]
#[allow(dead_code, reason = "the class is used without the feature `cpu`")]
const _: Exception = Exception::NotImplemented;
