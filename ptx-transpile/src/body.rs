//! A function body as the passes see it: statements in which every register and label is a number.

use super::affine::Affine;
use super::taken::Taken;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A piece of PTX text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// As it is.
    Text(String),
    /// A register.
    Reg(usize),
    /// A label.
    Label(usize),
    /// All or a part of an array, as a list: the first element and how many.
    Range(usize, Affine, usize),
    /// A number.
    Int(i64),
    /// A number that counts with a `for`.
    Count(Affine),
    /// An element of an array whose place counts with a `for`.
    Element(usize, Affine),
}

/// An instruction: `@!p name operand, operand;`
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inst {
    pub(super) guard: Option<(usize, bool)>,
    pub(super) name: String,
    pub(super) operands: Vec<Vec<Piece>>,
}

impl Inst {
    /// Returns true if nothing runs behind it.
    pub(super) fn ends(&self) -> bool {
        self.guard.is_none() && ptx_language::ends(&self.name)
    }
}

/// A value of the kernel language.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// A register, a literal, a special register, a variable of a `for`.
    Leaf(Piece),
    /// `-a`, `!a`
    Unary(&'static str, Box<Expr>),
    /// `a + b`; `wide(a) * b` where the operator is `wide`, `a.at(b)` where it is `at`.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a as T`
    Cast(Box<Expr>, String),
    /// `signed(a)`: the same bits under another type, no instruction.
    View(&'static str, Box<Expr>),
}

/// Target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// Out of the block or loop of this label.
    Break(usize),
    /// To the start of this loop.
    Continue(usize),
    /// Out of the function.
    Return,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// An instruction in `ptx!`.
    Inst(Inst),
    /// A label in `ptx!`.
    Label(usize),
    /// Other text in `ptx!`: a scope, a pragma.
    Text(Vec<Piece>),
    /// `d = value`, a register or an element of an array; the flag is true if it declares it.
    Assign(Piece, Expr, bool),
    /// `let` of registers without a value.
    Declare(Vec<usize>),
    /// `if c { break }` and the like; the flag negates.
    Jump(Option<(Expr, bool)>, Jump),
    /// `if c { } else { }`; the flag negates.
    If(Expr, bool, Vec<Node>, Vec<Node>),
    /// `'l: loop { }`
    Loop(usize, Vec<Node>),
    /// `'l: { }`
    Block(usize, Vec<Node>),
    /// `f(a, b)`: a helper.
    Call(String, Vec<Piece>),
    /// `for i in 0..4 { }`
    For(Box<For>),
}

/// `for i in 0..2 { }`, or `for (a, b) in [(1, 2), (3, 4)] { }`. Its variables are numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct For {
    pub(super) turns: usize,
    /// The variable that counts the turns.
    pub(super) variable: usize,
    /// Other variables, and what they are in each turn.
    pub(super) table: Vec<(usize, Vec<i64>)>,
    /// The registers that are others in each turn.
    pub(super) own: BTreeSet<usize>,
    pub(super) body: Vec<Node>,
}

/// A register.
#[derive(Clone, Debug)]
pub(super) struct Reg {
    /// Its name in Rust.
    pub(super) name: String,
    /// Its type as declared in the PTX, without the dot.
    pub(super) declared: String,
    /// Its type in the kernel language.
    pub(super) ty: String,
    /// True if it is a parameter's value, which nothing declares.
    pub(super) param: bool,
    /// The array it is an element of, and which.
    pub(super) element: Option<(usize, usize)>,
    /// The variable of the innermost `for` in which each turn has another one.
    pub(super) owner: Option<usize>,
}

/// An array of registers.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) regs: Vec<usize>,
}

/// A body.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    pub(super) regs: Vec<Reg>,
    pub(super) arrays: Vec<Array>,
    pub(super) labels: Vec<String>,
    /// Variables in memory, in `ptx!` at the top.
    pub(super) declarations: Vec<String>,
    pub(super) nodes: Vec<Node>,
    /// The type that the operator gives of which a register is the value.
    pub(super) results: HashMap<usize, String>,
    /// Helper functions that the passes made: their text by name.
    pub(super) helpers: BTreeMap<String, String>,
    /// Numbers that the passes named: their value by name.
    pub(super) constants: BTreeMap<String, String>,
    /// True if the parameters' values are named, so that no `raw` is needed.
    pub(super) prologue: bool,
    /// The names that something has.
    pub(super) taken: Taken,
    /// Number of variables of the `for`s.
    pub(super) variables: usize,
}

impl Body {
    /// Takes a name like this one.
    pub(super) fn free_name(&mut self, stem: &str) -> String {
        self.taken.free(stem)
    }

    /// The registers that a piece names. Where a `for` counts, the first one of the array stands for all.
    pub(super) fn registers(&self, piece: &Piece, visit: &mut dyn FnMut(usize)) {
        match piece {
            Piece::Reg(reg) => visit(*reg),
            Piece::Range(array, at, length) if at.terms.is_empty() => {
                let from = usize::try_from(at.plus).unwrap_or_default();
                self.arrays[*array].regs.iter().skip(from).take(*length).for_each(|reg| visit(*reg));
            }
            Piece::Range(array, ..) | Piece::Element(array, _) => {
                self.arrays[*array].regs.iter().take(1).for_each(|reg| visit(*reg))
            }
            Piece::Text(_) | Piece::Label(_) | Piece::Int(_) | Piece::Count(_) => {}
        }
    }
}

impl Node {
    /// The statements inside of it.
    pub(super) fn blocks(&self) -> Vec<&Vec<Node>> {
        match self {
            Node::If(_, _, a, b) => vec![a, b],
            Node::Loop(_, body) | Node::Block(_, body) => vec![body],
            Node::For(of) => vec![&of.body],
            _ => Vec::new(),
        }
    }

    /// The statements inside of it, to change.
    pub(super) fn blocks_mut(&mut self) -> Vec<&mut Vec<Node>> {
        match self {
            Node::If(_, _, a, b) => vec![a, b],
            Node::Loop(_, body) | Node::Block(_, body) => vec![body],
            Node::For(of) => vec![&mut of.body],
            _ => Vec::new(),
        }
    }

    /// Every piece of it itself, without what is inside of it.
    pub(super) fn pieces(&self, visit: &mut dyn FnMut(&Piece)) {
        match self {
            Node::Inst(inst) => {
                if let Some((reg, _)) = inst.guard {
                    visit(&Piece::Reg(reg));
                }
                inst.operands.iter().flatten().for_each(visit);
            }
            Node::Text(pieces) | Node::Call(_, pieces) => pieces.iter().for_each(visit),
            Node::Assign(dest, value, _) => {
                value.pieces(visit);
                visit(dest);
            }
            Node::Declare(regs) => regs.iter().for_each(|reg| visit(&Piece::Reg(*reg))),
            Node::Jump(guard, _) => {
                if let Some((guard, _)) = guard {
                    guard.pieces(visit);
                }
            }
            Node::If(condition, ..) => condition.pieces(visit),
            Node::Label(_) | Node::Loop(..) | Node::Block(..) | Node::For(..) => {}
        }
    }

    /// Every register that it or what is inside of it names, once for each mention.
    pub(super) fn mentions(&self, body: &Body, visit: &mut dyn FnMut(usize)) {
        self.pieces(&mut |piece| body.registers(piece, visit));
        self.blocks().into_iter().flatten().for_each(|node| node.mentions(body, visit));
    }
}

impl Body {
    /// Number of statements that may write each register. Of an instruction, whatever stands first may be written, but for an address.
    pub(super) fn writes(&self) -> HashMap<usize, usize> {
        let mut count = HashMap::new();
        self.nodes.iter().for_each(|node| self.count_writes(node, &mut count));
        count
    }

    fn count_writes(&self, node: &Node, count: &mut HashMap<usize, usize>) {
        let written: &[Piece] = match node {
            Node::Assign(dest, ..) => std::slice::from_ref(dest),
            Node::Inst(inst) => inst.operands.first().filter(|operand| !is_memory(operand)).map_or(&[], Vec::as_slice),
            Node::Text(pieces) => pieces,
            _ => &[],
        };
        let mut write = |reg| *count.entry(reg).or_default() += 1;
        written.iter().for_each(|piece| self.registers(piece, &mut write));
        node.blocks().into_iter().flatten().for_each(|inner| self.count_writes(inner, count));
    }
}

/// A position that may differ between two statements of one shape.
pub(super) enum Slot<'n> {
    /// A register that must stay one.
    Reg(&'n mut usize),
    /// A piece of text.
    Piece(&'n mut Piece),
}

impl Node {
    /// Every register and number of it and of what is inside of it, in order.
    pub(super) fn slots(&mut self, visit: &mut dyn FnMut(Slot<'_>)) {
        let mut pieces = |pieces: &mut Vec<Piece>| pieces.iter_mut().for_each(|piece| visit(Slot::Piece(piece)));
        match self {
            Node::Inst(inst) => {
                if let Some((reg, _)) = &mut inst.guard {
                    visit(Slot::Reg(reg));
                }
                inst.operands.iter_mut().flatten().for_each(|piece| visit(Slot::Piece(piece)));
            }
            Node::Text(text) | Node::Call(_, text) => pieces(text),
            Node::Assign(dest, value, _) => {
                value.slots(visit);
                visit(Slot::Piece(dest));
            }
            Node::Declare(regs) => regs.iter_mut().for_each(|reg| visit(Slot::Reg(reg))),
            Node::Jump(Some((condition, _)), _) | Node::If(condition, ..) => condition.slots(visit),
            Node::Label(_) | Node::Jump(None, _) | Node::Loop(..) | Node::Block(..) | Node::For(..) => {}
        }
        self.blocks_mut().into_iter().flatten().for_each(|node| node.slots(visit));
    }
}

impl Expr {
    fn slots(&mut self, visit: &mut dyn FnMut(Slot<'_>)) {
        match self {
            Expr::Leaf(piece) => visit(Slot::Piece(piece)),
            Expr::Unary(_, a) | Expr::Cast(a, _) | Expr::View(_, a) => a.slots(visit),
            Expr::Binary(_, a, b) => {
                a.slots(visit);
                b.slots(visit);
            }
        }
    }

    pub(super) fn reg(reg: usize) -> Expr {
        Expr::Leaf(Piece::Reg(reg))
    }

    /// Its leaves, from left to right.
    pub(super) fn pieces(&self, visit: &mut dyn FnMut(&Piece)) {
        match self {
            Expr::Leaf(piece) => visit(piece),
            Expr::Unary(_, a) | Expr::Cast(a, _) | Expr::View(_, a) => a.pieces(visit),
            Expr::Binary(_, a, b) => {
                a.pieces(visit);
                b.pieces(visit);
            }
        }
    }

    /// Number of its operators.
    pub(super) fn size(&self) -> usize {
        match self {
            Expr::Leaf(_) => 0,
            Expr::View(_, a) => a.size(),
            Expr::Unary(_, a) | Expr::Cast(a, _) => 1 + a.size(),
            Expr::Binary(_, a, b) => 1 + a.size() + b.size(),
        }
    }
}

/// Returns true if an operand is an address in brackets.
pub(super) fn is_memory(operand: &[Piece]) -> bool {
    matches!(operand.first(), Some(Piece::Text(text)) if text.starts_with('['))
}

/// Returns true if a statement stands in `ptx!`.
pub(super) fn is_ptx(node: &Node) -> bool {
    matches!(node, Node::Inst(_) | Node::Label(_) | Node::Text(_))
}

/// Visits every list of statements, inner ones first.
pub(super) fn each_block(nodes: &mut Vec<Node>, visit: &mut dyn FnMut(&mut Vec<Node>)) {
    for node in nodes.iter_mut() {
        node.blocks_mut().into_iter().for_each(|block| each_block(block, visit));
    }
    visit(nodes);
}
