use ptx_launch::prelude::*;

ptx_file!("right.ptx", pub fn right(n: u32, m: u32));

fn main() {}
