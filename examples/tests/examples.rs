//! Every example is right on the CPU device and, where there is one, on a CUDA device; ptxas takes every text.

mod reals;

use libtest_mimic::{Arguments, Completion, Trial};
use ptx_examples::Report;
use ptx_jit::Source;
use ptx_launch::{Device, Result};
use ptx_tests::ptxas;
use std::path::Path;

type Example = fn(&Device) -> Result<Report>;

macro_rules! modules {
    ($($name:ident $kernel:ident $path:literal)*) => {
        $(#[path = $path] #[allow(dead_code, reason = "their `main` is for running one alone")] mod $name;)*
        const EXAMPLES: &[(&str, Example, &str, &str)] =
            &[$((stringify!($name), $name::run, $name::$kernel::PTX, $path)),*];
    };
}
ptx_examples::examples!(modules);

fn main() -> std::process::ExitCode {
    let trials = EXAMPLES.iter().flat_map(|(name, run, ptx, path)| {
        let on_cpu = interleavings().map(|seed| on_cpu(name, *run, seed));
        let others = [on_cuda(name, *run), assembles(name, ptx)];
        on_cpu.chain(others).chain(is_the_same_from_text(name, ptx, path)).collect::<Vec<_>>()
    });
    libtest_mimic::run(&Arguments::from_args(), trials.chain(reals::trials()).collect()).exit_code()
}

/// Those that take seconds on the CPU device: without `PTX_THOROUGH`, `cargo examples` alone runs them.
const LONG: [&str; 5] =
    ["hopper_gemm", "hopper_grouped_gemm", "blackwell_gemm_pair", "blackwell_grouped_gemm", "hopper_attention"];

/// `PTX_THOROUGH`, as `.ci/run` sets it.
fn is_thorough() -> bool {
    std::env::var_os("PTX_THOROUGH").is_some()
}

/// The orders in which the CPU device runs warps: one, or all that are tried.
fn interleavings() -> std::ops::Range<u64> {
    0..if is_thorough() { 2 } else { 1 }
}

fn on_cpu(name: &str, run: Example, seed: u64) -> Trial {
    let test = format!("{name} on the CPU device, interleaving {seed}");
    let left_out = LONG.contains(&name) && !is_thorough();
    Trial::ignorable_test(test, move || match left_out {
        true => Ok(Completion::ignored_with("takes seconds: set PTX_THOROUGH=1")),
        false => Ok(right(&run(&Device::cpu().seed(seed))?).map(|()| Completion::Completed)?),
    })
}

fn on_cuda(name: &str, run: Example) -> Trial {
    Trial::ignorable_test(format!("{name} on a CUDA device"), move || match Device::cuda(0) {
        Err(_) => Ok(Completion::ignored_with("no CUDA device")),
        Ok(device) => {
            let report = run(&device)?;
            right(&report)?;
            let there = report.device == device.name();
            Ok(if there {
                Completion::Completed
            } else {
                Completion::ignored_with("this chip cannot: it ran on the CPU device")
            })
        }
    })
}

fn assembles(name: &str, ptx: &'static str) -> Trial {
    Trial::ignorable_test(format!("{name}::PTX assembles"), move || match ptxas::find() {
        None => Ok(Completion::ignored_with(ptxas::ABSENT)),
        Some(_) => Ok(ptxas::assemble(ptx).map(|()| Completion::Completed)?),
    })
}

/// `ptx-jit` makes the same PTX of the file as the macro does; `None` for the examples of a kernel in another file.
fn is_the_same_from_text(name: &str, ptx: &'static str, path: &str) -> Option<Trial> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tests").join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    ["\n#[ptx_kernel", "\n#[ptx_module", "\nptx! {"].iter().any(|start| text.contains(start)).then(|| {
        Trial::test(format!("{name} from text"), move || {
            let program = Source::file(&file)?.compile().map_err(|error| error.to_string())?;
            let mut texts = program.modules().iter().flat_map(|module| &module.texts);
            if texts.any(|text| text.ptx == ptx) { Ok(()) } else { Err("the text has other PTX than the macro".into()) }
        })
    })
}

fn right(report: &Report) -> std::result::Result<(), String> {
    println!("{report}");
    if report.passed() { Ok(()) } else { Err(report.to_string()) }
}
