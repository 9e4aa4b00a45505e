//! The Rust that the kernel language does not have, and what it has instead.

use super::{Reader, path_text};
use ptx_core::diag::codes;
use ptx_language::tree::{Expr, ExprKind};
use syn::Expr as E;

/// Macros of Rust, and what kernels have instead.
const MACROS: &[(&str, &str)] = &[
    ("println", "call `vprintf`: the language reference shows it under \"Printing\""),
    ("print", "call `vprintf`: the language reference shows it under \"Printing\""),
    ("dbg", "call `vprintf`: the language reference shows it under \"Printing\""),
    ("asm", "write the instructions in `ptx! { … }`, with variables as operands"),
    ("vec", "registers are an array, `[0.0f32; 4]`, and memory is `#[shared]` or a parameter `&mut [T]`"),
    ("panic", "write `ptx! { trap; }`"),
    ("unreachable", "write `ptx! { trap; }`"),
    ("assert_eq", "constants are checked by `assert!(N == 4)`, at run time write `if p { ptx! { trap; } }`"),
    ("debug_assert", "constants are checked by `assert!(N == 4)`, at run time write `if p { ptx! { trap; } }`"),
];

/// The help for any other macro.
const HELPER: &str = "write a helper `fn`, which is inlined, or `ptx! { }`";

impl Reader {
    /// Reports an expression that is not of the language.
    pub fn refuse_expr(&mut self, expr: &syn::Expr) -> Expr {
        if let E::Macro(call) = expr {
            self.refuse_macro(&call.mac);
        } else {
            let (what, instead) = refusal(expr);
            self.refuse(expr, what, instead);
        }
        Expr { kind: ExprKind::Error, span: self.host.syntax(expr) }
    }

    /// Reports a macro call: the compiler expands an attribute before what stands inside, so nothing can be called.
    pub fn refuse_macro(&mut self, call: &syn::Macro) {
        if super::stmt::is_ptx(&call.path) {
            let help = "declare the registers with `let` in front of it, and name them inside";
            self.error(&codes::P0850, &call.path, "`ptx!` is a statement and has no value", help);
        } else {
            let name = path_text(&call.path);
            let help = MACROS.iter().find(|(known, _)| *known == name).map_or(HELPER, |(_, help)| help);
            let message = format!("the macro `{name}!` cannot be called inside a kernel");
            self.error(&codes::P0850, &call.path, message, help);
        }
    }
}

/// Name of an unsupported expression, and its replacement.
fn refusal(expr: &syn::Expr) -> (&'static str, &'static str) {
    match expr {
        E::Closure(_) => ("closures", "write a helper `fn`, which is inlined"),
        E::Let(_) => ("`if let` and `while let`", "compare with `==` and name the value in front of it"),
        E::RawAddr(_) => {
            ("references to registers", "registers have no address; declare a `#[shared]` or `#[local]` array")
        }
        E::Unsafe(_) => {
            ("`unsafe` blocks", "every `ptx! { }` may already do all that the machine can; remove `unsafe`")
        }
        E::Try(_) | E::TryBlock(_) => ("`?`", "nothing in a kernel returns a `Result`; use `if` and `return`"),
        E::Await(_) | E::Async(_) => {
            ("`async`", "asynchronous work is `cp.async`, `mbarrier` and the like in `ptx! { }`")
        }
        E::Const(_) => ("`const` blocks", "write `const NAME: u32 = …;` in front of it"),
        E::Infer(_) => ("`_` as a value", "write a name; the sink `_` belongs to instructions in `ptx! { }`"),
        E::Yield(_) => ("`yield`", "use `return`"),
        _ => ("such expression", "see the table of the language in the documentation of `#[ptx_kernel]`"),
    }
}
