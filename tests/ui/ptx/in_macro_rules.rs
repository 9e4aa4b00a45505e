use ptx_launch::prelude::*;

macro_rules! kernel {
    ($name:ident, $ty:ident) => {
        #[ptx_kernel(arch = "sm_80")]
        pub fn $name(out: &mut [u32]) {
            let x: u32 = 1;
            ptx! { add.$ty x, x, 1; }
        }
    };
}

kernel!(wrong, u23);

fn main() {}
