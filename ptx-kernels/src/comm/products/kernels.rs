//! Products on Hopper whose persistent loop communicates: main loop, order of clusters and epilogue are those of `gemm::sm90` with claimed
//! numbers. The rows of C are in parts, one for each rank, and warps of the producer's warp group, which are idle elsewhere, talk to the other
//! ranks, so that no warp that multiplies waits for a link.

use super::Shape;
use super::gathered;
use super::reduced;
use ptx_launch::prelude::*;

/// The kernels.
#[ptx_module(
    arch = "sm_90a",
    params(Shape),
    parts(crate::gemm::sm90::config::config, crate::comm::peers::peers, reduced::reduced, gathered::gathered)
)]
#[allow(dead_code, unreachable_pub, reason = "the module is not public; modules share one set of axes")]
pub(crate) mod kernels {
    use super::Shape;

    /// Rows of the tile of a block, and of its cluster of two.
    pub const BLOCK_M: u32 = 128;
    pub const CLUSTER_M: u32 = 256;
    /// Threads of a block: a warp group that moves data, and two that multiply.
    pub const THREADS: u32 = 384;
    /// Signals of a block for each rank: at the begin or the end of a call, of two warps.
    pub const MEETINGS: u32 = 2;

    /// The places of this rank's part of C: on itself, or on each rank.
    struct Outputs {
        c0: TensorMap,
        c1: TensorMap,
        c2: TensorMap,
        c3: TensorMap,
        c4: TensorMap,
        c5: TensorMap,
        c6: TensorMap,
        c7: TensorMap,
    }

    /// The operands of a product.
    struct Operands {
        a: TensorMap,
        b: TensorMap,
    }

    /// The clusters of each GPC, and the counters from which clusters claim their numbers.
    struct ClusterIds {
        gpcs: &[u32],
        #[align(16)]
        counters: &mut [u32],
    }

    /// The tiles of this rank, and the place of this thread.
    struct Work {
        /// The tiles of one part.
        tiles: scheduler::Raster,
        num_clusters: u32,
        /// The block in its cluster.
        block: u32,
        warp_group: u32,
        rank: u32,
        ranks: u32,
        /// The part that comes first, counted from this rank's own one.
        first: u32,
    }

    /// A tile: the part that it belongs to, its number in the part, and this block's first row in the part and column.
    struct Place {
        part: u32,
        index: u32,
        row: u32,
        column: u32,
    }

    impl Work {
        /// Tiles of all parts.
        fn count(&self) -> u32 {
            self.tiles.count() * self.ranks
        }

        /// Returns true for tiles of this rank's own part.
        fn is_own(&self, part: u32) -> pred {
            let own: pred = part == self.rank;
            own
        }

        /// The part so many parts behind the first one.
        fn part_behind(&self, step: u32) -> u32 {
            let mut part: u32 = self.rank + self.first + step;
            if part >= self.ranks {
                part -= self.ranks;
            }
            part
        }

        /// The part of a tile, and its number there.
        fn part_of(&self, tile: u32) -> (u32, u32) {
            let step: u32 = tile / self.tiles.count();
            (self.part_behind(step), tile - step * self.tiles.count())
        }

        /// A tile of a part.
        fn place_in<const C: Config>(&self, part: u32, index: u32) -> Place {
            let (row, column): (u32, u32) = self.tiles.tile(index);
            Place { part, index, row: row * CLUSTER_M + self.block * BLOCK_M, column: column * C.block_n() }
        }

        fn place<const C: Config>(&self, tile: u32) -> Place {
            let (part, index): (u32, u32) = self.part_of(tile);
            self.place_in::<C>(part, index)
        }
    }

    fn work_of<const C: Config>(shape: &Shape, first: u32) -> Work {
        Work {
            tiles: scheduler::Raster::covering::<CLUSTER_M, { C.block_n() }>(
                shape.rows, shape.n, shape.band, shape.run,
            ),
            num_clusters: nctaid.x / 2,
            block: cluster::rank(),
            warp_group: cluster::warp_group(),
            rank: shape.rank,
            ranks: shape.ranks,
            first,
        }
    }

    /// The sum of the products of all ranks: part `rank` to the first of the outputs, or to the first `copies`. Each rank multiplies the parts of
    /// others first and sends them to their owners; of its own part it adds what comes.
    #[ptx_kernel(
        block = THREADS,
        cluster = 2,
        grid = inbox.counters.len() / 2,
        max_regs = 168,
        pdl,
        instances = [
            m128n256 = ([bf16, f16], Config::tma([BLOCK_M, 256], [2, 1], KK, 3, 4))
        ],
        requires(
            shape.is_divided(C.block_n()),
            shape.has_inbox(C.block_n(), C.bytes()),
            C.bytes() % shape.chunk == 0,
            inbox.counters.len() <= 1 << 16,
            ids.gpcs.len() >= 17 + 256,
            ids.counters.len() >= 17
        ),
        addresses(
            inbox.table[..shape.ranks] = [u128; shape.half / 8],
            inbox.table[shape.ranks..2 * shape.ranks] =
                [u32; inbox.counters.len() / 2 * MEETINGS * shape.ranks + shape.slots(C.block_n()) * shape.ranks]
        )
    )]
    pub fn product_reduced<T, const C: Config>(
        operands: Operands,
        c: Outputs,
        inbox: Inbox,
        ids: ClusterIds,
        shape: Shape,
    ) {
        #[shared(dynamic)]
        let smem: ReducedMemory<C>;
        if tid.x == 0 {
            tma::prefetch(operands.a);
            tma::prefetch(operands.b);
            tma::prefetch(c.c0);
            smem.cluster_id.init();
            for group in 0..2 {
                smem.turns.at(group).ready.init(1);
                smem.turns.at(group).written.init(128);
            }
            smem.barriers.init::<1, 4>();
        }
        smem.cluster_id.claim::<2>(ids.gpcs, ids.counters, nctaid.x / 2);
        let work: Work = work_of::<C>(&shape, 1);
        if work.warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_parts::<T, C>(operands.a, operands.b, smem, &work, shape.k);
            } else if tid.x < 96 {
                let outputs: [u64; 8] = [c.c0, c.c1, c.c2, c.c3, c.c4, c.c5, c.c6, c.c7];
                let symm = node::Symmetric { table: inbox.table, rank: shape.rank, ranks: shape.ranks };
                move_sums::<C>(&outputs, smem, &work, &symm, inbox.counters, &shape);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_reduced::<T, C>(smem, &work, shape.k);
        }
    }

    /// The product of the rows of all ranks: A has this rank's part at its place, and the others come from their ranks, while this one
    /// multiplies its own.
    #[ptx_kernel(
        block = THREADS,
        cluster = 2,
        grid = peers.counters.len() / 2,
        max_regs = 168,
        pdl,
        instances = [
            m128n256 = ([bf16, f16], Config::tma([BLOCK_M, 256], [2, 1], KK, 3, 4))
        ],
        requires(
            shape.is_divided(C.block_n()),
            ids.gpcs.len() >= 17 + 256,
            ids.counters.len() >= 17
        ),
        addresses(
            peers.table[..shape.ranks] = [u128; shape.runs() * shape.ranks],
            peers.meeting[shape.ranks..2 * shape.ranks] = [u32; peers.counters.len() / 2 * (MEETINGS + 1) * shape.ranks]
        )
    )]
    pub fn product_gathered<T, const C: Config>(
        operands: Operands,
        c: TensorMap,
        peers: Peers,
        ids: ClusterIds,
        shape: Shape,
    ) {
        #[shared(dynamic)]
        let smem: GatheredMemory<C>;
        if tid.x == 0 {
            tma::prefetch(operands.a);
            tma::prefetch(operands.b);
            tma::prefetch(c);
            smem.cluster_id.init();
            smem.begun.init(1);
            for parcel in 0..2 {
                smem.arrived.at(parcel).init(1);
            }
            smem.barriers.init::<1, 4>();
        }
        smem.cluster_id.claim::<2>(ids.gpcs, ids.counters, nctaid.x / 2);
        let work: Work = work_of::<C>(&shape, 0);
        let signals = node::Symmetric { table: peers.meeting, rank: shape.rank, ranks: shape.ranks };
        if work.warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_gathered::<T, C>(operands.a, operands.b, smem, &work, &signals, &shape);
            } else if tid.x < 64 {
                let data = node::Symmetric { table: peers.table, rank: shape.rank, ranks: shape.ranks };
                push_part::<C>(smem, &data, &signals, peers.counters, &shape);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_gathered::<T, C>(c, smem, &work, shape.k);
        }
    }
}
