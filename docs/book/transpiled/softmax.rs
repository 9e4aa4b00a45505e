#[::ptx_launch::ptx_module(arch = "sm_80", version = "8.8")]
#[allow(non_snake_case, unused_imports, unused_variables)]
pub mod softmax {
    use ::ptx_launch::prelude::*;

    const LOG2_E: f32 = 1.442695;

    ptx! {
        // .globl	softmax                 // -- Begin function softmax
        .extern .shared .align 16 .b8 global_smem[];
    }

    #[ptx_kernel(raw, block = 128)]
    pub fn softmax(
        #[align(1)] arg0: &mut [f32],
        #[align(1)] arg1: &[f32],
        arg2: u32,
        arg3: u32,
        #[align(1)] arg4: &[u32],
        #[align(1)] arg5: &[u32],
    ) {
        let (rd17, rd18, ctaid_x, r19, tid_x, r21, r22, r): (i64, i64, u32, i32, u32, u32, i32, [b32; 6]);
        let (p, rd): ([pred; 6], [i64; 6]);
        ptx! {
            ld.param.b64 rd17, [arg0];
            ld.param.b64 rd18, [arg1];
            mov.u32 ctaid_x, %ctaid.x;
            ld.param.b32 r19, [arg2];
            mov.u32 tid_x, %tid.x;
            and.b32 r21, tid_x, 127;
            ld.param.b32 r22, [arg3];
        }
        for i in 0..6 {
            r[i] = r21 | (128 * i + 128);
        }
        let r29: u32 = tid_x | 896;
        let p1: pred = signed(r21) < r22;
        for i in 0..6 {
            p[i] = r[i] < r22;
        }
        let p8: pred = signed(r29) < r22;
        let rd19: i64 = wide(r19 * signed(ctaid_x)) * 4;
        let rd20: i64 = rd18 + rd19;
        let rd21: b64 = wide(r21) * 4;
        let rd1: i64 = rd20 + rd21;
        for i in 0..6 {
            rd[i] = rd1 + (512 * i + 512);
        }
        let rd22: b64 = wide(r29) * 4;
        let rd8: i64 = rd20 + rd22;
        let r2: b32 = 0xff800000;
        let (r_4, r31, r32, r33, r34, r35, r36, r_2, r46): ([b32; 8], f32, f32, f32, f32, f32, f32, [b32; 5], b32);
        let r47: f32;
        ptx! {
            mov.u32 r_4[0], r2;
            @p1 ld.global.b32 {r_4[0]}, [rd1];
            mov.u32 r_4[1], r2;
            @p[0] ld.global.b32 {r_4[1]}, [rd[0]];
            mov.u32 r_4[2], r2;
            @p[1] ld.global.b32 {r_4[2]}, [rd[1]];
            mov.u32 r_4[3], r2;
            @p[2] ld.global.b32 {r_4[3]}, [rd[2]];
            mov.u32 r_4[4], r2;
            @p[3] ld.global.b32 {r_4[4]}, [rd[3]];
            mov.u32 r_4[5], r2;
            @p[4] ld.global.b32 {r_4[5]}, [rd[4]];
            mov.u32 r_4[6], r2;
            @p[5] ld.global.b32 {r_4[6]}, [rd[5]];
            mov.u32 r_4[7], r2;
            @p8 ld.global.b32 {r_4[7]}, [rd8];
            max.f32 r31, r_4[0], r_4[1];
            max.f32 r32, r_4[2], r_4[3];
            max.f32 r33, r_4[4], r_4[5];
            max.f32 r34, r_4[6], r_4[7];
            max.f32 r35, r31, r32;
            max.f32 r36, r33, r34;
            max.f32 r_2[0], r35, r36;
        }
        for (i, k0) in [(0, 16), (1, 8), (2, 4), (3, 2)] {
            let r38: b32;
            ptx! {
                shfl.sync.bfly.b32 r38, r_2[i], k0, 31, -1;
                max.f32 r_2[i + 1], r_2[i], r38;
            }
        }
        ptx! {
            shfl.sync.bfly.b32 r46, r_2[4], 1, 31, -1;
            max.f32 r47, r_2[4], r46;
        }
        let r49: i32 = untyped(tid_x >> 3) & 12;
        let (r50, r51, r55, r56, r57, r58, r59, r_3, r_5): (i32, i32, b32, b32, b32, b32, f32, [f32; 8], [f32; 8]);
        let rd_2: [i64; 6];
        ptx! {
            mov.b32 r50, global_smem;
            add.s32 r51, r50, r49;
            st.shared.b32 [r51], r47;
            bar.sync 0;
        }
        let r54: i32 = r50 + untyped((tid_x << 2) & 12);
        ptx! {
            ld.shared.b32 r55, [r54];
            shfl.sync.bfly.b32 r56, r55, 2, 31, -1;
            max.f32 r57, r55, r56;
            shfl.sync.bfly.b32 r58, r57, 1, 31, -1;
            max.f32 r59, r57, r58;
        }
        for i in 0..8 {
            ptx! { sub.f32 r_3[i], r_4[i], r59; }
        }
        for i in 0..8 {
            let r68: f32;
            ptx! {
                mul.f32 r68, r_3[i], LOG2_E;
                ex2.approx.f32 r_5[i], r68;
            }
        }
        let rd23: i64 = rd17 + rd19;
        let rd9: i64 = rd23 + rd21;
        for i in 0..6 {
            rd_2[i] = rd9 + (512 * i + 512);
        }
        let rd16: i64 = rd23 + rd22;
        let (r84, r85, r86, r87, r88, r89, r_6): (f32, f32, f32, f32, f32, f32, [b32; 5]);
        ptx! {
            bar.sync 0;
            add.f32 r84, r_5[0], r_5[1];
            add.f32 r85, r_5[2], r_5[3];
            add.f32 r86, r_5[4], r_5[5];
            add.f32 r87, r_5[6], r_5[7];
            add.f32 r88, r84, r85;
            add.f32 r89, r86, r87;
            add.f32 r_6[0], r88, r89;
        }
        for (i, k0) in [(0, 16), (1, 8), (2, 4), (3, 2)] {
            let r91: b32;
            ptx! {
                shfl.sync.bfly.b32 r91, r_6[i], k0, 31, -1;
                add.f32 r_6[i + 1], r_6[i], r91;
            }
        }
        let (r99, r100, r101, r102, r103, r104, r105, r_7): (b32, f32, b32, b32, b32, b32, f32, [f32; 8]);
        ptx! {
            shfl.sync.bfly.b32 r99, r_6[4], 1, 31, -1;
            add.f32 r100, r_6[4], r99;
            st.shared.b32 [r51], r100;
            bar.sync 0;
            ld.shared.b32 r101, [r54];
            shfl.sync.bfly.b32 r102, r101, 2, 31, -1;
            add.f32 r103, r101, r102;
            shfl.sync.bfly.b32 r104, r103, 1, 31, -1;
            add.f32 r105, r103, r104;
        }
        for i in 0..8 {
            ptx! { div.full.f32 r_7[i], r_5[i], r105; }
        }
        ptx! {
            @p1 st.global.b32 [rd9], {r_7[0]};
            @p[0] st.global.b32 [rd_2[0]], {r_7[1]};
            @p[1] st.global.b32 [rd_2[1]], {r_7[2]};
            @p[2] st.global.b32 [rd_2[2]], {r_7[3]};
            @p[3] st.global.b32 [rd_2[3]], {r_7[4]};
            @p[4] st.global.b32 [rd_2[4]], {r_7[5]};
            @p[5] st.global.b32 [rd_2[5]], {r_7[6]};
            @p8 st.global.b32 [rd16], {r_7[7]};
        }
    }
}
