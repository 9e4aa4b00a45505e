//! Variables in memory: `#[shared]`, `#[local]`, `static`, and the layout of structs.

use super::Lowerer;
use super::constant::Fail;
use crate::address::Address;
use crate::scope::{Access, Binding};
use crate::tree::{self, Expr, Ident, Let, Memory, MemorySpace, Pattern, TypeKind};
use crate::types::layout::{self, Layout};
use crate::types::{self, AddressTy, Const, Space, Ty};
use crate::value::Value;
use crate::{MemoryLayout, StaticVariable};
use ptx_core::diag::codes;
use ptx_core::isa::Type;
use ptx_core::span::Span;
use std::rc::Rc;

/// Inner structs deeper than this are a mistake.
const DEEPEST: usize = 32;

/// A field larger than this fits into no kernel's parameters.
const MOST_BYTES: u64 = 1 << 15;

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
            MemorySpace::Shared => Space::Shared,
            MemorySpace::Local => Space::Local,
        };
        self.variable(space, name, ty, align)
    }

    /// Refuses a declaration; its names are known, so that it stays one error.
    fn undeclared(&mut self, pattern: &'a Pattern, span: Span) {
        let message = "memory needs a type for each name";
        let value = self.fail(&codes::P0814, span, message, "write `#[shared] let t: [f32; 256];`");
        self.bind_pattern(pattern, value, Access::Own);
    }

    fn variable(&mut self, space: Space, name: &Ident, ty: &'a tree::Type, align: Option<u64>) -> Value {
        let Some(stored) = self.stored_type(ty) else { return Value::Error };
        let symbol = self.f.symbols.unique(&name.name);
        let text = format!("    .{} {};\n", space.ptx(), stored.declaration(&symbol, align));
        let span = self.at(name.span);
        self.f.variables.push((text, span));
        if space == Space::Shared {
            self.out.memory.push(stored.layout(&symbol));
        }
        variable(symbol, space, true, stored.ty)
    }

    /// `.extern .shared`: all of them start at the same address. One whose size the type defines is the launch's.
    fn dynamic(&mut self, name: &str, ty: &'a tree::Type, align: Option<u64>, span: Span) -> Value {
        let (element, sized) = match &ty.kind {
            TypeKind::Slice(element) => (self.stored_type(element), false),
            _ => (self.stored_type(ty), true),
        };
        let Some(stored) = element else { return Value::Error };
        if sized && !self.sized_dynamic(&stored, span) {
            return Value::Error;
        }
        let align = stored.aligned(align, 16);
        let declared = format!(".extern .shared .align {align} .{}", stored.scalar);
        let key = (std::ptr::from_ref(ty) as usize, format!("{declared} {}", stored.ty.name()));
        if let Some(value) = self.out.statics.get(&key) {
            return value.clone();
        }
        let symbol = Rc::make_mut(&mut self.out.symbols).unique(name);
        let span = self.at(span);
        self.out.globals.push((format!("{declared} {symbol}[];\n"), span));
        self.out.memory.push(stored.layout(&symbol));
        let value = variable(symbol, Space::Shared, true, stored.ty);
        self.out.statics.insert(key, value.clone());
        value
    }

    /// Notes the bytes of dynamic shared memory whose type has a size; a kernel has one such variable.
    fn sized_dynamic(&mut self, stored: &Stored, span: Span) -> bool {
        match self.f.dynamic {
            Some((_, first)) if first != span => {
                let help = "put both into one struct: `#[shared(dynamic)] let all: All;`";
                self.fail(&codes::P0814, span, "this kernel already has its dynamic shared memory", help);
                false
            }
            _ => {
                self.f.dynamic = Some((stored.size, span));
                true
            }
        }
    }

    /// A type as memory holds it.
    fn stored_type(&mut self, ty: &'a tree::Type) -> Option<Stored> {
        let of = self.ty(ty)?;
        let stored = match of.innermost() {
            Ty::Scalar(scalar) if scalar.name() == "pred" || scalar.bits() < 8 => None,
            Ty::Scalar(scalar) => Some((types::stored(*scalar), dimensions(&of))),
            Ty::Address(address) => address.space.register().map(|ty| (types::stored(ty), dimensions(&of))),
            Ty::Struct(_) => layout::size_of(&of).map(|size| ("b8".to_owned(), format!("[{size}]"))),
            Ty::Tuple(_) | Ty::Array(..) => None,
        };
        match (stored, layout::size_of(&of), layout::align_of(&of)) {
            (Some((scalar, dims)), Some(size), Some(align)) => Some(Stored { scalar, dims, size, align, ty: of }),
            _ => self.not_stored(ty.span),
        }
    }

    fn not_stored<T>(&mut self, span: Span) -> Option<T> {
        self.fail(&codes::P0814, span, "memory holds no such type", "write an array of numbers: `[f32; 256]`");
        None
    }

    pub(super) fn alignment(&mut self, align: Option<&Expr>) -> Option<u64> {
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
        let stored = self.stored_type(&item.ty)?;
        let Some(element) = stored.ty.innermost().scalar() else { return self.not_stored(item.ty.span) };
        let align = self.alignment(item.align.as_ref());
        let init = match &item.value {
            None => String::new(),
            Some(expr) => {
                let value = self.require_constant(expr)?;
                let value = match self.of_type(value, &item.ty, expr.span) {
                    Ok(value) => value,
                    Err(Fail::Reported | Fail::NotConstant(..)) => return None,
                };
                format!(" = {}", self.initializer(&value, element, expr.span)?)
            }
        };
        let symbol = Rc::make_mut(&mut self.out.symbols).unique(&item.name.name);
        let (space, declared) = match (item.mutable, item.visible) {
            (true, _) => (Space::Global, ".visible .global"),
            (false, true) => (Space::Const, ".visible .const"),
            (false, false) => (Space::Const, ".const"),
        };
        let text = format!("{declared} {}{init};\n", stored.declaration(&symbol, align));
        let span = self.at(item.name.span);
        self.out.globals.push((text, span));
        self.list_static(item, &symbol, &stored.ty, element);
        Some(variable(symbol, space, item.mutable, stored.ty))
    }

    /// Notes a `static` for the host.
    fn list_static(&mut self, item: &'a tree::Static, symbol: &str, mut ty: &Ty, element: Type) {
        let mut dims = Vec::new();
        while let Ty::Array(element, len) = ty {
            dims.push(*len);
            ty = element;
        }
        let is_item = self.module.statics.iter().any(|of_module| std::ptr::eq(of_module, item));
        let (name, shared) = (is_item.then(|| item.name.name.clone()), item.mutable || item.visible);
        self.out.listed.push(StaticVariable { name, symbol: symbol.to_owned(), element, dims, shared });
    }

    fn initializer(&mut self, value: &Const, element: Type, span: Span) -> Option<String> {
        match value {
            Const::Array(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| self.initializer(item, element, span)).collect::<Option<_>>()?;
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
        for tree::Field { name, ty, .. } in &item.fields {
            let inner = match &ty.kind {
                TypeKind::Path(path) => self.find(path).map(|found| found.binding),
                _ => None,
            };
            if let Some(Binding::Struct(inner)) = inner {
                let inner = self.layout_at(inner, depth + 1)?;
                let offset = layout.place(&name.name, inner.size, inner.align);
                let path = |(field, at, ty): (String, u64, Ty)| (format!("{}.{field}", name.name), offset + at, ty);
                layout.fields.extend(inner.fields.into_iter().map(path));
                self.fits_parameters(&layout, name)?;
                continue;
            }
            if let TypeKind::Ref(_, inner) = &ty.kind
                && matches!(inner.kind, TypeKind::Slice(_))
            {
                let help = "declare a struct of arguments, whose fields are parameters, in the kernel's `#[ptx_module]`; it holds no other one";
                self.fail(&codes::P0812, ty.span, "a struct that is passed by value holds no slice", help);
                return None;
            }
            let ty = self.field_type(ty)?;
            let align = ty.innermost().scalar().map_or(1, |ty| ty.bytes());
            let offset = layout.place(&name.name, layout::size_of(&ty).unwrap_or(u64::MAX), align);
            layout.fields.push((name.name.clone(), offset, ty));
            self.fits_parameters(&layout, name)?;
        }
        Some(layout.finish())
    }

    /// Reports a struct that is too large up to this field.
    fn fits_parameters(&mut self, layout: &Layout, field: &Ident) -> Option<()> {
        if layout.size <= MOST_BYTES {
            return Some(());
        }
        let message = format!("`{}` is larger than all parameters of a kernel can be", field.name);
        self.fail(&codes::P0817, field.span, message, "pass a pointer, `u64`, instead");
        None
    }

    fn field_type(&mut self, ty: &'a tree::Type) -> Option<Ty> {
        self.no_whole_parameter(ty)?;
        match self.ty(ty)? {
            Ty::Tuple(_) | Ty::Struct(_) | Ty::Address(_) => self.not_stored(ty.span),
            scalar if scalar.innermost().scalar().is_none_or(|ty| ty.name() == "pred") => self.not_stored(ty.span),
            other => Some(other),
        }
    }
}

/// A type as memory holds it.
struct Stored {
    /// The PTX type of the declaration.
    scalar: String,
    /// Its dimensions: `[16][32]`.
    dims: String,
    /// Bytes.
    size: u64,
    /// Bytes.
    align: u64,
    /// The type in the language.
    ty: Ty,
}

impl Stored {
    /// `.align 16 .f32 tile[32][33]`
    fn declaration(&self, name: &str, align: Option<u64>) -> String {
        format!(".align {} .{} {name}{}", self.aligned(align, 1), self.scalar, self.dims)
    }

    /// What a debugger shows of a variable.
    fn layout(&self, symbol: &str) -> MemoryLayout {
        MemoryLayout { symbol: symbol.to_owned(), size: self.size, places: layout::places(&self.ty) }
    }

    /// The alignment that is written, or the type's, and at least `least`. A struct is declared as bytes, so that nothing
    /// behind this would find one that is too small for its fields.
    fn aligned(&self, written: Option<u64>, least: u64) -> u64 {
        let align = written.unwrap_or(self.align.max(least));
        if matches!(self.ty.innermost(), Ty::Struct(_)) { align.max(self.align) } else { align }
    }
}

/// `[16][32]` of an array of arrays.
fn dimensions(ty: &Ty) -> String {
    match ty {
        Ty::Array(element, len) => format!("[{len}]{}", dimensions(element)),
        _ => String::new(),
    }
}

/// The address of a variable.
fn variable(name: String, space: Space, mutable: bool, element: Ty) -> Value {
    Value::Address(Address::variable(name, Rc::new(AddressTy { space, mutable, element })))
}
