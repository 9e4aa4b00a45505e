//! Rules that the columns of a row cannot express: implications between its slots, operands, targets and versions. Here they
//! are read; `lower::rule` evaluates them for an instruction.

use super::{Member, OperandKind, OperandSpec, Slot};
use ptx_target::{Arch, Version};

/// A rule with a name, in words.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    /// As a requirement: of the rule, and of its opposite.
    pub(crate) must: [&'static str; 2],
    /// As a condition: of the rule, and of its opposite.
    pub(crate) is: [&'static str; 2],
}

/// A rule that is a requirement everywhere.
const fn required(name: &'static str, must: &'static str) -> Named {
    Named { name, must: [must, ""], is: [""; 2] }
}

/// The rules with a name, which `lower::rule::named` defines in this order.
pub(crate) const NAMED: [Named; 12] = [
    required("wide_sinks", "only an access of 256 bits may have `_` among its elements"),
    Named {
        name: "sinks",
        must: ["an element of a vector must be `_`", "no element of a vector may be `_`"],
        is: ["an element of a vector is `_`", "no element of a vector is `_`"],
    },
    required("displaced", "the name of the variable needs an offset"),
    required("nameless", "no operand may be the name of a function, or of a variable with an offset"),
    required("pointed", "the address must be in a register"),
    required("fraction", "a literal must be greater than 0 and at most 1"),
    Named {
        name: "plain",
        must: [
            "no operand may be a sum or the name of a function",
            "an operand must be a sum or the name of a function",
        ],
        is: ["no operand is a sum or the name of a function", "an operand is a sum or the name of a function"],
    },
    required("plain_elements", "no element of a vector may be a special register or a literal of 64 bits"),
    required("ordinary_elements", "no element of a vector may be a special register"),
    required("selected", "an operand must have a selector, such as `.b0`"),
    required("braces", "vectors must be written in braces"),
    required("distinct", "no register may be two of the results"),
];

/// One rule of a row: `when => then`, `when <=> then`, or `then` alone.
#[derive(Debug)]
pub struct Rule {
    pub(crate) when: Vec<Term>,
    pub(crate) both: bool,
    pub(crate) then: Vec<Term>,
    /// True if ptxas takes what breaks it, so that it is worth a warning only.
    pub lax: bool,
}

/// An atom, perhaps negated.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) negated: bool,
    pub(crate) atom: Atom,
}

#[derive(Debug)]
pub(crate) enum Atom {
    /// The slot has one of these values; with none listed: it has any.
    Slot(usize, Vec<&'static str>),
    /// Two slots have the same member.
    Same(usize, usize),
    /// The operand is there.
    Operand(Place),
    /// The operand is written as a literal (`true`) or not (`false`).
    Literal(Place, bool),
    /// The operand is one of these integers.
    Number(Place, Vec<i64>),
    /// The first operand is no greater than the second, as far as both are literals; of 32 bits.
    AtMost(Place, Place),
    /// `.target` has this word too.
    Option(&'static str),
    /// A minus stands before the operand.
    Negated(Place),
    /// A vector is written in braces, and not as one vector register.
    Braced(Place),
    /// The target provides one of these.
    Target(Vec<Arch>),
    /// The version is at least this.
    Since(Version),
    /// The rule with this place in [`NAMED`].
    Named(usize),
}

/// Position of an operand: in the row, or inside the brackets or the pair at that place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) inside: Option<usize>,
}

impl Place {
    fn find(operands: &[OperandSpec], name: &str) -> Option<Place> {
        let named = |list: &[OperandSpec]| list.iter().position(|o| o.name == name);
        if let Some(at) = named(operands) {
            return Some(Place { at, inside: None });
        }
        operands.iter().enumerate().find_map(|(at, o)| match &o.kind {
            OperandKind::Memory { rest, .. } => named(rest).map(|i| Place { at, inside: Some(i) }),
            OperandKind::Pair(_, second) if second.name == name => Some(Place { at, inside: Some(1) }),
            _ => None,
        })
    }
}

/// Names that a rule can use.
pub(super) struct Names<'a> {
    pub(super) slots: &'a [Slot],
    pub(super) operands: &'a [OperandSpec],
    /// The sets of the row's section, by name without the dot.
    pub(super) sets: &'a dyn Fn(&str) -> Option<&'static [Member]>,
}

impl Rule {
    /// Reads one rule.
    pub(super) fn read(text: &'static str, names: &Names) -> Result<Rule, String> {
        let (lax, text) = text.strip_prefix('?').map_or((false, text), |rest| (true, rest.trim_start()));
        let (when, then) = text.split_once("=>").unwrap_or(("", text));
        let (when, both) = when.strip_suffix('<').map_or((when, false), |when| (when, true));
        let read = |side: &'static str| -> Result<Vec<Term>, String> {
            let words = side.split('&').map(str::trim_ascii).filter(|w| !w.is_empty());
            words.map(|word| term(word, names)).collect()
        };
        Ok(Rule { when: read(when)?, both, then: read(then)?, lax })
    }
}

fn term(word: &'static str, names: &Names) -> Result<Term, String> {
    let (negated, word) = word.strip_prefix('!').map_or((false, word), |w| (true, w.trim()));
    Ok(Term { negated, atom: atom(word, names)? })
}

fn atom(word: &'static str, names: &Names) -> Result<Atom, String> {
    let (slots, operands) = (names.slots, names.operands);
    if let Some(name) = word.strip_prefix('@') {
        return NAMED
            .iter()
            .position(|n| n.name == name)
            .map(Atom::Named)
            .ok_or_else(|| format!("no named rule `{name}`"));
    }
    let slot = |name: &str| slots.iter().position(|s| s.name == name);
    let operand = |name: &str| Place::find(operands, name);
    if let Some((a, b)) = word.split_once('<') {
        let b = b.strip_prefix('=').ok_or_else(|| format!("`<` without `=`: {word}"))?;
        let find = |name: &str| operand(name.trim()).ok_or_else(|| format!("no operand `{}`", name.trim()));
        return Ok(Atom::AtMost(find(a)?, find(b)?));
    }
    if let Some((name, values)) = word.split_once('=') {
        let (name, values) = (name.trim().trim_start_matches('.'), values.trim());
        return match (slot(name), operand(name)) {
            (Some(at), _) if !values.starts_with('.') => {
                slot(values).map(|b| Atom::Same(at, b)).ok_or_else(|| format!("no slot `{values}`"))
            }
            (Some(at), _) => Ok(Atom::Slot(at, members(&slots[at], values, names)?)),
            (None, Some(at)) if values == "imm" || values == "reg" => Ok(Atom::Literal(at, values == "imm")),
            (None, Some(at)) if values == "neg" => Ok(Atom::Negated(at)),
            (None, Some(at)) if values == "braces" => Ok(Atom::Braced(at)),
            (None, Some(at)) => numbers(values).map(|all| Atom::Number(at, all)),
            _ => Err(format!("no slot or operand `{name}`")),
        };
    }
    if let Ok(version) = word.parse() {
        return Ok(Atom::Since(version));
    }
    if word.starts_with("texmode_") {
        return Ok(Atom::Option(word));
    }
    if word.starts_with("sm_") {
        let targets: Result<Vec<Arch>, ()> = word.split('/').map(|t| t.trim().parse()).collect();
        return targets.map(Atom::Target).map_err(|()| format!("not targets: {word}"));
    }
    let name = word.trim_start_matches('.');
    match (slot(name), operand(name)) {
        (Some(at), _) => Ok(Atom::Slot(at, Vec::new())),
        (None, Some(at)) => Ok(Atom::Operand(at)),
        (None, None) => Err(format!("no slot or operand `{name}`")),
    }
}

/// `4/8/16`
fn numbers(values: &str) -> Result<Vec<i64>, String> {
    values.split('/').map(|v| v.trim().parse().map_err(|_| format!("not a number: `{v}`"))).collect()
}

/// `.a/.b`: members of the slot, or sets that stand for theirs.
fn members(slot: &Slot, values: &'static str, names: &Names) -> Result<Vec<&'static str>, String> {
    let mut all = Vec::new();
    for value in values.split('/') {
        let text = value.trim().trim_start_matches('.');
        if slot.members.iter().any(|m| m.text == text) {
            all.push(text);
        } else if let Some(set) = (names.sets)(text) {
            all.extend(set.iter().map(|m| m.text));
        } else {
            return Err(format!("slot `{}` has no `.{text}`", slot.name));
        }
    }
    Ok(all)
}
