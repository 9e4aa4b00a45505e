//! Counting: a histogram of 256 bins in shared memory by atomics, then one atomic a bin into global memory.

use ptx_examples::{Report, elements, integers, timer};
use ptx_launch::prelude::*;

/// bins\[b\] += how many bytes of the 4n of x are b
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(2048), unsafe(requires(x.len() >= n, bins.len() >= 256)))]
pub fn histogram(x: &[u32], bins: &mut [u32], n: u32) {
    #[shared]
    let local: [u32; 256];

    let mine: u32 = local + tid.x * 4;
    ptx! {
        st.shared.u32 [mine], 0;
        bar.sync 0;
    }
    let mut i: u32 = ctaid.x * 2048 + tid.x;
    for _round in 0..8 {
        if i < n {
            let (at, mut word): (Global<u32>, u32) = (x.at(i), 0);
            ptx! { ld.global.u32 word, [at]; }
            for byte in 0..4 {
                let bin: u32;
                ptx! { bfe.u32 bin, word, 8 * byte, 8; }
                let slot: u32 = local + bin * 4;
                ptx! { red.shared.add.u32 [slot], 1; }
            }
        }
        i += 256;
    }
    let (mut count, out): (u32, GlobalMut<u32>) = (0, bins.at(tid.x));
    ptx! {
        bar.sync 0;
        ld.shared.u32 count, [mine];
        red.global.add.u32 [out], count;
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 16) + 77;
    // Squares, so that the bins are not all alike.
    let data: Vec<u32> = integers(n, 6).into_iter().map(|x| (x & 0xFFFF).pow(2)).collect();
    let x = device.upload(&data)?;
    let mut bins = device.zeros::<u32>(256)?;
    let stream = device.stream();
    histogram(&stream, &x, &mut bins, n)?;
    let counts = bins.download()?;
    let time = timer(device).measure(&stream, || histogram(&stream, &x, &mut bins, n))?.median();
    let mut reference = [0u32; 256];
    data.iter().flat_map(|word| word.to_le_bytes()).for_each(|byte| reference[usize::from(byte)] += 1);
    let wrong = counts.iter().zip(&reference).filter(|(a, b)| a != b).count();
    Ok(Report {
        name: "histogram",
        device: device.name().to_owned(),
        size: format!("{} bytes", 4 * u64::from(n)),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: format!("{:.3} Gbyte/s", 4.0 * f64::from(n) / time.as_secs_f64().max(1e-12) / 1e9),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
