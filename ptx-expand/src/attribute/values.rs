//! The options whose values need reading.

use super::{Arg, Attribute, Distinct, Launch, Memory, Region, Table, Value, Wanted};
use crate::kernel::Reader;
use ptx_core::diag::{codes, near::nearest};
use ptx_core::isa::{Arch, Version, table};
use ptx_language::tree::{Expr, Instance};
use ptx_target::Contract;
use quote::ToTokens;
use std::str::FromStr;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;

impl Reader {
    /// `arch = "sm_90a"`, `arch("sm_80", "sm_90a")`
    pub(super) fn arch(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let values = match &arg.value {
            Value::Equals(value) => vec![value.clone()],
            Value::List(values) => self.values(values),
            Value::Nothing => return false,
        };
        self.targets(&values, &mut attribute.options.arch);
        true
    }

    /// `cubin`, `cubin("sm_80", "sm_90a")`
    pub(super) fn cubins(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        match &arg.value {
            Value::Nothing => true,
            Value::List(values) => {
                let values = self.values(values);
                self.targets(&values, &mut attribute.cubins);
                !values.is_empty()
            }
            Value::Equals(_) => false,
        }
    }

    /// Adds targets to a list; those that do not exist, or are there already, are reported.
    fn targets(&mut self, values: &[syn::Expr], to: &mut Vec<Arch>) {
        for value in values {
            let Some(arch) = self.parsed::<Arch>(value, "a target", &like_a_target(value)) else { continue };
            let known = || table().targets.iter().map(|target| target.arch);
            if !known().any(|target| target == arch) {
                // Numbers are near where their chips are.
                let near =
                    known().min_by_key(|target| (target.number.abs_diff(arch.number), target.suffix != arch.suffix));
                let help = near.map_or_else(String::new, |near| format!("did you mean `{near}`?"));
                self.error(&codes::P0603, value, format!("there is no target `{arch}`"), &help);
            } else if to.contains(&arch) {
                self.error(&codes::P0902, value, format!("`{arch}` is given twice"), "remove one of them");
            } else {
                to.push(arch);
            }
        }
    }

    /// `version = "8.7"`
    pub(super) fn version(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        attribute.options.version = self.parsed::<Version>(value, "a PTX version", r#"write it as `"8.7"`"#);
        true
    }

    /// A string that is the text of a `T`.
    fn parsed<T: FromStr>(&mut self, value: &syn::Expr, what: &str, help: &str) -> Option<T> {
        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = value
            && let Ok(parsed) = text.value().parse()
        {
            return Some(parsed);
        }
        self.error(&codes::P0903, value, format!("this is not {what}"), help);
        None
    }

    /// `block = 256`
    pub(super) fn block_size(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        attribute.options.block = self.extents(value, "block");
        attribute.launch.block = (!attribute.options.block.is_empty()).then(|| value.clone());
        true
    }

    /// `max_block = 256`
    pub(super) fn max_block_size(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        attribute.options.max_block = self.extents(value, "max_block");
        true
    }

    /// `cluster = 2`
    pub(super) fn cluster_size(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        attribute.options.cluster = self.extents(value, "cluster");
        attribute.launch.cluster = (!attribute.options.cluster.is_empty()).then(|| value.clone());
        true
    }

    /// `required_cluster = 2`
    pub(super) fn required_cluster_size(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        attribute.options.required_cluster = self.extents(value, "cluster");
        attribute.launch.cluster = (!attribute.options.required_cluster.is_empty()).then(|| value.clone());
        true
    }

    /// One to three extents.
    fn extents(&mut self, value: &syn::Expr, what: &str) -> Vec<Expr> {
        let syn::Expr::Tuple(tuple) = value else { return vec![self.expr(value)] };
        if tuple.elems.is_empty() || tuple.elems.len() > 3 {
            let message = format!("a {what} has one, two or three extents");
            self.error(&codes::P0903, value, message, &format!("`{what} = 256`, `{what} = (32, 8)`"));
            return Vec::new();
        }
        tuple.elems.iter().map(|e| self.expr(e)).collect()
    }

    /// `max_regs = 168`
    pub(super) fn constant_into(&mut self, arg: &Arg, to: &mut Option<Expr>) -> bool {
        let Value::Equals(value) = &arg.value else { return false };
        *to = Some(self.expr(value));
        true
    }

    /// `no_spills`
    pub(super) fn promise(&mut self, attribute: &mut Attribute, arg: &Arg, keep: fn(&mut Contract)) -> bool {
        let is_given = matches!(arg.value, Value::Nothing);
        if is_given {
            keep(&mut attribute.launch.contract);
            attribute.launch.promised.push(arg.name.clone());
        }
        is_given
    }

    /// `max_registers = 128`
    pub(super) fn limit(&mut self, attribute: &mut Attribute, arg: &Arg, keep: fn(&mut Contract, u32)) -> bool {
        let Value::Equals(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. })) = &arg.value else {
            return false;
        };
        let Some(limit) = number.base10_parse::<u32>().ok().filter(|limit| *limit > 0) else { return false };
        keep(&mut attribute.launch.contract, limit);
        attribute.launch.promised.push(arg.name.clone());
        true
    }

    /// `instances = [(128, f32), (256, f16)]`, `instances = [(128, [f32, f16])]`
    pub(super) fn instances(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::Equals(syn::Expr::Array(list)) = &arg.value else { return false };
        if list.elems.is_empty() {
            self.error(&codes::P0903, list, "a generic kernel needs an instance", "`instances = [(128), (256)]`");
        }
        for element in &list.elems {
            let (name, value) = named(element);
            for args in self.of_each_type(&parts(value)) {
                let (read, span) = (args.iter().map(|a| self.instance_arg(a)).collect(), self.host.syntax(value));
                attribute.options.instances.push(Instance { name: name.map(|n| self.ident(n)), args: read, span });
                attribute.instances.push(args);
                attribute.names.extend(name.cloned());
            }
        }
        if !attribute.names.is_empty() && attribute.names.len() < attribute.instances.len() {
            let help = "write `name = (…)` for each of them";
            self.error(&codes::P0903, list, "some instances have names, and some have none", help);
            attribute.names.clear();
        }
        true
    }

    /// The arguments of the instances that `([f16, bf16], f32, 128)` stands for: one for each of the types, where several lists go in step.
    fn of_each_type(&mut self, args: &[syn::Expr]) -> Vec<Vec<syn::Expr>> {
        let lists = || args.iter().filter_map(types);
        let (Some(first), Some(shortest)) = (lists().next(), lists().map(|list| list.elems.len()).min()) else {
            return vec![args.to_vec()];
        };
        if let Some(other) = lists().find(|list| list.elems.len() != first.elems.len()) {
            let message = format!("a list of {} types is beside one of {}", other.elems.len(), first.elems.len());
            let help = "lists of types go in step: write as many types in each, or one type for all instances";
            self.error(&codes::P0903, other, message, help);
        }
        let of_type = |at: usize| {
            let arg = |arg: &syn::Expr| types(arg).and_then(|list| list.elems.get(at)).unwrap_or(arg).clone();
            args.iter().map(arg).collect()
        };
        (0..shortest).map(of_type).collect()
    }

    /// `requires(x.len() >= n)`
    pub(super) fn requires(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::List(conditions) = &arg.value else { return false };
        if attribute.has("unsafe") {
            let help = "write all conditions in `unsafe(requires(…))`";
            self.error(&codes::P0902, &arg.name, "`requires` is given twice", help);
        }
        attribute.launch.requires.extend(self.values(conditions));
        true
    }

    /// `unsafe(requires(x.len() >= n))`, `unsafe(requires(), addresses(table[..ranks] = x), offsets(starts), distinct(pages < n))`
    pub(super) fn vouched(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::List(vouched) = &arg.value else { return false };
        let parser = Punctuated::<Arg, syn::Token![,]>::parse_terminated_with;
        let Ok(args) = Parser::parse2(|input: ParseStream<'_>| parser(input, super::arg), vouched.clone()) else {
            return false;
        };
        let mut args = args.into_iter();
        let Some(inner) = args.next().filter(|inner| inner.name == "requires") else { return false };
        attribute.launch.vouched = Some(syn::Token![unsafe](arg.name.span()));
        if attribute.has("requires") {
            let help = "write all conditions in `unsafe(requires(…))`";
            self.error(&codes::P0902, &inner.name, "`requires` is given twice", help);
        }
        self.requires(attribute, &inner) && args.all(|own| self.vouched_data(attribute, &own))
    }

    /// Reads an option that describes the elements of buffers: `addresses(…)`, `offsets(…)`, `distinct(…)`.
    fn vouched_data(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        match &arg.value {
            Value::List(_) if arg.name == "addresses" => self.addresses(attribute, arg),
            Value::List(buffers) if arg.name == "offsets" => {
                attribute.launch.offsets.extend(self.values(buffers));
                true
            }
            Value::List(buffers) if arg.name == "distinct" => {
                attribute.launch.distinct.extend(self.values(buffers).into_iter().map(distinct_of));
                true
            }
            _ => false,
        }
    }

    /// `addresses(table[..ranks] = x, table[ranks..2 * ranks] = [u32; n], p.partial = [f32; n])`. Every launch checks that a table has these elements.
    pub(super) fn addresses(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::List(tables) = &arg.value else { return false };
        for value in self.values(tables) {
            if let Some(region) = region_of(&value) {
                attribute.launch.regions.push(region);
                continue;
            }
            let Some(table) = table_of(&value) else {
                let help = "write `table[first..end] = x`, as long as a parameter, `table[first..end] = [u32; n]`, or for a field of a struct `p.at = [u32; n]`";
                self.error(
                    &codes::P0903,
                    &value,
                    "this does not say which elements are addresses of which memory",
                    help,
                );
                continue;
            };
            let (of, end) = (&table.of, &table.end);
            attribute.launch.requires.push(syn::parse_quote!(#of.len() >= #end));
            attribute.launch.tables.push(table);
        }
        true
    }

    /// `proved`, `proved(bounds)`, `proved(races)`
    pub(super) fn proved(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let mut wanted = Wanted { name: arg.name.clone(), bounds: false, races: false };
        match &arg.value {
            Value::Nothing => (wanted.bounds, wanted.races) = (true, true),
            Value::List(properties) => {
                for property in self.values(properties) {
                    match crate::tokens::source_text(&property).as_str() {
                        "bounds" => wanted.bounds = true,
                        "races" => wanted.races = true,
                        name => {
                            let help = "`proved(bounds)` is about accesses and their alignment, `proved(races)` about races and barriers, `proved` about all of them";
                            self.error(&codes::P0903, &property, format!("there is no property `{name}`"), help);
                            // So that calls of the launch are not errors too.
                            (wanted.bounds, wanted.races) = (true, true);
                        }
                    }
                }
                if !(wanted.bounds || wanted.races) {
                    return false;
                }
            }
            Value::Equals(_) => return false,
        }
        self.proves = true;
        attribute.launch.proved = Some(wanted);
        true
    }

    /// Reports an author who vouches for what is proved.
    pub(super) fn vouch_once(&mut self, launch: &Launch) {
        let (Some(wanted), Some(vouched)) = (&launch.proved, &launch.vouched) else { return };
        if wanted.is_all() {
            let help = "write `requires(…)`: the proof vouches that its conditions are enough";
            self.error(&codes::P0906, vouched, format!("`{}` needs nobody who vouches", wanted.name), help);
        }
    }

    /// `allow(P0701, P0703)`
    pub(super) fn allowed(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::List(values) = &arg.value else { return false };
        for value in self.values(values) {
            let name = crate::tokens::source_text(&value);
            match codes::ALL.iter().find(|code| code.id == name) {
                Some(code) => attribute.allowed.push(code.id),
                None => {
                    let near = nearest(&name, codes::ALL.iter().map(|code| code.id));
                    let help = near.map_or_else(
                        || "write the code of a warning".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    self.error(&codes::P0901, &value, format!("there is no warning `{name}`"), &help);
                }
            }
        }
        true
    }

    /// `safe(…)`, which earlier versions had.
    pub(super) fn safe_is_gone(&mut self, arg: &Arg, attribute: &mut Attribute) {
        // So that its calls are not errors too.
        attribute.launch.vouched = Some(syn::Token![unsafe](arg.name.span()));
        let conditions = match &arg.value {
            Value::List(conditions) => crate::tokens::source_text(conditions),
            Value::Nothing | Value::Equals(_) => String::new(),
        };
        let help =
            format!("write `unsafe(requires({conditions}))`: its author vouches that these conditions are enough");
        self.error(&codes::P0901, &arg.name, "there is no option `safe`", &help);
    }

    /// `parts()`, `modules()`: a module has the items of its parts by now.
    pub(super) fn no_parts(&mut self, _: &mut Attribute, arg: &Arg) -> bool {
        match &arg.value {
            Value::List(names) if names.is_empty() => true,
            Value::List(names) => {
                let option = &arg.name;
                let help = format!(
                    "write `{option}(…)` in the attribute of a module, with paths of modules that have `#[ptx_part]`"
                );
                self.error(&codes::P0906, names, "only modules have parts", &help);
                true
            }
            _ => false,
        }
    }

    /// `params(Name { field: f32 })`. Names without fields have theirs by now, but in the attribute of a kernel in a module.
    pub(super) fn params_structs(&mut self, attribute: &mut Attribute, arg: &Arg) -> bool {
        let Value::List(tokens) = &arg.value else { return false };
        let parser = Punctuated::<NamedFields, syn::Token![,]>::parse_terminated;
        match Parser::parse2(parser, tokens.clone()) {
            Ok(structs) => structs.iter().for_each(|s| match &s.fields {
                Some(fields) => attribute.structs.push(self.struct_(&s.name, fields)),
                None => {
                    let help = format!("write `params({})` in the attribute of the module", s.name);
                    self.error(&codes::P0906, &s.name, format!("the fields of `{}` are not known here", s.name), &help);
                }
            }),
            Err(error) => {
                let span = self.host.token(error.span());
                self.error_at(&codes::P0903, span, error.to_string(), "`params(Name)`, `params(Name { field: f32 })`");
            }
        }
        true
    }
}

/// `table`, `table < pages`
fn distinct_of(value: syn::Expr) -> Distinct {
    match value {
        syn::Expr::Binary(syn::ExprBinary { left, op: syn::BinOp::Lt(_), right, .. }) => {
            Distinct { of: *left, below: Some(*right) }
        }
        of => Distinct { of, below: None },
    }
}

/// `table[first..end] = memory`
fn table_of(value: &syn::Expr) -> Option<Table> {
    let syn::Expr::Assign(assign) = value else { return None };
    let syn::Expr::Index(index) = &*assign.left else { return None };
    let syn::Expr::Range(syn::ExprRange { start, limits: syn::RangeLimits::HalfOpen(_), end, .. }) = &*index.index
    else {
        return None;
    };
    let memory = match &*assign.right {
        syn::Expr::Repeat(elements) => Memory::Elements(elements.expr.to_token_stream(), (*elements.len).clone()),
        argument => Memory::Argument(argument.clone()),
    };
    let first = start.as_ref().map(|first| (**first).clone());
    Some(Table { of: (*index.expr).clone(), first, end: (**end.as_ref()?).clone(), memory })
}

/// `p.partial = [f32; n]`
fn region_of(value: &syn::Expr) -> Option<Region> {
    let syn::Expr::Assign(assign) = value else { return None };
    let (syn::Expr::Field(_), syn::Expr::Repeat(elements)) = (&*assign.left, &*assign.right) else { return None };
    Some(Region { of: (*assign.left).clone(), element: elements.expr.to_token_stream(), len: (*elements.len).clone() })
}

/// The name of an instance, and its arguments: `tall = (128, f32)`.
fn named(element: &syn::Expr) -> (Option<&syn::Ident>, &syn::Expr) {
    match element {
        syn::Expr::Assign(assign) => match &*assign.left {
            syn::Expr::Path(path) => (path.path.get_ident(), &assign.right),
            _ => (None, element),
        },
        _ => (None, element),
    }
}

/// The arguments of one instance: `(128, f32)`, `(128)` or `128`.
fn parts(value: &syn::Expr) -> Vec<syn::Expr> {
    match value {
        syn::Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
        syn::Expr::Paren(inner) => vec![(*inner.expr).clone()],
        other => vec![other.clone()],
    }
}

/// `[f16, bf16]`, a list of types. The names of constants have no lower-case letter.
fn types(arg: &syn::Expr) -> Option<&syn::ExprArray> {
    let is_type = |element: &syn::Expr| match element {
        syn::Expr::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            name.chars().any(char::is_lowercase)
        }),
        _ => false,
    };
    match arg {
        syn::Expr::Array(list) if !list.elems.is_empty() && list.elems.iter().all(is_type) => Some(list),
        _ => None,
    }
}

/// `Name { field: type }`, `Name`
struct NamedFields {
    name: syn::Ident,
    fields: Option<syn::FieldsNamed>,
}

impl syn::parse::Parse for NamedFields {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        Ok(NamedFields { name, fields: if input.peek(syn::token::Brace) { Some(input.parse()?) } else { None } })
    }
}

/// The help for what is no target: its number, as targets are written.
fn like_a_target(value: &syn::Expr) -> String {
    let text = value.to_token_stream().to_string();
    let number = text.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches('"');
    let target: Option<Arch> = format!("sm_{number}").parse().ok();
    format!("write it as `\"{}\"`", target.map_or_else(|| "sm_90a".to_owned(), |target| target.to_string()))
}
