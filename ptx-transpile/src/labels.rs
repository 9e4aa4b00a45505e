//! Pass `labels`: labels that nothing jumps to, which compilers write for debuggers, go.
//!
//! They end a block for ptxas all the same, so that its schedule may be another one without them: the pass is for those
//! who compare the machine code.

use super::body::{Body, Node, Piece};
use std::collections::HashSet;

/// Returns how many labels went.
pub(super) fn pass(body: &mut Body) -> usize {
    let used = used(body);
    let before = body.nodes.len();
    body.nodes.retain(|node| !is_unused(node, &used));
    before - body.nodes.len()
}

/// Takes away those behind all instructions, where they end nothing.
pub(super) fn at_end(body: &mut Body) {
    let used = used(body);
    let behind = body.nodes.iter().rev().take_while(|node| is_unused(node, &used)).count();
    body.nodes.truncate(body.nodes.len() - behind);
}

/// Takes away those in front of all instructions: no statement of the language stands in front of the loads of parameters.
pub(super) fn in_front(body: &mut Body) {
    let used = used(body);
    let ahead = body.nodes.iter().take_while(|node| is_unused(node, &used)).count();
    body.nodes.drain(..ahead);
}

fn used(body: &Body) -> HashSet<usize> {
    let mut used = HashSet::new();
    for node in &body.nodes {
        node.pieces(&mut |piece| {
            if let Piece::Label(label) = piece {
                used.insert(*label);
            }
        });
    }
    used
}

fn is_unused(node: &Node, used: &HashSet<usize>) -> bool {
    matches!(node, Node::Label(label) if !used.contains(label))
}
