//! Answers as JSON: kernels with the descriptions of their functions, and problems with their places.

use super::registry::Made;
use crate::describe::{describe_function, quote};
use ptx_jit::describe::{Outline, Problem};
use ptx_jit::{CompileError, Transpiled};
use ptx_launch::chip::{Chip, Occupancy};
use ptx_launch::{Figures, Result};

/// The compiled kernels.
pub(super) fn kernels(kernels: &[Made]) -> String {
    let all: Vec<String> = kernels.iter().map(kernel).collect();
    let warnings = kernels.first().map(|made| made.program.program.warnings()).unwrap_or_default();
    format!(r#"{{"kernels":[{}],"warnings":{}}}"#, all.join(","), problems(warnings))
}

fn kernel(made: &Made) -> String {
    let (name, entry) = made.kernel().map_or(("", ""), |kernel| (&kernel.name, &kernel.entry));
    format!(
        r#"{{"key":{},"name":{},"entry":{},"refused":{},"function":{}}}"#,
        made.key,
        quote(name),
        quote(entry),
        quote(&made.refused),
        made.function.map_or("null".to_owned(), describe_function)
    )
}

/// The PTX of a kernel, for each target.
pub(super) fn ptx(made: &Made) -> String {
    let entry = made.kernel().map_or("", |kernel| &kernel.entry);
    let modules = made.program.program.modules().iter();
    let texts =
        modules.filter(|module| module.kernels.iter().any(|kernel| kernel.entry == entry)).flat_map(|m| &m.texts);
    let texts: Vec<String> =
        texts.map(|text| format!(r#"{{"target":{},"ptx":{}}}"#, quote(&text.target), quote(&text.ptx))).collect();
    format!(r#"{{"texts":[{}]}}"#, texts.join(","))
}

/// A module of PTX in the kernel language.
pub(super) fn transpiled(made: &Transpiled) -> String {
    format!(r#"{{"rust":{},"ptx":{}}}"#, quote(&made.rust), quote(&made.ptx))
}

/// The occupancy of a chip, if a kernel has one at any launch.
pub(super) fn occupancy(found: Option<(&Chip, Occupancy)>) -> String {
    let found = found.map(|(chip, of)| {
        let Occupancy { blocks, warps, most_warps, limits } = of;
        format!(
            r#"{{"chip":{},"blocks":{blocks},"warps":{warps},"most_warps":{most_warps},"limit":{}}}"#,
            quote(chip.name),
            quote(limits[0].0)
        )
    });
    format!(r#"{{"occupancy":{}}}"#, found.unwrap_or_else(|| "null".to_owned()))
}

/// The resources of a kernel on a GPU.
pub(super) fn figures(found: Result<(String, Figures)>) -> String {
    let number = |number: Option<u32>| number.map_or("null".to_owned(), |number| number.to_string());
    match found {
        Ok((device, of)) => format!(
            r#"{{"device":{},"registers":{},"shared_bytes":{},"stack_bytes":{},"constant_bytes":{},"spill_store_bytes":{},"spill_load_bytes":{}}}"#,
            quote(&device),
            of.registers,
            of.shared,
            of.local,
            of.constant,
            number(of.spill_stores),
            number(of.spill_loads)
        ),
        Err(error) => refused(&error.to_string()),
    }
}

/// The page of a code.
pub(super) fn page(page: &str) -> String {
    format!(r#"{{"page":{}}}"#, quote(page))
}

/// The kernels of a text that is not compiled.
pub(super) fn outline(kernels: &[Outline]) -> String {
    let list = |parts: Vec<String>| format!("[{}]", parts.join(","));
    let kernel = |kernel: &Outline| {
        let generics = kernel.generics.iter().map(|generic| format!("[{},{}]", quote(&generic.name), generic.is_type));
        let params = kernel.params.iter().map(|param| {
            let element = param.element.as_deref().map_or("null".to_owned(), quote);
            // As the function names the field of a struct.
            format!("[{},{element},{}]", quote(&param.name.replace('.', "_")), param.is_output)
        });
        let instances = kernel.instances.iter().map(|row| list(row.iter().map(|argument| quote(argument)).collect()));
        format!(
            r#"{{"name":{},"generics":{},"params":{},"instances":{}}}"#,
            quote(&kernel.name),
            list(generics.collect()),
            list(params.collect()),
            list(instances.collect())
        )
    };
    format!(r#"{{"kernels":{}}}"#, list(kernels.iter().map(kernel).collect()))
}

/// Everything that is wrong in a text.
pub(super) fn wrong(error: &CompileError) -> String {
    format!(r#"{{"error":{},"problems":{}}}"#, quote(&error.to_string()), problems(error.problems()))
}

/// A request that has no answer.
pub(super) fn refused(message: &str) -> String {
    format!(r#"{{"error":{},"problems":[]}}"#, quote(message))
}

fn problems(problems: &[Problem]) -> String {
    let problem = |problem: &Problem| {
        let ((line, column), (end_line, end_column)) = (problem.start, problem.end);
        let help: Vec<String> = problem.help.iter().map(|help| quote(help)).collect();
        format!(
            r#"{{"code":{},"message":{},"line":{line},"column":{column},"end_line":{end_line},"end_column":{end_column},"help":[{}]}}"#,
            quote(problem.code),
            quote(&problem.message),
            help.join(",")
        )
    };
    format!("[{}]", problems.iter().map(problem).collect::<Vec<_>>().join(","))
}
