//! Instances with names: what the names may be, and which kernels need them.

use super::Launchable;
use crate::argument::is_builtin_name;
use crate::kernel::Reader;
use ptx_core::diag::codes;
use ptx_core::hash::Set;
use quote::ToTokens;
use syn::{Expr, GenericParam, Ident, Type};

/// The names that the module of a kernel has anyway.
const RESERVED: [&str; 6] = ["launch", "Instance", "INSTANCES", "PTX", "VARIANTS", "MODULE"];

impl Reader {
    /// Reports names that cannot be, and struct parameters of instances without names.
    pub(super) fn check_names(&mut self, launchable: &mut Launchable) {
        if !launchable.instances.is_empty() && launchable.generics.is_empty() {
            let message = format!("`{}` has no generic parameters that `instances` could give", launchable.name);
            let help = "remove `instances`, or declare what they differ in: `fn name<T, const N: u32>(…)`";
            self.error(&codes::P0906, &launchable.name, message, help);
        }
        if launchable.names.is_empty() {
            return self.check_unnamed(launchable);
        }
        let (names, mut seen) = (std::mem::take(&mut launchable.names), Set::default());
        let errors = self.diagnostics.len();
        for (at, name) in names.iter().enumerate() {
            if RESERVED.iter().any(|reserved| name == reserved) {
                let message = format!("`{name}` is a name in the module of every kernel");
                self.error(&codes::P0903, name, message, "give the instance another name");
            } else if !seen.insert((name.to_string(), launchable.type_arguments(at))) {
                let message = format!("`{name}` is given twice with the same types");
                self.error(&codes::P0902, name, message, "remove one of them, or give it another name");
            } else if let Some(first) = names.iter().position(|other| other == name)
                && launchable.constants(first) != launchable.constants(at)
            {
                let message = format!("`{name}` has other constants above");
                let help = "a name stands for its constants: give this instance another name, or the same constants";
                self.error(&codes::P0903, name, message, help);
            }
        }
        launchable.names = names;
        if self.diagnostics.len() > errors {
            // So that the compiler does not report them.
            launchable.names.truncate(1);
            launchable.names.iter_mut().for_each(|name| *name = quote::format_ident!("wrong"));
            launchable.instances.truncate(1);
        }
    }

    fn check_unnamed(&mut self, launchable: &mut Launchable) {
        let configured = launchable.generics.iter().find(|generic| match generic {
            GenericParam::Const(generic) => !is_primitive(&generic.ty),
            _ => false,
        });
        if let Some(generic) = configured {
            let message = "a kernel with a parameter of this type needs names for its instances";
            let help = "write `instances = [name = (…), …]`; the host launches each by its name";
            self.error(&codes::P0903, generic, message, help);
            // So that the compiler does not report its type.
            launchable.generics.clear();
            launchable.instances.clear();
        }
        let text = |arguments: &Vec<Expr>| quote::quote!(#(#arguments),*).to_string();
        let mut seen = Set::default();
        launchable.instances.retain(|arguments| {
            let is_new = seen.insert(text(arguments));
            if !is_new {
                let message = format!("the instance `({})` is given twice", text(arguments));
                self.error(&codes::P0902, &arguments.first(), message, "remove one of them");
            }
            is_new
        });
    }
}

impl Launchable {
    /// The arguments of an instance for parameters of one kind, as text.
    fn arguments(&self, at: usize, is_of_kind: impl Fn(&GenericParam) -> bool) -> Vec<String> {
        let args = self.instances.get(at).map_or(&[][..], Vec::as_slice);
        let kind = self.generics.iter().zip(args).filter(|(generic, _)| is_of_kind(generic));
        kind.map(|(_, arg): (_, &Expr)| arg.to_token_stream().to_string()).collect()
    }

    /// The types of an instance, as text.
    pub fn type_arguments(&self, at: usize) -> Vec<String> {
        self.arguments(at, |generic| matches!(generic, GenericParam::Type(_)))
    }

    fn constants(&self, at: usize) -> Vec<String> {
        self.arguments(at, |generic| matches!(generic, GenericParam::Const(_)))
    }

    /// The names of instances, each once, and the first instance with it.
    pub fn distinct_names(&self) -> impl Iterator<Item = (usize, &Ident)> {
        let is_first = |(at, name): &(usize, &Ident)| self.names.iter().position(|other| other == *name) == Some(*at);
        self.names.iter().enumerate().filter(is_first)
    }
}

/// A type of the constants that stable Rust takes as arguments.
fn is_primitive(ty: &Type) -> bool {
    let named = |path: &syn::TypePath| {
        path.path
            .get_ident()
            .is_some_and(|name| is_builtin_name(name) || name == "usize" || name == "bool" || name == "isize")
    };
    matches!(ty, Type::Path(path) if named(path))
}
