//! The choice for a product: by the cost model, or as this thread has chosen for the same product before.
//!
//! A thread keeps its last choices by all that a choice depends on, as the caller gave it, so that a kept one computes nothing.

use super::access::Access;
use super::hopper::Pick;
use super::model::{self, Extents};
use super::params::{Epilogue, Matrix, Source};
use super::plan::{self, Candidate, Plan};
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

/// The circumstances of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) device: Properties,
    /// The most bytes of workspace.
    pub(crate) available: usize,
    /// Kernels without options do.
    pub(crate) is_plain: bool,
}

/// All that a choice may depend on: an [`asked`] product and the setting, word by word.
type Key = [u64; 14];

/// Choices that a thread keeps.
const KEPT: usize = 128;

/// A place for a choice.
type Slot = Option<(Key, Decision)>;

thread_local! {
    /// Each choice in the place that the hash of its key names.
    static RECENT: RefCell<[Slot; KEPT]> = const { RefCell::new([None; KEPT]) };
}

/// The product as a choice sees it. What is not here is in no key, and so must not decide: of addresses the alignment is left, of the epilogue the
/// type of C.
#[inline]
fn asked(product: &Product) -> Product {
    let Product { a, b, c, epilogue, .. } = *product;
    Product {
        a: Source { at: a.at & 15, ..a },
        b: Source { at: b.at & 15, ..b },
        c: Matrix { at: c.at & 15, ..c },
        residual: Matrix::default(),
        epilogue: Epilogue { kind: epilogue.kind, ..Epilogue::default() },
        ..*product
    }
}

/// The key of an asked product: every field of it.
#[inline]
fn key_of(asked: &Product, setting: &Setting) -> Key {
    let Product { kind, m, n, k, batches, a, b, c, residual: _, epilogue, has_options, deterministic } = *asked;
    let Setting { device, available, is_plain } = *setting;
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let aligned = (a.at | b.at << 4 | c.at << 8) as u32;
    let flags = u32::from(deterministic) | u32::from(is_plain) << 1 | u32::from(has_options) << 30;
    let options = flags | epilogue.kind << 2 | kind << 10 | aligned << 18;
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
        c.batch,
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
    let product = &asked(product);
    let key = key_of(product, setting);
    RECENT.with_borrow_mut(|recent| {
        let slot = &mut recent[slot_of(&key)];
        match slot {
            // The shape tells most keys apart. A vector of words that were stored one by one is slow to load.
            Some((known, decision)) if known[0] == key[0] && *known == key => Ok(*decision),
            _ => {
                // So is a decision from the place to which it has just been copied.
                let decision = search(product, setting)?;
                *slot = Some((key, decision));
                Ok(decision)
            }
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
    let ways = &Access::ways(product);
    let plan = |candidate: &'static Candidate, splits: u32| {
        candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits)
    };
    let extents = Extents::new(product, ways, device.multiprocessors, shipped(product.kind));
    let kernels = plan::kernels_for(product, device, ways);
    let limit = tuned.map_or(f32::INFINITY, |(time, _)| time);
    let planned = |fits: &dyn Fn(&'static Candidate, u32) -> bool| {
        let found = model::fastest(&kernels, &extents, fits).filter(|found| found.time < limit)?;
        Some(plan(found.candidate, found.splits))
    };
    // Nearly always there is memory for the fastest one of all.
    let planned = match planned(&|_, _| true) {
        Some(first) if first.bytes > available => {
            planned(&|candidate, splits| plan(candidate, splits).bytes <= available)
        }
        first => first,
    };
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
