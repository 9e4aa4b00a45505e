//! Instructions: manual section 4.3.2 and 9.3.

use super::{Parsed, Parser};
use crate::diag::Label;
use crate::syntax::{Guard, Inst, StmtId, StmtKind};
use crate::token::{Kind, TokenId};

impl Parser {
    /// `instruction = [guard] opcode modifier* [operand ("," operand)*] ";"`, or a label whose name has dots.
    pub(super) fn instruction(&mut self, first: TokenId) -> Parsed<StmtId> {
        let guard = if self.at(b'@') { Some(self.guard()?) } else { None };
        let opcode = self.expect_word("an instruction")?;
        let modifiers = self.dots();
        if self.at(b':') && guard.is_none() {
            return Ok(self.label_end(first..self.at));
        }
        let operands = if self.ends_without_operands() { 0..0 } else { self.operands()? };
        self.end_of_statement()?;
        let inst = Inst { guard, opcode, modifiers, operands };
        Ok(self.push_stmt(first..self.at, StmtKind::Inst(inst)))
    }

    /// `guard = "@" ["!"] register`
    fn guard(&mut self) -> Parsed<Guard> {
        self.bump();
        let negated = self.eat(b'!');
        Ok(Guard { register: self.expect_word("a predicate register")?, negated })
    }

    /// `Dot*`
    pub(super) fn dots(&mut self) -> std::ops::Range<TokenId> {
        let first = self.at;
        while self.kind() == Kind::Dot {
            self.at += 1;
        }
        first..self.at
    }

    /// The `;` of a statement. Where it is missing and the next line looks like a statement, nothing else is lost.
    pub(super) fn end_of_statement(&mut self) -> Parsed<()> {
        if self.eat(b';') {
            return Ok(());
        }
        let before = self.diagnostics.len();
        let another = matches!(self.kind(), Kind::Word | Kind::Punct(b'[' | b'{')) && !self.starts_line();
        let stuck = self.stuck(if another { "`,` or `;`" } else { "`;`" });
        if self.starts_line() && self.at > 0 {
            let span = self.tree.source.span(self.at - 1);
            let text = "it is missing behind this".to_owned();
            self.diagnostics.iter_mut().skip(before).for_each(|d| d.labels.push(Label { span, text: text.clone() }));
        } else if self.torn_number() {
            let help = "a number in bits is `0f` and 8 hexadecimal digits, or `0d` and 16";
            self.diagnostics.iter_mut().skip(before).for_each(|d| d.help.push(help.to_owned()));
        }
        if self.looks_like_statement() { Ok(()) } else { Err(stuck) }
    }

    /// Returns true if letters hang on the number before: `0f3F80`.
    fn torn_number(&self) -> bool {
        let source = &self.tree.source;
        let before = self.at.checked_sub(1).map(|before| source.kind(before));
        self.kind() == Kind::Word && before == Some(Kind::Int) && source.trivia(self.at).is_empty()
    }

    #[inline]
    fn ends_without_operands(&self) -> bool {
        matches!(self.kind(), Kind::Punct(b';' | b'}' | b'@') | Kind::Dot | Kind::Eof)
    }

    fn looks_like_statement(&self) -> bool {
        match self.kind() {
            Kind::Eof => true,
            Kind::Punct(b'}') => self.closes_scope(),
            Kind::Dot | Kind::Punct(b'@') => self.starts_line(),
            Kind::Word => {
                matches!(self.nth(1), Kind::Dot | Kind::Word | Kind::Punct(b';' | b':')) && self.starts_line()
            }
            _ => false,
        }
    }
}
