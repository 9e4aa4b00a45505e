//! Types, paths and generic arguments.

use super::Reader;
use ptx_core::span::Span;
use ptx_language::tree::{Expr, ExprKind, GenericArg, Path, Type, TypeKind};
use syn::spanned::Spanned;

impl Reader {
    /// A type.
    pub fn ty(&mut self, ty: &syn::Type) -> Type {
        match ty {
            syn::Type::Paren(inner) => self.ty(&inner.elem),
            syn::Type::Group(inner) => self.ty(&inner.elem),
            syn::Type::Path(path) if path.qself.is_none() => {
                let (path, span) = self.path(&path.path);
                Type { kind: TypeKind::Path(path), span }
            }
            syn::Type::Array(array) => {
                let open = self.host.token(array.bracket_token.span.open());
                let kind = TypeKind::Array(Box::new(self.ty(&array.elem)), Box::new(self.expr(&array.len)));
                Type { kind, span: open.to(self.host.token(array.bracket_token.span.close())) }
            }
            syn::Type::Slice(slice) => {
                let open = self.host.token(slice.bracket_token.span.open());
                let kind = TypeKind::Slice(Box::new(self.ty(&slice.elem)));
                Type { kind, span: open.to(self.host.token(slice.bracket_token.span.close())) }
            }
            syn::Type::Reference(reference) => {
                let start = self.host.token(reference.and_token.span());
                if let Some(lifetime) = &reference.lifetime {
                    self.refuse(lifetime, "lifetimes", "write `&[T]` or `&mut [T]`");
                }
                let inner = self.ty(&reference.elem);
                let span = start.to(inner.span);
                Type { kind: TypeKind::Ref(reference.mutability.is_some(), Box::new(inner)), span }
            }
            syn::Type::Tuple(tuple) => {
                let open = self.host.token(tuple.paren_token.span.open());
                let kind = TypeKind::Tuple(tuple.elems.iter().map(|t| self.ty(t)).collect());
                Type { kind, span: open.to(self.host.token(tuple.paren_token.span.close())) }
            }
            other => self.refuse_type(other),
        }
    }

    fn refuse_type(&mut self, ty: &syn::Type) -> Type {
        let (what, instead) = match ty {
            syn::Type::Ptr(_) => ("raw pointers", "write `&[T]` or `&mut [T]` for a parameter, `u64` for an address"),
            syn::Type::Infer(_) => ("`_` as a type", "write the register's type, such as `u32`"),
            syn::Type::BareFn(_) => ("function pointers", "take the address of a `.func` in `ptx! { }`"),
            _ => ("such type", "write a register type such as `u32`, `f32` or `pred`, or an array of one"),
        };
        self.refuse(ty, what, instead);
        Type { kind: TypeKind::Error, span: self.host.syntax(ty) }
    }

    /// A path and its span.
    pub fn path(&mut self, path: &syn::Path) -> (Path, Span) {
        let (mut args, mut owner_args) = (Vec::new(), Vec::new());
        let mut segments = Vec::with_capacity(path.segments.len());
        let mut end = Span::default();
        let last = path.segments.len().saturating_sub(1);
        for (at, segment) in path.segments.iter().enumerate() {
            let name = self.ident(&segment.ident);
            end = name.span;
            segments.push(name);
            match &segment.arguments {
                syn::PathArguments::None => {}
                syn::PathArguments::AngleBracketed(generic) if at == last => {
                    args = generic.args.iter().map(|a| self.generic_arg(a)).collect();
                    end = self.host.token(generic.gt_token.span());
                }
                syn::PathArguments::AngleBracketed(generic) if at + 1 == last => {
                    owner_args = generic.args.iter().map(|a| self.generic_arg(a)).collect();
                }
                other => self.refuse(other, "generic arguments here", "write them behind the last name"),
            }
        }
        if let [first, _, ..] = segments.as_slice() {
            self.named.insert(first.name.clone());
        }
        let start = segments.first().map_or(end, |s| s.span);
        (Path { segments, args, owner_args }, start.to(end))
    }

    pub(super) fn generic_arg(&mut self, argument: &syn::GenericArgument) -> GenericArg {
        match argument {
            syn::GenericArgument::Type(ty) => GenericArg::Type(self.ty(ty)),
            syn::GenericArgument::Const(value) => GenericArg::Const(self.const_arg(value)),
            other => {
                self.refuse(other, "such generic argument", "write a type or a constant");
                GenericArg::Type(Type { kind: TypeKind::Error, span: self.host.syntax(other) })
            }
        }
    }

    /// `4`, `{ N + 1 }`: the braces of a constant with one expression have no meaning.
    fn const_arg(&mut self, value: &syn::Expr) -> Expr {
        let syn::Expr::Block(block) = value else { return self.expr(value) };
        match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(inner, None)] => self.expr(inner),
            _ => {
                self.refuse(value, "statements in a generic argument", "write one constant expression");
                Expr { kind: ExprKind::Error, span: self.host.syntax(value) }
            }
        }
    }

    /// An entry of `instances`: where it may be both, a type.
    pub fn instance_arg(&mut self, value: &syn::Expr) -> GenericArg {
        match value {
            syn::Expr::Path(path) if path.qself.is_none() => {
                let (path, span) = self.path(&path.path);
                GenericArg::Type(Type { kind: TypeKind::Path(path), span })
            }
            other => GenericArg::Const(self.const_arg(other)),
        }
    }
}
