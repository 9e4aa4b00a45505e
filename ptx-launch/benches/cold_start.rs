//! The first launch of a kernel in a process: without a cache, when it fills the cache, and out of the cache. The
//! driver's own cache is switched off. Every figure is the median of runs in processes of their own. Built with
//! `PTX_EMBED=always`, the first figure is that of the embedded machine code, on an `sm_90`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement")]

use ptx_expand::temp_dir::TempDir;
use ptx_launch::prelude::*;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const RUNS: usize = 9;
/// Set in the processes that are measured: which kernel.
const CHILD: &str = "PTX_LAUNCH_COLD_START";

/// Ten instructions.
#[ptx_kernel(arch("sm_80", "sm_90"), block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
pub fn short(x: &mut [f32]) {
    let at: u64 = x + wide(tid.x) * 4;
    let v: f32;
    ptx! {
        ld.global.f32 v, [at];
        add.rn.f32 v, v, 1.0;
        st.global.f32 [at], v;
    }
}

/// Four thousand instructions.
#[ptx_kernel(arch("sm_80", "sm_90"), block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
pub fn long(x: &mut [f32]) {
    let at: u64 = x + wide(tid.x) * 4;
    let v: f32;
    ptx! { ld.global.f32 v, [at]; }
    for _ in 0..2000 {
        ptx! {
            fma.rn.f32 v, v, v, 1.0;
            sin.approx.f32 v, v;
        }
    }
    ptx! { st.global.f32 [at], v; }
}

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok("short") => first(|device, x| short(device, x)),
        Ok("long") => first(|device, x| long(device, x)),
        _ if Device::cuda(0).is_err() => println!("no GPU: nothing is measured"),
        _ => ["short", "long"].into_iter().for_each(measure),
    }
}

/// Prints the microseconds of the first launch, until it has run.
fn first(launch: impl FnOnce(&Device, &mut Buffer<f32>) -> ptx_launch::Result<()>) {
    let device = Device::cuda(0).unwrap();
    let mut x = device.zeros::<f32>(32).unwrap();
    device.synchronize().unwrap();
    let start = Instant::now();
    launch(&device, &mut x).unwrap();
    device.synchronize().unwrap();
    println!("{}", start.elapsed().as_micros());
}

fn measure(kernel: &str) {
    let [mut without, mut filling, mut cached] = [vec![], vec![], vec![]];
    for _ in 0..RUNS {
        let folder = TempDir::new("ptx-cold-start").unwrap();
        without.push(child(kernel, None));
        filling.push(child(kernel, Some(folder.path())));
        cached.push(child(kernel, Some(folder.path())));
    }
    let [without, filling, cached] = [without, filling, cached].map(median);
    let source = short::KERNEL.loaded(&Device::cuda(0).unwrap()).unwrap().source;
    println!("{kernel}: first launch {without} us ({source:?}), {filling} us filling the cache, {cached} us out of it");
}

fn child(kernel: &str, cache: Option<&Path>) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, kernel).env("CUDA_CACHE_DISABLE", "1").env_remove("PTX_CACHE");
    cache.map(|folder| command.env("PTX_CACHE", folder));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
