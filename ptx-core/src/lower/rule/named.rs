//! Rules with a name: what no implication between slots can say. None is about one opcode.

use super::Case;
use crate::ir::Operand;
use crate::isa::rule::NAMED;
use crate::isa::{Access, Count, OperandKind};
use ptx_target::sort::SortSmall;

/// The predicate of a named rule.
type Check = fn(&Case) -> bool;

/// In the order of [`NAMED`], which has their words.
pub(super) const RULES: [(&str, Check); NAMED.len()] = [
    ("wide_sinks", wide_sinks),
    ("sinks", sinks),
    ("displaced", displaced),
    ("nameless", nameless),
    ("pointed", pointed),
    ("fraction", fraction),
    ("plain", plain),
    ("plain_elements", plain_elements),
    ("ordinary_elements", ordinary_elements),
    ("selected", selected),
    ("braces", braces),
    ("distinct", distinct),
];

// The orders are equal.
const _: () = {
    let mut at = 0;
    while at < NAMED.len() {
        let (here, there) = (RULES[at].0.as_bytes(), NAMED[at].name.as_bytes());
        assert!(here.len() == there.len());
        let mut byte = 0;
        while byte < here.len() {
            assert!(here[byte] == there[byte]);
            byte += 1;
        }
        at += 1;
    }
};

/// `_` among elements that are read stands for bytes that stay as they are: only accesses of 256 bits can do that.
fn wide_sinks(case: &Case) -> bool {
    let slot = |name: &str| {
        let at = case.form.row.slots.iter().position(|s| s.name == name)?;
        case.form.slots.get(at).copied().flatten()
    };
    let bits = slot("type").and_then(|m| m.ty).map_or(0, |t| t.bits()) * slot("vec").map_or(1, |m| m.number);
    bits == 256 || !sinks(case)
}

/// `_` is among the elements of a vector.
fn sinks(case: &Case) -> bool {
    has_element(case, |element| *element == Operand::Sink)
}

/// A name with an offset: ptxas does not ask where the variable is.
fn displaced(case: &Case) -> bool {
    case.operands.iter().any(|o| matches!(o, Operand::Symbol(_, offset) if *offset != 0))
}

/// No operand is the name of a function, or of a variable with an offset.
fn nameless(case: &Case) -> bool {
    !displaced(case) && !case.operands.iter().any(|o| matches!(o, Operand::Func(_)))
}

/// No operand is a sum or the name of a function: ptxas makes several instructions of this one, which take neither.
fn plain(case: &Case) -> bool {
    nameless(case) && !case.operands.iter().any(|o| matches!(o, Operand::Sum(..)))
}

/// Addresses are in registers.
fn pointed(case: &Case) -> bool {
    !case.operands.iter().any(|o| matches!(o, Operand::Memory { base, .. } if base.symbol().is_some()))
}

/// Literals of floating point are greater than 0, and at most 1.
fn fraction(case: &Case) -> bool {
    let inside = |value: f64| value > 0.0 && value <= 1.0;
    case.operands.iter().all(|o| match o {
        Operand::F32(bits) => inside(f64::from(f32::from_bits(*bits))),
        Operand::F64(bits) => inside(f64::from_bits(*bits)),
        _ => true,
    })
}

/// No element of a vector is a special register or a literal of 64 bits, as decimal ones are.
fn plain_elements(case: &Case) -> bool {
    !has_element(case, |element| matches!(element, Operand::F64(_) | Operand::Special(_)))
}

/// No element of a vector is a special register.
fn ordinary_elements(case: &Case) -> bool {
    !has_element(case, |element| matches!(element, Operand::Special(_)))
}

/// An operand has a selector.
fn selected(case: &Case) -> bool {
    case.operands.iter().any(|o| matches!(o, Operand::Part(..)))
}

fn has_element(case: &Case, is: impl Fn(&Operand) -> bool) -> bool {
    case.operands.iter().any(|o| matches!(o, Operand::Vector(elements) if elements.iter().any(&is)))
}

/// Vectors are written in braces, and not as one vector register: ptxas makes several instructions of this one, and crashes on such a
/// register.
fn braces(case: &Case) -> bool {
    let several = |count: &Count| count.braces || count.slot.is_some() || count.times > 1;
    let is_vector = |kind: &OperandKind| matches!(kind, OperandKind::Value(v) if v.count.as_ref().is_some_and(several));
    let specs = case.form.row.operands.iter();
    !specs.zip(case.operands).any(|(spec, o)| is_vector(&spec.kind) && matches!(o, Operand::Reg(_)))
}

/// No register is written twice: ptxas makes several loads of this one, and fails where two have one result.
fn distinct(case: &Case) -> bool {
    let specs = case.form.row.operands.iter();
    let written = specs.zip(case.operands).filter(|(spec, _)| matches!(spec.access, Access::Write | Access::ReadWrite));
    let mut registers: Vec<_> = written
        .flat_map(|(_, operand)| match operand {
            Operand::Vector(elements) => elements.as_slice(),
            one => std::slice::from_ref(one),
        })
        .filter_map(|operand| if let Operand::Reg(id) = operand { Some(id.index()) } else { None })
        .collect();
    let all = registers.len();
    registers.sort_small();
    registers.dedup();
    registers.len() == all
}
