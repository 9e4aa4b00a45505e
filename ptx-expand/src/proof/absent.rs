//! `proved` in a build without the prover: an error that names the feature.

use crate::compile::Compiled;
use crate::describe::Scope;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use ptx_core::diag::codes;

/// Reports the kernels that are to be proved.
pub fn prove(reader: &mut Reader, kernels: &mut [Launchable], compiled: &mut Compiled, _: &Scope) {
    for kernel in kernels {
        let Some(wanted) = kernel.launch.proved.clone().filter(|_| !reader.leaves_proofs_out) else { continue };
        kernel.is_proved = true;
        let help = "add the feature: `cargo add ptx-launch --features proved`, or `ptx-jit` where kernels are compiled from text";
        reader.error(&codes::P0918, &wanted.name, "this build has no prover", help);
    }
    compiled.failed = reader.failed();
}
