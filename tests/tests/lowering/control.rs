//! The shape of branches and loops.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod control {
    #[ptx_kernel]
    pub fn branches(n: u32, p: u8) {
        let mut x: u32 = 0;
        if n < 4 {
            x = 1;
        }
        if n < 4 {
            x = 2;
        } else if n == 5 {
            x = 3;
        } else {
            x = 4;
        }
        let y: u32 = if x > n { n } else { x + 1 };
        if y == 0 {
            return;
        }
        x = y;
    }

    #[ptx_kernel]
    pub fn loops(n: u32) {
        let mut i: u32 = 0;
        while i < n {
            i += 1;
        }
        'outer: loop {
            'inner: while i > 0 {
                i -= 1;
                if i == 7 {
                    continue 'outer;
                }
                if i == 9 {
                    i = 3;
                    break 'inner;
                }
            }
            if i == 3 {
                break;
            }
        }
        'out: {
            if i == 1 {
                break 'out;
            }
            i = 2;
        }
    }

    #[ptx_kernel]
    pub fn annotated(n: u32, step: i32) {
        const MOST: u32 = 1 << 20;
        assume!(n < MOST && step > -4 && tid.x < n);
        let mut i: u32 = 0;
        invariant!(i <= n + 3);
        invariant!(i as u64 * 4 <= 4 * n as u64 + 12 || !(step == 0));
        while i < n {
            i += 4;
        }
        // Behind the loop, it is one of the threads that come here.
        invariant!(i >= n);
        i += 1;
        cut!(i > n);
    }

    #[ptx_kernel]
    pub fn unrolled(n: u32) {
        let acc: [u32; 4];
        for i in 0..4 {
            acc[i] = n + i;
        }
        for i in (0..=4).rev().step_by(2) {
            if i == 2 {
                continue;
            }
            if n == i {
                break;
            }
            acc[i % 3] += 1;
        }
        for (at, tap) in [3, 5].iter().enumerate() {
            acc[at] *= tap;
        }
        for i in 0..0 {
            nothing_reads_this();
        }
    }

    #[ptx_kernel]
    pub fn decided(n: u32) {
        let mut x: u32 = n;
        if arch >= sm_90a {
            x += 1;
        } else {
            x += 2;
        }
        if arch >= sm_100 {
            x += 3;
        }
    }
}
