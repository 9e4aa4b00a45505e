//! The canonical layout of PTX text, for `ptx fmt`. Only blanks and line ends change; tokens and comments never do.
//!
//! One statement a line, four blanks a level, labels one level out, one blank after a comma and between words, at most
//! one empty line in a row. What does not parse is kept as it is. `gap` decides between two tokens of a statement,
//! `comments` takes trivia apart.

mod comments;
mod gap;

use crate::syntax::{Func, Stmt, StmtId, StmtKind, Tokens, Tree};
use crate::token::{Kind, TokenId};
use comments::comments;
use gap::Context;

const INDENT: usize = 4;
/// Past this column the next comma ends the line.
const WIDTH: usize = 100;

/// The tree as text in canonical layout. Formatting its result again changes nothing.
pub fn format(tree: &Tree) -> Vec<u8> {
    let mut layout = Layout { tree, out: Vec::with_capacity(tree.source.bytes.len()), depth: 0, blank: Blank::Never };
    layout.stmts(&tree.items);
    if let Some(eof) = tree.eof {
        layout.own_lines(eof, 0);
    }
    if !layout.out.is_empty() {
        layout.out.push(b'\n');
    }
    layout.out
}

/// An empty line before the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    /// At the start of the text or of a scope.
    Never,
    /// The source had one.
    Kept,
    /// Around functions with a body.
    Always,
}

struct Layout<'t> {
    tree: &'t Tree,
    out: Vec<u8>,
    /// Number of open scopes.
    depth: usize,
    blank: Blank,
}

impl Layout<'_> {
    /// Recursion is as deep as scopes nest, which the parser bounds.
    fn stmts(&mut self, ids: &[StmtId]) {
        for &id in ids {
            let stmt = self.tree.stmt(id);
            let has_body = matches!(&stmt.kind, StmtKind::Func(f) if f.has_body);
            if has_body && self.blank == Blank::Kept {
                self.blank = Blank::Always;
            }
            self.stmt(stmt);
            self.blank = if has_body { Blank::Always } else { Blank::Kept };
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let Tokens { start: first, end } = stmt.head;
        let out = usize::from(matches!(stmt.kind, StmtKind::Label(_)));
        self.own_line(first, self.depth.saturating_sub(out) * INDENT);
        match &stmt.kind {
            StmtKind::Error | StmtKind::Dwarf => self.verbatim(first + 1..end),
            StmtKind::Func(func) if func.is_broken => self.verbatim(first + 1..end),
            kind => self.rest(first + 1..end, &mut Context::new(self.tree, kind, first), &breaks(self.tree, stmt)),
        }
        if !stmt.children().is_empty() || !stmt.tail().is_empty() {
            self.depth += 1;
            self.blank = Blank::Never;
            self.stmts(stmt.children());
            self.depth -= 1;
            self.blank = Blank::Never;
            stmt.tail().for_each(|token| self.own_line(token, self.depth * INDENT));
        }
    }

    /// The tokens of a statement behind its first one. `breaks` start a line, `INDENT` deeper where they say so.
    fn rest(&mut self, tokens: Tokens, context: &mut Context, breaks: &[(TokenId, usize)]) {
        let mut breaks = breaks.iter().peekable();
        for token in tokens {
            let blank = context.blank_before(token);
            if let Some(&(_, levels)) = breaks.next_if(|b| b.0 == token) {
                self.blank = Blank::Never;
                self.own_line(token, (self.depth + levels) * INDENT);
                continue;
            }
            if !self.comments_inside(token) {
                match context.must_end_line(token) || self.too_wide(token) {
                    true => self.line((self.depth + 1) * INDENT),
                    false => self.out.extend(blank.then_some(b' ')),
                }
            }
            self.out.extend_from_slice(self.tree.source.bytes(token));
        }
    }

    /// Tokens with the trivia they have.
    fn verbatim(&mut self, tokens: Tokens) {
        for token in tokens {
            self.out.extend_from_slice(self.tree.source.trivia(token));
            self.out.extend_from_slice(self.tree.source.bytes(token));
        }
    }

    /// A token that starts a line, with the comments in front of it; those before a `}` belong to what it closes.
    fn own_line(&mut self, token: TokenId, indent: usize) {
        if !gap::would_be_number(self.tree, token) {
            let closes = self.tree.source.kind(token) == Kind::Punct(b'}');
            let blank = self.own_lines(token, if closes { indent + INDENT } else { indent });
            self.line_with(blank, indent);
        }
        self.out.extend_from_slice(self.tree.source.bytes(token));
    }

    /// The comments in front of such a token: those on the line before stay there, the others have lines of their own.
    /// Returns whether an empty line stands behind them.
    fn own_lines(&mut self, token: TokenId, indent: usize) -> bool {
        let trivia = self.tree.source.trivia(token);
        for comment in comments(trivia) {
            if comment.lines_before == 0 && !self.out.is_empty() {
                self.out.push(b' ');
            } else {
                self.line_with(comment.lines_before > 1, indent);
            }
            self.out.extend_from_slice(comment.text);
        }
        comments::lines_at_end(trivia) > 1
    }

    /// The comments inside of a statement, with what separates them from the tokens. Returns whether there are any.
    fn comments_inside(&mut self, token: TokenId) -> bool {
        let indent = (self.depth + 1) * INDENT;
        let mut line_started = None;
        for comment in comments(self.tree.source.trivia(token)) {
            match line_started {
                Some(true) => {}
                _ if comment.lines_before > 0 => self.line(indent),
                _ => self.out.push(b' '),
            }
            self.out.extend_from_slice(comment.text);
            line_started = Some(comment.ends_line);
            if comment.ends_line {
                self.line(indent);
            }
        }
        self.out.extend((line_started == Some(false)).then_some(b' '));
        line_started.is_some()
    }

    fn line_with(&mut self, blank: bool, indent: usize) {
        if self.blank == Blank::Always || (blank && self.blank == Blank::Kept) {
            self.out.push(b'\n');
        }
        self.blank = Blank::Kept;
        self.line(indent);
    }

    fn line(&mut self, indent: usize) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
        self.out.resize(self.out.len() + indent, b' ');
    }

    /// Returns true if the line is full in front of a token behind a comma.
    fn too_wide(&self, token: TokenId) -> bool {
        let behind_comma = self.tree.source.kind(token - 1) == Kind::Punct(b',');
        behind_comma && self.out.len() > WIDTH && !self.out[self.out.len() - WIDTH..].contains(&b'\n')
    }
}

/// The tokens of a statement's head, beside the first, that start a line, and how many levels deeper.
fn breaks(tree: &Tree, stmt: &Stmt) -> Vec<(TokenId, usize)> {
    let mut found = match &stmt.kind {
        StmtKind::Func(func) => func_breaks(tree, func, &stmt.head),
        _ => Vec::new(),
    };
    let open = stmt.head.end - 1;
    if matches!(stmt.kind, StmtKind::Func(_) | StmtKind::Section(_)) && tree.source.kind(open) == Kind::Punct(b'{') {
        found.push((open, 0));
    }
    found
}

/// A line for each of several parameters, and for each directive behind them.
fn func_breaks(tree: &Tree, func: &Func, head: &Tokens) -> Vec<(TokenId, usize)> {
    let mut found = Vec::new();
    if let [_, .., last] = func.params.as_slice() {
        found.extend(func.params.iter().map(|param| (param.space, 1)));
        let mut open = 0;
        for token in last.space..head.end {
            match tree.source.kind(token) {
                Kind::Punct(b'(') => open += 1,
                Kind::Punct(b')') if open == 0 => {
                    found.push((token, 0));
                    break;
                }
                Kind::Punct(b')') => open -= 1,
                _ => {}
            }
        }
    }
    found.extend(func.directives.iter().map(|directive| (directive.name, 0)));
    found
}
