//! An `.entry` as something to launch.

use super::signature::Signature;
use crate::attribute::Launch;
use crate::kernel::{Argument, Launchable, Reader};
use proc_macro2::{Ident, Span};
use ptx_core::diag::{codes, near::nearest};
use ptx_core::ir::{Function, Module, Param, Variable};
use quote::quote;

impl Reader {
    /// The entries that are defined, each with its name in the PTX.
    pub(super) fn entries(&mut self, module: &Module, signatures: &[Signature]) -> Vec<(String, Launchable)> {
        let defined = || module.functions.iter().filter(|f| f.entry && f.defined);
        for signature in signatures {
            let name = signature.name();
            if !defined().any(|f| signature.is_of(f)) {
                let help = match nearest(&name, defined().map(|f| f.name.as_str())) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", listed(defined().map(|f| f.name.as_str()))),
                };
                let at = &signature.item.sig.ident;
                self.error(&codes::P0910, at, format!("the module has no entry `{name}`"), &help);
            }
        }
        let launchable = |function: &Function| {
            let signature = signatures.iter().find(|s| s.is_of(function));
            (function.name.clone(), self.entry(module, function, signature))
        };
        defined().map(launchable).collect()
    }

    fn entry(&mut self, module: &Module, function: &Function, signature: Option<&Signature>) -> Launchable {
        let params: Vec<&Variable> = variables(module, function).collect();
        let mut launchable = match signature {
            Some(signature) => self.signed(signature, &params),
            None => unsigned(function, &params),
        };
        let launch = &mut launchable.launch;
        launch.block = launch.block.take().or_else(|| limit(function, "reqntid"));
        launch.cluster = launch.cluster.take().or_else(|| limit(function, "reqnctapercluster"));
        launchable
    }
}

impl Signature {
    /// Whether it is this entry's: of its name, or of what Rust can write of it.
    fn is_of(&self, function: &Function) -> bool {
        let name = self.name();
        name == function.name || name == rust_name(&function.name)
    }
}

/// The parameters of an entry.
fn variables<'m>(module: &'m Module, function: &'m Function) -> impl Iterator<Item = &'m Variable> {
    function.params.iter().filter_map(|param| match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    })
}

/// An entry whose parameters are the numbers that the PTX declares.
fn unsigned(function: &Function, params: &[&Variable]) -> Launchable {
    let name = Ident::new(&rust_name(&function.name), Span::call_site());
    let argument = |(at, param): (usize, &&Variable)| {
        let written = param.name.strip_prefix(&function.name).unwrap_or(&param.name).trim_start_matches('_');
        let name = if written.is_empty() { format!("param_{at}") } else { rust_name(written) };
        Argument {
            name: Ident::new(&name, Span::call_site()),
            ty: rust_type(param),
            layout: Some((param.size, param.align)),
        }
    };
    Launchable {
        attributes: Vec::new(),
        visibility: syn::parse_quote!(pub),
        name,
        generics: Vec::new(),
        maps: Vec::new(),
        instances: Vec::new(),
        params: params.iter().enumerate().map(argument).collect(),
        launch: Launch::default(),
    }
}

/// A PTX name with what Rust's names do not have replaced.
fn rust_name(name: &str) -> String {
    let letters: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if letters.starts_with(|c: char| c.is_ascii_digit()) || letters == "_" || syn::parse_str::<Ident>(&letters).is_err()
    {
        format!("_{letters}")
    } else {
        letters
    }
}

/// The Rust type with the bits of a PTX parameter.
fn rust_type(param: &Variable) -> syn::Type {
    let element: syn::Type = match param.ty.name() {
        "b8" | "u8" => syn::parse_quote!(u8),
        "s8" => syn::parse_quote!(i8),
        "b16" | "u16" => syn::parse_quote!(u16),
        "s16" => syn::parse_quote!(i16),
        "s32" => syn::parse_quote!(i32),
        "s64" => syn::parse_quote!(i64),
        "f16" => syn::parse_quote!(f16),
        "bf16" => syn::parse_quote!(bf16),
        "f32" => syn::parse_quote!(f32),
        "f64" => syn::parse_quote!(f64),
        _ if param.ty.bytes() == 16 => syn::parse_quote!(u128),
        _ if param.ty.bytes() == 8 => syn::parse_quote!(u64),
        _ => syn::parse_quote!(u32),
    };
    let count = usize::try_from(param.size / param.ty.bytes().max(1)).unwrap_or(usize::MAX);
    if param.dims.is_empty() && param.vector == 1 { element } else { syn::parse_quote!([#element; #count]) }
}

/// `.reqntid 256` as a host expression.
fn limit(function: &Function, name: &str) -> Option<syn::Expr> {
    let limit = function.limits.iter().find(|l| l.name == name)?;
    let values = limit.values.iter().map(|v| proc_macro2::Literal::u64_unsuffixed(*v));
    match limit.values.len() {
        1 => syn::parse2(quote!(#(#values)*)).ok(),
        _ => syn::parse2(quote!((#(#values),*))).ok(),
    }
}

/// `a, b and c`, quoted.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|n| format!("`{n}`")).collect();
    match names.as_slice() {
        [] => "no entry".to_owned(),
        names => names.join(", "),
    }
}
