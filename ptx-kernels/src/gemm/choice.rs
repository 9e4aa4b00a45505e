//! The choice for a product: by the cost model, or as this thread has chosen for the same product before.
//!
//! A thread keeps its last choices by all that a choice depends on, as the caller gave it, so that a kept one computes nothing. For its
//! last classes of products (types, layouts, device) it keeps the kernels that take them, so that a choice for a new shape computes the
//! times of those alone.

use super::access::Access;
use super::hopper::Pick;
use super::model::{Extents, LOW, Table};
use super::plan::{self, Candidate, MOST, Plan};
use super::problem::Product;
use super::tuned;
use super::tuning::shipped;
use ptx_launch::{Properties, Result};
use std::cell::RefCell;

/// The kernels of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    /// One of those tuned for Hopper.
    Tuned(Pick),
    Plan(Plan),
}

/// The most batches of one launch: blocks along z.
pub(crate) const BATCHES: usize = 65_535;

/// All that the kernels which take a product depend on, but for its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    kind: u32,
    /// Layouts of the operands for each way to read them, if B's neighbors along K are the nearest, and if the sums must have one order.
    bits: u32,
    device: Properties,
}

/// The circumstances of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) device: Properties,
    /// The most bytes of workspace.
    pub(crate) available: usize,
    /// Kernels without options do.
    pub(crate) is_plain: bool,
}

/// All that a choice depends on: shape, strides, types, the low bits of addresses, and the setting.
type Key = [u64; 13];

/// Choices, and classes, that a thread keeps.
const KEPT: usize = 128;
const KEPT_CLASSES: usize = 12;

/// The kernels that take the products of a class.
type Kernels = Table<MOST>;

/// A place for a choice.
type Slot = Option<(Key, Decision)>;

thread_local! {
    /// Each choice in the place that the hash of its key names.
    static RECENT: RefCell<[Slot; KEPT]> = const { RefCell::new([None; KEPT]) };
    /// The kernels of the last classes.
    static CLASSES: RefCell<Classes> = const {
        RefCell::new(Classes { known: [const { None }; KEPT_CLASSES], last: 0, next: 0 })
    };
}

/// Classes with the kernels that take their products, the place of the last one that was used, and that of the next new one.
struct Classes {
    known: [Option<(Class, Kernels)>; KEPT_CLASSES],
    last: usize,
    next: usize,
}

impl Classes {
    /// The kernels that take a product of a class, which is known from now on.
    fn kernels(&mut self, class: Class, product: &Product, ways: &[[Access; 2]; 2]) -> &Kernels {
        let is_known = |known: &Option<(Class, Kernels)>| matches!(known, Some((known, _)) if *known == class);
        if !is_known(&self.known[self.last]) {
            self.last = self.known.iter().position(is_known).unwrap_or_else(|| {
                let at = self.next;
                (self.known[at], self.next) = (None, (at + 1) % KEPT_CLASSES);
                at
            });
        }
        &self.known[self.last].get_or_insert_with(|| (class, class.kernels(product, ways))).1
    }
}

impl Class {
    #[inline]
    fn new(product: &Product, ways: &[[Access; 2]; 2], device: Properties) -> Class {
        let near = product.b.is_along_k(product.n, product.k);
        let first = u32::from(product.deterministic) << 1 | u32::from(near);
        let bits = ways.as_flattened().iter().fold(first, |bits, access| bits << 4 | access.bits());
        Class { kind: product.kind, bits, device }
    }

    /// The kernels that take a product of this class.
    fn kernels(&self, product: &Product, ways: &[[Access; 2]; 2]) -> Kernels {
        let runs = |candidate: &&'static Candidate| {
            candidate.runs(product, self.device, &ways[usize::from(candidate.cluster.is_some())], false)
        };
        // Where kernels of `wgmma` take operands as they lie, high tiles of others are never the fastest.
        let as_they_lie = ways[1].iter().all(|access| access.packed.is_none());
        let by_tma = as_they_lie && plan::candidates_of(product.kind).any(|next| next.cluster.is_some() && runs(&next));
        let kernels = plan::candidates_of(product.kind)
            .filter(runs)
            .filter(|candidate| !by_tma || candidate.cluster.is_some() || candidate.block_m <= LOW);
        Table::new(kernels, self.device.multiprocessors, shipped(product.kind))
    }
}

/// The key of a product.
#[inline]
fn key_of(product: &Product, setting: &Setting) -> Key {
    let Product { kind, m, n, k, batches, a, b, c, ref epilogue, deterministic, .. } = *product;
    let Setting { device, available, is_plain } = *setting;
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let aligned = (a.at & 15 | (b.at & 15) << 4 | (c.at & 15) << 8) as u32;
    let options = u32::from(deterministic) | u32::from(is_plain) << 1 | epilogue.kind << 2 | kind << 10 | aligned << 18;
    let capability = u32::from(device.capability.unwrap_or(0));
    [
        two(m, n),
        two(k, options),
        two(device.multiprocessors, capability),
        batches as u64,
        available as u64,
        a.line,
        a.k,
        a.batch,
        b.line,
        b.k,
        b.batch,
        c.row,
        c.column,
    ]
}

/// The place of a choice.
#[inline]
fn slot_of(key: &Key) -> usize {
    let [shape, k, _, batches, _, _, _, _, line, ..] = *key;
    let words = [shape, k, batches ^ line.rotate_left(20)].into_iter();
    let hash = words.fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    hash as usize % KEPT
}

/// The decision for a product, as the caller gave it.
///
/// # Errors
/// [`ErrorKind::Unsupported`](ptx_launch::ErrorKind::Unsupported) if no kernel multiplies such operands on the device.
pub(crate) fn choose(product: &Product, setting: &Setting) -> Result<Decision> {
    let key = key_of(product, setting);
    RECENT.with_borrow_mut(|recent| {
        let slot = &mut recent[slot_of(&key)];
        match slot {
            Some((known, decision)) if *known == key => Ok(*decision),
            _ => Ok(slot.insert((key, search(product, setting)?)).1),
        }
    })
}

/// The choice by the model.
fn search(given: &Product, setting: &Setting) -> Result<Decision> {
    let Setting { device, available, is_plain } = *setting;
    let is_free = is_plain && !given.deterministic && tuned::run_on(device, false);
    let tuned = if is_free { tuned::layout(given) } else { None };
    let tuned = tuned.map(|layout| tuned::estimate(given, device, layout));
    let mut product = first_batches(given);
    product.orient();
    let product = &product;
    let ways = &[Access::both(product, false), Access::both(product, true)];
    let plan = |candidate: &'static Candidate, splits: u32| {
        candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits)
    };
    let (class, extents) = (Class::new(product, ways, device), Extents::new(product, ways, shipped(product.kind)));
    let limit = tuned.map_or(f32::INFINITY, |(time, _)| time);
    let planned = CLASSES.with_borrow_mut(|classes| {
        let kernels = classes.kernels(class, product, ways);
        let found = kernels.fastest(&extents, |_, _| true).filter(|found| found.time < limit)?;
        let first = plan(found.candidate, found.splits);
        // Nearly always there is memory for the fastest one of all.
        if first.bytes <= available {
            return Some(first);
        }
        let found = kernels.fastest(&extents, |candidate, splits| plan(candidate, splits).bytes <= available)?;
        (found.time < limit).then(|| plan(found.candidate, found.splits))
    });
    match (planned, tuned) {
        (Some(plan), _) => Ok(Decision::Plan(plan)),
        (None, Some((_, pick))) => Ok(Decision::Tuned(pick)),
        (None, None) => Err(plan::no_kernel(product, device)),
    }
}

/// The product of the batches of one launch.
pub(crate) fn first_batches(product: &Product) -> Product {
    Product { batches: product.batches.min(BATCHES), ..*product }
}
