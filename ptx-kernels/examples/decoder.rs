//! A decoder whose layers are shared by the GPUs of a node, and whose nodes have some layers each:
//!
//!     cargo run --release -p ptx-kernels --features measure --example decoder
//!
//! Within a node each layer is tensor-parallel, and its rows between the products are shared, too (sequence parallelism; Korthikanti et al.,
//! arXiv 2205.05198). A rank has some heads and a part of the inner columns, so that a layer is, on each rank:
//!
//! | step | rows | columns |
//! |---|---|---|
//! | residual stream, norm | own | all |
//! | all-gather + Q, K, V | all | own heads |
//! | rotation, attention | all | own heads |
//! | output + reduce-scatter | own | all |
//! | residual stream, norm | own | all |
//! | all-gather + gate, up | all | own |
//! | SwiGLU | all | own |
//! | down + reduce-scatter | own | all |
//!
//! Rows travel in the kernels of the four products. Between nodes, which have layers one after the other (pipeline parallelism), NCCL sends the residual
//! stream: each rank to the one of its number.
//!
//! `PTX_RANKS` is the number of GPUs of this node, 2 without it; without GPUs the CPU device has as many ranks. With `PTX_NODES` nodes, `PTX_NODE`
//! is the number of this one, and `PTX_MEET` a file that all can read, which names the communicator. `PTX_LARGE=1` takes the extents of a layer of
//! Llama 3 70B and prints times; else the result is compared with `f64` on the host.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program for people")]

#[path = "decoder/host.rs"]
mod host;
#[path = "decoder/layer.rs"]
mod layer;
#[path = "decoder/pipeline.rs"]
mod pipeline;

use half::bf16;
use layer::Rank;
use pipeline::Pipeline;
use ptx_kernels::comm::products;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::sync::Mutex;
use std::time::Duration;

/// Extents of the model and of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    /// Tokens of a batch: one sequence.
    pub(crate) tokens: usize,
    /// Columns of the residual stream.
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    /// Columns between the two products of the second half.
    pub(crate) inner: usize,
    /// Layers of all nodes.
    pub(crate) layers: usize,
    pub(crate) batches: usize,
}

impl Extents {
    pub(crate) fn dim(&self) -> usize {
        self.hidden / self.heads
    }
}

/// So long a rank waits for another one, on the host and in a kernel.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small enough for the host.
const SMALL: Extents = Extents { tokens: 48, hidden: 128, heads: 4, inner: 192, layers: 2, batches: 1 };
/// Two layers of Llama 3 70B, with as many heads for K and V as for Q.
const LARGE: Extents = Extents { tokens: 4096, hidden: 8192, heads: 64, inner: 28672, layers: 2, batches: 4 };

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> Result<()> {
    let devices = Devices::best(number("PTX_RANKS", 2))?;
    let (nodes, node) = (number("PTX_NODES", 1), number("PTX_NODE", 0));
    let is_large = number("PTX_LARGE", 0) != 0;
    let mut extents = if is_large { LARGE } else { SMALL };
    extents.layers = number("PTX_LAYERS", extents.layers);
    extents.batches = number("PTX_BATCHES", extents.batches);
    let ranks = devices.len();
    if nodes == 0 || node >= nodes || !extents.layers.is_multiple_of(nodes) || !extents.heads.is_multiple_of(ranks) {
        return Err(Error::other(format!(
            "node {node} of {nodes} with {ranks} ranks: {} layers are shared by nodes, {} heads by ranks",
            extents.layers, extents.heads
        )));
    }
    println!("node {node} of {nodes}: {ranks} x {}, {extents:?}", devices[0].name());

    let per_node = extents.layers / nodes;
    let layers = node * per_node..(node + 1) * per_node;
    let pipeline = Pipeline { nodes, node, ranks, id: pipeline::meet(nodes, node)? };
    let mut groups = products::Rank::group(&devices, [extents.tokens, extents.hidden])?;
    groups.iter_mut().for_each(|group| group.set_patience(Some(PATIENCE)));
    let rows = SymmetricBuffer::<bf16>::zeros(&devices, extents.tokens * extents.hidden)?;
    let results = Mutex::new(vec![Vec::new(); ranks]);
    // A thread for each rank: kernels of ranks wait for each other, and the first call of a kernel, which loads it, waits for those on its GPU.
    let parts: Vec<_> = groups.into_iter().zip(rows.into_ranks()).collect();
    devices.on_threads(PATIENCE, parts, |thread, (group, rows)| {
        let mut rank = Rank::new(thread.device(), extents, layers.clone(), group, rows)?;
        let link = pipeline.join(thread.device(), thread.rank(), PATIENCE)?;
        let batches = (0..extents.batches).try_for_each(|batch| {
            let inputs = host::inputs(extents, batch, rank.own_rows());
            thread.meet()?;
            match &link {
                Some(link) if node > 0 => link.receive(&mut rank)?,
                _ => rank.begin(&inputs)?,
            }
            rank.run()?;
            if let Some(link) = link.as_ref().filter(|_| node + 1 < nodes) {
                link.send(&rank)?;
            }
            thread.finish(rank.stream())?;
            if node + 1 < nodes || is_large {
                return Ok(());
            }
            results.lock().unwrap()[thread.rank()] = rank.residual().download()?;
            thread.meet()?;
            let is_first = thread.rank() == 0;
            if is_first { host::compare(extents, batch, &results.lock().unwrap().concat()) } else { Ok(()) }
        });
        // NCCL's kernels wait for a node that is gone until their communicator is aborted.
        if let (Err(_), Some(link)) = (&batches, link) {
            link.abort()?;
        }
        batches?;
        if is_large { layer::measure(&mut rank, thread) } else { Ok(()) }
    })?;
    println!("node {node}: done");
    Ok(())
}
