use ptx_launch::prelude::*;

ptx_file!("right.ptx", pub fn write(n: u32));

fn main() {}
