//! Blanks between two tokens of a statement.

use crate::syntax::{StmtKind, Tree};
use crate::token::{Kind, TokenId};

/// The statement and the previous token.
pub(super) struct Context<'t> {
    tree: &'t Tree,
    /// The modifiers of an instruction, which hang on its opcode.
    modifiers: std::ops::Range<TokenId>,
    /// The last token of what opens the statement (`add.s32`, `.b8`, `.func`): a blank follows, whatever comes.
    opening: TokenId,
    is_label: bool,
    is_prototype: bool,
    /// True if the token before belongs to a name that a `Dot` token may go on with.
    in_name: bool,
}

impl<'t> Context<'t> {
    /// For a statement of this kind whose first token is `first`.
    pub(super) fn new(tree: &'t Tree, kind: &StmtKind, first: TokenId) -> Self {
        let (modifiers, opening) = match kind {
            StmtKind::Inst(inst) => (inst.modifiers.clone(), inst.modifiers.end - 1),
            StmtKind::Func(func) => (0..0, func.keyword),
            StmtKind::Directive(directive) | StmtKind::Data(directive) => (0..0, directive.name),
            _ => (0..0, TokenId::MAX),
        };
        Context {
            tree,
            modifiers,
            opening,
            is_label: matches!(kind, StmtKind::Label(_)),
            is_prototype: matches!(kind, StmtKind::Prototype(_)),
            in_name: tree.source.kind(first) == Kind::Word,
        }
    }

    /// Returns true if a blank precedes a token that is not the first of the statement.
    pub(super) fn blank_before(&mut self, token: TokenId) -> bool {
        let kind = self.tree.source.kind(token);
        let hangs = kind == Kind::Dot && self.hangs_on(token);
        self.in_name = match kind {
            Kind::Dot => (hangs && self.in_name) || self.is_declared(token),
            _ => matches!(kind, Kind::Word | Kind::Int),
        };
        match kind {
            _ if self.is_stray(kind) || self.is_stray(self.before(token)) => !self.touches(token),
            Kind::Dot => !hangs && self.blank_between(token),
            _ if token - 1 == self.opening => !self.closes(kind),
            _ => self.blank_between(token),
        }
    }

    /// Returns true if the token before has to be the last of its line: a string without its closing quote.
    pub(super) fn must_end_line(&self, token: TokenId) -> bool {
        let before = self.tree.source.bytes(token - 1);
        self.tree.source.kind(token - 1) == Kind::Str && (before.len() < 2 || !before.ends_with(b"\""))
    }

    /// Returns true if a `Dot` token goes on with what is before: a modifier, a field of a name, `[a].unified`, or
    /// what would be a number if it stood alone.
    fn hangs_on(&self, token: TokenId) -> bool {
        let behind_bracket = matches!(self.before(token), Kind::Punct(b']' | b'}'));
        let touches = self.touches(token) && (self.in_name || behind_bracket);
        self.modifiers.contains(&token) || touches || would_be_number(self.tree, token)
    }

    /// Returns true if a declaration has this token as its name, which may be a `Dot` token where PTX has a mistake. They
    /// are in the order of the text.
    fn is_declared(&self, token: TokenId) -> bool {
        self.tree.declarators.binary_search_by_key(&token, |declarator| declarator.name).is_ok()
    }

    /// A token outside of any meaningful statement: it stays unchanged.
    fn is_stray(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Punct(b'.') | Kind::Unknown)
    }

    fn blank_between(&self, token: TokenId) -> bool {
        match (self.before(token), self.tree.source.kind(token)) {
            (Kind::Punct(before), Kind::Punct(this)) => self.blank_between_puncts(before, this, token),
            (Kind::Punct(before), _) => {
                matches!(before, b',' | b')' | b']' | b'}' | b'=' | b'?' | b':' | b'%')
            }
            (_, Kind::Punct(this)) => self.blank_before_punct(this),
            _ => true,
        }
    }

    fn blank_before_punct(&self, this: u8) -> bool {
        match this {
            b':' => !self.is_label,
            b'(' => self.is_prototype,
            _ => matches!(this, b'{' | b'=' | b'?' | b'%' | b'@'),
        }
    }

    fn blank_between_puncts(&self, before: u8, this: u8, token: TokenId) -> bool {
        let opens = matches!(before, b'(' | b'[' | b'{' | b'@');
        match this {
            b',' | b';' | b')' | b']' | b'}' => false,
            _ if opens => false,
            b'[' if before == b']' => false,
            _ if before == b',' || matches!(this, b'?' | b'{' | b'(' if !is_operator(before)) => true,
            b':' | b'=' | b'%' if !is_operator(before) => true,
            _ if matches!(before, b'?' | b':' | b'%') => true,
            _ if is_operator(before) && is_operator(this) => !self.touches(token),
            _ => before == b'=',
        }
    }

    /// Returns true if this ends the statement or a list, so that even an opening needs no blank.
    fn closes(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Punct(b',' | b';' | b')' | b']' | b'}'))
    }

    fn before(&self, token: TokenId) -> Kind {
        self.tree.source.kind(token - 1)
    }

    fn touches(&self, token: TokenId) -> bool {
        self.tree.source.trivia(token).is_empty()
    }
}

/// Returns true if a `.5` is no number only because it touches a name: nothing may come between them.
pub(super) fn would_be_number(tree: &Tree, token: TokenId) -> bool {
    let numeric = tree.source.bytes(token).get(1).is_some_and(u8::is_ascii_digit);
    numeric && tree.source.kind(token) == Kind::Dot && tree.source.trivia(token).is_empty()
}

fn is_operator(byte: u8) -> bool {
    !matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';')
}
