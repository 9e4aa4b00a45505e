//! Helpers: written where they are called, or a `.func`.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod helpers {
    const STEP: u32 = 4;

    fn clamp(x: i32, low: i32, high: i32) -> i32 {
        if x < low {
            return low;
        }
        if x > high {
            return high;
        }
        x
    }

    fn both(a: u32, b: u32) -> (u32, u32) {
        (a + b, a - b)
    }

    fn scale<T, const N: u32>(values: &mut [T; N], by: T) {
        for i in 0..N {
            values[i] *= by;
        }
    }

    fn spin(bar: u32) {
        loop {
            let done: pred;
            ptx! { mbarrier.try_wait.shared::cta.b64 done, [bar], 0; }
            if done {
                break;
            }
        }
    }

    fn next(address: u32) -> u32 {
        address + STEP
    }

    #[noinline]
    fn slow(a: u32, b: f32) -> f32 {
        if a == 0 {
            return 0.0;
        }
        a as f32 * b
    }

    #[ptx_kernel]
    pub fn inlined(n: i32, m: u32, f: f32) {
        #[shared]
        let bars: [u64; 2];
        let c: i32 = clamp(n, -4, 100);
        let d: i32 = clamp(c + 1, 0, n);
        let (sum, difference): (u32, u32) = both(m, 3);
        let e: u32 = next(sum) * next(difference);
        let mut v: [f32; 3] = [1.0, f, f + 2.0];
        scale(&mut v, f);
        scale(&mut v, 2.0);
        ptx! { mbarrier.init.shared::cta.b64 [bars], 1; mbarrier.init.shared::cta.b64 [e + STEP], 1; }
        spin(bars);
        spin(next(e));
        fn local(x: u32) -> u32 {
            const K: u32 = 2;
            x * K + STEP
        }
        let g: u32 = local(e);
    }

    #[ptx_kernel]
    pub fn outlined(m: u32, f: f32) {
        let a: f32 = slow(m, f);
        let mut b: f32 = slow(m + 1, 2.0) + a;
        ptx! {
            call (b), slow, (m, a);
        }
    }

    struct Sum {
        count: u32,
        parts: [f32; 8],
    }

    fn rounded(mut x: u32, to: u32) -> u32 {
        x += to - 1;
        ptx! { and.b32 x, x, -16; }
        x
    }

    fn bump(count: &mut u32, by: &u32) {
        *count += *by;
        twice(count);
    }

    fn twice(count: &mut u32) {
        ptx! { shl.b32 count, count, 1; }
    }

    fn fold(parts: &mut [f32; 4], with: &[f32; 4]) {
        for i in 0..4 {
            parts[i] += with[i];
        }
    }

    /// A copy costs a `mov`, a reference nothing, whatever place it names.
    #[ptx_kernel]
    pub fn references(n: u32, f: f32, mut m: u32) {
        let a: u32 = rounded(n, 16);
        let b: u32 = rounded(7, 16);
        let mut sum = Sum { count: 0, parts: [f; 8] };
        bump(&mut sum.count, &a);
        bump(&mut m, &b);
        let other: [f32; 4] = [f; 4];
        fold(&mut sum.parts[0..4], &other);
        fold(&mut sum.parts[4..], &sum.parts[..4]);
        let mut pair: [u32; 2] = [n; 2];
        twice(&mut pair[1]);
    }
}
