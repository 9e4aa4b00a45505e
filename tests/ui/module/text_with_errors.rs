use ptx_launch::prelude::*;

ptx! {
    .version 7.0
    .target sm_80
    .address_size 64
    .visible .entry kernel(.param .u32 n)
    {
        .reg .b32 %r<2>;
        ld.param.u32 %r1, [m];
        add.u23 %r1, %r1, 1;
        ret;
    }
}

fn launch() {
    let _ = kernel::PTX;
}

fn main() {}
