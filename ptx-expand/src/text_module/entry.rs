//! An `.entry` as something to launch.

use super::signature::Signature;
use crate::argument::Argument;
use crate::attribute::Launch;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use proc_macro2::{Ident, Span};
use ptx_core::diag::{codes, near::nearest};
use ptx_core::hash::Set;
use ptx_core::ir::{Function, Module, Param, Variable};
use quote::quote;

impl Reader {
    /// The entries that are defined, each with its name in the PTX.
    pub fn entries(&mut self, module: &Module, signatures: &[Signature]) -> Vec<(String, Launchable)> {
        let defined: Vec<&Function> = module.functions.iter().filter(|f| f.entry && f.defined).collect();
        let names: Vec<&str> = defined.iter().map(|f| f.name.as_str()).collect();
        let written = rust_names(&names);
        let is_of = |signature: &Signature, entry: usize| {
            let name = signature.name();
            name == names[entry] || name == written[entry]
        };
        for signature in signatures.iter().filter(|s| !(0..names.len()).any(|entry| is_of(s, entry))) {
            let name = signature.name();
            let help = match nearest(&name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", listed(&names)),
            };
            let at = &signature.item.sig.ident;
            self.error(&codes::P0910, at, format!("the module has no entry `{name}`"), &help);
        }
        let launchable = |(at, function): (usize, &&Function)| {
            let signature = signatures.iter().find(|s| is_of(s, at));
            (function.name.clone(), self.entry(module, function, &written[at], signature))
        };
        defined.iter().enumerate().map(launchable).collect()
    }

    fn entry(&mut self, module: &Module, function: &Function, name: &str, signature: Option<&Signature>) -> Launchable {
        let params: Vec<&Variable> = variables(module, function).collect();
        let mut launchable = match signature {
            Some(signature) => self.signed(signature, &params),
            None => unsigned(function, name, &params),
        };
        let launch = &mut launchable.launch;
        self.fits_limits(function, launch.block.as_ref());
        launch.block = launch.block.take().or_else(|| limit(function, "reqntid"));
        launch.cluster = launch.cluster.take().or_else(|| limit(function, "reqnctapercluster"));
        launchable
    }

    /// Reports a block that the entry is never launched with.
    fn fits_limits(&mut self, function: &Function, block: Option<&syn::Expr>) {
        let Some((block, extents)) = block.and_then(|block| Some((block, literal_extents(block)?))) else { return };
        let limit = |name: &str| limit(function, name).and_then(|limit| literal_extents(&limit));
        let threads = |extents: [u64; 3]| extents.into_iter().fold(1u64, u64::saturating_mul);
        let wrong = match (limit("reqntid"), limit("maxntid")) {
            (Some(needed), _) if needed != extents => Some(("needs blocks of", "reqntid", needed)),
            (None, Some(most)) if threads(most) < threads(extents) => {
                Some(("takes blocks of at most", "maxntid", most))
            }
            _ => None,
        };
        if let Some((verb, directive, [x, y, z])) = wrong {
            let extents = match (y, z) {
                (1, 1) => x.to_string(),
                _ => format!("({x}, {y}, {z})"),
            };
            let message = format!("the entry {verb} {} threads: it has `.{directive}`", threads([x, y, z]));
            self.error(&codes::P0903, block, message, &format!("write `block = {extents}`, or leave it out"));
        }
    }
}

/// The extents of a list of literals, or of one; a missing extent is 1.
fn literal_extents(expr: &syn::Expr) -> Option<[u64; 3]> {
    let mut extents = [1; 3];
    let parts: Vec<&syn::Expr> = match expr {
        syn::Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        syn::Expr::Array(array) => array.elems.iter().collect(),
        one => vec![one],
    };
    for (at, part) in parts.into_iter().enumerate() {
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) = part else { return None };
        *extents.get_mut(at)? = number.base10_parse().ok()?;
    }
    Some(extents)
}

/// The parameters of an entry.
fn variables<'m>(module: &'m Module, function: &'m Function) -> impl Iterator<Item = &'m Variable> {
    function.params.iter().filter_map(|param| match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    })
}

/// An entry whose parameters are the numbers that the PTX declares.
fn unsigned(function: &Function, name: &str, params: &[&Variable]) -> Launchable {
    let own = |(at, param): (usize, &&Variable)| {
        let own = param.name.strip_prefix(&function.name).unwrap_or(&param.name).trim_start_matches('_');
        if own.is_empty() { format!("param_{at}") } else { own.to_owned() }
    };
    let names: Vec<String> = params.iter().enumerate().map(own).collect();
    let names = rust_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let argument = |(name, param): (&String, &&Variable)| Argument {
        name: Ident::new(name, Span::call_site()),
        text: name.clone(),
        ty: rust_type(param),
        layout: Some((param.size, param.align)),
        align: None,
    };
    Launchable {
        attributes: Vec::new(),
        visibility: syn::parse_quote!(pub),
        name: Ident::new(name, Span::call_site()),
        generics: Vec::new(),
        structs: Vec::new(),
        maps: Vec::new(),
        instances: Vec::new(),
        names: Vec::new(),
        params: names.iter().zip(params).map(argument).collect(),
        launch: Launch::default(),
        is_proved: false,
        assumes: false,
        claims: Vec::new(),
        wrong: None,
    }
}

/// PTX names as Rust can write them, no two alike: `a_b` stays, and `a$b` beside it is `a_b_1`.
fn rust_names(names: &[&str]) -> Vec<String> {
    let mut taken: Set<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let written = |name: &&str| {
        let base = rust_name(name);
        if base == *name {
            return base;
        }
        let numbered = (1u32..).map(|number| format!("{base}_{number}"));
        let free = std::iter::once(base.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        free.unwrap_or(base)
    };
    names.iter().map(written).collect()
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
    let limit = function.limit(name)?;
    let values = limit.values.iter().map(|v| proc_macro2::Literal::u64_unsuffixed(*v));
    match limit.values.len() {
        1 => syn::parse2(quote!(#(#values)*)).ok(),
        _ => syn::parse2(quote!((#(#values),*))).ok(),
    }
}

/// `a, b and c`, quoted.
fn listed(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|n| format!("`{n}`")).collect();
    match names.as_slice() {
        [] => "no entry".to_owned(),
        names => names.join(", "),
    }
}
