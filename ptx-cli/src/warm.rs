//! `ptx warm`: kernels are assembled on a GPU before a program launches them, so that the caches on disk have their machine code.

use crate::gpu;
use crate::kernels::{self, Choices};
use crate::output::{Failure, Outcome};
use ptx_jit::JitModule;
use ptx_runtime::{Device, Error, ErrorKind, RuntimeModule, disk};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// PTX files, and Rust source files with kernels.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The GPU: cuda, or cuda:1 for the second one.
    #[arg(long, default_value = "cuda")]
    device: String,
    #[command(flatten)]
    choices: Choices,
}

/// Sound if every kernel is assembled.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let device = Device::named(&arguments.device).map_err(no_gpu)?;
    if !device.is_cuda() {
        return Err(Failure::usage(format!(
            "`--device {}` assembles nothing\nhelp: name a GPU: `cuda`, or `cuda:1` for the second one",
            arguments.device
        )));
    }
    let mut is_sound = true;
    for file in &arguments.files {
        let begin = Instant::now();
        match assemble(file, arguments, &device, out)? {
            Ok(kernels) => {
                let (plural, seconds) = (if kernels == 1 { "" } else { "s" }, begin.elapsed().as_secs_f64());
                writeln!(out, "{}: {kernels} kernel{plural} on {device} in {seconds:.2} s", file.display())?;
            }
            Err(error) => {
                writeln!(out, "{}: {error}", file.display())?;
                is_sound = false;
            }
        }
    }
    match disk::folder() {
        Some(folder) => writeln!(out, "kept in {}", folder.display())?,
        None => writeln!(
            out,
            "kept in the cache of the driver; `PTX_CACHE=DIR` keeps machine code in a folder, for programs that have it too"
        )?,
    }
    Ok(is_sound)
}

/// A machine that builds programs has no GPU: there, ptxas assembles.
fn no_gpu(error: Error) -> Failure {
    let error = match error.kind() {
        ErrorKind::NoDriver => error.help(
            "run `ptx warm` on the machine that runs the program: it is the driver there that assembles, and its cache that has the result",
        ),
        _ => error,
    };
    let instead = "machine code in the program, which a build makes with ptxas and without a GPU: `PTX_EMBED=sm_90a cargo build --release`";
    Failure::usage(gpu::without(error, instead).to_string())
}

/// The number of kernels of a file, assembled.
fn assemble(
    file: &Path,
    arguments: &Arguments,
    device: &Device,
    out: &mut dyn Write,
) -> Result<Result<usize, String>, Failure> {
    let name = file.display().to_string();
    if arguments.choices.apply_to(file)? {
        let Some(program) = kernels::compile(file, &arguments.choices, None, out)? else {
            return Ok(Err("it has errors".to_owned()));
        };
        let source = ptx_jit::Source::file(file).map_err(|error| Failure::usage(error.to_string()))?;
        let module = JitModule::of_program(device, &source, &program);
        let warm = module.and_then(|module| module.warm(device).map(|()| module.kernels().len()));
        return Ok(warm.map_err(|error| error.to_string()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let module = RuntimeModule::load(device, &name, &text);
    let warm = module.and_then(|module| module.warm(device).map(|()| module.entries().count()));
    Ok(warm.map_err(|error| error.to_string()))
}
