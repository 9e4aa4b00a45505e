//! The choice of a plan: the instance and the parts of K that take the least time by the cost model, or what this thread has chosen for the same
//! product before.
//!
//! A thread keeps its last plans by all that a choice depends on, so that a kept one computes nothing.

use super::access::Ways;
use super::cost::{Extents, Work, time_of_rounds};
use super::instance::{Family, Instance, families};
use super::params::{self, Epilogue, Matrix, Source};
use super::plan::{self, Operation, Operations, Plan};
use super::problem::{self, Product};
use super::tuning::shipped;
use ptx_launch::{Properties, Result};
use std::cell::RefCell;

/// Bytes of B along N up to which kernels for few rows read it along K: their loads meet in the lines of L1. Beyond, and if TMA would read a copy,
/// up to more bytes, because there is no launch for a copy.
const MOST_BYTES: u64 = 128 << 10;
const MOST_COPIED_BYTES: u64 = 2 << 20;

/// Rows of the lowest tiles. Higher ones are tried if a product fills more than a quarter of them.
const LOW: u32 = 16;

/// The most rows of C for the kernels that load operands without tiles.
const FEW_ROWS: u32 = 8;

/// Instances that are tried with K in parts: those with the least estimates for that, if these are below the least time known.
const DIVIDED: usize = 2;

/// The circumstances of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) device: Properties,
    /// The most bytes of workspace.
    pub(crate) available: usize,
}

/// All that a choice may depend on: a product without its memory, and the setting, word by word.
type Key = [u64; 14];

/// Plans that a thread keeps.
const KEPT: usize = 128;

/// A place for a plan.
type Slot = Option<(Key, Plan)>;

thread_local! {
    /// Each plan in the place that the hash of its key names. The places are allocated with the first plan.
    static RECENT: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// The product as a choice sees it. What is not here is in no key, and so must not decide: of addresses the alignment is left, of the epilogue the
/// type of C.
fn without_memory(product: &Product) -> Product {
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

/// The key of such a product: every field of it.
fn key_of(product: &Product, setting: &Setting) -> Key {
    let Product { kind, m, n, k, batches, a, b, c, residual: _, epilogue, has_options, deterministic } = *product;
    let Setting { device, available } = *setting;
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let aligned = (a.at | b.at << 4 | c.at << 8) as u32;
    let flags = u32::from(deterministic) | u32::from(has_options) << 1;
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

/// The place of a plan.
fn slot_of(key: &Key) -> usize {
    let [shape, k, _, batches, _, _, _, _, line, ..] = *key;
    let words = [shape, k, batches ^ line.rotate_left(20)].into_iter();
    let hash = words.fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    hash as usize % KEPT
}

/// The plan for a product, from [`Product::oriented`]. `has_scratch` returns true if the memory that some kernels share between launches is
/// there, or may be allocated.
///
/// # Errors
/// [`ErrorKind::Unsupported`](ptx_launch::ErrorKind::Unsupported) if no kernel multiplies such operands on the device.
pub(crate) fn choose(product: &Product, setting: &Setting, has_scratch: impl FnOnce() -> bool) -> Result<Plan> {
    let product = &without_memory(product);
    let key = key_of(product, setting);
    let plan = RECENT.with_borrow_mut(|recent| {
        if recent.is_empty() {
            recent.resize(KEPT, None);
        }
        match &mut recent[slot_of(&key)] {
            // Most keys differ in their shape. A vector of words that were stored one by one is slow to load.
            Some((known, plan)) if known[0] == key[0] && *known == key => Ok(*plan),
            slot => search(product, setting, true).inspect(|plan| *slot = Some((key, *plan))),
        }
    })?;
    if plan.instance.family.has_scratch() && !has_scratch() { search(product, setting, false) } else { Ok(plan) }
}

/// The circumstances that decide which instances are tried.
pub(crate) struct Tried {
    m: u32,
    /// TMA reads A and B as they lie: then high tiles of kernels without it are never the fastest.
    by_tma: bool,
    /// Kernels for few rows read B along K.
    along_k: bool,
    /// There are few rows, and A and B lie along K in aligned runs.
    in_runs: bool,
}

impl Tried {
    pub(crate) fn new(product: &Product, ways: &Ways, device: Properties) -> Tried {
        let Product { kind, m, n, k, ref b, .. } = *product;
        let is_hopper = device.capability == Some(90) && kind != params::F32;
        let limit = if ways.by_tma[1].is_copied { MOST_COPIED_BYTES } else { MOST_BYTES };
        Tried {
            m,
            by_tma: is_hopper && ways.loads_by_tma(),
            along_k: b.is_along_k(n, k) || u64::from(n) * u64::from(k) * problem::size(kind) <= limit,
            in_runs: m <= FEW_ROWS && ways.by_runs.iter().all(|access| access.along_k && !access.is_copied),
        }
    }

    pub(crate) fn includes(&self, instance: &Instance) -> bool {
        let height = instance.tile[0];
        let is_filled = height <= LOW || self.m > height / 4;
        match instance.family {
            Family::Simt => !(self.by_tma || self.along_k && self.in_runs),
            Family::Rows => self.m <= FEW_ROWS && instance.majors[1] == Some(self.along_k),
            Family::Runs => self.in_runs && self.along_k,
            Family::Mma => is_filled && (height <= LOW || !self.by_tma),
            Family::Generic | Family::Static | Family::Tcgen05 => is_filled,
            Family::Claimed | Family::StreamK => true,
        }
    }
}

/// An instance with K in parts, and its time by the model.
#[derive(Clone, Copy)]
struct Candidate {
    instance: &'static Instance,
    splits: u32,
    time: f32,
}

/// The plan with the least time; with kernels that have scratch memory, or without them.
fn search(product: &Product, setting: &Setting, with_scratch: bool) -> Result<Plan> {
    let Setting { device, available } = *setting;
    let (operations, costs) = (Operations::new(product), shipped(product.kind));
    let extents_of =
        |operation: &Operation| Extents::new(&operation.product, &operation.ways, device.multiprocessors, costs);
    let (straight, turned) = (extents_of(&operations.straight), operations.turned.as_ref().map(extents_of));
    let tried = Tried::new(&operations.straight.product, &operations.straight.ways, device);
    let plan =
        |candidate: &Candidate| Plan::new(candidate.instance, operations.of(candidate.instance), candidate.splits);
    let has_copies = !operations.straight.ways.loads_by_tma() || !operations.straight.ways.loads_by_runs();
    let fits = |candidate: &Candidate| candidate.splits == 1 && !has_copies || plan(candidate).bytes <= available;
    let is_better = |candidate: &Candidate, best: &Option<Candidate>| {
        candidate.time < best.map_or(f32::INFINITY, |best| best.time) && fits(candidate)
    };
    let mut best: Option<Candidate> = None;
    let mut divided: [Option<Candidate>; DIVIDED] = [None; DIVIDED];
    for family in families(product.kind) {
        let (first, has_scratch) = (&family[0], family[0].family.has_scratch());
        let operation = operations.of(first);
        if !first.is_on(device, false) || has_scratch && !with_scratch || !first.stores(operation) {
            continue;
        }
        for instance in family {
            if !tried.includes(instance) || !instance.reads(operation) || !instance.counts(&operation.product) {
                continue;
            }
            let time = if has_scratch {
                time_of_rounds(instance, turned.as_ref().unwrap_or(&straight), costs)
            } else {
                let work = Work::new(instance, &straight, costs);
                if instance.family.divides_k() && work.is_divisible() {
                    insert(&mut divided, Candidate { instance, splits: 1, time: work.divided() });
                }
                work.whole()
            };
            best = Some(Candidate { instance, splits: 1, time }).filter(|this| is_better(this, &best)).or(best);
        }
    }
    for Candidate { instance, time: estimate, .. } in divided.into_iter().flatten() {
        if estimate >= best.map_or(f32::INFINITY, |best| best.time) {
            break;
        }
        let (splits, time) = Work::new(instance, &straight, costs).fastest_division();
        best = Some(Candidate { instance, splits, time }).filter(|this| splits > 1 && is_better(this, &best)).or(best);
    }
    best.map(|best| plan(&best)).ok_or_else(|| plan::no_instance(product, device))
}

/// Keeps a candidate if it is one of the fastest, in order.
fn insert(fastest: &mut [Option<Candidate>; DIVIDED], mut candidate: Candidate) {
    for slot in fastest {
        match slot {
            Some(known) if known.time <= candidate.time => {}
            Some(known) => std::mem::swap(known, &mut candidate),
            None => {
                *slot = Some(candidate);
                return;
            }
        }
    }
}
