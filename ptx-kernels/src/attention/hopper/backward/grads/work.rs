//! The scheduler and the producer of the backward kernel: one warp claims work tiles, loads them, and sends them to the other warps.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod work {
    /// A work tile on its way to the warps of a block: keys from `first` on of a head of sequence `number`, and the tokens of that sequence. There is none
    /// if `some` is 0.
    #[align(16)]
    struct WorkTile {
        first: u32,
        head: u32,
        number: u32,
        some: u32,
        q_start: u32,
        q_len: u32,
        k_start: u32,
        k_len: u32,
    }

    /// The work tiles as a warp receives them.
    struct Received<const C: Config> {
        memory: Shared<Memory<C>>,
        at: pipeline::Pipeline<2>,
    }

    impl<const C: Config> Received<C> {
        fn new(memory: Shared<Memory<C>>) -> Received<C> {
            Received { memory, at: pipeline::Pipeline::new(memory.work_bars) }
        }

        /// Waits for the next work tile; 0 without one.
        fn next(&self, p: &Problem) -> (flash_grad::Keys, u32) {
            self.at.wait_full();
            let from: u32 = self.memory.work_tiles.at(self.at.stage);
            let some: u32;
            ptx! { ld.shared.u32 some, [from + 12]; }
            (self.read(p, self.at.stage), warp::broadcast(some, 0))
        }

        /// The current work tile.
        fn current(&self, p: &Problem) -> flash_grad::Keys {
            self.read(p, self.at.stage)
        }

        /// The one before.
        fn previous(&self, p: &Problem) -> flash_grad::Keys {
            self.read(p, self.at.stage ^ 1)
        }

        /// The work tile in a slot.
        fn read(&self, p: &Problem, slot: u32) -> flash_grad::Keys {
            let from: u32 = self.memory.work_tiles.at(slot);
            let (mut first, mut head, mut number): (u32, u32, u32);
            ptx! {
                ld.shared.v2.u32 {first, head}, [from];
                ld.shared.u32 number, [from + 8];
            }
            first = warp::broadcast(first, 0);
            head = warp::broadcast(head, 0);
            number = warp::broadcast(number, 0);
            let mut q = attention::Sequence { start: 0, len: p.queries };
            let mut k = attention::Sequence { start: 0, len: p.keys };
            if C.masked == 1 {
                ptx! { ld.shared.v4.u32 {q.start, q.len, k.start, k.len}, [from + 16]; }
                q.start = warp::broadcast(q.start, 0);
                q.len = warp::broadcast(q.len, 0);
                k.start = warp::broadcast(k.start, 0);
                k.len = warp::broadcast(k.len, 0);
            }
            keys_of::<{ C.masked }>(p, [first, head, number], q, k)
        }

        /// Moves on to the next work tile.
        fn advance(&mut self) {
            self.at.advance();
        }

        /// This warp does not need the work tile before anymore.
        fn release(&self) {
            flash_grad::release(self.memory.work_bars.empty.at(self.at.stage ^ 1));
        }
    }

    impl<const MASKED: u32> Scheduler<MASKED> {
        /// Claims a work tile, with masks behind those that the blocks begin with. Without, idle warps wait for work tiles, which may therefore not be those of blocks that
        /// have not begun.
        fn claim(&self, tile_counter: u64) -> u32 {
            let mut claimed: u32 = 0;
            if MASKED == 0 {
                ptx! { atom.relaxed.gpu.global.add.u32 claimed, [tile_counter], 1; }
            } else {
                if laneid == 0 {
                    ptx! { atom.relaxed.gpu.global.add.u32 claimed, [tile_counter], 1; }
                }
                claimed = warp::broadcast(claimed, 0);
            }
            if MASKED == 0 { claimed } else { nctaid.x + claimed }
        }

        /// Loads all work tiles of a block, and sends their coordinates to its warps. A block claims the next work tile when it has issued the last load of one, so that all
        /// blocks end at about the same time.
        fn load_all<const C: Config>(
            &self,
            memory: Shared<Memory<C>>,
            maps: &flash_grad_loads::Maps,
            p: &Problem,
            parts: &flash_grad::Scratch,
            cleared: u32,
        ) {
            let own = flash_grad_loads::Maps { q: maps.q, k: maps.k, v: maps.v, grad: maps.grad };
            let mut producer = flash_grad_loads::Producer::<Q_STAGES, STAGES, MASKED>::new(tiles_of::<C>(memory), own);
            let mut slot = pipeline::Pipeline::<2>::new(memory.work_bars);
            let mut k = pipeline::Pipeline::<K_STAGES>::new(memory.k_bars);
            let mut v = pipeline::Pipeline::<V_STAGES>::new(memory.v_bars);
            let tile_counter: u64 = parts.counters::<{ C.queries }, { C.head }>();
            let mut index: u32 = if MASKED == 0 { self.claim(tile_counter) } else { ctaid.x };
            let mut known: u32 = cleared;
            loop {
                let keys: flash_grad::Keys = self.keys(p, index);
                let some: u32 = (keys.number < p.batch).select(1, 0);
                if MASKED == 0 {
                    if (some != 0) & ((keys.number * self.heads_k + keys.head) * p.kv_group >= known) {
                        IdleWarps::<C>::new(parts, cleared, 0).wait_cleared();
                        known = 0xffffffff;
                    }
                }
                if (some == 0) | (keys.first < keys.k.len) {
                    self.send::<C>(memory, &slot, &keys, some);
                    slot.advance();
                }
                if some == 0 {
                    break;
                }
                if keys.first < keys.k.len {
                    let mut walk = flash_grad::Walk::new::<KEYS, { C.queries }>(&keys, p.kv_group);
                    k.wait_empty();
                    producer.load_keys::<KEYS, { C.parts() }>(&keys, keys.first, memory.k.at(k.stage), k.full());
                    k.advance();
                    if walk.left > 0 {
                        producer.load_tile::<{ C.queries }, { C.parts() }, { C.parts() }, { C.head }>(
                            &keys, parts, &mut walk,
                        );
                    }
                    for group in 0..2 {
                        v.wait_empty();
                        producer.load_values::<64, { C.parts() }>(
                            &keys,
                            keys.first + 64 * group,
                            memory.v.at(v.stage),
                            v.full(),
                        );
                        v.advance();
                    }
                    while walk.left > 0 {
                        producer.load_tile::<{ C.queries }, { C.parts() }, { C.parts() }, { C.head }>(
                            &keys, parts, &mut walk,
                        );
                    }
                }
                index = self.claim(tile_counter);
            }
        }

        /// Sends a work tile, when its slot is empty.
        fn send<const C: Config>(
            &self,
            memory: Shared<Memory<C>>,
            slot: &pipeline::Pipeline<2>,
            keys: &flash_grad::Keys,
            some: u32,
        ) {
            slot.wait_empty();
            let to: u32 = memory.work_tiles.at(slot.stage);
            let lead: pred = if MASKED == 1 { laneid == 0 } else { true };
            if lead {
                ptx! {
                    st.shared.v4.u32 [to], {keys.first, keys.head, keys.number, some};
                    st.shared.v4.u32 [to + 16], {keys.q.start, keys.q.len, keys.k.start, keys.k.len};
                }
                slot.full().arrive();
            }
        }
    }
}
