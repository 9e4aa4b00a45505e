//! Structs: their types, their literals, their fields.

use super::Lowerer;
use super::call::matched;
use super::constant::{Fail, path_text};
use crate::scope::Binding;
use crate::tree::{self, Expr, GenericArg, Ident, Path, Struct, TypeKind};
use crate::types::{self, Argument, Const, StructTy, Ty};
use crate::value::{Value, parts};
use ptx_core::diag::near::nearest;
use ptx_core::diag::{codes, plural};
use ptx_core::span::Span;
use std::rc::Rc;

/// The most registers of a struct that memory cannot hold.
const MOST_REGISTERS: u64 = 1 << 16;

/// A literal, as written.
#[derive(Clone, Copy)]
pub(super) struct Literal<'e> {
    /// Its fields.
    pub(super) fields: &'e [(Ident, Expr)],
    /// `..base`: the value that has the other fields.
    pub(super) base: Option<&'e Expr>,
}

impl<'a> Lowerer<'a> {
    /// The type `Ring<4>`, with all its arguments written.
    pub(super) fn struct_type(
        &mut self,
        item: &'a Struct,
        home: usize,
        args: &[GenericArg],
        span: Span,
    ) -> Option<Rc<StructTy>> {
        let name = &item.name.name;
        if args.len() != item.generics.len() {
            let message =
                format!("`{name}` takes {}, not {}", plural(item.generics.len(), "generic argument"), args.len());
            self.fail(&codes::P0811, span, message, format!("write one for each: `{}`", declared(item)));
            return None;
        }
        let mut bound = Vec::with_capacity(args.len());
        for (generic, arg) in item.generics.iter().zip(args) {
            bound.push(self.generic_argument(generic, arg, home)?);
        }
        self.struct_of(item, home, bound)
    }

    /// The struct with these arguments.
    pub(super) fn struct_of(&mut self, item: &'a Struct, home: usize, args: Vec<Binding<'a>>) -> Option<Rc<StructTy>> {
        let address = std::ptr::from_ref(item) as usize;
        if self.evaluating.contains(&address) {
            let message = format!("`{}` holds itself", item.name.name);
            self.fail(&codes::P0817, item.name.span, message, "hold an address, `u64`, instead");
            return None;
        }
        let arguments: Vec<Argument> = args.iter().filter_map(argument).collect();
        let same = |ty: &&Rc<StructTy>| ty.scope == home && ty.args == arguments && arguments.len() == args.len();
        if let Some(known) = self.structs.get(&address).and_then(|types| types.iter().find(same)) {
            return Some(Rc::clone(known));
        }
        self.begin_evaluation(address, &item.name.name, item.name.span).ok()?;
        let current = self.scopes.current;
        let inner = self.scopes.open(Some(home), true);
        for (generic, binding) in item.generics.iter().zip(args) {
            self.scopes.bind(&generic.name.name, binding);
        }
        let mut fields = Vec::with_capacity(item.fields.len());
        for field in &item.fields {
            fields.extend(self.struct_field_type(&field.ty).map(|ty| (field.name.name.clone(), ty)));
        }
        let aligns = item.fields.iter().map(|field| self.least_alignment(field.align.as_ref())).collect();
        let aligns = (aligns, self.least_alignment(item.align.as_ref()));
        self.scopes.close(inner, current);
        self.evaluating.pop();
        let written: Vec<String> = arguments.iter().map(Argument::name).collect();
        let args = if written.is_empty() { String::new() } else { format!("<{}>", written.join(", ")) };
        let name = format!("{}{args}", item.name.name);
        let whole = fields.len() == item.fields.len();
        if !whole {
            return None;
        }
        let ty = Rc::new(StructTy::new(address, home, name, arguments, fields, aligns));
        if ty.registers > MOST_REGISTERS && ty.memory.is_none() {
            let message = format!("`{}` has {} fields, those of its fields included", ty.name, ty.registers);
            self.fail(&codes::P0817, item.name.span, message, format!("write at most {MOST_REGISTERS}, or an array"));
            return None;
        }
        self.structs.entry(address).or_default().push(Rc::clone(&ty));
        Some(ty)
    }

    /// The type of a field. The host has `bool` for a `pred`.
    fn struct_field_type(&mut self, ty: &'a tree::Type) -> Option<Ty> {
        match &ty.kind {
            TypeKind::Path(path) if matches!(path.segments.as_slice(), [name] if name.name == "bool") => {
                types::find("pred").map(Ty::Scalar)
            }
            // In a struct of arguments: its value is an address.
            TypeKind::Ref(mutable, inner) => match &inner.kind {
                TypeKind::Slice(element) => self.ty(element).map(|element| super::params::global(element, *mutable)),
                _ => self.ty(ty),
            },
            _ => self.ty(ty),
        }
    }

    fn least_alignment(&mut self, align: Option<&'a Expr>) -> u64 {
        self.alignment(align).unwrap_or(1)
    }

    /// `Pair { first: a, second: b }`
    pub(super) fn struct_literal(
        &mut self,
        path: &'a Path,
        literal: Literal<'a>,
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        if dest == Some(&Value::Error) {
            literal.fields.iter().for_each(|(_, value)| drop(self.value(value)));
            return Value::Error;
        }
        let expected = dest.and_then(Value::ty);
        let Some(ty) = self.literal_type(path, literal, expected.as_ref(), span) else { return Value::Error };
        let Some(order) = self.literal_fields(&ty, literal, span) else { return Value::Error };
        let base = match literal.base {
            None => Vec::new(),
            Some(base) => match self.base_fields(&ty, base) {
                Some(fields) => fields,
                None => return Value::Error,
            },
        };
        match dest {
            Some(dest @ Value::Struct(own, targets)) if *own == ty => {
                for ((_, value), at) in literal.fields.iter().zip(&order) {
                    self.lower(value, targets.get(*at));
                }
                for (at, value) in base.into_iter().enumerate().filter(|(at, _)| !order.contains(at)) {
                    self.store(value, targets.get(at), span);
                }
                dest.clone()
            }
            Some(dest) => {
                let dest = dest.clone();
                let value = Value::Struct(Rc::clone(&ty), Vec::new());
                self.mismatch(&value, &dest, span)
            }
            None => self.free_literal(&ty, literal.fields, &order, base),
        }
    }

    /// The values of the fields of `..base`.
    fn base_fields(&mut self, ty: &Rc<StructTy>, base: &'a Expr) -> Option<Vec<Value>> {
        let value = self.value(base);
        if value == Value::Error {
            return None;
        }
        if value.ty() != Some(Ty::Struct(Rc::clone(ty))) {
            let message = format!("`..` takes the other fields from a `{}`, and this is {}", ty.name, value.describe());
            self.fail(&codes::P0802, base.span, message, "write every field");
            return None;
        }
        parts(&value)
    }

    /// A literal that nothing is to hold: constants stay constants, registers are used as they are. `values` are those of its base.
    fn free_literal(
        &mut self,
        ty: &Rc<StructTy>,
        fields: &'a [(Ident, Expr)],
        order: &[usize],
        mut values: Vec<Value>,
    ) -> Value {
        values.resize(ty.fields.len(), Value::Error);
        for ((name, value), &at) in fields.iter().zip(order) {
            let Some((_, wanted)) = ty.fields.get(at) else { continue };
            let given = match self.constant_quietly(value) {
                Ok(constant) => self.of_ty(constant, wanted, value.span).map_or(Value::Error, Value::Const),
                Err(_) if super::call::is_place(value) && self.special(value).is_none() => {
                    let given = self.value(value);
                    self.fitting(given, wanted, &name.name, value.span).unwrap_or(Value::Error)
                }
                Err(_) => {
                    let dest = self.unnamed(&name.name, wanted, value.span);
                    self.lower(value, Some(&dest))
                }
            };
            if let Some(place) = values.get_mut(at) {
                *place = given;
            }
        }
        Value::Struct(Rc::clone(ty), values)
    }

    /// The index of each written field, once all of them are there.
    fn literal_fields(&mut self, ty: &StructTy, literal: Literal<'_>, span: Span) -> Option<Vec<usize>> {
        let mut order = Vec::with_capacity(literal.fields.len());
        for (name, _) in literal.fields {
            match ty.field(&name.name) {
                None => {
                    self.no_such_field(ty, &name.name, name.span);
                    return None;
                }
                Some(at) if order.contains(&at) => {
                    let message = format!("the field `{}` is given twice", name.name);
                    self.fail(&codes::P0817, name.span, message, "remove one of them");
                    return None;
                }
                Some(at) => order.push(at),
            }
        }
        let missing = |at: &usize| !order.contains(at);
        let missing: Vec<&str> =
            (0..ty.fields.len()).filter(missing).filter_map(|at| Some(ty.fields.get(at)?.0.as_str())).collect();
        if missing.is_empty() || literal.base.is_some() {
            return Some(order);
        }
        let message = format!("`{}` needs a value for `{}`", ty.name, missing.join("`, `"));
        self.fail(&codes::P0817, span, message, format!("write `{}: …`", missing.join(": …, ")));
        None
    }

    /// The type of a literal: written, expected by its place, or found from its fields.
    fn literal_type(
        &mut self,
        path: &Path,
        literal: Literal<'_>,
        expected: Option<&Ty>,
        span: Span,
    ) -> Option<Rc<StructTy>> {
        let found = self.find(path);
        let (item, home) = match found.map(|found| (found.binding, found.scope)) {
            Some((Binding::Type(Ty::Struct(ty)), _)) => return Some(ty),
            Some((Binding::Struct(item), home)) => (item, home),
            Some((Binding::Error, _)) => return None,
            _ => {
                let name = path_text(path);
                let near =
                    self.scopes.misses.nearest(&name, self.scopes.visible()).map(|near| format!("there is `{near}`"));
                let help = near
                    .unwrap_or_else(|| format!("declare it in the kernel's `#[ptx_module]`: `struct {name} {{ … }}`"));
                self.fail(&codes::P0812, span, format!("no struct here is called `{name}`"), help);
                return None;
            }
        };
        match expected {
            _ if !path.args.is_empty() || item.generics.is_empty() => self.struct_type(item, home, &path.args, span),
            Some(Ty::Struct(ty)) if ty.item == std::ptr::from_ref(item) as usize => Some(Rc::clone(ty)),
            _ => {
                if let Some(Ty::Struct(ty)) = literal.base.and_then(|base| self.type_of(base))
                    && ty.item == std::ptr::from_ref(item) as usize
                {
                    return Some(ty);
                }
                self.inferred_struct(item, home, literal.fields, span)
            }
        }
    }

    fn inferred_struct(
        &mut self,
        item: &'a Struct,
        home: usize,
        fields: &[(Ident, Expr)],
        span: Span,
    ) -> Option<Rc<StructTy>> {
        let mut bound = Vec::with_capacity(item.generics.len());
        for generic in &item.generics {
            let found = fields.iter().find_map(|(name, value)| {
                let declared = item.fields.iter().find(|field| field.name.name == name.name)?;
                let actual = self.type_of(value)?;
                matched(&declared.ty, &actual, &generic.name.name)
            });
            let Some(found) = found else {
                let message = format!("nothing says what `{}` of `{}` is", generic.name.name, item.name.name);
                self.fail(&codes::P0811, span, message, format!("write it: `{}::<…> {{ … }}`", item.name.name));
                return None;
            };
            bound.push(self.typed_generic(generic, found, home, span)?);
        }
        self.struct_of(item, home, bound)
    }

    /// The type that a literal will have, without writing anything.
    pub(super) fn literal_type_of(&mut self, path: &Path, literal: Literal<'_>, span: Span) -> Option<Ty> {
        self.literal_type(path, literal, None, span).map(Ty::Struct)
    }

    /// A literal of constants.
    pub(super) fn constant_literal(&mut self, path: &Path, literal: Literal<'_>, span: Span) -> Result<Const, Fail> {
        let mut values = Vec::with_capacity(literal.fields.len());
        for (_, value) in literal.fields {
            values.push(self.constant(value)?);
        }
        let base = literal.base.map(|base| self.constant(base)).transpose()?;
        let reported = self.errors.found.len();
        let Some(ty) = self.literal_type(path, literal, None, span) else {
            // The place that it is for may say the arguments.
            self.errors.take_back(reported);
            return Err(Fail::NotConstant(span, format!("nothing says which `{}` this is", path_text(path))));
        };
        let order = self.literal_fields(&ty, literal, span).ok_or(Fail::Reported)?;
        let mut sorted: Vec<(usize, Const)> = match base {
            None => Vec::with_capacity(values.len()),
            Some(Const::Struct(of, fields)) if of == ty => {
                fields.into_iter().enumerate().filter(|(at, _)| !order.contains(at)).collect()
            }
            Some(_) => return Err(Fail::NotConstant(span, format!("`..` of another type than `{}`", ty.name))),
        };
        for ((value, at), (_, expr)) in values.into_iter().zip(order).zip(literal.fields) {
            let (_, wanted) = ty.fields.get(at).ok_or(Fail::Reported)?;
            let value = self.of_ty(value, wanted, expr.span)?;
            let place = sorted.iter().position(|(behind, _)| *behind > at).unwrap_or(sorted.len());
            sorted.insert(place, (at, value));
        }
        Ok(Const::Struct(Rc::clone(&ty), sorted.into_iter().map(|(_, value)| value).collect()))
    }

    /// A constant as a value of a type whose names are resolved.
    pub(super) fn of_ty(&mut self, value: Const, ty: &Ty, span: Span) -> Result<Const, Fail> {
        match (ty, value) {
            (Ty::Scalar(ty), value) => self.adopt(value, *ty, span),
            (Ty::Array(element, len), Const::Array(items)) if items.len() as u64 == *len => {
                let items = items.into_iter().map(|item| self.of_ty(item, element, span));
                Ok(Const::Array(items.collect::<Result<_, _>>()?))
            }
            (Ty::Tuple(parts), Const::Tuple(items)) if items.len() == parts.len() => {
                let items = items.into_iter().zip(parts).map(|(item, part)| self.of_ty(item, part, span));
                Ok(Const::Tuple(items.collect::<Result<_, _>>()?))
            }
            (Ty::Struct(ty), value @ Const::Struct(..)) if value.ty() == Some(Ty::Struct(Rc::clone(ty))) => Ok(value),
            (ty, value) => {
                let message = format!("this is {}, not `{}`", value.describe(), ty.name());
                self.fail(&codes::P0802, span, message, "write a value of that type");
                Err(Fail::Reported)
            }
        }
    }

    /// Reports a field that a struct does not have.
    pub(super) fn no_such_field(&mut self, ty: &StructTy, field: &str, span: Span) -> Value {
        let names = ty.field_names();
        let help = match nearest(field, names.iter().copied()) {
            Some(near) => format!("there is `{near}`"),
            None if names.is_empty() => "it has no fields".to_owned(),
            None => format!("it has `{}`", names.join("`, `")),
        };
        self.fail(&codes::P0817, span, format!("`{}` has no field `{field}`", ty.name), help)
    }
}

/// The argument that a generic parameter is bound to.
fn argument(binding: &Binding<'_>) -> Option<Argument> {
    match binding {
        Binding::Type(ty) => Some(Argument::Type(ty.clone())),
        Binding::Value(Value::Const(value)) => Some(Argument::Const(value.clone())),
        _ => None,
    }
}

/// `Ring<STAGES>`
fn declared(item: &Struct) -> String {
    let names: Vec<&str> = item.generics.iter().map(|generic| generic.name.name.as_str()).collect();
    if names.is_empty() { item.name.name.clone() } else { format!("{}<{}>", item.name.name, names.join(", ")) }
}
