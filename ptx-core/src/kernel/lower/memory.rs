//! Variables in memory: `#[shared]`, `#[local]`, `static`, and the layout of structs.

use super::Lowerer;
use super::constant::Fail;
use crate::diag::codes;
use crate::isa::Type;
use crate::kernel::StaticVariable;
use crate::kernel::layout::Layout;
use crate::kernel::scope::{Access, Binding};
use crate::kernel::tree::{self, Expr, Ident, Let, Memory, MemorySpace, Pattern, TypeKind};
use crate::kernel::types::{self, Ty};
use crate::kernel::value::{Const, Symbol, Value};
use crate::span::Span;
use std::rc::Rc;

/// Inner structs deeper than this are a mistake.
const DEEPEST: usize = 32;

/// A field larger than this fits into no kernel's parameters.
const MOST_BYTES: u64 = 1 << 20;

impl<'a> Lowerer<'a> {
    /// `#[shared] let t: [bf16; N];`
    pub(super) fn memory(&mut self, memory: &'a Memory, item: &'a Let, span: Span) {
        let Some(ty) = &item.ty else { return self.undeclared(&item.pattern, span) };
        if let Some(init) = &item.init {
            let help = "write it with `st.shared` and wait for all threads with `bar.sync`";
            self.fail(&codes::P0814, init.span, "shared and local memory has no initial value", help);
        }
        let align = self.alignment(memory.align.as_ref());
        self.memory_of(memory, &item.pattern, ty, align, span);
    }

    /// The variables of a pattern, each with the part of the type that is its own.
    fn memory_of(
        &mut self,
        memory: &'a Memory,
        pattern: &'a Pattern,
        ty: &'a tree::Type,
        align: Option<u64>,
        span: Span,
    ) {
        match (pattern, &ty.kind) {
            (Pattern::Name(name, _), _) => {
                let value = self.memory_named(memory, name, ty, align);
                self.scopes.bind(&name.name, Binding::Value(value));
            }
            (Pattern::Tuple(patterns, _), TypeKind::Tuple(types)) if patterns.len() == types.len() => {
                patterns.iter().zip(types).for_each(|(pattern, ty)| self.memory_of(memory, pattern, ty, align, span));
            }
            _ => self.undeclared(pattern, span),
        }
    }

    fn memory_named(&mut self, memory: &'a Memory, name: &Ident, ty: &'a tree::Type, align: Option<u64>) -> Value {
        let space = match memory.space {
            MemorySpace::Shared if memory.dynamic => return self.dynamic(&name.name, ty, align, name.span),
            MemorySpace::Shared => "shared",
            MemorySpace::Local => "local",
        };
        self.variable(space, name, ty, align)
    }

    /// Refuses a declaration; its names are known, so that it stays one error.
    fn undeclared(&mut self, pattern: &'a Pattern, span: Span) {
        let message = "memory needs a type for each name";
        let value = self.fail(&codes::P0814, span, message, "write `#[shared] let t: [f32; 256];`");
        self.bind_pattern(pattern, value, Access::Own);
    }

    fn variable(&mut self, space: &'static str, name: &Ident, ty: &'a tree::Type, align: Option<u64>) -> Value {
        let Some((element, dims)) = self.stored_type(ty) else { return Value::Error };
        let symbol = self.f.symbols.unique(&name.name);
        let align = align.unwrap_or(element.bytes());
        let text = format!("    .{space} .align {align} .{} {symbol}{dims};\n", types::stored(element));
        let span = self.at(name.span);
        self.f.variables.push((text, span));
        symbol_value(symbol, space, element)
    }

    /// `.extern .shared`: all of them start at the same address.
    fn dynamic(&mut self, name: &str, ty: &'a tree::Type, align: Option<u64>, span: Span) -> Value {
        let element = match &ty.kind {
            TypeKind::Slice(element) | TypeKind::Array(element, _) => self.stored_type(element),
            _ => self.stored_type(ty),
        };
        let Some((element, _)) = element else { return Value::Error };
        let align = align.unwrap_or(element.bytes().max(16));
        let declared = format!(".extern .shared .align {align} .{}", types::stored(element));
        let key = (std::ptr::from_ref(ty) as usize, declared);
        if let Some(value) = self.out.statics.get(&key) {
            return value.clone();
        }
        let symbol = Rc::make_mut(&mut self.out.symbols).unique(name);
        let span = self.at(span);
        self.out.globals.push((format!("{} {symbol}[];\n", key.1), span));
        let value = symbol_value(symbol, "shared", element);
        self.out.statics.insert(key, value.clone());
        value
    }

    /// The element's type and the dimensions as text: `[16][32]`.
    fn stored_type(&mut self, ty: &'a tree::Type) -> Option<(Type, String)> {
        let (element, dims) = match self.ty(ty)? {
            Ty::Scalar(ty) => (ty, String::new()),
            array @ Ty::Array(..) => {
                let mut dims = String::new();
                let mut inner = &array;
                while let Ty::Array(element, len) = inner {
                    dims.push_str(&format!("[{len}]"));
                    inner = element;
                }
                (array.innermost().scalar()?, dims)
            }
            Ty::Tuple(_) | Ty::Struct(_) => return self.not_stored(ty.span),
        };
        if element.name() == "pred" || element.bits() < 8 {
            return self.not_stored(ty.span);
        }
        Some((element, dims))
    }

    fn not_stored<T>(&mut self, span: Span) -> Option<T> {
        self.fail(&codes::P0814, span, "memory holds no such type", "write an array of numbers: `[f32; 256]`");
        None
    }

    fn alignment(&mut self, align: Option<&Expr>) -> Option<u64> {
        let expr = align?;
        let align = self.count(expr)?;
        if align.is_power_of_two() && align <= 1 << 16 {
            return Some(align);
        }
        self.fail(&codes::P0814, expr.span, format!("{align} is no alignment"), "write a power of two");
        None
    }

    /// `static` is `.const`, `static mut` is `.global`; written once, however often its block is.
    pub(super) fn static_item(&mut self, item: &'a tree::Static) -> Value {
        let key = (std::ptr::from_ref(item) as usize, String::new());
        if let Some(value) = self.out.statics.get(&key) {
            return value.clone();
        }
        let value = self.write_static(item).unwrap_or(Value::Error);
        self.out.statics.insert(key, value.clone());
        value
    }

    fn write_static(&mut self, item: &'a tree::Static) -> Option<Value> {
        let (element, dims) = self.stored_type(&item.ty)?;
        let align = self.alignment(item.align.as_ref()).unwrap_or(element.bytes());
        let init = match &item.value {
            None => String::new(),
            Some(expr) => {
                let value = self.require_constant(expr)?;
                let value = match self.of_type(value, &item.ty, expr.span) {
                    Ok(value) => value,
                    Err(Fail::Reported | Fail::NotConstant(..)) => return None,
                };
                format!(" = {}", self.initialiser(&value, element, expr.span)?)
            }
        };
        let symbol = Rc::make_mut(&mut self.out.symbols).unique(&item.name.name);
        let (space, declared) = match (item.mutable, item.visible) {
            (true, _) => ("global", ".visible .global"),
            (false, true) => ("const", ".visible .const"),
            (false, false) => ("const", ".const"),
        };
        let text = format!("{declared} .align {align} .{} {symbol}{dims}{init};\n", types::stored(element));
        let span = self.at(item.name.span);
        self.out.globals.push((text, span));
        self.list_static(item, &symbol, element)?;
        Some(symbol_value(symbol, space, element))
    }

    /// Notes a `static` for the host.
    fn list_static(&mut self, item: &'a tree::Static, symbol: &str, element: Type) -> Option<()> {
        let (mut dims, mut ty) = (Vec::new(), self.ty(&item.ty)?);
        while let Ty::Array(element, len) = ty {
            dims.push(len);
            ty = *element;
        }
        let is_item = self.module.statics.iter().any(|of_module| std::ptr::eq(of_module, item));
        let (name, shared) = (is_item.then(|| item.name.name.clone()), item.mutable || item.visible);
        self.out.listed.push(StaticVariable { name, symbol: symbol.to_owned(), element, dims, shared });
        Some(())
    }

    fn initialiser(&mut self, value: &Const, element: Type, span: Span) -> Option<String> {
        match value {
            Const::Array(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| self.initialiser(item, element, span)).collect::<Option<_>>()?;
                Some(format!("{{{}}}", items.join(", ")))
            }
            other => self.immediate(other, element, span),
        }
    }

    /// Layout of a struct by the rules of `#[repr(C)]`.
    pub(super) fn layout(&mut self, item: &'a tree::Struct) -> Option<Layout> {
        self.layout_at(item, 0)
    }

    fn layout_at(&mut self, item: &'a tree::Struct, depth: usize) -> Option<Layout> {
        if depth > DEEPEST {
            let message = format!("`{}` holds itself", item.name.name);
            self.fail(&codes::P0817, item.name.span, message, "hold a pointer, `u64`, instead");
            return None;
        }
        self.out.taken.insert(std::ptr::from_ref(item) as usize);
        let mut layout = Layout::new();
        for (name, ty) in &item.fields {
            let inner = match &ty.kind {
                TypeKind::Path(path) => self.find(path).map(|found| found.binding),
                _ => None,
            };
            if let Some(Binding::Struct(inner)) = inner {
                let inner = self.layout_at(inner, depth + 1)?;
                let offset = layout.place(&name.name, inner.size, inner.align);
                let path = |(field, at, ty): (String, u64, Ty)| (format!("{}.{field}", name.name), offset + at, ty);
                layout.fields.extend(inner.fields.into_iter().map(path));
                continue;
            }
            let ty = self.field_type(ty)?;
            let align = ty.innermost().scalar().map_or(1, |ty| ty.bytes());
            let Some(size) = self.bytes(&ty).filter(|size| *size <= MOST_BYTES) else {
                let message = format!("`{}` is larger than all parameters of a kernel can be", name.name);
                self.fail(&codes::P0817, name.span, message, "pass a pointer, `u64`, instead");
                return None;
            };
            let offset = layout.place(&name.name, size, align);
            layout.fields.push((name.name.clone(), offset, ty));
        }
        Some(layout.finish())
    }

    fn field_type(&mut self, ty: &'a tree::Type) -> Option<Ty> {
        match self.ty(ty)? {
            Ty::Tuple(_) | Ty::Struct(_) => self.not_stored(ty.span),
            scalar if scalar.innermost().scalar().is_none_or(|ty| ty.name() == "pred") => self.not_stored(ty.span),
            other => Some(other),
        }
    }
}

/// Windows of shared memory are below 4 GiB.
fn symbol_value(name: String, space: &'static str, element: Type) -> Value {
    match types::find(if space == "shared" { "u32" } else { "u64" }) {
        Some(address) => Value::Symbol(Symbol { name, address, space, element }),
        None => Value::Error,
    }
}
