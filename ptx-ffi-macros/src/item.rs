//! The exported function: its parameters, as its signature and the options say.

use crate::options::{Dim, Options, Setting};
use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Lit, LitInt, Meta, Pat,
    PathArguments, PathSegment, Result, Type, TypePath,
};

/// The most parameters: as many as `ptx-ffi` has room for.
const PARAMS: usize = 32;

/// The most names of extents: as many as `ptx-ffi` has room for, beside `..`.
const NAMES: usize = 31;

/// A function to export.
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) doc: String,
    /// Names of its type parameters.
    pub(crate) generics: Vec<Ident>,
    pub(crate) params: Vec<Param>,
    /// The options of fields of its structs.
    pub(crate) settings: Vec<(Ident, Setting)>,
    /// True for a kernel, whose launch takes tiles.
    pub(crate) is_kernel: bool,
}

/// A parameter.
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
}

impl Param {
    /// Returns true for the parameter of this name. A struct has none that Python sees.
    fn is(&self, name: &Ident) -> bool {
        self.name == *name && !matches!(self.kind, Kind::Struct(_))
    }
}

/// Type of a parameter.
pub(crate) enum Kind {
    Tensor {
        written: bool,
        element: Box<Type>,
        rank: TokenStream,
        dims: Vec<Dim>,
    },
    Int(Ident),
    Float(Ident),
    Bool,
    Str,
    /// A struct of arguments, whose fields are parameters.
    Struct(Box<TypePath>),
}

pub(crate) fn parse(item: TokenStream, options: &Options) -> Result<Function> {
    let item: ItemFn = syn::parse2(item)?;
    let is_kernel =
        item.attrs.iter().any(|attribute| last_name(attribute.path()).is_some_and(|name| name == "ptx_kernel"));
    let generics = type_params(&item)?;
    let mut inputs = item.sig.inputs.iter();
    if !is_kernel {
        check_stream(inputs.next(), &item.sig.ident)?;
    }
    let params = inputs.map(|arg| parse_param(arg, is_kernel)).collect::<Result<Vec<Param>>>()?;
    let (name, doc) = (item.sig.ident, doc_of(&item.attrs));
    let mut function = Function { name, doc, generics, params, settings: Vec::new(), is_kernel };
    function.check(options)?;
    Ok(function)
}

impl Function {
    fn check(&mut self, options: &Options) -> Result<()> {
        if self.params.len() > PARAMS {
            return Err(Error::new(self.name.span(), format!("an exported function has at most {PARAMS} parameters")));
        }
        // A struct may have the tensors: a call without one is an error, too.
        if !self.params.iter().any(|param| matches!(param.kind, Kind::Tensor { .. } | Kind::Struct(_))) {
            return Err(Error::new(self.name.span(), "an exported function takes at least one tensor"));
        }
        let count = self.generics.len();
        if options.types.is_empty() && count > 0 {
            let message = "a generic function needs its types: `export(types = [f32, bf16])`";
            return Err(Error::new(self.name.span(), message));
        }
        if let Some(types) = options.types.iter().find(|types| types.len() != count) {
            let at = types.first().map_or(self.name.span(), Spanned::span);
            return Err(Error::new(at, format!("the function has {count} type parameters")));
        }
        for (name, value) in &options.defaults {
            if self.is_field(name) {
                self.settings.push((name.clone(), Setting::Default(Box::new(value.clone()))));
            } else {
                self.scalar(name)?;
            }
        }
        for (name, align) in &options.align {
            if self.is_field(name) {
                self.settings.push((name.clone(), Setting::Align(align.clone())));
            } else {
                self.tensor(name)?;
            }
        }
        for (name, dims) in &options.shapes {
            if self.is_field(name) {
                self.settings.push((name.clone(), Setting::Shape(dims.clone())));
            } else {
                self.set_shape(name, dims)?;
            }
        }
        let names = self.names();
        let mut parallel =
            options.parallel.iter().flat_map(|parallel| [Some(&parallel.name), parallel.groups.as_ref()]);
        if let Some(name) = parallel.find_map(|name| name.filter(|name| !names.contains(name))) {
            return Err(Error::new(name.span(), format!("no extent in `shapes(…)` is called `{name}`")));
        }
        if let Some(name) = names.get(NAMES) {
            return Err(Error::new(name.span(), format!("an exported function has at most {NAMES} names of extents")));
        }
        Ok(())
    }

    /// The names of extents, in the order in which they come first.
    pub(crate) fn names(&self) -> Vec<&Ident> {
        let own = self.params.iter().filter_map(|param| match &param.kind {
            Kind::Tensor { dims, .. } => Some(dims),
            _ => None,
        });
        let fields = self.settings.iter().filter_map(|(_, setting)| match setting {
            Setting::Shape(dims) => Some(dims),
            _ => None,
        });
        let mut names = Vec::new();
        for dim in own.chain(fields).flatten() {
            if let Dim::Name(name) = dim
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// Returns true if the function takes structs of arguments.
    pub(crate) fn has_structs(&self) -> bool {
        self.params.iter().any(|param| matches!(param.kind, Kind::Struct(_)))
    }

    /// Returns true for a name that may be that of a field of one of its structs. The compiler finds out: the macro sees no field.
    fn is_field(&self, name: &Ident) -> bool {
        self.has_structs() && !self.params.iter().any(|param| param.is(name))
    }

    fn find(&mut self, name: &Ident) -> Result<&mut Param> {
        let message = format!("the function has no parameter `{name}`");
        self.params.iter_mut().find(|param| param.is(name)).ok_or_else(|| Error::new(name.span(), message))
    }

    fn scalar(&mut self, name: &Ident) -> Result<()> {
        match self.find(name)?.kind {
            Kind::Tensor { .. } => Err(Error::new(name.span(), "a tensor has no default; `Option<…>` may be left out")),
            _ => Ok(()),
        }
    }

    fn tensor(&mut self, name: &Ident) -> Result<()> {
        match self.find(name)?.kind {
            Kind::Tensor { .. } => Ok(()),
            _ => Err(Error::new(name.span(), format!("`{name}` is no tensor"))),
        }
    }

    fn set_shape(&mut self, name: &Ident, shape: &[Dim]) -> Result<()> {
        self.tensor(name)?;
        let Kind::Tensor { dims, rank, .. } = &mut self.find(name)?.kind else { return Ok(()) };
        let expected = rank.to_string();
        if expected.parse::<usize>().is_ok_and(|rank| rank != shape.len()) {
            let message = format!("`{name}` has {expected} dimensions; `..` counts as one");
            return Err(Error::new(name.span(), message));
        }
        *dims = shape.to_vec();
        Ok(())
    }
}

fn type_params(item: &ItemFn) -> Result<Vec<Ident>> {
    let params = item.sig.generics.params.iter();
    let names = params.filter_map(|param| match param {
        GenericParam::Type(param) => Some(Ok(param.ident.clone())),
        GenericParam::Const(param) => Some(Err(Error::new(
            param.span(),
            "an exported function has no const parameters; call it from one for each value",
        ))),
        GenericParam::Lifetime(_) => None,
    });
    names.collect()
}

fn check_stream(first: Option<&FnArg>, function: &Ident) -> Result<()> {
    let message = "the first parameter of an exported function is the stream: `stream: &Stream`";
    let Some(FnArg::Typed(first)) = first else { return Err(Error::new(function.span(), message)) };
    let is_stream =
        |ty: &Type| matches!(ty, Type::Path(path) if last_name(&path.path).is_some_and(|name| name == "Stream"));
    match &*first.ty {
        Type::Reference(reference) if is_stream(&reference.elem) => Ok(()),
        other => Err(Error::new(other.span(), message)),
    }
}

fn parse_param(arg: &FnArg, is_kernel: bool) -> Result<Param> {
    let FnArg::Typed(arg) = arg else { return Err(Error::new(arg.span(), "an exported function has no `self`")) };
    let name = match &*arg.pat {
        Pat::Ident(name) => Some(&name.ident),
        // The fields of a struct have names of their own.
        Pat::Struct(pattern) => last_name(&pattern.path),
        _ => None,
    };
    let message = "a parameter of an exported function has a name, which Python sees";
    param_of(name.ok_or_else(|| Error::new(arg.pat.span(), message))?, &arg.ty, is_kernel)
}

/// A parameter of this name and type.
pub(crate) fn param_of(name: &Ident, ty: &Type, is_kernel: bool) -> Result<Param> {
    let (inner, optional) = match option_of(ty) {
        Some(inner) => (inner, true),
        None => (ty, false),
    };
    Ok(Param { name: name.clone(), kind: parse_kind(inner, is_kernel || optional)?, optional })
}

/// The kind of a type; an unknown one is a struct of arguments, if it may be one.
fn parse_kind(ty: &Type, is_plain: bool) -> Result<Kind> {
    let message = "expected TensorRef, TensorMut, an integer, f32, f64, bool, &str, or an Option of one of them; of a kernel tiles and numbers";
    let unknown = || Error::new(ty.span(), message);
    if let Type::Reference(reference) = ty {
        return if matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str")) {
            Ok(Kind::Str)
        } else {
            Err(unknown())
        };
    }
    let Type::Path(path) = ty else { return Err(unknown()) };
    let segment = path.path.segments.last().ok_or_else(unknown)?;
    match segment.ident.to_string().as_str() {
        "TensorRef" => parse_tensor(segment, false),
        "TensorMut" => parse_tensor(segment, true),
        "Tile" => parse_tile(segment, false),
        "TileMut" => parse_tile(segment, true),
        "f32" | "f64" => Ok(Kind::Float(segment.ident.clone())),
        "bool" => Ok(Kind::Bool),
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => Ok(Kind::Int(segment.ident.clone())),
        _ if !is_plain => Ok(Kind::Struct(Box::new(path.clone()))),
        _ => Err(unknown()),
    }
}

/// `TensorRef<'_, T, R>`.
fn parse_tensor(segment: &PathSegment, written: bool) -> Result<Kind> {
    let mut arguments = generic_arguments(segment).filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)));
    let (Some(GenericArgument::Type(element)), Some(rank)) = (arguments.next(), arguments.next()) else {
        return Err(Error::new(
            segment.span(),
            "expected an element type and the number of dimensions: `TensorRef<'_, f32, 2>`",
        ));
    };
    let rank = quote::quote!(#rank);
    Ok(Kind::Tensor { written, element: Box::new(element.clone()), rank, dims: Vec::new() })
}

/// `Tile<T, (M, K)>`, whose extents are its names.
fn parse_tile(segment: &PathSegment, written: bool) -> Result<Kind> {
    let mut arguments = generic_arguments(segment);
    let (Some(GenericArgument::Type(element)), Some(GenericArgument::Type(Type::Tuple(shape)))) =
        (arguments.next(), arguments.next())
    else {
        return Err(Error::new(segment.span(), "expected an element type and the extents: `Tile<f32, (M, K)>`"));
    };
    let dim = |ty: &Type| match ty {
        Type::Path(path) => path.path.get_ident().map_or(Dim::Any, |name| Dim::Name(name.clone())),
        _ => Dim::Any,
    };
    let (dims, rank) = (shape.elems.iter().map(dim).collect(), shape.elems.len());
    Ok(Kind::Tensor { written, element: Box::new(element.clone()), rank: quote::quote!(#rank), dims })
}

/// The types among the arguments of a generic type.
pub(crate) fn type_arguments(ty: &TypePath) -> Vec<&Type> {
    let arguments = ty.path.segments.last().into_iter().flat_map(generic_arguments);
    let types = arguments.filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

fn generic_arguments(segment: &PathSegment) -> impl Iterator<Item = &GenericArgument> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.args.iter()),
        _ => None,
    };
    arguments.into_iter().flatten()
}

/// `T` of `Option<T>`.
fn option_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    match generic_arguments(segment).next()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

fn last_name(path: &syn::Path) -> Option<&Ident> {
    path.segments.last().map(|segment| &segment.ident)
}

/// The text of its doc comments, without the blank in front of each line.
fn doc_of(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect();
    lines.join("\n")
}

/// A literal's value, for alignments.
pub(crate) fn value_of(literal: &LitInt) -> TokenStream {
    quote::quote!(#literal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::options;
    use quote::quote;

    fn error(options: TokenStream, item: TokenStream) -> String {
        let result = options::parse(options).and_then(|options| parse(item, &options).map(drop));
        result.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn names_of_extents_are_counted() {
        let tensors: Vec<TokenStream> = (0..8)
            .map(|at| {
                let name = quote::format_ident!("x{at}");
                quote!(#name: TensorRef<'_, f32, 4>)
            })
            .collect();
        let item = quote!(fn f(stream: &Stream, #(#tensors),*) -> Result<()> {});
        let shapes = |last: &str| {
            let names: Vec<_> = (0..32)
                .map(|at| quote::format_ident!("{}", if at == 31 { last.into() } else { format!("n{at}") }))
                .collect();
            let lists = names.chunks(4).enumerate().map(|(at, dims)| {
                let name = quote::format_ident!("x{at}");
                quote!(#name = [#(#dims),*])
            });
            quote!(shapes(#(#lists),*))
        };
        assert_eq!(error(shapes("n0"), item.clone()), "");
        assert_eq!(error(shapes("n31"), item.clone()), "an exported function has at most 31 names of extents");
        let function = parse(item, &options::parse(shapes("n0")).unwrap()).unwrap();
        assert_eq!(function.names().iter().position(|name| *name == "n30"), Some(30));
    }

    #[test]
    fn signatures_and_options_are_checked() {
        let good = quote!(
            fn f(stream: &Stream, x: TensorRef<'_, f32, 2>, n: u32) -> Result<()> {}
        );
        assert_eq!(
            error(quote!(shapes(x = [.., n]), defaults(n = 3), align(x = 16), backward = g, label = "h"), good.clone()),
            ""
        );
        for (options, message) in [
            (quote!(shapes(x = [.., n]), parallel(m)), "no extent in `shapes(…)` is called `m`"),
            (quote!(shapes(x = [.., n]), parallel(n / m)), "no extent in `shapes(…)` is called `m`"),
            (quote!(shapes(y = [n])), "the function has no parameter `y`"),
            (quote!(shapes(x = [n])), "`x` has 2 dimensions; `..` counts as one"),
            (quote!(shapes(x = [n, ..])), "`..` stands for the first dimensions, and comes first"),
            (quote!(shapes(n = [n])), "`n` is no tensor"),
            (quote!(defaults(x = 1)), "a tensor has no default; `Option<…>` may be left out"),
            (quote!(types = [f32]), "the function has 0 type parameters"),
            (
                quote!(color = 3),
                "expected `shapes`, `types`, `defaults`, `align`, `parallel`, `backward`, `label` or `crate`",
            ),
        ] {
            assert_eq!(error(options, good.clone()), message);
        }
        for (item, start) in [
            (
                quote!(
                    fn f(x: TensorRef<'_, f32, 2>) {}
                ),
                "the first parameter of an exported function is the stream",
            ),
            (
                quote!(
                    fn f(stream: &Stream, n: u32) {}
                ),
                "an exported function takes at least one tensor",
            ),
            (
                quote!(
                    fn f<T>(stream: &Stream, x: TensorRef<'_, T, 2>) {}
                ),
                "a generic function needs its types",
            ),
            (
                quote!(
                    fn f(stream: &Stream, x: &[f32]) {}
                ),
                "expected TensorRef, TensorMut",
            ),
            (
                quote!(
                    fn f<const N: usize>(stream: &Stream, x: TensorRef<'_, f32, N>) {}
                ),
                "an exported function has no const",
            ),
        ] {
            let message = error(quote!(), item);
            assert!(message.starts_with(start), "{message}");
        }
    }

    #[test]
    fn kernels_have_the_extents_of_their_tiles() {
        let item = quote!(
            /// One line.
            ///
            /// Another.
            #[ptx_kernel(arch = "sm_80")]
            fn k(x: Tile<f32, (M, _)>, out: TileMut<f32, (M,)>, factor: f32) {}
        );
        let function = parse(item, &Options::default()).unwrap();
        assert!(function.is_kernel && function.doc == "One line.\n\nAnother.");
        let Kind::Tensor { written, dims, .. } = &function.params[0].kind else { unreachable!() };
        assert!(!written && matches!(&dims[..], [Dim::Name(name), Dim::Any] if name == "M"));
    }
}
