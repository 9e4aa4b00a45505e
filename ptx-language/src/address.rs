//! Addresses: a register or a variable with a constant behind it, whose state space and element are known.

use super::types::Ty;
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
        super::types::find(match self {
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
    /// As the user writes it.
    pub(crate) fn name(&self) -> String {
        let name = NAMES.iter().find(|(_, space, mutable)| (*space, *mutable) == (self.space, self.mutable));
        match (name, self.space) {
            (Some((name, ..)), Space::Tensor) => (*name).to_owned(),
            (Some((name, ..)), _) => format!("{name}<{}>", self.element.name()),
            (None, space) => format!("address of `.{}` {}", space.ptx(), self.element.name()),
        }
    }

    /// Returns true if such an address may be used as the other one: what may be written may be read, and this block's
    /// shared memory is a part of the cluster's.
    pub(crate) fn becomes(&self, other: &AddressTy) -> bool {
        let space = self.space == other.space || (self.space, other.space) == (Space::Shared, Space::Cluster);
        space && self.element == other.element && (self.mutable || !other.mutable)
    }

    /// The element of an array, and the number of them; of anything else itself, and no number.
    pub(crate) fn elements(&self) -> (&Ty, Option<u64>) {
        match &self.element {
            Ty::Array(element, len) => (element, Some(*len)),
            other => (other, None),
        }
    }
}

/// The part of an address that no constant is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Base {
    /// A register, with its `%`.
    Register(String),
    /// A variable.
    Variable(String),
}

/// The distance from one row of a tile to the next, in elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pitch {
    /// Known.
    Const(u64),
    /// The dimension of a tile: the parameter of this index.
    Param(usize),
}

/// An address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    /// The register or the variable.
    pub(crate) base: Base,
    /// The bytes that are added.
    pub(crate) offset: i64,
    /// Its type.
    pub(crate) ty: Rc<AddressTy>,
    /// The distance of its rows, if it is a tile's.
    pub(crate) pitch: Option<Pitch>,
}

impl Address {
    /// The address in a register.
    pub(crate) fn register(name: String, ty: Rc<AddressTy>) -> Address {
        Address { base: Base::Register(name), offset: 0, ty, pitch: None }
    }

    /// The address of a variable.
    pub(crate) fn variable(name: String, ty: Rc<AddressTy>) -> Address {
        Address { base: Base::Variable(name), offset: 0, ty, pitch: None }
    }

    /// Its name as an operand: `%x`, `%x+12`, `tile`.
    pub(crate) fn text(&self) -> String {
        let (Base::Register(name) | Base::Variable(name)) = &self.base;
        match self.offset {
            0 => name.clone(),
            offset => format!("{name}{offset:+}"),
        }
    }

    /// The modifiers of an instruction on it: `shared.f32`.
    pub(crate) fn kind(&self) -> String {
        let element = self.ty.element.innermost().scalar().map_or_else(|| "b32".to_owned(), super::types::stored);
        format!("{}.{element}", self.ty.space.ptx())
    }

    /// The register that is this address, if one is.
    pub(crate) fn in_register(&self) -> Option<&str> {
        match &self.base {
            Base::Register(name) if self.offset == 0 => Some(name),
            _ => None,
        }
    }

    /// The same, with another type.
    pub(crate) fn of(self, ty: AddressTy) -> Address {
        Address { ty: Rc::new(ty), pitch: None, ..self }
    }

    /// So many bytes further on; `None` on overflow.
    pub(crate) fn plus(mut self, bytes: i128) -> Option<Address> {
        self.offset = i64::try_from(i128::from(self.offset) + bytes).ok()?;
        Some(self)
    }

    /// The address of a field of the struct that it points to.
    pub(crate) fn field(&self, name: &str) -> Option<Address> {
        let Ty::Struct(of) = &self.ty.element else { return None };
        let at = of.field(name)?;
        let (_, element) = of.fields.get(at)?;
        let offset = super::layout::offset_of(of, at)?;
        let ty = AddressTy { element: element.clone(), ..(*self.ty).clone() };
        self.clone().of(ty).plus(i128::from(offset))
    }
}
