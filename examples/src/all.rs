//! Every example on the best device: `cargo examples`. Says which device it is, and fails if a result is wrong.
//!
//! Some run at the same time, because most of their time is the host's: data, references, and the CPU device. Lines appear in order.

use ptx_examples::{Report, fail, turns};
use ptx_launch::prelude::*;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

macro_rules! modules {
    ($($name:ident $kernel:ident $path:literal)*) => {
        $(#[path = $path] #[allow(dead_code, reason = "their `main` is for running one alone")] mod $name;)*
        const EXAMPLES: &[fn(&Device) -> ptx_launch::Result<Report>] = &[$($name::run),*];
    };
}
ptx_examples::examples!(modules);

/// The most examples at the same time: each may hold a gigabyte.
const WORKERS: usize = 4;

fn main() -> ExitCode {
    let device = match Device::best() {
        Ok(device) => device,
        Err(why) => return fail(&why),
    };
    println!("device: {}", device.name());
    if !device.is_cuda() {
        println!("(there is no CUDA GPU here that can be used: the CPU device interprets the PTX)");
    }
    let results: Vec<OnceLock<_>> = EXAMPLES.iter().map(|_| OnceLock::new()).collect();
    let jobs = Mutex::new(EXAMPLES.iter().zip(&results));
    let work = || loop {
        let Some((example, result)) = jobs.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
        if device.is_cuda() {
            turns::begin();
        }
        _ = result.set(example(&device));
        turns::end();
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let right = thread::scope(|scope| {
        (0..cores.min(WORKERS)).for_each(|_| drop(scope.spawn(work)));
        results.iter().filter(|result| print(&device, result.wait())).count()
    });
    println!("{} examples, {right} right", EXAMPLES.len());
    ExitCode::from(u8::from(right < EXAMPLES.len()))
}

/// Prints the line of an example. Returns true if it is right.
fn print(device: &Device, result: &ptx_launch::Result<Report>) -> bool {
    match result {
        Ok(report) => {
            let elsewhere = if report.device == device.name() { "" } else { "  (on the CPU device: this chip cannot)" };
            println!("{report}{elsewhere}");
            report.passed()
        }
        Err(why) => {
            fail(why);
            false
        }
    }
}
