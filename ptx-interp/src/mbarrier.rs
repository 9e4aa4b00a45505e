//! The `mbarrier` object: its 64 bits in shared memory, and what each operation makes of them (9.7.13.15). Pure; who
//! waits for a phase is in `cluster`.

use super::fault::{Fault, FaultKind};
use ptx_core::diag::codes;

/// The bytes of an mbarrier object.
pub(super) const BYTES: u64 = 8;
/// The most arrivals and the most bytes that a phase can wait for.
const MOST: i64 = (1 << 20) - 1;
/// The bits of a count.
const COUNT: u64 = MOST as u64;
/// Positions of the fields: pending and expected arrivals (20 bits each), transactions (21 bits, signed), the phase's
/// parity, and a bit that initialized objects have.
const EXPECTED: u32 = 20;
const TRANSACTIONS: u32 = 40;
const PARITY: u32 = 61;
const VALID: u64 = 0b10 << 62;

/// Counts that an mbarrier cannot have.
pub(super) fn miscounted(message: String) -> Fault {
    Fault::new(FaultKind::Sync, message).code(&codes::W0413)
}

/// An mbarrier object, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mbarrier {
    /// Arrivals that the current phase still waits for.
    pending: i64,
    /// Arrivals of the next phase.
    expected: i64,
    /// Bytes that the current phase still waits for; negative while more have come than were announced.
    transactions: i64,
    /// The parity of the current phase: 0, 1, 0, …
    pub parity: u64,
}

impl Mbarrier {
    /// `mbarrier.init`: the first phase waits for `count` arrivals.
    pub(super) fn new(count: u64) -> Result<Mbarrier, Fault> {
        let pending = (count as i64).clamp(0, MOST);
        if pending as u64 != count || pending == 0 {
            return Err(miscounted(format!("an mbarrier for {count} arrivals; 1 to {MOST} are possible")));
        }
        Ok(Mbarrier { pending, expected: pending, transactions: 0, parity: 0 })
    }

    /// The object that 64 bits of memory hold, or the state that an arrival gave.
    pub(super) fn unpack(word: u64) -> Result<Mbarrier, Fault> {
        if word & (0b11 << 62) != VALID {
            let message = "these 64 bits are no mbarrier: `mbarrier.init` has not run, or something overwrote it";
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0411));
        }
        Ok(Mbarrier {
            pending: (word & COUNT) as i64,
            expected: (word >> EXPECTED & COUNT) as i64,
            transactions: ((word >> TRANSACTIONS) << 43) as i64 >> 43,
            parity: word >> PARITY & 1,
        })
    }

    /// The 64 bits of the object.
    pub(super) fn pack(self) -> u64 {
        let transactions = self.transactions as u64 & ((1 << 21) - 1);
        let counts = self.pending as u64 | (self.expected as u64) << EXPECTED;
        counts | transactions << TRANSACTIONS | self.parity << PARITY | VALID
    }

    /// The arrivals and the bytes that the phase still waits for; of bytes fewer than none if more have come than were
    /// announced.
    pub(super) fn open(self) -> (i64, i64) {
        (self.pending, self.transactions)
    }

    /// Number of arrivals that the phase still waits for.
    pub(super) fn pending(self) -> u64 {
        self.pending as u64
    }

    /// More bytes are announced (`expect_tx`), or have come (negative: `complete_tx`).
    pub(super) fn expect(self, bytes: i64) -> Result<Mbarrier, Fault> {
        let transactions = self.transactions.saturating_add(bytes);
        if !(-MOST..=MOST).contains(&transactions) {
            return Err(miscounted(format!("an mbarrier that waits for {transactions} bytes; {MOST} are possible")));
        }
        Ok(Mbarrier { transactions, ..self })
    }

    /// `count` arrivals.
    pub(super) fn arrive(self, count: u64) -> Result<Mbarrier, Fault> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if !(1..=self.pending).contains(&count) {
            let message = format!("{count} arrivals at an mbarrier whose phase waits for {}", self.pending);
            return Err(miscounted(message));
        }
        Ok(Mbarrier { pending: self.pending - count, ..self })
    }

    /// The next phases wait for `count` arrivals fewer.
    pub(super) fn drop(self, count: u64) -> Result<Mbarrier, Fault> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if count > self.expected {
            let message = format!("{count} arrivals fewer at an mbarrier that expects {}", self.expected);
            return Err(miscounted(message));
        }
        Ok(Mbarrier { expected: self.expected - count, ..self })
    }

    /// Begins the next phase if this one waits for nothing any more. Says whether it did.
    pub(super) fn advance(self) -> (Mbarrier, bool) {
        if self.pending > 0 || self.transactions != 0 {
            return (self, false);
        }
        (Mbarrier { pending: self.expected, parity: self.parity ^ 1, ..self }, true)
    }

    /// The missing arrivals and bytes of the phase, for a message.
    pub(super) fn missing(self) -> String {
        let arrivals = format!("{} of {} arrivals", self.pending, self.expected);
        match self.transactions {
            0 => format!("{arrivals} are missing"),
            few @ 1.. => format!("{arrivals} and {few} bytes are missing"),
            more => format!("{arrivals} are missing, and {} bytes more have come than it expects", -more),
        }
    }
}
