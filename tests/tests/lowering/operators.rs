//! One operator, one instruction.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90")]
pub mod operators {
    #[ptx_kernel]
    pub fn integers(a: u32, b: i32, c: u64, d: u16) {
        let sum: u32 = a + 1;
        let mut all: u32 = a * sum - a / 3 % 2;
        let bits: u32 = (a & 0xff | all ^ 3) << 2 >> a;
        let signed: i32 = -b >> 1u32;
        let wide_one: u64 = wide(a) * 4 + c;
        let wide_two: u32 = wide(d) * d;
        let not: u32 = !a;
        let less: pred = a < sum;
        let equal: pred = ((b == -5) & !less) | ((c >= 3) ^ (d != 1));
        all += 1;
        all <<= 3;
        all = 7;
    }

    /// By a constant power of two: shifts and masks, of unsigned numbers.
    #[ptx_kernel]
    pub fn divisions(a: u32, b: i32, c: u64, d: u16) {
        const TILE: u32 = 128;
        let (mut q, mut r): (u32, u32) = (a / TILE, a % TILE);
        let whole: u32 = a / 1 + a % 1;
        let (wide, narrow): (u64, u16) = (c % 0x100000000, d / 0x8000);
        let others: u32 = a / 12 + a % q;
        let signed: i32 = b / 4 + b % 4;
        q /= 8;
        r %= 2;
    }

    #[ptx_kernel]
    pub fn views(a: u32, b: i32) {
        let p: pred = signed(a) < b;
        let q: u32 = unsigned(signed(a + 1) >> 3u32);
        let r: i32 = signed(tid.x);
        let s: b32 = untyped(b + r) ^ a;
        let t: u32 = unsigned(b);
        let u = signed(s) * b;
    }

    #[ptx_kernel]
    pub fn floats(a: f32, b: f64, h: f16, c: u32) {
        let x: f32 = a * 2.0 + a / 3.0 - 0.1;
        let y: f64 = -b * 1e-3;
        let z: f16 = h + 1.0;
        let p: pred = a != x;
        let q: pred = h < z;
    }

    #[ptx_kernel]
    pub fn casts(a: f32, b: f64, h: f16, c: u32, d: i64, e: u8) {
        let f0: f32 = c as f32;
        let f1: u32 = a as u32;
        let f2: i32 = c as i32;
        let f3: u64 = c as u64;
        let f4: u32 = d as u32;
        let f5: f64 = a as f64;
        let f6: f32 = b as f32;
        let f7: bf16 = a as bf16;
        let f8: f32 = f7 as f32;
        let f9: b32 = a as b32;
        let g0: f32 = (f9 & 0x7fffffff) as f32;
        let g1: u32 = e as u32;
        let g2: u32 = (c > 3) as u32;
        let g3: f32 = (c > 3) as f32;
        let g4: f16 = d as f16;
        let g5: b16 = h as b16;
    }

    #[ptx_kernel]
    pub fn specials() {
        let x: u32 = tid.x + ntid.y * ctaid.z;
        let lane = laneid;
        let time: u64 = clock64;
    }

    #[ptx_kernel]
    pub fn registers() {
        let p: pred;
        let (a, b): (u32, f32);
        let bits: [b64; 4];
        let grid: [[f32; 2]; 3];
        let a: u64 = 1;
        grid[2][1] = 1.0;
        let tid: u32 = tid.x;
        let u32_0: u32 = tid + tid * 2;
        let half: bf16 = 1.5;
        let packed: f16x2;
        let zeros: [f32; 3] = [0.0; 3];
        let (mut q, mut r): (u32, u32) = (1, 2);
        (q, r) = (r, q);
        let (s, t): [f32; 2];
        let (v, w): u32 = (3, 4);
    }

    fn clamp(x: &mut f32, low: f32) {
        *x = x.max(low);
    }

    /// Each method is one instruction.
    #[ptx_kernel]
    pub fn methods(a: u32, b: i32, mut x: f32, h: f16, d: f64) {
        let least: u32 = a.min(7);
        let most = b.abs().max(b);
        let mixed = (x * 2.0).fma(x, 1.0);
        clamp(&mut x, 0.0);
        let inside: pred = a < 4;
        let chosen: u32 = inside.select(least, 9);
        let other = (b < 0).select(1.5f32, x);
        let half = h.max(h);
        let double: f64 = d.fma(d, d);
        let index = tid.x.min(31);
    }
}
