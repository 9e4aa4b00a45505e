//! The registry of semantics: which decoder an instruction has.
//!
//! Each file of `ops/` is one family: a list of [`Op`]s and the functions they name. To give an instruction semantics,
//! add a line to a family; nothing here names an opcode.

pub(super) mod atomic;
pub(super) mod barrier;
pub(super) mod bits;
pub(super) mod carry;
pub(super) mod compare;
pub(super) mod control;
pub(super) mod convert;
pub(super) mod copy;
pub(super) mod float;
pub(super) mod fragment;
pub(super) mod half;
pub(super) mod host;
pub(super) mod integer;
pub(super) mod launch;
pub mod layouts;
pub(super) mod matrix;
pub(super) mod mbarrier;
pub(super) mod memory;
pub(super) mod mma;
pub(super) mod moves;
pub(super) mod reals;
pub(super) mod remote;
pub(super) mod role;
pub(super) mod stack;
pub(super) mod stochastic;
pub(super) mod tcgen05;
pub(super) mod tensor;
pub(super) mod tensormap;
pub(super) mod texture;
pub(super) mod video;
pub(super) mod warp;
pub(super) mod wgmma;
pub(super) mod wmma;

use super::site::{Decoded, Site};
use ptx_core::hash::Map;
use std::sync::LazyLock;

/// Semantics for the instructions of a name.
pub(super) struct Op {
    /// The opcode and the modifiers that must be there, in the name or among the others: `mul.hi`.
    pub name: &'static str,
    /// The types it is for, separated by blanks; all if empty. The type is that of the first source.
    pub types: &'static str,
    /// Its decoder.
    pub decode: fn(&Site) -> Decoded,
}

/// One line of a family.
pub(super) const fn op(name: &'static str, types: &'static str, decode: fn(&Site) -> Decoded) -> Op {
    Op { name, types, decode }
}

const FAMILIES: &[&[Op]] = &[
    integer::OPS,
    carry::OPS,
    bits::OPS,
    float::OPS,
    half::OPS,
    compare::OPS,
    convert::OPS,
    stochastic::OPS,
    moves::OPS,
    memory::OPS,
    atomic::OPS,
    warp::OPS,
    barrier::OPS,
    mbarrier::OPS,
    copy::OPS,
    tensor::OPS,
    remote::OPS,
    video::OPS,
    launch::OPS,
    texture::OPS,
    tensormap::OPS,
    matrix::OPS,
    tcgen05::OPS,
    mma::OPS,
    wmma::OPS,
    wgmma::OPS,
    control::OPS,
    stack::OPS,
];

/// Decodes an instruction; one with a modifier that its decoder does not know is refused.
pub(super) fn decode(site: &Site) -> Decoded {
    let ty = site.main_type().map_or("", |t| t.name());
    let present = |part: &str| site.modifiers.contains(&part);
    let op = candidates(site.row.opcode()).filter(|op| op.admits(ty) && op.parts().all(present));
    let over_reals = if site.field.is_some() { reals::find(site)? } else { None };
    let op = over_reals
        .or_else(|| best(op))
        .ok_or_else(|| format!("`{}` on .{ty} has no semantics here yet", site.row.name))?;
    site.accept(&op.parts().collect::<Vec<_>>());
    let step = (op.decode)(site)?;
    match site.ignored() {
        Some(modifier) => Err(format!("`.{modifier}` of `{}` has no semantics here yet", site.row.name)),
        None => Ok(step),
    }
}

fn candidates(opcode: &str) -> impl Iterator<Item = &'static Op> {
    /// Those of each opcode, in the order of the families.
    static INDEX: LazyLock<Map<&str, Vec<&Op>>> = LazyLock::new(|| {
        let mut index = Map::<_, Vec<_>>::default();
        for op in FAMILIES.iter().copied().flatten() {
            index.entry(op.name.split('.').next().unwrap_or_default()).or_default().push(op);
        }
        index
    });
    INDEX.get(opcode).into_iter().flatten().copied()
}

/// The one that requires most modifiers; of equals the first.
fn best(ops: impl Iterator<Item = &'static Op>) -> Option<&'static Op> {
    ops.fold(None, |found: Option<&Op>, op| match found {
        Some(old) if old.parts().count() >= op.parts().count() => found,
        _ => Some(op),
    })
}

impl Op {
    fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.name.split('.').skip(1)
    }

    fn admits(&self, ty: &str) -> bool {
        self.types.is_empty() || self.types.split(' ').any(|t| t == ty)
    }
}
