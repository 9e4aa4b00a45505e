//! Meaning of names and types in the source.

use super::Lowerer;
use super::constant::path_text;
use super::ptx::Meant;
use crate::cuda;
use crate::scope::{Access, Binding, Found};
use crate::tree::{self, Expr, ExprKind, Ident, Path, TypeKind};
use crate::types::{self, Const, Ty};
use crate::value::Value;
use ptx_core::diag::near::nearest;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::isa::{self, SpecialRegister};
use ptx_core::span::Span;

/// The items that a kernel sees.
const OUTSIDE: &str = "a kernel sees the items in its body and in its `#[ptx_module]`: put the constant there";

/// Returns true for a name that is written as constants are.
fn is_constant(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

impl<'a> Lowerer<'a> {
    /// Meaning of a path: a name here, or an item of a module.
    pub(super) fn find(&self, path: &Path) -> Option<Found<'a>> {
        let (first, rest) = path.segments.split_first()?;
        let mut found = match rest {
            [] => self.scopes.find(&first.name)?,
            _ => self.scopes.find_module(&first.name)?,
        };
        for segment in rest {
            let Binding::Module(scope) = found.binding else { return None };
            let binding = self.scopes.find_in(scope, &segment.name)?;
            found = Found { binding, access: Access::Own, scope, outside: false };
        }
        Some(found)
    }

    /// Reports a name that means nothing here, with the one that it may have meant: once in a scope.
    pub(super) fn unknown(&mut self, name: &str, meant: Meant, span: Span) -> Value {
        let mut diagnostic = Diagnostic::error(&codes::P0801, span, format!("nothing here is called `{name}`"));
        let specials = isa::table().specials.keys().map(|key| key.trim_start_matches('%'));
        let known = self.scopes.visible().chain(specials).filter(|_| meant != Meant::Label);
        let labels = self.scopes.labels().filter(|_| meant == Meant::Label);
        let here = cuda::here(name).or_else(|| cuda::whole(name));
        diagnostic = diagnostic.help(match (here, self.scopes.misses.nearest(name, known.chain(labels))) {
            (Some(here), _) => format!("it is `{here}` here"),
            (None, Some(near)) => format!("there is `{near}`"),
            _ if name.starts_with("crate::") || name.starts_with("super::") || name.starts_with("self::") => {
                OUTSIDE.to_owned()
            }
            _ if name.contains("::") => {
                "a kernel names its own module's items, and `f32::MAX`, `std::f32::consts::PI` and the like".to_owned()
            }
            _ if is_constant(name) => format!("{OUTSIDE}, or write `const {name}: u32 = …;` in the kernel"),
            (None, None) => meant.help(name.split(['.', ':']).next().unwrap_or(name)),
        });
        self.report(diagnostic);
        self.scopes.bind(name, Binding::Error);
        Value::Error
    }

    /// The special register that this name or `name.component` is, unless the user gave the name a meaning.
    pub(super) fn special(&self, expr: &Expr) -> Option<&'static SpecialRegister> {
        let key = match &expr.kind {
            ExprKind::Path(path) => format!("%{}", self.free_name(path)?),
            ExprKind::Field(base, component) => match &base.kind {
                ExprKind::Path(path) => format!("%{}.{}", self.free_name(path)?, component.name),
                _ => return None,
            },
            _ => return None,
        };
        isa::table().specials.get(key.as_str())
    }

    fn free_name<'p>(&self, path: &'p Path) -> Option<&'p str> {
        match path.segments.as_slice() {
            [Ident { name, .. }] if self.scopes.find(name).is_none() => Some(name),
            _ => None,
        }
    }

    /// Understands a type that registers can have.
    pub(super) fn ty(&mut self, ty: &tree::Type) -> Option<Ty> {
        match &ty.kind {
            TypeKind::Path(path) => self.named_type(path, ty.span),
            TypeKind::Array(element, len) => {
                let element = self.ty(element)?;
                let len = self.count(len)?;
                Some(Ty::Array(Box::new(element), len))
            }
            TypeKind::Tuple(parts) => parts.iter().map(|part| self.ty(part)).collect::<Option<_>>().map(Ty::Tuple),
            TypeKind::Ref(mutable, inner) if matches!(inner.kind, TypeKind::Slice(_)) => {
                let address = if *mutable { "GlobalMut" } else { "Global" };
                let help = format!("take an address: `{address}<f32>`");
                self.fail(&codes::P0812, ty.span, "slices are parameters of kernels", help);
                None
            }
            TypeKind::Ref(_, inner) => self.ty(inner),
            TypeKind::Slice(_) => {
                self.fail(
                    &codes::P0812,
                    ty.span,
                    "a slice has no size",
                    "write an array, `[f32; 4]`, or a pointer, `&[f32]`",
                );
                None
            }
            TypeKind::Error => None,
        }
    }

    fn named_type(&mut self, path: &Path, span: Span) -> Option<Ty> {
        match self.find(path).map(|found| (found.binding, found.scope)) {
            Some((Binding::Type(ty), _)) => return Some(ty),
            Some((Binding::Struct(item), home)) => {
                return self.struct_type(item, home, &path.args, span).map(Ty::Struct);
            }
            Some((Binding::Error, _)) => return None,
            _ => {}
        }
        let name = path.segments.last().map_or("", |ident| ident.name.as_str());
        let reported = self.errors.reports;
        if let Some(ty) = self.address_type(path, span) {
            return Some(ty);
        }
        if self.errors.reports > reported {
            return None;
        }
        if ["TensorMap", "Texture", "Surface", "Tile", "TileMut"].contains(&name) {
            return types::find("u64").map(Ty::Scalar);
        }
        if let (Some(ty), 1) = (types::find(name), path.segments.len()) {
            return if path.args.is_empty() { Some(Ty::Scalar(ty)) } else { self.no_arguments(name, span) };
        }
        if let (Some(_), true) = (types::find(name), path.segments.len() > 1) {
            let message = format!("no register has the type `{}`", path_text(path));
            self.fail(&codes::P0812, span, message, format!("write `{name}`"));
            return None;
        }
        let help = match (cuda::ty(name), nearest(name, isa::table().types.iter().map(|info| info.name))) {
            (Some(help), _) => help.to_owned(),
            (None, Some(near)) => format!("there is `{near}`"),
            (None, None) if name.starts_with(char::is_uppercase) => {
                format!("name a struct that is passed by value in the attribute: `params({name})`")
            }
            (None, None) => "registers are `pred`, `b8` to `b128`, `u8` to `u64`, `i8` to `i64`, `f16`, `f16x2`, `bf16`, `bf16x2`, `f32`, `f64` or a packed type".into(),
        };
        self.fail(&codes::P0812, span, format!("no register has the type `{name}`"), help);
        None
    }

    /// Reports the arguments of a type that is not generic.
    pub(super) fn no_arguments<T>(&mut self, name: &str, span: Span) -> Option<T> {
        self.fail(&codes::P0812, span, format!("`{name}` has no arguments"), format!("write `{name}`"));
        None
    }

    /// A constant that counts something.
    pub(super) fn count(&mut self, expr: &Expr) -> Option<u64> {
        match self.require_constant(expr)? {
            Const::Int(value, _) if (0..=1 << 32).contains(&value) => u64::try_from(value).ok(),
            other => {
                let what = other.text();
                self.fail(&codes::P0805, expr.span, format!("`{what}` counts nothing"), "write an integer from 0 on");
                None
            }
        }
    }
}
