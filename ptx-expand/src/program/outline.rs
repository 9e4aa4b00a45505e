//! The kernels of a text before anything is compiled: a reader that chooses instances by the types of its arguments needs their generic parameters
//! and the types of their parameters as they are written.

use super::items::{self, Item, ItemKind};
use super::names::{Index, Place};
use super::{Crate, Options, Problems, Program};
use crate::argument::{Argument, Passing, Tile};
use crate::kernel::{Reader, Structs};
use crate::tokens::source_text;
use proc_macro2::TokenStream;
use syn::ext::IdentExt;

/// A kernel of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its name.
    pub name: String,
    /// Its generic parameters.
    pub generics: Vec<Generic>,
    /// The parameters of its signature, with the fields of structs of arguments in place of the structs.
    pub params: Vec<OutlineParam>,
    /// The generic arguments of the instances in its attribute, as they are written.
    pub instances: Vec<Vec<String>>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineParam {
    /// Its name.
    pub name: String,
    /// The type of the number or of the elements as it is written; `None` for other types.
    pub element: Option<String>,
    /// True for a `TileMut`, whose shape the other parameters may say.
    pub is_output: bool,
}

/// A generic parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generic {
    /// Its name.
    pub name: String,
    /// True for a type, false for a constant.
    pub is_type: bool,
}

/// The kernels of a text, in order, those in modules too; and the program of the one kernel if nothing of it is to be chosen: a text that is wanted
/// whole is read once. Mistakes of that kernel are errors of its compilation, which is left out here.
///
/// # Errors
/// A text that is not Rust.
pub fn outline_and_compile(source: &str, options: &Options) -> Result<(Vec<Outline>, Option<Program>), Problems> {
    let mut file = super::parse(source)?;
    let index = Index::take(&mut file.items);
    let outlines = of_items(&file.items, &index, <[String]>::to_vec);
    let program = match outlines.as_slice() {
        [lone] if lone.generics.is_empty() => {
            let options = Options { only: Some(lone.name.clone()), ..options.clone() };
            super::of_items((file.items, index), &options, false, &Crate::default()).ok()
        }
        _ => None,
    };
    Ok((outlines, program))
}

/// The kernels among items; `absolute` is the path of a module of theirs in the index.
pub(super) fn of_items(items: &[syn::Item], index: &Index, absolute: impl Fn(&[String]) -> Place) -> Vec<Outline> {
    items::kernels(items).into_iter().flat_map(|item| of_item(item, index, &absolute)).collect()
}

fn of_item(item: Item<'_>, index: &Index, absolute: &impl Fn(&[String]) -> Place) -> Vec<Outline> {
    match item.kind {
        ItemKind::Kernel(attribute, function) => vec![of_kernel(attribute, &function, Structs::default())],
        ItemKind::Module(attribute, module) => {
            // A part that is not there is an error of the compilation.
            let Ok((_, module)) =
                items::chosen_module(attribute, module, (index, &absolute(&item.place)), &Options::default())
            else {
                return Vec::new();
            };
            let items = || module.content.iter().flat_map(|(_, items)| items);
            let outline = |(attribute, function): (_, &_)| of_kernel(attribute, function, Structs::of_items(items()));
            items().filter_map(items::kernel_of).map(outline).collect()
        }
        ItemKind::Text(_) => Vec::new(),
    }
}

fn of_kernel(attribute: TokenStream, function: &syn::ItemFn, structs: Structs) -> Outline {
    let generics = function.sig.generics.params.iter().filter_map(|generic| match generic {
        syn::GenericParam::Type(generic) => Some(Generic { name: generic.ident.to_string(), is_type: true }),
        syn::GenericParam::Const(generic) => Some(Generic { name: generic.ident.to_string(), is_type: false }),
        syn::GenericParam::Lifetime(_) => None,
    });
    // Mistakes are errors of the compilation.
    let signature = Reader { structs, ..Reader::default() }.signature(&function.sig.inputs);
    let params = signature.arguments.iter().map(of_argument);
    let instances = Reader::default().attribute(attribute).instances;
    Outline {
        name: function.sig.ident.unraw().to_string(),
        generics: generics.collect(),
        params: params.collect(),
        instances: instances.iter().map(|arguments| arguments.iter().map(source_text).collect()).collect(),
    }
}

fn of_argument(argument: &Argument) -> OutlineParam {
    let element = match argument.passing() {
        Passing::Read(ty) | Passing::Write(ty) | Passing::Value(ty) => Some(source_text(&ty)),
        Passing::Map | Passing::Texture | Passing::Surface => None,
    };
    let is_output = Tile::from_type(&argument.ty).is_some_and(|tile| tile.mutable);
    OutlineParam { name: argument.text.clone(), element, is_output }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn kernels_are_found_with_their_generics() {
        let text = "
            #[ptx_part] mod shared { const ONE: u32 = 1; }
            #[ptx_module(arch = \"sm_80\", parts(shared))] mod m {
                fn helper(x: u32) -> u32 { x }
                struct Inputs<I, T> { q: &[I], bias: TileMut<T, (N,)> }
                #[ptx_kernel(instances = [f32], block = 1)]
                fn taken<A>(n: u32, inputs: Inputs<u8, A>) {}
                #[ptx_kernel(instances = [([f32, f16], 64), (bf16, 128)], block = B)]
                fn k<T, const B: u32>(x: Tile<T, (N,)>, out: &mut [f32], map: TensorMap, to: TileMut<T, (N,)>) {}
            }
            #[ptx_kernel(arch = \"sm_80\")] fn plain(n: u32) {}
        ";
        let (found, _) = outline_and_compile(text, &Options::default()).unwrap();
        let [taken, k, plain] = &found[..] else { unreachable!("{found:?}") };
        let generics: Vec<_> = k.generics.iter().map(|generic| (generic.name.as_str(), generic.is_type)).collect();
        assert_eq!(generics, [("T", true), ("B", false)]);
        assert_eq!(k.instances, [["f32", "64"], ["f16", "64"], ["bf16", "128"]]);
        let types: Vec<_> =
            k.params.iter().map(|param| (param.name.as_str(), param.element.as_deref(), param.is_output)).collect();
        let expected =
            [("x", Some("T"), false), ("out", Some("f32"), false), ("map", None, false), ("to", Some("T"), true)];
        assert_eq!(types, expected);
        assert_eq!((plain.name.as_str(), plain.generics.len(), plain.instances.len()), ("plain", 0, 0));
        let taken: Vec<_> =
            taken.params.iter().map(|param| (&param.name[..], param.element.as_deref(), param.is_output)).collect();
        assert_eq!(
            taken,
            [("n", Some("u32"), false), ("inputs.q", Some("u8"), false), ("inputs.bias", Some("A"), true)]
        );
        assert_eq!(outline_and_compile("fn k(", &Options::default()).unwrap_err().0[0].start.0, 1);
    }
}
