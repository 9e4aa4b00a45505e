use ptx_launch::prelude::*;

ptx_file!("wrong.ptx");

fn main() {}
