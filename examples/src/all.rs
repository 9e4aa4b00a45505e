//! Every example on the best device: `cargo examples`. Says which device it is, and fails if a result is wrong.

use ptx_examples::{Report, fail};
use ptx_launch::prelude::*;
use std::process::ExitCode;

macro_rules! modules {
    ($($name:ident $kernel:ident $path:literal)*) => {
        $(#[path = $path] #[allow(dead_code, reason = "their `main` is for running one alone")] mod $name;)*
        const EXAMPLES: &[fn(&Device) -> ptx_launch::Result<Report>] = &[$($name::run),*];
    };
}
ptx_examples::examples!(modules);

fn main() -> ExitCode {
    let device = match Device::best() {
        Ok(device) => device,
        Err(why) => return fail(&why),
    };
    println!("device: {}", device.name());
    if !device.is_cuda() {
        println!("(there is no CUDA GPU here that can be used: the CPU device interprets the PTX)");
    }
    let mut wrong = 0;
    for example in EXAMPLES {
        match example(&device) {
            Ok(report) => {
                let elsewhere =
                    if report.device == device.name() { "" } else { "  (on the CPU device: this chip cannot)" };
                println!("{report}{elsewhere}");
                wrong += usize::from(!report.passed());
            }
            Err(why) => {
                fail(&why);
                wrong += 1;
            }
        }
    }
    println!("{} examples, {} right", EXAMPLES.len(), EXAMPLES.len() - wrong);
    ExitCode::from(u8::from(wrong > 0))
}
