//! A tree as canonical lines.

use super::names::{Meaning, Names};
use ptx_core::isa::{Class, Type};
use ptx_core::lower::constant::{Constant, Float, integer, value};
use ptx_core::sort::SortSmall;
use ptx_core::syntax::{
    Declarator, Directive, ExprId, ExprKind, ExprList, Func, Inst, Prototype, Stmt, StmtId, StmtKind, Tree, Var,
};
use ptx_core::token::TokenId;

/// One canonical line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its text, names as numbers.
    pub text: String,
    /// The statement it stands for.
    pub stmt: StmtId,
}

/// The statement does not count: it lies in another tree.
impl PartialEq for Line {
    fn eq(&self, other: &Line) -> bool {
        self.text == other.text
    }
}

impl Eq for Line {}

/// The lines of a function, or those of the module around the functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The function's name; none for the module.
    pub name: Option<String>,
    /// In order.
    pub lines: Vec<Line>,
}

/// Directives that say where code comes from, not what it does.
const DEBUG: [&str; 2] = [".loc", ".file"];

/// `only` leaves out all entries but one.
pub(super) fn split_streams(tree: &Tree, debug: bool, only: Option<usize>) -> Vec<Stream> {
    let mut writer = Writer {
        tree,
        debug,
        names: Names::default(),
        streams: vec![Stream::default()],
        insts: 0,
        single: false,
        unsigned: None,
    };
    writer.names.open();
    for &id in &tree.items {
        writer.declare_item(tree.stmt(id));
    }
    // A function and the entry that calls it may stand in either order.
    let is_entry =
        |id: &&StmtId| matches!(&tree.stmt(**id).kind, StmtKind::Func(f) if tree.source.text(f.keyword) == ".entry");
    tree.items.iter().filter(|id| !is_entry(id)).for_each(|id| writer.item(*id));
    let entries = tree.items.iter().filter(is_entry).enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at));
    entries.for_each(|(_, id)| writer.item(*id));
    // A variable that others can see counts even where nothing here uses it.
    for &id in &tree.items {
        if let StmtKind::Var(var) = &tree.stmt(id).kind
            && !writer.is(var.linkage, ".extern")
        {
            let names: Vec<String> = tree.names(var).iter().map(|d| tree.source.text(d.name).to_owned()).collect();
            for name in names {
                let text = writer.names.canonical(&name).unwrap_or_default();
                writer.module_line(text, id);
            }
        }
    }
    writer.streams
}

struct Writer<'t> {
    tree: &'t Tree,
    debug: bool,
    names: Names,
    /// The first is the module's.
    streams: Vec<Stream>,
    /// Number of instructions of the function that are written.
    insts: u32,
    /// True if the floats that are written now are of single precision.
    single: bool,
    /// The width of the unsigned numbers that are written now, if it is below 64 bits.
    unsigned: Option<u32>,
}

impl Writer<'_> {
    fn text(&self, token: TokenId) -> &str {
        self.tree.source.text(token)
    }

    fn is(&self, token: Option<TokenId>, text: &str) -> bool {
        token.is_some_and(|t| self.text(t) == text)
    }

    fn line(&mut self, text: String, stmt: StmtId) {
        if let Some(stream) = self.streams.last_mut() {
            stream.lines.push(Line { text, stmt });
        }
    }

    fn module_line(&mut self, text: String, stmt: StmtId) {
        if let Some(stream) = self.streams.first_mut() {
            stream.lines.push(Line { text, stmt });
        }
    }

    /// Gives the names of the module their meaning before anything uses them.
    fn declare_item(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Var(var) => self.declare(var, Meaning::Symbol),
            StmtKind::Func(func) => {
                let Some(name) = func.name.map(|n| self.text(n).to_owned()) else { return };
                let external = self.is(func.linkage, ".extern");
                let said = self.text(func.keyword).to_owned();
                self.names.declare(&name, None, if external { Meaning::Outside } else { Meaning::Symbol(said) });
            }
            _ => {}
        }
    }

    fn item(&mut self, id: StmtId) {
        let stmt = self.tree.stmt(id);
        match &stmt.kind {
            StmtKind::Func(func) => self.function(id, stmt, func),
            StmtKind::Var(_) | StmtKind::Empty => {}
            StmtKind::Directive(directive) if self.counts(directive) => {
                let text = self.directive(directive);
                self.module_line(text, id);
            }
            StmtKind::Directive(_) => {}
            _ if self.debug => self.module_raw(id),
            StmtKind::Section(_) | StmtKind::Data(_) | StmtKind::Dwarf => {}
            _ => self.module_raw(id),
        }
    }

    /// Tokens as they are, of a statement and its children.
    fn module_raw(&mut self, id: StmtId) {
        let stmt = self.tree.stmt(id);
        let text = self.raw(stmt);
        self.module_line(text, id);
        stmt.children().iter().for_each(|child| self.module_raw(*child));
    }

    fn raw(&self, stmt: &Stmt) -> String {
        let words: Vec<&str> = stmt.head.clone().map(|t| self.text(t)).collect();
        words.join(" ")
    }

    fn counts(&self, directive: &Directive) -> bool {
        self.debug || !DEBUG.contains(&self.text(directive.name))
    }

    fn function(&mut self, id: StmtId, stmt: &Stmt, func: &Func) {
        let name = func.name.map(|n| self.text(n).to_owned());
        if !func.has_body && !self.debug {
            return;
        }
        self.streams.push(Stream { name: name.clone(), lines: Vec::new() });
        self.insts = 0;
        self.names.start_function();
        self.names.open();
        let entry = self.text(func.keyword) == ".entry";
        let linkage = func.linkage.filter(|_| !entry).map_or("", |t| self.tree.source.text(t));
        let mut head = vec![linkage.to_owned()];
        head.push(name.and_then(|n| self.names.canonical(&n)).unwrap_or_default());
        for param in func.returns.iter().chain(&func.params) {
            self.declare(param, Meaning::Variable);
            let said = self.said(param, None);
            head.push(format!("({said})"));
        }
        head.extend(func.variadic.then(|| "...".to_owned()));
        let attributes: Vec<_> = func.attributes.iter().chain(&func.directives).map(|d| self.directive(d)).collect();
        head.extend(sorted(attributes));
        self.line(head.join(" "), id);
        self.body(stmt.children());
        self.names.close();
    }

    fn body(&mut self, ids: &[StmtId]) {
        let mut at = self.insts;
        self.labels(ids, &mut at);
        for &id in ids {
            self.statement(id);
        }
    }

    /// Declares the labels of a scope: they are known before and behind where they stand.
    fn labels(&mut self, ids: &[StmtId], at: &mut u32) {
        for &id in ids {
            let stmt = self.tree.stmt(id);
            match &stmt.kind {
                StmtKind::Label(name) => {
                    let name = self.tree.compact(name);
                    self.names.declare(&name, None, Meaning::Label(*at));
                }
                StmtKind::Block => *at += instructions(self.tree, stmt.children()),
                StmtKind::Inst(_) => *at += 1,
                _ => {}
            }
        }
    }

    fn statement(&mut self, id: StmtId) {
        let stmt = self.tree.stmt(id);
        let text = match &stmt.kind {
            StmtKind::Inst(inst) => {
                self.insts += 1;
                self.instruction(inst)
            }
            StmtKind::Block => {
                self.names.open();
                self.body(stmt.children());
                return self.names.close();
            }
            StmtKind::Var(var) => {
                let register = self.text(var.space) == ".reg";
                return self.declare(var, if register { Meaning::Register } else { Meaning::Variable });
            }
            StmtKind::Directive(directive) if self.counts(directive) => self.directive(directive),
            StmtKind::Prototype(prototype) => self.prototype(prototype),
            StmtKind::Label(_) | StmtKind::Empty | StmtKind::Directive(_) => return,
            _ => self.raw(stmt),
        };
        self.line(text, id);
    }

    fn declare(&mut self, var: &Var, meaning: fn(String) -> Meaning) {
        let external = self.is(var.linkage, ".extern") && self.text(var.space) != ".shared";
        for declarator in self.tree.names(var) {
            let said = self.said(var, Some(declarator));
            let name = self.text(declarator.name).to_owned();
            let count = declarator.count.and_then(|c| integer(self.tree, c)).map(i64::cast_unsigned);
            let meaning = match self.text(var.space) {
                ".reg" => Meaning::Register(said),
                _ if external => Meaning::Outside,
                _ => meaning(said),
            };
            self.names.declare(&name, count, meaning);
        }
    }

    /// The declaration of a name.
    fn said(&mut self, var: &Var, declarator: Option<&Declarator>) -> String {
        let tree = self.tree;
        let declarator = declarator.or_else(|| tree.names(var).first());
        let attributes = sorted(tree.attributes(var).iter().map(|d| self.directive(d)).collect()).join(" ");
        let ty = var.ty.map_or("", |t| tree.source.text(t));
        if self.text(var.space) == ".reg" {
            let bits = Type::find(ty.trim_start_matches('.')).map_or(0, Type::bits);
            return format!("{bits}{attributes}");
        }
        let dims = declarator.map_or(0..0, |d| d.dims.clone());
        let (dims, init) = (self.list(&dims), declarator.and_then(|d| d.init).map(|init| self.expr(init)));
        let linkage = var.linkage.map_or("", |t| tree.source.text(t));
        // Without an initializer a type is a width.
        let bits = Type::find(ty.trim_start_matches('.')).map_or(0, Type::bits);
        let ty = if bits > 0 && init.is_none() { format!(".b{bits}") } else { ty.to_owned() };
        let init = init.map_or_else(String::new, |init| format!(" = {init}"));
        format!("{linkage}{}{attributes}{ty}{dims}{init}", self.text(var.space))
    }

    fn directive(&mut self, directive: &Directive) -> String {
        let args = self.list(&directive.args);
        // `debug` of `.target`.
        let args = if self.debug { args.as_str() } else { args.trim_end_matches(", debug") };
        format!("{} {args}", self.text(directive.name))
    }

    fn prototype(&mut self, prototype: &Prototype) -> String {
        let mut parts = vec![".callprototype".to_owned()];
        parts.extend(prototype.returns.iter().map(|v| self.said(v, None)));
        parts.push("_".to_owned());
        parts.extend(prototype.params.iter().map(|v| self.said(v, None)));
        parts.extend(prototype.variadic.then(|| "...".to_owned()));
        parts.extend(prototype.directives.iter().map(|d| self.directive(d)));
        parts.join(" ")
    }

    fn instruction(&mut self, inst: &Inst) -> String {
        let guard = inst.guard.map(|guard| {
            let name = self.text(guard.register).to_owned();
            let not = if guard.negated { "!" } else { "" };
            format!("@{not}{} ", self.name(&name))
        });
        let name: String =
            std::iter::once(inst.opcode).chain(inst.modifiers.clone()).map(|t| self.tree.source.text(t)).collect();
        // Without a guard there is one target, and every branch to it is uniform.
        let name = if name == "bra.uni" && guard.is_none() { "bra".to_owned() } else { name };
        self.single = name.ends_with(".f32");
        self.unsigned = unsigned_width(&name);
        let operands = self.list(&inst.operands);
        (self.single, self.unsigned) = (false, None);
        format!("{}{name} {operands}", guard.unwrap_or_default())
    }

    fn list(&mut self, list: &ExprList) -> String {
        let tree = self.tree;
        let parts: Vec<String> = tree.list(list).iter().map(|id| self.expr(*id)).collect();
        parts.join(", ")
    }

    /// A name, or a name and a component: `%r1.x`.
    fn name(&mut self, name: &str) -> String {
        if let Some(found) = self.names.canonical(name) {
            return found;
        }
        let split = name.find('.').map(|at| name.split_at(at));
        match split.and_then(|(stem, rest)| Some(format!("{}{rest}", self.names.canonical(stem)?))) {
            Some(found) => found,
            None => name.to_owned(),
        }
    }

    /// A float as its instruction reads it: one of single precision rounds what is written as a decimal.
    fn adopted(&self, value: Float) -> Float {
        match value {
            Float::Double(bits) if self.single => Float::Single((f64::from_bits(bits) as f32).to_bits()),
            other => other,
        }
    }

    /// Recursion is as deep as expressions nest, which the parser bounds.
    fn expr(&mut self, id: ExprId) -> String {
        let tree = self.tree;
        match value(tree, id) {
            Some(Constant::Signed(value)) => {
                let bits = self.unsigned.filter(|_| value < 0);
                return bits.map_or(value, |bits| value & ((1 << bits) - 1)).to_string();
            }
            Some(Constant::Unsigned(value)) => return value.cast_signed().to_string(),
            Some(Constant::Float(value)) => return format!("{:?}", self.adopted(value)),
            None => {}
        }
        let expr = tree.expr(id);
        match &expr.kind {
            ExprKind::Name => self.name(&tree.compact(&expr.tokens)),
            ExprKind::Unary(op, x) => format!("{}{}", char::from(*op), self.expr(*x)),
            ExprKind::Binary(op @ ([b'+', 0] | [b'-', 0]), a, b) => self.sum(op[0], *a, *b),
            ExprKind::Binary(op, a, b) => {
                let op = String::from_utf8_lossy(op).trim_end_matches('\0').to_owned();
                format!("({} {op} {})", self.expr(*a), self.expr(*b))
            }
            ExprKind::Ternary(a, b, c) => format!("({} ? {} : {})", self.expr(*a), self.expr(*b), self.expr(*c)),
            ExprKind::Cast(ty, x) => format!("({}){}", tree.source.text(*ty), self.expr(*x)),
            ExprKind::Group(list) => format!("({})", self.list(list)),
            ExprKind::Braces(list) => format!("{{{}}}", self.list(list)),
            ExprKind::Brackets(list) => format!("[{}]", self.list(list)),
            ExprKind::Pair(a, b) => format!("{}|{}", self.expr(*a), self.expr(*b)),
            ExprKind::Index(a, b) => format!("{}[{}]", self.expr(*a), self.expr(*b)),
            ExprKind::Range(a, b) => format!("{}<{}>", self.expr(*a), self.expr(*b)),
            ExprKind::Select(a, dot) => format!("{}{}", self.expr(*a), self.text(*dot)),
            ExprKind::Apply(token, list) => {
                let front = self.text(*token).to_owned();
                format!("{}({})", self.name(&front), self.list(list))
            }
            ExprKind::Int(_) | ExprKind::Float | ExprKind::Str | ExprKind::Dot | ExprKind::Error => {
                tree.compact(&expr.tokens)
            }
        }
    }

    /// `a+4`, `a-4`, `a+-4`: an address and its offset, which is left out where it is 0.
    fn sum(&mut self, op: u8, a: ExprId, b: ExprId) -> String {
        let left = self.expr(a);
        match integer(self.tree, b) {
            Some(0) => left,
            Some(value) => format!("{left}+{}", if op == b'-' { value.wrapping_neg() } else { value }),
            None => format!("({left} {} {})", char::from(op), self.expr(b)),
        }
    }
}

fn sorted(mut parts: Vec<String>) -> Vec<String> {
    parts.sort_small();
    parts
}

/// The width of the unsigned numbers that `mov` or an operator's instruction takes, below 64: of a literal only these bits count, so
/// that a negative one is the unsigned one with the same bits.
fn unsigned_width(name: &str) -> Option<u32> {
    let unsigned = |ty: &Type| ty.bits() < 64 && matches!(ty.class(), Class::Unsigned | Class::Bits);
    let last = name.rsplit('.').next().and_then(Type::find);
    let moved = last.filter(|ty| ptx_language::move_of(*ty).as_deref() == Some(name));
    let operators = ptx_language::written(name).iter().map(|(_, operand, _)| *operand);
    moved.into_iter().chain(operators).find(unsigned).map(Type::bits)
}

/// Number of instructions in a scope.
fn instructions(tree: &Tree, ids: &[StmtId]) -> u32 {
    ids.iter()
        .map(|id| match &tree.stmt(*id).kind {
            StmtKind::Inst(_) => 1,
            StmtKind::Block => instructions(tree, tree.stmt(*id).children()),
            _ => 0,
        })
        .sum()
}
