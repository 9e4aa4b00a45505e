//! Whole modules.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(a_module_in_the_source_keeps_its_bytes),
        super::passes!(a_module_from_a_file_is_the_file),
        super::assembles("scale::PTX", scale::PTX),
        super::assembles("vec_add::PTX", vec_add::PTX),
    ]
}

ptx! {
    // A comment that stays.
    .version 7.0
    .target sm_80
    .address_size 64

    .visible .entry scale(.param .u64 .ptr .global .align 4 x, .param .f32 factor)
    {
        .reg .b64 %rd<4>;
        .reg .b32 %r1;
        .reg .f32 %f<4>;
        ld.param.u64 %rd1, [x];
        ld.param.f32 %f1, [factor];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        ld.global.f32 %f2, [%rd3];
        mul.rn.f32 %f3, %f2, %f1;
        st.global.f32 [%rd3], %f3;
        ret;
    }
}

ptx_file!("add.ptx",
    #[ptx_kernel(grid = n.div_ceil(128), unsafe(requires(a.len() >= n, b.len() >= n, c.len() >= n)))]
    pub fn vec_add(a: &[f32], b: &[f32], c: &mut [f32], n: u32));

fn a_module_in_the_source_keeps_its_bytes() {
    assert!(scale::PTX.starts_with("\n    // A comment that stays.\n    .version 7.0\n"));
    let launch = |device: &Device, config: Config, x: u64, factor: f32| {
        // SAFETY: it is never called.
        unsafe { scale(device, config, x, factor) }
    };
    let _ = launch;
}

fn a_module_from_a_file_is_the_file() {
    assert_eq!(vec_add::PTX, include_str!("add.ptx"));
    assert_eq!(vec_add::KERNEL.entry, "vec_add");
}
