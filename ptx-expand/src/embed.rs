//! Machine code at build time: `cubin` in the attribute, or `PTX_EMBED=always`, runs ptxas on each text of a module and
//! puts what it makes beside the PTX; `cubin("sm_80", "sm_90a")` and `PTX_EMBED=sm_80,sm_90a` do so for these chips. The loader takes it
//! where it fits, and the PTX elsewhere. Kernels that are assembled are compared with their contracts; `PTX_EMBED=check` assembles for that alone, and without
//! the variable a build does so where a ptxas is present.
//!
//! A build never differs silently: a build with machine code and without ptxas is an error, and the variables that
//! decide are known to cargo, which builds again when they change.

mod contract;
mod logs;
pub(crate) mod ptxas;
#[cfg(test)]
mod tests;

use crate::compile::{Compiled, Text};
use crate::kernel::Reader;
use crate::tool::PTXAS;
use proc_macro2::{Ident, TokenStream};
use ptx_core::diag::codes;
use ptx_core::isa::{Arch, Suffix};
use ptx_core::span::Span;
use ptxas::{Failure, Ptxas};
use quote::quote;

/// Value of `PTX_EMBED`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    /// `never`: not even where the attribute has `cubin`.
    Never,
    /// Not set: where the attribute has `cubin`.
    AsAsked,
    /// `check`: the same, and kernels with a contract are assembled and compared with it.
    Check,
    /// `always`: every kernel, for its own targets.
    Always,
    /// `sm_80,sm_90a`: every kernel, for those of the chips that run it.
    For(Vec<Arch>),
}

impl Wish {
    fn of(value: Option<&str>) -> Option<Wish> {
        match value {
            None | Some("") => Some(Wish::AsAsked),
            Some("never") => Some(Wish::Never),
            Some("always") => Some(Wish::Always),
            Some("check") => Some(Wish::Check),
            Some(chips) => chips.split(',').map(|chip| chip.trim().parse().ok()).collect::<Option<_>>().map(Wish::For),
        }
    }
}

/// The variables that decide, in the expansion, so that cargo builds again when they change.
pub fn tracked(rt: &TokenStream) -> TokenStream {
    quote!(
        const _: [#rt::core::option::Option<&#rt::core::primitive::str>; 2] =
            [#rt::core::option_env!("PTX_EMBED"), #rt::core::option_env!("PTXAS")];
    )
}

/// Adds machine code to the texts of a module, if it is wanted. `asked` is the option of the attribute with its chips, `name` stands for
/// the kernel or module where there is none.
pub fn embed(reader: &mut Reader, compiled: &mut Compiled, asked: (Option<&Ident>, &[Arch]), name: &Ident) {
    let value = std::env::var("PTX_EMBED").ok();
    let (option, chips) = asked;
    let at = option.unwrap_or(name);
    match Wish::of(value.as_deref()) {
        None => {
            let message = format!("PTX_EMBED is `{}`", value.unwrap_or_default());
            let help = "set it to `always`, `never`, `check`, or chips with commas between them, as in `sm_80,sm_90a`, or unset it";
            reader.error(&codes::P0913, at, message, help);
        }
        Some(Wish::Never) => {}
        // The attribute's own chips win over those of the environment.
        Some(_) if !chips.is_empty() => for_chips(reader, compiled, chips, at),
        Some(Wish::For(chips)) => {
            let all = compiled.texts.iter().map(|text| text.arch).collect::<Vec<_>>();
            let some: Vec<Arch> = chips.into_iter().filter(|chip| best_for(&all, *chip).is_some()).collect();
            for_chips(reader, compiled, &some, at);
        }
        Some(Wish::AsAsked | Wish::Check) if option.is_none() && compiled.contracts.is_empty() => {}
        // Nobody mends a dependency.
        Some(Wish::AsAsked) if option.is_none() => {
            if std::env::var_os("CARGO_PRIMARY_PACKAGE").is_some() {
                contract::compare_alone(reader, compiled, Ptxas::find(), logs::folder().as_deref());
            }
        }
        Some(wish @ (Wish::Always | Wish::AsAsked | Wish::Check)) => {
            let own = compiled.texts.iter().enumerate().map(|(text, of)| (text, of.arch)).collect::<Vec<_>>();
            assemble(reader, compiled, Ptxas::find(), &own, at);
            if wish == Wish::Check && option.is_none() {
                compiled.texts.iter_mut().for_each(|text| text.cubins.clear());
            }
        }
    }
    compiled.failed = reader.failed();
}

/// Machine code for each of the chips, from the text that the loader would take there.
fn for_chips(reader: &mut Reader, compiled: &mut Compiled, chips: &[Arch], at: &Ident) {
    let all: Vec<Arch> = compiled.texts.iter().map(|text| text.arch).collect();
    let mut wanted: Vec<(usize, Arch)> = Vec::new();
    for chip in chips {
        match best_for(&all, *chip) {
            // Two names of one chip are one cubin.
            Some(one) if wanted.contains(&one) => {}
            Some(one) => wanted.push(one),
            None => {
                let targets: Vec<String> = all.iter().map(|arch| format!("\"{arch}\"")).collect();
                let help =
                    format!("add a target to `arch({})` that `{chip}` runs, or leave the chip out", targets.join(", "));
                reader.error(&codes::P0913, at, format!("the kernel has no PTX that `{chip}` runs"), &help);
            }
        }
    }
    if !wanted.is_empty() {
        assemble(reader, compiled, Ptxas::find(), &wanted, at);
    }
}

/// The text that a device with this chip takes, and the chip that ptxas assembles it for: `sm_90a` where `sm_90` is given and the text is for `sm_90a`.
fn best_for(targets: &[Arch], chip: Arch) -> Option<(usize, Arch)> {
    let device = Arch { suffix: Suffix::Arch, ..chip };
    let fitting = targets.iter().enumerate().filter(|(_, target)| target.assembles_for(device));
    let (text, target) = fitting.max_by_key(|(_, target)| (target.number, target.suffix))?;
    Some((text, if target.assembles_for(chip) { chip } else { device }))
}

/// Runs ptxas on texts of a module without errors, each for a chip.
fn assemble(reader: &mut Reader, compiled: &mut Compiled, ptxas: Option<Ptxas>, wanted: &[(usize, Arch)], at: &Ident) {
    if compiled.failed {
        return;
    }
    let Some(ptxas) = ptxas else {
        let help = format!("{PTXAS}; a build with PTX_EMBED=never leaves machine code out");
        return reader.error(&codes::P0913, at, "machine code is asked for, and there is no ptxas", &help);
    };
    for (text, chip) in wanted {
        let Some(text) = compiled.texts.get_mut(*text) else { continue };
        match ptxas.assemble(text, *chip, &[]) {
            Ok(cubin) => {
                contract::compare(reader, &compiled.contracts, text, &cubin);
                text.cubins.push(cubin);
            }
            Err(failures) => failures.iter().for_each(|failure| refused(reader, text, *chip, failure, at)),
        }
    }
}

/// Reports an error of ptxas, on the tokens that its line of PTX comes from.
fn refused(reader: &mut Reader, text: &Text, chip: Arch, failure: &Failure, at: &Ident) {
    let span = failure.line.and_then(|line| origin(text, line)).unwrap_or_else(|| reader.host.syntax(at));
    let message = format!("ptxas, for {chip}: {}", failure.message);
    reader.error_at(&codes::P0913, span, message, "a build with PTX_EMBED=never leaves machine code out");
}

/// Origin of a line of the PTX: the span of the last listed line up to it.
fn origin(text: &Text, line: u32) -> Option<Span> {
    let after = text.lines.partition_point(|(at, _)| *at <= line);
    text.lines.get(after.checked_sub(1)?).map(|(_, span)| *span)
}
