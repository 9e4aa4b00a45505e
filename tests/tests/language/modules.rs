//! `#[ptx_module]`.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![super::passes!(kernels_share_one_text), super::assembles("pair::PTX", pair::PTX)]
}

/// Two kernels.
#[ptx_module(arch = "sm_90a")]
pub mod pair {
    pub const COUNT: u32 = 4;
    static mut TICKS: u32 = 0;

    /// Twice.
    fn double(x: u32) -> u32 {
        x + x
    }

    #[ptx_kernel(block = 32, grid = COUNT, unsafe(requires()))]
    pub fn first(out: &mut [u32]) {
        let x: u32 = double(COUNT);
        ptx! { st.global.u32 [out], x; }
    }

    #[ptx_kernel(block = 32)]
    pub fn second() {
        let x: u32;
        ptx! { atom.global.add.u32 x, [TICKS], 1; }
    }
}

fn kernels_share_one_text() {
    assert_eq!(pair::first::PTX, pair::PTX);
    assert_eq!(pair::second::PTX, pair::PTX);
    assert!(std::ptr::eq(pair::first::KERNEL.module, pair::second::KERNEL.module));
}
