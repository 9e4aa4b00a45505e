//! Methods and associated items: which function of which `impl` a call means.

use super::{Bound, Callee, Given, is_place, matched};
use crate::lower::Lowerer;
use crate::scope::Binding;
use crate::tree::{self, Expr, GenericArg, Ident, Impl, Path, TypeKind};
use crate::types::{AddressTy, Space, StructTy, Ty};
use crate::value::Value;
use ptx_core::diag::near::nearest;
use ptx_core::diag::{codes, plural};
use ptx_core::span::Span;
use std::rc::Rc;

/// The struct in front of `::name`.
enum Owner<'a> {
    /// With its arguments.
    Whole(Rc<StructTy>),
    /// Without: the call must say them.
    Bare(&'a tree::Struct, usize),
}

impl<'a> Lowerer<'a> {
    /// Makes an `impl` known, beside its struct.
    pub(in crate::lower) fn declare_impl(&mut self, item: &'a Impl) {
        let TypeKind::Path(path) = &item.target.kind else {
            let help = "write the name of a struct: `impl Ring { … }`";
            self.fail(&codes::P0812, item.target.span, "only structs have methods", help);
            return;
        };
        let path = pointee(path).unwrap_or(path);
        match self.find(path).map(|found| (found.binding, found.scope == self.scopes.current)) {
            Some((Binding::Struct(of), true)) => self.scopes.bind_impl(std::ptr::from_ref(of) as usize, item),
            Some((Binding::Struct(of), false)) => {
                let message = format!("`{}` is declared elsewhere", of.name.name);
                self.fail(&codes::P0812, item.target.span, message, "an `impl` stands beside its struct");
            }
            Some((Binding::Error, _)) => {}
            _ => {
                let name = super::super::constant::path_text(path);
                let help = format!("declare it in front of the `impl`: `struct {name} {{ … }}`");
                self.fail(&codes::P0812, item.target.span, format!("no struct here is called `{name}`"), help);
            }
        }
    }

    /// `x.f(a)`
    pub(in crate::lower) fn method_call(
        &mut self,
        (receiver, name): (&'a Expr, &'a Ident),
        generics: &[GenericArg],
        args: &'a [Expr],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let place = is_place(receiver) && self.special(receiver).is_none();
        let (ty, first) = if place {
            (self.type_of(receiver), Given::Receiver(receiver))
        } else {
            let value = self.value(receiver);
            if value == Value::Error {
                return Value::Error;
            }
            (value.ty(), Given::Value(value, receiver.span))
        };
        let callee = match &ty {
            Some(Ty::Struct(of)) => match self.method(of, &name.name) {
                Some(callee) => callee,
                None => return self.unknown_method(of, name),
            },
            Some(Ty::Address(of)) => match self.address_callee(of, &name.name) {
                Some(callee) => callee,
                None => {
                    let value = match first {
                        Given::Value(value, _) => value,
                        _ => self.followed(receiver),
                    };
                    let Value::Address(address) = value else { return Value::Error };
                    return self.address_method(address, name, generics, args, dest, span);
                }
            },
            _ => {
                let value = match first {
                    Given::Value(value, _) => value,
                    _ => self.followed(receiver),
                };
                if !generics.is_empty() && value != Value::Error {
                    let has = plural(generics.len(), "generic argument");
                    let message = format!("`{}` takes no generic arguments, and here is {has}", name.name);
                    return self.fail(&codes::P0811, name.span, message, "remove the `::<…>`");
                }
                return self.register_method((&value, receiver.span), name, args, dest, span);
            }
        };
        let owner = ty.as_ref().map(Ty::name).unwrap_or_default();
        if !callee.function.is_method() {
            let message = format!("`{}` has no `self`", name.name);
            let help = format!("call it by its path: `{}::{}(…)`", turbofish(&owner), name.name);
            return self.fail(&codes::P0811, name.span, message, help);
        }
        let takes = callee.function.params.len().saturating_sub(1);
        if args.len() != takes {
            let message = format!("`{}` takes {}, not {}", name.name, plural(takes, "argument"), args.len());
            let help = format!("it is `fn {}`", super::signature(callee.function));
            return self.fail(&codes::P0811, span, message, help);
        }
        let given: Vec<Given<'a>> = std::iter::once(first).chain(args.iter().map(Given::Expr)).collect();
        self.invoke(callee, (&name.name, name.span), generics, &given, dest, span)
    }

    /// Reports a function that the struct in front of `::` does not have; `None` where no struct stands there.
    pub(super) fn unknown_associated(&mut self, path: &Path, span: Span) -> Option<Value> {
        let name = &path.segments.last()?.name;
        let owner = self.find(&path.owner()?)?;
        let (of, item, home) = match owner.binding {
            Binding::Type(Ty::Struct(ty)) => (ty.name.clone(), ty.item, ty.scope),
            Binding::Struct(item) => (item.name.name.clone(), std::ptr::from_ref(item) as usize, owner.scope),
            _ => return None,
        };
        let impls = self.scopes.impls(home, item);
        let names = impls.iter().flat_map(|of| &of.functions).map(|f| f.name.name.as_str());
        let help = match nearest(name, names) {
            Some(near) => format!("there is `{near}`"),
            None => format!("write it: `impl {of} {{ fn {name}(…) {{ … }} }}`"),
        };
        Some(self.fail(&codes::P0801, span, format!("`{of}` has no function `{name}`"), help))
    }

    fn unknown_method(&mut self, ty: &StructTy, name: &Ident) -> Value {
        let impls = self.scopes.impls(ty.scope, ty.item);
        let names: Vec<&str> = impls.iter().flat_map(|of| &of.functions).map(|f| f.name.name.as_str()).collect();
        let help = match nearest(&name.name, names.iter().copied()) {
            Some(near) => format!("there is `{near}`"),
            None if ty.field(&name.name).is_some() => format!("it is a field: write `.{}`", name.name),
            None if names.is_empty() => format!("write it: `impl {} {{ fn {}(&self) {{ … }} }}`", ty.name, name.name),
            None => format!("there are `{}`", names.join("`, `")),
        };
        self.fail(&codes::P0813, name.span, format!("`{}` has no method `{}`", ty.name, name.name), help)
    }

    /// The function of this name of a struct.
    pub(in crate::lower) fn method(&mut self, ty: &Rc<StructTy>, name: &str) -> Option<Callee<'a>> {
        self.method_of(ty, &Ty::Struct(Rc::clone(ty)), name)
    }

    /// The function of this name of an address of a struct: of an `impl Shared<Barrier>`.
    pub(in crate::lower) fn address_callee(&mut self, ty: &Rc<AddressTy>, name: &str) -> Option<Callee<'a>> {
        let Ty::Struct(of) = &ty.element else { return None };
        self.method_of(of, &Ty::Address(Rc::clone(ty)), name)
    }

    /// The function of this name of `whole`, a struct or its address, among the `impl`s beside the struct.
    fn method_of(&mut self, of: &Rc<StructTy>, whole: &Ty, name: &str) -> Option<Callee<'a>> {
        for item in self.scopes.impls(of.scope, of.item) {
            if let Some(function) = item.functions.iter().find(|f| f.name.name == name)
                && let Some(bound) = self.impl_arguments(item, of.scope, whole)
            {
                return Some(Callee { function, home: of.scope, bound });
            }
        }
        None
    }

    /// The generics of an `impl` for a type; `None` where the `impl` is not for it.
    fn impl_arguments(&mut self, of: &'a Impl, home: usize, whole: &Ty) -> Option<Bound<'a>> {
        let mut bound = Vec::with_capacity(of.generics.len() + 1);
        for generic in &of.generics {
            let found = matched(&of.target, whole, &generic.name.name)?;
            bound.push((generic.name.name.clone(), found));
        }
        let current = self.scopes.current;
        let inner = self.scopes.open(Some(home), true);
        for (name, binding) in &bound {
            self.scopes.bind(name, binding.clone());
        }
        let target = self.ty(&of.target);
        self.scopes.close(inner, current);
        bound.push(("Self".to_owned(), Binding::Type(whole.clone())));
        (target.as_ref() == Some(whole)).then_some(bound)
    }

    /// The struct in front of the last segment of a path.
    fn owner(&mut self, path: &Path, span: Span) -> Option<Owner<'a>> {
        let owner = path.owner()?;
        let found = self.find(&owner)?;
        match found.binding {
            Binding::Type(Ty::Struct(ty)) => Some(Owner::Whole(ty)),
            Binding::Struct(item) if item.generics.is_empty() || !owner.args.is_empty() => {
                self.struct_type(item, found.scope, &owner.args, span).map(Owner::Whole)
            }
            Binding::Struct(item) => Some(Owner::Bare(item, found.scope)),
            _ => None,
        }
    }

    /// The function that `Ring::<4>::new` names. Arguments that are not written are found from what is passed, or from `wanted`.
    pub(in crate::lower) fn associated(
        &mut self,
        path: &Path,
        args: &[Given<'_>],
        wanted: Option<&Ty>,
        span: Span,
    ) -> Option<Callee<'a>> {
        let name = path.segments.last()?.name.clone();
        match self.owner(path, span)? {
            Owner::Whole(ty) => self.method(&ty, &name),
            Owner::Bare(item, home) => {
                let address = std::ptr::from_ref(item) as usize;
                let impls = self.scopes.impls(home, address);
                let found = impls.into_iter().find_map(|of| {
                    let function = of.functions.iter().find(|f| f.name.name == name)?;
                    Some((of, function))
                });
                let (of, function) = found?;
                let ty = match wanted {
                    Some(Ty::Struct(ty)) if ty.item == address => Rc::clone(ty),
                    _ => self.owner_from_arguments(of, function, home, args, span)?,
                };
                let bound = self.impl_arguments(of, home, &Ty::Struct(ty))?;
                Some(Callee { function, home, bound })
            }
        }
    }

    /// The struct of an `impl` whose generics follow from the arguments of a call.
    fn owner_from_arguments(
        &mut self,
        of: &'a Impl,
        function: &'a tree::Function,
        home: usize,
        args: &[Given<'_>],
        span: Span,
    ) -> Option<Rc<StructTy>> {
        let mut bound = Vec::with_capacity(of.generics.len());
        for generic in &of.generics {
            let found = self.argument_for(generic, function, args);
            let Some(found) = found else {
                let TypeKind::Path(target) = &of.target.kind else { return None };
                let target = super::super::constant::path_text(target);
                let message = format!("nothing says what `{}` of `{target}` is", generic.name.name);
                let help = format!("write it: `{target}::<…>::{}(…)`", function.name.name);
                self.fail(&codes::P0811, span, message, help);
                return None;
            };
            bound.push((generic.name.name.clone(), self.typed_generic(generic, found, home, span)?));
        }
        let current = self.scopes.current;
        let inner = self.scopes.open(Some(home), true);
        for (name, binding) in bound {
            self.scopes.bind(&name, binding);
        }
        let target = self.ty(&of.target);
        self.scopes.close(inner, current);
        match target {
            Some(Ty::Struct(ty)) => Some(ty),
            _ => None,
        }
    }

    /// The associated constant that `Ring::<4>::BYTES` names, its struct, and the names that it is evaluated with.
    pub(in crate::lower) fn associated_const(
        &mut self,
        path: &Path,
        span: Span,
    ) -> Option<(&'a tree::Const, Rc<StructTy>, Bound<'a>)> {
        let name = path.segments.last()?.name.clone();
        let Owner::Whole(ty) = self.owner(path, span)? else { return None };
        for of in self.scopes.impls(ty.scope, ty.item) {
            if let Some(item) = of.consts.iter().find(|item| item.name.name == name)
                && let Some(bound) = self.impl_arguments(of, ty.scope, &Ty::Struct(Rc::clone(&ty)))
            {
                return Some((item, ty, bound));
            }
        }
        None
    }
}

/// `Barrier` of `Shared<Barrier>`.
fn pointee(path: &Path) -> Option<&Path> {
    let [name] = path.segments.as_slice() else { return None };
    match (Space::find(&name.name), path.args.as_slice()) {
        (Some(_), [GenericArg::Type(tree::Type { kind: TypeKind::Path(inner), .. })]) => Some(inner),
        _ => None,
    }
}

/// `Ring<4>` in an expression: `Ring::<4>`.
fn turbofish(name: &str) -> String {
    name.replacen('<', "::<", 1)
}
