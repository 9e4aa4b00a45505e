//! `ptx! { }`: token for token, names resolved.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90", lineinfo)]
pub mod blocks {
    const LANES: u32 = 31;
    const MODE: &str = "bfly";

    #[ptx_kernel]
    pub fn names(x: &[f32], n: u32, p: u32) {
        let acc: [f32; 8];
        let mut i: u32 = n;
        let lane: u32;
        let done: pred;
        ptx! {
            // A comment, and a layout that stays.
            ld.global.v4.f32   {acc[..4]}, [x];         // the first half
            ld.global.v4.f32   {acc[4..=7]}, [x + 16];
            shfl.sync.{MODE}.b32  acc[0], acc[2 * 3 + 1], 1, LANES, 0xffffffff;
            mov.u32  lane, laneid;
            setp.lt.u32  done, i, lane;
            @done   add.f32 acc[1], acc[1], 1.0;
            @!done  bra  skip;
            mov.b32 i, %tid.x;
        skip:
            { .reg .b32 t; .reg .pred %q<2>;
              mov.b32 t, i; setp.eq.u32 %q1, t, 0; @%q1 ret; }
            .pragma "nounroll";
            unchecked { add.u32 i, i, 2; }
        }
        for turn in 0..2 {
            ptx! {
                .reg .b32 t;
                .reg .pred p;
            again:
                add.u32 t, i, turn;
                setp.ne.u32 p, t, 3;
                @p bra again;
            }
        }
        ptx! { mov.u32 i, p; mov.u32 i, 0; }
    }
}
