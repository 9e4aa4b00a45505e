//! The producer of the forward kernel: one thread copies Q, K and V of all work tiles by TMA.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod producer {
    impl<const C: Config> Memory<C> {
        /// Begins to copy the queries of a work tile from row `work.first` of the tensor on, and its keys and values from row `keys[0]` of head
        /// `keys[1]` on, the last tile first. The first keys come before the queries, whose memory is in use longer.
        fn load(
            &self,
            maps: &flash::Maps,
            at: &mut flash::Position<{ C.stages }>,
            work: &flash::WorkTile,
            keys: [u32; 2],
            phase: u32,
        ) {
            let mut block: u32 = work.blocks - 1;
            self.k.load::<64>(maps.k, at, keys[1], keys[0] + block * C.keys, work.batch);
            self.q.load::<64>(maps.q, work, phase);
            self.v.load::<64>(maps.v, at, keys[1], keys[0] + block * C.keys, work.batch);
            at.advance();
            invariant!(at.stage < C.stages);
            while block > 0 {
                block -= 1;
                self.k.load::<64>(maps.k, at, keys[1], keys[0] + block * C.keys, work.batch);
                self.v.load::<64>(maps.v, at, keys[1], keys[0] + block * C.keys, work.batch);
                at.advance();
            }
        }
    }

    /// Loads Q, K and V of all work tiles, and sends their coordinates to the warp groups. A block claims the next work tile when it begins one,
    /// so that faster blocks compute more of them. The last claim resets the counter to 0.
    fn load<const C: Config>(memory: &Memory<C>, maps: &flash::Maps, p: &Problem, head_block: u32, tile_counter: u64) {
        let scheduler = scheduler::<C>(p, head_block);
        let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        invariant!(at.stage < C.stages);
        loop {
            let work = scheduler.work_tile(index);
            memory.slots.send(&work, &flash::Bounds::none(), turn);
            if work.blocks == 0 {
                break;
            }
            let next: u32 = scheduler.claim(tile_counter);
            memory.load(maps, &mut at, &work, [0, work.head / p.kv_group], turn & 1);
            index = next;
            turn += 1;
        }
    }

    /// The same for packed sequences and windows.
    fn load_masked<const C: Config>(
        memory: &Memory<C>,
        maps: &flash::Maps,
        p: &Problem,
        starts: [Global<i32>; 2],
        head_block: u32,
        tile_counter: u64,
    ) {
        let (tokens, longest): ([u32; 2], [u32; 2]) = ([p.tokens_q, p.tokens_k], [p.queries, p.keys]);
        let batch = flash::Batch { starts, variable: p.variable, count: p.batch, tokens, longest };
        let mut sequences = flash::Sequences::<{ C.rows() }, { C.keys }>::new(batch, p.heads);
        let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        invariant!(at.stage < C.stages);
        loop {
            sequences.seek(index);
            let (work, bounds): (flash::WorkTile, flash::Bounds) =
                sequences.work_tile(index, head_block, p.top_left, p.left, p.right);
            memory.slots.send(&work, &bounds, turn);
            if work.blocks == 0 {
                break;
            }
            let claimed: u32;
            ptx! { atom.relaxed.gpu.global.add.u32 claimed, [tile_counter], 1; }
            let first: u32 = bounds.start + work.first;
            let keys: [u32; 2] = [sequences.k.start + bounds.begin * C.keys, work.head / p.kv_group];
            let queries = flash::WorkTile { first, head: work.head, batch: work.batch, blocks: work.blocks };
            memory.load(maps, &mut at, &queries, keys, turn & 1);
            index = nctaid.x + claimed;
            turn += 1;
        }
        flash::reset_counter(tile_counter);
    }
}
