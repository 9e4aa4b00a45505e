//! Kernels and launches that `transpiled_runs` builds beside the transpiled ones: launches with data, checked
//! numbers, and the time of a launch on a GPU.

#![allow(deprecated, reason = "warnings about the kernels of others")]

mod gemm;
mod saxpy;
mod softmax;

use half::bf16;
use ptx_launch::prelude::*;
use ptx_launch::{Swizzle, Timer};

fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    println!("{}", device.name());
    run_saxpy(&device)?;
    run_softmax(&device)?;
    // Its epilogue stores to shared memory and starts a bulk copy from there without a proxy fence: the CPU device, when it
    // watches, reports that, and stops.
    run_gemm(&device.watch(false))
}

/// Numbers between -1 and 1.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f32 / (1u64 << 31) as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// On a GPU: how long a launch takes, and how many times 10⁹ units of its work that is in a second.
fn time(device: &Device, work: f64, unit: &str, launch: impl FnMut() -> ptx_launch::Result<()>) -> ptx_launch::Result<()> {
    if device.is_cuda() {
        let timing = Timer::new().measure(&device.stream(), launch)?;
        println!("    {timing}: {:.0} {unit}", timing.rate(work) / 1e9);
    }
    Ok(())
}

fn run_saxpy(device: &Device) -> ptx_launch::Result<()> {
    let (n, blocks) = if device.is_cuda() { ((1 << 26) + 3, 2048) } else { (100_003, 64) };
    let (hx, hy) = (random(n, 1), random(n, 2));
    let (x, mut y) = (device.upload(&hx)?, device.upload(&hy)?);
    let config = Config::grid(blocks).block(256);
    // SAFETY: both buffers have n elements.
    let mut launch = || unsafe { saxpy::k::saxpy(&device.stream(), config, n as u32, 1.5, &x, &mut y) };
    launch()?;
    let got = y.download()?;
    for i in 0..n {
        assert_eq!(got[i], 1.5f32.mul_add(hx[i], hy[i]), "y[{i}]");
    }
    println!("saxpy: {n} elements, all exact");
    // SAFETY: as above.
    let launch = || unsafe { saxpy::k::saxpy(&device.stream(), config, n as u32, 1.5, &x, &mut y) };
    time(device, 12.0 * n as f64, "GB/s", launch)
}

fn run_softmax(device: &Device) -> ptx_launch::Result<()> {
    let (rows, columns) = (if device.is_cuda() { 32_768 } else { 33 }, 1000);
    let values = random(rows * columns, 3);
    let x = device.upload(&values)?;
    let mut out = device.zeros::<f32>(rows * columns)?;
    let (scratch, profile) = (device.zeros::<u32>(4)?, device.zeros::<u32>(4)?);
    let config = Config::grid(rows as u32).block(128).shared(4096);
    let (stream, width) = (device.stream(), columns as u32);
    // SAFETY: both buffers have rows × columns elements; the kernel uses no scratch memory.
    let mut launch = || unsafe { softmax::k::softmax(&stream, config, &mut out, &x, width, width, &scratch, &profile) };
    launch()?;
    time(device, 8.0 * (rows * columns) as f64, "GB/s", launch)?;
    let got = out.download()?;
    let mut worst = 0.0f64;
    for (row, got) in values.chunks(columns).zip(got.chunks(columns)) {
        let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
        for (value, got) in row.iter().zip(got) {
            let want = f64::from(*value).exp() / sum;
            worst = worst.max((f64::from(*got) - want).abs() / want);
        }
    }
    assert!(worst < 1e-5, "softmax is wrong by {worst:e}");
    println!("softmax: {rows} x {columns}, largest relative error {worst:e}");
    Ok(())
}

/// C = A Bᵀ, which the kernel writes by columns. A cluster takes 256 x 256 of it.
fn run_gemm(device: &Device) -> ptx_launch::Result<()> {
    let (m, n, k) = if device.is_cuda() { (4096, 4096, 4096) } else { (256, 256, 128) };
    let integers = |count, seed| -> Vec<bf16> { random(count, seed).iter().map(|v| bf16::from_f32((v * 3.0).round())).collect() };
    let (ha, hb) = (integers(m * k, 5), integers(n * k, 6));
    let (a, b, c) = (device.upload(&ha)?, device.upload(&hb)?, device.zeros::<bf16>(m * n)?);
    let stream = device.stream();
    let map = |of: &Buffer<bf16>, rows: usize, width: usize, tile: [usize; 3], swizzle| {
        let map = TensorMap::of::<bf16>(&stream, of, &[width / 64, rows, 64])?;
        map.strides(&[64, width, 1]).tile(&tile).swizzle(swizzle).build()
    };
    let (map_a, map_b) = (map(&a, m, k, [1, 128, 64], Swizzle::B128)?, map(&b, n, k, [1, 256, 64], Swizzle::B128)?);
    let map_c = map(&c, n, m, [1, 256, 72], Swizzle::None)?;
    // Which tiles each cluster takes: 128 places, row and column in 16 bits each, -1 behind the last.
    let (across, tiles) = (n / 256, (m / 256) * (n / 256));
    let clusters = tiles.min(64);
    let mut schedule = vec![u32::MAX; clusters * 128];
    for tile in 0..tiles {
        schedule[tile % clusters * 128 + tile / clusters] = ((tile / across) << 16 | tile % across) as u32;
    }
    let schedule = device.upload(&schedule)?;
    let config = Config::grid(2 * clusters as u32).block(384).shared(221_744);
    let (dm, dn, dk) = (m as u32, n as u32, k as u32);
    // SAFETY: the maps cover the matrices, the schedule has an end for every cluster.
    let mut launch =
        || unsafe { gemm::k::matmulKernel12(&stream, config, dm, dn, dk, &map_c, &map_a, &map_b, &schedule) };
    launch()?;
    let got = c.download()?;
    // Products of small integers: whatever the order, the sum is exact before it is rounded to `bf16`.
    let samples = if device.is_cuda() { 20_000 } else { 2000 };
    for sample in 0..samples {
        let (i, j) = ((sample * 7919 + 13) % m, (sample * 104_729 + sample / 3) % n);
        let exact: f64 = (0..k).map(|x| ha[i * k + x].to_f64() * hb[j * k + x].to_f64()).sum();
        assert_eq!(got[j * m + i], bf16::from_f64(exact), "C[{i}, {j}]");
    }
    println!("gemm: {m} x {n} x {k}, {samples} sampled elements exact");
    time(device, 2.0 * (m * n) as f64 * k as f64 / 1e3, "TFLOP/s", launch)
}
