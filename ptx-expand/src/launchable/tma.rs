//! `#[tma(box = [64, 64], swizzle = 128)]` on a `Tile` parameter: a tensor map of it, made at the launch, which the kernel
//! takes as one more parameter, `NAME_map`. `#[tma(tile = swizzle::Tile128::<bf16, 64>)]` takes both from the type of the shared memory.

use crate::argument::{Argument, Map, MapOption, Tile};
use crate::kernel::{Reader, is_for_tools};
use proc_macro2::{Ident, Literal, Span};
use ptx_core::diag::{codes, near::nearest};
use ptx_core::isa;
use ptx_language::tree::{self, Param, Path, Pointer, Type, TypeKind};
use quote::quote;
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;

const LIKE: &str = "`#[tma(box = [64, 64], swizzle = 128)]`";

/// A word that the user writes, and the runtime's name for it.
type Word = (&'static str, &'static str);

/// The options with words for values: the option, the runtime's type, the words.
const WORDS: &[(&str, &str, &[Word])] = &[
    (
        "swizzle",
        "Swizzle",
        &[
            ("0", "None"),
            ("32", "B32"),
            ("64", "B64"),
            ("128", "B128"),
            ("128_atom_32", "B128Atom32"),
            ("128_atom_32_flip_8", "B128Atom32Flip8"),
            ("128_atom_64", "B128Atom64"),
        ],
    ),
    ("element", "ElementType", &[("tf32", "Tf32"), ("tf32_ftz", "Tf32Ftz"), ("f32_ftz", "F32Ftz")]),
    ("interleave", "Interleave", &[("0", "None"), ("16", "B16"), ("32", "B32")]),
    ("promotion", "Promotion", &[("0", "None"), ("64", "B64"), ("128", "B128"), ("256", "B256")]),
    ("fill", "Fill", &[("zero", "Zero"), ("nan", "Nan")]),
];

/// `swizzle = 128`; `box` is a keyword.
struct Choice {
    name: Ident,
    value: syn::Expr,
}

impl Parse for Choice {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        Ok(Choice { name, value: input.parse()? })
    }
}

/// The attributes that any parameter may have.
const OF_A_PARAMETER: [&str; 3] = ["align", "generic", "bare"];

impl Reader {
    /// The tensor map that a parameter's attributes ask for, and the parameter of the kernel that takes it.
    pub(super) fn tma(&mut self, at: usize, attributes: &[syn::Attribute], of: &Argument) -> Option<(Map, Param)> {
        let mut map = None;
        for attribute in attributes.iter().filter(|a| !is_for_tools(a)) {
            if OF_A_PARAMETER.iter().any(|known| attribute.path().is_ident(known)) {
                continue;
            } else if !attribute.path().is_ident("tma") {
                self.attribute_without_meaning(attribute, &format!("a `Tile` parameter takes {LIKE}"));
            } else if let Some(tile) = Tile::from_type(&of.ty) {
                map = Some(self.tma_options(attribute, Map::new(at, &of.name), &tile));
            } else {
                let help = "write its type as `Tile<T, (M, K)>`: the map needs the extents";
                self.error(&codes::P0851, attribute, "`#[tma]` stands on a `Tile` or `TileMut`", help);
            }
        }
        let map = map?;
        let name = tree::Ident { name: map.name.clone(), span: self.host.token(of.name.span()) };
        let ty = tree::Ident { name: "TensorMap".to_owned(), span: name.span };
        let kind = TypeKind::Path(Path::name(ty));
        let param = Param {
            ty: Type { kind, span: name.span },
            name,
            mutable: false,
            align: None,
            pointer: Pointer::default(),
            fields: Vec::new(),
        };
        Some((map, param))
    }

    fn tma_options(&mut self, attribute: &syn::Attribute, mut map: Map, tile: &Tile) -> Map {
        let choices = attribute.parse_args_with(Punctuated::<Choice, Token![,]>::parse_terminated);
        match choices {
            Ok(choices) => {
                let (tiles, others): (Vec<_>, Vec<_>) = choices.iter().partition(|choice| choice.name == "tile");
                map.options = others.iter().filter_map(|choice| self.tma_option(choice, tile)).collect();
                map.options.extend(tiles.iter().flat_map(|choice| self.tma_tile(&choice.value, tile)));
                if tiles.is_empty() && !others.iter().any(|c| c.name == "box") {
                    self.error(&codes::P0903, attribute, "`#[tma]` has no `box`", &format!("write {LIKE}"));
                }
            }
            Err(error) => self.error(&codes::P0903, attribute, error.to_string(), &format!("write {LIKE}")),
        }
        map
    }

    /// An option for the builder.
    fn tma_option(&mut self, choice: &Choice, tile: &Tile) -> Option<MapOption> {
        let (name, value) = (choice.name.to_string(), &choice.value);
        if name == "box" {
            return self.tma_box(value, tile);
        }
        let Some((method, ty, words)) = WORDS.iter().find(|(known, ..)| *known == name) else {
            let near = nearest(&name, WORDS.iter().map(|(known, ..)| *known).chain(["box", "tile"]));
            let help = near.map_or_else(|| format!("write {LIKE}"), |near| format!("did you mean `{near}`?"));
            self.error(&codes::P0901, &choice.name, format!("`#[tma]` has no option `{name}`"), &help);
            return None;
        };
        let written = quote!(#value).to_string();
        let Some((_, variant)) = words.iter().find(|(word, _)| *word == written.trim_matches('"')) else {
            let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.error(
                &codes::P0903,
                value,
                format!("this is no {name}"),
                &format!("it is one of {}", known.join(", ")),
            );
            return None;
        };
        let [method, ty, variant] = [method, ty, variant].map(|text| Ident::new(text, Span::call_site()));
        Some(MapOption::Word { method, ty, variant })
    }

    /// `swizzle::Tile128::<T, ROWS>`, the type of the shared memory: its box and its swizzle.
    fn tma_tile(&mut self, value: &syn::Expr, tile: &Tile) -> Vec<MapOption> {
        let path = match value {
            syn::Expr::Path(path) => &path.path,
            _ => return self.no_tma_tile(value),
        };
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let arguments = path.segments.last().map(|segment| &segment.arguments);
        let Some(syn::PathArguments::AngleBracketed(arguments)) = arguments.filter(|_| names == ["swizzle", "Tile128"])
        else {
            return self.no_tma_tile(value);
        };
        let mut arguments = arguments.args.iter();
        let (Some(syn::GenericArgument::Type(element)), Some(rows), None) =
            (arguments.next(), arguments.next(), arguments.next())
        else {
            return self.no_tma_tile(value);
        };
        if tile.dims.len() != 2 {
            let message = format!("`Tile128` has 2 dimensions, and the parameter {}", tile.dims.len());
            self.error(&codes::P0903, value, message, "write `box = […]` with one extent for each dimension");
            return Vec::new();
        }
        let bytes: syn::Expr = match number_bytes(element) {
            Some(bytes) => {
                let bytes = Literal::u64_unsuffixed(bytes);
                syn::parse_quote!(#bytes)
            }
            None => syn::parse_quote!(size_of::<#element>()),
        };
        let extents: syn::Expr = syn::parse_quote!([#rows, 128 / #bytes]);
        let [method, ty, variant] = ["swizzle", "Swizzle", "B128"].map(|text| Ident::new(text, Span::call_site()));
        let swizzle = MapOption::Word { method, ty, variant };
        self.tma_box(&extents, tile).into_iter().chain([swizzle]).collect()
    }

    fn no_tma_tile(&mut self, value: &syn::Expr) -> Vec<MapOption> {
        let help = "write the tile of the library that is loaded: `tile = swizzle::Tile128::<bf16, 64>`";
        self.error(&codes::P0903, value, "this is no tile of shared memory", help);
        Vec::new()
    }

    /// One extent for each dimension of the tile; those that are literals are checked here, the others at the launch.
    fn tma_box(&mut self, value: &syn::Expr, tile: &Tile) -> Option<MapOption> {
        let syn::Expr::Array(list) = value else {
            self.error(&codes::P0903, value, "a box is a list of extents", &format!("write {LIKE}"));
            return None;
        };
        let (extents, rank) = (&list.elems, tile.dims.len());
        if extents.len() != rank {
            let message =
                format!("a box of {} for a tile of {}", count(extents.len(), "extent"), count(rank, "dimension"));
            self.error(&codes::P0903, value, message, "give one extent for each dimension, outermost first");
        }
        for extent in extents.iter().filter(|extent| literal(extent).is_some_and(|n| !(1..=MOST_EXTENT).contains(&n))) {
            self.error(&codes::P0903, extent, "no box has this extent", "write 1 to 256, and copy several boxes");
        }
        Some(MapOption::Box(extents.iter().cloned().collect()))
    }
}

/// The bytes of a number of the language, by its name; not those of a type parameter.
fn number_bytes(ty: &syn::Type) -> Option<u64> {
    let syn::Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?.to_string();
    Some(isa::Type::find(&name.replace('i', "s"))?.bytes()).filter(|bytes| *bytes > 0)
}

/// The hardware's limit.
const MOST_EXTENT: u64 = 256;

fn literal(expr: &syn::Expr) -> Option<u64> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => int.base10_parse().ok(),
        _ => None,
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
