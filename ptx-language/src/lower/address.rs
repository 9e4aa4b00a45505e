//! Addresses: `p.at(i)`, `p.row(r)`, `p.field`, `p + bytes`. A constant joins the address and costs nothing; a register is
//! multiplied and added.

use super::Lowerer;
use crate::address::{Address, Base, Pitch};
use crate::operators::{self, Op};
use crate::scope::Binding;
use crate::tree::{BinaryOp, Expr, GenericArg, Ident, Path};
use crate::types::layout;
use crate::types::{self, AddressTy, Const, Space, Ty};
use crate::value::{Reg, Value};
use ptx_core::diag::{Diagnostic, codes, plural};
use ptx_core::isa::Type;
use ptx_core::span::Span;
use std::rc::Rc;

/// The methods of an address, for help.
const METHODS: &str = "there are `at(i)`, `at(row, column)`, `row(i)` and `cast::<u32>()`";

/// The help for `x.len()`.
const LENGTH: &str =
    "a kernel has the address alone: take the length as a parameter, `n: u32`, and require `x.len() >= n`";

impl<'a> Lowerer<'a> {
    /// The type `Global<f32>`, `Tmem`.
    pub(super) fn address_type(&mut self, path: &Path, span: Span) -> Option<Ty> {
        let [name] = path.segments.as_slice() else { return None };
        let (space, mutable) = Space::find(&name.name)?;
        let element = match (space, path.args.as_slice()) {
            (Space::Tensor, []) => Ty::Scalar(types::find("b32")?),
            (Space::Tensor, _) | (_, []) => {
                let example = if space == Space::Tensor { "Tmem".to_owned() } else { format!("{}<f32>", name.name) };
                let message = format!("`{}` takes {}", name.name, plural(usize::from(space != Space::Tensor), "type"));
                self.fail(&codes::P0811, span, message, format!("write `{example}`"));
                return None;
            }
            (_, [GenericArg::Type(ty)]) => self.ty(ty)?,
            _ => {
                let message = format!("`{}` takes the type of what it points to", name.name);
                self.fail(&codes::P0811, span, message, format!("write `{}<f32>`", name.name));
                return None;
            }
        };
        Some(Ty::Address(Rc::new(AddressTy { space, mutable, element })))
    }

    /// The address in a register: the one that holds it, or `dest`, or a temporary: `mov` of a variable, `add` of a constant.
    pub(super) fn materialized(&mut self, address: &Address, dest: Option<Reg>, span: Span) -> Option<Reg> {
        let ty = address.ty.space.register()?;
        match (&address.base, dest) {
            (Base::Register(name), None) if address.offset == 0 => Some(Reg { name: name.clone(), ty }),
            (Base::Register(name), Some(dest)) if address.offset == 0 && *name == dest.name => Some(dest),
            (Base::Register(name), dest) if address.offset != 0 => {
                let dest = dest.unwrap_or_else(|| self.temporary(ty));
                self.inst(&format!("add.{} {}, {name}, {}", types::name(ty), dest.name, address.offset), span);
                Some(dest)
            }
            (_, dest) => {
                let dest = dest.unwrap_or_else(|| self.temporary(ty));
                let as_bits = Type::find(&types::bits(ty)).filter(|_| dest.ty != ty).unwrap_or(ty);
                self.mov(&Reg { name: dest.name.clone(), ty: as_bits }, &address.text(), span);
                Some(dest)
            }
        }
    }

    /// The register that holds an address, as a place to write.
    pub(super) fn address_register(&self, address: &Address) -> Option<Reg> {
        let ty = address.ty.space.register()?;
        address.in_register().map(|name| Reg { name: name.to_owned(), ty })
    }

    /// The integer register that an address may be written to: one of its width.
    pub(super) fn holds_address(ty: &AddressTy, reg: &Reg) -> bool {
        ty.space.register().is_some_and(|own| own.bits() == reg.ty.bits()) && types::is_integer(reg.ty)
    }

    /// `p + bytes`, `p - q`, `p == q`.
    pub(super) fn operate_on_address(
        &mut self,
        op: Op,
        at: Span,
        (a, a_span): (&Value, Span),
        (b, b_span): (&Value, Span),
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let (Op::Binary(op), false) = (op, *a == Value::Error || *b == Value::Error) else { return Value::Error };
        let comparison = operators::is_comparison(op);
        match (op, a, b) {
            (BinaryOp::Add | BinaryOp::Sub, Value::Address(address), _) if !matches!(b, Value::Address(_)) => {
                self.moved_address(op, (address, a_span), (b, b_span), (at, dest), span)
            }
            (BinaryOp::Add, _, Value::Address(address)) if !matches!(a, Value::Address(_)) => {
                self.moved_address(op, (address, b_span), (a, a_span), (at, dest), span)
            }
            (_, Value::Address(x), Value::Address(y))
                if (op == BinaryOp::Sub || comparison) && AddressTy::common(&x.ty, &y.ty).is_some() =>
            {
                let whole = |lowerer: &mut Self, address: &Address, span| {
                    lowerer.materialized(address, None, span).map_or(Value::Error, Value::Reg)
                };
                let (x, y) = (whole(self, x, a_span), whole(self, y, b_span));
                self.operate(Op::Binary(op), at, (&x, a_span), (&y, b_span), dest, span)
            }
            _ => {
                let (x, y) = (a.describe(), b.describe());
                let message = format!("{x} {} {y} is not possible on addresses", operators::symbol(Op::Binary(op)));
                let help = match (a, b) {
                    (Value::Address(x), Value::Address(y))
                        if x.ty.space == y.ty.space && x.ty.element != y.ty.element =>
                    {
                        format!("change the type of the elements: `.cast::<{}>()`", x.ty.element.name())
                    }
                    (Value::Address(address), _) | (_, Value::Address(address)) => format!(
                        "an address is moved by bytes, `p + bytes`, or by elements, `p.at(i)`; {}",
                        Self::number_help(&address.ty)
                    ),
                    _ => String::new(),
                };
                self.report(Diagnostic::error(&codes::P0803, at, message).help(help));
                Value::Error
            }
        }
    }

    /// `p + bytes`: one `add`.
    fn moved_address(
        &mut self,
        op: BinaryOp,
        (address, address_span): (&Address, Span),
        (bytes, bytes_span): (&Value, Span),
        (at, dest): (Span, Option<&Value>),
        span: Span,
    ) -> Value {
        let Some(ty) = address.ty.space.register() else { return Value::Error };
        let fits = match bytes.ty().map(|ty| ty.scalar()) {
            None => matches!(bytes, Value::Const(Const::Int(..))),
            Some(scalar) => scalar.is_some_and(|own| own.bits() == ty.bits() && types::is_integer(own)),
        };
        if !fits {
            return self.no_bytes(address, bytes, at);
        }
        let base = Address {
            offset: if matches!(address.base, Base::Register(_)) { 0 } else { address.offset },
            ..address.clone()
        };
        let left = address.offset - base.offset;
        let Some(base) = self.materialized(&base, None, address_span) else { return Value::Error };
        let Some(bytes) = self.operand(bytes, ty, bytes_span) else { return Value::Error };
        let moved = |reg: &Reg| Address {
            offset: left,
            pitch: address.pitch.clone(),
            ..Address::register(reg.name.clone(), Rc::clone(&address.ty))
        };
        let Some(reg) = self.address_destination(dest, &address.ty, span) else { return Value::Error };
        let name = if op == BinaryOp::Add { "add" } else { "sub" };
        self.inst(&format!("{name}.{} {}, {}, {bytes}", types::name(ty), reg.name, base.name), span);
        let moved = moved(&reg);
        match dest {
            None => Value::Address(moved),
            Some(dest) if left == 0 => dest.clone(),
            Some(dest) => self.store(Value::Address(moved), Some(dest), span),
        }
    }

    fn no_bytes(&mut self, address: &Address, bytes: &Value, at: Span) -> Value {
        let (ty, own) = (address.ty.space.register().map(types::name).unwrap_or_default(), bytes.describe());
        let message = format!("`{}` is moved by bytes, a `{ty}`, and this is {own}", address.ty.name());
        let size = layout::size_of(address.ty.elements().0).unwrap_or(4);
        let help = match ty.as_str() {
            "u64" => format!("name the element, `p.at(i)`, or write its bytes, `p + wide(i) * {size}`"),
            _ => format!("name the element, `p.at(i)`, or write its bytes as `u32`, `p + i * {size}`"),
        };
        self.report(Diagnostic::error(&codes::P0802, at, message).help(help));
        Value::Error
    }

    /// The help where a value is no address of the type `to`.
    pub(super) fn address_help(value: &Value, to: &AddressTy) -> String {
        let written = to.name().replacen('<', "::<", 1);
        match value {
            Value::Address(from) if from.ty.space != to.space => {
                format!("addresses of different state spaces do not mix; {}", Self::number_help(to))
            }
            Value::Address(from) if from.ty.element != to.element => {
                format!("change the type of the elements: `.cast::<{}>()`", to.element.name())
            }
            Value::Address(_) => AddressTy::TO_WRITE.to_owned(),
            _ if matches!(to.space, Space::Local | Space::Const) => {
                "such an address comes from a variable alone".to_owned()
            }
            _ => format!("an address comes from a parameter, a variable, or `{written}::from_addr(r)`"),
        }
    }

    /// The way from an address to a number.
    pub(super) fn number_help(ty: &AddressTy) -> String {
        format!("as a number it is `p as {}`", ty.number_name())
    }

    /// `c.select(p, q)`: one `selp`, behind the `add` or `mov` of an address that no register holds yet.
    pub(super) fn select_address(
        &mut self,
        c: &Value,
        (a, a_span): (&Value, Span),
        (b, b_span): (&Value, Span),
        (at, dest): (Span, Option<&Value>),
        span: Span,
    ) -> Value {
        let common = match (a, b) {
            (Value::Address(x), Value::Address(y)) => AddressTy::common(&x.ty, &y.ty).map(|ty| (x, y, ty)),
            _ => None,
        };
        let (x, y, ty) = match (a, b, common) {
            (Value::Error, ..) | (_, Value::Error, _) => return Value::Error,
            (_, _, Some(common)) => common,
            (Value::Address(x), other, None) | (other, Value::Address(x), None) => {
                let message =
                    format!("`select` takes two values of one type, not {} and {}", a.describe(), b.describe());
                let help = match other {
                    Value::Address(_) => Self::address_help(other, &x.ty),
                    _ => Self::number_help(&x.ty),
                };
                return self.fail(&codes::P0802, at, message, help);
            }
            _ => return Value::Error,
        };
        let (x, y) = (self.materialized(x, None, a_span), self.materialized(y, None, b_span));
        let (Some(x), Some(y), Value::Reg(c)) = (x, y, c) else { return Value::Error };
        let Some(reg) = self.address_destination(dest, &ty, span) else { return Value::Error };
        let width = ty.space.register().map(types::bits).unwrap_or_default();
        self.inst(&format!("selp.{width} {}, {}, {}, {}", reg.name, x.name, y.name, c.name), span);
        dest.cloned().unwrap_or_else(|| Value::Address(Address::register(reg.name, ty)))
    }

    /// The register for an address: that of `dest`, or a temporary.
    fn address_destination(&mut self, dest: Option<&Value>, ty: &Rc<AddressTy>, span: Span) -> Option<Reg> {
        match dest {
            None => ty.space.register().map(|ty| self.temporary(ty)),
            Some(Value::Error) => None,
            Some(Value::Reg(reg)) if Self::holds_address(ty, reg) => Some(reg.clone()),
            Some(own @ Value::Address(place)) if self.takes_address(own, ty) => self.address_register(place),
            Some(other) => {
                let value = Value::Address(Address::register(String::new(), Rc::clone(ty)));
                self.mismatch(&value, other, span);
                None
            }
        }
    }

    /// `p.at(i)`, `p.at(r, c)`, `p.row(r)`, `p.cast::<U>()`.
    pub(super) fn address_method(
        &mut self,
        address: Address,
        name: &Ident,
        generics: &[GenericArg],
        args: &'a [Expr],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let found = match (name.name.as_str(), generics, args) {
            ("at", [], [index]) => self.element_of(address, index, dest),
            ("at", [], [row, column]) => match self.row_of(address, row, name.span) {
                Some(row) => self.element_of(row, column, dest),
                None => None,
            },
            ("row", [], [row]) => self.row_of(address, row, name.span),
            ("cast", [GenericArg::Type(ty)], []) => self.ty(ty).map(|element| {
                let ty = AddressTy { element, ..(*address.ty).clone() };
                address.of(ty)
            }),
            _ => {
                let message = format!(
                    "`{}` has no method `{}` with {}",
                    address.ty.name(),
                    name.name,
                    plural(args.len(), "argument")
                );
                let help = match name.name.as_str() {
                    "len" => LENGTH.to_owned(),
                    _ => format!("{METHODS}; {}", Self::number_help(&address.ty)),
                };
                return self.fail(&codes::P0813, name.span, message, help);
            }
        };
        match found {
            Some(address) => self.store(Value::Address(address), dest, span),
            None => Value::Error,
        }
    }

    /// The type of a method's result.
    pub(super) fn address_method_type(
        &mut self,
        ty: &Rc<AddressTy>,
        name: &str,
        generics: &[GenericArg],
        args: usize,
    ) -> Option<Ty> {
        let inner = |ty: &AddressTy| AddressTy { element: ty.elements().0.clone(), ..ty.clone() };
        let ty = match (name, generics, args) {
            ("at", [], 1) | ("row", [], 1) => inner(ty),
            ("at", [], 2) => inner(&inner(ty)),
            ("cast", [GenericArg::Type(element)], 0) => AddressTy { element: self.ty(element)?, ..(**ty).clone() },
            _ => return None,
        };
        Some(Ty::Address(Rc::new(ty)))
    }

    /// The address of an element: of the array that it points to, or of the consecutive elements from there on.
    fn element_of(&mut self, address: Address, index: &'a Expr, dest: Option<&Value>) -> Option<Address> {
        let (element, len) = address.ty.elements();
        let size = self.element_bytes(&address, index.span)?;
        let ty = AddressTy { element: element.clone(), ..(*address.ty).clone() };
        let address = address.of(ty);
        match self.constant_quietly(index) {
            Ok(Const::Int(at, _)) => {
                if let Some(len) = len.filter(|len| !(0..i128::from(*len)).contains(&at)) {
                    self.past_the_end(at, len, index.span);
                    return None;
                }
                let moved = at.checked_mul(i128::from(size)).and_then(|bytes| address.plus(bytes));
                if moved.is_none() {
                    let message = format!("the element {at} is further away than an address can say");
                    self.fail(&codes::P0806, index.span, message, "write a smaller index");
                }
                moved
            }
            _ => self.indexed_address(address, index, size, dest),
        }
    }

    /// The bytes of an element.
    fn element_bytes(&mut self, address: &Address, span: Span) -> Option<u64> {
        let size = layout::size_of(address.ty.elements().0);
        if size.is_none() {
            let message = format!("the elements of `{}` have no size in memory", address.ty.name());
            self.fail(&codes::P0814, span, message, "name the type of the elements: `p.cast::<f32>()`");
        }
        size
    }

    /// `base + index * size`: `mul.wide` and `add`, or `shl` and `add`.
    fn indexed_address(
        &mut self,
        address: Address,
        index: &'a Expr,
        size: u64,
        dest: Option<&Value>,
    ) -> Option<Address> {
        let value = self.value(index);
        let integer = |value: &Value| value.ty().and_then(|ty| ty.scalar()).is_some_and(types::is_integer);
        if matches!(value, Value::Const(_)) && !integer(&value) {
            let message = format!("{} is no index into `{}`", value.describe(), address.ty.name());
            self.fail(&codes::P0802, index.span, message, "write an integer");
            return None;
        }
        let own = self.scalar_of(&value, index.span)?;
        let width = address.ty.space.register()?;
        let text = self.operand(&value, own, index.span)?;
        let scaled = match (width.bits(), types::name(own).as_str()) {
            (64, "u32" | "i32") => {
                let reg = self.temporary(width);
                self.inst(&format!("mul.wide.{} {}, {text}, {size}", own.name(), reg.name), index.span);
                reg.name
            }
            (64, "u64" | "i64") => {
                let reg = self.temporary(width);
                self.inst(&format!("mul.lo.u64 {}, {text}, {size}", reg.name), index.span);
                reg.name
            }
            (32, "u32" | "i32") => self.multiplied(text, size, width, index.span),
            _ => {
                let message = format!("`{}` is no index into `{}`", types::name(own), address.ty.name());
                let help =
                    if width.bits() == 64 { "write a `u32`, `i32`, `u64` or `i64`" } else { "write a `u32` or `i32`" };
                self.fail(&codes::P0802, index.span, message, help);
                return None;
            }
        };
        let ty = types::find(if width.bits() == 64 { "u64" } else { "u32" })?;
        self.added(address, &Value::Reg(Reg { name: scaled, ty }), dest, index.span)
    }

    /// A register times a number of bytes: `shl` or `mul.lo`; itself where that is 1.
    fn multiplied(&mut self, register: String, bytes: u64, width: Type, span: Span) -> String {
        if bytes == 1 {
            return register;
        }
        let (reg, bits) = (self.temporary(width), width.bits());
        let inst = match bytes.is_power_of_two() {
            true => format!("shl.b{bits} {}, {register}, {}", reg.name, bytes.trailing_zeros()),
            false => format!("mul.lo.u{bits} {}, {register}, {bytes}", reg.name),
        };
        self.inst(&inst, span);
        reg.name
    }

    /// The address with a register added, in `dest` where that holds it without its constant.
    fn added(&mut self, address: Address, bytes: &Value, dest: Option<&Value>, span: Span) -> Option<Address> {
        let dest = dest.filter(|dest| address.offset == 0 && self.takes_address(dest, &address.ty));
        match self.moved_address(BinaryOp::Add, (&address, span), (bytes, span), (span, dest), span) {
            Value::Address(found) => Some(found),
            Value::Reg(reg) => Some(Address::register(reg.name, address.ty)),
            _ => None,
        }
    }

    fn takes_address(&self, dest: &Value, ty: &AddressTy) -> bool {
        match dest {
            Value::Reg(reg) => Self::holds_address(ty, reg),
            Value::Address(own) => ty.becomes(&own.ty) && own.in_register().is_some(),
            _ => false,
        }
    }

    /// The address of a row: of an array of arrays, or of a tile.
    fn row_of(&mut self, address: Address, row: &'a Expr, span: Span) -> Option<Address> {
        let (element, len) = address.ty.elements();
        if len.is_some() && matches!(element, Ty::Array(..)) {
            return self.element_of(address, row, None);
        }
        let Some(pitch) = address.pitch.clone() else {
            let message = format!("`{}` has no rows", address.ty.name());
            self.fail(&codes::P0813, span, message, "rows belong to a `Tile` parameter and to arrays of arrays");
            return None;
        };
        let size = self.element_bytes(&address, span)?;
        let value = self.value(row);
        let text = match (&value, value.ty().and_then(|ty| ty.scalar()).map(types::name).as_deref()) {
            (Value::Const(_), _) | (_, Some("u32")) => self.operand(&value, types::find("u32")?, row.span)?,
            (Value::Error, _) => return None,
            _ => {
                let message = format!("a row is a `u32`, and this is {}", value.describe());
                let signed = value.ty().and_then(|ty| ty.scalar()).is_some_and(|ty| types::name(ty) == "i32");
                let help = if signed { "read its bits: `unsigned(…)`" } else { "convert it: `… as u32`" };
                self.fail(&codes::P0802, row.span, message, help);
                return None;
            }
        };
        let wide = types::find("u64")?;
        // A pitch that is known counts bytes already; that of a parameter, elements.
        let (pitch, size) = match pitch {
            Pitch::Const(pitch) => match pitch.checked_mul(size) {
                Some(bytes) => (bytes.to_string(), 1),
                None => {
                    self.fail(
                        &codes::P0806,
                        span,
                        "the rows are further apart than an address can say",
                        "write fewer columns",
                    );
                    return None;
                }
            },
            Pitch::Param(index) => match self.param_value(index, row.span) {
                Value::Reg(reg) => (reg.name, size),
                _ => return None,
            },
        };
        let distance = self.temporary(wide);
        let text = match value {
            Value::Const(_) => {
                let reg = self.temporary(types::find("u32")?);
                self.mov(&reg, &text, row.span);
                reg.name
            }
            _ => text,
        };
        self.inst(&format!("mul.wide.u32 {}, {text}, {pitch}", distance.name), row.span);
        let name = self.multiplied(distance.name, size, wide, row.span);
        self.added(address, &Value::Reg(Reg { name, ty: wide }), None, row.span)
    }

    /// `Shared::<f32>::from_addr(r)`: an integer as an address.
    pub(super) fn address_from(
        &mut self,
        path: &Path,
        args: &'a [Expr],
        dest: Option<&Value>,
        span: Span,
    ) -> Option<Value> {
        let ty = self.address_from_type(path, span)?;
        let ([arg], Ty::Address(of)) = (args, &ty) else {
            let message = format!("`from_addr` takes 1 argument, not {}", args.len());
            return Some(self.fail(&codes::P0811, span, message, "write the register that holds the address"));
        };
        let value = self.value(arg);
        Some(match value {
            Value::Reg(reg) if Self::holds_address(of, &reg) => {
                self.store(Value::Address(Address::register(reg.name, Rc::clone(of))), dest, span)
            }
            Value::Error => Value::Error,
            other => {
                let register = of.space.register().map(types::name).unwrap_or_default();
                let message = format!("`{}` is held by a `{register}`, and this is {}", of.name(), other.describe());
                self.fail(&codes::P0802, arg.span, message, format!("write a `{register}` register"))
            }
        })
    }

    /// The type of `Shared::<f32>::from_addr(…)`; `None` for any other function.
    pub(super) fn address_from_type(&mut self, path: &Path, span: Span) -> Option<Ty> {
        let ([space, name], None) = (path.segments.as_slice(), self.find(path)) else { return None };
        let known = name.name == "from_addr" && Space::find(&space.name).is_some();
        let owner = path.owner().filter(|_| {
            known && !matches!(self.scopes.find(&space.name).map(|f| f.binding), Some(Binding::Struct(_)))
        })?;
        self.address_type(&owner, span)
    }
}
