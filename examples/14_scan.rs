//! Blocks that wait for each other: prefix sums in one pass over memory, by decoupled look-back (Merrill and Garland, 2016). Each block
//! publishes the sum of its tile at once, and the sum of everything up to its end as soon as it has found what lies before.

use ptx_examples::{Report, bandwidth, elements, integers, timer};
use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// The elements of a thread, and of a block.
    const EACH: u32 = 4;
    const TILE: u32 = 256 * EACH;
    /// The state of a tile: nothing yet (0), its own sum, or the sum up to its end.
    const OWN: u32 = 1;
    const PREFIX: u32 = 2;

    /// Publishes a sum and its kind in one write, after what was written before.
    fn publish(states: GlobalMut<u64>, tile: u32, sum: u32, kind: u32) {
        let at = states.at(tile);
        let both: u64;
        ptx! {
            mov.b64                     both, {sum, kind};
            st.release.gpu.global.u64   [at], both;
        }
    }

    /// The sum of all tiles before `tile`, by a whole warp: each lane waits for one of the 32 tiles before, and the lanes down to the
    /// nearest sum of everything add up.
    fn look_back(states: GlobalMut<u64>, tile: u32) -> u32 {
        let (mut sum, mut end): (u32, u32) = (0, tile);
        loop {
            let (mut value, mut kind): (u32, u32) = (0, PREFIX);
            if laneid < end {
                let at = states.at(end - 1 - laneid);
                loop {
                    let both: u64;
                    ptx! {
                        ld.acquire.gpu.global.u64   both, [at];
                        mov.b64                     {value, kind}, both;
                    }
                    if kind != 0 {
                        break;
                    }
                }
            }
            let prefixes: b32 = warp::ballot(kind == PREFIX);
            let nearest: u32;
            ptx! {
                brev.b32    nearest, prefixes;
                clz.b32     nearest, nearest;       // 32 if there is none
            }
            sum += warp::reduce_sum((laneid <= nearest).select(value, 0));
            // The first tile always has one. The second condition is for the proof of bounds: `end` never falls below zero.
            if (prefixes != 0) | (end <= 32) {
                break;
            }
            end -= 32;
        }
        sum
    }

    /// out\[i\] = x\[0\] + … + x\[i\]. `states` are zeros: the number of blocks that have started, then a state for each tile.
    #[ptx_kernel(
        block = 256,
        grid = n.div_ceil(TILE),
        unsafe(requires(x.len() >= n, out.len() >= n, states.len() > n.div_ceil(TILE)))
    )]
    pub fn scan(x: &[u32], out: &mut [u32], states: &mut [u64], n: u32) {
        #[shared]
        let (number, own, before): (u32, u32, u32);
        let counter = states.at(0);
        let states = states.at(1);
        // Blocks take tiles in the order in which they start, so that nobody waits for a block that has not started.
        if tid.x == 0 {
            let mine: u64;
            ptx! { atom.global.add.u64 mine, [counter], 1; }
            let tile: u32 = mine as u32;
            ptx! { st.shared.u32 [number], tile; }
        }
        block::sync();
        let tile: u32;
        ptx! { ld.shared.u32 tile, [number]; }
        if tile >= nctaid.x {
            return; // `states` were no zeros
        }
        let first: u32 = tile * TILE + tid.x * EACH;
        let mut values: [u32; EACH] = [0; EACH];
        for i in 0..EACH {
            if first + i < n {
                let from = x.at(first + i);
                ptx! { ld.global.u32 values[i], [from]; }
            }
            if i > 0 {
                values[i] += values[i - 1];
            }
        }
        let through: u32 = block::scan_sum::<8, u32>(values[EACH - 1]);
        if tid.x == 255 {
            publish(states, tile, through, if tile == 0 { PREFIX } else { OWN });
            ptx! { st.shared.u32 [own], through; }
        }
        block::sync();
        if tid.x < 32 {
            let sum: u32 = look_back(states, tile);
            if tid.x == 0 {
                let mine: u32;
                ptx! { ld.shared.u32 mine, [own]; }
                publish(states, tile, sum + mine, PREFIX);
                ptx! { st.shared.u32 [before], sum; }
            }
        }
        block::sync();
        let mut base: u32;
        ptx! { ld.shared.u32 base, [before]; }
        base += through - values[EACH - 1];
        for i in 0..EACH {
            if first + i < n {
                let (to, value) = (out.at(first + i), base + values[i]);
                ptx! { st.global.u32 [to], value; }
            }
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 40 << 10) + 77;
    let x = integers(n, 41);
    let device_x = device.upload(&x)?;
    let mut out = device.zeros::<u32>(n as usize)?;
    let stream = device.stream();
    let fresh = vec![0u64; n.div_ceil(1024) as usize + 1];
    let mut states = device.upload(&fresh)?;
    let mut launch = || {
        states.write(&fresh)?;
        kernels::scan(&stream, &device_x, &mut out, &mut states, n)
    };
    let time = timer(device).measure(&stream, &mut launch)?.median();
    let sums = x.iter().scan(0u32, |sum, x| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    });
    let wrong = out.download()?.into_iter().zip(sums).filter(|(found, sum)| found != sum).count();
    Ok(Report {
        name: "scan",
        device: device.name().to_owned(),
        size: format!("{n} u32"),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: bandwidth(8 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
