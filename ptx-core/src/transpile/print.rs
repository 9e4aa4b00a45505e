//! A [`Body`] as Rust text.

use super::body::{Body, Expr, Inst, Jump, Node, Piece};
use std::fmt::Write;

/// The statements of a kernel, each line indented by `depth` levels.
pub(super) fn print(body: &Body, depth: usize) -> String {
    let mut printer = Printer { body, out: String::new(), depth, waiting: Vec::new(), loops: Vec::new() };
    for declaration in &body.declarations {
        printer.ptx(declaration);
    }
    printer.nodes(&body.nodes);
    printer.out
}

/// A `ptx!` of one line is not longer.
const WIDTH: usize = 110;

struct Printer<'b> {
    body: &'b Body,
    out: String,
    depth: usize,
    /// The lines of a `ptx!` that is not written yet.
    waiting: Vec<String>,
    /// The labels of the loops around.
    loops: Vec<usize>,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        self.out.extend(std::iter::repeat_n("    ", self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A line of PTX.
    fn ptx(&mut self, text: &str) {
        self.waiting.push(text.to_owned());
    }

    /// A line of Rust.
    fn rust(&mut self, text: &str) {
        self.leave_ptx();
        self.line(text);
    }

    fn leave_ptx(&mut self) {
        match std::mem::take(&mut self.waiting).as_slice() {
            [] => {}
            [one] if one.len() + 4 * self.depth < WIDTH => self.line(&format!("ptx! {{ {one} }}")),
            lines => {
                self.line("ptx! {");
                self.depth += 1;
                lines.iter().for_each(|line| self.line(line));
                self.depth -= 1;
                self.line("}");
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
        self.leave_ptx();
    }

    fn block(&mut self, head: &str, nodes: &[Node], tail: &str) {
        self.rust(head);
        self.depth += 1;
        self.nodes(nodes);
        self.depth -= 1;
        self.rust(tail);
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Inst(inst) => {
                let text = self.inst(inst);
                self.ptx(&text);
            }
            Node::Label(label) => {
                let text = format!("{}:", self.body.labels[*label]);
                self.ptx(&text);
            }
            Node::Text(pieces) => {
                let text: String = pieces.iter().map(|p| self.piece(p)).collect();
                let mut inner = 0usize;
                for line in text.lines() {
                    inner -= usize::from(line == "}" && inner > 0);
                    self.ptx(&format!("{}{line}", "    ".repeat(inner)));
                    inner += usize::from(line == "{");
                }
            }
            Node::Declare(regs) => self.declare(regs),
            Node::Assign(dest, value, declares) => {
                let (name, value) = (self.piece(&Piece::Reg(*dest)), self.expr(value, 0));
                let text = match declares {
                    true => format!("let {name}: {} = {value};", self.body.regs[*dest].ty),
                    false => format!("{name} = {value};"),
                };
                self.rust(&text);
            }
            Node::Jump(None, jump) => {
                let text = format!("{};", self.jump(*jump));
                self.rust(&text);
            }
            Node::Jump(Some((condition, negated)), jump) => {
                let text = format!("if {} {{ {}; }}", self.condition(condition, *negated), self.jump(*jump));
                self.rust(&text);
            }
            Node::If(condition, negated, then, otherwise) => {
                let head = format!("if {} {{", self.condition(condition, *negated));
                if otherwise.is_empty() {
                    return self.block(&head, then, "}");
                }
                self.rust(&head);
                self.depth += 1;
                self.nodes(then);
                self.depth -= 1;
                self.block("} else {", otherwise, "}");
            }
            Node::Loop(label, body) => {
                let name = if named_inside(body, *label, false) {
                    format!("'{}: ", self.body.labels[*label])
                } else {
                    String::new()
                };
                self.loops.push(*label);
                self.block(&format!("{name}loop {{"), body, "}");
                self.loops.pop();
            }
            Node::Block(label, body) => {
                let head = format!("'{}: {{", self.body.labels[*label]);
                self.block(&head, body, "}");
            }
            Node::Call(name, args) => {
                let args: Vec<String> = args.iter().map(|a| self.piece(a)).collect();
                self.rust(&format!("{name}({});", args.join(", ")));
            }
            Node::For(names, rows, body) => {
                let head = format!("for {} in {} {{", tuple(names), table(rows));
                self.block(&head, body, "}");
            }
        }
    }

    /// How many names a `let` has at most.
    const TOGETHER: usize = 10;

    fn declare(&mut self, regs: &[usize]) {
        let mut arrays: Vec<usize> = Vec::new();
        let mut by_type: Vec<(String, Vec<String>)> = Vec::new();
        for reg in regs {
            let reg = &self.body.regs[*reg];
            if let Some((array, _)) = reg.element {
                if !arrays.contains(&array) {
                    arrays.push(array);
                }
                continue;
            }
            match by_type.iter_mut().find(|(ty, _)| *ty == reg.ty) {
                Some((_, names)) => names.push(reg.name.clone()),
                None => by_type.push((reg.ty.clone(), vec![reg.name.clone()])),
            }
        }
        for array in arrays {
            let array = &self.body.arrays[array];
            let ty = &self.body.regs[array.regs[0]].ty;
            self.rust(&format!("let {}: [{ty}; {}];", array.name, array.regs.len()));
        }
        for (ty, names) in by_type {
            for names in names.chunks(Self::TOGETHER) {
                let types = vec![ty.clone(); names.len()];
                self.rust(&format!("let {}: {};", tuple(names), tuple(&types)));
            }
        }
    }

    fn inst(&self, inst: &Inst) -> String {
        let mut out = String::new();
        if let Some((reg, negated)) = inst.guard {
            // Writing to a string does not fail.
            let _ = write!(out, "@{}{} ", if negated { "!" } else { "" }, self.piece(&Piece::Reg(reg)));
        }
        out.push_str(&inst.name);
        for (at, operand) in inst.operands.iter().enumerate() {
            out.push_str(if at == 0 { " " } else { ", " });
            operand.iter().for_each(|piece| out.push_str(&self.piece(piece)));
        }
        out + ";"
    }

    fn piece(&self, piece: &Piece) -> String {
        match piece {
            Piece::Text(text) | Piece::Variable(text) => text.clone(),
            Piece::Int(value) if *value >= 1 << 20 => format!("{value:#x}"),
            Piece::Int(value) => value.to_string(),
            Piece::Label(label) => self.body.labels[*label].clone(),
            Piece::Reg(reg) => match self.body.regs[*reg].element {
                Some((array, at)) => format!("{}[{at}]", self.body.arrays[array].name),
                None => self.body.regs[*reg].name.clone(),
            },
            Piece::Range(array, from, to) => {
                let Some(of) = self.body.arrays.get(*array) else { return String::new() };
                match (*from, *to == of.regs.len()) {
                    (0, true) => format!("{}[..]", of.name),
                    _ => format!("{}[{from}..{to}]", of.name),
                }
            }
            Piece::Strided(array, times, plus) => {
                let plus = if *plus == 0 { String::new() } else { format!(" + {plus}") };
                let i = if *times == 1 { "i".to_owned() } else { format!("{times} * i") };
                format!("{}[{i}{plus}]", self.body.arrays[*array].name)
            }
        }
    }

    fn jump(&self, jump: Jump) -> String {
        let inner = |label| self.loops.last() == Some(&label);
        match jump {
            Jump::Break(label) if inner(label) => "break".to_owned(),
            Jump::Continue(label) if inner(label) => "continue".to_owned(),
            Jump::Break(label) => format!("break '{}", self.body.labels[label]),
            Jump::Continue(label) => format!("continue '{}", self.body.labels[label]),
            Jump::Return => "return".to_owned(),
        }
    }

    fn condition(&self, condition: &Expr, negated: bool) -> String {
        match (negated, condition) {
            (false, _) => self.expr(condition, 0),
            (true, Expr::Leaf(_)) => format!("!{}", self.expr(condition, 0)),
            (true, _) => format!("!({})", self.expr(condition, 0)),
        }
    }

    /// An expression; in parentheses where it stands inside of another one.
    fn expr(&self, expr: &Expr, level: usize) -> String {
        let text = match expr {
            Expr::Leaf(piece) => return self.piece(piece),
            Expr::Unary(op, a) => return format!("{op}{}", self.expr(a, level + 1)),
            Expr::Cast(a, ty) => format!("{} as {ty}", self.expr(a, level + 1)),
            Expr::Binary("wide", a, b) => format!("wide({}) * {}", self.expr(a, 0), self.expr(b, level + 1)),
            Expr::Binary(op, a, b) => format!("{} {op} {}", self.expr(a, level + 1), self.expr(b, level + 1)),
        };
        if level == 0 { text } else { format!("({text})") }
    }
}

/// Whether a loop inside of this one leaves or continues it, so that it needs its name.
fn named_inside(nodes: &[Node], label: usize, inside: bool) -> bool {
    nodes.iter().any(|node| match node {
        Node::Jump(_, Jump::Break(to) | Jump::Continue(to)) => inside && *to == label,
        Node::Loop(_, body) => named_inside(body, label, true),
        other => other.blocks().into_iter().any(|block| named_inside(block, label, inside)),
    })
}

/// `a`, or `(a, b)`.
fn tuple(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        names => format!("({})", names.join(", ")),
    }
}

/// `0..4`, `[1, 2]` or `[(1, 2), (3, 4)]`.
fn table(rows: &[Vec<i64>]) -> String {
    let counts = rows.iter().enumerate().all(|(at, row)| row.as_slice() == [at as i64]);
    if counts {
        return format!("0..{}", rows.len());
    }
    let rows: Vec<String> = rows.iter().map(|row| tuple(&row.iter().map(i64::to_string).collect::<Vec<_>>())).collect();
    format!("[{}]", rows.join(", "))
}
