//! Pass `waits`: loops that do nothing but wait for an `mbarrier` to a call: the library's `mbarrier::wait` where that is
//! these very instructions, else a helper of the module's own that holds them.

use super::body::{Body, Inst, Node, Piece};
use std::collections::HashMap;

/// Returns how many loops it replaced.
pub(super) fn pass(body: &mut Body) -> usize {
    let counts = Counts::of(body);
    let mut nodes = std::mem::take(&mut body.nodes);
    let mut calls = Vec::new();
    let mut at = 0;
    while at + 5 <= nodes.len() {
        if let Some(call) = wait(body, &nodes[at..at + 5], &counts) {
            calls.push((at, call));
            at += 4;
        }
        at += 1;
    }
    let made = calls.len();
    if made > 0 {
        let mut calls = calls.into_iter().peekable();
        let mut rest = 0;
        let replaced = std::mem::take(&mut nodes).into_iter().enumerate().filter_map(|(at, node)| {
            if let Some((_, call)) = calls.next_if(|(from, _)| *from == at) {
                rest = at + 5;
                return Some(call);
            }
            (at >= rest).then_some(node)
        });
        nodes = replaced.collect();
    }
    body.nodes = nodes;
    made
}

/// Number of mentions of registers and labels.
#[derive(Default)]
struct Counts {
    registers: HashMap<usize, usize>,
    labels: HashMap<usize, usize>,
}

impl Counts {
    fn of(body: &Body) -> Counts {
        let mut counts = Counts::default();
        for node in &body.nodes {
            node.mentions(body, &mut |reg| *counts.registers.entry(reg).or_default() += 1);
            node.pieces(&mut |piece| {
                if let Piece::Label(label) = piece {
                    *counts.labels.entry(*label).or_default() += 1;
                }
            });
        }
        counts
    }
}

/// `A: try_wait p, [bar], phase; @p bra D; bra A; D:`
fn wait(body: &mut Body, nodes: &[Node], counts: &Counts) -> Option<Node> {
    let [Node::Label(again), Node::Inst(test), Node::Inst(leave), Node::Inst(back), Node::Label(done)] = nodes else {
        return None;
    };
    let is_test = test.name.starts_with("mbarrier.") && test.name.contains("_wait") && test.guard.is_none();
    let Some([Piece::Reg(flag)]) = test.operands.first().map(Vec::as_slice) else { return None };
    let loops = is_test
        && leave.guard == Some((*flag, false))
        && jumps(leave, *done)
        && back.guard.is_none()
        && jumps(back, *again)
        && counts.registers.get(flag) == Some(&2)
        && counts.labels.get(again) == Some(&1)
        && counts.labels.get(done) == Some(&1);
    if !loops {
        return None;
    }
    let args: Vec<Piece> =
        test.operands[1..].iter().flatten().filter(|p| matches!(p, Piece::Reg(_))).cloned().collect();
    let plain = test.name == "mbarrier.try_wait.parity.shared::cta.b64" && leave.name == "bra";
    if plain && args.len() == 2 && test.operands.len() == 3 && test.operands[1].len() == 3 {
        return Some(Node::Call("mbarrier::wait".to_owned(), args));
    }
    let text = helper(body, test, &leave.name, &back.name);
    let known = body.helpers.iter().find(|(_, t)| **t == text).map(|(name, _)| name.clone());
    let name = known.unwrap_or_else(|| {
        let mut names = (1..).map(|n| if n == 1 { "wait".to_owned() } else { format!("wait_{n}") });
        let name = names.find(|name| !body.helpers.contains_key(name)).unwrap_or_default();
        body.helpers.insert(name.clone(), text);
        name
    });
    Some(Node::Call(name, args))
}

/// The parameters and the body of a helper that waits.
fn helper(body: &Body, test: &Inst, leave: &str, back: &str) -> String {
    const NAMES: [&str; 4] = ["bar", "phase", "hint", "more"];
    let mut params = Vec::new();
    let mut operands = Vec::new();
    for operand in &test.operands[1..] {
        let mut text = String::new();
        for piece in operand {
            match piece {
                Piece::Reg(reg) => {
                    let name = NAMES.get(params.len()).copied().unwrap_or("other");
                    let bits =
                        ptx_core::isa::Type::find(&body.regs[*reg].declared).map_or(32, ptx_core::isa::Type::bits);
                    params.push(format!("{name}: b{bits}"));
                    text.push_str(name);
                }
                Piece::Int(value) => text.push_str(&value.to_string()),
                Piece::Text(piece) => text.push_str(piece),
                _ => {}
            }
        }
        operands.push(text);
    }
    format!(
        "({}) {{\n    let done: pred;\n    ptx! {{\n        again: {} done, {};\n        @done {leave} over;\n        \
         {back} again;\n        over:\n    }}\n}}\n",
        params.join(", "),
        test.name,
        operands.join(", ")
    )
}

fn jumps(inst: &Inst, label: usize) -> bool {
    matches!(inst.name.as_str(), "bra" | "bra.uni")
        && matches!(inst.operands.as_slice(), [one] if one.as_slice() == [Piece::Label(label)])
}
