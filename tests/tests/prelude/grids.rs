//! `grid::sync`: every block sees what all blocks wrote, again and again.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// `rounds` times: each block sums what all blocks wrote in the round before. A kernel alone, whose counter no item of a module is.
#[ptx_kernel(
    arch = "sm_80",
    block = (32, 2),
    grid = (2, 3),
    cooperative,
    unsafe(requires(x.len() >= 6, y.len() >= 6))
)]
pub fn relay(x: &mut [u32], y: &mut [u32], rounds: u32) {
    let block: u32 = ctaid.y * 2 + ctaid.x;
    let first: pred = (tid.x | tid.y) == 0;
    let (mut from, mut to): (u64, u64) = (x + 0, y + 0);
    let mut left: u32 = rounds;
    while left > 0 {
        if first {
            let mut sum: u32 = block;
            for at in 0..6 {
                let value: u32;
                ptx! { ld.global.u32 value, [from + 4 * at]; }
                sum += value;
            }
            let mine: u64 = to + wide(block) * 4;
            ptx! { st.global.u32 [mine], sum; }
        }
        grid::sync();
        let other: u64 = from;
        from = to;
        to = other;
        left -= 1;
    }
}

#[ptx_test(seeds = 6)]
fn blocks_meet_again_and_again(device: &Device) -> Result<()> {
    let mut expected = [1u32; 6];
    let (mut x, mut y) = (device.upload(&expected)?, device.zeros::<u32>(6)?);
    // The counter stays where the launch before left it.
    for rounds in [1u32, 4, 3] {
        relay(device, &mut x, &mut y, rounds)?;
        for _ in 0..rounds {
            let sum: u32 = expected.iter().sum();
            expected = std::array::from_fn(|block| sum + block as u32);
        }
        if rounds % 2 == 1 {
            std::mem::swap(&mut x, &mut y);
        }
        assert_eq!(x.download()?, expected);
    }
    Ok(())
}

#[ptx_test(seeds = 1)]
fn the_text_has_one_counter(_device: &Device) -> Result<()> {
    assert_eq!(relay::PTX.matches(".visible .global").count(), 1);
    Ok(())
}
