//! Hopper, step 1: one thread starts the copy of a tile by TMA, and an `mbarrier` completes when the tile has arrived.

// ANCHOR: use
use ptx_launch::prelude::*;
// ANCHOR_END: use

// ANCHOR: kernel
#[ptx_kernel(arch = "sm_90a", block = 128, grid = 1, unsafe(requires(M == 64, K == 64, out.len() >= 4096)))]
pub fn copy_tile(#[tma(box = [64, 64], swizzle = 128)] a: Tile<bf16, (M, K)>, out: &mut [bf16]) {
    #[shared(align = 1024)]
    let tile: [[bf16; 64]; 64];
    #[shared]
    let bar: u64;

    // 1. A barrier for one arrival, visible to the copy engine before anyone uses it.
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
    }
    block::sync();

    // 2. One thread announces 8192 bytes, and starts the copy that brings them.
    if tid.x == 0 {
        mbarrier::arrive_expect(bar, 8192);
        tma::load_2d(tile, a_map, 0, 0, bar); // column 0, row 0
    }

    // 3. All threads wait for phase 0: one arrival, and 8192 bytes.
    mbarrier::wait(bar, 0);

    // 4. Thread t copies eight chunks: `swizzle::bytes128` computes where TMA put each of them.
    for i in 0..4 {
        let offset: u32 = (tid.x + 128 * i) * 16;
        let from: u32 = tile + swizzle::bytes128(offset);
        let to: u64 = out + offset as u64;
        let v: [b32; 4];
        ptx! {
            ld.shared.v4.b32    {v[..]}, [from];
            st.global.v4.b32    [to], {v[..]};
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = hopper_or_cpu()?;
    let x: Vec<bf16> = (0..4096).map(bf16::from_bits).collect();
    let input = device.upload(&x)?;
    let mut out = device.zeros::<bf16>(4096)?;
    copy_tile(&device, input.tile([64, 64])?, &mut out)?;
    assert!(out.download()?.iter().map(|v| v.to_bits()).eq(0..4096));
    Ok(())
}

/// A kernel for `sm_90a` runs on Hopper alone; the CPU device runs every target.
pub fn hopper_or_cpu() -> ptx_launch::Result<Device> {
    let best = Device::best()?;
    Ok(if copy_tile::KERNEL.load(&best).is_ok() { best } else { Device::cpu() })
}
// ANCHOR_END: main
