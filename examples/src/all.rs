//! Every example on the best device: `cargo examples`. Says which device it is, and fails if a result is wrong.

use ptx_examples::{Report, fail};
use ptx_launch::prelude::*;
use std::process::ExitCode;

macro_rules! examples {
    ($($name:ident $path:literal)*) => {
        $(#[path = $path] #[allow(dead_code, reason = "their `main` is for running one alone")] mod $name;)*
        const EXAMPLES: &[fn(&Device) -> ptx_launch::Result<Report>] = &[$($name::run),*];
    };
}

examples! {
    vector_add "../01_vector_add.rs"
    saxpy "../02_saxpy.rs"
    block_reduce "../03_block_reduce.rs"
    histogram "../04_histogram.rs"
    transpose "../05_transpose.rs"
    softmax "../06_softmax.rs"
    rms_norm "../07_rms_norm.rs"
    ptx_module "../08_ptx_module.rs"
    ptx_file "../09_ptx_file.rs"
    instances "../10_instances.rs"
}

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
                println!("{report}");
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
