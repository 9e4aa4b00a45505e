//! Rates of each algorithm on a GPU, and the share of the fastest one that the choice has.

use half::bf16;
use ptx_kernels::float8::E4m3;
use ptx_kernels::gemm::{Element, Gemm, Operand, Output, algorithms};
use ptx_launch::{Device, KernelParam, Result, TensorMut, TensorRef, Timer};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// M, N, K.
const SHAPES: [[usize; 3]; 9] = [
    [4096, 4096, 4096],
    [8192, 1024, 4096],
    [1024, 1024, 1024],
    [256, 512, 8192],
    [4095, 4095, 4095],
    [64, 4096, 4096],
    [16, 4096, 4096],
    [1, 8192, 8192],
    [8192, 1, 8192],
];

fn time<T, O>(device: &Device, [m, n, k]: [usize; 3], b_major: bool, gemm: Gemm<'_, O, 2>) -> Result<Duration>
where
    T: Operand + KernelParam,
    O: Element + Output<T>,
{
    let (a, b, mut c) = (device.zeros::<T>(m * k)?, device.zeros::<T>(k * n)?, device.zeros::<O>(m * n)?);
    let (stream, mut gemm) = (device.stream(), gemm);
    let timer = Timer::new().warm_up(1).runs(5).batch(2);
    let timing = timer.measure(&stream, || {
        let b = if b_major { b.tile([k, n])?.into() } else { TensorRef::from(b.tile([n, k])?).transposed() };
        gemm.run(&stream, a.tile([m, k])?, b, c.tile_mut([m, n])?)
    })?;
    Ok(timing.median())
}

fn table<T, O>(device: &Device, kind: &str, tf32: bool) -> Result<()>
where
    T: Operand + KernelParam,
    O: Element + Output<T>,
{
    let mut shares = Vec::new();
    for shape @ [m, n, k] in SHAPES {
        for b_major in [false, true] {
            let new = || Gemm::<O, 2>::new().tf32(tf32);
            let chosen = time::<T, O>(device, shape, b_major, new())?;
            let mut best = (chosen, String::from("the choice"));
            let mut told = String::new();
            for name in algorithms(kind) {
                for splits in [1, 2, 4, 8, 16, 32] {
                    let Ok(time) = time::<T, O>(device, shape, b_major, new().algorithm(name, splits)) else { break };
                    if splits == 1 || time < best.0 {
                        told += &format!(" {name}/{splits} {:.1}", time.as_secs_f64() * 1e6);
                    }
                    if time < best.0 {
                        best = (time, format!("{name}/{splits}"));
                    }
                }
            }
            let rate = 2.0 * (m * n * k) as f64 / chosen.as_secs_f64() / 1e12;
            let share = best.0.as_secs_f64() / chosen.as_secs_f64();
            shares.push(share);
            let major = if b_major { "kn" } else { "kk" };
            println!(
                "{kind} {m}x{n}x{k} {major}: {:.1} us {rate:.1} TFLOP/s {share:.2} of {};{told}",
                chosen.as_secs_f64() * 1e6,
                best.1
            );
        }
    }
    let mean = (shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len() as f64).exp();
    println!("{kind}: {mean:.3} of the best");
    Ok(())
}

#[test]
#[ignore = "measures, on a GPU: PTX_DEVICE=cuda cargo test --release -p ptx-kernels --test gemm -- --ignored --nocapture rates"]
fn rates() {
    let device = super::device();
    table::<bf16, bf16>(&device, "bf16", false).unwrap();
    table::<f32, f32>(&device, "f32", false).unwrap();
    table::<f32, f32>(&device, "tf32", true).unwrap();
    table::<i8, i32>(&device, "i8", false).unwrap();
    table::<E4m3, bf16>(&device, "e4m3", false).unwrap();
}

#[test]
#[ignore = "measures: cargo test --release -p ptx-kernels --test gemm -- --ignored --nocapture a_choice_is_quick"]
fn a_choice_is_quick() {
    /// More than the choices that a thread keeps, so that each of them is searched.
    const PROBLEMS: usize = 1024;
    let device = super::device();
    let stream = device.stream();
    for [m, n, k] in
        [[1, 4096, 4096], [16, 8192, 1024], [128, 1024, 4096], [1000, 1048, 1032], [4096; 3], [33, 4095, 511]]
    {
        let rows = n + PROBLEMS;
        let [a, b, mut c] = [m * k, rows * k, m * rows].map(|len| device.zeros::<bf16>(len).unwrap());
        let mut time = |extent: &dyn Fn(usize) -> usize, chooses: bool| {
            let run = || {
                let start = Instant::now();
                for problem in 0..PROBLEMS {
                    let n = extent(problem);
                    let b = TensorRef::from(b.tile([n, k]).unwrap()).transposed();
                    let (a, c) =
                        (TensorRef::from(a.tile([m, k]).unwrap()), TensorMut::from(c.tile_mut([m, n]).unwrap()));
                    if chooses {
                        black_box(Gemm::<bf16, 2>::new().choose(&stream, a, b, c).unwrap());
                    } else {
                        black_box((a, b, c));
                    }
                }
                start.elapsed() / PROBLEMS as u32
            };
            std::iter::repeat_with(run).take(20).min().unwrap()
        };
        let tensors = time(&|problem| n + problem, false);
        let [kept, searched] = [time(&|_| n, true), time(&|problem| n + problem, true)].map(|time| time - tensors);
        println!("{m}x{n}x{k}: kept {kept:?}, searched {searched:?}, beside {tensors:?} for the tensors");
    }
}
