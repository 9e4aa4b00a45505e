//! Kernels whose blocks communicate with those of the same number on all ranks.
#![allow(unreachable_pub, reason = "constants that the host shares are `pub`")]

use ptx_launch::prelude::*;

/// The kernels and their parts. `EACH` elements are an access: 16 bytes, or one element.
#[ptx_module(arch("sm_80", "sm_90"), modules(crate::comm::calls::calls), parts(crate::comm::peers::peers))]
pub(super) mod kernels {
    /// Threads of a block.
    pub const THREADS: u32 = 512;
    /// The most blocks of a grid: so many run at once on every chip with NVLink.
    pub const BLOCKS: u32 = 96;
    /// The most packets of 8 bytes that a thread sends to a rank in one call.
    pub const TURNS: u32 = 4;
    /// Accesses of 16 bytes that a thread has under way at once.
    const AHEAD: u32 = 4;
    /// Blocks of an exchange, and accesses of 16 bytes of a thread in a chunk. So many chunks keep the link full while warps wait for a
    /// signal: fewer blocks, or half a chunk, take 3 to 8 % longer for 64 MiB on two H200 (docs/benchmarks/tried.md).
    pub const EXCHANGE_BLOCKS: u32 = 128;
    pub const EACH_OF_CHUNK: u32 = 8;
    /// Warps of a block, and bytes of a chunk, which is what a warp sends at once.
    pub const WARPS: u32 = THREADS / 32;
    pub const CHUNK: u32 = EACH_OF_CHUNK * 32 * 16;
    /// Bytes of a packet with its numbers.
    const PACKET: u32 = 16;

    /// This rank of a group, and the nanoseconds that it waits for another one; 0 is for ever.
    struct Member {
        rank: u32,
        ranks: u32,
        patience: u64,
    }

    /// An element, or zero from `len` on.
    fn load_one<T>(x: GlobalMut<T>, at: u32, len: u32) -> f32 {
        let mut value: f32 = 0.0;
        if at < len {
            let one: [f32; 1] = vector::unpack::<T, 1>(vector::load::<T, 1>(x.at(at), at < len, 0));
            value = one[0];
        }
        value
    }

    /// The 8 bytes of a packet from element `at` on; elements from `len` on are zero.
    fn load_packet<T, const EACH: u32>(x: GlobalMut<T>, at: u32, len: u32) -> [b32; 2] {
        let mut words: [b32; 2] = [0; 2];
        if at + EACH <= len {
            let from = x.at(at);
            ptx! { ld.global.v2.b32 {words[..]}, [from]; }
        } else {
            let values: [f32; EACH];
            for i in 0..EACH {
                values[i] = load_one::<T>(x, at + i, len);
            }
            words = vector::pack::<T, EACH>(values);
        }
        words
    }

    /// Writes the 8 bytes of a packet, up to element `len`.
    fn store_packet<T, const EACH: u32>(x: GlobalMut<T>, at: u32, len: u32, values: [f32; EACH]) {
        if at + EACH <= len {
            let to = x.at(at);
            let words: [b32; 2] = vector::pack::<T, EACH>(values);
            ptx! { st.global.v2.b32 [to], {words[..]}; }
        } else {
            for i in 0..EACH {
                vector::store_kept::<T, 1>(x.at(at + i), vector::pack::<T, 1>([values[i]]), at + i < len);
            }
        }
    }

    /// Adds elements to a sum; those of the first rank are its start, so that a sum of negative zeros is one.
    fn add<T, const EACH: u32>(sum: &mut [f32; EACH], words: [b32; vector::words::<T, EACH>()], from: u32) {
        let values: [f32; EACH] = vector::unpack::<T, EACH>(words);
        if from == 0 {
            for i in 0..EACH {
                sum[i] = values[i];
            }
        } else {
            for i in 0..EACH {
                sum[i] += values[i];
            }
        }
    }

    /// x = the sum over all ranks, in the order of the ranks: each rank sends packets to all others, and adds theirs as they come. An
    /// inbox has a part for each parity, block and rank. Both halves of a packet have the number of the message, so
    /// that data needs no signal; the inbox of a message is free again once the next but one begins, because the rank that sends it has
    /// read an answer to the next.
    #[ptx_kernel(
        block = THREADS,
        grid = len.div_ceil(EACH * THREADS * turns),
        instances = [of_4 = ([bf16, f16], 4), of_2 = (f32, 2)],
        unsafe(requires(
            turns >= 1,
            turns <= TURNS,
            len >= 1,
            x.len() >= len,
            len.div_ceil(EACH * THREADS * turns) <= BLOCKS,
            member.rank < member.ranks,
            member.ranks <= THREADS,
            inbox.counters.len() >= BLOCKS
        ), addresses(
            inbox.table[..member.ranks] = [u128; 2 * BLOCKS * member.ranks * THREADS * TURNS]
        ))
    )]
    pub fn all_reduce_packets<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &mut [T],
        inbox: Inbox,
        len: u32,
        turns: u32,
        member: Member,
    ) {
        const PART: u32 = PACKET * THREADS * TURNS;
        let (rank, ranks): (u32, u32) = (member.rank, member.ranks);
        let symm = node::Symmetric { table: inbox.table, rank, ranks };
        let epoch: u32 = calls::begin(inbox.counters);
        let parts: u32 = ((epoch & 1) * BLOCKS + ctaid.x) * ranks;
        let first: u32 = (ctaid.x * THREADS * turns + tid.x) * EACH;
        let mut step: u32 = 1;
        while step < ranks {
            let to: u64 = symm.on(symm.behind(step)) + wide(parts + rank) * PART;
            let mut turn: u32 = 0;
            while turn < turns {
                let at: u32 = first + turn * (THREADS * EACH);
                if at < len {
                    let words: [b32; 2] = load_packet::<T, EACH>(x, at, len);
                    node::send_packet(to + wide(turn * THREADS + tid.x) * PACKET, words, epoch);
                }
                turn += 1;
            }
            step += 1;
        }
        let own: u64 = symm.on(rank) + wide(parts) * PART;
        let mut turn: u32 = 0;
        while turn < turns {
            let at: u32 = first + turn * (THREADS * EACH);
            if at < len {
                let mut sum: [f32; EACH] = [0.0; EACH];
                let mut from: u32 = 0;
                while from < ranks {
                    let mut words: [b32; 2] = [0; 2];
                    if from == rank {
                        words = load_packet::<T, EACH>(x, at, len);
                    } else {
                        let slot: u64 = own + wide(from) * PART + wide(turn * THREADS + tid.x) * PACKET;
                        words = node::receive_packet(slot, epoch, member.patience);
                    }
                    add::<T, EACH>(&mut sum, words, from);
                    from += 1;
                }
                store_packet::<T, EACH>(x, at, len, sum);
            }
            turn += 1;
        }
        calls::end(inbox.counters, epoch);
    }

    /// The 16 bytes at access `at` on; zeros from access `end` on.
    fn load_chunk<T, const EACH: u32>(x: GlobalMut<T>, at: u32, end: u32) -> [b32; 4 * EACH_OF_CHUNK] {
        let words: [b32; 4 * EACH_OF_CHUNK];
        for i in 0..EACH_OF_CHUNK {
            let access: u32 = at + 32 * i;
            let part: [b32; 4] = vector::load_once::<T, EACH>(x.at(access * EACH), access < end, 0);
            for w in 0..4 {
                words[4 * i + w] = part[w];
            }
        }
        words
    }

    /// The values of one access of a chunk.
    fn unpack_access<T, const EACH: u32, const I: u32>(words: &[b32; 4 * EACH_OF_CHUNK]) -> [f32; EACH] {
        let part: [b32; 4];
        for w in 0..4 {
            part[w] = words[4 * I + w];
        }
        vector::unpack::<T, EACH>(part)
    }

    /// x = the sum over two ranks. Each warp sends its chunks to the warp of the same number of the other rank, keeps them in registers, and adds
    /// what comes. `ring` has two slots and a signal for each warp, and the chunks of each warp in all calls. The two slots take turns: who has received a signal is certain that the other warp has read the chunk before, so a
    /// free slot needs no signal. Every byte crosses a link once in each direction, as a write: on two H200 SMs write 363 GB/s in both
    /// directions at once, and read 331.
    #[ptx_kernel(
        block = THREADS,
        grid = blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4)],
        unsafe(requires(
            blocks >= 1,
            blocks <= EXCHANGE_BLOCKS,
            x.len() >= len,
            len <= 1 << 31,
            len % EACH == 0,
            member.rank < 2,
            member.ranks == 2,
            ring.counters.len() >= EXCHANGE_BLOCKS * WARPS
        ), addresses(
            ring.table[..2] = [u128; EXCHANGE_BLOCKS * WARPS * 2 * CHUNK / 16],
            ring.table[2..4] = [u32; EXCHANGE_BLOCKS * WARPS]
        ))
    )]
    pub fn exchange<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &mut [T],
        ring: Inbox,
        len: u32,
        blocks: u32,
        member: Member,
    ) {
        let symm = node::Symmetric { table: ring.table, rank: member.rank, ranks: 2 };
        let peer: u32 = 1 - member.rank;
        // Neighboring chunks belong to other blocks, so that short messages spread over the chip.
        let warp: u32 = (tid.x >> 5) * blocks + ctaid.x;
        let slots: u64 = wide(warp) * (2 * CHUNK) + wide(laneid) * 16;
        let (inbox, outbox): (u64, u64) = (symm.on(member.rank) + slots, symm.on(peer) + slots);
        let (arrived, sent): (u64, u64) =
            (symm.signals_of(member.rank) + wide(warp) * 4, symm.signals_of(peer) + wide(warp) * 4);
        let counter = ring.counters.at(warp);
        let mut epoch: u32 = 0;
        ptx! { ld.global.u32 epoch, [counter]; }
        let end: u32 = len / EACH;
        let mut first: u32 = warp * (32 * EACH_OF_CHUNK);
        while first < end {
            let at: u32 = first + laneid;
            let own: [b32; 4 * EACH_OF_CHUNK] = load_chunk::<T, EACH>(x, at, end);
            epoch += 1;
            let slot: u64 = wide(epoch & 1) * CHUNK;
            let (to, from): (u64, u64) = (outbox + slot, inbox + slot);
            for i in 0..EACH_OF_CHUNK {
                ptx! { st.global.v4.b32 [to + 512 * i], {own[4 * i..4 * (i + 1)]}; }
            }
            warp::sync();
            if laneid == 0 {
                node::signal(sent, epoch);
            }
            node::wait(arrived, epoch, member.patience);
            let words: [b32; 4 * EACH_OF_CHUNK];
            for i in 0..EACH_OF_CHUNK {
                ptx! { ld.global.v4.b32 {words[4 * i..4 * (i + 1)]}, [from + 512 * i]; }
            }
            for i in 0..EACH_OF_CHUNK {
                let access: u32 = at + 32 * i;
                let mut sum: [f32; EACH] = unpack_access::<T, EACH, i>(&own);
                let more: [f32; EACH] = unpack_access::<T, EACH, i>(&words);
                for e in 0..EACH {
                    sum[e] += more[e];
                }
                vector::store_kept::<T, EACH>(x.at(access * EACH), vector::pack::<T, EACH>(sum), access < end);
            }
            first += blocks * (WARPS * 32 * EACH_OF_CHUNK);
        }
        warp::sync();
        if laneid == 0 {
            ptx! { st.global.u32 [counter], epoch; }
        }
    }

    /// The sums of `AHEAD` accesses of the same elements on all ranks, in the order of the ranks. They begin at access `at` and are `stride`
    /// accesses apart; from `end` on they are zero.
    fn sum_of_ranks<T, const EACH: u32>(symm: &node::Symmetric, at: u32, stride: u32, end: u32) -> [f32; AHEAD * EACH] {
        const WORDS: u32 = vector::words::<T, EACH>();
        let mut sums: [f32; AHEAD * EACH] = [0.0; AHEAD * EACH];
        let mut from: u32 = 0;
        while from < symm.ranks {
            let data: u64 = symm.on(from);
            let packed: [b32; AHEAD * WORDS];
            for i in 0..AHEAD {
                let place: u32 = at + stride * i;
                let address: u64 = data + wide(place) * (EACH * size_of::<T>());
                let part: [b32; WORDS] = vector::load::<T, EACH>(address, place < end, 0);
                for w in 0..WORDS {
                    packed[WORDS * i + w] = part[w];
                }
            }
            for i in 0..AHEAD {
                let part: [b32; WORDS];
                for w in 0..WORDS {
                    part[w] = packed[WORDS * i + w];
                }
                add::<T, EACH>(&mut sums[EACH * i..EACH * (i + 1)], part, from);
            }
            from += 1;
        }
        sums
    }

    /// Writes one of these sums.
    fn store_sum<T, const EACH: u32, const I: u32>(to: u64, sums: &[f32; AHEAD * EACH], inside: pred) {
        let values: [f32; EACH];
        for e in 0..EACH {
            values[e] = sums[EACH * I + e];
        }
        vector::store_kept::<T, EACH>(to, vector::pack::<T, EACH>(values), inside);
    }

    /// The start of a rank's share of `count` accesses.
    fn share(count: u32, rank: u32, ranks: u32) -> u32 {
        let start: u64 = wide(count) * rank / ranks as u64;
        start as u32
    }

    /// Symmetric x = the sum over all ranks, in the order of the ranks: each rank adds its share of the data of all ranks and writes it to
    /// all.
    #[ptx_kernel(
        block = THREADS,
        grid = blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4), by_1 = ([bf16, f16, f32], 1)],
        unsafe(requires(
            blocks >= 1,
            blocks <= BLOCKS,
            x.len() >= len,
            len <= 1 << 31,
            len % EACH == 0,
            member.rank < member.ranks,
            member.ranks <= THREADS,
            peers.counters.len() >= BLOCKS
        ), addresses(
            peers.table[..member.ranks] = x,
            peers.meeting[member.ranks..2 * member.ranks] = [u32; BLOCKS * member.ranks]
        ))
    )]
    pub fn all_reduce<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &mut [T],
        peers: Peers,
        len: u32,
        blocks: u32,
        member: Member,
    ) {
        let (rank, ranks): (u32, u32) = (member.rank, member.ranks);
        let symm = node::Symmetric { table: peers.table, rank, ranks };
        let place = node::Symmetric { table: peers.meeting, rank, ranks };
        let epoch: u32 = calls::begin(peers.counters);
        place.sync(0, epoch, member.patience);
        let end_of_share: u32 = share(len / EACH, rank + 1, ranks);
        let stride: u32 = blocks * THREADS;
        let mut at: u32 = share(len / EACH, rank, ranks) + ctaid.x * THREADS + tid.x;
        while at < end_of_share {
            let sums: [f32; AHEAD * EACH] = sum_of_ranks::<T, EACH>(&symm, at, stride, end_of_share);
            let mut step: u32 = 0;
            while step < ranks {
                let data: u64 = symm.on(symm.behind(step));
                for i in 0..AHEAD {
                    let access: u32 = at + stride * i;
                    let to: u64 = data + wide(access) * (EACH * size_of::<T>());
                    store_sum::<T, EACH, i>(to, &sums, access < end_of_share);
                }
                step += 1;
            }
            at += stride * AHEAD;
        }
        place.sync(0, epoch + 1, member.patience);
        calls::end(peers.counters, epoch + 1);
    }

    /// out = the sum over all ranks of part `rank` of symmetric x, whose parts have `len` elements; in the order of the ranks.
    #[ptx_kernel(
        block = THREADS,
        grid = blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4), by_1 = ([bf16, f16, f32], 1)],
        unsafe(requires(
            blocks >= 1,
            blocks <= BLOCKS,
            out.len() >= len,
            x.len() >= member.ranks * len,
            member.ranks * len <= 1 << 31,
            len % EACH == 0,
            member.rank < member.ranks,
            member.ranks <= THREADS,
            peers.counters.len() >= BLOCKS
        ), addresses(
            peers.table[..member.ranks] = x,
            peers.meeting[member.ranks..2 * member.ranks] = [u32; BLOCKS * member.ranks]
        ))
    )]
    pub fn reduce_scatter<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] out: &mut [T],
        #[align(EACH * size_of::<T>())] x: &[T],
        peers: Peers,
        len: u32,
        blocks: u32,
        member: Member,
    ) {
        let (rank, ranks): (u32, u32) = (member.rank, member.ranks);
        let symm = node::Symmetric { table: peers.table, rank, ranks };
        let place = node::Symmetric { table: peers.meeting, rank, ranks };
        let epoch: u32 = calls::begin(peers.counters);
        place.sync(0, epoch, member.patience);
        let start: u32 = rank * (len / EACH);
        let (stride, end_of_part): (u32, u32) = (blocks * THREADS, start + len / EACH);
        let mut at: u32 = start + ctaid.x * THREADS + tid.x;
        while at < end_of_part {
            let sums: [f32; AHEAD * EACH] = sum_of_ranks::<T, EACH>(&symm, at, stride, end_of_part);
            for i in 0..AHEAD {
                let access: u32 = at + stride * i;
                store_sum::<T, EACH, i>(out.at((access - start) * EACH), &sums, access < end_of_part);
            }
            at += stride * AHEAD;
        }
        // Until here others may read this rank's x.
        place.sync(0, epoch + 1, member.patience);
        calls::end(peers.counters, epoch + 1);
    }

    /// Part `rank` of symmetric out on all ranks = x, of `len` elements.
    #[ptx_kernel(
        block = THREADS,
        grid = blocks,
        instances = [by_8 = ([bf16, f16], 8), by_4 = (f32, 4), by_1 = ([bf16, f16, f32], 1)],
        unsafe(requires(
            blocks >= 1,
            blocks <= BLOCKS,
            x.len() >= len,
            out.len() >= member.ranks * len,
            member.ranks * len <= 1 << 31,
            len % EACH == 0,
            member.rank < member.ranks,
            member.ranks <= THREADS,
            peers.counters.len() >= BLOCKS
        ), addresses(
            peers.table[..member.ranks] = out,
            peers.meeting[member.ranks..2 * member.ranks] = [u32; BLOCKS * member.ranks]
        ))
    )]
    pub fn all_gather<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &[T],
        #[align(EACH * size_of::<T>())] out: &mut [T],
        peers: Peers,
        len: u32,
        blocks: u32,
        member: Member,
    ) {
        const WORDS: u32 = vector::words::<T, EACH>();
        let (rank, ranks): (u32, u32) = (member.rank, member.ranks);
        let symm = node::Symmetric { table: peers.table, rank, ranks };
        let place = node::Symmetric { table: peers.meeting, rank, ranks };
        let epoch: u32 = calls::begin(peers.counters);
        // Until here others may read their out.
        place.sync(0, epoch, member.patience);
        let (stride, count): (u32, u32) = (blocks * THREADS, len / EACH);
        let mut at: u32 = ctaid.x * THREADS + tid.x;
        while at < count {
            let packed: [b32; WORDS] = vector::load::<T, EACH>(x.at(at * EACH), at < count, 0);
            let mut step: u32 = 0;
            while step < ranks {
                let data: u64 = symm.on(symm.behind(step));
                let to: u64 = data + wide(rank * count + at) * (EACH * size_of::<T>());
                vector::store_kept::<T, EACH>(to, packed, at < count);
                step += 1;
            }
            at += stride;
        }
        place.sync(0, epoch + 1, member.patience);
        calls::end(peers.counters, epoch + 1);
    }
}
