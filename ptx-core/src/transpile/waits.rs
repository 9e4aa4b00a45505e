//! Pass `waits`: loops that do nothing but wait for an `mbarrier` to a call: the library's `mbarrier::wait` where that is
//! these very instructions, else a helper of the module's own that holds them.

use super::body::{Body, Inst, Node, Piece};

/// Returns how many loops it replaced.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut at = 0;
    let mut made = 0;
    while at + 5 <= body.nodes.len() {
        if let Some(call) = wait(body, at) {
            body.nodes.splice(at..at + 5, [call]);
            made += 1;
        }
        at += 1;
    }
    made
}

/// `A: try_wait p, [bar], phase; @p bra D; bra A; D:`
fn wait(body: &mut Body, at: usize) -> Option<Node> {
    let [Node::Label(again), Node::Inst(test), Node::Inst(leave), Node::Inst(back), Node::Label(done)] =
        &body.nodes[at..at + 5]
    else {
        return None;
    };
    let is_test = test.name.starts_with("mbarrier.") && test.name.contains("_wait") && test.guard.is_none();
    let Some([Piece::Reg(flag)]) = test.operands.first().map(Vec::as_slice) else { return None };
    let loops = is_test
        && leave.guard == Some((*flag, false))
        && jumps(leave, *done)
        && back.guard.is_none()
        && jumps(back, *again)
        && mentions(body, *flag) == 2
        && uses(body, *again) == 1
        && uses(body, *done) == 1;
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
                    let bits = crate::isa::Type::find(&body.regs[*reg].declared).map_or(32, crate::isa::Type::bits);
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

fn mentions(body: &Body, reg: usize) -> usize {
    let mut count = 0;
    body.nodes.iter().for_each(|node| node.mentions(body, &mut |named| count += usize::from(named == reg)));
    count
}

fn uses(body: &Body, label: usize) -> usize {
    let mut count = 0;
    body.nodes.iter().for_each(|node| node.pieces(&mut |piece| count += usize::from(*piece == Piece::Label(label))));
    count
}
