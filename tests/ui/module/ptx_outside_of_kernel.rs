use ptx_launch::prelude::*;

fn host() {
    ptx! { add.u32 x, x, 1; }
}

fn main() {}
