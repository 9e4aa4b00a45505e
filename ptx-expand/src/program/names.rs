//! The items of a text that attributes name from other modules: parts, and structs of parameters. The macros leave a macro at the place of each, which
//! the compiler finds by its path; here the paths are followed.

use super::items::is_named;
use crate::contract::contract_of;
use crate::fields;
use proc_macro2::TokenStream;
use std::collections::{BTreeMap, BTreeSet};
use syn::UseTree;

/// The path of a module from the root of the text.
pub type Place = Vec<String>;

/// The items, by their paths.
#[derive(Default)]
pub struct Index {
    parts: BTreeMap<Place, Vec<syn::Item>>,
    structs: BTreeMap<Place, TokenStream>,
    /// Condition functions, by their structs, with the module that has them.
    contracts: BTreeMap<Place, (Place, syn::ItemImpl)>,
    /// Other names of items: those of `use`.
    uses: BTreeMap<Place, Place>,
}

/// The most `use`s that lead to an item.
const USES: u32 = 16;

impl Index {
    /// Takes the parts out of a text's items, and notes the rest.
    pub fn take(items: &mut Vec<syn::Item>) -> Index {
        let mut index = Index::default();
        index.add(&[], items);
        index
    }

    /// The same for the items of the module at `place`.
    pub fn add(&mut self, place: &[String], items: &mut Vec<syn::Item>) {
        for contract in items.iter().filter_map(contract_of) {
            if let syn::Type::Path(ty) = &*contract.self_ty
                && let Some(last) = ty.path.segments.last()
            {
                let (module, own) = (place.to_vec(), inside(place, &last.ident));
                self.contracts.insert(own, (module, contract));
            }
        }
        items.retain_mut(|item| match item {
            syn::Item::Mod(module) => {
                let (own, content) = (inside(place, &module.ident), &mut module.content);
                let Some((_, content)) = content else { return true };
                if module.attrs.iter().any(|attribute| is_named(attribute, "ptx_part")) {
                    self.parts.insert(own, std::mem::take(content));
                    return false;
                }
                self.add(&own, content);
                true
            }
            syn::Item::Struct(item) => {
                if derives(item, "KernelParam")
                    && let Some(fields) = fields::named(item)
                {
                    self.structs.insert(inside(place, &item.ident), fields);
                }
                true
            }
            syn::Item::Use(item) => {
                self.note_use(place, &Vec::new(), &item.tree);
                true
            }
            _ => true,
        });
    }

    fn note_use(&mut self, place: &[String], before: &Place, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.note_use(place, &inside(before, &path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_use(place, before, tree)),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.uses.insert([place, std::slice::from_ref(last)].concat(), before.clone());
                }
            }
            UseTree::Name(name) => drop(self.uses.insert(inside(place, &name.ident), inside(before, &name.ident))),
            UseTree::Rename(name) => drop(self.uses.insert(inside(place, &name.rename), inside(before, &name.ident))),
            UseTree::Glob(_) => {}
        }
    }

    /// The items of the part that a path in the module at `place` names.
    pub fn part(&self, place: &[String], path: &syn::Path) -> Option<&[syn::Item]> {
        self.find(&self.parts, place, path).map(Vec::as_slice)
    }

    /// The fields of the struct that a path in the module at `place` names.
    pub fn fields(&self, place: &[String], path: &syn::Path) -> Option<&TokenStream> {
        self.find(&self.structs, place, path)
    }

    /// The condition functions of the text.
    pub fn contracts(&self) -> impl Iterator<Item = &syn::ItemImpl> {
        self.contracts.values().map(|(_, contract)| contract)
    }

    /// Those of the structs that the names in the module at `place` mean, each with the module that has them.
    pub fn contracts_at(&self, place: &[String]) -> Vec<&(Place, syn::ItemImpl)> {
        let mut names = BTreeSet::new();
        names.extend(self.contracts.keys().filter_map(|at| at.last()));
        let path = |name: &String| syn::parse_str::<syn::Path>(name).ok();
        names.into_iter().filter_map(|name| self.find(&self.contracts, place, &path(name)?)).collect()
    }

    /// The item at the end of a path. A text may be a piece of a crate, with paths that begin elsewhere: then the last name decides, if it is the only
    /// item of this name.
    fn find<'i, T>(&self, items: &'i BTreeMap<Place, T>, place: &[String], path: &syn::Path) -> Option<&'i T> {
        let names: Place = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let followed = self.follow(items, place, &names, USES).or_else(|| self.follow(items, &[], &names, USES));
        followed.or_else(|| {
            let mut named = items.iter().filter(|(at, _)| at.last() == names.last());
            named.next().filter(|_| named.next().is_none()).map(|(_, item)| item)
        })
    }

    fn follow<'i, T>(
        &self,
        items: &'i BTreeMap<Place, T>,
        place: &[String],
        names: &[String],
        uses: u32,
    ) -> Option<&'i T> {
        let at = absolute(place, names);
        if let Some(item) = items.get(&at) {
            return Some(item);
        }
        // The longest beginning of the path that is a name of a `use`.
        let (module, name, target) = (1..=at.len()).rev().find_map(|length| {
            let (before, rest) = at.split_at(length);
            self.uses.get(before).map(|target| (&before[..length - 1], rest, target))
        })?;
        self.follow(items, module, &[target, name].concat(), uses.checked_sub(1)?)
    }
}

fn inside(place: &[String], name: &syn::Ident) -> Place {
    place.iter().cloned().chain([name.to_string()]).collect()
}

/// The path of names from the root of the text.
fn absolute(place: &[String], names: &[String]) -> Place {
    let mut at = place.to_vec();
    for name in names {
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => at.push(name.clone()),
        }
    }
    at
}

/// Returns true if a struct derives the trait.
fn derives(item: &syn::ItemStruct, name: &str) -> bool {
    let mut found = false;
    for attribute in item.attrs.iter().filter(|attribute| is_named(attribute, "derive")) {
        // A list that is none is an error of the compiler.
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == name);
            Ok(())
        });
    }
    found
}
