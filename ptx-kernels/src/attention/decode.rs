//! Decode: few queries against a cache of keys and values.

mod kernel;
mod problem;

pub(super) use kernel::kernels::{PTX, decode as entry};
pub use problem::DecodeProblem;

use super::options::Attention;
use super::problem::Rows;
use super::types::Element;
use crate::workspace::{self, FLAGS, Workspace};
use ptx_launch::{AsStream, Result, TensorMut, TensorRef};

/// A cache of keys and values on the device.
///
/// Without pages, K and V have the shapes (batch, capacity, heads, dim) and (batch, capacity, heads, dim of V). With a table of
/// pages they are (pages, page size, heads, …), and token t of sequence b lies in page `table[b][t / page size]`. The kernel reads
/// `lengths`, the number of keys of each sequence, on the device, so that a captured graph serves every step.
#[derive(Clone, Copy, Debug)]
pub struct KvCache<'a, T> {
    pub(super) k: TensorRef<'a, T, 4>,
    pub(super) v: TensorRef<'a, T, 4>,
    pub(super) lengths: TensorRef<'a, i32, 1>,
    pub(super) table: Option<TensorRef<'a, i32, 2>>,
}

impl<'a, T> KvCache<'a, T> {
    /// A cache with a row of the batch for each sequence. `lengths` count the keys of each, new ones included.
    pub fn new(
        k: impl Into<TensorRef<'a, T, 4>>,
        v: impl Into<TensorRef<'a, T, 4>>,
        lengths: impl Into<TensorRef<'a, i32, 1>>,
    ) -> Self {
        KvCache { k: k.into(), v: v.into(), lengths: lengths.into(), table: None }
    }

    /// The pages of each sequence, (batch, pages of a sequence): numbers of pages of K and V. Pages may have any size.
    #[must_use]
    pub fn paged(self, table: impl Into<TensorRef<'a, i32, 2>>) -> Self {
        KvCache { table: Some(table.into()), ..self }
    }
}

impl<T: Element> Attention<'_, T> {
    /// Computes O for 1 to 16 new queries of each sequence against a cache that holds their keys and values already. Q is (batch,
    /// queries, heads, dim), O (batch, queries, heads, dim of V). The last query is aligned with the last key; `causal` hides
    /// from each query the keys of later ones. `lse` are logarithms as in [`forward_with_lse`](Attention::forward_with_lse).
    ///
    /// The keys are split among blocks, and the last block of a head adds up the parts, in the same launch. That takes scratch
    /// memory from `workspace`, or from the pool of the stream ([`workspace`](crate::workspace)). The order of sums depends on
    /// the number of multiprocessors, and not on the order in which blocks end.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, or with a bias, cumulative lengths or
    /// [`top_left`](Attention::top_left); and as every launch.
    pub fn decode<'a>(
        &self,
        stream: impl AsStream,
        q: impl Into<TensorRef<'a, T, 4>>,
        cache: &KvCache<'_, T>,
        out: impl Into<TensorMut<'a, T, 4>>,
        lse: Option<TensorMut<'_, f32, 3>>,
        workspace: Option<&mut Workspace>,
    ) -> Result<()> {
        let (q, out, stream) = (q.into(), out.into(), stream.as_stream());
        let rows = Rows::of("Q", &q, self.layout);
        let mut problem = DecodeProblem::new(self, &rows, cache, &Rows::of_mut("the output", &out, self.layout))?;
        if let Some(lse) = &lse {
            problem.set_lse(lse.shape(), lse.strides())?;
        }
        let instance = match problem.widest() {
            0..=64 => entry::Instance::d64,
            65..=96 => entry::Instance::d96,
            97..=128 => entry::Instance::d128,
            _ => entry::Instance::d256,
        };
        let head_v =
            entry::INSTANCES.iter().find(|(name, _)| *name == instance).map_or(256, |(_, config)| config.head_v);
        problem.split(stream.properties()?.multiprocessors, FLAGS, head_v);
        workspace::with(stream, workspace, problem.scratch as usize, |workspace| {
            T::decode(stream, instance, q, cache, (out, lse), workspace.parts(), problem)
        })
    }
}
