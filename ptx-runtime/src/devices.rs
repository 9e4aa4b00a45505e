//! The devices of a node: one for each rank, whose kernels reach each other's memory.
#![allow(unsafe_code, reason = "calls of the driver")]

mod threads;

pub use threads::RankThread;

use crate::context::bound;
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Inner};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Deref;

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`
const ALREADY: i32 = 704;

/// Devices that work together, each with its rank: the GPUs of this machine, or CPU devices with one memory.
///
/// ```
/// # use ptx_launch::prelude::*;
/// let devices = Devices::cpu(4);
/// assert_eq!(devices.len(), 4);
/// # assert!(devices.iter().all(|device| !device.is_cuda()));
/// ```
#[derive(Clone, Debug)]
pub struct Devices(Vec<Device>);

impl Devices {
    /// Every CUDA GPU of this machine, in the order of their ordinals.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`] or [`ErrorKind::NoDevice`] where there is none, or an error of the driver.
    pub fn all() -> Result<Devices> {
        let count = crate::device::cuda::count_devices(Driver::get()?)?;
        (0..count.max(1)).map(Device::cuda).collect::<Result<_>>().map(Devices)
    }

    /// The first `ranks` GPUs if this machine has so many, else CPU devices. The environment variable `PTX_DEVICE` decides between the two:
    /// `cpu` or `cuda`.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] if `PTX_DEVICE` is `cuda` and there are fewer GPUs, [`ErrorKind::BadOption`] for another value. Without the
    /// feature `cpu` also if there are fewer GPUs.
    pub fn best(ranks: usize) -> Result<Devices> {
        let choice = std::env::var("PTX_DEVICE").ok().map(|choice| choice.trim().to_ascii_lowercase());
        match choice.as_deref() {
            #[cfg(feature = "cpu")]
            Some("cpu") => Ok(Devices::cpu(ranks)),
            #[cfg(feature = "cpu")]
            None => Ok(Devices::first(ranks).unwrap_or_else(|_| Devices::cpu(ranks))),
            #[cfg(not(feature = "cpu"))]
            None => Devices::first(ranks),
            Some("cuda") => Devices::first(ranks),
            Some(other) => Err(unknown(other)),
        }
    }

    fn first(ranks: usize) -> Result<Devices> {
        (0..ranks).map(Device::cuda).collect::<Result<_>>().map(Devices)
    }

    /// So many CPU devices, which have one memory. Their launches run beside each other while the host waits for one of them, and the
    /// watcher follows what passes between them. [`Device::profile`] does not profile them.
    ///
    /// *Needs the feature `cpu`, which is on by default.*
    #[cfg(feature = "cpu")]
    pub fn cpu(ranks: usize) -> Devices {
        let most = ptx_interp::MOST_RANKS as usize;
        let devices = crate::device::cpu::CpuDevice::of_node(ranks.min(most));
        Devices(devices.into_iter().map(|device| Device(Inner::Cpu(device))).collect())
    }

    /// Devices of the caller's choice; the first one has rank 0.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] if one is named twice, or if some are CPU devices without a common memory.
    pub fn of(devices: Vec<Device>) -> Result<Devices> {
        for (rank, device) in devices.iter().enumerate() {
            if let Some(other) = devices[..rank].iter().position(|other| !fit(device, other)) {
                return Err(apart(other, rank, device));
            }
        }
        Ok(Devices(devices))
    }

    /// The same devices with `change` applied to each: `devices.each(|device| device.seed(7))`.
    #[must_use]
    pub fn each(self, change: impl FnMut(Device) -> Device) -> Devices {
        Devices(self.0.into_iter().map(change).collect())
    }

    /// Lets the kernels of every device reach the memory of every other one. Symmetric memory calls it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if two GPUs cannot reach each other, or an error of the driver.
    pub fn enable_peer_access(&self) -> Result<()> {
        for (rank, device) in self.0.iter().enumerate() {
            for (other, peer) in self.0.iter().enumerate().filter(|(other, _)| *other != rank) {
                if let (Inner::Cuda(device), Inner::Cuda(peer)) = (&device.0, &peer.0) {
                    enable(device, peer)
                        .map_err(|error| error.about(&format!("rank {rank} and rank {other}: "), ""))?;
                }
            }
        }
        Ok(())
    }

    /// Waits until everything that was submitted to them has ended.
    ///
    /// # Errors
    /// The first error of [`Device::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        let ended: Vec<_> = self.0.iter().map(Device::synchronize).collect();
        ended.into_iter().collect()
    }
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.0
    }
}

/// Returns true if two may be ranks of one node.
fn fit(one: &Device, other: &Device) -> bool {
    match (&one.0, &other.0) {
        (Inner::Cuda(one), Inner::Cuda(other)) => one.context().cu_ctx() != other.context().cu_ctx(),
        (Inner::Cpu(one), Inner::Cpu(other)) => !one.is(other) && one.reaches(other),
        _ => false,
    }
}

/// Lets kernels of a device reach the memory of another one.
fn enable(device: &CudaDevice, peer: &CudaDevice) -> Result<()> {
    let driver = Driver::get()?;
    let mut can = 0;
    let (from, to) = (device.context().cu_device(), peer.context().cu_device());
    // SAFETY: writes one integer.
    let code = unsafe { driver.cuDeviceCanAccessPeer()?(&raw mut can, from, to) };
    driver.check(code, "two GPUs are asked whether they reach each other")?;
    if can == 0 {
        return Err(unreachable(device, peer));
    }
    bound(device.context())?;
    // SAFETY: both contexts are alive; the second argument must be zero.
    match unsafe { driver.cuCtxEnablePeerAccess()?(peer.context().cu_ctx(), 0) } {
        ALREADY => Ok(()),
        code => driver.check(code, "access to the memory of another GPU"),
    }
}

#[cold]
fn unreachable(device: &CudaDevice, peer: &CudaDevice) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{} is to reach the memory of {}", device.name(), peer.name()))
        .possible("GPUs that NVLink or one PCIe switch connects")
        .help("`nvidia-smi topo -p2p r` lists which GPUs reach each other")
}

#[cold]
fn apart(other: usize, rank: usize, device: &Device) -> Error {
    Error::new(ErrorKind::WrongDevice, format!("rank {other} and rank {rank} ({device}) are to work together"))
        .possible("different GPUs, or CPU devices of one `Devices::cpu`")
}

#[cold]
fn unknown(choice: &str) -> Error {
    Error::new(ErrorKind::BadOption, format!("no devices are called `{choice}`"))
        .possible("`cpu` or `cuda`")
        .help("set PTX_DEVICE to one of these, or unset it to take GPUs if there are enough")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn devices_of_different_memories_do_not_fit() {
        let (node, other) = (Devices::cpu(2), Device::cpu());
        assert!(Devices::of(vec![node[1].clone(), node[0].clone()]).is_ok());
        for wrong in [[&node[0], &node[0]], [&node[0], &other]] {
            let error = Devices::of(wrong.map(Device::clone).to_vec()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongDevice);
        }
    }
}
