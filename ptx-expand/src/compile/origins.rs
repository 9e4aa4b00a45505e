//! An error in a helper or in an instance names both: which instance it is, and where the helper is called. Modules without errors never
//! come here; the kernels of a module that may have the errors are lowered again, one instance at a time.

use super::variant;
use crate::kernel::Reader;
use ptx_core::diag::Diagnostic;
use ptx_core::hash::Set;
use ptx_core::isa::{Arch, Version};
use ptx_core::span::Span;
use ptx_language::HelperCall;
use ptx_language::tree::{Instance, Kernel, Module, Options};

/// Modules with more instances are not taken apart.
const MOST_INSTANCES: usize = 64;

/// Calls of one helper, and instances with one error, that are named.
const MOST_NAMED: usize = 2;

/// Helpers around an error that are named, from the inside out.
const MOST_NESTED: usize = 4;

/// One part of a module, lowered alone.
struct Part<'m> {
    /// The kernel and its instance, if the kernel has several.
    instance: Option<(usize, &'m Instance)>,
    /// The codes and places of its errors.
    errors: Set<(&'static str, Span)>,
    calls: Vec<HelperCall>,
}

impl Part<'_> {
    fn has(&self, error: &Diagnostic) -> bool {
        self.errors.contains(&(error.code.id, error.span))
    }
}

/// Adds to each error of `found` the calls and the instances that it comes from.
pub fn note(reader: &Reader, module: &Module, (arches, version): (&[Arch], Option<Version>), found: &mut [Diagnostic]) {
    let mut left: Vec<&mut Diagnostic> = found.iter_mut().filter(|diagnostic| diagnostic.is_error()).collect();
    for &arch in arches {
        if left.is_empty() {
            return;
        }
        let suspects = with_suspects(module, &left);
        let parts = parts(reader, &suspects, arch, version);
        left = left
            .into_iter()
            .filter_map(|error| {
                let with: Vec<&Part<'_>> = parts.iter().filter(|part| part.has(error)).collect();
                let Some(first) = with.first() else { return Some(error) };
                note_calls(error, &first.calls, &|span| reader.host.line(span));
                note_instances(error, &with, &parts);
                None
            })
            .collect();
    }
}

/// The module with the kernels that the errors may come from: those around them, or all where an error is in a helper or an attribute.
fn with_suspects(module: &Module, errors: &[&mut Diagnostic]) -> Module {
    let is_inside =
        |kernel: &Kernel, error: &Diagnostic| kernel.span.lo <= error.span.lo && error.span.hi <= kernel.span.hi;
    let mut kernels = Vec::new();
    for error in errors {
        match module.kernels.iter().position(|kernel| is_inside(kernel, error)) {
            Some(at) => kernels.push(at),
            None => return module.clone(),
        }
    }
    let suspects = module.kernels.iter().enumerate().filter(|(at, _)| kernels.contains(at));
    Module { kernels: suspects.map(|(_, kernel)| kernel.clone()).collect(), ..module.clone() }
}

/// The instances of the kernels that have several, one for each part, and the other kernels together.
fn parts<'m>(reader: &Reader, module: &'m Module, arch: Arch, version: Option<Version>) -> Vec<Part<'m>> {
    let lower = |kernels: Vec<Kernel>, instance| {
        let part = Module { kernels, ..module.clone() };
        let mut errors = Vec::new();
        let (.., lowered) = variant(reader, &part, arch, version, true, &mut errors);
        let errors = errors.iter().map(|error: &Diagnostic| (error.code.id, error.span)).collect();
        Part { instance, errors, calls: lowered.calls }
    };
    let several = |kernel: &&Kernel| kernel.options.instances.len() > 1;
    let instances: usize = module.kernels.iter().filter(several).map(|kernel| kernel.options.instances.len()).sum();
    if instances > MOST_INSTANCES {
        return vec![lower(module.kernels.clone(), None)];
    }
    let mut parts = Vec::with_capacity(instances + 1);
    for (at, kernel) in module.kernels.iter().enumerate().filter(|(_, kernel)| several(kernel)) {
        for instance in &kernel.options.instances {
            let options = Options { instances: vec![instance.clone()], ..kernel.options.clone() };
            parts.push(lower(vec![Kernel { options, ..kernel.clone() }], Some((at, instance))));
        }
    }
    parts.push(lower(module.kernels.iter().filter(|kernel| !several(kernel)).cloned().collect(), None));
    parts
}

/// Names the helpers around an error, and points to their calls.
fn note_calls(error: &mut Diagnostic, calls: &[HelperCall], line: &dyn Fn(Span) -> usize) {
    let mut at = error.span;
    for _ in 0..MOST_NESTED {
        let holds = |call: &&HelperCall| call.helper.is_some_and(|helper| helper.lo <= at.lo && at.hi <= helper.hi);
        let width = |call: &HelperCall| call.helper.map_or(0, |helper| helper.hi - helper.lo);
        let Some(inner) = calls.iter().filter(holds).min_by_key(|call| width(call)) else { break };
        let mut around: Vec<&HelperCall> = Vec::new();
        for call in calls.iter().filter(|call| call.helper == inner.helper) {
            if !around.iter().any(|known| known.name == call.name && line(known.at) == line(call.at)) {
                around.push(call);
            }
        }
        for call in around.iter().take(MOST_NAMED) {
            error.labels.push(label(call.at, format!("`{}` is called here", call.name)));
        }
        at = inner.at;
    }
    let library = calls.iter().find(|call| call.helper.is_none() && call.at == error.span);
    if let Some(call) = library {
        let path = call.name.split("::<").next().unwrap_or_default();
        error.help.push(format!("it is inside of `{}`: `ptx library {path}` shows its instructions", call.name));
        if let Some((named, left)) = &call.left_out {
            let follows = "the arguments of the call";
            error.help.push(format!("the generic arguments stand for {named}; {left} follows from {follows}"));
        }
    }
}

/// Names the instances that have an error, where others of the kernel do not.
fn note_instances(error: &mut Diagnostic, with: &[&Part<'_>], parts: &[Part<'_>]) {
    let Some((kernel, _)) = with.iter().find_map(|part| part.instance) else { return };
    let all = parts.iter().filter(|part| part.instance.is_some_and(|(at, _)| at == kernel)).count();
    let own: Vec<&Instance> =
        with.iter().filter_map(|part| part.instance.filter(|(at, _)| *at == kernel)).map(|(_, of)| of).collect();
    if own.len() == all {
        return;
    }
    for instance in own.iter().take(MOST_NAMED) {
        let name = instance.name.as_ref().map_or_else(String::new, |name| format!(", `{}`", name.name));
        error.labels.push(label(instance.span, format!("in this instance{name}")));
    }
    if own.len() > MOST_NAMED {
        error.help.push(format!("{} of {all} instances have this error", own.len()));
    }
}

fn label(span: Span, text: String) -> ptx_core::diag::Label {
    ptx_core::diag::Label { span, text }
}
