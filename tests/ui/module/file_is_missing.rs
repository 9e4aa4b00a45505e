use ptx_launch::prelude::*;

ptx_file!("missing.ptx");

fn main() {}
