//! Helpers that no kernel calls, as kernels that call them: what is wrong in them is found like anything else.

use super::prelude;
use super::tree::{
    Block, Expr, ExprKind, Function, GenericArg, Ident, Kernel, Let, Module, Options, Path, Pattern, Stmt, StmtKind,
    Type, TypeKind,
};
use ptx_core::hash::Set;
use ptx_core::span::Span;

/// Copies of a module, and of the modules of helpers inside of it, whose kernels call the helpers that `called` does not contain, each with
/// registers that nothing has written: the checks then read these helpers too. Generic helpers have no types to check, nested ones no place, and
/// a `const fn` may be the host's alone. `called` has the spans of the functions. A module without such helpers has no copy.
pub fn uncalled(module: &Module, called: &Set<Span>) -> Vec<Module> {
    let own = module.modules.iter().filter(|(name, _)| prelude::source(&name.name).is_none());
    let inner = own.map(|(_, inner)| &**inner);
    let probes = std::iter::once(module).chain(inner).filter_map(|items| probe(items, called));
    probes.map(|probe| Module { modules: module.modules.clone(), ..probe }).collect()
}

/// The copy of one module.
fn probe(module: &Module, called: &Set<Span>) -> Option<Module> {
    let is_left = |function: &&Function| {
        let own = !function.external && !function.constant;
        own && function.generics.is_empty() && !called.contains(&function.span)
    };
    let mut kernels: Vec<Kernel> = module.functions.iter().filter(is_left).map(|f| caller(f, None)).collect();
    for of in module.impls.iter().filter(|of| of.generics.is_empty()) {
        kernels.extend(of.functions.iter().filter(is_left).map(|function| caller(function, Some(&of.target))));
    }
    (!kernels.is_empty()).then(|| Module { kernels, ..module.clone() })
}

/// A kernel that calls a helper once.
fn caller(function: &Function, of: Option<&Type>) -> Kernel {
    let at = function.name.span;
    let stmt = |kind| Stmt { kind, span: at };
    let mut stmts = Vec::new();
    let mut args = Vec::new();
    for param in &function.params {
        let (reference, ty) = match &param.ty.kind {
            TypeKind::Ref(mutable, inner) if !matches!(inner.kind, TypeKind::Slice(_)) => (Some(*mutable), &**inner),
            _ => (None, &param.ty),
        };
        let name = Ident { name: format!("own_{}", param.name.name), span: param.name.span };
        let pattern = Pattern::Name(name.clone(), false);
        stmts.push(stmt(StmtKind::Let(Let { memory: None, pattern, ty: Some(owned(ty, of)), init: None })));
        let place = Expr { kind: ExprKind::Path(Path::name(name)), span: at };
        args.push(match reference.filter(|_| param.name.name != "self") {
            Some(mutable) => Expr { kind: ExprKind::Ref(mutable, Box::new(place)), span: at },
            None => place,
        });
    }
    let call = match of {
        Some(_) if function.is_method() => {
            let receiver = Box::new(args.remove(0));
            ExprKind::Method(receiver, function.name.clone(), Vec::new(), args)
        }
        _ => {
            let mut path = Path::name(function.name.clone());
            if let Some(Type { kind: TypeKind::Path(of), .. }) = of {
                path.segments.splice(0..0, of.segments.iter().cloned());
            }
            ExprKind::Call(Box::new(Expr { kind: ExprKind::Path(path), span: at }), args)
        }
    };
    stmts.push(stmt(StmtKind::Expr(Expr { kind: call, span: at }, true)));
    Kernel {
        name: function.name.clone(),
        generics: Vec::new(),
        params: Vec::new(),
        options: Options { cooperative: true, ..Options::default() },
        body: Block { stmts, span: function.body.span },
        span: function.span,
    }
}

/// A type of an `impl` outside of it: `Self` is its struct.
fn owned(ty: &Type, of: Option<&Type>) -> Type {
    let kind = match (&ty.kind, of) {
        (TypeKind::Path(path), Some(of)) if matches!(path.segments.as_slice(), [name] if name.name == "Self") => {
            of.kind.clone()
        }
        (TypeKind::Path(path), Some(_)) => {
            let args = path.args.iter().map(|arg| match arg {
                GenericArg::Type(ty) => GenericArg::Type(owned(ty, of)),
                GenericArg::Const(expr) => GenericArg::Const(expr.clone()),
            });
            TypeKind::Path(Path { args: args.collect(), ..path.clone() })
        }
        (TypeKind::Array(element, len), _) => TypeKind::Array(Box::new(owned(element, of)), len.clone()),
        (TypeKind::Tuple(parts), _) => TypeKind::Tuple(parts.iter().map(|part| owned(part, of)).collect()),
        (kind, _) => kind.clone(),
    };
    Type { kind, span: ty.span }
}
