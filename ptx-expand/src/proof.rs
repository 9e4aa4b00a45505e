//! `proved`: the properties of a kernel, for every launch that its attribute admits. They are decided while it is compiled: what does not hold, or
//! is not decided, is an error on the guilty tokens. `ptx-prove` decides; `contract` makes its launches of the attribute, and `words` the messages.
//!
//! The macros evaluate the constants of an attribute a second time, from the tokens that they see. So a launch asserts that the compiler's values are
//! those of the proof.

mod contract;
mod words;

pub use contract::{boxes, contract};

use crate::attribute::Wanted;
use crate::compile::Compiled;
use crate::describe::{Evaluated, Kernel, Scope, Value, describe_strictly};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::tokens::{names, source_text};
use proc_macro2::TokenStream;
use ptx_core::check::Checked;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::hash::Set;
use ptx_core::span::Span;
use ptx_prove::{Finding, Property, Verdict};
use quote::{ToTokens, quote};

/// Proves the kernels that want it. `scope` has the constants that their attributes may name.
pub fn prove(reader: &mut Reader, kernels: &mut [Launchable], compiled: &mut Compiled, scope: &Scope) {
    let failed = reader.failed();
    for (index, kernel) in kernels.iter_mut().enumerate() {
        let Some(wanted) = kernel.launch.proved.clone().filter(|_| !reader.leaves_proofs_out) else { continue };
        // Everything that is not proved is an error below.
        kernel.is_proved = true;
        if failed {
            continue;
        }
        let (described, constants) = describe_strictly(index, kernel, compiled, scope);
        for constant in constants {
            match claim(&constant) {
                Ok(None) => {}
                Ok(Some(claim)) => kernel.claims.push((constant.instance, claim)),
                Err(()) => {
                    let message = format!("`{}` is not a constant that a proof can use", source_text(&constant.expr));
                    reader.error(&codes::P0917, &constant.expr, message, "write numbers, or a constant of this module");
                }
            }
        }
        kernel.assumes = described.iter().any(|instance| assumes(&instance.entry, compiled));
        let at = reader.host.token(wanted.name.span());
        let mut proof = Proof { reader, at, wanted: &wanted, told: Set::default(), found: Vec::new() };
        for instance in &described {
            proof.decide(instance, compiled);
        }
        let found = proof.found;
        reader.diagnostics.extend(found);
    }
    compiled.texts.iter_mut().for_each(|text| text.checked = None);
    compiled.failed = reader.failed();
}

/// Returns true if an entry has an assumption.
fn assumes(entry: &str, compiled: &Compiled) -> bool {
    let modules = compiled.texts.iter().filter_map(|text| text.checked.as_ref()).map(Checked::module);
    let mut own = modules.flat_map(|module| &module.functions).filter(|function| function.name == entry);
    own.any(|function| function.assumptions().next().is_some())
}

/// The condition that a constant has its value in Rust; nothing for one of literals alone.
fn claim(constant: &Evaluated) -> Result<Option<TokenStream>, ()> {
    let mut named = Set::default();
    names(constant.expr.to_token_stream(), &mut named);
    if named.is_empty() {
        return Ok(None);
    }
    // The arguments of an instance are named one module further inside.
    if constant.instance.is_some() && ["super", "self"].iter().any(|name| named.contains(*name)) {
        return Err(());
    }
    equal(&constant.expr, &constant.value).map(Some)
}

fn equal(expr: &syn::Expr, value: &Value) -> Result<TokenStream, ()> {
    match (expr, value) {
        (syn::Expr::Paren(inner), value) => equal(&inner.expr, value),
        (expr, Value::Int(number)) => Ok(quote!((#expr) as i128 == (#number) as i128)),
        (expr, Value::Bool(truth)) => Ok(quote!((#expr) == #truth)),
        (syn::Expr::Tuple(syn::ExprTuple { elems, .. }), Value::List(values))
        | (syn::Expr::Array(syn::ExprArray { elems, .. }), Value::List(values)) => {
            let parts = elems.iter().zip(values).map(|(expr, value)| equal(expr, value));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            Ok(quote!(true #(&& (#parts))*))
        }
        _ => Err(()),
    }
}

/// A kernel that is being proved.
struct Proof<'a> {
    reader: &'a Reader,
    /// The option in the attribute.
    at: Span,
    wanted: &'a Wanted,
    /// The findings so far: targets and instances have most of them in common.
    told: Set<(Span, &'static str)>,
    found: Vec<Diagnostic>,
}

impl Proof<'_> {
    /// Decides an instance for every target.
    fn decide(&mut self, kernel: &Kernel, compiled: &Compiled) {
        let at = self.at;
        let contract = match contract(kernel) {
            Ok(contract) => contract,
            Err((message, help)) => {
                return self.found.push(Diagnostic::error(&codes::P0917, at, message).help(help));
            }
        };
        for checked in compiled.texts.iter().filter_map(|text| text.checked.as_ref()) {
            match ptx_prove::prove(checked, &kernel.entry, &contract) {
                Ok(report) => self.report(kernel, checked, &report.findings),
                Err(refusal) => {
                    let (message, help) = words::refusal(&refusal);
                    self.found.push(Diagnostic::error(&codes::P0917, at, message).help(help));
                }
            }
        }
    }

    fn report(&mut self, kernel: &Kernel, checked: &Checked, findings: &[Finding]) {
        let line = |span: Span| self.reader.host.line(span);
        let words = words::Words { kernel, checked, line: &line };
        let mut unknown: Vec<(&str, Property, Vec<Span>)> = Vec::new();
        let mut told = Vec::new();
        for finding in findings.iter().filter(|finding| self.wants(finding.property)) {
            if let Some(found) = words.wrong_write(finding) {
                told.push(("writes", found));
            }
            match &finding.verdict {
                Verdict::Proved => {}
                Verdict::Refuted(example) if example.is_certain => {
                    told.push((finding.property.name(), words.refuted(finding, example)));
                }
                Verdict::Refuted(_) => note(&mut unknown, words::LATER, finding),
                Verdict::Unknown(missing) => note(&mut unknown, missing, finding),
            }
        }
        // A refutation explains what is unknown for lack of it.
        if told.is_empty() {
            let open = unknown.iter().map(|(missing, property, spans)| words.unknown(missing, *property, spans));
            told.extend(open.map(|found| ("unknown", found)));
        }
        for (kind, diagnostic) in told {
            if self.told.insert((diagnostic.span, kind)) {
                self.found.push(diagnostic);
            }
        }
    }

    fn wants(&self, property: Property) -> bool {
        match property {
            Property::Bounds | Property::Alignment => self.wanted.bounds,
            Property::Races | Property::Barriers | Property::Initialization => self.wanted.races,
        }
    }
}

/// Adds a property that is not decided; each missing fact is told once.
fn note<'f>(unknown: &mut Vec<(&'f str, Property, Vec<Span>)>, missing: &'f str, finding: &Finding) {
    match unknown.iter_mut().find(|(known, ..)| *known == missing) {
        Some((_, _, spans)) if spans.contains(&finding.span) => {}
        Some((_, _, spans)) => spans.push(finding.span),
        None => unknown.push((missing, finding.property, vec![finding.span])),
    }
}
