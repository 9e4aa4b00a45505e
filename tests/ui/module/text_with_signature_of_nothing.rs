use ptx_launch::prelude::*;

ptx! {
    pub fn write(n: u32);
    .version 7.0
    .target sm_80
    .address_size 64
    .visible .entry right(.param .u32 n) { ret; }
}

fn main() {}
