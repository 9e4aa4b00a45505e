//! Shared, local and module memory; parameters.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod memory {
    use ptx_launch::prelude::*;

    const N: u32 = 64;
    static TABLE: [f32; 3] = [1.0, 2.5, -3.0];
    pub static WEIGHTS: [[f32; 3]; 2] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    static mut COUNT: u32 = 0;
    static mut ROWS: [[u16; 2]; 2] = [[1, 2], [3, 4]];

    #[repr(C)]
    #[derive(Clone, Copy, KernelParam)]
    #[allow(unreachable_pub)]
    pub struct Shape {
        pub rows: u32,
        pub columns: u32,
    }

    #[repr(C)]
    #[derive(Clone, Copy, KernelParam)]
    #[allow(unreachable_pub)]
    pub struct Params {
        pub scale: f32,
        pub kind: u32,
        pub shape: Shape,
        pub taps: [f32; 2],
        pub base: u64,
    }

    #[ptx_kernel]
    pub fn variables() {
        #[shared]
        let tile: [[f32; 33]; 32];
        #[shared(align = 1024)]
        let stage: [bf16; N * N];
        #[shared(align = 128)]
        let (left, right): ([bf16; N], [u32; 4]);
        #[shared(dynamic)]
        let rest: [u8];
        #[local]
        let stack: [u32; 8];
        let at: u32 = tile;
        let row: u32 = stage + laneid * 4;
        let top: u64 = stack;
        let bits: b32;
        ptx! {
            ld.shared.b32 bits, [tile + 4 * N];
            st.shared.b32 [rest], bits;
            st.local.b32 [stack + 8], bits;
            st.shared.b32 [right + 4], bits;
            ld.const.b32 bits, [TABLE + 4];
            red.global.add.u32 [COUNT], 1;
            .reg .b16 low;
            ld.global.b16 low, [ROWS + 2];
        }
    }

    #[ptx_kernel]
    pub fn params(p: Params, x: &mut [f32], y: &mut [f16], n: u32, unused: u64, map: TensorMap, h: f16, b: i8) {
        let s: f32 = p.scale * p.taps[1];
        let mut cells: u32 = p.shape.rows * p.shape.columns;
        ptx! {
            prefetch.tensormap [map];
            st.global.f32 [x], s;
            st.global.b16 [y + 2], h;
            st.global.u32 [x], p.kind;
            ld.param.u32 cells, [n];
            .reg .b64 q;
            ld.param.b64 q, [p + 24];
        }
        let wide_byte: i32 = b as i32;
    }

    #[ptx_kernel(raw)]
    pub fn raw(n: u32, x: &mut [u32]) {
        ptx! {
            .reg .b32 %r;
            .reg .b64 %rd;
            ld.param.b32 %r, [n];
            ld.param.b64 %rd, [x];
            st.global.b32 [%rd], %r;
        }
    }
}
