use ptx_launch::prelude::*;

pub struct Host;

impl Host {
    #[ptx_kernel(arch = "sm_80")]
    pub fn kernel(&self) {}
}

fn main() {}
