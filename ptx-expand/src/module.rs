//! `#[ptx_module]`: several kernels, and what they share, in one PTX module.

use crate::attribute::Attribute;
use crate::compile::{self, Compiled};
use crate::contract::{self, contract_of, expand_in};
use crate::describe::Scope;
use crate::kernel::{Reader, Structs, is_for_the_host, marks_kernel};
use crate::launchable::Launchable;
use crate::root::Root;
use crate::tokens::joined;
use crate::{embed, fields, launch, nesting, part, proof, report};
use proc_macro2::TokenStream;
use ptx_core::diag::codes;
use ptx_language::tree;
use quote::quote;
use std::sync::Arc;

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    if let Err(deep) = nesting::check_nesting(&options).and_then(|()| nesting::check_nesting(&item)) {
        return deep.refuse();
    }
    if let Some(request) = fields::request("module", &options, &item).or_else(|| part::request(&options, &item)) {
        return request;
    }
    let item: syn::ItemMod = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(error) => {
            let help = report::kind_or_syntax(&item, "mod", "`#[ptx_module]` stands on a module", &error);
            return report::refuse(&mut Reader::default(), &error, help);
        }
    };
    let (mut items, mut compiled) = compile(Reader::default(), options, &item, &Scope::default().with(&item));
    let wanted = (items.attribute.option("cubin"), &items.attribute.cubins[..]);
    embed::embed(&mut items.reader, &mut compiled, wanted, &item.ident);
    let root = Root::or_report(items.attribute.root.as_ref(), &mut items.reader, &item.ident);
    items.expand(&item, &compiled, root.map(|root| root.inside()).as_ref())
}

/// Compiles a module with the options of its attribute. `scope` has the constants that the attributes of its kernels may name.
pub fn compile(reader: Reader, options: TokenStream, item: &syn::ItemMod, scope: &Scope) -> (Items, Compiled) {
    let mut items = Items { reader, ..Items::default() };
    items.options(options, item);
    items.reader.structs = Structs::of_items(item.content.iter().flat_map(|(_, items)| items));
    for inner in item.content.iter().flat_map(|(_, items)| items) {
        items.item(inner);
    }
    // Rust finds kernels of one name; helpers it does not see.
    for kernel in &items.module.kernels {
        let helper = items.module.functions.iter().find(|function| function.name.name == kernel.name.name);
        items.reader.declared_once(helper.map(|helper| &helper.name).into_iter().chain([&kernel.name]));
    }
    let options = &items.attribute.options;
    let (arches, version) = (options.arch.clone(), options.version);
    items.module.modules.append(&mut items.reader.prelude());
    let mut compiled = compile::module(&mut items.reader, &items.module, &arches, version);
    items.reader.sized_shared(&mut items.launchables, &mut compiled);
    items.reader.check_overlap(&items.launchables, &compiled);
    items.reader.take_contracts(&items.launchables, &mut compiled);
    proof::prove(&mut items.reader, &mut items.launchables, &mut compiled, scope);
    (items, compiled)
}

/// Items of a module, sorted.
#[derive(Default)]
pub struct Items {
    /// Its spans and what is wrong with it.
    pub reader: Reader,
    attribute: Attribute,
    module: tree::Module,
    launchables: Vec<Launchable>,
    /// The `static`s, in the order of `module`.
    statics: Vec<syn::ItemStatic>,
    /// The items that are Rust's too: constants, structs, `use`.
    kept: Vec<syn::Item>,
    /// Constants and `const fn`s of structs: Rust's too, where the struct is.
    impls: Vec<syn::ItemImpl>,
    /// Condition functions: the host's alone.
    contracts: Vec<syn::ItemImpl>,
}

impl Items {
    fn options(&mut self, options: TokenStream, item: &syn::ItemMod) {
        self.attribute = self.reader.attribute(options);
        self.module.structs = std::mem::take(&mut self.attribute.structs);
        self.reader.allowed.extend(self.attribute.allowed.iter().map(|code| (*code, None)));
        for name in self.attribute.given.iter().filter(|n| !OF_MODULES.iter().any(|m| *n == m)) {
            let help = "a module takes `arch`, `version`, `params`, `parts`, `modules`, `allow`, `lineinfo`, `cubin` and `crate`";
            self.reader.error(&codes::P0906, name, format!("`{name}` is an option of a kernel"), help);
        }
        if item.content.is_none() {
            let help = "write the module's items in braces here; the macro sees no other file";
            self.reader.error(&codes::P0907, item, "the module has no body", help);
        }
        self.reader.needs_arch(&self.attribute, &item.ident, "module", r#"#[ptx_module(arch = "sm_80")]"#);
    }

    fn item(&mut self, item: &syn::Item) {
        if let Some(contract) = contract_of(item) {
            // For its mistakes, which a text has too.
            drop(contract::read(&mut self.reader, &contract));
            return self.contracts.push(contract);
        }
        match item {
            syn::Item::Const(constant) => {
                self.module.consts.push(self.reader.constant(constant));
                self.kept.push(item.clone());
            }
            syn::Item::Static(item) => {
                self.module.statics.push(self.reader.static_(item));
                self.statics.push(item.clone());
            }
            syn::Item::Struct(of) => self.struct_(of),
            syn::Item::Impl(of) => self.impl_(of),
            syn::Item::Use(_) | syn::Item::Type(_) => self.kept.push(item.clone()),
            syn::Item::Fn(function) => self.function(function),
            syn::Item::Mod(inner) => self.inner(inner),
            syn::Item::Macro(call) if call.mac.path.segments.last().is_some_and(|s| s.ident == "ptx") => {
                self.module.ptx.push(self.reader.ptx_item(&call.mac));
            }
            syn::Item::Verbatim(tokens) if tokens.to_string().contains("static ") => {
                let help = "write it: `static mut NAME: u32 = 0;`, or `[0; N]` for an array";
                self.reader.error(&codes::P0907, item, "a `static` without a value", help);
            }
            other => {
                let help = "it may hold `const`, `static`, `struct`, `impl`, `use`, `ptx!`, helper `fn`s, `mod`s of them and kernels";
                self.reader.error(&codes::P0907, other, "a kernel module cannot hold this item", help);
            }
        }
    }

    fn struct_(&mut self, item: &syn::ItemStruct) {
        let kept = is_for_the_host(item) && self.reader.structs.find(&item.ident).is_none();
        if matches!(item.fields, syn::Fields::Named(_)) || !kept {
            self.module.structs.push(self.reader.struct_item(item));
        }
        if kept {
            let mut kept = item.clone();
            kept.attrs.retain(|attribute| !attribute.path().is_ident("align"));
            kept.fields.iter_mut().for_each(|f| f.attrs.retain(|attribute| !attribute.path().is_ident("align")));
            self.kept.push(syn::Item::Struct(kept));
        }
    }

    /// A module of helpers, which the module's code names by paths. The host does not have it.
    fn inner(&mut self, item: &syn::ItemMod) {
        let name = self.reader.ident(&item.ident);
        if ptx_language::prelude::source(&name.name).is_some() {
            let help = "choose another name: a path with this one names a helper of the library";
            self.reader.error(&codes::P0907, &item.ident, format!("the library has a module `{}`", name.name), help);
        } else if self.module.modules.iter().any(|(known, _)| known.name == name.name) {
            let message = format!("there are two modules `{}` here", name.name);
            self.reader.error(&codes::P0907, &item.ident, message, "rename one of them");
        } else {
            let inner = Arc::new(self.reader.helpers(item.content.iter().flat_map(|(_, items)| items)));
            self.module.modules.push((name, inner));
        }
    }

    /// Methods are the kernels'. Of a struct that the host has too, the host also has the `const fn`s and constants.
    fn impl_(&mut self, item: &syn::ItemImpl) {
        self.module.impls.push(self.reader.impl_(item));
        let host = |item: &syn::ImplItem| match item {
            syn::ImplItem::Fn(function) => function.sig.constness.is_some(),
            other => matches!(other, syn::ImplItem::Const(_)),
        };
        let mut kept = item.clone();
        kept.items.retain(host);
        if !kept.items.is_empty() {
            self.impls.push(kept);
        }
    }

    /// A kernel, a helper, or a `const fn`, which is the host's: `shared = bytes(STAGES)` calls it.
    fn function(&mut self, item: &syn::ItemFn) {
        let Some(at) = item.attrs.iter().position(marks_kernel) else {
            if item.sig.constness.is_some() {
                return self.kept.push(syn::Item::Fn(item.clone()));
            }
            return self.module.functions.push(self.reader.function(item));
        };
        let mut item = item.clone();
        let options = match item.attrs.remove(at).meta {
            syn::Meta::List(list) => list.tokens,
            _ => TokenStream::new(),
        };
        self.kernel(options, &item);
    }

    fn kernel(&mut self, options: TokenStream, item: &syn::ItemFn) {
        let mut attribute = self.reader.attribute(options);
        self.module.structs.append(&mut attribute.structs);
        for name in attribute.given.iter().filter(|n| OF_MODULES_ONLY.iter().any(|m| *n == m)) {
            let message = format!("`{name}` is given to the whole module");
            self.reader.error(&codes::P0906, name, message, "move it to `#[ptx_module(…)]`");
        }
        attribute.options.arch.clone_from(&self.attribute.options.arch);
        attribute.options.version = self.attribute.options.version;
        attribute.options.lineinfo |= self.attribute.options.lineinfo;
        let allowed = std::mem::take(&mut attribute.allowed);
        let (kernel, launchable) = self.reader.kernel(attribute, item);
        self.reader.allowed.extend(allowed.into_iter().map(|code| (code, Some(kernel.span))));
        self.module.kernels.push(kernel);
        self.launchables.push(launchable);
    }

    /// Returns true if the host has the struct of an `impl`.
    fn is_kept(&self, of: &syn::ItemImpl) -> bool {
        let syn::Type::Path(target) = &*of.self_ty else { return false };
        let Some(name) = target.path.segments.last().map(|segment| &segment.ident) else { return false };
        self.kept.iter().any(|kept| matches!(kept, syn::Item::Struct(kept) if kept.ident == *name))
    }

    /// The parts that launches are made of.
    pub fn into_launchables(self) -> (Reader, Vec<Launchable>) {
        (self.reader, self.launchables)
    }

    /// `root` is seen from the module.
    fn expand(mut self, item: &syn::ItemMod, compiled: &Compiled, root: Option<&Root>) -> TokenStream {
        let contracts = std::mem::take(&mut self.contracts);
        let contracts = joined(contracts.iter().map(|contract| {
            let view = expand_in(&mut Reader::default(), contract, root);
            quote!(#[allow(dead_code)] #contract #view)
        }));
        let launches = match root {
            Some(root) => {
                let taken: Vec<_> = self.launchables.iter().flat_map(|kernel| &kernel.structs).collect();
                let expansion = root.expansion();
                let structs = self.reader.structs.definitions(&taken, &quote!(#expansion::core));
                let parts = (&self.launchables[..], &self.statics[..]);
                let launches = launch::several(&self.reader.host, parts, compiled, root);
                quote!(#structs #launches)
            }
            None => {
                let stub = |kernel| launch::stub(&self.reader.host, kernel, &self.reader.diagnostics);
                joined(self.launchables.iter().map(stub))
            }
        };
        let diagnostics = report::report(&self.reader.host, &self.reader.diagnostics, &item.attrs);
        let unused = report::unused(&self.reader, &compiled.unused);
        let (kept, attributes, visibility, name) = (&self.kept, &item.attrs, &item.vis, &item.ident);
        let impls = self.impls.iter().filter(|of| self.is_kept(of));
        quote! {
            #(#attributes)*
            #visibility mod #name {
                #(#[allow(dead_code)] #kept)*
                #(#[allow(dead_code)] #impls)*
                #contracts
                #launches
                #diagnostics
                #unused
            }
        }
    }
}

/// The options that a module may have.
const OF_MODULES: [&str; 9] = ["arch", "version", "params", "parts", "modules", "allow", "lineinfo", "cubin", "crate"];
/// Those of them that its kernels do not have.
const OF_MODULES_ONLY: [&str; 6] = ["arch", "version", "parts", "modules", "cubin", "crate"];
