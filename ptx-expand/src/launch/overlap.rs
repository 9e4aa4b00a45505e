//! Programmatic dependent launch: `pdl` in an attribute is a promise that the kernel waits for the grid before it.

use crate::compile::Compiled;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use ptx_core::diag::codes;

impl Reader {
    /// Reports kernels with `pdl` that wait in no text: they would run beside the grid whose data they read.
    pub fn check_overlap(&mut self, kernels: &[Launchable], compiled: &Compiled) {
        if self.failed() {
            return;
        }
        for (index, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| kernel.launch.pdl) {
            let entries = compiled.entries_of(index);
            if entries.iter().any(|entry| !compiled.waiting.contains_key(&entry.name)) {
                let message = format!("`{}` has `pdl` and never waits for the grid before it", kernel.name);
                let help = "call `grid::wait()` before the first access to global memory, in a text for `sm_90` or later, or leave out `pdl`";
                self.error(&codes::P0906, &kernel.name, message, help);
            }
        }
    }
}
