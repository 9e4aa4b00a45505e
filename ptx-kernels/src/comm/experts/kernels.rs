//! Kernels that bring the rows of tokens to the ranks of their experts, and the results back.
//!
//! A *pair* is a token and one of its choices; pairs are numbered token by token. A block has some tokens of its rank, and meets the blocks of its
//! number on all ranks. Each block counts the pairs of all experts, so that it needs no other block of its rank.
#![allow(unreachable_pub, reason = "constants that the host shares are `pub`")]

use ptx_launch::prelude::*;

/// The extents of a call.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Call {
    /// Experts of all ranks, in equal parts.
    pub(super) experts: u32,
    /// Experts of a token.
    pub(super) top_k: u32,
    /// Tokens of this rank.
    pub(super) tokens: u32,
    /// Accesses of a row.
    pub(super) accesses: u32,
    /// Accesses from row to row of the rank's own matrix.
    pub(super) stride: u32,
    /// Rows that a rank has room for.
    pub(super) capacity: u32,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) blocks: u32,
    /// 1 to trap at an expert that is none.
    pub(super) strict: u32,
    pub(super) patience: u64,
}

/// The kernels and their parts. `EACH` elements are an access of 16 bytes.
#[ptx_module(arch("sm_80", "sm_90"), params(Call), modules(crate::comm::calls::calls))]
pub(super) mod kernels {
    use super::Call;

    /// Threads of a block.
    pub const THREADS: u32 = 256;
    /// The most blocks of a grid: so many run at once on every chip with NVLink.
    pub const BLOCKS: u32 = 96;
    /// The most experts of all ranks: two counts of each are in shared memory.
    pub const MOST_EXPERTS: u32 = 1024;
    /// Faults of a call: pairs whose expert is none, the last of them (its number plus one), and rows beyond the capacity.
    pub const FAULTS: u32 = 3;
    /// Accesses of a lane that are under way at once.
    const AHEAD: u32 = 4;
    /// Accesses of a chunk of a row, which a warp moves at once.
    pub const CHUNK: u32 = 32 * AHEAD;
    const WARPS: u32 = THREADS / 32;
    /// The expert that is none, and the row of a pair without one.
    pub const NONE: u32 = 0xffff_ffff;

    /// The tokens of this block.
    struct Part {
        first: u32,
        end: u32,
    }

    /// The tokens of a block: as many as others, or fewer in the last ones.
    fn part_of(c: &Call) -> Part {
        let each: u32 = (c.tokens + c.blocks - 1) / c.blocks;
        let first: u32 = (ctaid.x * each).min(c.tokens);
        Part { first, end: (first + each).min(c.tokens) }
    }

    /// Two counts of each expert, in shared memory: pairs of all tokens, and the next row of this block's pairs.
    struct Counts {
        all: u32,
        next: u32,
    }

    /// Counts the pairs of each expert: those of this rank, and those of the blocks before this one.
    fn count_pairs(counts: &Counts, ids: Global<u32>, c: &Call, first: u32) {
        let mut expert: u32 = tid.x;
        while expert < c.experts {
            let (all, next): (u32, u32) = (counts.all + expert * 4, counts.next + expert * 4);
            ptx! { st.shared.u32 [all], 0; st.shared.u32 [next], 0; }
            expert += THREADS;
        }
        block::sync();
        let (pairs, before): (u32, u32) = (c.tokens * c.top_k, first * c.top_k);
        let mut pair: u32 = tid.x;
        while pair < pairs {
            let found: [u32; AHEAD];
            for i in 0..AHEAD {
                found[i] = id_of(ids, pair + i * THREADS, pairs);
            }
            for i in 0..AHEAD {
                if found[i] < c.experts {
                    let (all, next): (u32, u32) = (counts.all + found[i] * 4, counts.next + found[i] * 4);
                    let is_before: pred = pair + i * THREADS < before;
                    ptx! {
                        red.shared.add.u32 [all], 1;
                        @is_before red.shared.add.u32 [next], 1;
                    }
                }
            }
            pair += AHEAD * THREADS;
        }
        block::sync();
    }

    /// The expert of a pair, or none from `end` on.
    fn id_of(ids: Global<u32>, pair: u32, end: u32) -> u32 {
        let mut id: u32 = NONE;
        let (at, inside): (Global<u32>, pred) = (ids.at(pair), pair < end);
        ptx! { @inside ld.global.u32 id, [at]; }
        id
    }

    /// A count of an expert, from shared memory.
    fn counted(counts: u32, expert: u32) -> u32 {
        let (at, count): (u32, u32);
        at = counts + expert * 4;
        ptx! { ld.shared.u32 count, [at]; }
        count
    }

    /// Sends the counts to all ranks, and turns them into those of all ranks, and into the first row of this rank's next pair among those of
    /// each expert. The memory has a line for each block and rank.
    fn exchange_counts(counts: &Counts, meeting: &node::Symmetric, c: &Call, epoch: u32) {
        let line: u32 = ctaid.x * c.ranks * c.experts;
        let mut expert: u32 = tid.x;
        while expert < c.experts {
            let count: u32 = counted(counts.all, expert);
            let mut step: u32 = 0;
            while step < c.ranks {
                let to: u64 = meeting.on(meeting.behind(step)) + wide(line + c.rank * c.experts + expert) * 4;
                ptx! { st.global.u32 [to], count; }
                step += 1;
            }
            expert += THREADS;
        }
        meeting.sync(0, epoch, c.patience);
        let own: u64 = meeting.on(c.rank) + wide(line) * 4;
        expert = tid.x;
        while expert < c.experts {
            let (all, next): (u32, u32) = (counts.all + expert * 4, counts.next + expert * 4);
            let (mut sum, mut before, mut from): (u32, u32, u32) = (0, counted(counts.next, expert), 0);
            while from < c.ranks {
                let at: u64 = own + wide(from * c.experts + expert) * 4;
                let count: u32;
                ptx! { ld.global.u32 count, [at]; }
                sum += count;
                let is_before: pred = from < c.rank;
                before += is_before.select(count, 0);
                from += 1;
            }
            ptx! { st.shared.u32 [all], sum; st.shared.u32 [next], before; }
            expert += THREADS;
        }
        block::sync();
    }

    /// Adds the rows of the experts before, on the same rank, and writes where the groups of this rank begin and end.
    fn place_groups(counts: &Counts, offsets: GlobalMut<u32>, c: &Call) {
        let local: u32 = c.experts / c.ranks;
        let mut expert: u32 = tid.x;
        while expert < c.experts {
            let on: u32 = expert / local;
            let (mut start, mut other): (u32, u32) = (0, on * local);
            while other < expert {
                start += counted(counts.all, other);
                other += 1;
            }
            let (place, next): (u32, u32) = (counts.next + expert * 4, counted(counts.next, expert) + start);
            ptx! { st.shared.u32 [place], next; }
            if (on == c.rank) & (ctaid.x == 0) {
                let group: u32 = expert - on * local;
                let (begin, end): (GlobalMut<u32>, GlobalMut<u32>) = (offsets.at(group), offsets.at(group + 1));
                let (first, last): (u32, u32) = (start, start + counted(counts.all, expert));
                let (first_row, last_row): (u32, u32) = (first.min(c.capacity), last.min(c.capacity));
                ptx! { st.global.u32 [begin], first_row; }
                if group + 1 == local {
                    ptx! { st.global.u32 [end], last_row; }
                }
            }
            expert += THREADS;
        }
        block::sync();
    }

    /// One warp assigns a row to each pair of this block, in order: 32 pairs at a time, those of one expert side by side. A place is a
    /// rank and a row.
    fn place_pairs(counts: &Counts, d: &Sent, c: &Call, part: &Part) {
        let (mut first, end): (u32, u32) = (part.first * c.top_k, part.end * c.top_k);
        while first < end {
            let pair: u32 = first + laneid;
            let id: u32 = id_of(d.ids, pair, end);
            let mut row: u32 = NONE;
            // The lanes with the same expert, and those of them before this one.
            let (same, lower): (b32, b32);
            let (among, group): (u32, u32);
            ptx! {
                match.any.sync.b32 same, id, 0xffffffff;
                mov.b32     lower, %lanemask_lt;
                and.b32     lower, lower, same;
                popc.b32    among, lower;
                popc.b32    group, same;
            }
            let next: u32 = counts.next + id * 4;
            let is_expert: pred = id < c.experts;
            ptx! { @is_expert ld.shared.u32 row, [next]; }
            warp::sync();
            if is_expert & (among == 0) {
                let after: u32 = row + group;
                ptx! { st.shared.u32 [next], after; }
            }
            warp::sync();
            row += among;
            let fits: pred = is_expert & (row < c.capacity);
            if pair < end {
                note_faults(d, c, pair, [id, row]);
                let (to, rank): (GlobalMut<u32>, u32) = (d.places.at(pair * 2), id / (c.experts / c.ranks));
                row = fits.select(row, NONE);
                ptx! { st.global.v2.u32 [to], {rank, row}; }
            }
            first += 32;
        }
    }

    /// Notes a pair whose expert is none, or that exceeds the capacity.
    fn note_faults(d: &Sent, c: &Call, pair: u32, place: [u32; 2]) {
        let (wrong, last, full): (GlobalMut<u32>, GlobalMut<u32>, GlobalMut<u32>) =
            (d.faults.at(0), d.faults.at(1), d.faults.at(2));
        if place[0] < c.experts {
            let has_none: pred = place[1] >= c.capacity;
            ptx! { @has_none red.global.add.u32 [full], 1; }
        } else if place[0] != NONE {
            let number: u32 = pair + 1;
            ptx! { red.global.add.u32 [wrong], 1; red.global.max.u32 [last], number; }
            if c.strict == 1 {
                // An expert's number is not below the number of experts.
                ptx! { trap; }
            }
        }
    }

    /// The memory of the places of pairs.
    struct Sent {
        ids: Global<u32>,
        places: GlobalMut<u32>,
        faults: GlobalMut<u32>,
    }

    /// The rank and the row of a pair.
    fn place_of(places: Global<u32>, pair: u32) -> [u32; 2] {
        let place: [u32; 2];
        let at = places.at(pair * 2);
        ptx! { ld.global.v2.u32 {place[..]}, [at]; }
        place
    }

    /// A pair with a row: the checks are those of memory, for numbers that a caller may have changed.
    fn is_place(place: [u32; 2], c: &Call) -> pred {
        (place[1] < c.capacity) & (place[0] < c.ranks)
    }

    /// Moves the accesses of a chunk from `from` to `to`, by a warp.
    fn move_chunk<T, const EACH: u32>(to: u64, from: u64, first: u32, end: u32) {
        const WORDS: u32 = vector::words::<T, EACH>();
        let packed: [[b32; WORDS]; AHEAD];
        for i in 0..AHEAD {
            let at: u32 = first + i * 32 + laneid;
            packed[i] = vector::load::<T, EACH>(from + wide(at) * 16, at < end, 0);
        }
        for i in 0..AHEAD {
            let at: u32 = first + i * 32 + laneid;
            vector::store_kept::<T, EACH>(to + wide(at) * 16, packed[i], at < end);
        }
    }

    /// The memory of a dispatch.
    struct Dispatch<T> {
        #[align(16)]
        x: &[T],
        ids: &[u32],
        #[align(16)]
        rows: &mut [T],
        offsets: &mut [u32],
        #[align(8)]
        places: &mut [u32],
        faults: &mut [u32],
        counts: &mut [u32],
        table: &[u64],
        meeting: &[u64],
        counters: &mut [u32],
    }

    /// Sends the row of each token to the ranks of its experts, where the rows of an expert follow each other in the order of ranks and pairs, and writes
    /// where those of each own expert begin and the place of each pair. `table` is that of the rows, `meeting` that of counts and signals.
    #[ptx_kernel(
        block = THREADS,
        grid = c.blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4)],
        unsafe(requires(
            c.blocks >= 1,
            c.blocks <= BLOCKS,
            c.rank < c.ranks,
            c.ranks <= THREADS,
            c.experts >= c.ranks,
            c.experts <= MOST_EXPERTS,
            c.experts % c.ranks == 0,
            c.top_k >= 1,
            c.accesses >= 1,
            c.stride >= c.accesses,
            c.stride < 1 << 28,
            c.tokens * c.top_k <= 1 << 30,
            c.tokens * c.top_k * c.accesses.div_ceil(CHUNK) <= 1 << 31,
            d.x.len() + (c.stride - c.accesses) * EACH >= c.tokens * c.stride * EACH,
            d.ids.len() >= c.tokens * c.top_k,
            d.rows.len() >= c.capacity * c.accesses * EACH,
            d.offsets.len() * c.ranks > c.experts,
            d.places.len() >= 2 * c.tokens * c.top_k,
            d.faults.len() >= FAULTS,
            d.counts.len() >= c.blocks * c.ranks * c.experts,
            d.counters.len() >= BLOCKS
        ), addresses(
            d.table[..c.ranks] = d.rows,
            d.meeting[..c.ranks] = d.counts,
            d.meeting[c.ranks..2 * c.ranks] = [u32; c.blocks * c.ranks]
        ))
    )]
    pub fn dispatch<T, const EACH: u32>(d: Dispatch<T>, c: Call) {
        #[shared]
        let (all, next): ([u32; MOST_EXPERTS], [u32; MOST_EXPERTS]);
        let (all_at, next_at): (u32, u32) = (all, next);
        let counts = Counts { all: all_at, next: next_at };
        let symm = node::Symmetric { table: d.table, rank: c.rank, ranks: c.ranks };
        let meeting = node::Symmetric { table: d.meeting, rank: c.rank, ranks: c.ranks };
        let epoch: u32 = calls::begin(d.counters);
        let part = part_of(&c);
        count_pairs(&counts, d.ids, &c, part.first);
        // From here on every rank has begun, and reads the rows of the call before no more.
        exchange_counts(&counts, &meeting, &c, epoch);
        place_groups(&counts, d.offsets, &c);
        if tid.x < 32 {
            let sent = Sent { ids: d.ids, places: d.places, faults: d.faults };
            place_pairs(&counts, &sent, &c, &part);
        }
        block::sync();
        let (first, chunks): (u32, u32) = (part.first * c.top_k, (c.accesses + (CHUNK - 1)) / CHUNK);
        let (mut at, end): (u32, u32) = (tid.x / 32, (part.end * c.top_k - first) * chunks);
        while at < end {
            let pair: u32 = first + at / chunks;
            let place: [u32; 2] = place_of(d.places, pair);
            if is_place(place, &c) {
                let from: u64 = d.x + wide(pair / c.top_k) * (c.stride * 16);
                let to: u64 = symm.on(place[0]) + wide(place[1]) * (c.accesses * 16);
                move_chunk::<T, EACH>(to, from, at % chunks * CHUNK, c.accesses);
            }
            at += WARPS;
        }
        meeting.sync(0, epoch + 1, c.patience);
        calls::end(d.counters, epoch + 1);
    }

    /// Adds the weighted results of a token's experts, in their order: `AHEAD` accesses of a lane. What has no row adds nothing.
    fn sum_of_experts<T, const EACH: u32>(
        symm: &node::Symmetric,
        m: &Chosen,
        c: &Call,
        first: u32,
        token: u32,
    ) -> [f32; AHEAD * EACH] {
        const WORDS: u32 = vector::words::<T, EACH>();
        let mut sums: [f32; AHEAD * EACH] = [0.0; AHEAD * EACH];
        let (mut pair, end): (u32, u32) = (token * c.top_k, (token + 1) * c.top_k);
        while pair < end {
            let place: [u32; 2] = place_of(m.places, pair);
            if is_place(place, c) {
                let (at, weight): (Global<f32>, f32);
                at = m.weights.at(pair);
                ptx! { ld.global.f32 weight, [at]; }
                let row: u64 = symm.on(place[0]) + wide(place[1]) * (c.accesses * 16);
                let packed: [[b32; WORDS]; AHEAD];
                for i in 0..AHEAD {
                    let access: u32 = first + i * 32 + laneid;
                    packed[i] = vector::load::<T, EACH>(row + wide(access) * 16, access < c.accesses, 0);
                }
                for i in 0..AHEAD {
                    let values: [f32; EACH] = vector::unpack::<T, EACH>(packed[i]);
                    for e in 0..EACH {
                        sums[EACH * i + e] = values[e].fma(weight, sums[EACH * i + e]);
                    }
                }
            }
            pair += 1;
        }
        sums
    }

    /// The weights and the places of a token's experts.
    struct Chosen {
        weights: Global<f32>,
        places: Global<u32>,
    }

    /// The memory of a combination.
    struct Combine<T> {
        weights: &[f32],
        #[align(8)]
        places: &[u32],
        #[align(16)]
        results: &[T],
        #[align(16)]
        out: &mut [T],
        table: &[u64],
        meeting: &[u64],
        counters: &mut [u32],
    }

    /// out = the weighted sum, in `f32` and in the order of a token's experts, of the rows that a dispatch gave their places. `table` is that of the
    /// results, `meeting` that of the signals.
    #[ptx_kernel(
        block = THREADS,
        grid = c.blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4)],
        unsafe(requires(
            c.blocks >= 1,
            c.blocks <= BLOCKS,
            c.rank < c.ranks,
            c.ranks <= THREADS,
            c.top_k >= 1,
            c.accesses >= 1,
            c.stride >= c.accesses,
            c.stride < 1 << 28,
            c.tokens * c.top_k <= 1 << 30,
            c.tokens * c.top_k * c.accesses.div_ceil(CHUNK) <= 1 << 31,
            m.weights.len() >= c.tokens * c.top_k,
            m.places.len() >= 2 * c.tokens * c.top_k,
            m.results.len() >= c.capacity * c.accesses * EACH,
            m.out.len() + (c.stride - c.accesses) * EACH >= c.tokens * c.stride * EACH,
            m.counters.len() >= BLOCKS
        ), addresses(
            m.table[..c.ranks] = m.results,
            m.meeting[c.ranks..2 * c.ranks] = [u32; c.blocks * c.ranks]
        ))
    )]
    pub fn combine<T, const EACH: u32>(m: Combine<T>, c: Call) {
        let symm = node::Symmetric { table: m.table, rank: c.rank, ranks: c.ranks };
        let meeting = node::Symmetric { table: m.meeting, rank: c.rank, ranks: c.ranks };
        let chosen = Chosen { weights: m.weights, places: m.places };
        let epoch: u32 = calls::begin(m.counters);
        let part = part_of(&c);
        meeting.sync(0, epoch, c.patience);
        let chunks: u32 = (c.accesses + (CHUNK - 1)) / CHUNK;
        let (mut at, end): (u32, u32) = (tid.x / 32, (part.end - part.first) * chunks);
        while at < end {
            let (token, first): (u32, u32) = (part.first + at / chunks, at % chunks * CHUNK);
            let sums: [f32; AHEAD * EACH] = sum_of_experts::<T, EACH>(&symm, &chosen, &c, first, token);
            let row: u64 = m.out + wide(token) * (c.stride * 16);
            for i in 0..AHEAD {
                let access: u32 = first + i * 32 + laneid;
                let values: [f32; EACH];
                for e in 0..EACH {
                    values[e] = sums[EACH * i + e];
                }
                let packed: [b32; vector::words::<T, EACH>()] = vector::pack::<T, EACH>(values);
                vector::store_kept::<T, EACH>(row + wide(access) * 16, packed, access < c.accesses);
            }
            at += WARPS;
        }
        // Until here others may read this rank's results.
        meeting.sync(0, epoch + 1, c.patience);
        calls::end(m.counters, epoch + 1);
    }
}
