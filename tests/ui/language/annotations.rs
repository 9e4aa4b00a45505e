use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 64, grid = 1)]
pub fn annotated(x: &[u32], n: u32, factor: f32) {
    assume!(n % 4 == 0 && tid.x < n);
    assume!(n);
    assume!(factor > 1.0);
    assume!(n < popc(n));
    assume!((n as u8) < 3);
    assume!(n & 1 == 0);
    assume!();
    assume!(n < 4, "message");
    assume!(m < 4);
    let mut i: u32 = 0;
    invariant!(i <= n);
    while i < n {
        i += 1;
    }
}

fn main() {}
