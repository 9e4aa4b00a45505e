//! `Tile<T, (M, K)>` and `TileMut`: their dimensions, bound by name at the launch, and the tensor maps of `#[tma]`.

use super::Launch;
use super::argument::absolute;
use crate::argument::{Argument, Map, MapOption, Tile};
use crate::tokens::local;
use proc_macro2::{Ident, TokenStream};
use ptx_language::EntryParam;
use quote::quote;
use syn::Type;

/// The variable that holds a dimension.
pub fn dim(name: &str) -> Ident {
    local(&format!("dim_{name}"))
}

/// The variable that holds the shape of a tile.
fn shape(argument: &Argument) -> Ident {
    local(&format!("shape_{}", argument.name))
}

impl Launch<'_> {
    /// Takes the shapes of tiles.
    pub fn shapes(&self) -> TokenStream {
        let rt = self.rt();
        let shapes = self.tiles().into_iter().map(|(argument, tile)| {
            let (name, shape, rank) = (&argument.name, shape(argument), tile.dims.len());
            let element = absolute(&tile.element, self.root);
            let of = if tile.mutable { quote!(WriteTile) } else { quote!(ReadTile) };
            quote!(let #shape = #rt::#of::<#element, #rank>::shape(&#name);)
        });
        quote!(#(#shapes)*)
    }

    /// Binds the dimensions, and compares them with each other and with the constants they name: all dimensions, or those that are constants or are not.
    pub fn dims(&self, constant: Option<bool>) -> TokenStream {
        let (rt, kernel, tiles) = (self.rt(), self.reference(), self.tiles());
        let wanted = |name: &&Ident| constant.is_none_or(|constant| constant != self.is_dim(&name.to_string()));
        let bound = named_dims(&tiles).into_iter().filter(wanted).map(|name| {
            let (variable, text) = (dim(&name.to_string()), name.to_string());
            let places = tiles.iter().flat_map(|(argument, tile)| {
                let at = tile.dims.iter().enumerate().filter(|(_, dim)| *dim == name);
                at.map(|(at, _)| {
                    let (text, shape) = (&argument.text, shape(argument));
                    quote!((#text, #shape[#at]))
                })
            });
            let constant = (!self.is_dim(&text)).then(|| quote!((#text, #name as #rt::core::primitive::usize),));
            quote!(let #variable = #rt::dim(#kernel, #text, &[#constant #(#places),*])?;)
        });
        quote!(#(#bound)*)
    }

    /// The variables that `boxes` defines.
    pub fn box_names(&self) -> Vec<Ident> {
        self.kernel.maps.iter().filter(|map| map.extents().is_some()).map(Map::tile).collect()
    }

    fn tiles(&self) -> Vec<(&Argument, Tile)> {
        self.kernel.params.iter().filter_map(|p| Some((p, Tile::from_type(&p.ty)?))).collect()
    }

    /// Returns true if a name in a tile is bound at the launch; else it is a constant.
    pub fn is_dim(&self, name: &str) -> bool {
        self.dim_names().any(|dim| dim == name)
    }

    /// The dimensions that the entry takes.
    pub fn dim_names(&self) -> impl Iterator<Item = &str> {
        let entry = self.compiled.entries_of(self.index).first();
        entry.into_iter().flat_map(|e| &e.params).filter_map(|param| match param {
            EntryParam::Dim(name) => Some(name.as_str()),
            EntryParam::Value(_) | EntryParam::Map(_) => None,
        })
    }

    /// Returns true if a tensor map has elements of this type parameter.
    pub fn is_mapped(&self, ty: &Ident) -> bool {
        let elements = self.kernel.maps.iter().filter_map(|map| Tile::from_type(&self.kernel.params.get(map.of)?.ty));
        elements.into_iter().any(|tile| matches!(&tile.element, Type::Path(path) if path.path.is_ident(ty)))
    }

    /// Length of the mapped memory, read before it is bound, because binding borrows it.
    pub fn map_lengths(&self) -> TokenStream {
        let rt = self.rt();
        let each = self.kernel.maps.iter().filter_map(|map| {
            let argument = self.kernel.params.get(map.of)?;
            let tile = Tile::from_type(&argument.ty)?;
            let (name, length) = (&argument.name, map.length());
            let element = absolute(&tile.element, self.root);
            let of = if tile.mutable { quote!(WriteSlice) } else { quote!(ReadSlice) };
            Some(quote!(let #length = #rt::#of::<#element>::len(&#name);))
        });
        quote!(#(#each)*)
    }

    /// The boxes of tensor maps.
    pub fn boxes(&self) -> TokenStream {
        let rt = self.rt();
        let each = self.kernel.maps.iter().filter_map(|map| {
            let (extents, variable) = (map.extents()?, map.tile());
            Some(quote!(let #variable = [#((#extents) as #rt::core::primitive::usize),*];))
        });
        quote!(#(#each)*)
    }

    /// The tensor maps of `#[tma]`, made when the memory is bound.
    pub fn maps(&self, stream: &Ident) -> TokenStream {
        let rt = self.rt();
        let each = self.kernel.maps.iter().filter_map(|map| {
            let argument = self.kernel.params.get(map.of)?;
            let tile = Tile::from_type(&argument.ty)?;
            let (element, length) = (absolute(&tile.element, self.root), map.length());
            let options = map.options.iter().map(|option| option.call(map, &rt));
            let (bound, shape, variable) = (argument.bound(), shape(argument), local(&map.name));
            let (kernel, text) = (self.reference(), argument.name.to_string());
            Some(quote! {
                let #variable = #rt::TensorMap::of_bound::<#element>(
                    &#bound, #stream, #length, &#shape
                )#(#options)*;
                let #variable = #rt::build_map(&#variable, #kernel, #text)?;
            })
        });
        quote!(#(#each)*)
    }
}

impl MapOption {
    /// As a call of the builder.
    fn call(&self, map: &Map, rt: &TokenStream) -> TokenStream {
        match self {
            MapOption::Box(_) => {
                let extents = map.tile();
                quote!(.tile(&#extents))
            }
            MapOption::Word { method, ty, variant } => quote!(.#method(#rt::#ty::#variant)),
        }
    }
}

impl Map {
    /// The variable that holds how long the mapped memory is.
    fn length(&self) -> Ident {
        local(&format!("length_{}", self.name))
    }

    /// The variable that holds the extents of its box.
    fn tile(&self) -> Ident {
        local(&format!("box_{}", self.name))
    }

    fn extents(&self) -> Option<&[syn::Expr]> {
        self.options.iter().find_map(|option| match option {
            MapOption::Box(extents) => Some(extents.as_slice()),
            MapOption::Word { .. } => None,
        })
    }
}

/// The names of the dimensions of tiles, each once.
fn named_dims<'a>(tiles: &'a [(&Argument, Tile)]) -> Vec<&'a Ident> {
    let mut named: Vec<&Ident> = Vec::new();
    for name in tiles.iter().flat_map(|(_, tile)| &tile.dims) {
        if !named.contains(&name) {
            named.push(name);
        }
    }
    named
}
