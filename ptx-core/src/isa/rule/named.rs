//! Rules with a name: what no implication between slots can say. None is about one opcode.

use super::Case;

/// Whether the rule holds.
pub type Check = fn(&Case) -> bool;

/// By name.
const NAMED: &[(&str, Check)] = &[];

pub(super) fn find(name: &str) -> Option<Check> {
    NAMED.iter().find(|(n, _)| *n == name).map(|(_, check)| *check)
}
