//! The registers of one body: the names that are taken, and temporaries.

use crate::names::Names;
use crate::types;
use crate::value::Reg;
use ptx_core::isa::Type;

/// The registers that a body declares.
#[derive(Debug, Default)]
pub(super) struct Registers {
    /// Names that are taken.
    pub(super) names: Names,
    /// The number of temporaries of each register type, in the order of the types' names.
    pub(super) temporaries: Vec<(&'static str, u32)>,
}

impl Registers {
    /// A register for a value without a name: `%u32_0`.
    pub(super) fn temporary(&mut self, ty: Type) -> Reg {
        let class = types::register(ty).unwrap_or("b32");
        let found = self.temporaries.binary_search_by_key(&class, |(known, _)| known);
        let at = found.unwrap_or_else(|at| {
            self.temporaries.insert(at, (class, 0));
            at
        });
        let count = &mut self.temporaries[at].1;
        *count += 1;
        Reg { name: format!("%{class}_{}", *count - 1), ty }
    }

    /// A register under the user's name, made unique.
    pub(super) fn named(&mut self, name: &str) -> String {
        self.names.unique(&emitted(name))
    }

    /// The base name of `len` registers under the user's name.
    pub(super) fn named_array(&mut self, name: &str, len: u64) -> String {
        self.names.unique_array(&emitted(name), len)
    }
}

/// `pair.0` is `%pair_0`.
fn emitted(name: &str) -> String {
    format!("%{}", name.replace('.', "_"))
}
