//! `ptx library`: the helpers of the kernel language, to read.

use crate::output::{Failure, Outcome};
use ptx_core::diag::near::nearest;
use ptx_language::prelude::{FILES, Helper, about, helpers, source};
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A module (`mbarrier`) or one of its functions (`mbarrier::wait`), which is shown as it is written; nothing lists
    /// them all.
    name: Option<String>,
    /// All of it as one Markdown document: `docs/language/library.md`.
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

/// Always sound.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    match &arguments.name {
        Some(name) => writeln!(out, "{}", text(name)?.trim_end())?,
        None if arguments.markdown => markdown(out)?,
        None => list(out)?,
    }
    Ok(true)
}

/// The text of a module or of a function.
fn text(path: &str) -> Result<&'static str, Failure> {
    let (module, function) = path.split_once("::").unwrap_or((path, ""));
    let Some(source) = source(module) else {
        if let Some(places) = modules_with(path) {
            return Err(Failure::usage(format!("`{path}` is a function of a module: {places}")));
        }
        return Err(unknown(module, "the library", FILES.iter().map(|(name, _)| *name)));
    };
    if function.is_empty() {
        return Ok(source);
    }
    let known = helpers(source);
    let found = known.iter().find(|helper| helper.name == function);
    found.map(|helper| helper.text).ok_or_else(|| {
        let place = format!("`{module}`");
        unknown(function, &place, known.iter().map(|helper| helper.name.as_str()))
    })
}

/// The full names of the functions of this name.
fn modules_with(function: &str) -> Option<String> {
    let has = |source: &str| helpers(source).iter().any(|helper| helper.name == function);
    let found: Vec<String> =
        FILES.iter().filter(|(_, source)| has(source)).map(|(module, _)| format!("`{module}::{function}`")).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

fn unknown<'k>(name: &str, place: &str, known: impl Iterator<Item = &'k str>) -> Failure {
    let near = nearest(name, known);
    let help = near.map_or("`ptx library` lists what there is".to_owned(), |near| format!("did you mean `{near}`?"));
    Failure::usage(format!("{place} has no `{name}`; {help}"))
}

fn list(out: &mut dyn Write) -> std::io::Result<()> {
    for (module, source) in FILES {
        for Helper { signature, .. } in helpers(source) {
            writeln!(out, "{module}::{}", signature.trim_start_matches("fn "))?;
        }
    }
    Ok(())
}

/// Pictures of modules in the document: their words, and their paths in the repository.
const PICTURES: &[(&str, &str, &str)] = &[
    ("matrix", "A of mma.m16n8k16", "ptx-launch/docs/figures/mma_m16n8k16_a.svg"),
    ("matrix", "B of mma.m16n8k16", "ptx-launch/docs/figures/mma_m16n8k16_b.svg"),
    ("matrix", "C and D of mma.m16n8k16", "ptx-launch/docs/figures/mma_m16n8k16_c.svg"),
    ("swizzle", "Swizzle of 128 bytes", "ptx-launch/docs/figures/swizzle_128.svg"),
    ("tcgen05", "tcgen05.ld.32x32b", "ptx-launch/docs/figures/tcgen05_ld_32x32b.svg"),
    ("wgmma", "D of wgmma", "ptx-launch/docs/figures/wgmma_d.svg"),
    ("pipeline", "A ring of four stages over time", "docs/book/figures/ring_4.svg"),
    ("scheduler", "The order of tiles", "ptx-kernels/docs/figures/gemm_order.svg"),
    ("scheduler", "Schedulers of a GEMM over time", "ptx-kernels/docs/figures/gemm_schedulers.svg"),
];

fn markdown(out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "# The helper library\n\nMade by `ptx library --markdown` from `ptx-language/src/prelude/`, where every helper is \
         written in the kernel language;\n`ptx library mbarrier::wait` shows one. A helper is inlined: it is the instructions \
         that its line names, and nothing else."
    )?;
    for (module, source) in FILES {
        writeln!(out, "\n## `{module}`\n\n{}\n", about(source))?;
        for (_, words, path) in PICTURES.iter().filter(|(of, ..)| of == module) {
            writeln!(out, "![{words}](../../{path})\n")?;
        }
        for helper in helpers(source) {
            writeln!(out, "- `{}`  \n  {}", helper.signature, helper.about)?;
        }
    }
    Ok(())
}
