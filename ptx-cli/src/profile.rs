//! `ptx profile`: what a kernel requires of a GPU, counted on the CPU device.
//!
//! ```text
//! report   the counters by line of the source, with occupancy and roofline: what every format shows
//! advice   the lines that lose most, the reason and the fix
//! text     for the terminal      json   one object      html   a page
//! ```

mod advice;
mod html;
mod json;
mod report;
mod text;

use crate::launch::{LaunchArguments, refuse};
use crate::output::{Failure, Outcome};
use crate::write;
use clap::ValueEnum;
use ptx_core::isa::Arch;
use ptx_interp::chip::{CHIPS, Chip};
use ptx_interp::profile::Options;
use ptx_interp::{Launch, Machine, Program};
use report::Report;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kernel: LaunchArguments,
    /// The chip whose occupancy and roofline are shown: H100, H200, A100, B200, or a target: sm_90; else the usual one of the file's target.
    #[arg(long, value_parser = chip)]
    chip: Option<&'static Chip>,
    /// Run about so many blocks, spread over the grid, and estimate the counters of all from them; buffers are not written.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    blocks: Option<u64>,
    /// The output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also write a page with the source, its heat and charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page for the terminal: the worst lines first.
    Text,
    /// One JSON object.
    Json,
}

fn chip(name: &str) -> Result<&'static Chip, String> {
    let of_target = || CHIPS.iter().find(|chip| name.parse::<Arch>().is_ok_and(|arch| arch.number == chip.target));
    Chip::find(name).or_else(of_target).ok_or_else(|| format!("there is no chip `{name}`; there are {}", Chip::names()))
}

/// Sound if the kernel ran to its end.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let Some((source, checked)) = arguments.kernel.read(out)? else { return Ok(false) };
    let program = match Program::new(&checked) {
        Ok(program) => program,
        Err(diagnostics) => return refuse(&source, &diagnostics, out),
    };
    let mut bound = arguments.kernel.bind(&source, &checked, &program)?;
    let options = arguments.kernel.options();
    let chip = arguments.chip.unwrap_or_else(|| Chip::usual(program.arch()));
    let choices = Options { chip: Some(chip), blocks: arguments.blocks };
    let run = |machine: &mut Machine, launch: &Launch| machine.profile(&program, launch, &choices);
    let Some((stats, profile)) = bound.launch(&source, options, run, out)? else { return Ok(false) };
    if profile.sample.is_none() {
        bound.save()?;
    }
    let report = Report::new(&source, &program, &bound, &profile, chip)?;
    if let Some(path) = &arguments.html {
        write::replace(path, html::page(&report).as_bytes())?;
    }
    match arguments.format {
        Format::Text => {
            write!(out, "{}", stats.printed)?;
            text::write(&report, out)?;
        }
        Format::Json => {
            // The kernel's own output would be no JSON.
            write!(std::io::stderr(), "{}", stats.printed).map_err(Failure::from)?;
            writeln!(out, "{:#}", json::object(&report))?;
        }
    }
    Ok(true)
}
