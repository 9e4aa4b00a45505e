//! A launch on the CPU device: the parameters are laid out as the entry declares them, and the interpreter runs.
#![allow(unsafe_code, reason = "arguments are copied from the caller's stack")]

use super::counted::note_launch;
use super::fit::Bounds;
use super::program::CpuProgram;
use crate::config::Config;
use crate::device::cpu::CpuDevice;
use crate::device::node;
use crate::device::profile::LaunchProfile;
use crate::error::Error;
use crate::kernel::{Kernel, Module};
use crate::param::Arg;
use ptx_interp::profile::Options;
use ptx_interp::{Fault, Launch};
use std::io::Write;

/// # Safety
/// As [`super::launch`].
pub(super) unsafe fn launch(
    kernel: &Kernel,
    device: &CpuDevice,
    config: &Config,
    args: &[Arg<'_>],
) -> crate::error::Result<()> {
    let shape = BOUNDS.fit(config, kernel.entry, &device.name())?;
    if shape.is_empty() {
        return Ok(());
    }
    note_launch(kernel);
    // SAFETY: passed on.
    let params = unsafe { lay_out(kernel, args) };
    let launch = Launch {
        entry: kernel.entry,
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster.unwrap_or([1, 1, 1]),
        dynamic_shared: shape.shared,
        cooperative: config.cooperative,
        params: &params,
        options: device.options(),
    };
    if let Some((node, rank)) = device.node() {
        let program = CpuProgram::of(kernel.module, Some(kernel.entry))?;
        let submitted = Submitted { program, module: kernel.module, entry: kernel.entry };
        return node.submit(rank, Box::new(submitted), (program.shared(), &launch));
    }
    let over_reals;
    let program = match device.field() {
        Some(field) => {
            over_reals = CpuProgram::over_reals(kernel.module, kernel.entry, field)?;
            &over_reals
        }
        None => CpuProgram::of(kernel.module, Some(kernel.entry))?,
    };
    // Not in the `match`, which would hold the lock while the kernel runs.
    let is_profiled = device.profiles().is_some();
    let result = match is_profiled {
        true => profile(kernel, device, program, &launch),
        false => device.machine().launch(program.decoded(), &launch).map(|stats| stats.printed),
    };
    result.map(|printed| print(&printed)).map_err(|fault| program.explain((kernel.module, kernel.entry), &fault))
}

/// A launch that runs later, beside those of other ranks.
struct Submitted {
    program: &'static CpuProgram,
    module: &'static Module,
    entry: &'static str,
}

impl node::Submitted for Submitted {
    fn entry(&self) -> &str {
        self.entry
    }

    fn explain(&self, fault: &Fault) -> Error {
        self.program.explain((self.module, self.entry), fault)
    }

    fn print(&self, text: &str) {
        print(text);
    }
}

/// A launch that is profiled; gives its output.
fn profile(kernel: &Kernel, device: &CpuDevice, program: &CpuProgram, launch: &Launch) -> Result<String, Fault> {
    let (stats, profile) = device.machine().profile(program.decoded(), launch, &Options::default())?;
    let profile = LaunchProfile {
        kernel: launch.entry.to_owned(),
        grid: launch.grid,
        block: launch.block,
        totals: profile.totals,
        lines: program.profiled_lines(kernel, &profile),
    };
    if let Some(profiles) = device.profiles().as_mut() {
        profiles.push(profile);
    }
    Ok(stats.printed)
}

/// Writes the output of `printf` to the standard output of the process, as the driver does. A closed one loses it: `print!` would
/// panic.
fn print(text: &str) {
    if !text.is_empty() {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// The limits of the newest devices: what runs there should run here.
const BOUNDS: Bounds = Bounds {
    grid: [i32::MAX as i64, 65_535, 65_535],
    block: [1024, 1024, 64],
    threads: 1024,
    kernel_threads: 1024,
    shared: 227 * 1024,
    kernel_shared: 0,
    cluster: 16,
};

/// The parameter space of the launch.
///
/// # Safety
/// As [`super::launch`].
unsafe fn lay_out(kernel: &Kernel, args: &[Arg<'_>]) -> Vec<u8> {
    let (size, places) = kernel.layout();
    let mut bytes = vec![0; size];
    for ((at, param), arg) in places.zip(args) {
        // SAFETY: the caller vouches that the argument has the parameter's size; `KernelParam` has no padding.
        let value = unsafe { std::slice::from_raw_parts(arg.at.cast::<u8>(), param.size) };
        if let Some(to) = bytes.get_mut(at..at + param.size) {
            to.copy_from_slice(value);
        }
    }
    bytes
}
