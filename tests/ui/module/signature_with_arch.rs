use ptx_launch::prelude::*;

ptx_file!("right.ptx", #[ptx_kernel(arch = "sm_90")] pub fn right(n: u32));

fn main() {}
