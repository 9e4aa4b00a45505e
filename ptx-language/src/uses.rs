//! Names in `ptx!` that not every instruction may use: registers that may not be written, addresses of one state space. The
//! table defines what an instruction does with its operands.

use super::types::{AddressTy, Space};
use ptx_core::diag::{Diagnostic, codes, sort_by_span};
use ptx_core::ir::{Function, Inst, Module, Operand};
use ptx_core::isa::{Access, OperandKind, OperandSpec, SpaceOf};
use ptx_core::sort::SortSmall;
use ptx_core::span::Span;
use std::rc::Rc;

/// Instructions that write memory at the address in their first brackets.
const WRITERS: &[&str] = &[
    "st",
    "st.async",
    "st.bulk",
    "atom",
    "red",
    "red.async",
    "cp.async.bulk",
    "cp.reduce.async.bulk",
    "multimem.st",
    "multimem.red",
    "wmma.store.d",
];

/// A name in `ptx!` that no instruction may write.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    /// Its position.
    pub(crate) span: Span,
    /// The error, if one does.
    pub(crate) diagnostic: Diagnostic,
}

/// An address in the brackets of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Addressed {
    /// Its position.
    pub(crate) span: Span,
    /// Its type.
    pub(crate) ty: Rc<AddressTy>,
}

/// The names in `ptx!` that not every instruction may use.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// In the order of their spans.
    fixed: Vec<Fixed>,
    /// In the order of their spans.
    addressed: Vec<Addressed>,
}

impl Uses {
    pub(crate) fn new(mut fixed: Vec<Fixed>, mut addressed: Vec<Addressed>) -> Uses {
        fixed.sort_small_by_key(|fixed| fixed.span);
        addressed.sort_small_by_key(|addressed| addressed.span);
        Uses { fixed, addressed }
    }

    /// Errors for the names that an instruction of `module` may not use as it does. In `unchecked { }` every operand outside
    /// of an address counts as written: the table does not have the instruction. In a module that is not `sound`, wrong
    /// instructions say nothing.
    pub fn check(&self, module: &Module, sound: bool) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        if !self.fixed.is_empty() || !self.addressed.is_empty() {
            for function in &module.functions {
                let insts = function.insts.iter().filter(|inst| sound || inst.row.is_some());
                insts.for_each(|inst| self.check_inst(function, inst, &mut found));
            }
        }
        sort_by_span(&mut found);
        found.dedup();
        found
    }

    /// Says what an address is where an instruction takes one of another width.
    pub fn explain(&self, diagnostic: &mut Diagnostic) {
        let wide = *diagnostic.code == codes::P0301 && diagnostic.message.contains("-bit address");
        let name = within(&self.addressed, diagnostic.span, |addressed| addressed.span).next().filter(|_| wide);
        if let Some(name) = name {
            diagnostic.code = &codes::P0821;
            diagnostic.message = format!("this is a `{}`, and {}", name.ty.name(), diagnostic.message);
            diagnostic.help = vec![advice(name.ty.space)];
        }
    }

    fn check_inst(&self, function: &Function, inst: &Inst, found: &mut Vec<Diagnostic>) {
        for at in 0..inst.operands.len() {
            let span = function.operand_span(inst, at);
            if is_written(inst, at) {
                found.extend(within(&self.fixed, span, |fixed| fixed.span).map(|fixed| fixed.diagnostic.clone()));
            }
            let spaces = inst.row.and_then(|row| row.operands.get(at)).and_then(|spec| spaces(inst, spec));
            if let (Some(spaces), Some(row)) = (spaces, inst.row) {
                let first = inst.operands.iter().position(|operand| matches!(operand, Operand::Memory { .. }));
                let writes = WRITERS.contains(&row.name) && first == Some(at);
                let names = within(&self.addressed, span, |addressed| addressed.span);
                found.extend(names.filter_map(|name| misused(name, &spaces, writes)));
            }
        }
    }
}

/// The items inside of a span.
fn within<T>(items: &[T], span: Span, of: impl Fn(&T) -> Span + Copy) -> impl Iterator<Item = &T> {
    let first = items.partition_point(|item| of(item).lo < span.lo);
    items.get(first..).unwrap_or_default().iter().take_while(move |item| of(item).hi <= span.hi)
}

fn is_written(inst: &Inst, operand: usize) -> bool {
    match inst.row {
        Some(row) => row.operands.get(operand).is_some_and(writes),
        None => !matches!(inst.operands.get(operand), Some(Operand::Memory { .. })),
    }
}

fn writes(spec: &OperandSpec) -> bool {
    match &spec.kind {
        OperandKind::Memory { .. } => false,
        OperandKind::Pair(a, _) => writes(a),
        _ => spec.access != Access::Read,
    }
}

/// The state spaces that an instruction takes an address in; none for a generic one. `None` for any other operand, and where
/// the table does not say it.
fn spaces(inst: &Inst, spec: &OperandSpec) -> Option<Vec<&'static str>> {
    let OperandKind::Memory { space, .. } = &spec.kind else { return None };
    match space {
        SpaceOf::Generic => Some(Vec::new()),
        SpaceOf::Fixed(names) if names.iter().all(|name| is_space(name)) => {
            // A modifier is more exact: `mbarrier.arrive.shared::cluster`.
            let words = inst.slots.iter().flatten().map(|member| member.text);
            let exact =
                words.into_iter().find(|text| text.split_once("::").is_some_and(|(space, _)| names.contains(&space)));
            Some(exact.map_or_else(|| names.clone(), |exact| vec![exact]))
        }
        SpaceOf::Fixed(_) => None,
        SpaceOf::Slot(slot, _) => {
            Some(inst.slots.get(*slot).copied().flatten().map(|member| member.text).into_iter().collect())
        }
        SpaceOf::Register(_) => Some(vec![Space::Tensor.ptx()]),
    }
}

/// Returns true for the names of state spaces; the table also has names of opaque types there.
fn is_space(name: &str) -> bool {
    ["global", "shared", "const", "local", "param"].iter().any(|space| name.split(':').next() == Some(space))
}

/// The instructions for a state space.
fn advice(space: Space) -> String {
    match space {
        Space::Tensor => "write an instruction of `tcgen05`".to_owned(),
        space => format!("write `.{}` in the instruction", space.ptx()),
    }
}

/// The error of an address that is used in another state space, or written where it may only be read.
fn misused(name: &Addressed, spaces: &[&'static str], writes: bool) -> Option<Diagnostic> {
    let ty = &name.ty;
    let fits = match (ty.space, spaces) {
        (Space::Tensor, spaces) => spaces.contains(&Space::Tensor.ptx()),
        // A generic access to global memory reaches it: the window begins at zero.
        (space, []) => space == Space::Global,
        (space, spaces) => spaces.iter().any(|name| space.modifiers().contains(name)),
    };
    if !fits {
        let wanted = match spaces {
            [] => "a generic address".to_owned(),
            spaces => format!("an address in `.{}`", spaces.join("` or `.")),
        };
        let message = format!("this is a `{}`, and the instruction takes {wanted}", ty.name());
        return Some(Diagnostic::error(&codes::P0821, name.span, message).help(advice(ty.space)));
    }
    (writes && !ty.mutable).then(|| {
        let message = format!("this is a `{}`, which is only read, and the instruction writes there", ty.name());
        Diagnostic::error(&codes::P0821, name.span, message).help(AddressTy::TO_WRITE)
    })
}
