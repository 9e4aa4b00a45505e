//! The choice for a product: by the cost model, or as this thread has chosen for the same product before.
//!
//! A thread keeps its last choices, and for its last classes of products (types, layouts, device) the kernels that take them, so that a
//! choice for a new shape computes the times of those alone.

use super::access::Access;
use super::hopper::Layout;
use super::model::{Extents, Fastest, Table};
use super::plan::{self, Candidate, MOST, Plan};
use super::problem::Product;
use super::tuned;
use super::tuning::SHIPPED;
use ptx_launch::{Properties, Result};
use std::cell::{Cell, RefCell};

/// The kernels of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    /// Those tuned for Hopper, which have a choice of their own.
    Tuned,
    Plan(Plan),
}

/// All that the kernels which take a product depend on, but for its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    kind: u32,
    /// Layouts of the operands for each way to read them, if B's neighbors along K are the nearest, and if the sums must have one order.
    bits: u32,
    device: Properties,
}

/// All that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    class: Class,
    shape: [u32; 3],
    batches: usize,
    /// The layouts for tuned kernels.
    tuned: Option<Layout>,
    available: usize,
}

/// A decision, without what follows from the product.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    Tuned,
    Plan(&'static Candidate, u32),
}

/// Choices, and classes, that a thread keeps.
const KEPT: usize = 128;
const KEPT_CLASSES: usize = 12;

/// The kernels that take the products of a class.
type Kernels = Table<MOST>;

thread_local! {
    /// Each choice in the place that the hash of its product names.
    static RECENT: [Cell<Option<(Key, Chosen)>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
    /// The kernels of the last classes.
    static CLASSES: RefCell<Classes> = const { RefCell::new(Classes { known: [const { None }; KEPT_CLASSES], next: 0 }) };
}

/// Classes with the kernels that take their products, and the place of the next one.
struct Classes {
    known: [Option<(Class, Kernels)>; KEPT_CLASSES],
    next: usize,
}

impl Classes {
    /// The kernels that take a product of a class, which is known from now on.
    fn kernels(&mut self, class: Class, product: &Product, ways: &[[Access; 2]; 2]) -> &Kernels {
        let found = self.known.iter().position(|known| matches!(known, Some((known, _)) if *known == class));
        let at = found.unwrap_or_else(|| {
            let at = self.next;
            (self.known[at], self.next) = (None, (at + 1) % KEPT_CLASSES);
            at
        });
        &self.known[at].get_or_insert_with(|| (class, class.kernels(product, ways))).1
    }
}

impl Class {
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
        Table::new(plan::candidates_of(product.kind).filter(runs), self.device.multiprocessors, &SHIPPED)
    }
}

impl Key {
    fn new(
        product: &Product,
        ways: &[[Access; 2]; 2],
        tuned: Option<Layout>,
        available: usize,
        device: Properties,
    ) -> Key {
        let Product { m, n, k, batches, .. } = *product;
        Key { class: Class::new(product, ways, device), shape: [m, n, k], batches, tuned, available }
    }

    /// The place of the choice.
    fn slot(&self) -> usize {
        let [m, n, k] = self.shape.map(u64::from);
        let rest = u64::from(self.class.bits) ^ u64::from(self.class.kind) << 20 ^ (self.batches as u64) << 24;
        let words = [m, n, k, rest].into_iter();
        let hash = words.fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        hash as usize % KEPT
    }
}

/// The decision for a product that needs at most `available` bytes of workspace; `layout` is that of tuned kernels, if they take it.
///
/// # Errors
/// [`ErrorKind::Unsupported`](ptx_launch::ErrorKind::Unsupported) if no kernel multiplies such operands on the device.
pub(crate) fn choose(
    product: &Product,
    device: Properties,
    available: usize,
    layout: Option<Layout>,
) -> Result<Decision> {
    let ways = [false, true].map(|tma| Access::both(product, tma));
    let key = Key::new(product, &ways, layout, available, device);
    RECENT.with(|recent| {
        let slot = &recent[key.slot()];
        let chosen = match slot.get() {
            Some((known, chosen)) if known == key => chosen,
            _ => {
                let chosen = search(product, &ways, &key)?;
                slot.set(Some((key, chosen)));
                chosen
            }
        };
        Ok(match chosen {
            Chosen::Tuned => Decision::Tuned,
            Chosen::Plan(candidate, splits) => {
                Decision::Plan(candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits))
            }
        })
    })
}

/// The choice by the model.
fn search(product: &Product, ways: &[[Access; 2]; 2], key: &Key) -> Result<Chosen> {
    let fastest = CLASSES.with_borrow_mut(|classes| {
        let kernels = classes.kernels(key.class, product, ways);
        kernels.fastest(&Extents::new(product, ways, &SHIPPED), |candidate, splits| {
            let way = &ways[usize::from(candidate.cluster.is_some())];
            candidate.plan(product, way, splits).bytes <= key.available
        })
    });
    let tuned = key.tuned.map(|layout| tuned::estimate(product, key.class.device, layout));
    match (fastest, tuned) {
        (Some(Fastest { time, .. }), Some(tuned)) if tuned <= time => Ok(Chosen::Tuned),
        (None, Some(_)) => Ok(Chosen::Tuned),
        (Some(Fastest { candidate, splits, .. }), _) => Ok(Chosen::Plan(candidate, splits)),
        (None, None) => Err(plan::no_kernel(product, key.class.device)),
    }
}
