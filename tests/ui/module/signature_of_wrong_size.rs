use ptx_launch::prelude::*;

ptx_file!("right.ptx", pub fn right(n: u64));

fn main() {}
