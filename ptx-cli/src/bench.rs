//! `ptx bench`: the time of a kernel on a GPU, by the GPU's clock.

use crate::gpu;
use crate::launch::LaunchArguments;
use crate::output::Outcome;
use crate::run::cuda::{OnGpu, failed};
use clap::ValueEnum;
use ptx_runtime::{Buffer, Timer, Timing};
use std::io::Write;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kernel: LaunchArguments,
    /// Launches that do not count.
    #[arg(long, value_name = "N", default_value_t = 3)]
    warm_up: u32,
    /// Launches that count.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The L2 cache at the start of each launch.
    #[arg(long, value_enum, default_value_t = L2::Cold)]
    cache: L2,
    /// Bytes that a launch moves: the rate is printed, too.
    #[arg(long, value_name = "N")]
    bytes: Option<f64>,
    /// Operations of a launch: the rate is printed, too.
    #[arg(long, value_name = "N")]
    flops: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum L2 {
    /// Other memory is written before each launch.
    Cold,
    /// As a launch of the same leaves it.
    Warm,
}

/// More bytes than the L2 cache of any chip has.
const FLUSHED: usize = 512 << 20;

/// Sound if the kernel ends. Buffers are not written to files: each launch works on what the one before has left.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let Some((source, checked)) = arguments.kernel.read(out)? else { return Ok(false) };
    let measured = OnGpu::new(&arguments.kernel, &source, &checked)?.and_then(|mut launch| {
        let timing = measure(arguments, &mut launch)?;
        Ok((launch, timing))
    });
    match measured {
        Ok((launch, timing)) => {
            let cache = if arguments.cache == L2::Cold { "cold" } else { "warm" };
            write!(out, "{} on {}, {cache} cache: {timing}", launch.entry(), launch.device.name())?;
            let rates = [(arguments.bytes, 1e9, "GB/s"), (arguments.flops, 1e12, "TFLOP/s")];
            for (units, scale, name) in rates {
                if let Some(units) = units {
                    write!(out, ", {:.1} {name}", timing.rate(units) / scale)?;
                }
            }
            writeln!(out)?;
            Ok(true)
        }
        Err(error) => {
            let instead = "`ptx profile`, which counts without a GPU what the kernel requires of one";
            failed(&gpu::without(error, instead), out)
        }
    }
}

fn measure(arguments: &Arguments, launch: &mut OnGpu<'_>) -> ptx_runtime::Result<Timing> {
    let mut flushed: Buffer<u8> = launch.device.zeros(FLUSHED)?;
    let stream = launch.device.stream();
    for _ in 0..arguments.warm_up {
        launch.submit()?;
    }
    let mut samples: Vec<Duration> = Vec::new();
    for turn in 0..arguments.runs {
        // It takes the GPU longer than the host takes to submit what follows: an idle GPU would be timed waiting for it.
        stream.fill(&mut flushed, (turn % 255) as u8)?;
        if arguments.cache == L2::Warm {
            launch.submit()?;
        }
        let timing = Timer::new().warm_up(0).runs(1).measure(&stream, || launch.submit())?;
        samples.extend(timing.samples());
    }
    Ok(Timing::from_samples(samples))
}
