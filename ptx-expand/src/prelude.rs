//! Modules of helpers: those of kernel modules, and the library's. A file of `ptx_language`'s prelude is read when a path names it.

use crate::kernel::{Reader, marks_kernel};
use crate::tokens::Host;
use ptx_core::diag::codes;
use ptx_core::hash::Set;
use ptx_language::prelude::FILES;
use ptx_language::tree::{Ident, Module};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, OnceLock};

/// A file of the library.
struct File {
    module: Arc<Module>,
    /// The first names of its paths: other files, perhaps.
    named: Set<String>,
}

/// The files that were read, in the order of [`FILES`]. All macros of a crate run in one process, and share them.
static READ: LazyLock<Vec<OnceLock<File>>> = LazyLock::new(|| FILES.iter().map(|_| OnceLock::new()).collect());

/// Spans of a file begin there, so that they are those of no other text; a file has fewer tokens than the distance to the next.
const SPANS: u32 = 1 << 30;
const DISTANCE: u32 = 1 << 20;

impl Reader {
    /// The modules of the prelude that paths have named so far, and those that these name.
    pub fn prelude(&mut self) -> Vec<(Ident, Arc<Module>)> {
        let mut is_read = [false; FILES.len()];
        let mut modules = Vec::new();
        while let Some(at) = FILES.iter().position(|(name, _)| self.named.remove(*name)) {
            if !std::mem::replace(&mut is_read[at], true) {
                let module = match READ.get(at).filter(|_| !self.own_library) {
                    Some(file) => self.shared(file, at),
                    None => Arc::new(self.library(FILES[at].1)),
                };
                modules.push((Ident { name: FILES[at].0.to_owned(), ..Ident::default() }, module));
            }
        }
        modules
    }

    /// A file that is read at most once.
    fn shared(&mut self, file: &OnceLock<File>, at: usize) -> Arc<Module> {
        let file = file.get_or_init(|| {
            let host = Host::of_text(SPANS + at as u32 * DISTANCE);
            let mut reader = Reader { host, external: true, ..Reader::default() };
            File { module: Arc::new(reader.library(FILES[at].1)), named: reader.named }
        });
        self.named.extend(file.named.iter().cloned());
        file.module.clone()
    }

    /// Constants, structs and helpers of one file.
    fn library(&mut self, source: &str) -> Module {
        self.host.texts = blocks(source);
        let items: Vec<syn::Item> = syn::parse_file(source).into_iter().flat_map(|file| file.items).collect();
        self.helpers(&items)
    }

    /// A module of helpers.
    pub fn helpers<'i>(&mut self, items: impl IntoIterator<Item = &'i syn::Item>) -> Module {
        let mut module = Module::default();
        for item in items {
            match item {
                syn::Item::Const(item) => module.consts.push(self.constant(item)),
                syn::Item::Fn(item) if !item.attrs.iter().any(marks_kernel) => module.functions.push(self.helper(item)),
                syn::Item::Struct(item) => module.structs.push(self.struct_item(item)),
                syn::Item::Impl(item) => module.impls.push(self.impl_(item)),
                other => {
                    let help = "it may hold `const`, `struct`, `impl` and helper `fn`s; kernels and variables stand in the module around it";
                    self.error(&codes::P0907, other, "a module of helpers cannot hold this item", help);
                }
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
