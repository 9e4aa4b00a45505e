//! Dynamic shared memory: its bytes are the kernel's, not those of whoever launches it.

use crate::compile::Compiled;
use crate::kernel::{Launchable, Reader};
use ptx_core::diag::codes;

impl Reader {
    /// Reports dynamic shared memory without `shared = …`, where no launch gives its bytes or no caller may choose them.
    pub fn sized_shared(&mut self, kernels: &[Launchable], compiled: &mut Compiled) {
        for (index, kernel) in kernels.iter().enumerate() {
            let (launch, dynamic) = (&kernel.launch, compiled.used_by(index).find_map(|used| used.dynamic));
            let Some(declared) = dynamic.filter(|_| launch.shared.is_none()) else { continue };
            let why = match (&launch.vouched, &launch.grid, &launch.block) {
                (Some(_), ..) => "the caller of a safe launch cannot choose them",
                (None, Some(_), Some(_)) => "a launch without a `Config` does not say",
                _ => continue,
            };
            let message = format!("`{}` does not say how many bytes of dynamic shared memory it has", kernel.name);
            let help = format!("write `shared = …` in its attribute, in bytes; {why}");
            self.error_at(&codes::P0905, declared, message, &help);
            compiled.failed = true;
        }
    }
}
