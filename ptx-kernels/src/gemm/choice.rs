//! The choice for a product: by the cost model, or as this thread has chosen for the same product before.

use super::access::Access;
use super::hopper::Layout;
use super::plan::{self, Candidate, Plan};
use super::problem::Product;
use super::tuned;
use super::tuning::SHIPPED;
use ptx_launch::{Properties, Result};
use std::cell::Cell;

/// The kernels of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    /// Those tuned for Hopper, which have a choice of their own.
    Tuned,
    Plan(Plan),
}

/// All that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    shape: [u32; 3],
    batches: usize,
    kind: u32,
    /// Layouts of the operands for each way to read them, and if the sums must have one order.
    bits: u32,
    /// The layouts for tuned kernels.
    tuned: Option<Layout>,
    available: usize,
    device: Properties,
}

/// A decision, without what follows from the product.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    Tuned,
    Plan(&'static Candidate, u32),
}

/// Choices that a thread keeps.
const KEPT: usize = 128;

thread_local! {
    /// Each choice in the place that the hash of its product names.
    static RECENT: [Cell<Option<(Key, Chosen)>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
}

impl Key {
    fn new(
        product: &Product,
        ways: &[[Access; 2]; 2],
        tuned: Option<Layout>,
        available: usize,
        device: Properties,
    ) -> Key {
        let operands = ways.as_flattened().iter();
        let bits = operands.fold(u32::from(product.deterministic), |bits, access| bits << 4 | access.bits());
        let Product { m, n, k, batches, kind, .. } = *product;
        Key { shape: [m, n, k], batches, kind, bits, tuned, available, device }
    }

    /// The place of the choice.
    fn slot(&self) -> usize {
        let [m, n, k] = self.shape.map(u64::from);
        let rest = u64::from(self.bits) ^ u64::from(self.kind) << 16 ^ (self.batches as u64) << 24;
        let hash = [m, n, k, rest]
            .into_iter()
            .fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
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

#[cold]
fn search(product: &Product, ways: &[[Access; 2]; 2], key: &Key) -> Result<Chosen> {
    let picked = plan::pick(product, ways, key.device, key.available);
    let estimate = |layout| tuned::estimate(product, key.device, layout);
    match picked {
        Ok((time, _)) if time > SHIPPED.hopper && key.tuned.map(estimate).is_some_and(|tuned| tuned <= time) => {
            Ok(Chosen::Tuned)
        }
        Ok((_, plan)) => Ok(Chosen::Plan(plan.candidate, plan.splits)),
        Err(_) if key.tuned.is_some() => Ok(Chosen::Tuned),
        Err(error) => Err(error),
    }
}
