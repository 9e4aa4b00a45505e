//! Variables: alignment, initializers, incomplete arrays, vectors, and what a parameter may be.

use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Module, Param, Space, Variable};
use crate::isa::Class;
use crate::syntax::Tree;

pub(super) fn check_variables(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let mut is_local = vec![false; module.variables.len()];
    for function in &module.functions {
        function.variables.iter().for_each(|var| is_local[var.index()] = true);
    }
    for (variable, is_local) in module.variables.iter().zip(is_local) {
        // What no body declares is a parameter: of a function, or of an earlier declaration of one.
        one(variable, variable.space == Space::Param && !is_local, out);
    }
    for function in module.functions.iter().filter(|f| f.entry) {
        entry(function, module, out);
    }
}

fn one(v: &Variable, is_param: bool, out: &mut Vec<Diagnostic>) {
    let name = &v.name;
    if !v.align.is_power_of_two() || v.points_to.is_some_and(|(_, align)| !align.is_power_of_two()) {
        let text = format!("the alignment of `{name}` is no power of two");
        out.push(Diagnostic::error(&codes::P0605, v.span, text).section("5.4.5"));
    }
    if v.vector * v.ty.bits() > 128 && v.vector > 1 {
        let text = format!("a `.v{}` of `.{}` is wider than 128 bits", v.vector, v.ty.name());
        out.push(Diagnostic::error(&codes::P0614, v.span, text).section("5.4.2"));
    }
    if v.vector > 1 && v.ty.class() == Class::Opaque {
        let text = format!("`{name}` is a vector of `.{}`; declare an array", v.ty.name());
        out.push(Diagnostic::error(&codes::P0614, v.span, text).section("5.4.2"));
    }
    if v.ty.class() == Class::Pred {
        let text = format!("`{name}` is a predicate; those live in registers only");
        out.push(Diagnostic::error(&codes::P0608, v.span, text).section("5.2.1"));
    }
    let external = v.linkage == Some("extern");
    if v.init.is_some() && (external || !matches!(v.space, Space::Global | Space::Const | Space::Opaque)) {
        let what = if external { "an external variable" } else { "a variable of this state space" };
        let text = format!("{what} cannot have an initial value: `{name}`");
        out.push(Diagnostic::error(&codes::P0606, v.span, text).section("5.4.4"));
    }
    if !is_param && v.dims.contains(&0) && !external {
        let text = format!("`{name}` has no size; only an `.extern` variable may leave it open");
        out.push(Diagnostic::error(&codes::P0607, v.span, text).section("5.4.3"));
    }
}

/// Entry parameters are complete `.param` variables.
fn entry(function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    for param in &function.params {
        match param {
            Param::Reg(reg) => {
                let span = function.registers.get(reg.index()).map(|r| r.span).unwrap_or_default();
                out.push(
                    Diagnostic::error(
                        &codes::P0608,
                        span,
                        "the parameters of an entry are in `.param`, not in registers",
                    )
                    .section("5.1.6.1"),
                );
            }
            Param::Var(id) => {
                let Some(v) = module.variables.get(id.index()).filter(|v| v.dims.contains(&0)) else { continue };
                let text = format!("the parameter `{}` has no size", v.name);
                out.push(Diagnostic::error(&codes::P0607, v.span, text).section("5.1.6.1"));
            }
        }
    }
    if !function.returns.is_empty() {
        out.push(Diagnostic::error(&codes::P0608, function.span, "an entry returns nothing").section("11.2.1"));
    }
}
