//! The constants and statics of a kernel: `NAME::PTX`, its module, its entry and parameters.

use super::{Launch, contract};
use crate::compile::{Compiled, Text};
use crate::embed;
use crate::tokens::Host;
use proc_macro2::{Literal, TokenStream};
use ptx_core::hash::Map;
use quote::quote;
use std::fmt::Write;
use syn::ext::IdentExt;

/// The PTX of a module and the static that is loaded. `name` is an expression, its name in errors.
pub fn texts(host: &Host, name: &TokenStream, compiled: &Compiled, rt: &TokenStream) -> TokenStream {
    let first = compiled.texts.first().map_or("", |text| text.ptx.as_str());
    let rest = compiled.texts.iter().enumerate().map(|(at, text)| {
        let (arch, ptx) = (text.arch.to_string(), text.ptx.as_str());
        if at == 0 { quote!((#arch, PTX)) } else { quote!((#arch, #ptx)) }
    });
    let mut archive = Archive::default();
    let variants = compiled.texts.iter().map(|text| {
        let variant = archive.add(&text.arch.to_string(), &text.ptx, &line_map(host, text), rt);
        let cubins = text.cubins.iter().map(|cubin| {
            let (arch, bytes, log) = (cubin.arch.to_string(), Literal::byte_string(&cubin.bytes), &cubin.log);
            quote!(#rt::Cubin::new(#arch, #bytes, #log))
        });
        let cubins: Vec<_> = cubins.collect();
        let cubins = (!cubins.is_empty()).then(|| quote!(.with_cubins(&[#(#cubins),*])));
        quote!(#variant #cubins)
    });
    let variants: Vec<_> = variants.collect();
    let (tracked, module) = (embed::tracked(rt), archive.module(name, &quote!(VARIANTS), rt));
    quote! {
        #tracked
        /// The PTX, made at compile time. With several targets: that of the first one in the attribute. A program that names it holds this
        /// text; what is loaded is compressed.
        #[allow(dead_code)]
        pub const PTX: &#rt::core::primitive::str = #first;
        /// Each target and its PTX. A program that names it holds these texts.
        #[allow(dead_code)]
        pub const TEXTS: &[(&#rt::core::primitive::str, &#rt::core::primitive::str)] = &[#(#rest),*];
        /// What is loaded for each target.
        pub const VARIANTS: &[#rt::Variant] = &[#(#variants),*];
        /// The loaded unit: one module for all its kernels.
        pub static MODULE: #rt::Module = #module;
    }
}

/// The texts of a module, one behind the other: they share most of their lines, and are compressed together.
#[derive(Default)]
struct Archive(String);

impl Archive {
    /// Adds the text for a target with its line map. Returns the variant.
    fn add(&mut self, arch: &str, ptx: &str, (files, places): &(String, String), rt: &TokenStream) -> TokenStream {
        let begin = self.0.len() as u32;
        let ends = [ptx, files, places].map(|part| {
            self.0.push_str(part);
            self.0.len() as u32
        });
        let version = ptx.lines().find_map(|line| line.trim().strip_prefix(".version")).unwrap_or_default().trim();
        quote!(#rt::Variant::packed(#arch, #version, [#begin, #(#ends),*]))
    }

    /// The module with these variants.
    fn module(&self, name: &TokenStream, variants: &TokenStream, rt: &TokenStream) -> TokenStream {
        let packed = Literal::byte_string(&ptx_pack::pack(&self.0));
        quote!(#rt::Module::packed(#name, #variants, #packed))
    }
}

/// The names around a module.
pub fn scope() -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use super::*;
    }
}

/// The same for a kernel whose module stands around it.
pub fn shared() -> TokenStream {
    quote! {
        #[doc(inline)]
        pub use super::{PTX, TEXTS, VARIANTS};
        use super::MODULE;
    }
}

/// A PTX text for one target, written by the user.
pub fn text(name: &str, written: &Written<'_>, rt: &TokenStream) -> TokenStream {
    let (same, mut archive) = (same_text(&written.constant, rt), Archive::default());
    let variant = archive.add(&written.arch, written.ptx, &Default::default(), rt);
    let module = archive.module(&quote!(#name), &quote!(&[#variant]), rt);
    quote! {
        #same
        /// The loaded unit: one module for all entries of the text.
        pub static MODULE: #rt::Module = #module;
    }
}

/// A PTX text that the user wrote.
pub struct Written<'a> {
    /// Its target.
    pub arch: String,
    /// The text.
    pub ptx: &'a str,
    /// The same as an expression.
    pub constant: TokenStream,
}

/// The constant alone.
pub fn same_text(ptx: &TokenStream, rt: &TokenStream) -> TokenStream {
    quote! {
        /// The PTX.
        #[allow(dead_code)]
        pub const PTX: &#rt::core::primitive::str = #ptx;
    }
}

impl Launch<'_> {
    /// The module with the kernel's name: `texts`, and the static of the kernel or of its instances.
    pub fn data(&self, texts: &TokenStream, module: &TokenStream) -> TokenStream {
        let (name, visibility) = (&self.kernel.name, &self.kernel.visibility);
        let doc = format!("The PTX of [`{name}()`], and what it is made of.");
        let configured = self.configured();
        let types = (!self.kernel.generics.is_empty() || self.root.needs_scope()).then(scope);
        let kernels = match (self.kernel.generics.is_empty(), self.kernel.names.is_empty()) {
            (true, _) => self.kernel_static(module),
            (false, true) => self.instances(module),
            (false, false) => self.named(module),
        };
        let params = self.param_lists();
        quote! {
            #configured
            #[doc = #doc]
            #visibility mod #name {
                #types
                #texts
                #params
                #kernels
            }
        }
    }

    /// `#[cfg]`s, which the module has in common with the function.
    fn configured(&self) -> TokenStream {
        let attributes =
            self.kernel.attributes.iter().filter(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr"));
        quote!(#(#attributes)*)
    }

    fn kernel_static(&self, module: &TokenStream) -> TokenStream {
        let (kernel, rt) = (self.kernel_value(&self.entry(None), module), self.inner_rt());
        quote! {
            /// The kernel: its figures, its occupancy, loading it ahead of the first launch.
            pub static KERNEL: #rt::Kernel = #kernel;
        }
    }

    /// `Kernel::new(…)` for one entry.
    pub fn kernel_value(&self, entry: &str, module: &TokenStream) -> TokenStream {
        let (rt, params) = (self.inner_rt(), self.params(entry));
        let bytes = self.compiled.entries_of(self.index).iter().find(|e| e.name == entry).and_then(|e| e.dynamic);
        let kernel = match bytes.and_then(|bytes| u32::try_from(bytes).ok()) {
            Some(bytes) => quote!(#rt::Kernel::sized(&#module, #entry, #params, #bytes)),
            None => quote!(#rt::Kernel::new(&#module, #entry, #params)),
        };
        let waiting = self.compiled.waiting.get(entry).filter(|bits| **bits != 0).map(|bits| quote!(.waiting(#bits)));
        let contract = self.compiled.contracts.get(entry).map(|promised| contract::written(&promised.contract, &rt));
        let promising = contract.map(|contract| quote!(.promising(#contract)));
        quote!(#kernel #waiting #promising)
    }

    /// The entry's name in the PTX.
    pub fn entry(&self, instance: Option<usize>) -> String {
        let entry = self.compiled.entries_of(self.index).iter().find(|e| e.instance == instance);
        entry.map_or_else(|| self.kernel.name.unraw().to_string(), |e| e.name.clone())
    }
}

/// The Rust files, one a line, and which line of Rust made which line of the PTX, where that changes, with the columns where a line of
/// Rust made several.
fn line_map(host: &Host, text: &Text) -> (String, String) {
    let mut files: Vec<String> = Vec::new();
    let mut places = String::new();
    // The lines of the PTX, with their columns, that come from the line of Rust that is being read.
    let (mut read, mut own): ((usize, usize), Vec<(u32, usize)>) = ((0, 0), Vec::new());
    // A helper's lines come again with each of its calls, and the compiler takes its time to find one.
    let mut found = Map::default();
    for (line, span) in &text.lines {
        let Some(place) = found.entry(*span).or_insert_with(|| host.location(*span)) else { continue };
        let known = files.iter().position(|f| *f == place.file);
        let file = known.unwrap_or_else(|| {
            files.push(place.file.clone());
            files.len() - 1
        });
        if read != (file, place.line as usize) {
            write_places(&mut places, read, &own);
            own.clear();
            read = (file, place.line as usize);
        }
        if own.last().is_none_or(|(_, column)| *column != place.column as usize) {
            own.push((*line, place.column as usize));
        }
    }
    write_places(&mut places, read, &own);
    places.truncate(places.trim_end().len());
    (files.join("\n"), places)
}

/// Writes the places of a line of Rust, as `LineMap` has them: with columns, if there is more than one.
fn write_places(places: &mut String, (file, line): (usize, usize), own: &[(u32, usize)]) {
    for (ptx, column) in own {
        // Writing to a string never fails.
        let _ = match own.len() {
            1 => write!(places, "{ptx}:{file}:{line} "),
            _ => write!(places, "{ptx}:{file}:{line}:{column} "),
        };
    }
}
