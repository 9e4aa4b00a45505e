//! A product whose sums are added over all ranks. A tile of another rank's part goes to its inbox, as it lies in shared memory: one copy of neighboring
//! bytes, and a signal. The owner has what came copied to the same place of its shared memory, so that a thread adds it to the sums in its
//! registers with the accesses that it writes them with.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod reduced {
    /// The barriers between a warp group that multiplies and the thread that moves its sums.
    struct Turns {
        /// The buffer is free, or has the sums of another rank.
        ready: mbarrier::Barrier,
        /// The warp group has written its sums, or read those of the other rank.
        written: mbarrier::Barrier,
    }

    /// The shared memory of a block.
    struct ReducedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 2) }>; C.stages],
        sums: [[epilogue::Subtile; C.block_n() / 64]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
        turns: [Turns; 2],
        cluster_id: scheduler::ClusterId,
    }

    impl Config {
        /// Bytes of a warp group's sums.
        pub const fn bytes(&self) -> u32 {
            self.block_n() * 128
        }
    }

    impl Work {
        /// The turns in which warps pass a tile's sums on: one, or one for each other rank that adds to them.
        fn turns(&self, part: u32) -> u32 {
            self.is_own(part).select((self.ranks - 1).max(1), 1)
        }
    }

    /// The producer warp. Every other tile goes backward along K, as in `gemm::sm90::claimed`.
    fn load_parts<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<ReducedMemory<C>>, work: &Work, k: u32) {
        let mut producer = mainloop::Producer::<{ policy(C, 2) }>::new(a, b, smem.stages, smem.barriers, work.block, 0);
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        grid::wait();
        while tile < work.count() {
            let at: Place = work.place::<C>(tile);
            producer.a.group = at.part;
            producer.load_tile::<T>(at.row, at.column + work.block * (C.block_n() / 2), &range);
            tile += work.num_clusters;
            range.backward = 1 - range.backward;
        }
        producer.pipeline.drain();
    }

    /// A warp group of consumers.
    fn multiply_reduced<T, const C: Config>(smem: Shared<ReducedMemory<C>>, work: &Work, k: u32) {
        const P: mainloop::Policy = policy(C, 2);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, work.warp_group);
        let (sums, turns) = (smem.sums.at(work.warp_group - 1), smem.turns.at(work.warp_group - 1));
        let row: u32 = epilogue::row_address(sums, consumer.thread);
        let swizzle: u32 = epilogue::row_swizzle(consumer.thread);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut phase: u32 = 0;
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < work.count() {
            consumer.multiply_tile::<T, 3>(&mut acc, &range);
            let (part, _): (u32, u32) = work.part_of(tile);
            let adds: pred = work.is_own(part) & (work.ranks > 1);
            let mut left: u32 = work.turns(part);
            while left > 0 {
                turns.ready.wait(phase);
                if adds {
                    add_subtiles::<T>(&mut acc, row, swizzle);
                }
                if left == 1 {
                    write_subtiles::<T>(&acc, row, swizzle);
                    tma::fence();
                }
                turns.written.arrive();
                phase = phase ^ 1;
                left -= 1;
            }
            tile += work.num_clusters;
        }
    }

    /// Writes a warp group's sums as `T`: 64 rows by 64 columns a subtile.
    fn write_subtiles<T, const N: u32>(acc: &[f32; N], row: u32, swizzle: u32) {
        for subtile in 0..N / 32 {
            epilogue::store_fragments::<T, { 32 * subtile }>(
                acc,
                row + subtile * size_of::<epilogue::Subtile>(),
                swizzle,
            );
        }
    }

    /// Adds what another rank has written so. Four `ldmatrix.x4` of a subtile.
    fn add_subtiles<T, const N: u32>(acc: &mut [f32; N], row: u32, swizzle: u32) {
        for subtile in 0..N / 32 {
            for pair in 0..4 {
                const FIRST: u32 = 32 * subtile + 8 * pair;
                let at: u32 = row + subtile * size_of::<epilogue::Subtile>() + (swizzle ^ (32 * pair));
                let packed: [b32; 4] = matrix::load_x4(at);
                let more: [f32; 8] = vector::unpack::<T, 8>(packed);
                for i in 0..8 {
                    acc[FIRST + i] += more[i];
                }
            }
        }
    }

    /// The thread that moves the sums of a warp group; its warp calls it. Counters: the calls of each such thread.
    fn move_sums<const C: Config>(
        outputs: &[u64; 8],
        smem: Shared<ReducedMemory<C>>,
        work: &Work,
        symm: &node::Symmetric,
        counters: GlobalMut<u32>,
        shape: &Shape,
    ) {
        let group: u32 = (tid.x >> 5) - 1;
        let mut tile: u32 = smem.cluster_id.wait();
        grid::wait();
        if warp::elect() {
            let counter = counters.at(ctaid.x * 2 + group);
            let mut epoch: u32 = 0;
            ptx! { ld.global.u32 epoch, [counter]; }
            epoch += 1;
            let mut phase: u32 = 0;
            while tile < work.count() {
                let step: u32 = tile / work.tiles.count();
                let index: u32 = tile - step * work.tiles.count();
                invariant!(index < work.tiles.tiles_m * work.tiles.tiles_n);
                cut!(step < work.ranks && step < 8);
                let part: u32 = work.part_behind(step);
                invariant!(part < work.ranks);
                cut!(part < work.ranks && part < 8 && index < work.tiles.tiles_m * work.tiles.tiles_n);
                let at: Place = work.place_in::<C>(part, index);
                if work.is_own(at.part) {
                    receive::<C>(smem, symm, at.index, epoch, &mut phase, shape);
                    let last: pred = tile + work.num_clusters >= work.count();
                    let chunk: u32 = last.select(shape.last_chunk, shape.chunk);
                    store_everywhere::<C>(outputs, smem, &at, shape, chunk);
                } else {
                    send::<C>(smem, symm, &at, epoch, &mut phase, shape);
                }
                tile += work.num_clusters;
            }
            tma::wait::<0>();
            if shape.copies > 1 {
                meet(symm, group, epoch, shape.patience);
            }
            ptx! { st.global.u32 [counter], epoch; }
        }
    }

    /// The slots of one part's tiles, for each warp group of both blocks.
    fn slots<const C: Config>(shape: &Shape) -> u32 {
        (shape.rows + (CLUSTER_M - 1)) / CLUSTER_M * ((shape.n + (C.block_n() - 1)) / C.block_n()) * 4
    }

    /// The slot of this warp group's sums of tile `index` of a part.
    fn slot_of(index: u32) -> u32 {
        index * 4 + cluster::rank() * 2 + ((tid.x >> 5) - 1)
    }

    /// The address of slot `slot` of an inbox. Calls alternate between its halves: who writes a half has received what its
    /// owner has sent in the call before, so the owner has read all of the last but one.
    fn inbox<const C: Config>(first: u64, slot: u32, epoch: u32, shape: &Shape) -> u64 {
        first + (epoch & 1) as u64 * shape.half + wide(slot) * C.bytes()
    }

    /// The signal of a slot, behind those of `meet`.
    fn slot_signal(first: u64, slot: u32, ranks: u32) -> u64 {
        first + wide(nctaid.x * MEETINGS * ranks + slot) * 4
    }

    /// Sends a tile of another part to its owner.
    fn send<const C: Config>(
        smem: Shared<ReducedMemory<C>>,
        symm: &node::Symmetric,
        at: &Place,
        epoch: u32,
        phase: &mut u32,
        shape: &Shape,
    ) {
        let group: u32 = (tid.x >> 5) - 1;
        let turns = smem.turns.at(group);
        turns.ready.arrive();
        turns.written.wait(*phase);
        *phase = *phase ^ 1;
        // This rank, counted from the owner on: 1 is the first one behind it.
        let mut step: u32 = symm.rank - at.part;
        if symm.rank < at.part {
            step += symm.ranks;
        }
        cut!(step >= 1 && step < symm.ranks && step < 8);
        let (each, own): (u32, u32) = (slots::<C>(shape), slot_of(at.index));
        cut!(own < each);
        invariant!(each * symm.ranks <= 1073741824);
        invariant!(step * each + each <= each * symm.ranks);
        let slot: u32 = (step - 1) * each + own;
        cut!(slot < each * (symm.ranks - 1));
        let (to, from): (u64, u32) = (inbox::<C>(symm.on(at.part), slot, epoch, shape), smem.sums.at(group));
        // Chunks are whole parts.
        let (mut sent, last): (u32, u32) = (0, C.bytes() - shape.chunk);
        while sent <= last {
            bulk::store(to + sent as u64, from + sent, shape.chunk);
            tma::commit();
            tma::wait::<0>();
            sent += shape.chunk;
        }
        ptx! { fence.proxy.async; }
        node::signal(slot_signal(symm.signals_of(at.part), slot, symm.ranks), epoch);
    }

    /// Has the sums of all other ranks for a tile of the own part copied to shared memory, one after the other.
    fn receive<const C: Config>(
        smem: Shared<ReducedMemory<C>>,
        symm: &node::Symmetric,
        index: u32,
        epoch: u32,
        phase: &mut u32,
        shape: &Shape,
    ) {
        let group: u32 = (tid.x >> 5) - 1;
        let (turns, sums) = (smem.turns.at(group), smem.sums.at(group));
        let (mut slot, each): (u32, u32) = (slot_of(index), slots::<C>(shape));
        cut!(slot < each);
        let mut step: u32 = 1;
        loop {
            if step < symm.ranks {
                invariant!(slot < each * (symm.ranks - 1));
                node::wait(slot_signal(symm.signals_of(symm.rank), slot, symm.ranks), epoch, shape.patience);
                ptx! { fence.proxy.async; }
                turns.ready.arrive_expect(C.bytes());
                bulk::load(sums, inbox::<C>(symm.on(symm.rank), slot, epoch, shape), C.bytes(), turns.ready);
            } else {
                turns.ready.arrive();
            }
            turns.written.wait(*phase);
            *phase = *phase ^ 1;
            slot += each;
            step += 1;
            if step >= symm.ranks {
                break;
            }
        }
    }

    /// Stores a finished tile to the first `copies` outputs, in boxes of 16 rows; `chunk` bytes of them are on the links at a time.
    fn store_everywhere<const C: Config>(
        outputs: &[u64; 8],
        smem: Shared<ReducedMemory<C>>,
        at: &Place,
        shape: &Shape,
        chunk: u32,
    ) {
        let group: u32 = (tid.x >> 5) - 1;
        let from: u32 = smem.sums.at(group);
        for copy in 0..8 {
            if copy < shape.copies {
                let mut under_way: u32 = 0;
                let mut stored: u32 = 0;
                while stored < C.bytes() {
                    // A subtile has four boxes.
                    let (column, row): (u32, u32) = ((stored >> 13) * 64, ((stored >> 11) & 3) * 16);
                    tma::store_2d(outputs[copy], at.column + column, at.row + 64 * group + row, from + stored);
                    tma::commit();
                    stored += 2048;
                    under_way += 2048;
                    if (shape.copies > 1) & (copy != shape.rank) & (under_way >= chunk) {
                        tma::wait::<0>();
                        under_way = 0;
                    }
                }
            }
        }
        tma::wait_read::<0>();
    }

    /// Waits until the threads of this number on all ranks have stored what they have to.
    fn meet(symm: &node::Symmetric, group: u32, epoch: u32, patience: u64) {
        ptx! { fence.proxy.async; }
        let first: u32 = (ctaid.x * MEETINGS + group) * symm.ranks;
        let mut step: u32 = 1;
        while step < symm.ranks {
            node::signal(symm.signals_of(symm.behind(step)) + wide(first + symm.rank) * 4, epoch);
            step += 1;
        }
        step = 1;
        while step < symm.ranks {
            node::wait(symm.signals_of(symm.rank) + wide(first + symm.behind(step)) * 4, epoch, patience);
            step += 1;
        }
    }
}
