//! The helper library of the kernel language: a file of `ptx_core`'s prelude is read when a path names it.

use crate::kernel::Reader;
use ptx_core::kernel::prelude;
use ptx_core::kernel::tree::{Ident, Module};
use std::collections::{BTreeSet, VecDeque};

impl Reader {
    /// The modules of the prelude that paths have named so far, and those that these name.
    pub fn prelude(&mut self) -> Vec<(Ident, Module)> {
        let mut read = BTreeSet::new();
        let mut modules = Vec::new();
        self.external = !self.own_library;
        while let Some(name) = self.named.pop_first() {
            if let Some(source) = prelude::source(&name)
                && read.insert(name.clone())
            {
                modules.push((Ident { name, ..Ident::default() }, self.library(source)));
            }
        }
        self.external = false;
        modules
    }

    /// Constants, structs and helpers of one file. The files are ours: `tests` read each of them.
    fn library(&mut self, source: &str) -> Module {
        self.host.texts = blocks(source);
        let mut module = Module::default();
        for item in syn::parse_file(source).into_iter().flat_map(|file| file.items) {
            match item {
                syn::Item::Const(item) => module.consts.push(self.constant(&item)),
                syn::Item::Fn(item) => module.functions.push(self.function(&item)),
                syn::Item::Struct(item) => module.structs.push(self.struct_item(&item)),
                syn::Item::Impl(item) => module.impls.push(self.impl_(&item)),
                _ => {}
            }
        }
        module
    }
}

/// The bodies of the `ptx!` of a file, with their braces.
fn blocks(source: &str) -> VecDeque<String> {
    source.split("ptx! ").skip(1).map(|rest| rest[..closing(rest)].to_owned()).collect()
}

/// One past the brace that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}
