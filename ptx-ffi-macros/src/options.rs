//! The options of `#[export(…)]`.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, Type, bracketed, parenthesized};

/// An extent in `shapes(…)`.
#[derive(Clone)]
pub(crate) enum Dim {
    Leading(Span),
    Name(Ident),
    Size(LitInt),
    Any,
}

/// An extent in `parallel(…)`: `n`, or `h / g` for heads that are split as their groups are.
pub(crate) struct Parallel {
    pub(crate) name: Ident,
    pub(crate) groups: Option<Ident>,
}

/// The value of an option for a field of a struct of arguments.
pub(crate) enum Setting {
    Shape(Vec<Dim>),
    Default(Box<Expr>),
    Align(LitInt),
}

/// The options of the attribute.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) shapes: Vec<(Ident, Vec<Dim>)>,
    /// The types of each instance.
    pub(crate) types: Vec<Vec<Type>>,
    pub(crate) defaults: Vec<(Ident, Expr)>,
    pub(crate) align: Vec<(Ident, LitInt)>,
    pub(crate) parallel: Vec<Parallel>,
    pub(crate) backward: Option<Ident>,
    /// The name in messages, where it is not the function's.
    pub(crate) label: Option<LitStr>,
    pub(crate) krate: Option<Path>,
}

pub(crate) fn parse(tokens: TokenStream) -> Result<Options> {
    syn::parse2(tokens)
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Options::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.krate = Some(input.call(Path::parse_mod_style)?);
            } else {
                options.parse_named(input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn parse_named(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name: Ident = input.parse()?;
        match name.to_string().as_str() {
            "shapes" => self.shapes = parse_list(input, parse_shape)?,
            "defaults" => self.defaults = parse_list(input, Expr::parse)?,
            "align" => self.align = parse_list(input, LitInt::parse)?,
            "types" => {
                input.parse::<Token![=]>()?;
                let content;
                bracketed!(content in input);
                let types = Punctuated::<Type, Token![,]>::parse_terminated(&content)?;
                self.types = types.into_iter().map(parse_instance).collect();
            }
            "parallel" => {
                let content;
                parenthesized!(content in input);
                let names = Punctuated::<Parallel, Token![,]>::parse_terminated(&content)?;
                self.parallel = names.into_iter().collect();
            }
            "backward" => {
                input.parse::<Token![=]>()?;
                self.backward = Some(input.parse()?);
            }
            "label" => {
                input.parse::<Token![=]>()?;
                self.label = Some(input.parse()?);
            }
            _ => {
                let message =
                    "expected `shapes`, `types`, `defaults`, `align`, `parallel`, `backward`, `label` or `crate`";
                return Err(Error::new(name.span(), message));
            }
        }
        Ok(())
    }
}

fn parse_instance(types: Type) -> Vec<Type> {
    match types {
        Type::Tuple(tuple) => tuple.elems.into_iter().collect(),
        one => vec![one],
    }
}

/// `(name = value, …)`.
fn parse_list<T>(input: ParseStream<'_>, value: impl Fn(ParseStream<'_>) -> Result<T>) -> Result<Vec<(Ident, T)>> {
    let content;
    parenthesized!(content in input);
    let mut list = Vec::new();
    while !content.is_empty() {
        let name = content.parse()?;
        content.parse::<Token![=]>()?;
        list.push((name, value(&content)?));
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(list)
}

fn parse_shape(input: ParseStream<'_>) -> Result<Vec<Dim>> {
    let content;
    bracketed!(content in input);
    let dims = Punctuated::<Dim, Token![,]>::parse_terminated(&content)?;
    let dims: Vec<Dim> = dims.into_iter().collect();
    match dims.iter().skip(1).find_map(|dim| if let Dim::Leading(span) = dim { Some(*span) } else { None }) {
        Some(span) => Err(Error::new(span, "`..` stands for the first dimensions, and comes first")),
        None => Ok(dims),
    }
}

impl Parse for Dim {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Token![..]) {
            return Ok(Dim::Leading(input.parse::<Token![..]>()?.spans[0]));
        }
        if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            return Ok(Dim::Any);
        }
        if input.peek(LitInt) { input.parse().map(Dim::Size) } else { input.parse().map(Dim::Name) }
    }
}

impl Parse for Parallel {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        let slash: Option<Token![/]> = input.parse()?;
        Ok(Parallel { name, groups: slash.map(|_| input.parse()).transpose()? })
    }
}
