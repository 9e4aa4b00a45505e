//! A change of the text of a tree that was parsed from it, as an editor makes it: tokens and statements around it are made again, and the
//! others are moved. The tree that results is the one that the new text has, but for its arenas, where what went away stays.

use crate::lex::relex;
use crate::parse::parse_on;
use crate::syntax::{
    Body, Directive, Expr, ExprId, ExprKind, Func, Prototype, Stmt, StmtId, StmtKind, Tokens, Tree, Var,
};
use crate::token::TokenId;
use std::ops::Range;

/// So many statements in front of a change are parsed again: what they are depends on the tokens behind them.
const BEFORE: usize = 2;

impl Tree {
    /// Replaces bytes of the text by others. Returns false if that may change more than the statements of one pair of braces: then the
    /// tree is of no use any more, and the text must be parsed again. A tree that was edited in other ways is refused, too.
    pub fn retype(&mut self, change: Range<usize>, new: &str) -> bool {
        let gone = self.source.bytes.get(change.clone()).unwrap_or_default();
        // A quote may end a string far in front of it.
        let quotes = gone.iter().chain(new.as_bytes()).any(|byte| *byte == b'"');
        !quotes && self.source.is_plain() && self.retyped(&change, new.as_bytes()).is_some()
    }

    fn retyped(&mut self, change: &Range<usize>, new: &[u8]) -> Option<()> {
        let around = self.braces_around(change);
        let innermost = around.last()?;
        let first = self.stmt(*self.stmt(innermost.0).children().get(innermost.1)?).head.start;
        let (gone, came) = relex(&mut self.source, first, change, new)?;
        let depth = around.iter().rposition(|(stmt, _)| self.stmt(*stmt).tail().start >= gone)?;
        let (parent, from) = around[depth];
        let children = std::mem::take(&mut self.body_of(parent)?.children);
        let start = self.stmt(*children.get(from)?).head.start;
        let mut kept = children.partition_point(|child| self.stmt(*child).head.start < gone);
        Moved { behind: gone, by: i64::from(first) + i64::from(came) - i64::from(gone) }.tree(self);
        let end = self.stmt(parent).tail().start;
        let mut is_known = |tree: &Tree, at: TokenId| {
            let start = |child: &StmtId| tree.stmt(*child).head.start;
            kept += children[kept..].iter().take_while(|child| start(child) < at).count();
            at == end || children.get(kept).is_some_and(|child| start(child) == at)
        };
        let stmts = parse_on(self, (start, end, depth as u32 + 1), &mut is_known)?;
        children[from..kept].iter().for_each(|gone| self.forget(*gone));
        let all = children[..from].iter().chain(&stmts).chain(&children[kept..]);
        self.body_of(parent)?.children = all.copied().collect();
        Some(())
    }

    fn body_of(&mut self, stmt: StmtId) -> Option<&mut Body> {
        self.stmts.get_mut(stmt.0 as usize)?.body.as_deref_mut()
    }

    /// The byte at which a statement begins.
    fn start_of(&self, stmt: StmtId) -> usize {
        self.source.place(self.stmt(stmt).head.start).lo as usize
    }

    /// The statements with braces around a part of the text, outermost first, each with the index of the child at which it is parsed again.
    fn braces_around(&self, part: &Range<usize>) -> Vec<(StmtId, usize)> {
        let before = |stmts: &[StmtId]| stmts.partition_point(|stmt| self.start_of(*stmt) <= part.start).checked_sub(1);
        let (mut found, mut stmts) = (Vec::new(), self.items.as_slice());
        while let Some(inner) = before(stmts).map(|at| stmts[at]).filter(|inner| self.encloses(*inner, part)) {
            stmts = self.stmt(inner).children();
            found.push((inner, before(stmts).unwrap_or(0).saturating_sub(BEFORE)));
        }
        found
    }

    fn encloses(&self, stmt: StmtId, part: &Range<usize>) -> bool {
        let stmt = self.stmt(stmt);
        let is_body = matches!(stmt.kind, StmtKind::Func(_) | StmtKind::Block);
        is_body && !stmt.head.is_empty() && !stmt.tail().is_empty() && {
            let open = self.source.place(stmt.head.end - 1).hi as usize;
            let close = self.source.place(stmt.tail().start).lo as usize;
            open <= part.start && part.end <= close
        }
    }

    /// Empties a statement that is in the tree no more.
    fn forget(&mut self, stmt: StmtId) {
        let Some(stmt) = self.stmts.get_mut(stmt.0 as usize) else { return };
        let old = std::mem::replace(stmt, Stmt { head: 0..0, body: None, kind: StmtKind::Error });
        old.children().iter().for_each(|child| self.forget(*child));
    }
}

/// A shift of all tokens from one on.
struct Moved {
    behind: TokenId,
    by: i64,
}

impl Moved {
    fn tree(&self, tree: &mut Tree) {
        if self.by == 0 {
            return;
        }
        tree.stmts.iter_mut().for_each(|stmt| self.stmt(stmt));
        tree.exprs.iter_mut().for_each(|expr| self.expr(expr));
        tree.lists.iter_mut().for_each(|expr| self.id(expr));
        self.directives(&mut tree.directives);
        for declared in &mut tree.declarators {
            self.token(&mut declared.name);
            declared.count.iter_mut().chain(&mut declared.init).for_each(|expr| self.id(expr));
        }
        tree.eof.iter_mut().for_each(|token| self.token(token));
    }

    fn token(&self, token: &mut TokenId) {
        if *token >= self.behind {
            *token = (i64::from(*token) + self.by) as TokenId;
        }
    }

    /// A range that ends where the shift begins stays, but for an empty one.
    fn tokens(&self, tokens: &mut Tokens) {
        if tokens.start >= self.behind || tokens.end > self.behind {
            tokens.end = (i64::from(tokens.end) + self.by) as TokenId;
        }
        self.token(&mut tokens.start);
    }

    fn id(&self, expr: &mut ExprId) {
        if let Some(mut token) = expr.token() {
            self.token(&mut token);
            *expr = ExprId::name(token);
        }
    }

    fn directives(&self, all: &mut [Directive]) {
        all.iter_mut().for_each(|directive| self.token(&mut directive.name));
    }

    fn vars(&self, all: &mut [Var]) {
        for var in all {
            self.token(&mut var.space);
            var.linkage.iter_mut().chain(&mut var.ty).for_each(|token| self.token(token));
        }
    }

    fn stmt(&self, stmt: &mut Stmt) {
        self.tokens(&mut stmt.head);
        if let Some(body) = &mut stmt.body {
            self.tokens(&mut body.tail);
        }
        match &mut stmt.kind {
            StmtKind::Inst(inst) => {
                self.token(&mut inst.opcode);
                self.tokens(&mut inst.modifiers);
                inst.guard.iter_mut().for_each(|guard| self.token(&mut guard.register));
            }
            StmtKind::Label(name) => self.tokens(name),
            StmtKind::Var(var) => self.vars(std::slice::from_mut(var)),
            StmtKind::Func(func) => self.func(func),
            StmtKind::Directive(directive) | StmtKind::Data(directive) => self.token(&mut directive.name),
            StmtKind::Section(name) => self.token(name),
            StmtKind::Prototype(prototype) => {
                let Prototype { returns, params, variadic: _, directives } = &mut **prototype;
                self.vars(returns);
                self.vars(params);
                self.directives(directives);
            }
            StmtKind::Block | StmtKind::Dwarf | StmtKind::Empty | StmtKind::Error => {}
        }
    }

    fn func(&self, func: &mut Func) {
        self.token(&mut func.keyword);
        func.linkage.iter_mut().chain(&mut func.name).for_each(|token| self.token(token));
        self.vars(&mut func.returns);
        self.vars(&mut func.params);
        self.directives(&mut func.attributes);
        self.directives(&mut func.directives);
    }

    fn expr(&self, expr: &mut Expr) {
        self.tokens(&mut expr.tokens);
        match &mut expr.kind {
            ExprKind::Unary(_, a) => self.id(a),
            ExprKind::Binary(_, a, b) | ExprKind::Pair(a, b) | ExprKind::Index(a, b) | ExprKind::Range(a, b) => {
                self.id(a);
                self.id(b);
            }
            ExprKind::Ternary(a, b, c) => [a, b, c].into_iter().for_each(|expr| self.id(expr)),
            ExprKind::Cast(token, a) | ExprKind::Select(a, token) => {
                self.token(token);
                self.id(a);
            }
            ExprKind::Apply(token, _) => self.token(token),
            ExprKind::Name | ExprKind::Int(_) | ExprKind::Float | ExprKind::Str | ExprKind::Dot | ExprKind::Error => {}
            ExprKind::Group(_) | ExprKind::Braces(_) | ExprKind::Brackets(_) => {}
        }
    }
}
