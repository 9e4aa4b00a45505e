//! Kernels of the kernel language: the contract is that of their attributes.

use super::{Arguments, Proof, checked, decide, params, verdict};
use crate::kernels;
use crate::output::{Failure, Outcome};
use crate::source::Source;
use ptx_core::host::{Expr, Operator};
use ptx_jit::describe::{Dim, From, Kernel, Kind, Launch};
use ptx_prove::{Contract, Passed, Report};
use std::io::Write;

/// Proves each kernel of a file, or the one that is asked for.
pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let options =
        [arguments.block.is_some(), arguments.grid.is_some(), arguments.cluster.is_some(), arguments.shared > 0];
    if options.contains(&true) || !arguments.assume.is_empty() {
        let text = "the attribute of a kernel says its launches; help: write `block`, `grid`, `shared` and `requires(…)` there";
        return Err(Failure::usage(text));
    }
    let Some(program) = kernels::compile(&arguments.file, &arguments.kernels, None, out)? else { return Ok(false) };
    let wanted =
        |kernel: &Kernel| arguments.entry.as_ref().is_none_or(|name| *name == kernel.name || *name == kernel.entry);
    let mut all = Report::default();
    let mut count = 0;
    for module in program.modules() {
        let Some(text) = module.texts.first() else { continue };
        for kernel in module.kernels.iter().filter(|kernel| wanted(kernel)) {
            count += 1;
            writeln!(out, "{}", kernel.entry)?;
            let source = Source::new(format!("{} (PTX)", arguments.file.display()), text.ptx.as_bytes().to_vec());
            all.findings.extend(one(arguments, &source, kernel, out)?.findings);
        }
    }
    match count {
        0 => Err(Failure::usage("there is no such `#[ptx_kernel]` in this file")),
        _ => verdict(&all),
    }
}

fn one(arguments: &Arguments, source: &Source, kernel: &Kernel, out: &mut dyn Write) -> Result<Report, Failure> {
    let launch = kernel.launch.as_ref().map_err(|problem| Failure::usage(problem.message.clone()))?;
    let Some(checked) = checked(source, out)? else { return Ok(Report::default()) };
    let entry = checked.module().functions.iter().find(|f| f.entry && f.defined && f.name == kernel.entry);
    let entry = entry.ok_or_else(|| Failure::usage("there is no such entry"))?;
    let params = params(&checked, entry);
    let contract = contract(kernel, launch)?;
    decide(&Proof { source, checked: &checked, entry, contract, params }, arguments.format, out)
}

/// The launches of a kernel's attribute.
fn contract(kernel: &Kernel, launch: &Launch) -> Result<Contract, Failure> {
    let block = launch.block.as_ref().and_then(extents).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` has no constant `block`; help: write `block = 256` in its attribute",
            kernel.entry
        ))
    })?;
    let shared = match (&launch.shared, launch.dynamic) {
        (Some(Expr::Int(bytes)), _) => u64::try_from(*bytes).unwrap_or(0),
        (_, bytes) => bytes.unwrap_or(0),
    };
    let mut assume: Vec<Expr> = launch.requires.iter().map(|condition| condition.holds.clone()).collect();
    let mut elements = Vec::new();
    for (at, param) in kernel.params.iter().enumerate() {
        elements.push(match &param.kind {
            Kind::Slice { element, .. } => bytes_of(element),
            Kind::Tile { element, dims, .. } => {
                assume.push(tile(at, dims));
                bytes_of(element)
            }
            _ => 0,
        });
    }
    let passed = |from: From| match from {
        From::Param(at) => Passed::Argument(at),
        From::Dim(at) => Passed::Number(at),
        From::Map(_) => Passed::Other,
    };
    Ok(Contract {
        block,
        cluster: launch.cluster.as_ref().and_then(extents).unwrap_or([1; 3]),
        grid: launch.grid.clone(),
        shared,
        assume,
        params: kernel.taken.iter().map(|taken| passed(taken.from)).collect(),
        elements,
        align: None,
        signed: Vec::new(),
        numbers: kernel.dims.clone(),
    })
}

/// A tile has at least as many elements as its extents say.
fn tile(at: usize, dims: &[Dim]) -> Expr {
    let extent = |dim: &Dim| match dim {
        Dim::Named(at) => Expr::Dim(*at),
        Dim::Constant(_, extent) => Expr::Int((*extent).into()),
    };
    let both = |operator, a, b| Expr::Binary(operator, Box::new([a, b]), String::new());
    let product = dims.iter().map(extent).reduce(|a, b| both(Operator::Mul, a, b)).unwrap_or(Expr::Int(1));
    both(Operator::Ge, Expr::Len(at), product)
}

/// Constant extents.
fn extents(expr: &Expr) -> Option<[u32; 3]> {
    let number = |expr: &Expr| match expr {
        Expr::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    let mut extents = [1; 3];
    match expr {
        Expr::List(parts) if parts.len() <= 3 => {
            for (extent, part) in extents.iter_mut().zip(parts) {
                *extent = number(part)?;
            }
        }
        other => extents[0] = number(other)?,
    }
    Some(extents)
}

/// Bytes of the elements that kernels take; zero for others.
const ELEMENTS: [(&str, u64); 16] = [
    ("u8", 1),
    ("i8", 1),
    ("e4m3", 1),
    ("e5m2", 1),
    ("u16", 2),
    ("i16", 2),
    ("f16", 2),
    ("bf16", 2),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("f16x2", 4),
    ("bf16x2", 4),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
];

fn bytes_of(element: &str) -> u64 {
    ELEMENTS.iter().find(|(name, _)| *name == element).map_or(0, |(_, bytes)| *bytes)
}
