//! Products with every option: parts of K at run time, and the generic epilogue. Sums go through shared memory, some columns at a time, so
//! that the epilogue has four neighbors of a row of C in each thread.
//!
//! Where clusters share K, each stores its sums in the workspace and counts its arrival. The last one of a tile adds all parts up, in order: no
//! cluster waits for another one, and the same operands give the same bits.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod generic {
    impl Config {
        /// Columns of a tile that go through shared memory at a time.
        pub const fn chunk(&self) -> u32 {
            if self.block_n() % 64 == 0 {
                64
            } else if self.block_n() % 32 == 0 {
                32
            } else {
                16
            }
        }

        /// Rows of C, and its columns, of a warp's sums that go through shared memory at a time.
        pub const fn chunk_rows(&self) -> u32 {
            if self.swap_ab == 1 { self.chunk() } else { 16 }
        }

        pub const fn chunk_columns(&self) -> u32 {
            if self.swap_ab == 1 { 16 } else { self.chunk() }
        }

        /// Words from one of these rows to the next, so that accesses have no bank conflicts.
        pub const fn chunk_pitch(&self) -> u32 {
            if self.swap_ab == 1 { 20 } else { self.chunk() + 8 }
        }
    }

    /// The shared memory of a block.
    struct GenericMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 2) }>; C.stages],
        /// The sums of each warp on their way to C.
        #[align(128)]
        sums: [[u32; C.chunk_rows() * C.chunk_pitch()]; 4 * C.consumers()],
        barriers: pipeline::Barriers<{ C.stages }>,
        /// For each warp group, the parts of K that came before.
        arrived: [u32; 2],
    }

    /// A unit of work: a part of K of a tile, in a batch. The tile's number counts all batches.
    struct Unit {
        tile: u32,
        row: u32,
        column: u32,
        batch: u32,
        split: u32,
        k: mainloop::KRange,
    }

    /// The producer warp.
    fn load_units<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<GenericMemory<C>>, p: &Problem) {
        let rank: u32 = cluster::rank();
        let mut producer = mainloop::Producer::<{ policy(C, 2) }>::new(a, b, smem.stages, smem.barriers, rank, 0);
        let (mut index, step): (u32, u32) = (ctaid.x / C.cluster_m(), nctaid.x / C.cluster_m());
        grid::wait();
        while index < units::<C>(p) {
            let unit: Unit = unit_at::<C>(index, rank, p);
            producer.a.group = has(p.flags, A_BATCHES).select(unit.batch, 0);
            producer.b.group = has(p.flags, B_BATCHES).select(unit.batch, 0);
            let column: u32 = unit.column + rank * (C.block_n() / C.cluster_m());
            producer.load_tile::<T>(unit.row, column, &unit.k);
            index += step;
        }
        producer.pipeline.drain();
    }

    /// A warp group of consumers.
    fn multiply_units<T, S, const C: Config>(
        smem: Shared<GenericMemory<C>>,
        warp_group: u32,
        out: &Output,
        p: &Problem,
    ) {
        const P: mainloop::Policy = policy(C, 2);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let acc: [S; P.accumulators()];
        clear(&mut acc);
        let (rank, warp): (u32, u32) = (cluster::rank(), (tid.x >> 5) - 4);
        let sums: u32 = smem.sums.at(warp);
        let (mut index, step): (u32, u32) = (ctaid.x / C.cluster_m(), nctaid.x / C.cluster_m());
        while index < units::<C>(p) {
            let unit: Unit = unit_at::<C>(index, rank, p);
            consumer.multiply_tile::<T, { C.stagger() }>(&mut acc, &unit.k);
            let mut complete: pred = true;
            if p.splits > 1 {
                let arrived = smem.arrived.at(warp_group - 1);
                let slot: u32 = unit.tile * C.consumers() + (warp_group - 1);
                complete = add_parts(&mut acc, &unit, p, arrived, slot);
            }
            if complete {
                write_tile::<S, C>(&acc, sums, &unit, out, p);
            }
            index += step;
        }
    }

    fn clear<S, const N: u32>(acc: &mut [S; N]) {
        for i in 0..N {
            ptx! { mov.b32 acc[i], 0; }
        }
    }

    /// Tiles along the rows, in clusters, and along the columns.
    fn tiles<const C: Config>(p: &Problem) -> (u32, u32) {
        let (rows, columns): (u32, u32);
        if C.swap_ab == 1 {
            rows = p.tiles_n;
            columns = p.tiles_m;
        } else {
            rows = p.tiles_m;
            columns = p.tiles_n;
        }
        ((rows + (C.cluster_m() - 1)) / C.cluster_m(), columns)
    }

    /// Units of all clusters.
    fn units<const C: Config>(p: &Problem) -> u32 {
        let (rows, columns): (u32, u32) = tiles::<C>(p);
        rows * columns * p.splits * p.batches
    }

    /// A unit of a cluster, for its block `rank`. Units of one part of K are neighbors, in bands of eight clusters.
    fn unit_at<const C: Config>(index: u32, rank: u32, p: &Problem) -> Unit {
        let (rows, columns): (u32, u32) = tiles::<C>(p);
        let round: u32 = index / (rows * columns);
        let inside: u32 = index - round * (rows * columns);
        let (row, column): (u32, u32) = scheduler::grouped(inside, rows, columns, 8);
        let batch: u32 = round / p.splits;
        let split: u32 = round - batch * p.splits;
        let begin: u32 = split * p.k_split;
        let k = mainloop::KRange { begin, end: (begin + p.k_split).min(p.k), backward: 0 };
        let tile: u32 = (batch * (rows * columns) + inside) * C.cluster_m() + rank;
        let row: u32 = (row * C.cluster_m() + rank) * C.block_m();
        Unit { tile, row, column: column * C.block_n(), batch, split, k }
    }

    /// Stores the partial sums of a warp group's 64 rows to the workspace. The warp group that is the last one of a
    /// tile returns true; it has added the sums of all parts up, in order.
    fn add_parts<S, const N: u32>(acc: &mut [S; N], unit: &Unit, p: &Problem, arrived: Shared<u32>, slot: u32) -> pred {
        const BYTES: u64 = (N * 512) as u64;
        let barrier: u32 = tid.x / 128;
        let part: u64 = p.partial + wide(slot) * p.splits * BYTES + wide(tid.x & 127) * 16;
        let to: u64 = part + wide(unit.split) * (N * 512);
        for quad in 0..N / 4 {
            ptx! { st.global.v4.b32 [to + 2048 * quad], {acc[4 * quad..4 * quad + 4]}; }
        }
        barrier::sync::<128>(barrier);
        if (tid.x & 127) == 0 {
            let (counter, most, before): (u64, u32, u32);
            counter = p.counters + wide(slot) * 4;
            most = p.splits - 1;
            ptx! {
                atom.acq_rel.gpu.global.inc.u32 before, [counter], most;
                st.shared.u32 [arrived], before;
            }
        }
        barrier::sync::<128>(barrier);
        let before: u32;
        ptx! { ld.shared.u32 before, [arrived]; }
        let last: pred = before == p.splits - 1;
        if last {
            clear(acc);
            let (mut from, mut left): (u64, u32) = (part, p.splits);
            while left > 0 {
                add_group(acc, from, left);
                from += BYTES * group(N) as u64;
                left -= left.min(group(N));
            }
        }
        last
    }

    /// Parts of `n` sums that are added at a time: up to 128 registers are on their way.
    fn group(n: u32) -> u32 {
        if n < 128 { 128 / n } else { 1 }
    }

    /// Adds the next parts of K to the sums, in order; `left` are there.
    fn add_group<S, const N: u32>(acc: &mut [S; N], from: u64, left: u32) {
        const EVEN: u32 = if N % 64 == 0 {
            64
        } else if N % 32 == 0 {
            32
        } else {
            16
        };
        const AT_ONCE: u32 = if N % EVEN == 0 {
            EVEN
        } else if N < EVEN {
            N
        } else {
            4
        };
        for chunk in 0..N / AT_ONCE {
            let more: [[S; AT_ONCE]; group(N)];
            for part in 0..group(N) {
                let there: pred = left > part;
                for quad in 0..AT_ONCE / 4 {
                    const AT: u32 = part * (N * 512) + (chunk * (AT_ONCE / 4) + quad) * 2048;
                    for i in 0..4 {
                        ptx! { mov.b32 more[part][4 * quad + i], 0; }
                    }
                    ptx! { @there ld.global.v4.b32 {more[part][4 * quad..4 * quad + 4]}, [from + AT]; }
                }
            }
            for part in 0..group(N) {
                for i in 0..AT_ONCE {
                    acc[chunk * AT_ONCE + i] += more[part][i];
                }
            }
        }
    }

    /// Brings a warp's 16 rows of a tile to the epilogue, some columns at a time.
    fn write_tile<S, const C: Config, const N: u32>(acc: &[S; N], sums: u32, unit: &Unit, out: &Output, p: &Problem) {
        let row: u32 = unit.row + ((tid.x >> 5) - 4) * 16;
        let mut chunk: u32 = 0;
        while chunk < C.block_n() / C.chunk() {
            for at in 0..C.block_n() / C.chunk() {
                if chunk == at {
                    stage_sums::<S, { at * C.chunk() / 2 }, C>(acc, sums);
                }
            }
            warp::sync();
            let column: u32 = unit.column + chunk * C.chunk();
            let mut at = Place { row, column, batch: unit.batch, split: 0 };
            if C.swap_ab == 1 {
                at.row = column;
                at.column = row;
            }
            write_sums::<S, { C.chunk_rows() }, { C.chunk_columns() }, { C.chunk_pitch() }>(sums, &at, out, p);
            warp::sync();
            chunk += 1;
        }
    }

    /// Stores the sums of some columns of a warp's tile, from accumulator `FIRST` on, to shared memory: row by row of C.
    fn stage_sums<S, const FIRST: u32, const C: Config, const N: u32>(acc: &[S; N], sums: u32) {
        const PITCH: u32 = 4 * C.chunk_pitch();
        let (row, column): (u32, u32) = (laneid / 4, laneid % 4 * 2);
        if C.swap_ab == 1 {
            let to: u32 = sums + column * PITCH + row * 4;
            for i in 0..C.chunk() / 2 {
                // Of each four, two neighbors of a row, and those eight rows below.
                const AT: u32 = (i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 32;
                ptx! { st.shared.b32 [to + AT], acc[FIRST + i]; }
            }
        } else {
            let to: u32 = sums + row * PITCH + column * 4;
            for pair in 0..C.chunk() / 4 {
                const AT: u32 = pair / 2 * 32 + pair % 2 * (8 * PITCH);
                const FROM: u32 = FIRST + 2 * pair;
                ptx! { st.shared.v2.b32 [to + AT], {acc[FROM], acc[FROM + 1]}; }
            }
        }
    }
}
