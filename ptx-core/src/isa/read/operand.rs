//! The operand column of a row: `=d:type, [a:ss]{, policy:b64}`.

use super::sets::Sets;
use crate::isa::{
    Access, Count, Handles, Member, OperandKind, OperandSpec, Range, Shift, Short, Slot, SpaceOf, Step, Type, TypeOf,
    Value,
};

type Result<T> = std::result::Result<T, String>;

/// Parses the column.
pub(super) fn operands(sets: &'static Sets, slots: &[Slot], text: &'static str) -> Result<Vec<OperandSpec>> {
    Reader { text, at: 0, slots, sets, groups: 0 }.operands("")
}

/// A recursive-descent parser of the operand column.
struct Reader<'a> {
    text: &'static str,
    at: usize,
    slots: &'a [Slot],
    sets: &'static Sets,
    groups: u8,
}

impl Reader<'_> {
    fn rest(&self) -> &'static str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        while self.text.as_bytes().get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    fn eat(&mut self, what: &str) -> bool {
        self.blanks();
        let found = self.begins(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// Returns true if this stands next.
    fn begins(&self, what: &str) -> bool {
        self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(what.as_bytes()))
    }

    fn need(&mut self, what: &str) -> Result<()> {
        if self.eat(what) { Ok(()) } else { Err(format!("expected `{what}` before `{}`", self.rest())) }
    }

    fn take(&mut self, part_of: fn(&u8) -> bool) -> &'static str {
        self.blanks();
        let bytes = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let end = self.at + bytes.iter().take_while(|byte| part_of(byte)).count();
        let word = self.text.get(self.at..end).unwrap_or_default();
        self.at = end;
        word
    }

    fn word(&mut self) -> &'static str {
        self.take(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'))
    }

    /// Operands up to `close` (not eaten).
    fn operands(&mut self, close: &str) -> Result<Vec<OperandSpec>> {
        let mut out = Vec::new();
        loop {
            self.blanks();
            if self.rest().is_empty() || !close.is_empty() && self.begins(close) {
                return Ok(out);
            }
            if self.begins("{,") || self.begins("{ ,") {
                self.optional_group(&mut out)?;
            } else {
                out.push(self.operand()?);
            }
            self.eat(",");
        }
    }

    fn optional_group(&mut self, out: &mut Vec<OperandSpec>) -> Result<()> {
        self.need("{")?;
        self.need(",")?;
        self.groups += 1;
        let group = self.groups;
        let mut inside = self.operands("}")?;
        inside.iter_mut().for_each(|o| o.group = group);
        out.extend(inside);
        self.need("}")
    }

    fn operand(&mut self) -> Result<OperandSpec> {
        let first = self.single()?;
        let optional = self.begins("{|");
        if !optional && !self.begins("|") {
            return Ok(first);
        }
        self.at += if optional { 2 } else { 1 };
        let mut second = self.single()?;
        if optional {
            second.group = 1;
            self.need("}")?;
        }
        let (name, access) = (first.name, first.access);
        Ok(OperandSpec { name, access, group: 0, kind: OperandKind::Pair(Box::new(first), Box::new(second)) })
    }

    fn single(&mut self) -> Result<OperandSpec> {
        if self.eat("[") {
            return self.memory();
        }
        if self.eat("{") {
            let inside = self.operands("}")?;
            self.need("}")?;
            let (name, access) = inside.first().map_or(("", Access::Read), |o| (o.name, o.access));
            return Ok(OperandSpec { name, access, group: 0, kind: OperandKind::Group(inside) });
        }
        let access = if self.eat("=") {
            Access::Write
        } else if self.eat("+") {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let name = self.word();
        self.need(":")?;
        let kind = self.kind(access)?;
        Ok(OperandSpec { name, access, group: 0, kind })
    }

    fn memory(&mut self) -> Result<OperandSpec> {
        let name = self.word();
        let space = if self.eat(":") { self.space()? } else { SpaceOf::Generic };
        self.blanks();
        let more = self.begins("{,") || self.eat(",");
        let rest = if more { self.operands("]")? } else { Vec::new() };
        self.need("]")?;
        let (element, unified, bare) = (self.eat("[]"), self.eat(".unified"), self.eat("?"));
        let (narrow, short) = (self.eat("+"), self.short()?);
        let handles = self.handles();
        Ok(OperandSpec {
            name,
            access: Access::Read,
            group: 0,
            kind: OperandKind::Memory { space, rest, unified, bare, element, narrow, short, handles },
        })
    }

    /// `!`, `!generic`, `!sm_100`, `!generic&sm_100` or nothing.
    fn short(&mut self) -> Result<Short> {
        if !self.eat("!") {
            return Ok(Short::default());
        }
        let whole = self.eat("generic");
        self.eat("&");
        let from = match self.begins("sm_") {
            true => Some(self.word().parse().map_err(|()| "no target behind `!`")?),
            false => None,
        };
        Ok(Short { refused: true, whole, from })
    }

    /// `~`, `~!generic` or nothing.
    fn handles(&mut self) -> Handles {
        match (self.eat("~"), self.eat("!generic")) {
            (false, _) => Handles::Refused,
            (true, true) => Handles::InSpaces,
            (true, false) => Handles::Taken,
        }
    }

    fn space(&mut self) -> Result<SpaceOf> {
        let text = self.space_words();
        let slot = self.slots.iter().position(|s| s.name == text);
        let ty = self.sets.table.type_names.get(text).copied();
        Ok(match (slot, ty) {
            (Some(slot), _) if self.eat("=") => SpaceOf::Slot(slot, self.space_words().split('/').collect()),
            (Some(slot), _) => SpaceOf::Slot(slot, Vec::new()),
            (None, Some(ty)) => SpaceOf::Register(ty),
            (None, None) => SpaceOf::Fixed(text.split('/').collect()),
        })
    }

    fn space_words(&mut self) -> &'static str {
        self.take(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'/'))
    }

    fn kind(&mut self, access: Access) -> Result<OperandKind> {
        let register_only = self.eat("%");
        let literal_only = self.eat("#");
        let negatable = self.eat("!") || self.eat("-");
        let word = self.word();
        Ok(match word {
            "label" => OperandKind::Label,
            "func" => OperandKind::Func,
            "list" => OperandKind::List,
            "callee" => OperandKind::Callee,
            "branches" => OperandKind::Branches,
            "callees" => OperandKind::Callees,
            "symbol" if self.eat("[") => {
                let space = self.space()?;
                self.need("]")?;
                OperandKind::Symbol(space)
            }
            "symbol" => OperandKind::Symbol(SpaceOf::Generic),
            _ => OperandKind::Value(Value {
                // A result of exactly this type, and not of the slot that names it: among those ptxas takes predicates.
                ty: if register_only && access != Access::Read { self.fixed(word)? } else { self.type_of(word)? },
                count: self.count()?,
                range: self.range()?,
                wider: self.eat("+"),
                sink: self.eat("~"),
                special: self.eat("$"),
                address: self.eat("!"),
                selectors: self.selectors()?,
                register: !literal_only,
                literal: !register_only && access == Access::Read,
                negatable,
            }),
        })
    }

    fn type_of(&mut self, word: &str) -> Result<TypeOf> {
        let made =
            [("wide", Shift::Wide), ("bits", Shift::Bits), ("signed", Shift::Signed), ("unsigned", Shift::Unsigned)];
        if let Some((_, shift)) = made.iter().find(|(name, _)| *name == word) {
            self.need("(")?;
            let slot = self.slot()?;
            self.need(")")?;
            return Ok(TypeOf::Made(*shift, slot));
        }
        if let Some(slot) = self.slots.iter().position(|s| s.name == word && s.members.iter().any(|m| m.ty.is_some())) {
            return Ok(TypeOf::Slot(slot));
        }
        self.fixed(word)
    }

    fn fixed(&self, word: &str) -> Result<TypeOf> {
        let ty: Option<Type> = self.sets.table.type_names.get(word).copied();
        ty.map(TypeOf::Fixed).ok_or_else(|| format!("no type or slot `{word}`"))
    }

    fn slot(&mut self) -> Result<usize> {
        let word = self.word();
        self.slots.iter().position(|s| s.name == word).ok_or_else(|| format!("no slot `{word}`"))
    }

    /// `*4`, `*vec`, `*shape/2`, `*num*4`, `*{vec}`, `*{dim-1}`, `*geom..4`
    fn count(&mut self) -> Result<Option<Count>> {
        let mut count = Count { slot: None, times: 1, over: 1, minus: 0, most: None, braces: false };
        let mut any = false;
        loop {
            if self.eat("*") {
                let braces = self.eat("{");
                count.braces |= braces;
                self.factor(&mut count)?;
                if braces {
                    self.more_factors(&mut count)?;
                    self.need("}")?;
                }
            } else if any && self.eat("/") {
                count.over *= self.number()?;
            } else if any && self.eat("..") {
                count.most = Some(self.number()?);
            } else {
                return Ok(any.then_some(count));
            }
            any = true;
        }
    }

    fn more_factors(&mut self, count: &mut Count) -> Result<()> {
        loop {
            if self.eat("*") {
                self.factor(count)?;
            } else if self.eat("/") {
                count.over *= self.number()?;
            } else if self.eat("-") {
                count.minus += self.number()?;
            } else if self.eat("..") {
                count.most = Some(self.number()?);
            } else {
                return Ok(());
            }
        }
    }

    fn factor(&mut self, count: &mut Count) -> Result<()> {
        self.blanks();
        if self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_digit) {
            count.times *= self.number()?;
        } else {
            let word = self.take(|c| c.is_ascii_alphanumeric() || *c == b'_');
            let slot = self.slots.iter().position(|s| s.name == word);
            count.slot = Some(slot.ok_or_else(|| format!("no slot `{word}`"))?);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u32> {
        let digits = self.take(u8::is_ascii_digit);
        digits.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("not a count: `{digits}`"))
    }

    /// `(0..31)`, `(24..256:8)`, `(32..512:*2)`, `(0)`, `(0..15%32)`
    fn range(&mut self) -> Result<Option<Range>> {
        if !self.eat("(") {
            return Ok(None);
        }
        let inside = self.take(|c| *c != b')');
        self.need(")")?;
        let (inside, wraps) = inside.strip_suffix("%32").map_or((inside, false), |inside| (inside, true));
        let (bounds, step) = inside.split_once(':').unwrap_or((inside, "1"));
        let (lo, hi) = bounds.split_once("..").unwrap_or((bounds, bounds));
        let step = match step.trim() {
            "*2" => Some(Step::Double),
            number => number.parse().ok().filter(|n| *n > 0).map(Step::Add),
        };
        match (lo.trim().parse(), hi.trim().parse(), step) {
            (Ok(lo), Ok(hi), Some(step)) if step != Step::Double || lo > 0 => Ok(Some(Range { lo, hi, step, wraps })),
            _ => Err(format!("not a range: ({inside})")),
        }
    }

    fn selectors(&mut self) -> Result<&'static [Member]> {
        if !self.eat("@") {
            return Ok(&[]);
        }
        let name = self.word();
        self.sets.set(name).ok_or_else(|| format!("no set `{name}` of selectors"))
    }
}
