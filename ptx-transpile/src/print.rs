//! A [`Body`] as Rust text.

use super::affine::Affine;
use super::body::{Body, Expr, For, Inst, Jump, Node, Piece};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The statements of a kernel, each line indented by `depth` levels.
pub(super) fn print(body: &Body, depth: usize) -> String {
    let mut printer = Printer {
        body,
        out: String::new(),
        depth,
        waiting: Vec::new(),
        loops: Vec::new(),
        variables: HashMap::new(),
        writes: body.writes(),
    };
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
    /// The names of the variables of the `for`s around.
    variables: HashMap<usize, String>,
    /// The number of statements that write each register.
    writes: HashMap<usize, usize>,
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
        self.opened(head, nodes);
        self.rust(tail);
    }

    /// A block without its end.
    fn opened(&mut self, head: &str, nodes: &[Node]) {
        self.rust(head);
        self.depth += 1;
        self.nodes(nodes);
        self.depth -= 1;
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
                self.indented(&text);
            }
            Node::Declare(regs) => self.declare(regs),
            Node::Assign(dest, value, declares) => {
                let (name, value) = (self.piece(dest), self.expr(value, 0));
                let text = match (declares, dest) {
                    (true, Piece::Reg(reg)) => {
                        let again = if self.writes.get(reg).is_some_and(|count| *count > 1) { "mut " } else { "" };
                        format!("let {again}{name}: {} = {value};", self.body.regs[*reg].ty)
                    }
                    _ => format!("{name} = {value};"),
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
                self.opened(&head, then);
                self.block("} else {", otherwise, "}");
            }
            Node::Loop(label, body) => self.looped(*label, body),
            Node::Block(label, body) => {
                let head = format!("'{}: {{", self.body.labels[*label]);
                self.block(&head, body, "}");
            }
            Node::Call(name, args) => {
                let args: Vec<String> = args.iter().map(|a| self.piece(a)).collect();
                self.rust(&format!("{name}({});", args.join(", ")));
            }
            Node::For(of) => self.unrolled(of),
        }
    }

    /// Lines of PTX, those in braces moved in.
    fn indented(&mut self, text: &str) {
        let mut inner = 0usize;
        for line in text.lines() {
            inner -= usize::from(line == "}" && inner > 0);
            self.ptx(&format!("{}{line}", "    ".repeat(inner)));
            inner += usize::from(line == "{");
        }
    }

    /// `loop { }`, or `while`: what leaves a loop at its start is its condition.
    fn looped(&mut self, label: usize, body: &[Node]) {
        let named = named_inside(body, label, false);
        let name = if named { format!("'{}: ", self.body.labels[label]) } else { String::new() };
        let (head, body) = match body.split_first() {
            Some((Node::Jump(Some((condition, negated)), Jump::Break(to)), rest)) if *to == label => {
                (format!("while {}", self.condition(condition, !negated)), rest)
            }
            _ => ("loop".to_owned(), body),
        };
        self.loops.push(label);
        self.block(&format!("{name}{head} {{"), body, "}");
        self.loops.pop();
    }

    fn unrolled(&mut self, of: &For) {
        let counts = names_variable(&of.body, of.variable);
        let mut columns: Vec<(usize, Vec<i64>)> = Vec::new();
        if counts {
            columns.push((of.variable, (0..of.turns as i64).collect()));
        }
        columns.extend(of.table.iter().cloned());
        let mut names = Vec::new();
        for (variable, _) in &columns {
            let stems: &[&str] = if *variable == of.variable { &["i", "j", "k", "l", "m", "n"] } else { &[] };
            let numbered = (0..).map(|n| format!("k{n}"));
            let mut candidates = stems.iter().map(|s| (*s).to_owned()).chain(numbered);
            let free = |name: &String| {
                !self.body.taken.contains(name) && !names.contains(name) && !self.variables.values().any(|v| v == name)
            };
            names.push(candidates.find(free).unwrap_or_default());
        }
        let head = match columns.as_slice() {
            [] => format!("for _ in 0..{} {{", of.turns),
            [(variable, _)] if *variable == of.variable => format!("for {} in 0..{} {{", names[0], of.turns),
            _ => {
                let row =
                    |turn: usize| tuple(&columns.iter().map(|(_, values)| number(values[turn])).collect::<Vec<_>>());
                let rows: Vec<String> = (0..of.turns).map(row).collect();
                format!("for {} in [{}] {{", tuple(&names), rows.join(", "))
            }
        };
        self.variables.extend(columns.iter().map(|(variable, _)| *variable).zip(names));
        self.block(&head, &of.body, "}");
        columns.iter().for_each(|(variable, _)| {
            self.variables.remove(variable);
        });
    }

    fn affine(&self, count: &Affine) -> String {
        let name = |variable: usize| self.variables.get(&variable).cloned().unwrap_or_default();
        count.text(&name, &number)
    }

    /// `let` of these registers, in as few lines as they take: as they come, `(a, b): (u32, f32)`, or by their types.
    fn declare(&mut self, regs: &[usize]) {
        let declared = self.declared(regs);
        let room = WIDTH.saturating_sub(4 * self.depth);
        let mixed = |(name, ty): &(String, String)| declared_width(name, ty);
        let as_they_come = lines(&declared, room, mixed, |row| {
            let (names, types): (Vec<_>, Vec<_>) = row.iter().cloned().unzip();
            format!("let {}: {};", tuple(&names), tuple(&types))
        });
        let mut types: Vec<&String> = Vec::new();
        declared.iter().for_each(|(_, ty)| {
            if !types.contains(&ty) {
                types.push(ty)
            }
        });
        let by_type = types.into_iter().flat_map(|ty| {
            let of_type: Vec<_> = declared.iter().filter(|(_, other)| other == ty).cloned().collect();
            lines(
                &of_type,
                room.saturating_sub(ty.len() + 8),
                |(name, _)| name.len() + 2,
                |row| {
                    let names: Vec<_> = row.iter().map(|(name, _)| name.clone()).collect();
                    format!("let {}: {ty};", tuple(&names))
                },
            )
        });
        let by_type: Vec<String> = by_type.collect();
        let uniform = declared.iter().all(|(_, ty)| *ty == declared[0].1);
        let several = as_they_come.len() > 1 && by_type.len() <= as_they_come.len();
        let shorter = if uniform || several { by_type } else { as_they_come };
        shorter.iter().for_each(|line| self.rust(line));
    }

    /// The names and types of registers; an array once.
    fn declared(&self, regs: &[usize]) -> Vec<(String, String)> {
        let mut arrays = BTreeSet::new();
        let of = |reg: &usize| {
            let reg = &self.body.regs[*reg];
            let Some((array, _)) = reg.element else { return Some((reg.name.clone(), reg.ty.clone())) };
            let whole = &self.body.arrays[array];
            arrays.insert(array).then(|| (whole.name.clone(), format!("[{}; {}]", reg.ty, whole.regs.len())))
        };
        regs.iter().filter_map(of).collect()
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
            Piece::Text(text) => text.clone(),
            Piece::Int(value) => number(*value),
            Piece::Count(count) => match (count.terms.as_slice(), count.plus) {
                ([(_, 1)], 0) => self.affine(count),
                _ => format!("({})", self.affine(count)),
            },
            Piece::Element(array, at) => format!("{}[{}]", self.body.arrays[*array].name, self.affine(at)),
            Piece::Label(label) => self.body.labels[*label].clone(),
            Piece::Reg(reg) => match self.body.regs[*reg].element {
                Some((array, at)) => format!("{}[{at}]", self.body.arrays[array].name),
                None => self.body.regs[*reg].name.clone(),
            },
            Piece::Range(array, from, length) => {
                let of = &self.body.arrays[*array];
                let end = Affine { plus: from.plus + *length as i64, ..from.clone() };
                match *length == of.regs.len() {
                    true => format!("{}[..]", of.name),
                    false => format!("{}[{}..{}]", of.name, self.affine(from), self.affine(&end)),
                }
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
            (true, Expr::Leaf(_) | Expr::View(..)) => format!("!{}", self.expr(condition, 0)),
            (true, _) => format!("!({})", self.expr(condition, 0)),
        }
    }

    /// An expression; in parentheses where it stands inside of another one.
    fn expr(&self, expr: &Expr, level: usize) -> String {
        let text = match expr {
            Expr::Leaf(piece) => return self.piece(piece),
            Expr::Unary(op, a) => return format!("{op}{}", self.expr(a, level + 1)),
            Expr::View(view, a) => return format!("{view}({})", self.expr(a, 0)),
            Expr::Cast(a, ty) => format!("{} as {ty}", self.expr(a, level + 1)),
            Expr::Binary("at", a, b) => return format!("{}.at({})", self.expr(a, level + 1), self.expr(b, 0)),
            Expr::Binary("wide", a, b) => format!("wide({}) * {}", self.expr(a, 0), self.expr(b, level + 1)),
            Expr::Binary(op, a, b) => format!("{} {op} {}", self.expr(a, level + 1), self.expr(b, level + 1)),
        };
        if level == 0 { text } else { format!("({text})") }
    }
}

/// Returns true if a loop inside of this one leaves or continues it, so that it needs its name.
fn named_inside(nodes: &[Node], label: usize, inside: bool) -> bool {
    nodes.iter().any(|node| match node {
        Node::Jump(_, Jump::Break(to) | Jump::Continue(to)) => inside && *to == label,
        Node::Loop(_, body) => named_inside(body, label, true),
        other => other.blocks().into_iter().any(|block| named_inside(block, label, inside)),
    })
}

/// Width of a name and its type in a `let`.
pub(super) fn declared_width(name: &str, ty: &str) -> usize {
    name.len() + ty.len() + 4
}

/// Declarations in lines that have this room, as many in each as it takes.
fn lines<T>(all: &[T], room: usize, width: impl Fn(&T) -> usize, line: impl Fn(&[T]) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut from, mut used) = (0, 0);
    for (at, one) in all.iter().enumerate() {
        if at > from && used + width(one) > room {
            lines.push(line(&all[from..at]));
            (from, used) = (at, 0);
        }
        used += width(one);
    }
    lines.extend((from < all.len()).then(|| line(&all[from..])));
    lines
}

/// `a`, or `(a, b)`.
fn tuple(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        names => format!("({})", names.join(", ")),
    }
}

/// A number as a person writes it.
fn number(value: i64) -> String {
    if value >= 1 << 20 { format!("{value:#x}") } else { value.to_string() }
}

/// Returns true if statements name a variable of a `for`.
fn names_variable(nodes: &[Node], variable: usize) -> bool {
    nodes.iter().any(|node| {
        let mut found = false;
        node.pieces(&mut |piece| {
            if let Piece::Count(at) | Piece::Element(_, at) | Piece::Range(_, at, _) = piece {
                found |= at.terms.iter().any(|(named, _)| *named == variable);
            }
        });
        found || node.blocks().into_iter().any(|block| names_variable(block, variable))
    })
}
