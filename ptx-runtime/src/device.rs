//! Devices: which there are, how one is chosen, and what every one can do. The two kinds stand in `cuda` and `cpu`; without the
//! feature `cpu`, `no_cpu` replaces the second one by a type without values, so that the rest of the crate stays the same.

#[cfg(feature = "cpu")]
pub(crate) mod cpu;
#[cfg(not(feature = "cpu"))]
#[path = "device/no_cpu.rs"]
pub(crate) mod cpu;
pub(crate) mod cuda;
#[cfg(feature = "cpu")]
pub(crate) mod node;
#[cfg(feature = "cpu")]
pub(crate) mod profile;

use crate::context;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Queue, Stream};
use cpu::CpuDevice;
use cuda::CudaDevice;
use cudarc::driver::CudaContext;
#[cfg(feature = "cpu")]
use profile::LaunchProfile;
#[cfg(feature = "cpu")]
use ptx_interp::Options;
use std::fmt;
use std::sync::Arc;

/// The environment variable that [`Device::best`] follows: `cpu`, `cuda` or `cuda:1`.
const CHOICE: &str = "PTX_DEVICE";

/// A device that runs kernels: a CUDA GPU, or, with the feature `cpu`, the CPU of this machine, which interprets the PTX.
///
/// A clone is the same device.
#[derive(Clone)]
pub struct Device(pub(crate) Inner);

#[derive(Clone)]
pub(crate) enum Inner {
    Cuda(CudaDevice),
    Cpu(CpuDevice),
}

impl Device {
    /// A CUDA GPU if this machine has one that works, else the CPU device. The environment variable `PTX_DEVICE`
    /// overrides the choice: `cpu`, `cuda`, or `cuda:N` for the GPU with ordinal N.
    ///
    /// # Errors
    /// If `PTX_DEVICE` names something that is not there, or means nothing. Without the feature `cpu` also if there is no
    /// GPU, as for [`Device::cuda`].
    pub fn best() -> Result<Device> {
        match std::env::var(CHOICE) {
            Ok(choice) => Device::named(&choice).map_err(|error| match error.kind() {
                ErrorKind::BadOption => {
                    error.help(format!("set {CHOICE} to one of these, or unset it to take a GPU if there is one"))
                }
                _ => error,
            }),
            #[cfg(feature = "cpu")]
            Err(_) => Ok(Device::cuda(0).unwrap_or_else(|_| Device::cpu())),
            #[cfg(not(feature = "cpu"))]
            Err(_) => Device::cuda(0),
        }
    }

    /// The device that `PTX_DEVICE=choice` names: `cpu`, `cuda` or `cuda:N`.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] for any other text, [`ErrorKind::Unsupported`] for `cpu` without the feature of that name, and
    /// an error of [`Device::cuda`].
    pub fn named(choice: &str) -> Result<Device> {
        match choice.trim().to_ascii_lowercase().split_once(':') {
            #[cfg(feature = "cpu")]
            None if choice.trim().eq_ignore_ascii_case("cpu") => Ok(Device::cpu()),
            #[cfg(not(feature = "cpu"))]
            None if choice.trim().eq_ignore_ascii_case("cpu") => Err(cpu::absent()),
            None if choice.trim().eq_ignore_ascii_case("cuda") => Device::cuda(0),
            Some(("cuda", ordinal)) => ordinal.parse().map_or_else(|_| Err(unknown(choice)), Device::cuda),
            _ => Err(unknown(choice)),
        }
    }

    /// The CUDA GPU with this ordinal. While one is alive, every call for the same ordinal gives the same device.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`], [`ErrorKind::NoDevice`], or an error of the driver.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        CudaDevice::open(ordinal).map(|device| Device(Inner::Cuda(device)))
    }

    /// The device of a context of the user's own, with that context's default stream.
    ///
    /// # Errors
    /// An error of the driver when it reads the device's properties.
    pub fn from_cuda(context: &Arc<CudaContext>) -> Result<Device> {
        CudaDevice::of_context(context).map(|device| Device(Inner::Cuda(device)))
    }

    /// A CPU device with a memory of its own. It interprets the PTX, checks every memory access, and names the line of
    /// Rust that went wrong.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    pub fn cpu() -> Device {
        Device::cpu_with(Options::default())
    }

    /// A CPU device that runs its launches with these options: the watcher, the seed of the interleaving, the limit on
    /// steps.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    pub fn cpu_with(options: Options) -> Device {
        Device(Inner::Cpu(CpuDevice::new(options)))
    }

    /// The same CPU device with the watcher on or off. It is on at first, and looks for data races, reads of memory that
    /// nothing wrote, and misuse of barriers and asynchronous operations; without it launches take a third of the time.
    /// Bounds and alignment are always checked. A CUDA device stays as it is.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// let device = Device::cpu().watch(false);
    /// ```
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn watch(self, watch: bool) -> Device {
        self.with(|options| options.watch = watch)
    }

    /// The same CPU device with another interleaving of threads and blocks: one seed gives one, always the same. 0, the
    /// first, is the plainest. A CUDA device stays as it is.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn seed(self, seed: u64) -> Device {
        self.with(|options| options.seed = seed)
    }

    /// The same CPU device with another limit on the warp instructions of a launch: behind it the launch is called
    /// endless, and fails with the loop that it is in. At first the limit is 10⁹, a minute or two of a core. A CUDA device
    /// stays as it is.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn steps(self, limit: u64) -> Device {
        self.with(|options| options.step_limit = Some(limit))
    }

    /// The same CPU device with its launches profiled: bank conflicts, sectors, divergence and operations, by line of Rust. A profiled launch is
    /// not watched. A CUDA device stays as it is.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(x.len() >= 256)))]
    /// fn clear_every_eighth(x: &mut [u32]) {
    ///     let at = x.at(tid.x * 8);
    ///     ptx! { st.global.u32 [at], 0; }
    /// }
    ///
    /// let device = Device::cpu().profile();
    /// let mut x = device.zeros::<u32>(256)?;
    /// clear_every_eighth(&device, &mut x)?;
    /// let profiles = device.take_profiles();
    /// let totals = profiles[0].totals;
    /// assert_eq!((totals.global_store_sectors, totals.global_store_sectors_ideal), (32, 4));
    /// # Ok::<(), ptx_launch::Error>(())
    /// ```
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn profile(self) -> Device {
        if let Inner::Cpu(device) = &self.0 {
            device.begin_profiles();
        }
        self
    }

    /// The profiles of the launches since the last call, in order; none without [`Device::profile`], and none on a CUDA device.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    pub fn take_profiles(&self) -> Vec<LaunchProfile> {
        match &self.0 {
            Inner::Cpu(device) => device.profiles().as_mut().map(std::mem::take).unwrap_or_default(),
            Inner::Cuda(_) => Vec::new(),
        }
    }

    #[cfg(feature = "cpu")]
    fn with(self, change: impl FnOnce(&mut Options)) -> Device {
        if let Inner::Cpu(device) = &self.0 {
            device.change_options(change);
        }
        self
    }

    /// Its name: `NVIDIA H200`, `CPU (interpreter)`.
    pub fn name(&self) -> &str {
        match &self.0 {
            Inner::Cuda(device) => device.name(),
            Inner::Cpu(device) => device.name(),
        }
    }

    /// Returns true if it is a CUDA GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.0, Inner::Cuda(_))
    }

    /// The errors of calls that cannot return any, such as the drop of a buffer or of an event, since the last time. No other call
    /// returns them. Memory that could not be freed is freed later.
    pub fn take_late_errors(&self) -> Vec<Error> {
        match &self.0 {
            Inner::Cuda(device) => context::take_late(device.context()),
            Inner::Cpu(_) => Vec::new(),
        }
    }

    /// cudarc's context, or `None` on the CPU device.
    pub fn as_cuda(&self) -> Option<&Arc<CudaContext>> {
        match &self.0 {
            Inner::Cuda(device) => Some(device.context()),
            Inner::Cpu(_) => None,
        }
    }

    /// The default stream.
    pub fn stream(&self) -> Stream {
        Stream(match &self.0 {
            Inner::Cuda(device) => Queue::Cuda(device.clone(), device.default_stream().clone()),
            Inner::Cpu(device) => Queue::Cpu(device.clone()),
        })
    }

    /// A new stream, which runs beside the others. While a device has such streams, a launch records an event for each of its
    /// buffers; with the default stream alone it records none.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn new_stream(&self) -> Result<Stream> {
        Ok(Stream(match &self.0 {
            Inner::Cuda(device) => Queue::Cuda(device.clone(), device.new_stream()?),
            Inner::Cpu(device) => Queue::Cpu(device.clone()),
        }))
    }

    /// Waits until everything that was submitted to it has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`]), or of the driver. Also while [`Stream::capture`] goes on, on
    /// any thread: the driver cannot wait for a stream that is being captured, and would break the capture. Streams and buffers can be
    /// waited for at that time.
    pub fn synchronize(&self) -> Result<()> {
        match &self.0 {
            Inner::Cuda(device) => device.synchronize(),
            Inner::Cpu(device) => device.finish().map(drop),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cold]
fn unknown(choice: &str) -> Error {
    Error::new(ErrorKind::BadOption, format!("no device is called `{choice}`"))
        .possible("`cpu`, `cuda`, or `cuda:N` with the ordinal of a GPU")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_choose() {
        #[cfg(feature = "cpu")]
        assert!(!Device::named(" CPU ").unwrap().is_cuda());
        #[cfg(not(feature = "cpu"))]
        assert_eq!(Device::named(" CPU ").unwrap_err().kind(), ErrorKind::Unsupported);
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1"] {
            assert_eq!(Device::named(wrong).unwrap_err().kind(), ErrorKind::BadOption, "{wrong}");
        }
    }
}
