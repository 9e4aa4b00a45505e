//! What submitting a launch costs the host: the typed launch, cudarc's builder and the bare driver call, in turns in one
//! process. `cargo bench -p ptx-launch --bench submit`, on a machine with a GPU.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a benchmark")]

#[path = "../tests/expansion/mod.rs"]
mod expansion;

use cudarc::driver::sys::cuLaunchKernel;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use expansion::saxpy;
use ptx_launch::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// Launches between two waits: few enough for the driver's queue.
const BURST: u32 = 256;
/// Bursts of each kind, in turns.
const TURNS: usize = 400;

fn main() -> ptx_launch::Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing is measured: {error}");
            return Ok(());
        }
    };
    println!("{device}, {TURNS} turns of {BURST} launches, median (quartiles) in ns a launch");
    compare("one stream", &device, device.stream().as_cuda().unwrap());
    let stream = device.new_stream()?;
    compare("managed streams", &device, stream.as_cuda().unwrap());
    graphs(&device)
}

/// The three ways to submit the same launch.
fn compare(title: &str, device: &Device, stream: &Arc<CudaStream>) {
    let (x, mut y) = (stream.clone_htod(&[1.0f32; 256]).unwrap(), stream.clone_htod(&[1.0f32; 256]).unwrap());
    let (function, at) = (load(stream), (address(&x), address(&y)));
    let mut samples = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        samples[0].push(burst(device, || bare(stream, &function, at.0, at.1)));
        samples[1].push(burst(device, || saxpy(stream, 0.0, &x, &mut y, 256).unwrap()));
        samples[2].push(burst(device, || builder(stream, &function, &x, &mut y)));
    }
    let [bare, typed, builder] = samples.map(figures);
    println!("{title}:\n  cuLaunchKernel  {bare}\n  typed launch    {typed}\n  cudarc builder  {builder}");
}

/// Nanoseconds of a launch, over a burst.
fn burst(device: &Device, mut launch: impl FnMut()) -> f64 {
    device.synchronize().unwrap();
    let start = Instant::now();
    (0..BURST).for_each(|_| launch());
    let time = start.elapsed();
    device.synchronize().unwrap();
    time.as_secs_f64() * 1e9 / f64::from(BURST)
}

fn figures(mut samples: Vec<f64>) -> String {
    samples.sort_by(f64::total_cmp);
    let at = |part: usize| samples[(samples.len() - 1) * part / 4];
    format!("{:7.0} ({:.0} … {:.0})", at(2), at(1), at(3))
}

/// What a person writes who manages streams by hand.
fn bare(stream: &CudaStream, function: &CudaFunction, x: u64, y: u64) {
    let (alpha, n) = (0.0f32, 256u32);
    let mut args: [*const std::ffi::c_void; 4] =
        [(&raw const alpha).cast(), (&raw const x).cast(), (&raw const y).cast(), (&raw const n).cast()];
    let args = (&raw mut args).cast();
    // SAFETY: the arguments are those of the kernel.
    let code = unsafe {
        let (function, stream) = (function.cu_function(), stream.cu_stream());
        cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream, args, std::ptr::null_mut())
    };
    code.result().unwrap();
}

/// The address, for work whose order is managed by hand.
fn address(slice: &CudaSlice<f32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

fn load(stream: &CudaStream) -> CudaFunction {
    stream.context().load_module(saxpy::PTX.into()).unwrap().load_function("saxpy").unwrap()
}

fn builder(stream: &CudaStream, function: &CudaFunction, x: &CudaSlice<f32>, y: &mut CudaSlice<f32>) {
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    let mut builder = stream.launch_builder(function);
    builder.arg(&0.0f32).arg(x).arg(y).arg(&256u32);
    // SAFETY: the arguments are those of the kernel.
    unsafe { builder.launch(config) }.unwrap();
}

/// A graph of 1,000 typed launches against one of 1,000 bare ones.
fn graphs(device: &Device) -> ptx_launch::Result<()> {
    let stream = device.new_stream()?;
    let cuda = stream.as_cuda().unwrap();
    let (x, mut y) = (cuda.clone_htod(&[1.0f32; 256]).unwrap(), cuda.clone_htod(&[1.0f32; 256]).unwrap());
    let (function, at) = (load(cuda), (address(&x), address(&y)));
    device.synchronize()?;
    let by_hand = stream.capture(|_| {
        (0..1000).for_each(|_| bare(cuda, &function, at.0, at.1));
        Ok(())
    })?;
    let typed = stream.capture(|stream| (0..1000).try_for_each(|_| saxpy(stream, 0.0, &x, &mut y, 256)))?;
    for (title, graph) in [("by hand", &by_hand), ("typed", &typed), ("by hand", &by_hand), ("typed", &typed)] {
        // SAFETY: the buffers are alive, and nobody else uses them.
        let timing = Timer::new().runs(200).measure(&stream, || unsafe { graph.launch() })?;
        println!("a graph of 1000 launches, {title}: {:.1} ns a kernel", timing.median().as_secs_f64() * 1e6);
    }
    Ok(())
}
