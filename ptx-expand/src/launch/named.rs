//! Kernels whose instances have names. Each name becomes a function with its constants; types stay generic, so that constants may be of
//! types that Rust does not take as arguments.

use super::argument::absolute;
use super::instances::static_name;
use super::{Launch, unknown_shape};
use crate::tokens::{contains_ident, joined, local};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Expr, GenericParam};

impl Launch<'_> {
    /// The content of the kernel's module.
    pub fn named(&self, module: &TokenStream) -> TokenStream {
        let inside = self.root.inside();
        let launch = Launch { root: &inside, statics: self.statics_inside(), ..*self };
        let (index, kernels) = (launch.index_of_names(), launch.kernels(self, module));
        if let Some(wrong) = &self.kernel.wrong {
            let names = self.kernel.distinct_names().map(|(_, name)| name.clone());
            let functions = names.chain([format_ident!("launch")]).map(|name| launch.unknown(&name, wrong));
            return quote!(#index #kernels #(#functions)*);
        }
        let functions = self.kernel.distinct_names().map(|(_, name)| launch.function_of(name));
        let picked = launch.picked();
        quote!(#index #kernels #(#functions)* #picked)
    }

    /// A launch of a kernel whose signature has an error.
    fn unknown(&self, name: &Ident, wrong: &TokenStream) -> TokenStream {
        let (root, types) = (self.root, self.types());
        unknown_shape((&self.kernel.visibility, name, &quote!(#(#types),*)), wrong, &quote!(#root::Result<()>))
    }

    /// The variables of the module, seen from the module of the kernel's name.
    fn statics_inside(&self) -> TokenStream {
        if self.statics.to_string() == "self" { quote!(super) } else { quote!(self) }
    }

    /// `enum Instance` and `INSTANCES`.
    fn index_of_names(&self) -> TokenStream {
        let rt = self.rt();
        let names: Vec<_> = self.kernel.distinct_names().map(|(_, name)| name).collect();
        let types: Vec<_> = self.constants().map(|generic| absolute(&generic.ty, self.root)).collect();
        let values = self.kernel.distinct_names().map(|(at, name)| {
            let values = self.constant_arguments(at).map(|(_, value)| value);
            quote!((Instance::#name, (#(#values),*)))
        });
        let doc = format!("The instances of [`{}`](self), by their names.", self.kernel.name);
        let copied = ["clone::Clone", "marker::Copy", "fmt::Debug", "cmp::PartialEq", "cmp::Eq", "hash::Hash"];
        let copied = copied.map(|path| path.parse::<TokenStream>().unwrap_or_default());
        quote! {
            #[doc = #doc]
            #[allow(non_camel_case_types, missing_docs, clippy::upper_case_acronyms)]
            #[derive(#(#rt::core::#copied),*)]
            pub enum Instance {
                #(#names),*
            }
            /// The instances and their constants.
            #[allow(unused_qualifications, unused_parens)]
            pub const INSTANCES: &[(Instance, (#(#types),*))] = &[#(#values),*];
        }
    }

    /// `Types`, and what exists for which of them.
    fn kernels(&self, outside: &Launch<'_>, module: &TokenStream) -> TokenStream {
        let rt = self.rt();
        let types: Vec<_> = self.types().collect();
        let (kernel, listed) = (&self.kernel.name, self.listed());
        let message = format!("the kernel `{kernel}` has no instance with these types");
        let label = format!("the instances are {listed}");
        let mut lists: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
        for at in 0..self.kernel.instances.len() {
            let of = self.kernel.type_arguments(at);
            match lists.iter_mut().find(|(known, _)| *known == of) {
                Some((_, all)) => all.push(at),
                None => lists.push((of, vec![at])),
            }
        }
        let exists = lists.iter().map(|(_, all)| self.of_types(all, outside, module));
        let marks = self.kernel.distinct_names().map(|(_, name)| self.mark(name));
        quote! {
            /// The types of an instance.
            #[allow(unreachable_pub)]
            pub struct Types<#(#types),*>(#rt::core::marker::PhantomData<(#(#types,)*)>);
            /// The instances with these types.
            #[diagnostic::on_unimplemented(message = #message, label = #label)]
            pub trait Exists: sealed::Sealed {
                /// Each name and its kernel.
                fn kernels() -> &'static [(Instance, &'static #rt::Kernel)];
            }
            /// Nobody outside of this module adds an instance.
            mod sealed {
                #[allow(unreachable_pub, missing_docs)]
                pub trait Sealed {}
            }
            /// A trait for each name, which the types of its instances have.
            pub mod exists {
                #(#marks)*
            }
            #(#exists)*
        }
    }

    fn mark(&self, name: &Ident) -> TokenStream {
        let message = format!("the kernel `{}` has no instance `{name}` with these types", self.kernel.name);
        let label = format!("the instances are {}", self.listed());
        // One module further inside.
        let rt = self.root.inside().expansion();
        quote! {
            #[diagnostic::on_unimplemented(
                message = #message,
                label = #label,
                note = "add it to `instances` in the kernel's attribute"
            )]
            #[allow(non_camel_case_types, missing_docs, unreachable_pub)]
            pub trait #name: super::Exists {
                fn kernel() -> &'static #rt::Kernel;
            }
        }
    }

    /// The instances with one list of types.
    fn of_types(&self, all: &[usize], outside: &Launch<'_>, module: &TokenStream) -> TokenStream {
        let rt = self.rt();
        let names = &self.kernel.names;
        let args = |at: usize| {
            let args = self.kernel.instances.get(at).into_iter().flatten().zip(&self.kernel.generics);
            args.filter(|(_, generic)| matches!(generic, GenericParam::Type(_)))
                .map(|(arg, _)| super::instances::generic_arg(arg, self.root))
                .collect::<Vec<_>>()
        };
        let Some(types) = all.first().map(|at| args(*at)) else { return TokenStream::new() };
        let each = all.iter().filter_map(|at| Some((names.get(*at)?, at)));
        let (mut entries, mut marks) = (Vec::new(), Vec::new());
        for (name, at) in each {
            let (kernel, place) = (outside.instance_kernel(*at, module), static_name(*at));
            entries.push(quote!((Instance::#name, &#place)));
            marks.push(quote! {
                #kernel
                #[allow(unused_qualifications)]
                impl exists::#name for Types<#(#types),*> {
                    fn kernel() -> &'static #rt::Kernel { &#place }
                }
            });
        }
        quote! {
            impl sealed::Sealed for Types<#(#types),*> {}
            #[allow(unused_qualifications)]
            impl Exists for Types<#(#types),*> {
                fn kernels() -> &'static [(Instance, &'static #rt::Kernel)] {
                    static ALL: &[(Instance, &#rt::Kernel)] = &[#(#entries),*];
                    ALL
                }
            }
            #(#marks)*
        }
    }

    /// The launch of one name.
    fn function_of(&self, name: &Ident) -> TokenStream {
        let types_of = self.types_of();
        let body = self.forwarded(&quote!(<#types_of as exists::#name>::kernel()), &quote!(Instance::#name));
        self.item(&quote!(pub), name, &quote!(#types_of: exists::#name), None, &body)
    }

    /// The call of the function in which all launches of the kernel end.
    fn forwarded(&self, kernel: &TokenStream, instance: &TokenStream) -> TokenStream {
        let (launch, stream, config) = (local("launch_of"), local("stream"), local("config"));
        let (types, names) = (self.types(), self.names());
        let config = self.takes_config().then(|| quote!(#config,));
        let call = quote!(#launch::<#(#types),*>(#kernel, #instance, #stream, #config #(#names),*));
        if self.kernel.is_safe() { call } else { quote!(unsafe { #call }) }
    }

    /// The constants of an instance, as items.
    pub fn constant_items(&self, at: usize) -> TokenStream {
        joined(self.constant_arguments(at).map(|(generic, value)| {
            let (name, ty) = (&generic.ident, absolute(&generic.ty, self.root));
            quote!(#[allow(dead_code, unused_qualifications)] const #name: #ty = #value;)
        }))
    }

    /// The body of all launches: what the constants of an instance decide once for each instance, and the rest once for all.
    fn picked_body(&self, instance: &Ident) -> TokenStream {
        let (stream, config) = (local("stream"), local("config"));
        if self.compiled.failed {
            return self.no_body(&stream, &config);
        }
        let values = self.find_values();
        let launch = Launch { values: &values, statics: self.statics.clone(), ..*self };
        let (dims, chosen) = (launch.dims(Some(false)), launch.chosen(instance, &config));
        let values = launch.bind_values(instance);
        let conditions = launch.as_host(launch.conditions(|condition| !launch.names_constant(condition)));
        let configured = launch.as_host(launch.config(&config));
        let configured = (!launch.is_config_of_instance()).then(|| quote!(let #config = #configured;));
        let aligns = launch.aligns(|align| !launch.names_constant(align));
        launch.body_with(&quote!(#dims #values #conditions #configured #aligns #chosen), &stream, &config)
    }

    /// The statements that need the constants of the instance.
    fn chosen(&self, instance: &Ident, config: &Ident) -> TokenStream {
        let dims = self.dims(Some(true));
        let conditions = self.conditions(|condition| self.names_constant(condition));
        let (boxes, aligns) = (self.boxes(), self.aligns(|align| self.names_constant(align)));
        let aligned = self.computed_aligns().filter(|(_, align)| self.names_constant(align));
        let names: Vec<Ident> = self.box_names().into_iter().chain(aligned.map(|(of, _)| of.align_name())).collect();
        let own = self.is_config_of_instance();
        if !own && names.is_empty() && dims.is_empty() && conditions.is_empty() {
            return TokenStream::new();
        }
        let (host, config) = match own {
            true => {
                let configured = self.config(config);
                let host = self.as_host(quote!(#conditions #configured));
                (quote!(let #config = #host;), Some(quote!(#config,)))
            }
            false => (self.as_host(conditions), None),
        };
        // Conditions alone leave nothing behind.
        let variables = (own || !names.is_empty()).then(|| quote!((#config #(#names,)*)));
        let kept = variables.as_ref().map(|variables| quote!(let #variables =));
        let end = variables.as_ref().map(|_| quote!(;));
        let arms = self.kernel.distinct_names().map(|(at, name)| {
            let constants = self.constant_items(at);
            quote!(Instance::#name => { #constants #dims #host #boxes #aligns #variables })
        });
        quote!(#kept match #instance { #(#arms)* } #end)
    }

    /// Returns true if the configuration depends on the constants of an instance.
    fn is_config_of_instance(&self) -> bool {
        self.config_exprs().any(|extent| self.names_constant(extent))
    }

    /// Returns true if an expression needs the constants themselves, and not only their values.
    fn names_constant(&self, expr: &Expr) -> bool {
        self.constants().any(|constant| contains_ident(self.host_expr(expr), &constant.ident))
    }

    /// `launch`, the function in which it ends, and the kernels of `Instance`.
    fn picked(&self) -> TokenStream {
        let (instance, kernel, rt, root) = (local("instance"), local("kernel"), self.rt(), self.root);
        let (types_of, types) = (self.types_of(), self.types().collect::<Vec<_>>());
        let (entry, exists) = (self.kernel.name.to_string(), quote!(#types_of: Exists));
        let all = self.item(
            &TokenStream::new(),
            &local("launch_of"),
            &exists,
            Some(quote!(#kernel: &'static #rt::Kernel, #instance: Instance,)),
            &self.picked_body(&instance),
        );
        let picked = self.forwarded(&quote!(Instance::kernel::<#(#types),*>(#instance)?), &instance.to_token_stream());
        let first = Some(quote!(#instance: Instance,));
        let launch = self.item(&quote!(pub), &format_ident!("launch"), &exists, first, &picked);
        quote! {
            #all
            #launch
            impl Instance {
                /// The kernel of the instance with these types: its figures, its occupancy.
                ///
                /// # Errors
                #[doc = " [`Condition`](ErrorKind::Condition) if no instance of this name has these types."]
                pub fn kernel<#(#types),*>(self) -> #root::Result<&'static #rt::Kernel>
                where #types_of: Exists
                {
                    #rt::instance(<#types_of as Exists>::kernels(), self, #entry)
                }
            }
        }
    }

    /// A function with the parameters of a launch.
    fn item(
        &self,
        visibility: &TokenStream,
        name: &Ident,
        bound: &TokenStream,
        first: Option<TokenStream>,
        body: &TokenStream,
    ) -> TokenStream {
        let (stream, config, rt, root) = (local("stream"), local("config"), self.rt(), self.root);
        let (attributes, docs, unsafety) = (&self.kernel.attributes, self.docs(), self.unsafety());
        let (bounds, types) = (self.type_bounds(), self.types());
        let wants_config = self.takes_config().then(|| quote!(#config: #rt::Config,));
        let declarations = self.declarations();
        quote! {
            #(#attributes)*
            #docs
            #[allow(clippy::too_many_arguments, unused_mut, unused_qualifications, unused_variables)]
            #visibility #unsafety fn #name<#(#types),*>(
                #first
                #stream: impl #rt::AsStream,
                #wants_config
                #(#declarations),*
            ) -> #root::Result<()>
            where #bounds #bound
            {
                #body
            }
        }
    }

    fn types_of(&self) -> TokenStream {
        let types = self.types();
        quote!(Types<#(#types),*>)
    }

    pub fn constants(&self) -> impl Iterator<Item = &syn::ConstParam> {
        self.kernel.generics.iter().filter_map(|generic| match generic {
            GenericParam::Const(generic) => Some(generic),
            _ => None,
        })
    }

    /// The constants of an instance.
    fn constant_arguments(&self, at: usize) -> impl Iterator<Item = (&syn::ConstParam, &Expr)> {
        let args = self.kernel.instances.get(at).into_iter().flatten();
        self.kernel.generics.iter().zip(args).filter_map(|(generic, value)| match generic {
            GenericParam::Const(generic) => Some((generic, value)),
            _ => None,
        })
    }
}
