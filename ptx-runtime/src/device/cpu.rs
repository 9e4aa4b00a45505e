//! The CPU device: memory and launches of the interpreter. Work runs while it is submitted.

use super::profile::LaunchProfile;
use crate::error::{Error, ErrorKind, Result};
use crate::param::zeros;
use ptx_interp::{Fault, FaultKind, Machine, Options, Program};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A CPU device. A clone is the same one.
#[derive(Clone)]
pub(crate) struct CpuDevice(Arc<State>);

struct State {
    machine: Mutex<Machine>,
    options: Mutex<Options>,
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
        CpuDevice(Arc::new(State {
            machine: Mutex::new(Machine::new()),
            options: Mutex::new(options),
            profiles: Mutex::default(),
        }))
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

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of its memory.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<()> {
        self.machine().read(address, into).map_err(|fault| fault_error(&fault))
    }

    /// Overwrites bytes of its memory.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<()> {
        self.machine().write(address, from).map_err(|fault| fault_error(&fault))
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
        act(self.machine().variable(program, name).map_err(|fault| fault_error(&fault))?)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<CpuMemory> {
        let address = self.machine().alloc(bytes as u64).map_err(|fault| fault_error(&fault))?;
        Ok(CpuMemory { device: self.clone(), address, bytes })
    }
}

/// An allocation of a CPU device.
pub(crate) struct CpuMemory {
    device: CpuDevice,
    address: u64,
    bytes: usize,
}

impl CpuMemory {
    pub(crate) fn device(&self) -> &CpuDevice {
        &self.device
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.device.read(self.address + offset as u64, into)
    }

    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.device.write(self.address + offset as u64, from)
    }

    pub(crate) fn clear(&self) -> Result<()> {
        self.write(0, &host_zeros(self.bytes)?)
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        self.device.machine().free(self.address);
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
        _ => ErrorKind::Fault,
    }
}
