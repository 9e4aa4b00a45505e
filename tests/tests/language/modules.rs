//! `#[ptx_module]`.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(kernels_share_one_text),
        super::passes!(the_host_reads_and_writes_variables),
        super::assembles("pair::PTX", pair::PTX),
        super::assembles("variables::PTX", variables::PTX),
    ]
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
    assert_eq!(pair::MODULE.name, concat!(module_path!(), "::pair"));
}

/// Variables of every kind that the host may have.
#[ptx_module(arch = "sm_80")]
pub mod variables {
    pub(crate) static HALVES: [[f16; 2]; 3] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    pub static mut SUMS: [i64; 2] = [-1, 0];
    pub static mut BITS: b32 = 0xFFFF_FFFF;
    static mut LAUNCHES: u32 = 0;

    /// Uses variables itself and by a helper.
    #[ptx_kernel(block = 1, grid = 1, unsafe(requires()))]
    pub fn count(last: i64) {
        let (launches, halves): u32;
        ptx! {
            atom.global.add.u32  launches, [LAUNCHES], 1;
            ld.const.b32         halves, [HALVES + 8];
            st.global.u32        [BITS], halves;
        }
        store(last);
    }

    fn store(sum: i64) {
        ptx! { st.global.s64 [SUMS + 8], sum; }
    }
}

fn the_host_reads_and_writes_variables() {
    use variables::{BITS, HALVES, SUMS, count};
    let (device, other) = (Device::cpu(), Device::cpu());
    let halves = |numbers: [f32; 6]| [0, 2, 4].map(|at| [0, 1].map(|more| f16::from_f32(numbers[at + more])));
    assert_eq!(HALVES.read(&device).unwrap(), halves([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    count(&device, 1 << 40).unwrap();
    assert_eq!((SUMS.read(&device).unwrap(), BITS.read(&device).unwrap()), ([-1, 1 << 40], 0x4600_4500));
    HALVES.write(&device, halves([0.0; 6])).unwrap();
    let sums = [5, 6];
    SUMS.write(&device, sums).unwrap();
    assert_eq!(SUMS.read(&device).unwrap(), sums);
    count(&device, -7).unwrap();
    assert_eq!((SUMS.read(&device).unwrap(), BITS.read(&device).unwrap()), ([5, -7], 0));
    assert_eq!(
        (SUMS.read(&other).unwrap(), BITS.read(&other).unwrap()),
        ([-1, 0], u32::MAX),
        "each device has its own"
    );
}
