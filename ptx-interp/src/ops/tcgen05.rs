//! The fifth-generation tensor cores (9.7.16): tensor memory, what moves to and from it, and `tcgen05.mma`.
//!
//! Every asynchronous operation is complete when it has been issued, which the manual allows: waits and fences have nothing
//! to wait for, and a commit arrives at once. A block has a whole chip's tensor memory for itself.
//!
//! There was no such chip to compare with. What the manual specifies in words and tables is followed to the letter; where it
//! only has a figure, the layout is the one that CUTLASS describes, and a comment at the function names it.

mod alloc;
mod copy;
mod idesc;
mod mma;
mod numbers;
mod operand;
mod scale;
mod transfer;
mod zeros;

use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::{ExecState, Src};
use crate::fault::{Fault, FaultKind};
use crate::observe::Touch;
use crate::role::Actor;
use crate::site::{Address, Decoded, Refusal, Site};
use crate::space::{Place, Where, in_block};
use crate::tmem::{Cells, Taddr, Tmem, Use};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_target::tensor::Swizzle;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("tcgen05.alloc", "", alloc::alloc), op("tcgen05.dealloc", "", alloc::dealloc),
    op("tcgen05.relinquish_alloc_permit", "", alloc::relinquish),
    op("tcgen05.ld", "", transfer::load), op("tcgen05.ld.red", "", transfer::load_reduced), op("tcgen05.st", "", transfer::store),
    op("tcgen05.wait::ld", "", nothing), op("tcgen05.wait::st", "", nothing),
    op("tcgen05.fence::before_thread_sync", "", nothing), op("tcgen05.fence::after_thread_sync", "", nothing),
    op("tcgen05.cp", "", copy::copy), op("tcgen05.shift", "", copy::shift),
    op("tcgen05.mma", "", mma::mma), op("tcgen05.mma.ws", "", mma::mma),
    op("tcgen05.commit", "", commit),
];

/// All is complete already.
fn nothing(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// Returns true if it is `.cta_group::2`.
fn pairs(site: &Site) -> bool {
    site.accept(&["cta_group::1"]);
    site.is("cta_group::2")
}

/// An address in tensor memory: a register in brackets.
#[derive(Clone, Copy)]
struct At(Address);

impl At {
    fn new(site: &Site, operand: &str) -> Result<At, Refusal> {
        let at = site.named(operand).ok_or_else(|| format!("no operand `{operand}`"))?;
        Ok(At(site.address(at, Where::Generic)?))
    }

    fn lane(self, ctx: &Ctx, lane: usize) -> Taddr {
        Taddr::new(self.0.lane(ctx, lane))
    }
}

/// An operand of this name.
fn source(site: &Site, name: &str) -> Result<Src, Refusal> {
    site.src(site.named(name).ok_or_else(|| format!("no operand `{name}`"))?)
}

impl ExecState<'_> {
    /// The tensor memory of a block of the cluster.
    fn tmem(&mut self, rank: usize) -> Result<&mut Tmem, Fault> {
        let found = self.cluster.tensor.get_mut(rank);
        found.ok_or_else(|| {
            Fault::new(FaultKind::Sync, format!("block {rank} of the cluster, which does not exist"))
                .code(&codes::W0504)
        })
    }

    /// The ranks of the blocks that an instruction works on, the even one of a pair first. All instructions of a kernel
    /// must agree on `.cta_group`.
    fn blocks(&mut self, pairs: bool) -> Result<Vec<usize>, Fault> {
        let rank = self.block.rank;
        if *self.tmem(rank)?.pairs.get_or_insert(pairs) != pairs {
            let message =
                "`.cta_group::1` and `.cta_group::2` in one kernel: all `tcgen05` instructions must say the same";
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0504));
        }
        if !pairs {
            return Ok(vec![rank]);
        }
        if self.cluster.tensor.len() <= rank ^ 1 {
            let message = format!("`.cta_group::2` in block {rank} of its cluster, which has no block {}", rank ^ 1);
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0504));
        }
        Ok(vec![rank & !1, rank | 1])
    }
}

impl Ctx<'_> {
    /// Reports a use of tensor memory, see [`crate::observe::Observer::use_tensor`].
    fn use_tensor(&mut self, rank: usize, lane: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        match self.observer {
            Some(observer) => observer.use_tensor(self, rank, lane, cells, how),
            None => Ok(()),
        }
    }

    /// Sixteen bytes of a block's shared memory, read past the threads.
    fn piece(&self, rank: usize, at: u64, swizzle: Swizzle) -> Result<[u8; 16], Fault> {
        let memory = self.cluster.memory.get(rank).map_or(&[][..], Vec::as_slice);
        let found = usize::try_from(at).ok().and_then(|at| memory.get(at..)?.first_chunk());
        let found = found.copied().ok_or_else(|| {
            let message =
                format!("a matrix in shared memory that goes beyond the {} bytes that there are", memory.len());
            Fault::new(FaultKind::OutOfBounds, message).code(&codes::W0101).at(at)
        })?;
        if let Some(observer) = self.observer {
            let place = Place { space: Where::Shared, rank, at };
            observer.read(self, &Touch { place, lanes: 1 << self.issuer, address: at, size: 16, writes: false })?;
            observer.check_tile(self, rank, at, swizzle)?;
        }
        Ok(found)
    }
}

/// `tcgen05.commit`: what was issued is complete, so it arrives now.
fn commit(site: &Site) -> Decoded {
    site.accept(&["mbarrier::arrive::one", "multicast::cluster", "multicast::cluster::32b"]);
    site.accept(&["sync_restrict::shared::read::mma::a"]);
    let space = if site.is("shared::cluster") { Where::Cluster } else { Where::Generic };
    let pairs = pairs(site);
    let mbar = site.address(site.named("mbar").ok_or("no mbarrier")?, space)?;
    let blocks = site.named("cta_mask").map(|at| site.src(at)).transpose()?;
    Ok(Box::new(move |ctx, group| {
        ctx.blocks(pairs)?;
        for lane in lanes(group) {
            let at = mbar.lane(ctx, lane);
            let Some(blocks) = blocks else {
                let object = ctx.mbarrier_place(space, lane, at)?;
                ctx.hand_over(lane, Actor::Tensor, object);
                ctx.change_mbarrier((space, lane, at), |m| m.arrive(1))?;
                continue;
            };
            let blocks = ctx.fetch_lane(blocks, lane);
            for rank in (0..32).filter(|rank| blocks >> rank & 1 == 1) {
                // The same offset in every block: its window of shared memory.
                let there = in_block(rank, at);
                let object = ctx.mbarrier_place(Where::Cluster, lane, there)?;
                ctx.hand_over(lane, Actor::Tensor, object);
                ctx.change_mbarrier((Where::Cluster, lane, there), |m| m.arrive(1))?;
            }
        }
        Ok(Flow::Next)
    }))
}
