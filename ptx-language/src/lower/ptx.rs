//! `ptx! { … }`: copied token for token, with the names of the kernel in place of the user's.

mod declare;
mod group;
mod meant;
mod name;

pub(super) use meant::Meant;

use super::Lowerer;
use crate::cuda;
use crate::scope::Binding;
use crate::tree::{Block, Ptx, StmtKind};
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::hash::Set;
use ptx_core::span::Span;
use ptx_core::token::{Kind, Source, TokenId};

/// Returns true if nothing falls through an instruction without a guard: a kernel that ends in one gets no `ret`.
/// `name` may have modifiers.
pub fn ends(name: &str) -> bool {
    matches!(name.split('.').next(), Some("ret" | "exit" | "bra" | "brx" | "trap"))
}

/// An open brace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Brace {
    /// A scope: its index, and the one around it.
    Scope(usize, usize),
    /// A vector.
    Vector,
    /// `unchecked {`, and where it started.
    Unchecked(Span),
}

/// State of the copy of a block.
pub(super) struct Copy<'s> {
    source: &'s Source,
    /// The next token.
    at: TokenId,
    /// One past the last.
    end: TokenId,
    braces: Vec<Brace>,
    /// The blanks that every line starts with.
    indent: usize,
    /// Text before the next token.
    lead: String,
    statement: Statement,
}

/// Facts about the statement that is being copied.
#[derive(Clone, Debug, Default)]
struct Statement {
    /// Nothing of it is copied yet, except a guard.
    fresh: bool,
    guarded: bool,
    /// Its first word: an opcode; empty for a directive.
    opcode: String,
    /// Position of the opcode.
    opcode_at: Option<TokenId>,
    /// True if it names the parameter space: `ld.param`.
    param: bool,
    /// `.reg`, `.shared` … : a declaration.
    declares: Option<String>,
    /// The names are those of another function, of a section, of a pragma …
    foreign: bool,
}

impl Statement {
    fn start() -> Statement {
        Statement { fresh: true, ..Statement::default() }
    }
}

impl Copy<'_> {
    fn text(&self, at: TokenId) -> &str {
        if at < self.end { self.source.text(at) } else { "" }
    }

    fn is(&self, at: TokenId, punct: u8) -> bool {
        at < self.end && self.source.kind(at) == Kind::Punct(punct)
    }

    fn span(&self) -> Span {
        self.source.span(self.at)
    }

    /// The span of the tokens from `first` to the last one that is copied.
    fn since(&self, first: TokenId) -> Span {
        self.source.span(first).to(self.source.span(self.at.saturating_sub(1).max(first)))
    }

    /// The token that closes the bracket at `from`, if there is one.
    fn closing(&self, from: TokenId, open: u8, close: u8) -> Option<TokenId> {
        if !self.is(from, open) {
            return None;
        }
        let mut depth = 0usize;
        for at in from..self.end {
            if self.is(at, open) {
                depth += 1;
            } else if self.is(at, close) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// Returns true if a word stands here without a blank in front: `x2` in `.{T}x2`.
    fn continues(&self, at: TokenId) -> bool {
        at < self.end && self.source.kind(at) == Kind::Word && self.source.trivia(at).is_empty()
    }

    /// The text between two tokens, both outside.
    fn between(&self, open: TokenId, close: TokenId) -> String {
        (open + 1..close)
            .map(|at| String::from_utf8_lossy(self.source.trivia(at)).into_owned() + self.text(at))
            .collect()
    }

    /// The blanks and comments in front of a token, lines moved to our indentation.
    fn trivia(&self, at: TokenId) -> String {
        let text = ascii(self.source.trivia(at));
        let mut lines = text.split('\n');
        let mut out = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            let own = line.len() - line.trim_start_matches([' ', '\t']).len();
            out.push_str("\n    ");
            out.push_str(&line[own.min(self.indent)..]);
        }
        out
    }
}

/// Comments as the driver's assembler takes them: it refuses bytes that are not ASCII, even there (ptxas does not).
fn ascii(trivia: &[u8]) -> String {
    let text = String::from_utf8_lossy(trivia);
    text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

/// Text before the first token, on a line of its own.
fn first_line(trivia: &str) -> String {
    if !trivia.contains('\n') {
        return format!("    {}", trivia.trim_start());
    }
    let text = trivia.trim_start_matches([' ', '\t', '\r']).trim_start_matches('\n');
    if trivia.trim().is_empty() { text.rsplit('\n').next().unwrap_or(text).to_owned() } else { text.to_owned() }
}

/// The fewest blanks in front of a line's first token.
fn indentation(source: &Source, end: TokenId) -> usize {
    let own = |at: TokenId| source.trivia(at).rsplit(|b| *b == b'\n').next().map_or(0, <[u8]>::len);
    (0..end).filter(|at| source.trivia(*at).contains(&b'\n')).map(own).min().unwrap_or(0)
}

/// Number of tokens of a block without its `Eof`.
fn length(source: &Source) -> TokenId {
    let all = source.tokens.len() as TokenId;
    if all > 0 && source.kind(all - 1) == Kind::Eof { all - 1 } else { all }
}

impl<'a> Lowerer<'a> {
    /// Gives the labels of a block's `ptx!` their names, so that jumps forward find them.
    pub(super) fn declare_labels(&mut self, block: &'a Block) {
        for stmt in &block.stmts {
            let StmtKind::Ptx(ptx) = &stmt.kind else { continue };
            for name in labels(&ptx.source) {
                let emitted = self.f.code.labels.unique(name);
                self.scopes.bind_verbatim(name, emitted);
            }
        }
    }

    /// Copies a block.
    pub(super) fn ptx(&mut self, ptx: &'a Ptx) {
        let end = length(&ptx.source);
        if end == 0 {
            return;
        }
        let mut copy = Copy {
            source: &ptx.source,
            at: 0,
            end,
            braces: Vec::new(),
            indent: indentation(&ptx.source, end),
            lead: String::new(),
            statement: Statement::start(),
        };
        let scope = self.scopes.current;
        while copy.at < end {
            self.token(&mut copy);
        }
        if let Some(Brace::Scope(first, _)) = copy.braces.iter().find(|brace| matches!(brace, Brace::Scope(..))) {
            self.scopes.close(*first, scope);
        }
        let tail = copy.trivia(end);
        // A `;` that is missing at the end is reported where the block is read; what follows is not part of its instruction.
        let close = if ptx.is_terminated() { "" } else { ";" };
        let tail = copy.lead + &tail;
        self.push(format!("{close}{}\n", tail.trim_end()), ptx.span);
    }

    fn token(&mut self, copy: &mut Copy<'_>) {
        let at = copy.at;
        match copy.source.kind(at) {
            Kind::Punct(b'{') => self.open_brace(copy),
            Kind::Punct(b'}') => self.close_brace(copy),
            Kind::Punct(b';') => self.semicolon(copy),
            Kind::Punct(b'@') => self.guard(copy),
            Kind::Punct(b'(') if !copy.statement.fresh => self.group(copy),
            Kind::Punct(b'.') if copy.is(at + 1, b'{') => self.modifier(copy),
            Kind::Dot => self.dot(copy),
            Kind::Word => self.word(copy),
            _ => self.verbatim(copy),
        }
    }

    /// Writes a piece in place of the tokens `at..at + count`.
    fn write(&mut self, copy: &mut Copy<'_>, text: &str, count: TokenId) {
        let first = copy.at == 0 && copy.lead.is_empty();
        let trivia = copy.trivia(copy.at);
        let mut lead = std::mem::take(&mut copy.lead) + &trivia;
        if first {
            lead = first_line(&lead);
        } else if copy.is(copy.at.saturating_sub(1), b';') && !copy.is(copy.at, b'}') && !lead.contains('\n') {
            // A line of its own, so that a finding distinguishes it from the instruction before it.
            lead = format!("\n    {}", lead.trim_start());
        }
        let span = copy.span().to(copy.source.span(copy.at + count - 1));
        if lead.contains('\n') || first {
            self.split_line(copy, &mut lead);
        }
        self.push(lead + text, span);
        copy.at += count;
    }

    /// Puts the `.loc` of an instruction in front of its line.
    fn split_line(&mut self, copy: &Copy<'_>, lead: &mut String) {
        let label = copy.is(copy.at + 1, b':');
        if label || copy.source.kind(copy.at) != Kind::Word && !copy.is(copy.at, b'@') {
            return;
        }
        self.line_of(copy.span());
        if let Some(line) = self.take_line() {
            lead.insert_str(lead.rfind('\n').map_or(0, |at| at + 1), &line);
        }
    }

    /// Leaves tokens out; their trivia stays.
    fn skip(&mut self, copy: &mut Copy<'_>, count: TokenId) {
        for at in copy.at..copy.at + count {
            let trivia = copy.trivia(at);
            if at == 0 {
                copy.lead.push_str(&first_line(&trivia));
            } else {
                copy.lead.push_str(&trivia);
            }
        }
        copy.at += count;
    }

    fn verbatim(&mut self, copy: &mut Copy<'_>) {
        let text = copy.text(copy.at).to_owned();
        self.write(copy, &text, 1);
    }

    fn open_brace(&mut self, copy: &mut Copy<'_>) {
        if copy.statement.fresh && self.is_spliced_opcode(copy) {
            let span = copy.source.span(copy.at + 1);
            let help = "write the opcode, and constants as modifiers, `add.{T}`; choose between instructions with `if` or `match`";
            self.fail(&codes::P0820, span, "a constant cannot be an opcode", help);
            self.out.refused.push(span.to(copy.source.span(copy.at + 3)));
            copy.statement.fresh = false;
            copy.statement.foreign = true;
            return self.write(copy, "opcode", 3);
        }
        if copy.statement.fresh && !copy.statement.guarded {
            let around = self.scopes.current;
            let scope = self.scopes.open(Some(around), false);
            copy.braces.push(Brace::Scope(scope, around));
        } else {
            copy.braces.push(Brace::Vector);
        }
        self.verbatim(copy);
    }

    /// Returns true at `{NAME}.f32`.
    fn is_spliced_opcode(&self, copy: &Copy<'_>) -> bool {
        let dot = copy.at + 3;
        let word = copy.at + 1 < copy.end && copy.source.kind(copy.at + 1) == Kind::Word;
        let dotted = dot < copy.end && copy.source.kind(dot) == Kind::Dot && copy.source.trivia(dot).is_empty();
        word && copy.is(copy.at + 2, b'}') && dotted
    }

    fn close_brace(&mut self, copy: &mut Copy<'_>) {
        match copy.braces.pop() {
            Some(Brace::Scope(scope, around)) => {
                self.scopes.close(scope, around);
                copy.statement = Statement::start();
                self.verbatim(copy);
            }
            Some(Brace::Unchecked(start)) => {
                let span = self.at(start.to(copy.span()));
                self.out.unchecked.push(span);
                copy.statement = Statement::start();
                self.skip(copy, 1);
            }
            Some(Brace::Vector) | None => self.verbatim(copy),
        }
    }

    fn semicolon(&mut self, copy: &mut Copy<'_>) {
        let statement = std::mem::replace(&mut copy.statement, Statement::start());
        self.verbatim(copy);
        if !statement.opcode.is_empty() {
            self.f.code.dead = !statement.guarded && ends(&statement.opcode);
        }
    }

    /// `@p`, `@!p`: the predicate is a name, and an opcode follows.
    fn guard(&mut self, copy: &mut Copy<'_>) {
        self.verbatim(copy);
        if copy.is(copy.at, b'!') {
            self.verbatim(copy);
        }
        copy.statement.guarded = true;
        if copy.at < copy.end && copy.source.kind(copy.at) == Kind::Word {
            self.resolve(copy);
        }
    }

    /// `.{SHAPE}`, `.{T}`, `.{T}x2`, `.b{BITS}`, `.m64n{N}k16`: a modifier from words and constants.
    fn modifier(&mut self, copy: &mut Copy<'_>) {
        let mut text = copy.text(copy.at).to_owned();
        let mut end = copy.at + 1;
        loop {
            if copy.continues(end) {
                text.push_str(copy.text(end));
                end += 1;
            } else if let Some(close) = self.spliced(copy, end) {
                let part = copy.between(end, close);
                let span = copy.source.span(end).to(copy.source.span(close));
                match self.modifier_text(part.trim(), span) {
                    Some(part) => text.push_str(part.trim_start_matches('.')),
                    None => text.clear(),
                }
                end = close + 1;
            } else {
                break;
            }
        }
        self.write(copy, &text, end - copy.at);
    }

    /// The end of a constant in braces that belongs to a modifier: behind a dot anything, behind a word the name of a constant.
    fn spliced(&self, copy: &Copy<'_>, open: TokenId) -> Option<TokenId> {
        let close = copy.closing(open, b'{', b'}')?;
        if copy.is(open - 1, b'.') {
            return Some(close);
        }
        let found = self.scopes.find(copy.text(open + 1)).filter(|_| close == open + 2)?;
        matches!(found.binding, Binding::Const(_) | Binding::Type(_) | Binding::Value(Value::Const(_))).then_some(close)
    }

    fn modifier_text(&mut self, text: &str, span: Span) -> Option<String> {
        if let Some(Binding::Type(ty)) = self.scopes.find(text).map(|found| found.binding) {
            return ty.scalar().map(|ty| ty.name().to_owned());
        }
        let Some(expr) = super::splice::expr(text, span) else {
            self.fail(&codes::P0820, span, format!("`{text}` is no constant"), "name a `const`: `.{SHAPE}`");
            return None;
        };
        self.require_constant(&expr).map(|value| value.text())
    }

    /// A modifier, or the name of a directive.
    fn dot(&mut self, copy: &mut Copy<'_>) {
        let text = copy.text(copy.at).to_owned();
        if !copy.statement.fresh && self.spliced(copy, copy.at + 1).is_some() {
            return self.modifier(copy);
        }
        if copy.statement.fresh {
            copy.statement.fresh = false;
            copy.statement.declares = declare::SPACES.contains(&text.as_str()).then(|| text.clone());
            copy.statement.foreign = copy.statement.declares.is_none();
        } else if text == ".param" || text.starts_with(".param::") {
            copy.statement.param = true;
        } else {
            self.not_spliced(&text[1..], copy.span());
        }
        self.verbatim(copy);
    }

    /// `.T` for `.{T}`: names of types and constants begin with capitals, PTX's modifiers do not.
    fn not_spliced(&mut self, name: &str, span: Span) {
        let named = name.starts_with(|c: char| c.is_ascii_uppercase())
            && self.scopes.find(name).is_some_and(|found| !matches!(found.binding, Binding::Module(_)));
        if named {
            let message = format!("a modifier is PTX's own word; `{name}` is a name of the kernel");
            self.fail(&codes::P0820, span, message, format!("write `.{{{name}}}` for what it stands for"));
        }
    }

    fn word(&mut self, copy: &mut Copy<'_>) {
        let text = copy.text(copy.at).to_owned();
        if !copy.statement.fresh {
            return match copy.statement.declares {
                Some(_) => self.declared(copy),
                None => self.resolve(copy),
            };
        }
        if copy.is(copy.at + 1, b':') {
            self.f.code.dead = false;
            let emitted = self.scopes.find_verbatim(&text).unwrap_or(&text).to_owned();
            return self.write(copy, &format!("{emitted}:"), 2);
        }
        if text == "unchecked" && copy.is(copy.at + 1, b'{') {
            copy.braces.push(Brace::Unchecked(copy.span()));
            return self.skip(copy, 2);
        }
        if let Some(help) = statement_of_rust(copy, &text) {
            self.fail(&codes::P0820, copy.span(), "this is no instruction, but a statement", help);
            return copy.at = copy.end;
        }
        if let Some(here) = cuda::here(&text) {
            let message = format!("`{text}` is a function of CUDA C++, not an instruction");
            self.fail(&codes::P0801, copy.span(), message, format!("outside of `ptx!` write `{here}`"));
            self.out.refused.push(copy.span());
        }
        copy.statement.fresh = false;
        copy.statement.foreign = text == "call";
        copy.statement.opcode = text;
        copy.statement.opcode_at = Some(copy.at);
        self.verbatim(copy);
    }
}

/// Words that begin a statement of Rust, and the help for it in `ptx!`.
const STATEMENTS: &[(&str, &str)] = &[
    ("if", "write it outside of `ptx! { … }`, or a guard: `@p ld.global.f32 v, [at];`"),
    ("let", OUTSIDE),
    ("const", OUTSIDE),
    ("for", OUTSIDE),
    ("while", OUTSIDE),
    ("loop", OUTSIDE),
    ("match", OUTSIDE),
];
const OUTSIDE: &str = "write it outside of `ptx! { … }`";

/// The help for a statement of Rust in `ptx!`. With a dot behind it, a word is an opcode: `match.any.sync`.
fn statement_of_rust(copy: &Copy<'_>, word: &str) -> Option<&'static str> {
    let next = copy.at + 1;
    if copy.text(next).starts_with('.') {
        return None;
    }
    let assigns = copy.is(next, b'=') || copy.is(next + 1, b'=') && b"+-*/&|^".iter().any(|op| copy.is(next, *op));
    if assigns {
        return Some("write it outside of `ptx! { … }`; the result of an instruction is its first operand");
    }
    STATEMENTS.iter().find(|(known, _)| *known == word).map(|(_, help)| *help)
}

/// The labels that a block defines, each once.
fn labels(source: &Source) -> Vec<&str> {
    let (mut out, mut known) = (Vec::new(), Set::default());
    let mut fresh = true;
    for at in 0..length(source) {
        let colon = source.kind(at) == Kind::Punct(b':');
        if colon && fresh && at > 0 && known.insert(source.text(at - 1)) {
            out.push(source.text(at - 1));
        }
        let starts = |kind: Kind| matches!(kind, Kind::Punct(b';' | b'{' | b'}' | b':'));
        fresh = source.kind(at) == Kind::Word && (at == 0 || starts(source.kind(at - 1)));
    }
    out
}
