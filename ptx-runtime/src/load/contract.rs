//! The machine code that a device runs, compared with the promises of the kernel.

use super::Figures;
use crate::config::Config;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Kernel;
use ptx_target::{Breach, Contract, MachineCode};

impl Figures {
    /// As contracts compare them.
    fn machine_code(&self) -> MachineCode {
        let spills = self.spill_stores.zip(self.spill_loads).map(|(stores, loads)| [stores, loads]);
        MachineCode { registers: self.registers, local: self.local, spills, shared: self.shared }
    }
}

impl Kernel {
    /// Compares the machine code that a CUDA device runs with the promises of the kernel's attribute: `no_local`, `no_spills`, `max_registers`,
    /// `occupancy`. Loads the kernel if necessary. The CPU device has no machine code, and every contract holds there.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] for the first promise that it breaks, and those of [`Kernel::load`].
    pub fn check_contract(&self, device: &Device) -> Result<()> {
        self.check_promises(self.contract(), device)
    }

    /// The same with other promises.
    ///
    /// # Errors
    /// As [`check_contract`](Kernel::check_contract).
    pub fn check_promises(&self, contract: &Contract, device: &Device) -> Result<()> {
        if contract.is_empty() || !device.is_cuda() {
            return Ok(());
        }
        let code = self.figures(device)?.machine_code();
        let config = Config::grid(1).block(contract.threads).shared(contract.dynamic_shared);
        let asked = contract.occupancy > 0 && contract.threads > 0;
        let blocks = asked.then(|| self.occupancy(device, &config)).transpose()?.map(|occupancy| occupancy.blocks);
        let breaches = contract.breaches(&code, blocks);
        breaches.first().map_or(Ok(()), |breach| Err(broken(self, breach, &device.to_string())))
    }
}

#[cold]
fn broken(kernel: &Kernel, breach: &Breach, device: &str) -> Error {
    Error::new(ErrorKind::Load, format!("`{}` {} on {device}", kernel.entry, breach.found))
        .possible(format!("its attribute promises `{}`", breach.option))
        .help(format!("{}, or leave out `{}`", breach.help, breach.option))
}
