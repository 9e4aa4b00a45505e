//! Types of addresses: the state space, the right to write, and the element.

use super::Ty;
use ptx_core::isa::Type;
use std::rc::Rc;

/// The state space of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// `Global`, `GlobalMut`
    Global,
    /// `Shared`: of this block.
    Shared,
    /// `SharedCluster`: of a block of the cluster.
    Cluster,
    /// `Tmem`
    Tensor,
    /// A `static`.
    Const,
    /// A `#[local]` variable.
    Local,
}

/// The names of address types: the state space, and true if memory may be written through it.
const NAMES: [(&str, Space, bool); 5] = [
    ("Global", Space::Global, false),
    ("GlobalMut", Space::Global, true),
    ("Shared", Space::Shared, true),
    ("SharedCluster", Space::Cluster, true),
    ("Tmem", Space::Tensor, true),
];

impl Space {
    /// The address type of this name, and whether memory may be written through it.
    pub(crate) fn find(name: &str) -> Option<(Space, bool)> {
        NAMES.iter().find(|(known, ..)| *known == name).map(|(_, space, mutable)| (*space, *mutable))
    }

    /// The state spaces that an instruction may name to use such an address.
    pub(crate) fn modifiers(self) -> &'static [&'static str] {
        match self {
            Space::Global => &["global"],
            Space::Shared => &["shared", "shared::cta", "shared::cluster"],
            Space::Cluster => &["shared::cluster"],
            Space::Tensor => &[],
            Space::Const => &["const"],
            Space::Local => &["local"],
        }
    }

    /// PTX's name of the space: `ld.shared`.
    pub(crate) fn ptx(self) -> &'static str {
        self.modifiers().first().copied().unwrap_or("tmem")
    }

    /// The type of the register that holds an address. Windows of shared memory are below 4 GiB.
    pub(crate) fn register(self) -> Option<Type> {
        super::find(match self {
            Space::Global | Space::Const | Space::Local => "u64",
            Space::Shared | Space::Cluster | Space::Tensor => "u32",
        })
    }
}

/// The type of an address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AddressTy {
    /// Its state space.
    pub(crate) space: Space,
    /// True if memory may be written through it.
    pub(crate) mutable: bool,
    /// The type of what it points to.
    pub(crate) element: Ty,
}

impl AddressTy {
    /// The help where memory is written through an address that is only read.
    pub(crate) const TO_WRITE: &str =
        "take the parameter as `&mut [T]` or `TileMut<T, …>`, or the address as `GlobalMut<T>`";

    /// As the user writes it.
    pub(crate) fn name(&self) -> String {
        let name = NAMES.iter().find(|(_, space, mutable)| (*space, *mutable) == (self.space, self.mutable));
        match (name, self.space) {
            (Some((name, ..)), Space::Tensor) => (*name).to_owned(),
            (Some((name, ..)), _) => format!("{name}<{}>", self.element.name()),
            (None, space) => format!("{} address of {}", space.ptx(), self.element.name()),
        }
    }

    /// Returns true if such an address may be used as the other one: what may be written may be read, and this block's
    /// shared memory is a part of the cluster's.
    pub(crate) fn becomes(&self, other: &AddressTy) -> bool {
        let space = self.space == other.space || (self.space, other.space) == (Space::Shared, Space::Cluster);
        space && self.element == other.element && (self.mutable || !other.mutable)
    }

    /// The type of its number.
    pub(crate) fn number_name(&self) -> String {
        self.space.register().map_or_else(|| "u64".to_owned(), super::name)
    }

    /// The type that both may be used as.
    pub(crate) fn common(a: &Rc<AddressTy>, b: &Rc<AddressTy>) -> Option<Rc<AddressTy>> {
        [(a, b), (b, a)].into_iter().find(|(from, to)| from.becomes(to)).map(|(_, to)| Rc::clone(to))
    }

    /// The element of an array, and the number of them; of anything else itself, and no number.
    pub(crate) fn elements(&self) -> (&Ty, Option<u64>) {
        match &self.element {
            Ty::Array(element, len) => (element, Some(*len)),
            other => (other, None),
        }
    }
}
