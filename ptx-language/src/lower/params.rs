//! Parameters of a kernel: their `.param`, and the prologue that loads those that are used as a value.

use super::{Lowerer, Pieces};
use crate::address::{Address, Pitch};
use crate::scope::{Access, Binding};
use crate::tree::{self, Expr, ExprKind, GenericArg, Ident, Pointer, TypeKind};
use crate::types::layout::Layout;
use crate::types::{self, AddressTy, Const, Space, StructTy, Ty};
use crate::value::{Reg, Value};
use crate::{EntryParam, cuda};
use ptx_core::diag::codes;
use ptx_core::diag::near::nearest;
use ptx_core::span::Span;
use std::rc::Rc;

/// Content of a parameter.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A number.
    Scalar,
    /// A device pointer to elements of this many bytes, and its attributes in the PTX.
    Pointer(u64, Pointer),
    /// 128 bytes of tensor map.
    Map,
    /// A struct by value, and its layout.
    Struct(Rc<StructTy>, Layout),
    /// `[T; N]` by value, and the bytes of an element.
    Array(Ty, u64),
}

/// A parameter of the kernel that is being written.
#[derive(Clone, Debug)]
pub(super) struct Param {
    /// Its name in the PTX.
    pub(super) symbol: String,
    /// The argument that the launch passes.
    pub(super) origin: EntryParam,
    kind: Kind,
    /// `#[align(64)]`
    align: Option<u64>,
    /// The type of its value; `None` for a struct and an array.
    pub(super) ty: Option<Ty>,
    /// Register of its value, after its first use.
    register: String,
    /// The distance of a tile's rows.
    pitch: Option<Pitch>,
    used: bool,
    /// The fields that are used: path, offset, registers. An array is a field without a path.
    fields: Vec<(String, u64, Value)>,
    span: Span,
}

/// A field of a struct parameter.
pub(super) struct Field {
    param: usize,
    path: String,
    offset: u64,
    /// Its type.
    pub(super) ty: Ty,
}

impl Param {
    /// Its struct, if it is one.
    pub(super) fn structure(&self) -> Option<Rc<StructTy>> {
        match &self.kind {
            Kind::Struct(ty, _) => Some(Rc::clone(ty)),
            _ => None,
        }
    }

    /// `.param .u64 .ptr .global .align 4 x`
    pub(super) fn declaration(&self) -> String {
        let name = &self.symbol;
        let array = |align: u64, size: u64| format!(".param .align {} .b8 {name}[{size}]", self.align.unwrap_or(align));
        match (&self.kind, &self.ty) {
            (Kind::Pointer(align, Pointer::Global), _) => {
                format!(".param .u64 .ptr .global .align {} {name}", self.align.unwrap_or(*align))
            }
            (Kind::Pointer(_, Pointer::Generic), _) => {
                format!(".param .u64 .ptr .align {} {name}", self.align.unwrap_or(1))
            }
            (Kind::Pointer(_, Pointer::Bare), _) => format!(".param .u64 {name}"),
            (Kind::Map, _) => array(128, 128),
            (Kind::Struct(_, layout), _) => array(layout.align, layout.size),
            (Kind::Array(ty, bytes), _) => array(*bytes, ty.registers() * bytes),
            (Kind::Scalar, Some(Ty::Scalar(ty))) => format!(".param .{} {name}", types::stored(*ty)),
            (Kind::Scalar, _) => format!(".param .b32 {name}"),
        }
    }

    /// The instructions that load it.
    fn load(&self) -> Vec<String> {
        let (reg, name) = (&self.register, &self.symbol);
        match (&self.kind, &self.ty) {
            (Kind::Pointer(_, said), _) => {
                let mut lines = vec![format!(".reg .u64 {reg}"), format!("ld.param.u64 {reg}, [{name}]")];
                let global = *said == Pointer::Global;
                lines.extend(global.then(|| format!("cvta.to.global.u64 {reg}, {reg}")));
                lines
            }
            (Kind::Map, _) => vec![
                format!(".reg .u64 {reg}"),
                format!("mov.u64 {reg}, {name}"),
                format!("cvta.param.u64 {reg}, {reg}"),
            ],
            (Kind::Scalar, Some(Ty::Scalar(ty))) => vec![
                format!(".reg .{} {reg}", types::register(*ty).unwrap_or("b32")),
                format!("ld.param.{} {reg}, [{name}]", types::stored(*ty)),
            ],
            _ => Vec::new(),
        }
    }

    fn load_fields(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (_, offset, value) in &self.fields {
            match value {
                Value::Reg(reg) => {
                    out.push(format!(".reg .{} {}", types::register(reg.ty).unwrap_or("b32"), reg.name));
                    out.push(load_field(reg, &self.symbol, *offset));
                }
                Value::Array(array) => {
                    let Some(ty) = array.element.innermost().scalar() else { continue };
                    let names = array.names(0, array.len);
                    let class = types::register(ty).unwrap_or("b32");
                    out.push(format!(".reg .{class} {}<{}>", array.base, names.len()));
                    let offsets = (*offset..).step_by(usize::try_from(ty.bytes()).unwrap_or(1));
                    let load = |(name, offset): (String, u64)| load_field(&Reg { name, ty }, &self.symbol, offset);
                    out.extend(names.into_iter().zip(offsets).map(load));
                }
                _ => {}
            }
        }
        out
    }
}

fn load_field(reg: &Reg, symbol: &str, offset: u64) -> String {
    let at = if offset == 0 { symbol.to_owned() } else { format!("{symbol}+{offset}") };
    format!("ld.param.{} {}, [{at}]", types::stored(reg.ty), reg.name)
}

/// An address in global memory.
pub(super) fn global(element: Ty, mutable: bool) -> Ty {
    Ty::Address(Rc::new(AddressTy { space: Space::Global, mutable, element }))
}

/// The type of a register that holds a generic address.
fn address() -> Option<Ty> {
    types::find("u64").map(Ty::Scalar)
}

impl<'a> Lowerer<'a> {
    /// Declares the parameters of a kernel, and behind them the dimensions that its tiles name.
    pub(super) fn declare_params(&mut self, kernel: &'a tree::Kernel) {
        let (mut dims, mut at) = (Vec::new(), 0);
        for param in &kernel.params {
            if param.fields.is_empty() {
                let declared = self.declare_param(at, param, &param.name.name, &mut dims);
                let access = if param.mutable { Access::Own } else { Access::Launched };
                let binding = declared.map_or(Binding::Error, Binding::Param);
                self.scopes.bind_as(&param.name.name, binding, access);
            } else {
                self.declare_arguments(at, param, &mut dims);
            }
            at += param.flat().len();
        }
        for (name, span) in dims {
            if kernel.params.iter().any(|param| param.name.name == name) {
                let message = format!("`{name}` is a parameter and the dimension of a tile");
                let help = format!("leave the parameter out: the launch takes `{name}` from the tile's extents");
                self.fail(&codes::P0812, span, message, help);
            }
            let ty = types::find("u32").map(Ty::Scalar);
            let index = self.add_param([&name, &name], EntryParam::Dim(name.clone()), Kind::Scalar, ty, span);
            self.scopes.bind_as(&name, Binding::Param(index), Access::Launched);
        }
        for (at, param) in kernel.params.iter().flat_map(tree::Param::flat).enumerate() {
            let pitch = self.pitch(&param.ty);
            if let Some(declared) = self.f.params.iter_mut().find(|p| p.origin == EntryParam::Value(at)) {
                declared.pitch = pitch;
            }
        }
    }

    /// Declares parameter `at` of the entry, which the kernel calls `text`. Returns its index, unless it has an error.
    pub(super) fn declare_param(
        &mut self,
        at: usize,
        param: &'a tree::Param,
        text: &str,
        dims: &mut Vec<(String, Span)>,
    ) -> Option<usize> {
        let (kind, ty) = self.param_kind(param, dims)?;
        let name = &param.name;
        let index = self.add_param([&name.name, text], EntryParam::Value(at), kind, ty, name.span);
        let align = param.align.as_ref().and_then(|align| self.count(align));
        if let Some(declared) = self.f.params.last_mut() {
            declared.align = align;
        }
        Some(index)
    }

    /// The distance of the rows of a tile: its last dimension.
    fn pitch(&mut self, ty: &'a tree::Type) -> Option<Pitch> {
        let TypeKind::Path(path) = &ty.kind else { return None };
        if !matches!(path.segments.last()?.name.as_str(), "Tile" | "TileMut") {
            return None;
        }
        let Some(GenericArg::Type(tree::Type { kind: TypeKind::Tuple(dims), .. })) = path.args.get(1) else {
            return None;
        };
        let (Some(tree::Type { kind: TypeKind::Path(last), .. }), true) = (dims.last(), dims.len() > 1) else {
            return None;
        };
        let named = Expr { kind: ExprKind::Path(last.clone()), span: ty.span };
        if let Ok(Const::Int(value, _)) = self.constant_quietly(&named) {
            return u64::try_from(value).ok().map(Pitch::Const);
        }
        let name = EntryParam::Dim(last.segments.last()?.name.clone());
        self.f.params.iter().position(|param| param.origin == name).map(Pitch::Param)
    }

    /// The parameter in the PTX, and the type of its register, if it has one; `None` once an error is reported.
    fn param_kind(&mut self, param: &'a tree::Param, dims: &mut Vec<(String, Span)>) -> Option<(Kind, Option<Ty>)> {
        match &param.ty.kind {
            TypeKind::Ref(mutable, inner) => match &inner.kind {
                TypeKind::Slice(element) => self.param_pointer(element, *mutable, param.pointer),
                _ => self.not_passed(param),
            },
            TypeKind::Path(path) => self.param_kind_by_name(param, path, dims),
            TypeKind::Array(..) => self.param_array(param),
            TypeKind::Error => None,
            _ => self.not_passed(param),
        }
    }

    /// `&[T]`: its value is an address in global memory, or a number where it is a generic address.
    fn param_pointer(&mut self, element: &'a tree::Type, mutable: bool, said: Pointer) -> Option<(Kind, Option<Ty>)> {
        let align = self.element_size(element);
        let of = self.element_type(element)?;
        let ty = match said {
            Pointer::Global => global(of, mutable),
            Pointer::Generic | Pointer::Bare => address()?,
        };
        Some((Kind::Pointer(align, said), Some(ty)))
    }

    fn param_kind_by_name(
        &mut self,
        param: &'a tree::Param,
        path: &'a tree::Path,
        dims: &mut Vec<(String, Span)>,
    ) -> Option<(Kind, Option<Ty>)> {
        match path.segments.last().map_or("", |s| s.name.as_str()) {
            name @ ("TensorMap" | "Texture" | "Surface") if !path.args.is_empty() => {
                self.no_arguments(name, param.ty.span)
            }
            "TensorMap" => Some((Kind::Map, address())),
            "Texture" | "Surface" => Some((Kind::Scalar, address())),
            "Tile" | "TileMut" => {
                self.dims(param, &path.args, dims)?;
                let Some(GenericArg::Type(element)) = path.args.first() else {
                    return Some((Kind::Pointer(1, Pointer::Global), address()));
                };
                let mutable = path.segments.last().is_some_and(|name| name.name == "TileMut");
                self.param_pointer(element, mutable, Pointer::Global)
            }
            _ => match self.find(path).map(|found| found.binding) {
                Some(Binding::Struct(item)) => {
                    let layout = self.layout(item)?;
                    let Some(Ty::Struct(ty)) = self.ty(&param.ty) else { return None };
                    Some((Kind::Struct(ty, layout), None))
                }
                _ => Some((Kind::Scalar, Some(self.param_scalar(param)?))),
            },
        }
    }

    fn param_array(&mut self, param: &'a tree::Param) -> Option<(Kind, Option<Ty>)> {
        self.no_whole_parameter(&param.ty)?;
        let ty = self.ty(&param.ty)?;
        match ty.innermost().scalar().filter(|element| element.name() != "pred").map(|element| element.bytes()) {
            Some(bytes) if bytes > 0 => Some((Kind::Array(ty, bytes), None)),
            _ => self.not_passed(param),
        }
    }

    fn param_scalar(&mut self, param: &'a tree::Param) -> Option<Ty> {
        match self.ty(&param.ty)? {
            Ty::Scalar(ty) if ty.name() != "pred" => Some(Ty::Scalar(ty)),
            _ => self.not_passed(param),
        }
    }

    fn not_passed<T>(&mut self, param: &'a tree::Param) -> Option<T> {
        let by_value = match &param.ty.kind {
            TypeKind::Ref(_, inner) => match &inner.kind {
                TypeKind::Path(path) => path.segments.last().map(|name| name.name.as_str()),
                _ => None,
            },
            _ => None,
        };
        let help = match by_value {
            Some(name) if cuda::ty(name).is_some() => cuda::ty(name).unwrap_or_default().to_owned(),
            Some(name) => format!("take it by value, `{name}`, or as a slice, `&[{name}]`"),
            None if matches!(param.ty.kind, TypeKind::Slice(_)) => "write `&[T]`, or `&mut [T]` if the kernel writes there".to_owned(),
            None => "a kernel takes scalars, `&[T]`, `&mut [T]`, `TensorMap`, `Texture`, `Surface`, `Tile`, arrays and structs by value".to_owned(),
        };
        self.fail(&codes::P0812, param.ty.span, "a kernel cannot take this", help);
        None
    }

    /// The bytes of what a pointer points to, as its alignment.
    fn element_size(&mut self, element: &'a tree::Type) -> u64 {
        if let TypeKind::Path(path) = &element.kind
            && let Some(Binding::Struct(item)) = self.find(path).map(|found| found.binding)
        {
            return self.layout(item).map_or(1, |layout| layout.align);
        }
        let bytes = self.ty(element).and_then(|ty| ty.innermost().scalar()).map_or(1, |ty| ty.bytes());
        bytes.max(1)
    }

    /// The names of a tile's dimensions in `Tile<T, (M, K)>` that are no constants; `None` once an error is reported.
    fn dims(&mut self, param: &'a tree::Param, args: &'a [GenericArg], dims: &mut Vec<(String, Span)>) -> Option<()> {
        let Some(names) = dim_names(args) else {
            let message = "a tile has a type of elements and the names of its dimensions";
            self.fail(
                &codes::P0812,
                param.ty.span,
                message,
                "write `Tile<f32, (M, N)>`; one dimension is `(N,)`, and a name may be that of a constant",
            );
            return None;
        };
        for name in names {
            let is_constant = match self.scopes.find(&name.name).map(|found| found.binding) {
                // Behind all parameters, one of this name is an error.
                None | Some(Binding::Param(_) | Binding::Arguments(_) | Binding::Error) => false,
                Some(Binding::Const(_) | Binding::Value(Value::Const(_))) => true,
                Some(_) => {
                    let message = format!("`{}` is no constant", name.name);
                    self.fail(
                        &codes::P0805,
                        name.span,
                        message,
                        "name a dimension, which the launch knows, or a constant",
                    );
                    return None;
                }
            };
            if !is_constant && !dims.iter().any(|(known, _)| *known == name.name) {
                dims.push((name.name.clone(), name.span));
            }
        }
        Some(())
    }

    /// Adds a parameter with a name in the PTX and one in the kernel, and returns its index.
    fn add_param(
        &mut self,
        [name, text]: [&str; 2],
        origin: EntryParam,
        kind: Kind,
        ty: Option<Ty>,
        span: Span,
    ) -> usize {
        let symbol = self.f.symbols.unique(name);
        let register = self.f.registers.names.unique(&format!("%{name}"));
        if let Some(ty) = &ty {
            self.out.spoken.note(&register, text, ty.extents());
        }
        let param = Param {
            symbol,
            origin,
            kind,
            ty,
            register,
            pitch: None,
            align: None,
            used: false,
            fields: Vec::new(),
            span,
        };
        self.f.params.push(param);
        self.f.params.len() - 1
    }

    /// Its name in the PTX.
    pub(super) fn param_symbol(&self, index: usize) -> String {
        self.f.params.get(index).map_or_else(String::new, |param| param.symbol.clone())
    }

    /// Returns true for a struct by value.
    pub(super) fn is_struct_param(&self, index: usize) -> bool {
        self.f.params.get(index).is_some_and(|param| param.structure().is_some())
    }

    /// The register that holds a parameter.
    pub(super) fn param_value(&mut self, index: usize, span: Span) -> Value {
        let raw = self.f.raw;
        let Some(param) = self.f.params.get_mut(index) else { return Value::Error };
        let symbol = param.symbol.clone();
        match (&param.kind, &param.ty) {
            (Kind::Struct(..), _) => {
                let help = format!("use one of its fields: `{symbol}.…`");
                self.fail(&codes::P0817, span, format!("`{symbol}` is a struct and no register"), help)
            }
            (Kind::Array(ty, ..), _) if !raw => {
                let ty = ty.clone();
                self.field_value(&Field { param: index, path: String::new(), offset: 0, ty }, span)
            }
            (_, Some(Ty::Scalar(ty))) if !raw => {
                param.used = true;
                Value::Reg(Reg { name: param.register.clone(), ty: *ty })
            }
            (_, Some(Ty::Address(ty))) if !raw => {
                param.used = true;
                let address = Address::register(param.register.clone(), Rc::clone(ty));
                Value::Address(Address { pitch: param.pitch.clone(), ..address })
            }
            _ => {
                let help = format!("load it: `ptx! {{ ld.param.u32 r, [{symbol}]; }}`");
                self.fail(&codes::P0816, span, "a `raw` kernel has no prologue that loads its parameters", help)
            }
        }
    }

    /// The field that `p.a.b` names, if `p` is a struct parameter.
    pub(super) fn struct_field(&self, expr: &Expr) -> Option<Field> {
        let (param, path) = self.field_path(expr)?;
        let Kind::Struct(_, layout) = &self.f.params.get(param)?.kind else { return None };
        let (_, offset, ty) = layout.fields.iter().find(|(name, ..)| *name == path)?;
        Some(Field { param, path, offset: *offset, ty: ty.clone() })
    }

    fn field_path(&self, expr: &Expr) -> Option<(usize, String)> {
        let ExprKind::Field(base, field) = &expr.kind else { return None };
        match &base.kind {
            ExprKind::Path(path) => match self.find(path)?.binding {
                Binding::Param(index) => Some((index, field.name.clone())),
                _ => None,
            },
            _ => match self.argument_field(base) {
                Some(index) => Some((index, field.name.clone())),
                None => self.field_path(base).map(|(index, path)| (index, format!("{path}.{}", field.name))),
            },
        }
    }

    /// The registers that hold a field.
    pub(super) fn field_value(&mut self, field: &Field, span: Span) -> Value {
        if self.f.raw {
            return self.param_value(field.param, span);
        }
        let Some(param) = self.f.params.get(field.param) else { return Value::Error };
        if let Some((.., value)) = param.fields.iter().find(|(path, ..)| *path == field.path) {
            return value.clone();
        }
        let own = param.register.trim_start_matches('%');
        let name = if field.path.is_empty() { own.to_owned() } else { format!("{own}.{}", field.path) };
        let value = match &field.ty {
            Ty::Scalar(ty) => Value::Reg(self.named(&name, *ty)),
            Ty::Array(element, len) => Value::Array(self.named_array(&name, element, *len)),
            Ty::Tuple(_) | Ty::Struct(_) | Ty::Address(_) => Value::Error,
        };
        if let Some(param) = self.f.params.get_mut(field.param) {
            param.fields.push((field.path.clone(), field.offset, value.clone()));
        }
        value
    }

    /// Reports a field that a struct parameter does not have.
    pub(super) fn unknown_field(&mut self, index: usize, field: &str, span: Span) -> Value {
        let Some(Param { kind: Kind::Struct(ty, layout), .. }) = self.f.params.get(index) else {
            return Value::Error;
        };
        let names: Vec<&str> = layout.fields.iter().map(|(name, ..)| name.as_str()).collect();
        let help = match nearest(field, names.iter().copied()) {
            Some(near) => format!("there is `{near}`"),
            None => format!("it has `{}`", names.join("`, `")),
        };
        let message = format!("`{}` has no field `{field}`", ty.name);
        self.fail(&codes::P0817, span, message, help)
    }

    /// The loads of what is used, in the order of the parameters.
    pub(super) fn prologue(&mut self) -> Pieces {
        let mut out = Pieces::new();
        for param in &self.f.params {
            let own = if param.used { param.load() } else { Vec::new() };
            let lines = own.into_iter().chain(param.load_fields());
            out.extend(lines.map(|line| (format!("    {line};\n"), param.span)));
        }
        out
    }
}

/// The names in `(M, K)`, or in `N` alone, behind the type of a tile's elements; `None` for anything else.
fn dim_names(args: &[GenericArg]) -> Option<Vec<&Ident>> {
    let [GenericArg::Type(_), GenericArg::Type(dims)] = args else { return None };
    match &dims.kind {
        TypeKind::Tuple(names) if !names.is_empty() => names.iter().map(dim_name).collect(),
        _ => dim_name(dims).map(|name| vec![name]),
    }
}

fn dim_name(ty: &tree::Type) -> Option<&Ident> {
    let TypeKind::Path(path) = &ty.kind else { return None };
    match &*path.segments {
        [name] if path.args.is_empty() => Some(name),
        _ => None,
    }
}
