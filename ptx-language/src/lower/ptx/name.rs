//! Names among the operands of `ptx!`: registers, arrays, parameters, memory, constants, labels.

use super::{Brace, Copy, Lowerer};
use crate::lower::expr::one_of;
use crate::lower::literal;
use crate::lower::splice::{self, Index};
use crate::scope::{Access, Binding};
use crate::tree::{Expr, ExprKind, Ident, Path};
use crate::types::{Const, Ty};
use crate::value::{Value, count_parts, part};
use ptx_core::diag::codes;
use ptx_core::isa;
use ptx_core::span::Span;
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

impl<'a> Lowerer<'a> {
    /// Writes what the name at the cursor stands for.
    pub(super) fn resolve(&mut self, copy: &mut Copy<'_>) {
        let text = copy.text(copy.at).to_owned();
        if let Some(emitted) = self.scopes.find_verbatim(&text).map(str::to_owned) {
            return self.write(copy, &emitted, 1);
        }
        let name = text.strip_prefix('%').unwrap_or(&text);
        if text == "_" || self.is_special(copy, &text) {
            return self.verbatim(copy);
        }
        let found = self.scopes.find(name);
        let access = found.as_ref().map_or(Access::Own, |found| found.access);
        match found.map(|found| (found.binding, found.outside)) {
            Some((Binding::Value(value), true)) if !value.is_anywhere() => {
                self.outside(name, copy.span());
                self.verbatim(copy);
            }
            Some((Binding::Param(_) | Binding::Arguments(_), true)) => {
                self.outside(name, copy.span());
                self.verbatim(copy);
            }
            Some((Binding::Value(value), _)) => {
                let (name, at) = (name.to_owned(), copy.at);
                self.resolve_value(copy, value);
                self.note_fixed(&name, access, copy.since(at));
            }
            Some((Binding::Param(index), _)) => {
                let (name, at) = (name.to_owned(), copy.at);
                self.resolve_param(copy, index);
                self.note_fixed(&name, access, copy.since(at));
            }
            Some((Binding::Arguments(index), _)) => self.resolve_argument(copy, index),
            Some((Binding::Const(_), _)) => {
                let path = Path::name(Ident { name: name.to_owned(), span: copy.span() });
                let value = self.require_constant(&Expr { kind: ExprKind::Path(path), span: copy.span() });
                self.resolve_value(copy, value.map_or(Value::Error, Value::Const));
            }
            Some((Binding::Function(function), _)) => self.resolve_function(copy, function),
            Some((Binding::Error, _)) => {
                self.refuse(copy.span());
                self.verbatim(copy);
            }
            Some((Binding::Type(_) | Binding::Struct(_) | Binding::Module(_), _)) => {
                let help = format!("in a modifier write `.{{{name}}}`");
                self.fail(&codes::P0820, copy.span(), format!("`{name}` is no operand"), help);
                self.verbatim(copy);
            }
            None => self.unresolved(copy, &text),
        }
    }

    fn outside(&mut self, name: &str, span: Span) {
        let message = format!("`{name}` is a register of the function around this one");
        self.fail(&codes::P0801, span, message, "pass it as an argument");
    }

    fn is_special(&self, copy: &Copy<'_>, text: &str) -> bool {
        if !text.starts_with('%') {
            return false;
        }
        let specials = &isa::table().specials;
        specials.contains_key(text) || specials.contains_key(format!("{text}{}", copy.text(copy.at + 1)).as_str())
    }

    /// A name that means nothing: perhaps a special register without its `%`, or something of PTX's own.
    fn unresolved(&mut self, copy: &mut Copy<'_>, text: &str) {
        let specials = &isa::table().specials;
        let whole = format!("%{text}{}", copy.text(copy.at + 1));
        let declared = self.out.declared.contains(text);
        if specials.contains_key(whole.as_str()) || !declared && specials.contains_key(format!("%{text}").as_str()) {
            return self.write(copy, &format!("%{text}"), 1);
        }
        let unchecked = copy.braces.iter().any(|brace| matches!(brace, Brace::Unchecked(_)));
        let own = copy.statement.foreign || unchecked || declared || text == "WARP_SZ" || text.starts_with('%');
        if !own {
            self.unknown(text, copy.meant(), copy.span());
        }
        self.verbatim(copy);
    }

    fn resolve_function(&mut self, copy: &mut Copy<'_>, function: &'a crate::tree::Function) {
        if !function.generics.is_empty() {
            let help = "call it as a statement: `f::<4>(a)`";
            self.fail(&codes::P0820, copy.span(), "a generic helper has no single name in the PTX", help);
            return self.verbatim(copy);
        }
        let caller = self.scopes.current;
        let home = self.scopes.find(&function.name.name).map_or(caller, |found| found.scope);
        let inner = self.scopes.open(Some(home), true);
        let name = self.outlined(function, inner);
        self.scopes.close(inner, caller);
        let text = name.unwrap_or_else(|| function.name.name.clone());
        self.write(copy, &text, 1);
    }

    /// In `ld.param` a parameter is its symbol, elsewhere its value.
    fn resolve_param(&mut self, copy: &mut Copy<'_>, index: usize) {
        let Some((symbol, structure)) = self.f.params.get(index).map(|p| (p.symbol.clone(), p.structure().is_some()))
        else {
            return self.verbatim(copy);
        };
        // What `st.param` stores is a value.
        let stored = copy.statement.opcode == "st" && !copy.is(copy.at - 1, b'[');
        if self.f.raw || copy.statement.param && !stored {
            return self.write(copy, &symbol, 1);
        }
        if !structure {
            let value = self.param_value(index, copy.span());
            return self.resolve_value(copy, value);
        }
        let field = copy.text(copy.at + 1).trim_start_matches('.').to_owned();
        if copy.at + 1 < copy.end && copy.source.kind(copy.at + 1) == Kind::Dot {
            self.resolve_field(copy, index, &field);
        } else {
            self.write(copy, &symbol, 1);
        }
    }

    /// `inputs.x`, or `inputs.shape.rows` where a field is a struct.
    fn resolve_argument(&mut self, copy: &mut Copy<'_>, arguments: usize) {
        let span = copy.span();
        let name = copy.text(copy.at).trim_start_matches('%').to_owned();
        let is_field = copy.at + 1 < copy.end && copy.source.kind(copy.at + 1) == Kind::Dot;
        let first = is_field.then(|| copy.text(copy.at + 1).trim_start_matches('.').to_owned());
        let ident = |name: &str| Ident { name: name.to_owned(), span };
        let path = Path::name(ident(&name));
        let mut expr = Expr { kind: ExprKind::Path(path), span };
        let mut count: TokenId = 1;
        while copy.at + count < copy.end && copy.source.kind(copy.at + count) == Kind::Dot {
            for part in copy.text(copy.at + count).split('.').skip(1) {
                expr = Expr { kind: ExprKind::Field(Box::new(expr), ident(part)), span };
            }
            count += 1;
            let is_symbol = self.f.raw || copy.statement.param;
            let value = match (self.argument_field(&expr), self.struct_field(&expr)) {
                (Some(index), _) if is_symbol => return self.write(copy, &self.param_symbol(index), count),
                (Some(index), _) if self.is_struct_param(index) => continue,
                (Some(index), _) => self.param_value(index, span),
                (None, Some(field)) => self.field_value(&field, span),
                (None, None) => break,
            };
            return self.write_value(copy, value, count);
        }
        self.unknown_argument(arguments, (&name, first.as_deref()), span);
        self.verbatim(copy);
    }

    /// `params.scale`, `params.shape.rows`
    fn resolve_field(&mut self, copy: &mut Copy<'_>, index: usize, field: &str) {
        let span = copy.span();
        let name = copy.text(copy.at).trim_start_matches('%').to_owned();
        let ident = |name: &str| Ident { name: name.to_owned(), span };
        let path = Path::name(ident(&name));
        let mut expr = Expr { kind: ExprKind::Path(path), span };
        let mut count: TokenId = 1;
        while copy.at + count < copy.end && copy.source.kind(copy.at + count) == Kind::Dot {
            for part in copy.text(copy.at + count).split('.').skip(1) {
                expr = Expr { kind: ExprKind::Field(Box::new(expr), ident(part)), span };
            }
            count += 1;
            if self.struct_field(&expr).is_some() {
                break;
            }
        }
        let value = match self.struct_field(&expr) {
            Some(found) => self.field_value(&found, span),
            None => self.unknown_field(index, field, span),
        };
        self.write_value(copy, value, count);
    }

    fn resolve_value(&mut self, copy: &mut Copy<'_>, value: Value) {
        self.write_value(copy, value, 1);
    }

    /// Writes a value in place of `count` tokens and of the indices that follow.
    fn write_value(&mut self, copy: &mut Copy<'_>, mut value: Value, mut count: TokenId) {
        loop {
            let next = copy.at + count;
            let indexed = matches!(value, Value::Array(_) | Value::List(..) | Value::Const(Const::Array(_)));
            if indexed && copy.is(next, b'[') {
                let Some(close) = copy.closing(next, b'[', b']') else { break };
                let (text, span) = (copy.between(next, close), copy.source.span(next).to(copy.source.span(close)));
                count = close - copy.at + 1;
                match self.indexed(&value, &text, span) {
                    Ok(one) => value = one,
                    Err(list) => return self.write(copy, &list, count),
                }
                continue;
            }
            if copy.is(next, b'[') && matches!(value, Value::Address(_) | Value::Reg(_)) {
                return self.refuse_index(copy, &value, next);
            }
            if copy.text(next).starts_with('.') && copy.is(next + 1, b'(') {
                return self.refuse_call(copy, next);
            }
            let Some(path) = copy.text(next).strip_prefix('.').filter(|_| has_fields(&value)) else { break };
            value = self.dotted(value, path, copy.source.span(next));
            count += 1;
        }
        let in_brackets = copy.at > 0 && copy.is(copy.at - 1, b'[');
        let text = match &value {
            Value::Address(address) if in_brackets => {
                self.note_address(address, copy.source.span(copy.at).to(copy.source.span(copy.at + count - 1)));
                Some(address.text())
            }
            _ => self.operand_text(&value, copy.span()),
        };
        let text = text.unwrap_or_else(|| copy.text(copy.at).to_owned());
        self.write(copy, &text, count);
    }

    /// Reports the call of the method at `method`.
    fn refuse_call(&mut self, copy: &mut Copy<'_>, method: TokenId) {
        let close = copy.closing(method + 1, b'(', b')').unwrap_or(method + 1);
        let name = copy.text(method).rsplit('.').next().unwrap_or_default();
        let message = format!("`{name}` is a method, and `ptx!` calls none");
        self.refuse_up_to(
            copy,
            close,
            message,
            "call it in front: `let at = …;`, or `const` if it is a constant".to_owned(),
        );
    }

    /// Reports the index at `open` behind an address or a register.
    fn refuse_index(&mut self, copy: &mut Copy<'_>, value: &Value, open: TokenId) {
        let close = copy.closing(open, b'[', b']').unwrap_or(open);
        let name = copy.text(copy.at);
        let help = match value {
            Value::Address(_) => format!("write `let at = {name}.at(…);` in front, and `[at]` here"),
            _ => format!("write `{name}`"),
        };
        self.refuse_up_to(copy, close, format!("`{name}` is no array of registers"), help);
    }

    /// Reports the tokens from the cursor to `close`, which are one operand, and writes its name alone.
    fn refuse_up_to(&mut self, copy: &mut Copy<'_>, close: TokenId, message: String, help: String) {
        let span = copy.source.span(copy.at).to(copy.source.span(close));
        self.fail(&codes::P0820, span, message, help);
        self.refuse(span);
        let text = copy.text(copy.at).to_owned();
        self.write(copy, &text, close + 1 - copy.at);
    }

    /// `.stage`, or `.pair.0`, of a value.
    fn dotted(&mut self, value: Value, path: &str, span: Span) -> Value {
        let mut value = value;
        for field in path.split('.') {
            value = match value.field(field) {
                Some(part) => part,
                None => self.no_field(&value, field, span),
            };
        }
        value
    }

    fn operand_text(&mut self, value: &Value, span: Span) -> Option<String> {
        match value {
            Value::Reg(reg) => Some(reg.name.clone()),
            Value::Const(Const::Array(_) | Const::Tuple(_) | Const::Struct(..))
            | Value::Array(_)
            | Value::Tuple(_)
            | Value::Struct(..)
            | Value::List(..) => {
                let help = match value.ty() {
                    Some(Ty::Struct(_)) => one_of(value),
                    _ => "name one element, `acc[0]`, or all of them, `{acc[..]}`".to_owned(),
                };
                self.fail(&codes::P0820, span, format!("{} is no operand", value.describe()), help);
                None
            }
            Value::Const(value) => Some(literal::spliced(value)),
            Value::Address(address) if address.offset == 0 => Some(address.text()),
            Value::Address(address) => {
                let message = format!("this address is `{}`, which stands only in brackets", address.text());
                self.fail(&codes::P0820, span, message, "give it a register: `let at = …;`");
                None
            }
            Value::Error => {
                self.refuse(span);
                None
            }
        }
    }

    /// The declaration of a name has been refused before: reports nothing more about it.
    fn refuse(&mut self, span: Span) {
        let span = self.at(span);
        self.out.refused.push(span);
    }

    /// One element, or the text of a list of them.
    fn indexed(&mut self, value: &Value, text: &str, span: Span) -> Result<Value, String> {
        let Some(parsed) = splice::index(text, span) else {
            let help = "write a constant, `acc[3]`, or a range, `{acc[0..4]}`";
            return Ok(self.fail(&codes::P0820, span, format!("`{}` is no index", text.trim()), help));
        };
        let len = count_parts(value) as u64;
        match parsed {
            Index::One(at) => Ok(self.one(value, &at, span)),
            Index::Range(bounds, inclusive) => {
                let [from, to] = *bounds;
                let from = from.map_or(Some(0), |from| self.count(&from));
                let to = to.map_or(Some(len), |to| self.count(&to));
                let (Some(from), Some(to)) = (from, to) else { return Err(String::new()) };
                let to = to + u64::from(inclusive);
                if from <= to && to <= len {
                    return Err(self.list(value, from..to, span));
                }
                self.range_past_the_end(from, to, len, span);
                Err(String::new())
            }
        }
    }

    fn one(&mut self, value: &Value, at: &Expr, span: Span) -> Value {
        let Some(at) = self.count(at) else { return Value::Error };
        match usize::try_from(at).ok().and_then(|at| part(value, at)) {
            Some(value) => value,
            None => self.past_the_end(at.into(), count_parts(value) as u64, span),
        }
    }

    fn list(&mut self, value: &Value, elements: Range<u64>, span: Span) -> String {
        if let Value::Array(array) = value
            && matches!(array.element, Ty::Scalar(_) | Ty::Array(..))
        {
            return array.names(elements.start, elements.end).join(", ");
        }
        let mut names = Vec::new();
        for part in elements.filter_map(|at| part(value, usize::try_from(at).ok()?)) {
            match part {
                Value::Array(array) => names.extend(array.names(0, array.len)),
                other => names.extend(self.operand_text(&other, span)),
            }
        }
        names.join(", ")
    }
}

/// Returns true if `.name` behind the value means a part of it.
fn has_fields(value: &Value) -> bool {
    match value {
        Value::Tuple(_) | Value::Struct(..) | Value::Const(Const::Tuple(_) | Const::Struct(..)) => true,
        Value::Address(address) => matches!(address.ty.element, Ty::Struct(_)),
        _ => false,
    }
}
