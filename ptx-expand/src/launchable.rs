//! Kernels: the function with its attribute becomes an entry of the statement tree, and the parts of a launch function.

mod named;
mod tma;

use crate::argument::{Argument, Map, Passing};
use crate::attribute::{Attribute, Launch, Memory, Region, Table};
use crate::kernel::{Reader, Signature, Taken, is_for_tools, parameter_attributes};
use crate::report;
use crate::tokens::places::field_path;
use crate::tokens::{contains_ident, names};
use proc_macro2::TokenStream;
use ptx_core::diag::codes;
use ptx_language::tree::{Kernel, Param};
use quote::ToTokens;

/// Parts of a kernel's launch function, beside the PTX.
pub struct Launchable {
    /// Its doc comments, `cfg`s and lints.
    pub attributes: Vec<syn::Attribute>,
    /// Its visibility.
    pub visibility: syn::Visibility,
    /// Its name.
    pub name: syn::Ident,
    /// Its generic parameters.
    pub generics: Vec<syn::GenericParam>,
    /// Its parameters, with the fields of structs in place of the structs.
    pub params: Vec<Argument>,
    /// The structs of arguments among them.
    pub structs: Vec<Taken>,
    /// The tensor maps that `#[tma]` declares; parameters of the kernel behind those of the signature.
    pub maps: Vec<Map>,
    /// The generic arguments that exist.
    pub instances: Vec<Vec<syn::Expr>>,
    /// Their names, one for each, or none.
    pub names: Vec<syn::Ident>,
    /// The options of the host.
    pub launch: Launch,
    /// Everything that `proved` names is proved, or an error gives the reason.
    pub is_proved: bool,
    /// The proof takes conditions for granted, `assume!`: whoever launches the kernel vouches for them.
    pub assumes: bool,
    /// Constants of the attribute must have the values with which the proof was made: conditions, each with the instance whose arguments it names.
    pub claims: Vec<(Option<usize>, TokenStream)>,
    /// The first error of its options and its signature, if they have one, as a call of `compile_error!`.
    pub wrong: Option<TokenStream>,
}

impl Launchable {
    /// Returns true if the launch is a safe function: its author vouches, or everything is proved.
    pub fn is_safe(&self) -> bool {
        self.launch.vouched.is_some() || self.is_safe_by_proof()
    }

    /// Returns true if the launch is a safe function because of a proof alone.
    pub fn is_safe_by_proof(&self) -> bool {
        self.is_proved && !self.assumes && self.launch.vouched.is_none() && self.launch.is_safe()
    }
}

impl Reader {
    /// A `#[ptx_kernel]` function.
    pub fn kernel(&mut self, attribute: Attribute, item: &syn::ItemFn) -> (Kernel, Launchable) {
        let before = self.diagnostics.len();
        let attributes: Vec<_> = item.attrs.iter().filter(|a| self.stays_on_launch(a)).cloned().collect();
        self.no_qualifiers(&item.sig);
        if let syn::ReturnType::Type(_, ty) = &item.sig.output {
            let help = "write results through a `&mut [T]` parameter";
            self.error(&codes::P0904, ty, "a kernel returns nothing", help);
        }
        if item.sig.unsafety.is_some() {
            let help =
                "the launch is an `unsafe fn` unless the attribute says `unsafe(requires(conditions))` or `proved`";
            self.error(&codes::P0904, &item.sig.unsafety, "a kernel is not declared `unsafe`", help);
        }
        let start = self.host.token(item.sig.fn_token.span);
        let name = self.ident(&item.sig.ident);
        self.keep_levels(&name, &item.attrs);
        let generics = self.generics(&item.sig.generics);
        let Signature { mut params, arguments, structs } = self.signature(&item.sig.inputs);
        if attribute.launch.is_safe() {
            arguments.iter().for_each(|argument| self.no_bare_map(argument));
        }
        attribute.launch.tables.iter().for_each(|table| self.check_table(table, &arguments));
        attribute.launch.regions.iter().for_each(|region| self.check_region(region, &arguments));
        attribute.launch.offsets.iter().for_each(|buffer| self.check_memory(buffer, &arguments));
        attribute.launch.distinct.iter().for_each(|own| self.check_memory(&own.of, &arguments));
        let maps = self.maps(&item.sig.inputs, (&arguments, &structs));
        let (maps, map_params): (Vec<Map>, Vec<Param>) = maps.into_iter().unzip();
        params.extend(map_params);
        self.declared_once(generics.iter().map(|generic| &generic.name).chain(params.iter().map(|param| &param.name)));
        let wrong = attribute.wrong.or_else(|| self.first_error(before));
        let body = self.block(&item.block);
        let span = start.to(body.span);
        let mut launchable = Launchable {
            attributes,
            visibility: item.vis.clone(),
            name: item.sig.ident.clone(),
            generics: item.sig.generics.params.iter().cloned().collect(),
            params: arguments,
            structs,
            maps,
            instances: attribute.instances,
            names: attribute.names,
            launch: Launch { cooperative: attribute.options.cooperative, ..attribute.launch },
            is_proved: false,
            assumes: false,
            claims: Vec::new(),
            wrong: None,
        };
        let before = self.diagnostics.len();
        self.check_names(&mut launchable);
        let wrong = wrong.or_else(|| self.first_error(before));
        launchable.wrong = wrong.map(|wrong| report::as_tokens(&self.host, &wrong));
        let mut options = attribute.options;
        for attribute in item.sig.inputs.iter().flat_map(parameter_attributes) {
            names(attribute.meta.to_token_stream(), &mut options.host_names);
        }
        (Kernel { name, generics, params, options, body, span }, launchable)
    }

    /// Reports what has addresses, or lies at them, and is no memory.
    fn check_table(&mut self, table: &Table, arguments: &[Argument]) {
        let own = match &table.memory {
            Memory::Argument(argument) => Some(argument),
            Memory::Elements(..) => None,
        };
        [&table.of].into_iter().chain(own).for_each(|expr| self.check_memory(expr, arguments));
    }

    /// Reports an address that is no field of a struct.
    fn check_region(&mut self, region: &Region, arguments: &[Argument]) {
        let path = field_path(&region.of).unwrap_or_default();
        let is_struct = arguments.iter().any(|argument| {
            let inner = path.strip_prefix(&argument.text).and_then(|rest| rest.strip_prefix('.'));
            matches!(argument.passing(), Passing::Value(_)) && inner.is_some()
        });
        if !is_struct {
            let help = "write a `u64` of a struct among the parameters: `p.partial = [f32; n]`";
            self.error(&codes::P0903, &region.of, "this is no field of a struct among the parameters", help);
        }
    }

    /// Reports what is no memory.
    fn check_memory(&mut self, expr: &syn::Expr, arguments: &[Argument]) {
        let name = field_path(expr);
        let is_memory = arguments.iter().any(|argument| {
            let is_slice = matches!(argument.passing(), Passing::Read(_) | Passing::Write(_));
            is_slice && name.as_ref() == Some(&argument.text)
        });
        if !is_memory {
            let help = "write the name of a `&[T]` or `&mut [T]`";
            self.error(&codes::P0903, expr, "this is no memory among the parameters", help);
        }
    }

    /// A tensor map has an address and no borrow, so that no condition can be enough.
    fn no_bare_map(&mut self, argument: &Argument) {
        if contains_ident(argument.ty.to_token_stream(), &quote::format_ident!("TensorMap")) {
            let help = "take a `Tile<T, (M, K)>` with `#[tma(box = [64, 64])]`, whose map is made at the launch, or write `requires(…)` without `unsafe`";
            self.error(
                &codes::P0906,
                &argument.ty,
                "the launch of a kernel that takes a `TensorMap` cannot be safe",
                help,
            );
        }
    }

    /// Doc comments, `cfg` and lints belong to the launch function; anything else has no meaning.
    fn stays_on_launch(&mut self, attribute: &syn::Attribute) -> bool {
        const ON_LAUNCH: [&str; 5] = ["cfg", "cfg_attr", "deprecated", "must_use", "inline"];
        let stays = is_for_tools(attribute) || ON_LAUNCH.iter().any(|name| attribute.path().is_ident(name));
        if !stays {
            self.attribute_without_meaning(attribute, "options of a kernel stand in `#[ptx_kernel(…)]`");
        }
        stays
    }

    fn maps<'a>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a syn::FnArg>,
        (arguments, structs): (&[Argument], &[Taken]),
    ) -> Vec<(Map, Param)> {
        let is_field = |at: &usize| structs.iter().any(|taken| taken.numbers.contains(at));
        let is_struct = |input: &&syn::FnArg| match input {
            syn::FnArg::Typed(typed) => match &*typed.pat {
                syn::Pat::Ident(name) => structs.iter().any(|taken| taken.name == name.ident),
                _ => true,
            },
            syn::FnArg::Receiver(_) => true,
        };
        let numbers = (0..arguments.len()).filter(|at| !is_field(at));
        let inputs = inputs.into_iter().filter(|input| !is_struct(input)).zip(numbers);
        inputs.filter_map(|(input, at)| self.tma(at, parameter_attributes(input), arguments.get(at)?)).collect()
    }
}
