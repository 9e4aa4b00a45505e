//! Flow inside a function: registers read before they are written, code that nothing reaches, labels that nothing uses.
//!
//! ptxas takes all of these; they are warnings.

use super::access;
use super::graph::{Graph, ends};
use crate::diag::{Diagnostic, codes};
use crate::hash::Set;
use crate::ir::{Function, Inst, Module, Operand, Param, RegId};
use crate::isa::Access;
use crate::syntax::{StmtKind, Tree};
use crate::token::Kind;

/// The analysis of one function stays under this many bits.
const MOST_BITS: usize = 1 << 27;

pub(super) fn check_flow(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let debug = debug_names(tree);
    for function in module.functions.iter().filter(|f| f.defined) {
        let graph = Graph::new(function);
        unused_labels(function, &graph, &debug, out);
        unreachable(function, &graph, out);
        uninitialized(function, &graph, out);
    }
}

/// The words in debug sections: compilers put labels where only DWARF needs them.
fn debug_names(tree: &Tree) -> Set<&str> {
    let lines = tree.stmts.iter().filter(|s| matches!(s.kind, StmtKind::Data(_)));
    let words = lines.flat_map(|s| s.head.clone()).filter(|t| tree.source.kind(*t) == Kind::Word);
    words.map(|t| tree.source.text(t)).collect()
}

fn unused_labels(function: &Function, graph: &Graph, debug: &Set<&str>, out: &mut Vec<Diagnostic>) {
    for (label, used) in function.labels.iter().zip(&graph.used) {
        if !used && !is_compilers(&label.name) && !debug.contains(label.name.as_str()) {
            let text = format!("nothing branches to the label `{}`", label.name);
            out.push(Diagnostic::warning(&codes::P0504, label.span, text));
        }
    }
}

/// Labels that compilers write for debuggers and tables that they may leave out: LLVM's `Ltmp0`, `func_begin0` and their kin.
/// Current compilers put `$L` or `$__` in front of every name that they make up.
const COMPILERS: [&str; 7] = ["Ltmp", "Lfunc_begin", "Lfunc_end", "__tmp", "tmp", "func_begin", "func_end"];

/// Returns true for names that compilers generate: if nothing branches there, it is no mistake of a person.
fn is_compilers(label: &str) -> bool {
    let stem = label.trim_end_matches(|c: char| c.is_ascii_digit());
    label.starts_with("$L") || label.starts_with("$__") || stem.len() < label.len() && COMPILERS.contains(&stem)
}

/// One warning for each run of blocks that nothing reaches.
fn unreachable(function: &Function, graph: &Graph, out: &mut Vec<Diagnostic>) {
    let mut before = true;
    for (block, reached) in graph.reached.iter().enumerate() {
        let first = &function.insts[graph.starts[block]];
        let only_return = graph.range(block).len() == 1 && ends(first);
        if !reached && before && !only_return {
            out.push(
                Diagnostic::warning(&codes::P0505, first.span, "no thread gets here")
                    .help("the instruction before it leaves, and no branch leads here"),
            );
        }
        before = *reached;
    }
}

/// Registers that are read where no path, or not every path, has written them. A guarded write counts as a write.
fn uninitialized(function: &Function, graph: &Graph, out: &mut Vec<Diagnostic>) {
    if let Some(written) = written(function, graph, &apply) {
        report(function, graph, written, out);
    }
}

/// The registers that an instruction may read before its thread has written them: a guarded write may not happen.
pub fn exposed(function: &Function) -> Vec<RegId> {
    let graph = Graph::new(function);
    let sure = |inst: &Inst, state: &mut [u64]| {
        if inst.guard.is_none() {
            apply(inst, state);
        }
    };
    let Some(mut states) = written(function, &graph, &sure) else { return Vec::new() };
    let mut found = vec![0; function.registers.len().div_ceil(64)];
    for block in (0..graph.next.len()).filter(|b| graph.reached[*b]) {
        for inst in &function.insts[graph.range(block)] {
            access::registers(inst, &mut |reg, access| {
                if access != Access::Write && !get(&states[block], reg) {
                    set(&mut found, reg);
                }
            });
            sure(inst, &mut states[block]);
        }
    }
    let registers = (0..).map(RegId).take(function.registers.len());
    registers.filter(|reg| get(&found, *reg)).collect()
}

/// Which registers are written on every path to the start of each block, if the function is not too large to tell.
fn written(function: &Function, graph: &Graph, step: &dyn Fn(&Inst, &mut [u64])) -> Option<Vec<Vec<u64>>> {
    let words = function.registers.len().div_ceil(64);
    if words * 64 * graph.next.len() > MOST_BITS {
        return None;
    }
    let mut written = vec![vec![u64::MAX; words]; graph.next.len()];
    let entry = written.first_mut()?;
    *entry = vec![0; words];
    function.params.iter().for_each(|p| {
        if let Param::Reg(reg) = p {
            set(entry, *reg)
        }
    });
    let mut pending: Vec<usize> = (0..graph.next.len()).rev().filter(|b| graph.reached[*b]).collect();
    let mut queued = graph.reached.clone();
    while let Some(block) = pending.pop() {
        queued[block] = false;
        let mut state = written[block].clone();
        function.insts[graph.range(block)].iter().for_each(|i| step(i, &mut state));
        for next in &graph.next[block] {
            if meet(&mut written[*next], &state) && !std::mem::replace(&mut queued[*next], true) {
                pending.push(*next);
            }
        }
    }
    Some(written)
}

fn report(function: &Function, graph: &Graph, mut written: Vec<Vec<u64>>, out: &mut Vec<Diagnostic>) {
    let mut told = vec![0; function.registers.len().div_ceil(64)];
    for block in (0..graph.next.len()).filter(|b| graph.reached[*b]) {
        let state = &mut written[block];
        for inst in &function.insts[graph.range(block)] {
            let mut unset = Vec::new();
            let adds = surely_adds(inst);
            access::registers(inst, &mut |reg, access| {
                let reads = access == Access::Read || access == Access::ReadWrite && adds;
                if reads && !get(state, reg) && !get(&told, reg) {
                    set(&mut told, reg);
                    unset.extend(function.registers.get(reg.index()).map(|r| format!("`{}`", r.name)));
                }
            });
            if !unset.is_empty() {
                out.push(unwritten(inst, &unset));
            }
            apply(inst, state);
        }
    }
}

/// Returns true if a product adds to what its accumulators held: with `scale-d` = 0 `wgmma` does not, and a register
/// may be that.
fn surely_adds(inst: &Inst) -> bool {
    let operand = inst.row.and_then(|row| row.operand("scale_d")).and_then(|at| inst.operands.get(at));
    operand.is_none_or(|operand| matches!(operand, Operand::Int(scale) if *scale != 0))
}

/// A matrix product reads more accumulators than a message should name.
const MOST_NAMES: usize = 4;

fn unwritten(inst: &Inst, names: &[String]) -> Diagnostic {
    let (told, more) = names.split_at(names.len().min(MOST_NAMES));
    let are = if names.len() == 1 { "is" } else { "are" };
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let told = told.join(", ");
    let text = format!("{told}{more} {are} read here, but not written on every path that leads here");
    Diagnostic::warning(&codes::P0503, inst.span, text).help("write it first, on every path")
}

fn apply(inst: &Inst, state: &mut [u64]) {
    access::writes(inst, &mut |reg| set(state, reg));
}

fn set(state: &mut [u64], reg: RegId) {
    if let Some(word) = state.get_mut(reg.index() / 64) {
        *word |= 1 << (reg.index() % 64);
    }
}

fn get(state: &[u64], reg: RegId) -> bool {
    state.get(reg.index() / 64).is_none_or(|word| word >> (reg.index() % 64) & 1 == 1)
}

/// Keeps what both have; whether that changed anything.
fn meet(into: &mut [u64], from: &[u64]) -> bool {
    let mut changed = false;
    for (a, b) in into.iter_mut().zip(from) {
        changed |= *a & b != *a;
        *a &= b;
    }
    changed
}
