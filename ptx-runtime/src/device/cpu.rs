//! The CPU device: memory and launches of the interpreter. Work runs while it is submitted.

use super::node::{Locked, Node};
use super::profile::LaunchProfile;
use crate::error::{Error, ErrorKind, Result};
use crate::param::zeros;
use ptx_interp::field::Field;
use ptx_interp::{Fault, FaultKind, Options, Program};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(all(target_os = "linux", feature = "processes"))]
use {super::node::Peers, ptx_interp::OutsideMemory, std::sync::Weak};

/// A CPU device. A clone is the same one.
#[derive(Clone)]
pub(crate) struct CpuDevice(Arc<State>);

struct State {
    node: Arc<Node>,
    /// Its number among the devices of the node, if these run beside each other.
    rank: Option<usize>,
    options: Mutex<Options>,
    /// The field of its launches, if they have real numbers in the place of floats.
    field: Option<Field>,
    /// The profiles of launches, if these are profiled.
    profiles: Mutex<Option<Vec<LaunchProfile>>>,
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl CpuDevice {
    /// A device with an empty memory, whose launches run with these options.
    pub(crate) fn new(options: Options) -> CpuDevice {
        let device = CpuDevice::on(Arc::new(Node::new(1)), None);
        device.change_options(|all| *all = options);
        device
    }

    /// A device whose launches compute with real numbers, the elements of a field.
    pub(crate) fn over(field: Field) -> CpuDevice {
        let (options, profiles) = Default::default();
        CpuDevice(Arc::new(State { node: Arc::new(Node::new(1)), rank: None, options, field: Some(field), profiles }))
    }

    /// A device of a node.
    pub(super) fn on(node: Arc<Node>, rank: Option<usize>) -> CpuDevice {
        let (options, field, profiles) = Default::default();
        CpuDevice(Arc::new(State { node, rank, options, field, profiles }))
    }

    /// The field in which its launches compute.
    pub(crate) fn field(&self) -> Option<Field> {
        self.0.field
    }

    /// The node, and its rank there, if launches of its ranks run beside each other.
    pub(crate) fn node(&self) -> Option<(&Arc<Node>, usize)> {
        Some((&self.0.node, self.rank()?))
    }

    /// Its number among those devices whose launches run beside each other, be it in other processes.
    fn rank(&self) -> Option<usize> {
        self.0.rank.or_else(|| self.0.node.has_joined().then_some(0))
    }

    /// Takes turns with the devices of a group of processes from now on.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(crate) fn join(&self, group: Weak<dyn Peers>) {
        self.0.node.join(group);
    }

    /// Returns true if the other one has the same memory.
    pub(crate) fn reaches(&self, other: &CpuDevice) -> bool {
        Arc::ptr_eq(&self.0.node, &other.0.node)
    }

    /// Waits until its launches are over.
    pub(crate) fn finish(&self) -> Result<Locked<'_>> {
        match self.rank() {
            Some(rank) => self.0.node.finish(rank),
            None => Ok(self.machine()),
        }
    }

    pub(crate) fn options(&self) -> Options {
        *self.0.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change_options(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.0.options.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Profiles the launches from now on.
    pub(crate) fn begin_profiles(&self) {
        self.profiles().get_or_insert_default();
    }

    /// The profiles of the launches so far, if these are profiled.
    pub(crate) fn profiles(&self) -> MutexGuard<'_, Option<Vec<LaunchProfile>>> {
        self.0.profiles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &'static str {
        "CPU (interpreter)"
    }

    /// Returns true if both are the same device.
    #[inline]
    pub(crate) fn is(&self, other: &CpuDevice) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its identity among the devices that are alive.
    pub(crate) fn addr(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn machine(&self) -> Locked<'_> {
        self.0.node.machine()
    }

    /// Bytes of its memory, when its launches are over.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<()> {
        self.finish()?.read(address, into).map_err(|fault| fault_error(&fault))
    }

    /// Overwrites bytes of its memory, when its launches are over.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<()> {
        self.finish()?.write(address, from).map_err(|fault| fault_error(&fault))
    }

    /// Copies bytes of its memory.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        let mut between = host_zeros(bytes)?;
        self.read(from, &mut between)?;
        self.write(to, &between)
    }

    /// Calls `act` with the bytes of a program's variable, if it has one of that name.
    pub(crate) fn with_variable<R>(
        &self,
        program: &Program,
        name: &str,
        act: impl FnOnce(Option<&mut [u8]>) -> Result<R>,
    ) -> Result<R> {
        let rank = self.0.rank.unwrap_or(0) as u32;
        act(self.finish()?.variable_of_rank(rank, program, name).map_err(|fault| fault_error(&fault))?)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<CpuMemory> {
        let address = self.machine().alloc(bytes as u64).map_err(|fault| fault_error(&fault))?;
        Ok(CpuMemory { device: self.clone(), address, bytes, is_used: AtomicBool::new(false) })
    }

    /// Memory that processes share.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(crate) fn map(&self, memory: Box<dyn OutsideMemory>, bytes: usize) -> CpuMemory {
        let address = self.machine().map(memory);
        CpuMemory { device: self.clone(), address, bytes, is_used: AtomicBool::new(false) }
    }
}

/// An allocation of a CPU device.
pub(crate) struct CpuMemory {
    device: CpuDevice,
    address: u64,
    bytes: usize,
    /// Set once a launch may use it.
    is_used: AtomicBool,
}

impl CpuMemory {
    pub(crate) fn device(&self) -> &CpuDevice {
        &self.device
    }

    /// The address for a launch.
    pub(crate) fn used_address(&self) -> u64 {
        self.is_used.store(true, Ordering::Relaxed);
        self.address
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.device.read(self.address + offset as u64, into)
    }

    /// New memory is written beside the launches.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let address = self.address + offset as u64;
        match self.is_used.load(Ordering::Relaxed) {
            true => self.device.write(address, from),
            false => self.device.machine().write(address, from).map_err(|fault| fault_error(&fault)),
        }
    }

    pub(crate) fn clear(&self) -> Result<()> {
        self.write(0, &host_zeros(self.bytes)?)
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        let mut machine = match self.device.node().filter(|_| self.is_used.load(Ordering::Relaxed)) {
            Some((node, rank)) => node.drain(rank),
            None => self.device.machine(),
        };
        machine.free(self.address);
    }
}

/// Zeroed bytes of the host for a copy.
fn host_zeros(bytes: usize) -> Result<Vec<u8>> {
    zeros(bytes).ok_or_else(|| {
        Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of host memory are needed for a copy"))
    })
}

/// An error for a fault of the interpreter.
#[cold]
pub(crate) fn fault_error(fault: &Fault) -> Error {
    Error::new(fault_kind(fault), fault.to_string())
}

pub(crate) fn fault_kind(fault: &Fault) -> ErrorKind {
    match fault.kind {
        FaultKind::OutOfMemory => ErrorKind::OutOfMemory,
        FaultKind::Launch => ErrorKind::Limits,
        FaultKind::Undecided => ErrorKind::Unsupported,
        _ => ErrorKind::Fault,
    }
}
