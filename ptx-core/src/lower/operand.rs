//! Operands: expressions of the tree to [`Operand`]s, with names resolved. The instruction's form is not known yet.

use super::body::Body;
use super::constant::{self, Constant, Float};
use super::names::Entity;
use super::report;
use crate::ir::{Base, Element, Index, Operand, RegId, Symbol};
use crate::isa::{Class, SpecialRegister, table};
use crate::syntax::{ExprId, ExprKind, ExprList};

impl<'t> Body<'_, 't> {
    /// An operand as written.
    pub(super) fn operand(&mut self, id: ExprId) -> Operand {
        let tree = self.cx.tree;
        match &tree.expr(id).kind {
            ExprKind::Name => self.name(id),
            ExprKind::Int(value) => Operand::Int(*value),
            ExprKind::Unary(b'!', x) if self.is_register(*x) => Operand::Not(Box::new(self.operand(*x))),
            ExprKind::Unary(b'-', x) if self.is_register(*x) => Operand::Neg(Box::new(self.operand(*x))),
            ExprKind::Braces(list) => {
                Operand::Vector(tree.list(list).iter().map(|e| unwrapped(self.argument(*e))).collect())
            }
            ExprKind::Brackets(list) => self.memory(id, list),
            ExprKind::Select(address, field) if tree.source.text(*field) == ".unified" => {
                match tree.expr(*address).kind {
                    // Behind an element ptxas ignores it.
                    ExprKind::Index(..) => self.operand(*address),
                    _ => Operand::Unified(Box::new(self.operand(*address))),
                }
            }
            ExprKind::Pair(a, b) => Operand::Pair(Box::new(self.operand(*a)), Box::new(self.operand(*b))),
            ExprKind::Index(array, index) => self.element(id, *array, *index),
            ExprKind::Group(list) => {
                Operand::List(tree.list(list).iter().map(|e| unwrapped(self.argument(*e))).collect())
            }
            ExprKind::Error => Operand::Error,
            _ => self.sum(id),
        }
    }

    pub(super) fn operands(&mut self, list: &ExprList) -> Vec<Operand> {
        let tree = self.cx.tree;
        tree.list(list).iter().map(|e| self.operand(*e)).collect()
    }

    /// An operand of a list in parentheses, braces or brackets: no sums with names.
    fn argument(&mut self, id: ExprId) -> Operand {
        let tree = self.cx.tree;
        if matches!(tree.expr(id).kind, ExprKind::Binary(..)) && constant::value(tree, id).is_none() {
            self.cx.diagnostics.push(report::not_an_operand(tree.span(&tree.expr(id).tokens)));
            return Operand::Error;
        }
        self.operand(id)
    }

    fn is_register(&self, id: ExprId) -> bool {
        let tree = self.cx.tree;
        matches!(tree.expr(id).kind, ExprKind::Name) && !constant::is_warp_size(tree, id)
    }

    /// A constant, or a symbol with a constant added.
    fn sum(&mut self, id: ExprId) -> Operand {
        match constant::value(self.cx.tree, id) {
            Some(Constant::Signed(value)) => return Operand::Int(value.cast_unsigned()),
            Some(Constant::Unsigned(value)) => return Operand::Int(value),
            Some(Constant::Float(Float::Single(bits))) => return Operand::F32(bits),
            Some(Constant::Float(Float::Double(bits))) => return Operand::F64(bits),
            None => {}
        }
        match self.address(id) {
            Some((Base::Symbol(symbol), offset)) => Operand::Symbol(symbol, offset),
            Some((Base::Reg(reg), offset)) => Operand::Sum(reg, offset),
            Some((Base::Absolute, _)) => Operand::Error,
            _ => {
                let span = self.cx.tree.span(&self.cx.tree.expr(id).tokens);
                self.cx.diagnostics.push(report::not_an_operand(span));
                Operand::Error
            }
        }
    }

    /// `base + offset`; a name that cannot be resolved is reported.
    fn address(&mut self, id: ExprId) -> Option<(Base, i64)> {
        let tree = self.cx.tree;
        if let Some(value) = constant::integer(tree, id) {
            return Some((Base::Absolute, value));
        }
        match &tree.expr(id).kind {
            ExprKind::Name => match self.name(id) {
                Operand::Reg(reg) => Some((Base::Reg(reg), 0)),
                Operand::Symbol(symbol, offset) => Some((Base::Symbol(symbol), offset)),
                Operand::Func(func) => Some((Base::Symbol(Symbol::Func(func)), 0)),
                Operand::Error => Some((Base::Absolute, 0)),
                _ => None,
            },
            ExprKind::Binary(op, a, b) if op[0] == b'+' => {
                let (base, offset) = self.address(*a)?;
                Some((base, offset.wrapping_add(constant::integer(tree, *b)?)))
            }
            _ => None,
        }
    }

    fn memory(&mut self, id: ExprId, list: &ExprList) -> Operand {
        let tree = self.cx.tree;
        let span = tree.span(&tree.expr(id).tokens);
        let Some((first, rest)) = tree.list(list).split_first() else {
            self.cx.diagnostics.push(report::not_an_address(span));
            return Operand::Error;
        };
        let before = self.cx.diagnostics.len();
        let address = self.address(*first);
        if self.cx.diagnostics.len() > before {
            return Operand::Error;
        }
        let rest = rest.iter().map(|e| unwrapped(self.argument(*e))).collect();
        match address {
            Some((base, offset)) => Operand::Memory { base, offset, rest },
            None => {
                self.cx.diagnostics.push(report::not_an_address(span));
                Operand::Error
            }
        }
    }

    /// `array[index]`
    fn element(&mut self, id: ExprId, array: ExprId, index: ExprId) -> Operand {
        let before = self.cx.diagnostics.len();
        let (array, index) = (self.name(array), self.index(index));
        let tree = self.cx.tree;
        let span = tree.span(&tree.expr(id).tokens);
        if self.cx.diagnostics.len() > before {
            return Operand::Error;
        }
        let variable = match array {
            Operand::Symbol(Symbol::Var(array), _) => self.cx.module.variables.get(array.index()).map(|v| (array, v)),
            _ => None,
        };
        let Some((array, variable)) = variable.filter(|(_, variable)| !variable.dims.is_empty()) else {
            self.cx.diagnostics.push(report::not_an_array(span));
            return Operand::Error;
        };
        let size = variable.ty.bits() / 8;
        let offset = |index: i64| i64::from((index as i32).wrapping_mul(size as i32));
        match index {
            Some((None, index)) => Operand::Element(Base::Symbol(Symbol::Var(array)), offset(index)),
            Some((Some(index), more)) => Operand::Element(Base::Element(Element { array, index, size }), offset(more)),
            None => {
                self.cx.diagnostics.push(report::not_an_index(span));
                Operand::Error
            }
        }
    }

    /// The index of an element: a number, or a name and a number that is added.
    fn index(&mut self, id: ExprId) -> Option<(Option<Index>, i64)> {
        let tree = self.cx.tree;
        if let Some(value) = constant::integer(tree, id) {
            return Some((None, value));
        }
        match &tree.expr(id).kind {
            ExprKind::Name => match self.name(id) {
                Operand::Reg(register) if self.counts(register) => Some((Some(Index::Reg(register)), 0)),
                Operand::Special(special) if special.is_integer() => Some((Some(Index::Special(special)), 0)),
                Operand::Symbol(symbol, _) => Some((Some(Index::Symbol(symbol)), 0)),
                _ => None,
            },
            ExprKind::Binary(op, a, b) if op[0] == b'+' => {
                let (index, offset) = self.index(*a)?;
                Some((index, offset.wrapping_add(constant::integer(tree, *b)?)))
            }
            _ => None,
        }
    }

    /// Returns true for a register of one integer.
    fn counts(&self, register: RegId) -> bool {
        self.function.registers.get(register.index()).is_none_or(|register| {
            let integer = matches!(register.ty.class(), Class::Signed | Class::Unsigned | Class::Bits);
            integer && register.vector == 1 && register.ty.bits() <= 64
        })
    }

    fn name(&mut self, id: ExprId) -> Operand {
        let tree = self.cx.tree;
        let tokens = &tree.expr(id).tokens;
        let first = tree.source.text(tokens.start);
        if first == "_" && tokens.len() == 1 {
            return Operand::Sink;
        }
        let (whole, suffix) = match tokens.len() {
            1 => (None, None),
            _ => (Some(tree.compact(tokens)), Some(tree.compact(&(tokens.start + 1..tokens.end)))),
        };
        if let Some(found) = self.cx.names.find(first, &mut self.function.registers) {
            let found = self.not_yet(found).then(|| self.cx.names.outer(first)).flatten().unwrap_or(found);
            return self.entity(found, suffix.as_deref(), id);
        }
        if let Some(special) = special(whole.as_deref().unwrap_or(first)) {
            return Operand::Special(special);
        }
        if whole.as_deref().unwrap_or(first) == "WARP_SZ" {
            return Operand::Int(32);
        }
        let hint = self.cx.names.hint(first).or_else(|| {
            let specials = table().specials.keys().copied();
            let near = crate::diag::near::nearest(whole.as_deref().unwrap_or(first), specials)?;
            Some(format!("did you mean `{near}`?"))
        });
        let name = whole.unwrap_or_else(|| first.to_owned());
        self.cx.diagnostics.push(report::unknown_name(&name, hint, tree.span(tokens)));
        Operand::Error
    }

    /// Returns true if it stands further down: until there, ptxas takes the name for what it is outside.
    fn not_yet(&self, entity: Entity) -> bool {
        match entity {
            Entity::Label(id) => self.function.labels.get(id.index()).is_some_and(|label| label.at == u32::MAX),
            _ => self.ahead.contains(&entity),
        }
    }

    pub(super) fn entity(&mut self, entity: Entity, suffix: Option<&str>, id: ExprId) -> Operand {
        match (entity, suffix) {
            _ if self.ahead.contains(&entity) => {
                let tokens = self.cx.tree.expr(id).tokens;
                let later = report::comes_later(&self.cx.tree.compact(&tokens), self.cx.tree.span(&tokens));
                self.cx.diagnostics.push(later);
                Operand::Error
            }
            (Entity::Reg(reg), None) => Operand::Reg(reg),
            (Entity::Reg(reg), Some(suffix)) => match bind_selector(suffix) {
                Some(selector) => Operand::Part(reg, selector),
                None => self.unknown_component(suffix, id),
            },
            (_, Some(suffix)) => self.unknown_component(suffix, id),
            (Entity::Var(var), _) => Operand::Symbol(Symbol::Var(var), 0),
            (Entity::Func(func), _) => Operand::Func(func),
            (Entity::Label(label), _) => Operand::Label(label),
            (Entity::Proto(proto), _) => Operand::Proto(proto),
            (Entity::Targets(targets), _) => Operand::Targets(targets),
        }
    }

    fn unknown_component(&mut self, suffix: &str, id: ExprId) -> Operand {
        let span = self.cx.tree.span(&self.cx.tree.expr(id).tokens);
        self.cx.diagnostics.push(report::unknown_component(suffix, span));
        Operand::Error
    }
}

/// `(5)` as a number; where a list may stand it stays a list of one.
pub(super) fn unwrapped(operand: Operand) -> Operand {
    match operand {
        Operand::List(mut list) if list.len() == 1 && list[0].is_literal() => list.remove(0),
        other => other,
    }
}

/// A special register by its name; components have the names of colors, too.
pub(super) fn special(name: &str) -> Option<&'static SpecialRegister> {
    let specials = &table().specials;
    specials.get(name).or_else(|| {
        let (base, _) = name.split_once('.')?;
        let component = bind_selector(&name[base.len()..])?;
        specials.get(format!("{base}.{component}").as_str())
    })
}

/// A component of a vector register or a selector of a video instruction, without its dot.
fn bind_selector(suffix: &str) -> Option<&'static str> {
    const COMPONENTS: &[(&str, &str)] =
        &[(".x", "x"), (".y", "y"), (".z", "z"), (".w", "w"), (".r", "x"), (".g", "y"), (".b", "z"), (".a", "w")];
    let component = COMPONENTS.iter().find(|(s, _)| *s == suffix).map(|(_, c)| *c);
    component.or_else(|| super::form::selector(suffix.trim_start_matches('.')))
}
