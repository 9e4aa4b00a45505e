//! PTX features of a module: `ptx!` items, parameters of any layout, launch bounds; and guards with `!`.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod outside {
    ptx! {
        .global .align 4 .b32 table[4] = {1, 2, 3, 4};
        .func (.param .b32 result) twice(.param .b32 x)
        {
            .reg .b32 %r;
            ld.param.b32 %r, [x];
            shl.b32 %r, %r, 1;
            st.param.b32 [result], %r;
            ret;
        }
    }

    #[ptx_kernel(raw, max_block = (128, 1, 1))]
    pub fn layouts(#[align(64)] map: TensorMap, #[align(8)] bytes: [u8; 24], words: [u32; 3], n: u32) {
        let (word, first): (u32, u64);
        ptx! {
            ld.param.u32 word, [words+4];
            ld.param.u64 first, [bytes+8];
            {
                .param .b32 arg;
                .param .b32 got;
                st.param.b32 [arg], word;
                call (got), twice, (arg);
                ld.param.b32 word, [got];
            }
            st.global.u32 [table+4], word;
        }
    }

    #[ptx_kernel]
    pub fn turned(n: u32) {
        let mut p: pred = n < 4;
        let mut x: u32 = 0;
        if !p {
            x = 1;
        }
        if !(x == 1) {
            return;
        }
        while !p {
            p = x < n;
        }
        let q: pred = !p;
        if q {
            x = 2;
        }
    }
}
