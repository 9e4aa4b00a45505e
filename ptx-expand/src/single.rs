//! `#[ptx_kernel]` on a function that stands alone: a PTX module of one kernel.

use crate::compile::{self, Compiled};
use crate::describe::Scope;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::root::Root;
use crate::{embed, fields, launch, nesting, proof, report};
use proc_macro2::{Ident, TokenStream};
use ptx_core::isa::Arch;
use ptx_language::tree::Module;
use quote::quote;

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    if let Err(deep) = nesting::check_nesting(&options).and_then(|()| nesting::check_nesting(&item)) {
        return deep.refuse();
    }
    if let Some(request) = fields::request("kernel", &options, &item) {
        return request;
    }
    let function: syn::ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let help = report::kind_or_syntax(&item, "fn", "`#[ptx_kernel]` stands on a function with a body", &error);
            return report::refuse(&mut Reader::default(), &error, help);
        }
    };
    let Single { mut reader, launchable, mut compiled, cubin, cubins, root } =
        Single::compile(Reader::default(), options, &function, &Scope::default());
    let root = Root::or_report(root.as_ref(), &mut reader, &function.sig.ident);
    embed::embed(&mut reader, &mut compiled, (cubin.as_ref(), &cubins[..]), &function.sig.ident);
    // A method has no place for the module that comes with a launch function.
    let launch = function.sig.receiver().is_none().then(|| match &root {
        Some(root) => launch::single(&reader.host, &launchable, &compiled, root),
        None => launch::stub(&reader.host, &launchable, &reader.diagnostics),
    });
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &function.attrs);
    let unused = report::unused(&reader, &compiled.unused);
    quote!(#launch #diagnostics #unused)
}

/// A kernel alone, compiled.
pub struct Single {
    /// Its spans and what is wrong with it.
    pub reader: Reader,
    /// Its launch function.
    pub launchable: Launchable,
    /// Its PTX.
    pub compiled: Compiled,
    /// The option for machine code.
    pub cubin: Option<Ident>,
    /// The chips that it names.
    pub cubins: Vec<Arch>,
    /// The path to `ptx-launch`, if the attribute has one.
    pub root: Option<syn::Path>,
}

impl Single {
    /// Compiles a function with the options of its attribute. `scope` has the constants that the attribute may name.
    pub fn compile(mut reader: Reader, options: TokenStream, function: &syn::ItemFn, scope: &Scope) -> Single {
        let mut attribute = reader.attribute(options);
        let structs = std::mem::take(&mut attribute.structs);
        reader.needs_arch(&attribute, &function.sig.ident, "kernel", r#"#[ptx_kernel(arch = "sm_80")]"#);
        reader.allowed.extend(attribute.allowed.drain(..).map(|code| (code, None)));
        let (cubin, cubins) = (attribute.option("cubin").cloned(), std::mem::take(&mut attribute.cubins));
        let root = attribute.root.take();
        let (kernel, mut launchable) = reader.kernel(attribute, function);
        let (arches, version) = (kernel.options.arch.clone(), kernel.options.version);
        let modules = reader.prelude();
        let module = Module { structs, modules, kernels: vec![kernel], ..Module::default() };
        let mut compiled = compile::module(&mut reader, &module, &arches, version);
        reader.sized_shared(std::slice::from_mut(&mut launchable), &mut compiled);
        reader.check_overlap(std::slice::from_ref(&launchable), &compiled);
        reader.take_contracts(std::slice::from_ref(&launchable), &mut compiled);
        proof::prove(&mut reader, std::slice::from_mut(&mut launchable), &mut compiled, scope);
        Single { reader, launchable, compiled, cubin, cubins, root }
    }
}
