//! Ranks of a node: GPUs, each with a kernel of the same grid, that reach each other's symmetric memory and signal to each other.
//!
//! The host passes the table of a `Symmetric` buffer: the addresses of the data of each rank, and then those of the signals of each rank.
//! Signals are words of 32 bits, zero at first. A signal orders the threads of two GPUs, so its scope is `.sys`.

/// Symmetric memory as a kernel of one rank sees it.
struct Symmetric {
    /// The table's address.
    table: u64,
    rank: u32,
    ranks: u32,
}

impl Symmetric {
    /// The address of the data of a rank: `mad.wide` by ptxas, `mul.wide` and `add` here, `ld.global`.
    fn on(&self, rank: u32) -> u64 {
        address_in(self.table, rank)
    }

    /// The address of the signals of a rank: `add`, and as `on`.
    fn signals_of(&self, rank: u32) -> u64 {
        address_in(self.table, self.ranks + rank)
    }

    /// The rank `step` behind this one, in a ring: `add`, `setp`, `sub`, `selp`. For `step` below the number of ranks.
    fn behind(&self, step: u32) -> u32 {
        let next: u32 = self.rank + step;
        let inside: pred = next < self.ranks;
        inside.select(next, next - self.ranks)
    }

    /// Waits until the blocks of this number on all ranks have called it with this `epoch`, one more than the last time; what they wrote before
    /// can then be read. It uses the signals from number `first` on, one for each pair of block and rank. `bar.sync 0`; in the first threads,
    /// as many as ranks, `st.release.sys` and `ld.acquire.sys` in a loop; `bar.sync 0`. After `patience` nanoseconds it traps; 0 is for ever.
    fn sync(&self, first: u32, epoch: u32, patience: u64) {
        ptx! { bar.sync 0; }
        if tid.x < self.ranks {
            let slot: u32 = first + ctaid.x * self.ranks;
            signal(self.signals_of(tid.x) + wide(slot + self.rank) * 4, epoch);
            wait(self.signals_of(self.rank) + wide(slot + tid.x) * 4, epoch, patience);
        }
        ptx! { bar.sync 0; }
    }
}

/// An entry of the table: `mul.wide`, `add`, `ld.global`.
fn address_in(table: u64, at: u32) -> u64 {
    let from: u64 = table + wide(at) * 8;
    let found: u64;
    ptx! { ld.global.u64 found, [from]; }
    found
}

/// Writes a signal, on any rank: whoever waits for it can read what this thread wrote before, or learned by a barrier. `st.release.sys`.
fn signal(at: u64, value: u32) {
    ptx! { st.release.sys.global.u32 [at], value; }
}

/// Waits until a signal of this rank is `value`, or up to 2^31 - 1 more: `ld.acquire.sys` and a comparison in a loop. After `patience`
/// nanoseconds of `globaltimer` it traps, which ends the launch with an error; 0 waits for ever.
fn wait(at: u64, value: u32, patience: u64) {
    let mut since: u64 = 0;
    loop {
        let now: u32;
        ptx! { ld.acquire.sys.global.u32 now, [at]; }
        if now - value < 0x8000_0000 {
            break;
        }
        if patience > 0 {
            lose_patience(&mut since, patience);
        }
    }
}

/// In a loop that waits: traps `patience` nanoseconds after the first call. `mov` from `%globaltimer`, two `setp`, `selp`, `sub`.
fn lose_patience(since: &mut u64, patience: u64) {
    let now: u64 = globaltimer;
    let first: pred = *since == 0;
    *since = first.select(now, *since);
    if now - *since > patience {
        ptx! { trap; }
    }
}

/// Writes 8 bytes, each half with the number of the message beside it, so that whoever reads both needs no signal: `mov`, and
/// `st.relaxed.sys.v2.b64` of 16 bytes.
fn send_packet(to: u64, words: [b32; 2], epoch: u32) {
    let (low, high): b64;
    ptx! {
        mov.b64 low, {words[0], epoch};
        mov.b64 high, {words[1], epoch};
        st.relaxed.sys.global.v2.b64 [to], {low, high};
    }
}

/// Waits for the packet of message `epoch`, and returns its 8 bytes: `ld.relaxed.sys.v2.b64` and `mov` in a loop. It traps as `wait` does.
fn receive_packet(from: u64, epoch: u32, patience: u64) -> [b32; 2] {
    let words: [b32; 2];
    let mut since: u64 = 0;
    loop {
        let (low, high): b64;
        let (first, second): u32;
        ptx! {
            ld.relaxed.sys.global.v2.b64 {low, high}, [from];
            mov.b64 {words[0], first}, low;
            mov.b64 {words[1], second}, high;
        }
        if ((first ^ epoch) | (second ^ epoch)) == 0 {
            break;
        }
        if patience > 0 {
            lose_patience(&mut since, patience);
        }
    }
    words
}
