//! The static schedule: the cycles that a warp alone needs to issue a basic block, and with the latencies that it waits for.

use super::groups::Groups;
use super::listing::{Function, Instruction};
use std::collections::BTreeSet;

/// A run of instructions with one entry and one exit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    /// Its first instruction, and the one behind its last.
    pub first: usize,
    pub end: usize,
    /// Cycles that its stalls demand.
    pub issue: u64,
    /// Cycles with the latencies of what it waits for.
    pub latency: u64,
}

/// Latencies in cycles of operations without a fixed one, by opcode, measured on an H200 (`sm_90`, 1980 MHz, 2026-11-29) by chains of each that depend
/// on themselves: loads and atomics of global memory that hit L2, textures that hit L1, `ldmatrix.x4`, conversions of 64 bits. Those of `S2R`, `SHFL` and
/// `VOTE` were published for Volta and Ampere (Jia et al., arXiv:1804.06826; Abdelkhalik et al., arXiv:2208.11174) and are the same there.
/// `groups` has those of `wgmma` and `cp.async`.
const LATENCIES: &[(&str, u64)] = &[
    ("LDG", 281),
    ("LD", 281),
    ("LDL", 29),
    ("LDC", 28),
    ("LDS", 23),
    ("LDSM", 29),
    ("ATOM", 331),
    ("ATOMG", 331),
    ("ATOMS", 26),
    ("RED", 331),
    ("TEX", 94),
    ("TLD", 94),
    ("HMMA", 33),
    ("IMMA", 33),
    ("DMMA", 26),
    ("MUFU", 17),
    ("S2R", 25),
    ("S2UR", 25),
    ("SHFL", 24),
    ("VOTE", 12),
    ("MATCH", 28),
    ("REDUX", 38),
    ("MOVM", 24),
    ("POPC", 17),
    ("FLO", 17),
    ("BREV", 17),
    ("FRND", 17),
    ("I2F", 18),
    ("F2I", 17),
    ("F2F", 18),
    ("SYNCS", 38),
    ("QSPC", 31),
];

/// The latency of what is in no line, and the time until operands are read.
const OTHERS: u64 = 20;
const READ: u64 = 12;

fn latency_of(instruction: &Instruction) -> u64 {
    LATENCIES.iter().find(|(opcode, _)| *opcode == instruction.opcode()).map_or(OTHERS, |(_, cycles)| *cycles)
}

/// The labels that an instruction names: where it jumps, or all targets of a table, which are in a comment behind it.
fn label_names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$');
    text.split(move |c| !is_name(c)).filter(|word| word.starts_with(".L"))
}

/// The basic blocks of a function. nvdisasm also labels places to which nothing jumps; no block starts there.
pub(super) fn blocks(function: &Function) -> Vec<Block> {
    let code = &function.instructions;
    let targets: BTreeSet<&str> = code.iter().flat_map(|instruction| label_names(&instruction.text)).collect();
    let is_target = |at: usize| code[at].labels.iter().any(|label| targets.contains(label.as_str()));
    let starts = |at: usize| at == 0 || is_target(at) || code[at - 1].jumps();
    let firsts: Vec<usize> = (0..code.len()).filter(|at| starts(*at)).collect();
    let ends = firsts.iter().copied().skip(1).chain([code.len()]);
    firsts.iter().zip(ends).map(|(first, end)| measure(&code[*first..end], *first)).collect()
}

/// Issues the instructions of a block one by one, each when the stall before it is over and its barriers are open.
fn measure(code: &[Instruction], first: usize) -> Block {
    let mut open = [0u64; 6];
    let mut groups = Groups::default();
    let (mut now, mut issue) = (0u64, 0u64);
    for instruction in code {
        let control = instruction.control;
        now = groups.issue(instruction, now);
        now = control.waits().map(|barrier| open[usize::from(barrier) % 6]).fold(now, u64::max);
        let mut set = |barrier: Option<u8>, cycles: u64| {
            if let Some(at) = barrier.and_then(|barrier| open.get_mut(usize::from(barrier))) {
                *at = (*at).max(now + cycles);
            }
        };
        set(control.write, latency_of(instruction));
        set(control.read, READ);
        let stall = u64::from(control.stall).max(1);
        (now, issue) = (now + stall, issue + stall);
    }
    Block { first, end: first + code.len(), issue, latency: now }
}

#[cfg(test)]
mod tests {
    use super::super::control::Control;
    use super::super::listing::{Function, Instruction};
    use super::{Block, blocks};

    #[test]
    fn blocks_issue_and_wait() {
        let inst =
            |text: &str, control: Control| Instruction { text: text.to_owned(), control, ..Instruction::default() };
        let stall = |stall: u8| Control { stall, ..Control::default() };
        let code = vec![
            inst("LDS R0, [R1]", Control { stall: 2, write: Some(0), ..Control::default() }),
            inst("FADD R2, R2, R2", stall(4)),
            inst("FADD R0, R0, R2", Control { stall: 5, wait: 1, ..Control::default() }),
            inst("@P0 BRA `(.L_x_0)", stall(5)),
            inst("EXIT", stall(5)),
        ];
        let function = Function { instructions: code, ..Function::default() };
        let expected =
            [Block { first: 0, end: 4, issue: 16, latency: 33 }, Block { first: 4, end: 5, issue: 5, latency: 5 }];
        assert_eq!(blocks(&function), expected);
    }
}
