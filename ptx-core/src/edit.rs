//! Changes of a tree. Each changes the bytes it is about and no others; printing shows the result.
//!
//! Text that an edit adds is appended to the source, so that token ids stay valid; tokens that an edit takes away stay
//! in the source, in no statement. Spans of new tokens mean nothing to the host: print and parse again for diagnostics.

mod layout;
mod retype;

use crate::diag::Diagnostic;
use crate::lex;
use crate::parse;
use crate::syntax::{Declarator, Expr, ExprKind, StmtId, StmtKind, Tokens, Tree};
use crate::token::{Kind, Place, Source, TokenId};
use std::fmt;

/// Why an edit was not made. The tree is as it was.
#[derive(Clone, Debug, PartialEq)]
pub enum EditError {
    /// The new text is not one token of the kind that it would replace.
    NotOneToken(String),
    /// The name is used already where it would be renamed to.
    Taken(String),
    /// There is no such statement, directive or argument in the tree.
    NotFound,
    /// The new statement is none. Spans count from the start of its text.
    Syntax(Vec<Diagnostic>),
    /// The source would grow beyond 2 GiB.
    TooLong,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::NotOneToken(text) => write!(f, "`{text}` is not one token of the kind that stands there"),
            EditError::Taken(name) => write!(f, "the name `{name}` is taken"),
            EditError::NotFound => f.write_str("there is no such place in the tree"),
            EditError::Syntax(found) => match found.first() {
                Some(first) => f.write_str(&first.message),
                None => f.write_str("no statement"),
            },
            EditError::TooLong => f.write_str("the source would be longer than 2 GiB"),
        }
    }
}

impl std::error::Error for EditError {}

type Result<T> = std::result::Result<T, EditError>;

/// Position of a statement in the tree: its parent (`None` for the outermost level) and its index among the children.
type Spot = (Option<StmtId>, usize);

impl Tree {
    /// Replaces the text of a token by another of the same kind. The blanks and comments in front of it stay.
    ///
    /// # Errors
    /// [`EditError::NotOneToken`], [`EditError::TooLong`].
    pub fn replace_token(&mut self, token: TokenId, text: &str) -> Result<()> {
        let (new, _) = lex::lex(text.as_bytes());
        let one = new.tokens.len() == 2 && new.bytes(0).len() == text.len() && new.kind(0) == self.source.kind(token);
        if !one {
            return Err(EditError::NotOneToken(text.to_owned()));
        }
        let trivia = self.source.trivia(token).to_vec();
        self.source.set(token, &trivia, text.as_bytes())?;
        self.refresh_value(token);
        Ok(())
    }

    /// Integers carry their value.
    fn refresh_value(&mut self, token: TokenId) {
        if self.source.kind(token) == Kind::Int {
            let value = parse::integer_value(self.source.bytes(token));
            let holds = |e: &&mut Expr| e.tokens.start == token && matches!(e.kind, ExprKind::Int(_));
            self.exprs.iter_mut().filter(holds).for_each(|e| e.kind = ExprKind::Int(value));
        }
    }

    /// Renames a register, label or symbol in a statement and all that is in it, such as a function, or everywhere
    /// without one. A register declared as `%r<5>` takes `%r0` to `%r4` with it. Returns how many tokens changed.
    ///
    /// # Errors
    /// [`EditError::Taken`] if the new name occurs there already, [`EditError::NotOneToken`], [`EditError::TooLong`].
    pub fn rename(&mut self, within: Option<StmtId>, from: &str, to: &str) -> Result<usize> {
        let tokens = self.tokens_of(within);
        let counted = self.declarators.iter().any(|d| d.count.is_some() && self.source.text(d.name) == from);
        let family = |text: &str, name: &str| match text.strip_prefix(name) {
            Some("") => true,
            Some(number) => counted && number.bytes().all(|b| b.is_ascii_digit()),
            None => false,
        };
        let words = tokens.into_iter().filter(|&t| self.source.kind(t) == Kind::Word);
        let words: Vec<TokenId> = words.filter(|&t| !self.source.text(t).is_empty()).collect();
        if self.is_in_range(to) || words.iter().any(|&t| family(self.source.text(t), to)) {
            return Err(EditError::Taken(to.to_owned()));
        }
        let ours: Vec<TokenId> = words.into_iter().filter(|&t| family(self.source.text(t), from)).collect();
        for &token in &ours {
            let new = format!("{to}{}", &self.source.text(token)[from.len()..]);
            self.replace_token(token, &new)?;
        }
        Ok(ours.len())
    }

    /// Returns true if a declaration such as `%r<5>` makes this name.
    fn is_in_range(&self, name: &str) -> bool {
        let number = |d: &Declarator| name.strip_prefix(self.source.text(d.name));
        let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        self.declarators.iter().any(|d| d.count.is_some() && number(d).is_some_and(is_number))
    }

    /// Replaces the first argument of the first module-level directive of this name: `set_directive(".target", "sm_90a")`.
    ///
    /// # Errors
    /// [`EditError::NotFound`], [`EditError::NotOneToken`], [`EditError::TooLong`].
    pub fn set_directive(&mut self, name: &str, argument: &str) -> Result<()> {
        let found = self.items.iter().find_map(|&item| match &self.stmt(item).kind {
            StmtKind::Directive(d) if self.source.text(d.name) == name => self.list(&d.args).first().copied(),
            _ => None,
        });
        let token = found.map(|arg| self.expr(arg).tokens.start).ok_or(EditError::NotFound)?;
        self.replace_token(token, argument)
    }

    /// Inserts statements, written as text, on a line of their own in front of another; comments above it stay above.
    ///
    /// # Errors
    /// [`EditError::NotFound`], [`EditError::Syntax`], [`EditError::TooLong`].
    pub fn insert_before(&mut self, anchor: StmtId, text: &str) -> Result<Vec<StmtId>> {
        let (parent, index) = self.place(anchor)?;
        let follower = self.stmt(anchor).head.start;
        let lead = self.source.trivia(follower).to_vec();
        let separator = layout::separator(&lead);
        self.insert((parent, index), text, (&lead, follower, separator))
    }

    /// Inserts statements, written as text, on a line of their own behind another; a comment on its line stays there.
    ///
    /// # Errors
    /// [`EditError::NotFound`], [`EditError::Syntax`], [`EditError::TooLong`].
    pub fn insert_after(&mut self, anchor: StmtId, text: &str) -> Result<Vec<StmtId>> {
        let (parent, index) = self.place(anchor)?;
        let follower = self.token_after((parent, index)).ok_or(EditError::NotFound)?;
        let lead = self.source.trivia(follower).to_vec();
        let (same_line, rest) = layout::split_line(&lead);
        let separator = layout::separator(self.source.trivia(self.stmt(anchor).head.start));
        let lead = [same_line, &separator].concat();
        self.insert((parent, index + 1), text, (&lead, follower, rest.to_vec()))
    }

    /// Takes a statement out of the tree, and its line if it has one for itself. Comments stay.
    ///
    /// # Errors
    /// [`EditError::NotFound`], [`EditError::TooLong`].
    pub fn remove(&mut self, stmt: StmtId) -> Result<()> {
        let (parent, index) = self.place(stmt)?;
        let follower = self.token_after((parent, index)).ok_or(EditError::NotFound)?;
        let lead = self.source.trivia(self.stmt(stmt).head.start);
        let trivia = layout::join(lead, self.source.trivia(follower));
        self.source.set_trivia(follower, &trivia)?;
        self.siblings(parent).remove(index);
        Ok(())
    }

    /// Hangs new statements at `place`: the trivia in front of them, the token behind them and its new trivia.
    fn insert(&mut self, place: Spot, text: &str, around: (&[u8], TokenId, Vec<u8>)) -> Result<Vec<StmtId>> {
        let (lead, follower, rest) = around;
        let (stmts, end) = self.fragment(text.trim(), place.0.is_some() || self.is_body)?;
        let rest = layout::behind(self.source.trivia(end), &rest);
        if let Some(&first) = stmts.first() {
            let first = self.stmt(first).head.start;
            let lead = [lead, self.source.trivia(first)].concat();
            self.source.set_trivia(first, &lead)?;
        }
        self.source.set_trivia(follower, &rest)?;
        self.siblings(place.0).splice(place.1..place.1, stmts.iter().copied());
        Ok(stmts)
    }

    /// Parses text to statements that hang nowhere yet, and their `Eof` token.
    fn fragment(&mut self, text: &str, in_body: bool) -> Result<(Vec<StmtId>, TokenId)> {
        let base = self.source.bytes.len();
        if base + text.len() > lex::MAX_BYTES {
            return Err(EditError::TooLong);
        }
        let (tokens, mut diagnostics) = lex::append(&mut self.source, text);
        let end = tokens.end - 1;
        let (stmts, syntax) = parse::parse_more(self, tokens, in_body);
        diagnostics.extend(syntax.into_iter().map(|d| Diagnostic { span: d.span.back(base as u32), ..d }));
        if diagnostics.is_empty() && !stmts.is_empty() { Ok((stmts, end)) } else { Err(EditError::Syntax(diagnostics)) }
    }

    fn siblings(&mut self, parent: Option<StmtId>) -> &mut Vec<StmtId> {
        match parent {
            Some(parent) => &mut self.stmts[parent.0 as usize].body.get_or_insert_default().children,
            None => &mut self.items,
        }
    }

    fn place(&self, stmt: StmtId) -> Result<Spot> {
        let find = |ids: &[StmtId]| ids.iter().position(|&id| id == stmt);
        let outer = find(&self.items).map(|index| (None, index));
        let mut parents = (0u32..).map(StmtId).zip(&self.stmts);
        let inner = || parents.find_map(|(id, s)| find(s.children()).map(|index| (Some(id), index)));
        outer.or_else(inner).ok_or(EditError::NotFound)
    }

    /// The token behind the statement at a place.
    fn token_after(&self, (parent, index): Spot) -> Option<TokenId> {
        let Some(parent) = parent else {
            return self.items.get(index + 1).map(|&s| self.stmt(s).head.start).or(self.eof);
        };
        let stmt = self.stmt(parent);
        let next = stmt.children().get(index + 1).map(|&s| self.stmt(s).head.start);
        let tail = (!stmt.tail().is_empty()).then_some(stmt.tail().start);
        next.or(tail).or_else(|| self.token_after(self.place(parent).ok()?))
    }

    /// All tokens of a statement, or of the whole tree, in order.
    fn tokens_of(&self, stmt: Option<StmtId>) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        match stmt {
            Some(stmt) => self.collect(stmt, &mut tokens),
            None => self.items.iter().for_each(|&item| self.collect(item, &mut tokens)),
        }
        tokens
    }

    fn collect(&self, stmt: StmtId, tokens: &mut Vec<TokenId>) {
        let stmt = self.stmt(stmt);
        tokens.extend(Tokens::clone(&stmt.head));
        stmt.children().iter().for_each(|&child| self.collect(child, tokens));
        tokens.extend(stmt.tail());
    }
}

impl Source {
    fn set_trivia(&mut self, token: TokenId, trivia: &[u8]) -> Result<()> {
        let text = self.bytes(token).to_vec();
        self.set(token, trivia, &text)
    }

    /// Gives a token new trivia and text.
    fn set(&mut self, token: TokenId, trivia: &[u8], text: &[u8]) -> Result<()> {
        let lead = self.bytes.len();
        let lo = lead + trivia.len();
        let hi = lo + text.len();
        if hi > lex::MAX_BYTES {
            return Err(EditError::TooLong);
        }
        self.bytes.extend_from_slice(trivia);
        self.bytes.extend_from_slice(text);
        self.set_place(token, Place { lead: lead as u32, lo: lo as u32, hi: hi as u32 });
        Ok(())
    }
}
