//! The idle warps of the backward kernel, beside the producer's warp and the warp groups that multiply: they clear sums of dQ before work tiles add to
//! them, and round the sums of heads whose work tiles have ended. The launches before and after have less work then.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod idle_warps {
    /// The sums of dQ of all heads of Q, one sequence after the other: the launch before has cleared those of the first `cleared`, and the launch behind
    /// rounds those behind the first `rounded`. The others are cleared and rounded here.
    struct IdleWarps<const C: Config> {
        parts: flash_grad::Scratch,
        counters: u64,
        cleared: u32,
        rounded: u32,
    }

    impl<const C: Config> IdleWarps<C> {
        fn new(parts: &flash_grad::Scratch, cleared: u32, rounded: u32) -> IdleWarps<C> {
            IdleWarps { parts: parts.copy(), counters: parts.counters::<{ C.queries }, { C.head }>(), cleared, rounded }
        }

        /// Tiles of sums that are cleared here.
        fn tiles(&self) -> u32 {
            let (rows, _): (u32, u64) = self.parts.extents::<{ C.queries }>();
            (self.parts.count * self.parts.heads - self.cleared) * (rows / C.queries)
        }

        /// The sums of a head.
        fn sums(&self, head: u32) -> u64 {
            self.parts.part::<{ C.queries }, { C.head }>(0, 0, head).sums
        }

        /// The next number of a counter, in all lanes of a warp.
        fn claim(&self, counter: u64) -> u32 {
            let mut claimed: u32 = 0;
            if laneid == 0 {
                ptx! { atom.relaxed.gpu.global.add.u32 claimed, [counter], 1; }
            }
            warp::broadcast(claimed, 0)
        }

        /// Clears all tiles that are left. No warp waits before it has cleared its tiles, because work tiles wait for cleared sums: a block ends a work tile only
        /// after it has received the next one, so a warp that waited for a head's work tiles first would cause a deadlock.
        fn clear(&self) {
            const BYTES: u32 = 4 * C.queries * C.head;
            let (first, count): (u64, u32) = (self.sums(self.cleared), self.tiles());
            let mut cleared: u32 = 0;
            loop {
                let tile: u32 = self.claim(self.counters + CLEARING as u64);
                if tile >= count {
                    break;
                }
                let to: u64 = first + wide(tile) * BYTES + wide(laneid) * 16;
                for i in 0..BYTES / 512 {
                    ptx! { st.global.v4.f32 [to + 512 * i], {0.0, 0.0, 0.0, 0.0}; }
                }
                cleared += 1;
            }
            warp::sync();
            if (laneid == 0) & (cleared > 0) {
                let counter: u64 = self.counters + CLEARED as u64;
                ptx! { red.release.gpu.global.add.u32 [counter], cleared; }
            }
        }

        /// The producer waits until all sums are cleared.
        fn wait_cleared(&self) {
            wait_for(self.counters + CLEARED as u64, self.tiles());
        }

        /// One warp counts the work tiles of this block that have ended, for each head of K and V. It receives the next work tile before the current one ends, and
        /// waits at a named barrier: a loop of `mbarrier.try_wait` would take issue slots from the warps that multiply.
        fn count_ended(&self, received: &mut Received<C>, p: &Problem, heads_k: u32) {
            loop {
                let (keys, some): (flash_grad::Keys, u32) = received.next(p);
                if some == 0 {
                    break;
                }
                let slot: u32 = received.at.stage;
                received.advance();
                received.release();
                barrier::sync::<288>(WORK_TILE_ENDED + slot);
                if laneid == 0 {
                    let counter: u64 = self.counters + wide(keys.number * heads_k + keys.head) * 4;
                    ptx! { red.release.gpu.global.add.u32 [counter + ENDED], 1; }
                }
            }
        }

        /// Rounds patches of 64 × 64 sums until there are no more, those of a head when all its work tiles have ended.
        fn round<T>(&self, p: &Problem, g: &Gradients, q_grad: u64) {
            const ACROSS: u32 = C.head / 64;
            let patches: u32 = (p.queries + 63) / 64 * ACROSS;
            loop {
                let claimed: u32 = self.claim(self.counters + ROUNDING as u64);
                let (slot, patch): (u32, u32) = (claimed / patches, claimed % patches);
                if slot >= self.rounded {
                    break;
                }
                if laneid == 0 {
                    wait_for(
                        self.counters + (wide(slot / p.kv_group) * 4 + ENDED as u64),
                        (p.keys + (KEYS - 1)) / KEYS,
                    );
                }
                warp::sync();
                let first: u32 = patch / ACROSS * 64 + laneid / 4;
                let own: u64 = attention::offset(g.q, slot / p.heads, first, slot % p.heads);
                let mut to: u64 = q_grad + own + (patch % ACROSS * 128 + laneid % 4 * 16) as u64;
                let mut from: u64 = self.sums(slot) + wide(patch) * 16384 + wide(laneid) * 16;
                let mut row: u32 = first;
                while row < first + 64 {
                    let below: u64 = to + g.q[1] * 8;
                    for half in 0..2 {
                        let (upper, lower): ([b32; 4], [b32; 4]) = round_rows::<T>(from + 2048 * half as u64, g.slope);
                        let (inside, inside_below): (pred, pred) = (row < p.queries, row + 8 < p.queries);
                        ptx! {
                            @inside st.global.v4.b32 [to + 64 * half], {upper[..]};
                            @inside_below st.global.v4.b32 [below + 64 * half], {lower[..]};
                        }
                    }
                    from += 4096;
                    to += g.q[1] * 16;
                    row += 16;
                }
            }
        }
    }

    /// Waits until a counter is at least `count`, in one thread: `ld.acquire.gpu` and `nanosleep` in a loop.
    fn wait_for(counter: u64, count: u32) {
        loop {
            let now: u32;
            ptx! { ld.acquire.gpu.global.u32 now, [counter]; }
            if now >= count {
                break;
            }
            ptx! { nanosleep.u32 2000; }
        }
    }

    /// Sums of 16 rows and 32 columns, by a warp: eight columns of two rows, 8 apart, for each lane.
    fn round_rows<T>(from: u64, slope: f32) -> ([b32; 4], [b32; 4]) {
        let sums: [f32; 16];
        for i in 0..4 {
            ptx! { ld.relaxed.gpu.global.v4.f32 {sums[4 * i..4 * i + 4]}, [from + 512 * i]; }
        }
        let (mut upper, mut lower): ([b32; 4], [b32; 4]);
        for i in 0..4 {
            for e in 0..4 {
                sums[4 * i + e] *= slope;
            }
            ptx! {
                cvt.rn.{T}x2.f32 upper[i], sums[4 * i + 1], sums[4 * i];
                cvt.rn.{T}x2.f32 lower[i], sums[4 * i + 3], sums[4 * i + 2];
            }
        }
        gather_columns(&mut upper);
        gather_columns(&mut lower);
        (upper, lower)
    }

    /// Four lanes side by side have a part of each of four chunks; then lane `i` of them has chunk `i`. Four `shfl.sync.bfly` and twelve `selp`.
    fn gather_columns(parts: &mut [b32; 4]) {
        let odd: pred = (laneid & 1) != 0;
        for i in 0..2 {
            let other: b32 = warp::shuffle_xor::<b32>(odd.select(parts[2 * i], parts[2 * i + 1]), 1);
            parts[2 * i] = odd.select(other, parts[2 * i]);
            parts[2 * i + 1] = odd.select(parts[2 * i + 1], other);
        }
        let high: pred = (laneid & 2) != 0;
        for i in 0..2 {
            let other: b32 = warp::shuffle_xor::<b32>(high.select(parts[i], parts[2 + i]), 2);
            parts[i] = high.select(other, parts[i]);
            parts[2 + i] = high.select(parts[2 + i], other);
        }
    }
}
