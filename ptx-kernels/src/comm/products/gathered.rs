//! A product whose rows come from all ranks. One thread of each block copies this rank's part of A to the others, through a small buffer of shared
//! memory, all blocks the same rows at a time; the producer warp waits for the rows of a tile before it loads them.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod gathered {
    /// The most bytes of a copy.
    const PARCEL: u32 = 8192;

    /// The shared memory of a block.
    struct GatheredMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 2) }>; C.stages],
        stores: [[epilogue::Subtile; C.block_n() / 64]; 2],
        parcels: [Parcel; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
        arrived: [mbarrier::Barrier; 2],
        /// The calls before are counted: `sent` is valid.
        begun: mbarrier::Barrier,
        /// Rows of tiles that this block has sent in the calls before.
        sent: u32,
        cluster_id: scheduler::ClusterId,
    }

    #[align(128)]
    struct Parcel {
        bytes: [u8; PARCEL],
    }

    /// The producer warp.
    fn load_gathered<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<GatheredMemory<C>>,
        work: &Work,
        signals: &node::Symmetric,
        shape: &Shape,
    ) {
        let mut producer = mainloop::Producer::<{ policy(C, 2) }>::new(a, b, smem.stages, smem.barriers, work.block, 0);
        let mut range = mainloop::KRange { begin: 0, end: shape.k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        // The rows of tiles that are known to be there, of the part `known_part`.
        let (mut known, mut known_part): (u32, u32) = (0, work.rank);
        grid::wait();
        while tile < work.count() {
            let at: Place = work.place::<C>(tile);
            if at.part != work.rank {
                let row: u32 = at.row / CLUSTER_M;
                if (at.part != known_part) | (row >= known) {
                    wait_for_row(smem.begun, smem.sent, signals, at.part, row + 1, shape.patience);
                    known = row + 1;
                    known_part = at.part;
                }
            }
            producer.a.group = at.part;
            producer.load_tile::<T>(at.row, at.column + work.block * (C.block_n() / 2), &range);
            tile += work.num_clusters;
            range.backward = 1 - range.backward;
        }
        producer.pipeline.drain();
    }

    /// Waits until all blocks of rank `from` have sent `rows` rows of tiles in this call. A warp calls it: each lane waits for some blocks.
    fn wait_for_row(
        begun: Shared<mbarrier::Barrier>,
        sent: Shared<u32>,
        signals: &node::Symmetric,
        from: u32,
        rows: u32,
        patience: u64,
    ) {
        let before: u32;
        begun.wait(0);
        ptx! { ld.shared.u32 before, [sent]; }
        let mut block: u32 = laneid;
        while block < nctaid.x {
            node::wait(progress(signals.signals_of(signals.rank), from, block, signals.ranks), before + rows, patience);
            block += 32;
        }
        warp::sync();
        ptx! { fence.proxy.async; }
    }

    /// The signal with the rows of tiles that a block of rank `from` has sent, behind those of the begin.
    fn progress(first: u64, from: u32, block: u32, ranks: u32) -> u64 {
        first + wide(nctaid.x * MEETINGS * ranks + from * nctaid.x + block) * 4
    }

    /// A warp group of consumers.
    fn multiply_gathered<T, const C: Config>(c: TensorMap, smem: Shared<GatheredMemory<C>>, work: &Work, k: u32) {
        const P: mainloop::Policy = policy(C, 2);
        const SUBTILES: u32 = C.block_n() / 64;
        let group: u32 = work.warp_group - 1;
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, work.warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(group), consumer.thread, work.warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < work.count() {
            consumer.multiply_tile::<T, 3>(&mut acc, &range);
            let at: Place = work.place::<C>(tile);
            for subtile in 0..SUBTILES {
                store.write_subtile::<T, subtile>(&acc);
                if store.thread == 0 {
                    let place: [u32; 3] = [at.column + 64 * subtile, at.row + 64 * group, at.part];
                    tma::store_3d(c, place, store.buffers.at(subtile));
                    tma::commit();
                }
            }
            tile += work.num_clusters;
        }
        store.finish();
    }

    /// The thread that sends this block's share of the part to all other ranks; its warp calls it. Counters: the calls of each block, and the
    /// rows of tiles that it has sent in all of them.
    fn push_part<const C: Config>(
        smem: Shared<GatheredMemory<C>>,
        data: &node::Symmetric,
        signals: &node::Symmetric,
        counters: GlobalMut<u32>,
        shape: &Shape,
    ) {
        grid::wait();
        if warp::elect() {
            let counter = counters.at(ctaid.x * 2);
            let (mut epoch, mut sent): (u32, u32) = (0, 0);
            let kept: u32 = smem.sent;
            ptx! {
                ld.global.v2.u32 {epoch, sent}, [counter];
                st.shared.u32 [kept], sent;
            }
            smem.begun.arrive();
            epoch += 1;
            // Until here others may read their A of the call before.
            meet_at_begin(signals, epoch, shape.patience);
            let bytes_of_row: u64 = wide(shape.k) * 2;
            let part: u64 = bytes_of_row * (shape.rows as u64);
            let (mut start, mut turn): (u64, u32) = (0, 0);
            while start < part {
                let mut end: u64 = start + bytes_of_row * (CLUSTER_M as u64);
                ptx! { min.u64 end, end, part; }
                invariant!(end <= part);
                push_rows::<C>(smem, data, [start, end, part], shape.chunk, &mut turn);
                start = end;
                sent += 1;
                tma::wait::<0>();
                ptx! { fence.proxy.async; }
                let mut step: u32 = 1;
                while step < signals.ranks {
                    let to: u64 = signals.signals_of(signals.behind(step));
                    node::signal(progress(to, signals.rank, ctaid.x, signals.ranks), sent);
                    step += 1;
                }
            }
            ptx! { st.global.v2.u32 [counter], {epoch, sent}; }
        }
    }

    /// Sends this block's share of the bytes from `range[0]` up to `range[1]` of the part, which has `range[2]`, `chunk` of them at a time.
    fn push_rows<const C: Config>(
        smem: Shared<GatheredMemory<C>>,
        data: &node::Symmetric,
        range: [u64; 3],
        chunk: u32,
        turn: &mut u32,
    ) {
        let first: u64 = range[2] * (data.rank as u64);
        let (chunk, step): (u32, u64) = (chunk.min(PARCEL), wide(nctaid.x) * chunk.min(PARCEL));
        // Rows are whole runs of 16 bytes, since K is a multiple of 8.
        assume!(chunk % 16 == 0 && range[0] % 16 == 0);
        let mut at: u64 = range[0] + wide(ctaid.x) * chunk;
        while at < range[1] {
            let (mut left, most): (u64, u64) = (range[1] - at, chunk as u64);
            ptx! { min.u64 left, left, most; }
            let bytes: u32 = left as u32;
            // For the same reason.
            assume!(bytes % 16 == 0);
            invariant!(at + bytes <= range[1]);
            let (parcel, arrived) = (smem.parcels.at(*turn & 1), smem.arrived.at(*turn & 1));
            // The copy before the last one has left this parcel.
            tma::wait_read::<1>();
            arrived.arrive_expect(bytes);
            bulk::load(parcel, data.on(data.rank) + first + at, bytes, arrived);
            arrived.wait((*turn >> 1) & 1);
            tma::wait::<0>();
            let mut behind: u32 = 1;
            while behind < data.ranks {
                bulk::store(data.on(data.behind(behind)) + first + at, parcel, bytes);
                behind += 1;
            }
            tma::commit();
            *turn += 1;
            at += step;
        }
    }

    /// Waits until the block of this number has begun on all ranks.
    fn meet_at_begin(signals: &node::Symmetric, epoch: u32, patience: u64) {
        let first: u32 = ctaid.x * MEETINGS * signals.ranks;
        let mut step: u32 = 1;
        while step < signals.ranks {
            node::signal(signals.signals_of(signals.behind(step)) + wide(first + signals.rank) * 4, epoch);
            step += 1;
        }
        step = 1;
        while step < signals.ranks {
            node::wait(signals.signals_of(signals.rank) + wide(first + signals.behind(step)) * 4, epoch, patience);
            step += 1;
        }
    }
}
