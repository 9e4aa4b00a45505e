//! The options of `#[ptx_kernel(…)]` and `#[ptx_module(…)]`: reading them; [`table`] lists them.

mod table;
mod values;

use crate::kernel::Reader;
use crate::tokens::names;
use proc_macro2::{Ident, TokenStream};
use ptx_core::diag::{Diagnostic, codes, near::nearest};
use ptx_core::isa::Arch;
use ptx_language::tree;
use ptx_target::Contract;
use syn::Token;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use table::{OPTIONS, SYNONYMS};

/// Content of an attribute.
#[derive(Default)]
pub struct Attribute {
    /// Options with a meaning in PTX.
    pub options: tree::Options,
    /// `params(Name { field: type })`: the structs that the kernel takes by value.
    pub structs: Vec<tree::Struct>,
    /// Options of the launch function.
    pub launch: Launch,
    /// `instances`, as written.
    pub instances: Vec<Vec<syn::Expr>>,
    /// The names of the instances, if they have names.
    pub names: Vec<Ident>,
    /// `crate = path`: where `ptx-launch` is.
    pub root: Option<syn::Path>,
    /// `cubin("sm_80", "sm_90a")`: the chips that machine code is for.
    pub cubins: Vec<Arch>,
    /// The names of the options that stand there.
    pub given: Vec<Ident>,
    /// `allow(P0701)`: the codes of the warnings that are not reported.
    pub allowed: Vec<&'static str>,
    /// The first error of the options: the launch function may have another signature than was meant.
    pub wrong: Option<Diagnostic>,
}

impl Attribute {
    /// Returns true if the option stands there, with a right value or not.
    pub fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    /// The option as it stands there.
    pub fn option(&self, name: &str) -> Option<&Ident> {
        self.given.iter().find(|given| *given == name)
    }
}

/// The options that only the host sees, as written.
#[derive(Default)]
pub struct Launch {
    /// `grid = n.div_ceil(256)`
    pub grid: Option<syn::Expr>,
    /// `block = 256`
    pub block: Option<syn::Expr>,
    /// `cluster = 2`
    pub cluster: Option<syn::Expr>,
    /// `shared = 4 * n`: bytes of dynamic shared memory.
    pub shared: Option<syn::Expr>,
    /// The type of the dynamic shared memory has a size: each kernel gives its bytes.
    pub sized_shared: bool,
    /// `requires(x.len() >= n)`: the conditions that every launch checks.
    pub requires: Vec<syn::Expr>,
    /// `addresses(table[..ranks] = x)`: elements that are addresses, for which the author vouches.
    pub tables: Vec<Table>,
    /// `addresses(p.partial = [f32; n])`: numbers in structs that are addresses, for which the author vouches, or who launches the kernel.
    pub regions: Vec<Region>,
    /// `offsets(starts)`: parameters whose elements are offsets, which do not decrease, as the author vouches.
    pub offsets: Vec<syn::Expr>,
    /// `distinct(table < pages)`: parameters whose elements are different numbers, as the author vouches.
    pub distinct: Vec<Distinct>,
    /// The `unsafe` of `unsafe(requires(…))`: the author vouches that the conditions are enough; without it the launch
    /// is an `unsafe fn`.
    pub vouched: Option<Token![unsafe]>,
    /// `proved`, `proved(bounds)`: the properties that must be proved.
    pub proved: Option<Wanted>,
    /// `cooperative`, which the kernel uses, too.
    pub cooperative: bool,
    /// `pdl`
    pub pdl: bool,
    /// `no_local`, `no_spills`, `max_registers = 128`, `occupancy = 2`
    pub contract: Contract,
    /// The names of the promises in the attribute.
    pub promised: Vec<Ident>,
}

/// A parameter whose elements are different numbers.
pub struct Distinct {
    /// The parameter.
    pub of: syn::Expr,
    /// The number below which they are, if there is one.
    pub below: Option<syn::Expr>,
}

/// Elements of a parameter that are addresses of memory.
pub struct Table {
    /// The parameter.
    pub of: syn::Expr,
    /// The first of the elements, if it is not the first of all.
    pub first: Option<syn::Expr>,
    /// The one behind the last.
    pub end: syn::Expr,
    /// The memory at each address.
    pub memory: Memory,
}

/// A number in a struct that is the address of memory.
pub struct Region {
    /// The number.
    pub of: syn::Expr,
    /// The type of the elements.
    pub element: TokenStream,
    /// The number of them.
    pub len: syn::Expr,
}

/// The memory at the addresses of a table.
pub enum Memory {
    /// `x`: as that of a parameter, whose own address is one of them.
    Argument(syn::Expr),
    /// `[u32; n]`: elements of a type, in memory of no parameter.
    Elements(TokenStream, syn::Expr),
}

/// The properties of `proved`.
#[derive(Clone)]
pub struct Wanted {
    /// The option's name.
    pub name: Ident,
    /// Accesses stay in their memory, and their addresses are aligned.
    pub bounds: bool,
    /// Threads do not race, and all come to their barriers.
    pub races: bool,
}

impl Wanted {
    /// Everything that a safe launch needs.
    pub fn is_all(&self) -> bool {
        self.bounds && self.races
    }
}

impl Launch {
    /// The attribute has addresses for which the author does not vouch, so that who launches the kernel does.
    pub fn needs_vouching(&self) -> bool {
        self.vouched.is_none() && !(self.tables.is_empty() && self.regions.is_empty())
    }

    /// The attribute makes the launch a safe function: its author vouches, or a proof does.
    pub fn is_safe(&self) -> bool {
        self.vouched.is_some() || !self.needs_vouching() && self.proved.as_ref().is_some_and(Wanted::is_all)
    }
}

/// One option as it stands there: `name`, `name = value` or `name(values)`.
struct Arg {
    name: Ident,
    value: Value,
}

/// Value after an option's name.
#[allow(clippy::large_enum_variant, reason = "a handful of them live at a time")]
enum Value {
    Nothing,
    Equals(syn::Expr),
    List(TokenStream),
}

impl Reader {
    /// Reads the options. Every one that is wrong is reported; the others count.
    pub fn attribute(&mut self, tokens: TokenStream) -> Attribute {
        let mut attribute = Attribute::default();
        let before = self.diagnostics.len();
        names(tokens.clone(), &mut attribute.options.host_names);
        for arg in self.args(tokens) {
            if attribute.given.contains(&arg.name) {
                self.error(&codes::P0902, &arg.name, format!("`{}` is given twice", arg.name), "remove one of them");
            } else {
                self.option(&arg, &mut attribute);
            }
        }
        self.vouch_once(&attribute.launch);
        attribute.wrong = self.first_error(before);
        attribute
    }

    fn option(&mut self, arg: &Arg, attribute: &mut Attribute) {
        let name = arg.name.to_string();
        if name == "safe" {
            return self.safe_is_gone(arg, attribute);
        }
        let Some(option) = OPTIONS.iter().find(|o| o.name == name) else { return self.no_option(arg, attribute) };
        let fits = (option.read)(self, attribute, arg);
        attribute.given.push(arg.name.clone());
        if !fits {
            self.error(
                &codes::P0903,
                &arg.name,
                format!("`{name}` is not given like this"),
                &format!("write {}", option.like),
            );
        }
    }

    /// Reports an option that does not exist. It counts as the one that was probably meant, so that the lack of that one is no
    /// second error.
    fn no_option(&mut self, arg: &Arg, attribute: &mut Attribute) {
        let name = arg.name.to_string();
        let synonym = SYNONYMS.iter().find(|(known, _)| *known == name).map(|(_, option)| *option);
        let near = synonym.or_else(|| nearest(&name, OPTIONS.iter().map(|o| o.name)));
        let help = near.map_or_else(
            || format!("the options are `{}`", OPTIONS.iter().map(|o| o.name).collect::<Vec<_>>().join("`, `")),
            |near| format!("did you mean `{near}`?"),
        );
        self.error(&codes::P0901, &arg.name, format!("there is no option `{name}`"), &help);
        if let Some(meant) = OPTIONS.iter().find(|option| Some(option.name) == near) {
            (meant.read)(self, attribute, arg);
            attribute.given.push(Ident::new(meant.name, arg.name.span()));
        }
    }

    /// Splits the attribute at its commas; what does not parse is reported and skipped.
    fn args(&mut self, tokens: TokenStream) -> Vec<Arg> {
        let parser = |input: ParseStream<'_>| {
            let mut args = Vec::new();
            while !input.is_empty() {
                match arg(input) {
                    Ok(arg) => args.push(arg),
                    Err(error) => self.bad_arg(input, &error)?,
                }
                if input.is_empty() {
                    break;
                }
                if let Err(error) = input.parse::<Token![,]>() {
                    self.bad_arg(input, &error)?;
                }
            }
            Ok(args)
        };
        parser.parse2(tokens).unwrap_or_default()
    }

    /// Reports an error at the next token, and goes on behind the next comma.
    fn bad_arg(&mut self, input: ParseStream<'_>, error: &syn::Error) -> syn::Result<()> {
        let span = self.host.token(error.span());
        self.error_at(&codes::P0903, span, error.to_string(), "options are `name`, `name = value` or `name(values)`");
        while !input.is_empty() && !input.peek(Token![,]) {
            input.parse::<proc_macro2::TokenTree>()?;
        }
        input.parse::<Option<Token![,]>>().map(drop)
    }

    /// The values of a list, none where they do not parse; then it is reported.
    fn values(&mut self, tokens: &TokenStream) -> Vec<syn::Expr> {
        match Punctuated::<syn::Expr, Token![,]>::parse_terminated.parse2(tokens.clone()) {
            Ok(values) => values.into_iter().collect(),
            Err(error) => {
                let span = self.host.token(error.span());
                self.error_at(&codes::P0903, span, error.to_string(), "write expressions, with commas between them");
                Vec::new()
            }
        }
    }
}

fn arg(input: ParseStream<'_>) -> syn::Result<Arg> {
    let name = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
    let value = if input.parse::<Option<Token![=]>>()?.is_some() {
        Value::Equals(input.parse()?)
    } else if input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in input);
        Value::List(content.parse()?)
    } else {
        Value::Nothing
    };
    Ok(Arg { name, value })
}

impl Reader {
    /// Reports what has no target.
    pub fn needs_arch(&mut self, attribute: &Attribute, name: &Ident, what: &str, like: &str) {
        if !attribute.has("arch") {
            let help = format!("write `{like}`: the oldest GPU that it is for");
            self.error(&codes::P0905, name, format!("the {what} has no `arch`"), &help);
        }
    }
}
