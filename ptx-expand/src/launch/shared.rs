//! Dynamic shared memory: its bytes are the kernel's, not those of whoever launches it.

use crate::compile::Compiled;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use ptx_core::diag::codes;

impl Reader {
    /// Gives the launch the bytes of dynamic shared memory that the type of the variable defines. Reports such memory without
    /// `shared = …`, where no launch gives its bytes or no caller may choose them.
    pub fn sized_shared(&mut self, kernels: &mut [Launchable], compiled: &mut Compiled) {
        for (index, kernel) in kernels.iter_mut().enumerate() {
            let dynamic = compiled.used_by(index).find_map(|used| used.dynamic);
            let launch = &mut kernel.launch;
            let Some(declared) = dynamic.filter(|_| launch.shared.is_none()) else { continue };
            let sizes = compiled.dynamic_sizes(index);
            launch.sized_shared = sizes.iter().all(Option::is_some);
            if launch.sized_shared {
                continue;
            }
            let why = match (launch.is_safe(), &launch.grid, &launch.block) {
                (true, ..) => "the caller of a safe launch cannot choose them",
                (false, Some(_), Some(_)) => "a launch without a `Config` does not say",
                _ => continue,
            };
            let message = format!("`{}` does not say how many bytes of dynamic shared memory it has", kernel.name);
            let help = format!("write `shared = …` in its attribute, in bytes; {why}");
            self.error_at(&codes::P0905, declared, message, &help);
            compiled.failed = true;
        }
    }
}
