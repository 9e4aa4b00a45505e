//! The crate around a text. The attributes of a kernel may name structs, parts and condition functions of other files, which the compiler finds by their
//! paths. A tool that reads one file of a crate passes the others.

use super::names::{Index, Place};
use super::parse;
use crate::describe::Scope;
use syn::Item;

/// The files of a crate around one of them.
#[derive(Clone, Debug, Default)]
pub struct Crate {
    /// The module that the text is, from the root of the crate.
    pub place: Vec<String>,
    /// The other files: the module that each is, and its text. Those that are not Rust are left out.
    pub files: Vec<(Vec<String>, String)>,
}

/// The items of a text and of the files around it.
pub(super) struct Files {
    place: Place,
    own: Vec<Item>,
    others: Vec<(Place, Vec<Item>)>,
}

impl Files {
    /// The files, and what is wrong in none of them: their items go into the index.
    pub(super) fn read(own: Vec<Item>, around: &Crate, index: &mut Index) -> Files {
        let items = |(place, text): &(Place, String)| {
            let mut items = parse(text).ok()?.items;
            index.add(place, &mut items);
            Some((place.clone(), items))
        };
        let others = around.files.iter().filter_map(items).collect();
        Files { place: around.place.clone(), own, others }
    }

    /// The items of the text.
    pub(super) fn own(&self) -> &[Item] {
        &self.own
    }

    /// The path of a module of the text, from the root of the crate.
    pub(super) fn absolute(&self, module: &[String]) -> Place {
        [self.place.as_slice(), module].concat()
    }

    /// The names in a module, which the file with the longest path to it has.
    pub(super) fn scope(&self, module: &[String]) -> Scope {
        let own = (self.place.as_slice(), self.own.as_slice());
        let others = self.others.iter().map(|(place, items)| (place.as_slice(), items.as_slice()));
        let around = others.chain([own]).filter(|(place, _)| module.starts_with(place));
        let (place, items) = around.max_by_key(|(place, _)| place.len()).unwrap_or(own);
        let scope = Scope::at(items, module.strip_prefix(place).unwrap_or_default());
        if self.place.is_empty() && self.others.is_empty() { scope } else { scope.with_others() }
    }
}
