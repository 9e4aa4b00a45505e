//! From the syntax tree to a [`Body`]: scopes are opened up, every register and label gets a number and a name of Rust's.
//!
//! A scope that declares more than registers (the `.param` of a call) stays text.

use super::body::{Body, Inst, Node, Piece, Reg};
use super::labels;
use super::taken::Taken;
use ptx_core::ir::annotation;
use ptx_core::isa;
use ptx_core::lower::constant::integer;
use ptx_core::syntax::{self, ExprId, ExprKind, StmtId, StmtKind, Tokens, Tree, Var};
use ptx_core::token::{Kind, TokenId};
use std::collections::HashMap;

/// The body of an entry. `None` where it holds what the kernel language cannot name.
pub(super) fn read(tree: &Tree, children: &[StmtId], params: &HashMap<String, String>) -> Option<Body> {
    let mut reader = Reader {
        tree,
        params,
        body: Body::default(),
        scopes: vec![HashMap::new()],
        taken: params.values().cloned().collect(),
        made: HashMap::new(),
        scope_ids: 1,
    };
    reader.labels(children);
    reader.statements(children, true)?;
    labels::at_end(&mut reader.body);
    if falls_off(reader.body.nodes.last()) {
        reader.body.nodes.push(Node::Call("unreachable!".to_owned(), Vec::new()));
    }
    Some(Body { taken: reader.taken, ..reader.body })
}

/// Returns true if no `ret` stands behind the last statement: it is a call that does not return.
fn falls_off(last: Option<&Node>) -> bool {
    !matches!(last, Some(Node::Inst(inst)) if inst.ends())
}

/// Meaning of a name in a scope.
#[derive(Clone)]
enum Named {
    /// A register, or a range of this many: the scope's number, the type.
    Reg(u32, Option<u64>, String),
    Label(usize),
    /// A variable in memory, by its own name.
    Memory,
}

struct Reader<'t> {
    tree: &'t Tree,
    params: &'t HashMap<String, String>,
    body: Body,
    scopes: Vec<HashMap<String, Named>>,
    taken: Taken,
    /// The registers that have a number, by scope and name.
    made: HashMap<(u32, String), usize>,
    scope_ids: u32,
}

impl Reader<'_> {
    fn text(&self, token: TokenId) -> &str {
        self.tree.source.text(token)
    }

    /// A free name of Rust's like this one.
    fn fresh(&mut self, name: &str) -> String {
        let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let stem = stem.trim_matches('_').to_owned();
        let special = isa::table().specials.keys().any(|s| s[1..].split('.').next() == Some(&stem));
        let starts = stem.starts_with(|c: char| c.is_ascii_alphabetic());
        let reserved = matches!(stem.as_str(), "wide" | "signed" | "unsigned" | "untyped")
            || super::KEYWORDS.contains(&stem.as_str())
            || isa::Type::find(&stem).is_some();
        let stem = if starts && !special && !reserved { stem } else { format!("v_{stem}") };
        self.taken.free(&stem)
    }

    fn labels(&mut self, ids: &[StmtId]) {
        for &id in ids {
            if let StmtKind::Label(tokens) = &self.tree.stmt(id).kind {
                let name = self.tree.compact(tokens);
                let short = name.trim_start_matches("$L__").to_ascii_lowercase();
                let rust = self.fresh(&short);
                self.body.labels.push(rust);
                let label = Named::Label(self.body.labels.len() - 1);
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(name, label);
                }
            }
        }
    }

    fn statements(&mut self, ids: &[StmtId], outermost: bool) -> Option<()> {
        for (at, &id) in ids.iter().enumerate() {
            let stmt = self.tree.stmt(id);
            match &stmt.kind {
                StmtKind::Inst(inst) => self.instruction(inst)?,
                StmtKind::Label(_) if ids.get(at + 1).is_some_and(|next| self.is_labeled(*next)) => {}
                StmtKind::Prototype(_) => self.labeled(ids[at.checked_sub(1)?], id)?,
                StmtKind::Directive(_) if self.is_labeled(id) => self.labeled(ids[at.checked_sub(1)?], id)?,
                StmtKind::Label(tokens) => {
                    let name = self.tree.compact(tokens);
                    if let Some(Named::Label(label)) = self.find(&name) {
                        self.body.nodes.push(Node::Label(label));
                    }
                }
                StmtKind::Var(var) if self.text(var.space) == ".reg" => self.registers(var)?,
                StmtKind::Var(var) if outermost => {
                    let text = self.plain(&stmt.head);
                    self.memory(var);
                    self.body.declarations.push(text);
                }
                StmtKind::Block if self.only_registers(stmt.children()) => {
                    self.scopes.push(HashMap::new());
                    self.scope_ids += 1;
                    self.labels(stmt.children());
                    self.statements(stmt.children(), false)?;
                    self.scopes.pop();
                }
                StmtKind::Block => {
                    let mut pieces = Vec::new();
                    self.scope(id, &mut pieces)?;
                    self.body.nodes.push(Node::Text(pieces));
                }
                StmtKind::Directive(directive) => match self.text(directive.name) {
                    ".loc" => {}
                    // An annotation names registers, which have other names in Rust.
                    ".pragma" if self.is_annotation(directive) => return None,
                    ".pragma" => {
                        let text = self.plain(&stmt.head);
                        self.body.nodes.push(Node::Text(vec![Piece::Text(text)]));
                    }
                    _ => return None,
                },
                StmtKind::Empty => {}
                _ => return None,
            }
        }
        Some(())
    }

    fn is_annotation(&self, directive: &syntax::Directive) -> bool {
        let texts = self.tree.list(&directive.args).iter().map(|id| self.text(self.tree.expr(*id).tokens.start));
        texts.map(|text| text.trim_matches('"')).any(|text| annotation::split(text).is_some())
    }

    fn instruction(&mut self, inst: &syntax::Inst) -> Option<()> {
        let guard = match inst.guard {
            Some(guard) => Some((self.register(self.tree.source.text(guard.register))?, guard.negated)),
            None => None,
        };
        let name = std::iter::once(inst.opcode).chain(inst.modifiers.clone());
        let name: String = name.map(|t| self.tree.source.text(t)).collect();
        let operands = self.tree.list(&inst.operands).to_vec();
        let operands = operands.into_iter().map(|id| self.operand(id)).collect::<Option<_>>()?;
        self.body.nodes.push(Node::Inst(Inst { guard, name, operands }));
        Some(())
    }

    /// The names of variables in memory.
    fn memory(&mut self, var: &Var) {
        for declarator in self.tree.names(var) {
            let name = self.text(declarator.name).to_owned();
            self.taken.insert(name.clone());
            self.scopes[0].insert(name, Named::Memory);
        }
    }

    /// Returns true if a statement is nothing without the label in front of it.
    fn is_labeled(&self, id: StmtId) -> bool {
        match &self.tree.stmt(id).kind {
            StmtKind::Prototype(_) => true,
            StmtKind::Directive(directive) => matches!(self.text(directive.name), ".branchtargets" | ".calltargets"),
            _ => false,
        }
    }

    /// `name: .callprototype …;`, `name: .branchtargets a, b;`
    fn labeled(&mut self, label: StmtId, id: StmtId) -> Option<()> {
        let StmtKind::Label(name) = &self.tree.stmt(label).kind else { return None };
        let Some(Named::Label(label)) = self.find(&self.tree.compact(name)) else { return None };
        let mut pieces = vec![Piece::Label(label), Piece::Text(": ".to_owned())];
        self.tokens(&self.tree.stmt(id).head, None, &mut pieces)?;
        self.body.nodes.push(Node::Text(pieces));
        Some(())
    }

    /// Returns true if a scope holds instructions and registers only.
    fn only_registers(&self, ids: &[StmtId]) -> bool {
        ids.iter().all(|id| {
            let stmt = self.tree.stmt(*id);
            match &stmt.kind {
                StmtKind::Var(var) => self.text(var.space) == ".reg",
                StmtKind::Inst(inst) => self.text(inst.opcode) != "call",
                StmtKind::Block => self.only_registers(stmt.children()),
                StmtKind::Label(_) | StmtKind::Empty => true,
                StmtKind::Directive(directive) => self.text(directive.name) == ".loc",
                _ => false,
            }
        })
    }

    fn registers(&mut self, var: &Var) -> Option<()> {
        let ty = self.text(var.ty?).trim_start_matches('.').to_owned();
        if !self.tree.attributes(var).is_empty() {
            return None;
        }
        let scope_id = self.scope_ids;
        for declarator in self.tree.names(var) {
            let count = match declarator.count {
                Some(count) => Some(integer(self.tree, count)?.cast_unsigned()),
                None => None,
            };
            let name = self.text(declarator.name).to_owned();
            self.scopes.last_mut()?.insert(name, Named::Reg(scope_id, count, ty.clone()));
        }
        Some(())
    }

    fn find(&self, name: &str) -> Option<Named> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse::<u64>().ok();
        self.scopes.iter().rev().find_map(|scope| match (scope.get(name), scope.get(stem)) {
            (Some(Named::Reg(_, Some(_), _)) | None, Some(Named::Reg(id, Some(count), ty)))
                if number.is_some_and(|n| n < *count) =>
            {
                Some(Named::Reg(*id, None, ty.clone()))
            }
            (Some(named), _) => Some(named.clone()),
            _ => None,
        })
    }

    /// The number of a register.
    fn register(&mut self, name: &str) -> Option<usize> {
        let Some(Named::Reg(scope, _, declared)) = self.find(name) else { return None };
        if let Some(reg) = self.made.get(&(scope, name.to_owned())) {
            return Some(*reg);
        }
        let rust = self.fresh(name);
        let ty = ptx_language::language_type(&declared)?;
        self.body.regs.push(Reg { name: rust, declared, ty, param: false, element: None, owner: None });
        self.made.insert((scope, name.to_owned()), self.body.regs.len() - 1);
        Some(self.body.regs.len() - 1)
    }

    fn operand(&mut self, id: ExprId) -> Option<Vec<Piece>> {
        if let (Some(value), true) = (integer(self.tree, id), self.is_literal(id)) {
            return Some(vec![Piece::Int(value)]);
        }
        let tokens = self.tree.expr(id).tokens.clone();
        let mut pieces = Vec::new();
        for token in tokens {
            self.token(token, &mut pieces)?;
        }
        Some(pieces)
    }

    fn is_literal(&self, id: ExprId) -> bool {
        match &self.tree.expr(id).kind {
            ExprKind::Int(_) => true,
            ExprKind::Unary(b'-', inner) => matches!(self.tree.expr(*inner).kind, ExprKind::Int(_)),
            _ => false,
        }
    }

    /// One token of an operand.
    fn token(&mut self, token: TokenId, pieces: &mut Vec<Piece>) -> Option<()> {
        let text = self.text(token).to_owned();
        match self.tree.source.kind(token) {
            Kind::Word => pieces.push(self.word(token, &text)?),
            Kind::Punct(b',') => pieces.push(Piece::Text(", ".to_owned())),
            Kind::Int => pieces.push(match ptx_core::parse::integer_value(text.as_bytes()).cast_signed() {
                value if value >= 0 => Piece::Int(value),
                _ => Piece::Text(text),
            }),
            _ => pieces.push(Piece::Text(text)),
        }
        Some(())
    }

    fn word(&mut self, token: TokenId, text: &str) -> Option<Piece> {
        let dotted = format!("{text}{}", self.text(token + 1));
        match self.find(text) {
            Some(Named::Reg(..)) => self.register(text).map(Piece::Reg),
            Some(Named::Label(label)) => Some(Piece::Label(label)),
            // A label with a dot in it.
            None if self.params.contains_key(text) => self.params.get(text).cloned().map(Piece::Text),
            None if matches!(self.find(&dotted), Some(Named::Label(_))) => None,
            _ => Some(Piece::Text(text.to_owned())),
        }
    }

    /// A declaration or a directive as text on one line.
    fn plain(&self, tokens: &Tokens) -> String {
        let mut out = String::new();
        for token in tokens.clone() {
            if token > tokens.start && !self.tree.source.trivia(token).is_empty() {
                out.push(' ');
            }
            out.push_str(self.text(token));
        }
        out
    }

    /// A scope that stays text, with the registers of the scopes around it.
    fn scope(&mut self, id: StmtId, pieces: &mut Vec<Piece>) -> Option<()> {
        let stmt = self.tree.stmt(id);
        if let StmtKind::Directive(directive) = &stmt.kind
            && self.text(directive.name) == ".loc"
        {
            return Some(());
        }
        if let StmtKind::Var(var) = &stmt.kind {
            for declarator in self.tree.names(var) {
                if declarator.count.is_some() {
                    return None;
                }
                let name = self.text(declarator.name).to_owned();
                self.scopes.last_mut()?.insert(name, Named::Memory);
            }
        }
        if matches!(stmt.kind, StmtKind::Error) {
            return None;
        }
        let opcode = if let StmtKind::Inst(inst) = &stmt.kind { Some(inst.opcode) } else { None };
        self.tokens(&stmt.head, opcode, pieces)?;
        let label = matches!(stmt.kind, StmtKind::Label(_));
        pieces.push(Piece::Text(if label { " " } else { "\n" }.to_owned()));
        self.scopes.push(HashMap::new());
        self.labels(stmt.children());
        for child in stmt.children() {
            self.scope(*child, pieces)?;
        }
        self.scopes.pop();
        for token in stmt.tail() {
            pieces.push(Piece::Text(format!("{}\n", self.text(token))));
        }
        Some(())
    }

    /// Tokens with one blank where there were any, and names of Rust's.
    fn tokens(&mut self, tokens: &Tokens, opcode: Option<TokenId>, pieces: &mut Vec<Piece>) -> Option<()> {
        for token in tokens.clone() {
            if token != tokens.start && !self.tree.source.trivia(token).is_empty() {
                pieces.push(Piece::Text(" ".to_owned()));
            }
            let text = self.text(token).to_owned();
            let name = self.tree.source.kind(token) == Kind::Word && opcode != Some(token);
            pieces.push(if name { self.word(token, &text)? } else { Piece::Text(text) });
        }
        Some(())
    }
}
