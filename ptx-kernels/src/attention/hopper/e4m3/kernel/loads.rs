//! The producers of the kernel for `e4m3`: one thread copies Q, K and V by TMA, three warps turn tiles of V.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod producers {
    /// Loads Q, K and V of all work tiles, and sends their coordinates to the other warps, as in `forward`.
    fn load<const C: Config>(memory: &Memory<C>, maps: &flash::Maps, p: &Problem, head_block: u32, tile_counter: u64) {
        let scheduler = scheduler::<C>(p, head_block);
        let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        invariant!(at.stage < STAGES);
        loop {
            let work = scheduler.work_tile(index);
            memory.slots.send(&work, &flash::Bounds::none(), turn);
            if work.blocks == 0 {
                break;
            }
            let next: u32 = scheduler.claim(tile_counter);
            let head: u32 = work.head / p.kv_group;
            let mut block: u32 = work.blocks - 1;
            memory.k.load::<{ C.width() }>(maps.k, &at, head, block * C.keys, work.batch);
            memory.q.load::<{ C.width() }>(maps.q, &work, turn);
            memory.v.load::<{ C.width() }>(maps.v, &at, head, block * C.keys, work.batch);
            at.advance();
            invariant!(at.stage < STAGES);
            while block > 0 {
                block -= 1;
                memory.v.load::<{ C.width() }>(maps.v, &at, head, block * C.keys, work.batch);
                memory.k.load::<{ C.width() }>(maps.k, &at, head, block * C.keys, work.batch);
                at.advance();
            }
            index = next;
            turn += 1;
        }
    }

    /// Turns the tiles of V of all work tiles.
    fn turn_values<const C: Config>(memory: &Memory<C>) {
        let mut work = flash::WorkTile::none();
        let mut bounds = flash::Bounds::none();
        let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
        let mut turn: u32 = 0;
        invariant!(at.stage < STAGES);
        loop {
            memory.slots.receive(&mut work, &mut bounds, turn);
            if work.blocks == 0 {
                break;
            }
            let mut block: u32 = work.blocks;
            invariant!(at.stage < STAGES);
            while block > 0 {
                block -= 1;
                memory.v.wait(&at);
                memory.turned.wait_empty(&at);
                let stage: u32 = at.stage * C.kv_tile();
                let (from, to): (u32, u32) = (memory.v.tiles + stage, memory.turned.tiles + stage);
                flash8::turn_tile::<{ C.keys }, { C.head }, { C.width() }, 1, TURNERS>(from, to);
                // `wgmma` reads by the asynchronous proxy.
                tma::fence();
                warp::sync();
                memory.v.release(at.stage);
                memory.turned.fill(at.stage);
                at.advance();
            }
            turn += 1;
        }
    }
}
