//! Host cost of submitting a launch: the typed launch, cudarc's builder and the bare driver call, with 3 buffers and
//! 1 scalar, alternating in one process. `cargo bench -p ptx-launch --bench submit`, on a machine with a GPU.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a benchmark")]

use cudarc::driver::sys::cuLaunchKernel;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use ptx_launch::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// Launches between two waits: few enough for the driver's queue.
const BURST: u32 = 256;
/// Bursts of each kind, in turns.
const TURNS: usize = 400;

/// `z = x + y`
#[ptx_kernel(arch = "sm_80", block = 256, grid = 1, unsafe(requires(x.len() >= n, y.len() >= n, z.len() >= n, n <= 256)))]
pub fn add(x: &[f32], y: &[f32], z: &mut [f32], n: u32) {
    if tid.x < n {
        let at: u64 = wide(tid.x) * 4;
        let (px, py, pz): (u64, u64, u64) = (x + at, y + at, z + at);
        let (a, b): (f32, f32);
        ptx! {
            ld.global.f32 a, [px];
            ld.global.f32 b, [py];
            add.rn.f32 a, a, b;
            st.global.f32 [pz], a;
        }
    }
}

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

fn slice(stream: &Arc<CudaStream>) -> CudaSlice<f32> {
    stream.clone_htod(&[1.0f32; 256]).unwrap()
}

/// The four ways to submit the same launch.
fn compare(title: &str, device: &Device, stream: &Arc<CudaStream>) {
    let (x, y, mut z) = (slice(stream), slice(stream), slice(stream));
    let ours = || device.upload(&[1.0f32; 256]).unwrap();
    let (a, b, mut c) = (ours(), ours(), ours());
    let (function, at) = (load(stream), [address(&x), address(&y), address(&z)]);
    let mut samples = [const { Vec::new() }; 4];
    for _ in 0..TURNS {
        samples[0].push(burst(device, || bare(stream, &function, at)));
        samples[1].push(burst(device, || add(stream, &a, &b, &mut c, 256).unwrap()));
        samples[2].push(burst(device, || add(stream, &x, &y, &mut z, 256).unwrap()));
        samples[3].push(burst(device, || builder(stream, &function, [&x, &y], &mut z)));
    }
    let [bare, ours, theirs, builder] = samples.map(figures);
    println!("{title}:\n  cuLaunchKernel            {bare}\n  typed launch, Buffer      {ours}");
    println!("  typed launch, CudaSlice   {theirs}\n  cudarc builder            {builder}");
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

/// Code of a person who manages streams manually.
fn bare(stream: &CudaStream, function: &CudaFunction, [x, y, z]: [u64; 3]) {
    let n = 256u32;
    let mut args: [*const std::ffi::c_void; 4] =
        [(&raw const x).cast(), (&raw const y).cast(), (&raw const z).cast(), (&raw const n).cast()];
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
    stream.context().load_module(add::PTX.into()).unwrap().load_function("add").unwrap()
}

fn builder(stream: &CudaStream, function: &CudaFunction, [x, y]: [&CudaSlice<f32>; 2], z: &mut CudaSlice<f32>) {
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    let mut builder = stream.launch_builder(function);
    builder.arg(x).arg(y).arg(z).arg(&256u32);
    // SAFETY: the arguments are those of the kernel.
    unsafe { builder.launch(config) }.unwrap();
}

/// A graph of 1,000 typed launches against one of 1,000 bare ones.
fn graphs(device: &Device) -> ptx_launch::Result<()> {
    let stream = device.new_stream()?;
    let cuda = stream.as_cuda().unwrap();
    let (x, y, mut z) = (slice(cuda), slice(cuda), slice(cuda));
    let (function, at) = (load(cuda), [address(&x), address(&y), address(&z)]);
    device.synchronize()?;
    let by_hand = stream.capture(|_| {
        (0..1000).for_each(|_| bare(cuda, &function, at));
        Ok(())
    })?;
    let typed = stream.capture(|stream| (0..1000).try_for_each(|_| add(stream, &x, &y, &mut z, 256)))?;
    for (title, graph) in [("by hand", &by_hand), ("typed", &typed), ("by hand", &by_hand), ("typed", &typed)] {
        // SAFETY: the buffers are alive, and nobody else uses them.
        let timing = Timer::new().runs(200).measure(&stream, || unsafe { graph.launch_untracked() })?;
        println!("a graph of 1000 launches, {title}: {:.1} ns a kernel", timing.median().as_secs_f64() * 1e6);
    }
    Ok(())
}
