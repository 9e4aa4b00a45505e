//! Constants, generics and instances.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod constants {
    const N: u32 = 1 << 3;
    const LOG: u32 = N.ilog2();
    const TAPS: [f32; 3] = [0.25, 0.5, 0.25];
    const THIRD: f32 = 1.0 / 3.0;
    const BYTES: u64 = (N * 4) as u64;
    const KIND: &str = "add";
    const BITS: u32 = 32;

    fn tiles(rows: u32) -> u32 {
        if rows % 128 == 0 { rows / 128 } else { rows / 128 + 1 }
    }

    #[ptx_kernel(block = (N * 4, 2), max_regs = 64, min_blocks = 2)]
    pub fn values(x: u64) {
        const HERE: u32 = N.next_multiple_of(3).max(4);
        let mut a: u32 = LOG + HERE + tiles(1000);
        let b: u64 = x + BYTES;
        let mut c: f32 = THIRD;
        let d: u32 = u32::MAX;
        let e: f32 = f32::INFINITY;
        let f: u64 = size_of::<f64>();
        let n: i32 = -3;
        let low: u32 = 0xffff_ffff;
        for (i, tap) in TAPS.iter().enumerate() {
            ptx! { fma.rn.f32 c, c, tap, THIRD; }
        }
        ptx! {
            red.global.{KIND}.u32 [x], N;
            add.u{BITS} a, a, HERE;
        }
    }

    #[ptx_kernel(instances = [(f32, 2), (u64, 1)])]
    pub fn generic<T, const K: u32>(x: &[T], a: T) {
        let v: [T; K];
        for k in 0..K {
            ptx! { ld.global.{T} v[k], [x + size_of_t * k]; }
            const size_of_t: u32 = size_of::<T>();
            v[k] += a;
        }
    }

    fn lanes<const MODE: &str>(x: u32) -> u32 {
        match MODE {
            "up" | "down" => x + 1,
            "none" => 0,
            _ => {
                let y: u32 = x * 2;
                y - 1
            }
        }
    }

    /// One arm is written.
    #[ptx_kernel]
    pub fn matches(n: u32) {
        const WIDE: u32 = 3;
        const BYTES: u32 = match WIDE {
            0 | 1 => 4,
            WIDE => 16,
            _ => 8,
        };
        let a: u32 = n + BYTES;
        let b = lanes::<"down">(n);
        let c: u32 = lanes::<"other">(n);
        let d: u32 = lanes::<"none">(n);
        for i in 0..3 {
            match i {
                1 => {
                    let e: u32 = n + i;
                }
                _ => {}
            }
        }
    }
}
