//! Resources of a kernel: static shared memory, bytes of parameters, threads.

use super::shared::Shared;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Module, Param, Space, Variable};
use crate::isa::{Arch, Version, table};
use crate::syntax::Tree;

/// Static shared memory that a block can have on every target; more must be dynamic, except on targets whose row has more.
const STATIC_SHARED: u64 = 48 * 1024;
/// Constant memory of a module.
const CONSTANT: u64 = 64 * 1024;
/// From here on, parameters may be aligned to more than that.
const FIRST_WITH_LARGE_BANK: Arch = Arch::base(90);

pub(super) fn check_resources(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let uses = Shared::new(module);
    for (at, function) in module.functions.iter().enumerate().filter(|(_, f)| f.entry && f.defined) {
        shared(function, uses.bytes(at, module), module, out);
        parameters(function, module, out);
    }
    let constant = laid_out(module.variables.iter().filter(|v| v.space == Space::Const));
    if let Some(last) = module.variables.iter().rfind(|v| v.space == Space::Const && constant > CONSTANT) {
        let text = format!("the module has {constant} bytes of constants; {CONSTANT} is the most");
        out.push(Diagnostic::error(&codes::P0611, last.span, text).section("5.1.3"));
    }
}

/// The bytes of variables that lie one behind the other, each at its alignment.
pub(super) fn laid_out<'m>(variables: impl Iterator<Item = &'m Variable>) -> u64 {
    let behind = |end: u64, v: &Variable| end.checked_next_multiple_of(v.align.max(1))?.checked_add(v.size);
    variables.fold(0, |end, v| behind(end, v).unwrap_or(u64::MAX))
}

/// The shared variables that the kernel or a function that it may call uses.
fn shared(function: &Function, total: u64, module: &Module, out: &mut Vec<Diagnostic>) {
    let most = table().target(module.arch).and_then(|target| target.limit("static")).unwrap_or(STATIC_SHARED);
    if total > most {
        let text = format!(
            "`{}` has {total} bytes of static shared memory; {most} is the most for {}",
            function.name, module.arch
        );
        out.push(
            Diagnostic::error(&codes::P0611, function.span, text)
                .help("declare it `.extern .shared .align 16 .b8 name[];` and give the size at launch")
                .section("5.1.7"),
        );
    }
}

/// 256 bytes before PTX 1.5, then 4,352; 32,764 from PTX 8.1 on sm_70.
fn parameters(function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    let since = |major, minor| module.version >= Version { major, minor };
    let most = match () {
        () if module.arch.provides(Arch::base(70)) && since(8, 1) => 32764,
        () if since(1, 5) => 4352,
        () => 256,
    };
    let variable = |param: &Param| if let Param::Var(id) = param { module.variables.get(id.index()) } else { None };
    let variables = || function.params.iter().filter_map(variable);
    let bytes = laid_out(variables());
    if bytes > most {
        let text = format!("`{}` has {bytes} bytes of parameters; {most} is the most", function.name);
        out.push(Diagnostic::error(&codes::P0611, function.span, text).section("5.1.6.1"));
    }
    // The parameters lie behind others in a bank of constants, at their alignment.
    let beyond = |v: &&Variable| v.align >= CONSTANT && !module.arch.provides(FIRST_WITH_LARGE_BANK);
    if let Some(v) = variables().find(beyond) {
        let text = format!("the alignment of `{}` leaves it no place in the {CONSTANT} bytes of constants", v.name);
        out.push(Diagnostic::error(&codes::P0611, v.span, text).section("5.1.6.1"));
    }
}
