use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(n: u32) {
    struct Walk {
        first: u32,
        step: u32,
    }
    let a: Walk = Walk { first: n };
    let b: Walk = Walk { first: n, step: 1, steps: 2 };
    let c: Walk = Walk { first: n, step: 1, first: 2 };
    let d: Walk = Wolk { first: n, step: 1 };
    let e: u32 = a.frist;
    let Walk { first } = b;
}

fn main() {}
