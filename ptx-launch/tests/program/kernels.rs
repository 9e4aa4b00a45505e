//! Kernels that wait before they write, so that on a GPU work without an order shows. The stub recognizes them by their names.

use ptx_launch::prelude::*;

/// `y = alpha * x + y`, after `pause` times 1.6 µs.
#[ptx_kernel(arch = "sm_80", block = 64, grid = n.div_ceil(64), unsafe(requires(x.len() >= n, y.len() >= n)))]
pub fn accumulate(pause: u32, alpha: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let mut left: u32 = pause;
    while left > 0 {
        ptx! { nanosleep.u32 1600; }
        left = left - 1;
    }
    if i < n {
        let (px, py): (u64, u64) = (x + wide(i) * 4, y + wide(i) * 4);
        let (a, b): (f32, f32);
        ptx! {
            ld.global.f32 a, [px];
            ld.global.f32 b, [py];
            fma.rn.f32 b, alpha, a, b;
            st.global.f32 [py], b;
        }
    }
}

/// The first texels of a buffer.
#[ptx_kernel(arch = "sm_80", block = 64, grid = n.div_ceil(64), unsafe(requires(out.len() >= n)))]
pub fn sample(pause: u32, image: Texture, out: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let mut left: u32 = pause;
    while left > 0 {
        ptx! { nanosleep.u32 1600; }
        left = left - 1;
    }
    if i < n {
        let color: [f32; 4];
        let at: i32 = i as i32;
        ptx! { tex.1d.v4.f32.s32 {color[..]}, [image, {at}]; }
        let to: u64 = out + wide(i) * 4;
        ptx! { st.global.f32 [to], color[0]; }
    }
}

/// The first texels of an array, which float coordinates alone read.
#[ptx_kernel(arch = "sm_80", block = 64, grid = n.div_ceil(64), unsafe(requires(out.len() >= n)))]
pub fn sample_array(pause: u32, image: Texture, out: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let mut left: u32 = pause;
    while left > 0 {
        ptx! { nanosleep.u32 1600; }
        left = left - 1;
    }
    if i < n {
        let color: [f32; 4];
        let at: f32 = i as f32;
        ptx! { tex.1d.v4.f32.f32 {color[..]}, [image, {at}]; }
        let to: u64 = out + wide(i) * 4;
        ptx! { st.global.f32 [to], color[0]; }
    }
}

/// Sets the first texels of a row.
#[ptx_kernel(arch = "sm_80", block = 64, grid = n.div_ceil(64), unsafe(requires(n <= 64)))]
pub fn paint(pause: u32, value: f32, to: Surface, n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let mut left: u32 = pause;
    while left > 0 {
        ptx! { nanosleep.u32 1600; }
        left = left - 1;
    }
    if i < n {
        let at: u32 = i * 4;
        ptx! { sust.b.1d.b32.trap [to, {at}], value; }
    }
}

/// A sum in a variable of the module.
#[ptx_module(arch = "sm_80")]
pub mod sums {
    /// The sum so far.
    pub static mut TOTAL: u32 = 0;
    /// Two numbers to add.
    pub static STEPS: [u32; 2] = [1, 10];

    /// Adds both numbers to the sum, after `pause` times 1.6 µs.
    #[ptx_kernel(block = 1, grid = 1, unsafe(requires(pause < 100000)))]
    pub fn tally(pause: u32) {
        let mut left: u32 = pause;
        while left > 0 {
            ptx! { nanosleep.u32 1600; }
            left = left - 1;
        }
        let (total, a, b): u32;
        ptx! {
            ld.global.u32  total, [TOTAL];
            ld.const.u32   a, [STEPS];
            ld.const.u32   b, [STEPS + 4];
        }
        total = total + a + b;
        ptx! { st.global.u32 [TOTAL], total; }
    }
}

/// Keeps a stream busy.
#[ptx_kernel(arch = "sm_80", block = 1, grid = 1, unsafe(requires(pause < 100000)))]
pub fn idle(pause: u32) {
    let mut left: u32 = pause;
    while left > 0 {
        ptx! { nanosleep.u32 1600; }
        left = left - 1;
    }
}
