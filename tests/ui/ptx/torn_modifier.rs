use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_100a", block = 32)]
fn kernel() {
    ptx! {
        tcgen05.wait.ld.sync.aligned;
        tcgen05.fence::before_thread_syncs;
    }
}

fn main() {}
