//! The launch function.

use super::argument::located;
use super::{Launch, unknown_shape};
use crate::attribute::Region;
use crate::tokens::{joined, local, source_text};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

const SAFETY: &str = " # Safety
 The kernel reads and writes device memory through its arguments: they must be as large as its body assumes, and nothing
 else may use what it writes until it has ended.";

const PROVED: &str = " # Proved
 In every launch that passes the conditions, the kernel accesses its arguments only, inside of their bounds, aligned, and without races.";

const ERRORS: &str = " # Errors
 Those of [`ptx_launch::Error`].";

impl Launch<'_> {
    /// `pub fn NAME(stream, config, …) -> Result<()>`
    pub fn function(&self) -> TokenStream {
        let kernel = self.kernel;
        if !kernel.names.is_empty() {
            // Each name has a function of its own, in the kernel's module.
            return TokenStream::new();
        }
        if let Some(wrong) = &kernel.wrong {
            let root = self.root;
            let generics = &kernel.generics;
            let head = (&kernel.visibility, &kernel.name, &quote!(#(#generics),*));
            return unknown_shape(head, wrong, &quote!(#root::Result<()>));
        }
        let (attributes, visibility, name, rt) = (&kernel.attributes, &kernel.visibility, &kernel.name, self.rt());
        let root = self.root;
        let [stream, config] = [local("stream"), local("config")];
        let unsafety = self.unsafety();
        let docs = self.docs();
        let (generics, bound) = self.generics();
        // On the kernel's name, for the compiler's notes.
        let path = located(&rt, name.span());
        let a_stream = quote_spanned!(name.span()=> impl #path::AsStream);
        let wants_config = self.takes_config().then(|| quote!(#config: #rt::Config,));
        let declarations = self.declarations();
        let body = if self.compiled.failed { self.no_body(&stream, &config) } else { self.body(&stream, &config) };
        quote! {
            #(#attributes)*
            #docs
            #[allow(clippy::too_many_arguments, unused_qualifications)]
            #visibility #unsafety fn #name #generics(
                #stream: #a_stream,
                #wants_config
                #(#declarations),*
            ) -> #root::Result<()>
            #bound
            {
                #body
            }
        }
    }

    /// The body of a launch function of one list of constants.
    fn body(&self, stream: &Ident, config: &Ident) -> TokenStream {
        let (dims, host, boxes, aligns) = (self.dims(None), self.host(config), self.boxes(), self.aligns(|_| true));
        self.body_with(&quote!(#dims let #config = #host; #boxes #aligns), stream, config)
    }

    /// The body of a launch function. `chosen` defines the configuration and what else may follow from the constants of an instance: the rest is the same for all instances.
    pub fn body_with(&self, chosen: &TokenStream, stream: &Ident, config: &Ident) -> TokenStream {
        let (rt, shapes, maps) = (self.rt(), self.shapes(), self.maps(stream));
        let lengths = self.map_lengths();
        let bindings = self.kernel.params.iter().filter_map(|p| p.binding(stream, self.root));
        let alignments: Vec<_> =
            self.kernel.params.iter().filter_map(|p| p.alignment(&self.reference(), self.root)).collect();
        let (the_kernel, args, statics) = (self.reference(), self.args(), self.static_bindings(stream));
        let submission = local("submission");
        // The arguments are those of the entry, by the same signature.
        let launch = self.vouched(quote!(#rt::launch(#the_kernel, #stream, &#config, &[#(#args),*])));
        let (claims, apart) = (self.claims(None), self.taken_apart());
        let addresses = address_types(&self.kernel.launch.regions, &rt);
        quote! {
            #claims
            #apart
            #addresses
            #shapes
            #chosen
            let #submission = #rt::Submission::on(#rt::AsStream::as_stream(&#stream));
            let #stream = #rt::Submission::stream(&#submission);
            #lengths
            #(#bindings)*
            #(#alignments)*
            #statics
            #maps
            #launch
        }
    }

    /// An `unsafe` block around the launch. It is at the author's `unsafe`, so that lints see who vouches. Without one it is the macro's own, which no
    /// lint of the author's crate reports: in an `unsafe fn` the caller vouches, in a safe one the proof. No safe function of the runtime does the
    /// same, because anybody could call it.
    fn vouched(&self, launch: TokenStream) -> TokenStream {
        let Some(token) = &self.kernel.launch.vouched else { return quote!(unsafe { #launch }) };
        let mut block = Group::new(Delimiter::Brace, launch);
        block.set_span(token.span);
        quote!(#[allow(clippy::undocumented_unsafe_blocks)] #token #block)
    }

    /// Assertions that the constants of the attribute have the values with which the proof was made, for an instance.
    pub fn claims(&self, instance: Option<usize>) -> TokenStream {
        let rt = if instance.is_some() { self.inner_rt() } else { self.rt() };
        joined(self.kernel.claims.iter().filter(|(of, _)| *of == instance).map(|(_, holds)| {
            let text = "this constant of the kernel's attribute has another value than its proof assumes: the macro reads another constant of this name";
            quote!(const _: () = #rt::core::assert!(#holds, #text);)
        }))
    }

    /// Stands for the body where the kernel has errors.
    pub fn no_body(&self, stream: &Ident, config: &Ident) -> TokenStream {
        let names = self.names();
        let (config, rt) = (self.takes_config().then(|| quote!(&#config,)), self.rt());
        quote! {
            let _ = (&#stream, #config #(&#names),*);
            #rt::core::unreachable!()
        }
    }

    /// The kernel, or the one of these generic arguments.
    pub fn reference(&self) -> TokenStream {
        let name = &self.kernel.name;
        if !self.kernel.names.is_empty() {
            return local("kernel").into_token_stream();
        }
        match self.instance_type() {
            Some(instance) => quote!(<#instance as #name::Exists>::kernel()),
            None => quote!(&#name::KERNEL),
        }
    }

    /// Without both, the call has to say how many blocks and threads.
    pub fn takes_config(&self) -> bool {
        self.kernel.launch.grid.is_none() || self.kernel.launch.block.is_none()
    }

    pub fn unsafety(&self) -> Option<TokenStream> {
        (!self.kernel.is_safe()).then(|| quote!(unsafe))
    }

    /// Documentation beside the user's own doc comments.
    pub fn docs(&self) -> TokenStream {
        let has_docs = self.kernel.attributes.iter().any(|a| a.path().is_ident("doc"));
        let own = if has_docs { String::new() } else { format!(" Launches the kernel `{}`.", self.kernel.name) };
        let safety = (!self.kernel.is_safe()).then_some(SAFETY);
        let proved = self.kernel.is_safe_by_proof().then_some(PROVED);
        let conditions =
            self.kernel.launch.requires.iter().map(|condition| format!("\n - `{}`", source_text(condition)));
        let conditions: String = conditions.collect();
        let required =
            (!conditions.is_empty()).then(|| format!(" # Conditions\n The launch checks them first.{conditions}"));
        let texts = [Some(own.as_str()), safety, proved, required.as_deref(), Some(ERRORS)];
        joined(texts.iter().filter_map(|text| text.map(|text| quote!(#[doc = #text] #[doc = ""]))))
    }
}

/// Addresses in structs have their type.
fn address_types(regions: &[Region], rt: &TokenStream) -> TokenStream {
    joined(regions.iter().map(|Region { of, .. }| quote!(let _: #rt::core::primitive::u64 = #of;)))
}

/// A name as the user wrote it, or would have to: raw where it is a keyword.
pub fn written(name: &str) -> Ident {
    let bare = name.trim_start_matches("r#");
    syn::parse_str(bare).unwrap_or_else(|_| Ident::new_raw(bare, Span::call_site()))
}
