//! Names: where one is declared, and everything that means the same. The scopes are those of `ptx-core`'s lowering, read from the tree alone, so that
//! they exist in a text with errors.

use crate::document::{Document, Part};
use crate::place::{self, Role, Spot, operand, path, role, written};
use ptx_core::hash::Map;
use ptx_core::isa::{Access, OperandKind, Row};
use ptx_core::syntax::{Declarator, ExprKind, Inst, StmtId, StmtKind, Tree, Var};
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

/// A declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The name where it is declared: `%r` of `%r<5>`.
    pub(crate) name: String,
    /// True for `%r<5>`, whose names are `%r0` to `%r4`.
    pub(crate) ranged: bool,
    /// The number of the name in question, if it is one of a range.
    pub(crate) number: Option<u64>,
    /// The function that has it, with the token of its declaration; `None` for names of the module.
    pub(crate) local: Option<(usize, TokenId)>,
}

/// A place that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) range: Range<usize>,
    pub(crate) access: Access,
    pub(crate) declares: bool,
}

/// The parts of `%r12`: `%r` and 12.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[prefix.len()..];
    if number.is_empty() || number.len() > 1 && number.starts_with('0') {
        return None;
    }
    Some((prefix, number.parse().ok()?))
}

/// Every declaration of a scope's own statements.
pub(crate) fn declarations<'t>(tree: &'t Tree, stmts: &'t [StmtId], visit: &mut dyn FnMut(&'t Var, &'t Declarator)) {
    for id in stmts {
        if let StmtKind::Var(var) = &tree.stmt(*id).kind {
            tree.names(var).iter().for_each(|name| visit(var, name));
        }
    }
}

/// The declarations of a function's parameters.
pub(crate) fn parameters<'t>(tree: &'t Tree, id: StmtId, visit: &mut dyn FnMut(&'t Var, &'t Declarator)) {
    if let StmtKind::Func(func) = &tree.stmt(id).kind {
        for var in func.returns.iter().chain(&func.params) {
            tree.names(var).iter().for_each(|name| visit(var, name));
        }
    }
}

/// The token that declares a name in the scope of a statement, and whether that is a range.
fn declared(tree: &Tree, scope: StmtId, name: &str) -> Option<(TokenId, bool)> {
    declared_among(tree, tree.stmt(scope).children(), Some(scope), name)
}

/// The same for statements, and for the parameters of a function.
fn declared_among(tree: &Tree, statements: &[StmtId], function: Option<StmtId>, name: &str) -> Option<(TokenId, bool)> {
    let source = &tree.source;
    let (mut exact, mut range) = (None, None);
    let place = numbered(name);
    let mut visit = |_: &Var, declarator: &Declarator| {
        let text = source.text(declarator.name);
        match declarator.count {
            None if text == name => exact = exact.or(Some((declarator.name, false))),
            Some(_) if text == name => range = range.or(Some((declarator.name, true))),
            Some(count) => {
                let within = |number: u64| matches!(tree.expr(count).kind, ExprKind::Int(most) if number < most);
                if place.is_some_and(|(prefix, number)| prefix == text && within(number)) {
                    range = range.or(Some((declarator.name, true)));
                }
            }
            None => {}
        }
    };
    declarations(tree, statements, &mut visit);
    function.into_iter().for_each(|function| parameters(tree, function, &mut visit));
    let label = || {
        statements.iter().find_map(|id| match &tree.stmt(*id).kind {
            StmtKind::Label(tokens) if source.text(tokens.start) == name => Some((tokens.start, false)),
            _ => None,
        })
    };
    exact.or(range).or_else(label)
}

/// The declaration of one name in each scope, as far as it was looked for.
type Known = Map<StmtId, Option<(TokenId, bool)>>;

/// The tokens of a tree that may stand for a name, with the declaration of each: `None` is the module's.
struct Resolver<'t> {
    tree: &'t Tree,
    name: &'t str,
    known: Known,
}

impl Resolver<'_> {
    fn resolve(&mut self, path: &[StmtId]) -> Option<(TokenId, bool)> {
        self.in_scopes(path).or_else(|| {
            // The statements of a body have no scope around them.
            let (tree, name) = (self.tree, self.name);
            if tree.is_body { declared_among(tree, &tree.items, None, name) } else { None }
        })
    }

    fn in_scopes(&mut self, path: &[StmtId]) -> Option<(TokenId, bool)> {
        path.iter().rev().find_map(|scope| {
            let scoped = matches!(self.tree.stmt(*scope).kind, StmtKind::Func(_) | StmtKind::Block);
            let (tree, name) = (self.tree, self.name);
            scoped.then(|| *self.known.entry(*scope).or_insert_with(|| declared(tree, *scope, name))).flatten()
        })
    }
}

/// Returns true if the token can stand for a name.
fn names_something(tree: &Tree, path: &[StmtId], token: TokenId) -> bool {
    let Some(stmt) = path.last().map(|id| tree.stmt(*id)) else { return false };
    match role(tree, stmt, token) {
        Role::Operand | Role::Declaration => true,
        Role::Other => matches!(stmt.kind, StmtKind::Error | StmtKind::Func(_)),
        _ => false,
    }
}

impl Document {
    /// The meaning of a name where it stands. Labels and names of debug sections have none.
    pub(crate) fn binding(&self, spot: &Spot<'_>) -> Option<Binding> {
        let (tree, token) = (spot.part.tree, spot.name().start);
        if tree.source.kind(token) != Kind::Word || !names_something(tree, &spot.path, token) {
            return None;
        }
        let name = tree.source.text(token);
        let mut resolver = Resolver { tree, name, known: Map::default() };
        if let Some((site, ranged)) = resolver.resolve(&spot.path) {
            let piece = self.pieces().iter().position(|piece| piece.range.start == spot.part.base)?;
            let declared = tree.source.text(site).to_owned();
            let number = if ranged && site != token { numbered(name).map(|(_, number)| number) } else { None };
            return Some(Binding { name: declared, ranged, number, local: Some((piece, site)) });
        }
        let binding = Binding { name: name.to_owned(), ranged: false, number: None, local: None };
        self.declaration(&binding).map(|_| binding)
    }

    /// The place of a binding's declaration; of a function, the one with a body.
    pub(crate) fn declaration(&self, binding: &Binding) -> Option<Range<usize>> {
        if let Some((piece, token)) = binding.local {
            return Some(self.part(piece)?.token(token));
        }
        let mut found = None;
        for part in self.parts_with(&binding.name) {
            for id in &part.tree.items {
                let (token, defined) = match &part.tree.stmt(*id).kind {
                    StmtKind::Func(func) => {
                        (func.name.filter(|t| part.tree.source.text(*t) == binding.name), func.has_body)
                    }
                    StmtKind::Var(var) => {
                        let own = part.tree.names(var).iter().map(|name| name.name);
                        (own.into_iter().find(|t| part.tree.source.text(*t) == binding.name), var.linkage.is_none())
                    }
                    _ => (None, false),
                };
                match token {
                    Some(token) if defined => return Some(part.token(token)),
                    Some(token) => found = found.or(Some(part.token(token))),
                    None => {}
                }
            }
        }
        found
    }

    /// The parts whose text contains a name.
    fn parts_with(&self, name: &str) -> impl Iterator<Item = Part<'_>> {
        let text = self.text().as_str();
        let mut pieces: Vec<usize> = Vec::new();
        for (at, _) in text.match_indices(name) {
            let index = self.pieces().partition_point(|piece| piece.range.end <= at);
            if pieces.last() != Some(&index) {
                pieces.push(index);
            }
        }
        pieces.into_iter().filter_map(|index| self.part(index))
    }

    /// Everything that means the same, in order.
    pub(crate) fn uses(&self, binding: &Binding) -> Vec<Use> {
        let mut found = Vec::new();
        match binding.local {
            Some((piece, site)) => {
                if let Some(part) = self.part(piece) {
                    uses_in(&part, binding, Some(site), &mut found);
                }
            }
            None => self.parts_with(&binding.name).for_each(|part| uses_in(&part, binding, None, &mut found)),
        }
        found
    }
}

fn uses_in(part: &Part<'_>, binding: &Binding, site: Option<TokenId>, out: &mut Vec<Use>) {
    let (tree, source) = (part.tree, &part.tree.source);
    let named = |text: &str| match (binding.ranged, binding.number) {
        (false, _) => text == binding.name,
        (true, Some(number)) => numbered(text).is_some_and(|(prefix, n)| prefix == binding.name && n == number),
        (true, None) => numbered(text).is_some_and(|(prefix, _)| prefix == binding.name),
    };
    let mut rows = Rows::default();
    let mut known: Map<&str, Known> = Map::default();
    for token in 0..source.tokens.len() as TokenId {
        if source.kind(token) != Kind::Word {
            continue;
        }
        let text = source.text(token);
        let is_site = site == Some(token);
        if !is_site && !named(text) {
            continue;
        }
        let path = path(tree, token);
        if !names_something(tree, &path, token) {
            continue;
        }
        let mut resolver = Resolver { tree, name: text, known: known.remove(text).unwrap_or_default() };
        let meant = resolver.resolve(&path).map(|(token, _)| token);
        known.insert(text, resolver.known);
        if meant == site {
            let declares = path.last().is_some_and(|id| role(tree, tree.stmt(*id), token) == Role::Declaration);
            let access = rows.access(tree, &path, token).unwrap_or(Access::Read);
            out.push(Use { range: part.token(token), access, declares });
        }
    }
}

/// The rows of instructions by their mnemonics: a module writes `add.f32` thousands of times.
#[derive(Default)]
struct Rows<'t> {
    known: Map<&'t [u8], Option<&'static Row>>,
}

impl<'t> Rows<'t> {
    fn find(&mut self, tree: &'t Tree, inst: &Inst) -> Option<&'static Row> {
        let source = &tree.source;
        let last = inst.modifiers.clone().last().unwrap_or(inst.opcode);
        let text = source.place(inst.opcode).lo as usize..source.place(last).hi as usize;
        let found = || Some(place::forms(tree, inst).ok()?.first()?.row);
        *self.known.entry(source.bytes.get(text).unwrap_or_default()).or_insert_with(found)
    }

    /// Use of a name by its instruction.
    fn access(&mut self, tree: &'t Tree, path: &[StmtId], token: TokenId) -> Option<Access> {
        let StmtKind::Inst(inst) = &tree.stmt(*path.last()?).kind else { return None };
        let (at, _) = operand(tree, inst, token)?;
        let specs = written(&self.find(tree, inst)?.operands, inst.operands.len());
        let spec = specs.get(at)?;
        Some(if matches!(spec.kind, OperandKind::Memory { .. }) { Access::Read } else { spec.access })
    }
}

impl Document {
    /// Returns true if a name means something where a token stands.
    pub(crate) fn is_taken(&self, spot: &Spot<'_>, name: &str) -> bool {
        let mut resolver = Resolver { tree: spot.part.tree, name, known: Map::default() };
        let module = Binding { name: name.to_owned(), ranged: false, number: None, local: None };
        resolver.resolve(&spot.path).is_some() || self.declaration(&module).is_some()
    }
}
