//! `.pragma`: the strings that ptxas supports, and where it takes them. Inside a function it ignores all others.

use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::span::Span;
use crate::syntax::{Directive, StmtId, StmtKind, Tree};
use std::fmt;
use std::num::IntErrorKind;

/// A string that ptxas supports; what follows its first word is its argument.
struct Pragma {
    name: &'static str,
    /// True if it may stand outside of a body.
    outside: bool,
    /// True if an entry may hold it, or a `.func`.
    entry: bool,
    func: bool,
    argument: Argument,
}

/// What follows the first word of a pragma.
#[derive(Clone, Copy)]
enum Argument {
    /// Nothing that counts.
    Any,
    /// A number of at least this value.
    Number(i64),
    /// A number, which ptxas reads in entries only.
    Mask,
    /// How many registers pass parameters, and perhaps the first of them; or `all`.
    Registers,
    /// The same for the next call, whose function decides which of them exist.
    RegistersOfCall,
}

/// The registers of such a pragma.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Registers {
    /// Their number, if it is not `all`.
    pub(super) count: Option<i64>,
    /// The first one, if the pragma names it.
    first: Option<i64>,
}

impl Registers {
    /// Those of a pragma of this name.
    pub(super) fn named(name: &str, text: &str) -> Option<Registers> {
        Registers::read(text.strip_prefix(name)?.strip_prefix(char::is_whitespace)?.trim())
    }

    /// `all`, `count`, or `count, first`.
    fn read(argument: &str) -> Option<Registers> {
        if argument.starts_with("all") {
            return Some(Registers { count: None, first: None });
        }
        let numbers: Vec<i64> = argument.split(',').map(|part| number(part.trim())).collect::<Option<_>>()?;
        match numbers.as_slice() {
            [count] => Some(Registers { count: Some(*count), first: None }),
            [count, first] => Some(Registers { count: Some(*count), first: Some(*first) }),
            _ => None,
        }
    }

    /// Returns true for a number below one, which is an error of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.count.is_some_and(|count| count < 1)
    }

    /// Returns true if a function may have them.
    pub(super) fn exist(&self) -> bool {
        let Some(count) = self.count else { return true };
        let first = self.first.unwrap_or(PARAMETER_REGISTERS.start);
        let last = first.checked_add(count);
        count > 0 && PARAMETER_REGISTERS.contains(&first) && last.is_some_and(|last| last <= PARAMETER_REGISTERS.end)
    }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.first) {
            (None, _) => f.write_str("all"),
            (Some(count), None) => write!(f, "{count}"),
            (Some(count), Some(first)) => write!(f, "{count}, {first}"),
        }
    }
}

/// The registers that may pass parameters; those in front and behind are the ABI's.
const PARAMETER_REGISTERS: std::ops::Range<i64> = 4..252;

const PRAGMAS: &[Pragma] = &[
    Pragma { name: "nounroll", outside: true, entry: true, func: true, argument: Argument::Any },
    Pragma { name: "used_bytes_mask", outside: false, entry: true, func: true, argument: Argument::Mask },
    Pragma { name: "enable_smem_spilling", outside: false, entry: true, func: false, argument: Argument::Any },
    Pragma { name: "frequency", outside: false, entry: true, func: true, argument: Argument::Number(1) },
    Pragma { name: "abi_param_reg", outside: true, entry: false, func: true, argument: Argument::Registers },
    Pragma { name: "call_abi_param_reg", outside: false, entry: true, func: true, argument: Argument::RegistersOfCall },
];

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Module,
    Header,
    Entry,
    Func,
}

pub(super) fn check_pragmas(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    // The registers of parameters are said once for a function: by its own pragma, or by one of the module in front.
    let mut of_module = 0;
    for id in &tree.items {
        match &tree.stmt(*id).kind {
            StmtKind::Directive(d) => pragma(tree, d, Place::Module, &mut of_module, out),
            StmtKind::Func(func) => {
                let mut registers = of_module.min(1);
                func.directives.iter().for_each(|d| pragma(tree, d, Place::Header, &mut registers, out));
                let entry = tree.source.text(func.keyword) == ".entry";
                body(tree, *id, if entry { Place::Entry } else { Place::Func }, &mut registers, out);
            }
            _ => {}
        }
    }
}

fn body(tree: &Tree, id: StmtId, place: Place, registers: &mut usize, out: &mut Vec<Diagnostic>) {
    for child in tree.stmt(id).children() {
        match &tree.stmt(*child).kind {
            StmtKind::Directive(d) => pragma(tree, d, place, registers, out),
            StmtKind::Block => body(tree, *child, place, registers, out),
            _ => {}
        }
    }
}

/// `registers` counts the pragmas about the registers of parameters.
fn pragma(tree: &Tree, directive: &Directive, place: Place, registers: &mut usize, out: &mut Vec<Diagnostic>) {
    each_pragma(tree, directive, &mut |span, text| {
        let known = find(text);
        *registers += usize::from(known.is_some_and(|known| matches!(known.argument, Argument::Registers)));
        let again = place != Place::Module && *registers > 1;
        let twice = known.filter(|known| again && matches!(known.argument, Argument::Registers));
        let twice = twice.map(|known| format!("`{}` is said a second time for this function", known.name));
        if let Some(why) = refusal(known, text, place).or(twice) {
            out.push(Diagnostic::error(&codes::P0616, span, why).section("11.4.7"));
        }
    });
}

/// Calls `visit` for each string of a `.pragma`.
pub(super) fn each_pragma(tree: &Tree, directive: &Directive, visit: &mut dyn FnMut(Span, &str)) {
    if tree.source.bytes(directive.name) != b".pragma" {
        return;
    }
    for id in tree.list(&directive.args) {
        let tokens = &tree.expr(*id).tokens;
        visit(tree.span(tokens), tree.compact(tokens).trim_matches('"'));
    }
}

fn find(text: &str) -> Option<&'static Pragma> {
    let known = |p: &&Pragma| match p.argument {
        // A longer word is another one.
        Argument::Registers | Argument::RegistersOfCall => {
            text.strip_prefix(p.name).is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        }
        _ => text.starts_with(p.name),
    };
    PRAGMAS.iter().find(known)
}

/// Why ptxas refuses the string here.
fn refusal(pragma: Option<&Pragma>, text: &str, place: Place) -> Option<String> {
    let Some(pragma) = pragma else {
        return (place == Place::Module).then(|| format!("outside of functions there is no pragma `{text}`"));
    };
    let (name, argument) = (pragma.name, text[pragma.name.len()..].trim());
    if place == Place::Module && name == "nounroll" && text != name {
        return Some(format!("outside of functions there is no pragma `{text}`"));
    }
    if matches!(place, Place::Module | Place::Header) && !pragma.outside {
        return Some(format!("`{name}` stands inside of a function"));
    }
    if place == Place::Func && !pragma.func {
        return Some(format!("`{name}` is for entries only"));
    }
    if place == Place::Entry && !pragma.entry {
        return Some(format!("`{name}` is for functions that are called, not for entries"));
    }
    let fits = match pragma.argument {
        Argument::Any => true,
        Argument::Number(least) => number(argument).is_some_and(|n| n >= least),
        Argument::Mask => place == Place::Func || number(argument).is_some(),
        Argument::Registers => Registers::named(name, text).is_some_and(|registers| registers.exist()),
        Argument::RegistersOfCall => Registers::named(name, text).is_some_and(|registers| !registers.is_empty()),
    };
    (!fits).then(|| match (argument, pragma.argument) {
        ("", _) => format!("`{name}` wants a number behind it"),
        (_, Argument::Registers | Argument::RegistersOfCall) => {
            format!("`{argument}` is no number of registers for `{name}`")
        }
        _ => format!("`{argument}` is no number for `{name}`"),
    })
}

/// A number that is too large is the greatest there is, as for ptxas.
fn number(text: &str) -> Option<i64> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number
        .or_else(|e| match e.kind() {
            IntErrorKind::PosOverflow => Ok(i64::MAX),
            IntErrorKind::NegOverflow => Ok(i64::MIN),
            _ => Err(e),
        })
        .ok()
}
