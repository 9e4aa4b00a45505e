//! The expansion: a static description, a call for each instance, and the symbols.

use crate::item::{Function, Kind, Param, type_arguments, value_of};
use crate::options::{Dim, Options, Setting};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, Ident, Lit, LitStr, Type, UnOp};

pub(crate) fn emit(function: &Function, options: &Options) -> TokenStream {
    let rt = match &options.krate {
        Some(path) => quote!(#path::rt),
        None => quote!(::ptx_ffi::rt),
    };
    let (name, doc) = (function.name.to_string(), &function.doc);
    let params = emit_params(function, options);
    let (instances, call) = (emit_instances(function, options), emit_call(function));
    let backward = match &options.backward {
        // The path is named, so that a wrong one is an error.
        Some(backward) => {
            let text = backward.to_string();
            quote!(::core::option::Option::Some({ #[allow(unused_imports)] use super::#backward as _; #text }))
        }
        None => quote!(::core::option::Option::None),
    };
    let parallel = options.parallel.iter().map(|parallel| {
        let name = parallel.name.to_string();
        let groups = match &parallel.groups {
            Some(groups) => {
                let groups = groups.to_string();
                quote!(::core::option::Option::Some(#groups))
            }
            None => quote!(::core::option::Option::None),
        };
        quote!(__rt::Parallel { name: #name, groups: #groups })
    });
    let label = options.label.as_ref().map_or_else(|| name.clone(), LitStr::value);
    let symbols = emit_symbols(&name);
    let module = format_ident!("__ptx_ffi_{}", function.name);
    quote! {
        #[doc(hidden)]
        #[allow(non_snake_case)]
        mod #module {
            use super::*;
            use #rt as __rt;
            #call
            #params
            static FUNCTION: __rt::Function = __rt::Function {
                name: #name,
                label: #label,
                doc: #doc,
                params: &PARAMS,
                instances: &[#(#instances),*],
                backward: #backward,
                parallel: &[#(#parallel),*],
            };
            #symbols
        }
    }
}

/// The parameters: those of the signature and of its structs, with the options that name fields of these.
fn emit_params(function: &Function, options: &Options) -> TokenStream {
    let names = function.names();
    let parts = function.params.iter().map(|param| emit_part(&function.generics, &names, param, options));
    // The description of a struct is the same for all types of its elements: it is taken from the first instance.
    let types = options.types.first().into_iter().flatten();
    let aliases = function.generics.iter().zip(types).filter(|_| function.has_structs());
    let aliases = aliases.map(|(name, ty)| quote!(#[allow(dead_code)] type #name = #ty;));
    let settings = function.settings.iter().map(|(name, setting)| {
        let (text, missing) = (name.to_string(), format!("the function has no parameter `{name}`"));
        let setting = match setting {
            Setting::Shape(dims) => {
                let dims = dims.iter().map(|dim| emit_dim(&names, dim));
                quote!(Shape(&[#(#dims),*]))
            }
            Setting::Default(value) => {
                let default = emit_default(&kind_of(value), value);
                quote!(Default(__rt::Default::#default))
            }
            Setting::Align(align) => {
                let align = value_of(align);
                quote!(Align(#align))
            }
        };
        quote_spanned!(name.span()=> let params = __rt::set(params, #text, __rt::Setting::#setting, #missing);)
    });
    quote! {
        const PARTS: &[__rt::Part] = &{ #(#aliases)* [#(#parts),*] };
        const PARAMS: [__rt::Param; __rt::count(PARTS)] = {
            let params = __rt::flatten(PARTS);
            #(#settings)*
            params
        };
    }
}

/// A parameter, or a struct of them. `generics` are the type parameters of its function or struct, `names` those of the function's extents.
pub(crate) fn emit_part(generics: &[Ident], names: &[&Ident], param: &Param, options: &Options) -> TokenStream {
    let Kind::Struct(ty) = &param.kind else {
        let param = emit_param(generics, names, param, options);
        return quote!(__rt::Part::One(#param));
    };
    let elements = type_arguments(ty).into_iter().map(|ty| emit_element(generics, ty));
    quote!(__rt::Part::Struct(<#ty as __rt::Args>::PARTS, &[#(#elements),*]))
}

fn emit_param(generics: &[Ident], names: &[&Ident], param: &Param, options: &Options) -> TokenStream {
    let (name, optional) = (param.name.to_string(), param.optional);
    let kind = match &param.kind {
        Kind::Tensor { written, element, rank, dims } => {
            let align = options.align.iter().find(|(of, _)| *of == param.name).map(|(_, align)| value_of(align));
            let align = align.unwrap_or_else(|| quote!(1));
            let (element, dims) = (emit_element(generics, element), dims.iter().map(|dim| emit_dim(names, dim)));
            quote!(Tensor(__rt::TensorKind {
                written: #written, element: #element, rank: #rank, dims: &[#(#dims),*], align: #align
            }))
        }
        Kind::Int(ty) => quote!(Int(#ty::MIN as i64, #ty::MAX as u64)),
        Kind::Float(ty) => quote!(Float(<#ty as __rt::Dtype>::DTYPE)),
        Kind::Bool => quote!(Bool),
        Kind::Str | Kind::Struct(_) => quote!(Str),
    };
    let default = options.defaults.iter().find(|(of, _)| *of == param.name);
    let default = match default {
        Some((_, value)) => {
            let default = emit_default(&param.kind, value);
            quote!(::core::option::Option::Some(__rt::Default::#default))
        }
        None => quote!(::core::option::Option::None),
    };
    quote!(__rt::Param { name: #name, kind: __rt::Kind::#kind, optional: #optional, default: #default })
}

fn emit_default(kind: &Kind, value: &Expr) -> TokenStream {
    match kind {
        Kind::Float(_) if is_integer(value) => quote!(Float(#value as f64)),
        Kind::Float(_) => quote!(Float(#value)),
        Kind::Bool => quote!(Bool(#value)),
        Kind::Str => quote!(Str(#value)),
        Kind::Int(_) | Kind::Tensor { .. } | Kind::Struct(_) => quote!(Int(#value)),
    }
}

/// The kind of a literal. An integer is the default of a number, too.
fn kind_of(value: &Expr) -> Kind {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(_) => Kind::Bool,
            Lit::Str(_) => Kind::Str,
            Lit::Float(_) => Kind::Float(format_ident!("f64")),
            _ => Kind::Int(format_ident!("i64")),
        },
        Expr::Unary(unary) => kind_of(&unary.expr),
        _ => Kind::Int(format_ident!("i64")),
    }
}

fn is_integer(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_integer(&unary.expr),
        _ => false,
    }
}

fn emit_element(generics: &[Ident], element: &Type) -> TokenStream {
    let generic = match element {
        Type::Path(path) => generics.iter().position(|name| path.path.is_ident(name)),
        _ => None,
    };
    match generic {
        Some(number) => quote!(__rt::Element::Generic(#number)),
        None => quote!(__rt::Element::Fixed(<#element as __rt::Dtype>::DTYPE)),
    }
}

fn emit_dim(names: &[&Ident], dim: &Dim) -> TokenStream {
    match dim {
        Dim::Leading(_) => quote!(__rt::Dim::Leading),
        Dim::Name(name) => {
            let number = 1 + names.iter().position(|other| *other == name).unwrap_or_default();
            let name = name.to_string();
            quote!(__rt::Dim::Name(#name, #number))
        }
        Dim::Size(size) => quote!(__rt::Dim::Size(#size)),
        Dim::Any => quote!(__rt::Dim::Any),
    }
}

fn emit_instances(function: &Function, options: &Options) -> Vec<TokenStream> {
    let lists = if options.types.is_empty() { vec![Vec::new()] } else { options.types.clone() };
    let instance = |types: &Vec<Type>| {
        let (name, next) = (&function.name, function.params.iter().map(|_| quote!(__rt::next(call, &mut at)?)));
        let turbofish = if types.is_empty() { quote!() } else { quote!(::<#(#types),*>) };
        let call = match function.is_kernel {
            true => quote!(&call),
            false => {
                quote!(&|call: &__rt::Call<'_>| {
                    let mut at = 0;
                    super::#name #turbofish(call.stream(), #(#next),*)
                })
            }
        };
        quote!(__rt::Instance { types: &[#(<#types as __rt::Dtype>::DTYPE),*], call: #call })
    };
    lists.iter().map(instance).collect()
}

/// The call of a kernel's launch, whose tiles borrow their views.
fn emit_call(function: &Function) -> TokenStream {
    if !function.is_kernel {
        return quote!();
    }
    let (name, mut views, mut args) = (&function.name, Vec::new(), Vec::new());
    for (at, param) in function.params.iter().enumerate() {
        let local = format_ident!("argument_{at}");
        match &param.kind {
            Kind::Tensor { written, element, rank, .. } => {
                let (take, make) = match written {
                    true => (quote!(write_dense), quote!(__rt::Tile::of_mut(&mut #local.0, #local.1)?)),
                    false => (quote!(read_dense), quote!(__rt::Tile::of(&#local.0, #local.1)?)),
                };
                views.push(quote!(#[allow(unused_mut)] let mut #local = call.#take::<#element, { #rank }>(#at)?;));
                args.push(make);
            }
            _ => args.push(quote!(__rt::FromArg::from_arg(call, #at)?)),
        }
    }
    quote! {
        fn call(call: &__rt::Call<'_>) -> __rt::Result<()> {
            #(#views)*
            super::#name(call.stream(), #(#args),*)
        }
    }
}

fn emit_symbols(name: &str) -> TokenStream {
    let tvm = format_ident!("__tvm_ffi_{name}");
    let [cuda, cpu] = ["cuda", "cpu"].map(|platform| format_ident!("__xla_ffi_{name}_{platform}"));
    quote! {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn #tvm(
            _: *mut ::core::ffi::c_void, args: *const __rt::Any, count: i32, result: *mut __rt::Any
        ) -> ::core::ffi::c_int {
            // SAFETY: the caller keeps to the convention of TVM-FFI.
            unsafe { __rt::call_tvm(&FUNCTION, args, count, result) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn #cuda(frame: *mut ::core::ffi::c_void) -> *mut ::core::ffi::c_void {
            // SAFETY: the caller keeps to the convention of XLA's FFI.
            unsafe { __rt::call_xla(&FUNCTION, frame, true) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn #cpu(frame: *mut ::core::ffi::c_void) -> *mut ::core::ffi::c_void {
            // SAFETY: as above.
            unsafe { __rt::call_xla(&FUNCTION, frame, false) }
        }

        /// The symbols, for calls from Rust.
        #[allow(dead_code)]
        pub(super) const TVM: unsafe extern "C" fn(
            *mut ::core::ffi::c_void, *const __rt::Any, i32, *mut __rt::Any
        ) -> ::core::ffi::c_int = #tvm;
        #[allow(dead_code)]
        pub(super) const XLA_CPU: unsafe extern "C" fn(*mut ::core::ffi::c_void) -> *mut ::core::ffi::c_void = #cpu;

        /// Runs when the library is loaded, and puts the function into its list.
        #[used]
        #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
        #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
        #[cfg_attr(not(any(target_os = "macos", windows)), unsafe(link_section = ".init_array"))]
        static REGISTER: extern "C" fn() = {
            extern "C" fn register() {
                static NODE: __rt::Node = __rt::Node::new(&FUNCTION);
                __rt::register(&NODE);
            }
            register
        };
    }
}
