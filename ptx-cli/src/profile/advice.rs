//! Advice: what a line loses against the ideal, in cycles of a multiprocessor, and what usually helps.

use super::report::Line;
use ptx_interp::chip::Occupancy;
use ptx_interp::profile::Counts;

/// One way to lose time.
struct Loss {
    /// Lost cycles of a multiprocessor.
    cycles: fn(&Counts) -> u64,
    /// The fact, with its numbers.
    sentence: fn(&Counts) -> String,
    help: &'static str,
}

/// Sectors that a multiprocessor gets from L2 in a cycle: 64 bytes.
const SECTORS_IN_A_CYCLE: u64 = 2;
/// Warp instructions that a multiprocessor issues in a cycle.
const ISSUED_IN_A_CYCLE: u64 = 4;
/// Lanes of a warp.
const LANES: u64 = 32;

/// Every loss that is told.
const LOSSES: &[Loss] = &[
    Loss {
        cycles: |c| c.shared_load_wavefronts.saturating_sub(c.shared_load_wavefronts_ideal),
        sentence: |c| banks("load", c.shared_load_requests, c.shared_load_wavefronts, c.shared_load_wavefronts_ideal),
        help: "lanes read different words of one bank: pad the rows of the array by one access (16 bytes for vectors), or swizzle the columns",
    },
    Loss {
        cycles: |c| c.shared_store_wavefronts.saturating_sub(c.shared_store_wavefronts_ideal),
        sentence: |c| {
            banks("store", c.shared_store_requests, c.shared_store_wavefronts, c.shared_store_wavefronts_ideal)
        },
        help: "lanes write different words of one bank: pad the rows of the array by one access (16 bytes for vectors), or swizzle the columns",
    },
    Loss {
        cycles: |c| c.async_copy_wavefronts.saturating_sub(c.async_copy_wavefronts_ideal),
        sentence: |c| banks("cp.async", c.async_copy_requests, c.async_copy_wavefronts, c.async_copy_wavefronts_ideal),
        help: "swizzle the destination, so that eight lanes fill all 32 banks",
    },
    Loss {
        cycles: |c| c.global_load_sectors.saturating_sub(c.global_load_sectors_ideal) / SECTORS_IN_A_CYCLE,
        sentence: |c| sectors("load", c.global_load_requests, c.global_load_sectors, c.global_load_sectors_ideal),
        help: "neighboring threads should read neighboring addresses: let the thread index be the fastest one, or load rows into shared memory first",
    },
    Loss {
        cycles: |c| c.global_store_sectors.saturating_sub(c.global_store_sectors_ideal) / SECTORS_IN_A_CYCLE,
        sentence: |c| sectors("store", c.global_store_requests, c.global_store_sectors, c.global_store_sectors_ideal),
        help: "neighboring threads should write neighboring addresses: exchange the values through shared memory first",
    },
    Loss {
        cycles: |c| c.async_copy_sectors.saturating_sub(c.async_copy_sectors_ideal) / SECTORS_IN_A_CYCLE,
        sentence: |c| sectors("cp.async", c.async_copy_requests, c.async_copy_sectors, c.async_copy_sectors_ideal),
        help: "neighboring threads should copy neighboring 16 bytes",
    },
    Loss {
        cycles: |c| c.atomic_conflicts,
        sentence: |c| {
            format!(
                "{} of {} atomic updates wait for another thread of their warp",
                number(c.atomic_conflicts),
                number(c.atomic_updates)
            )
        },
        help: "reduce inside of the warp first (`redux.sync`, `shfl.sync`), so that one lane updates; or spread the updates over several words",
    },
    Loss {
        cycles: |c| (c.local_load_sectors + c.local_store_sectors) / SECTORS_IN_A_CYCLE,
        sentence: |c| format!("{} sectors of local memory", number(c.local_load_sectors + c.local_store_sectors)),
        help: "an array that is indexed at run time stands in memory: unroll the loop, so that its elements become registers",
    },
    Loss {
        cycles: |c| (c.instructions * LANES).saturating_sub(c.thread_instructions) / LANES / ISSUED_IN_A_CYCLE,
        sentence: |c| {
            let active = c.thread_instructions as f64 / c.instructions.max(1) as f64;
            format!("{} warp instructions with {active:.1} of 32 threads", number(c.instructions))
        },
        help: "let whole warps take a branch: compare the warp's index, not the thread's, or give idle lanes work",
    },
];

/// `1,024 wavefronts of 32 shared loads, 32 ideal: 32.0 times as many`
fn banks(what: &str, requests: u64, wavefronts: u64, ideal: u64) -> String {
    let times = wavefronts as f64 / ideal.max(1) as f64;
    let [wavefronts, ideal] = [wavefronts, ideal].map(number);
    format!(
        "bank conflicts: {wavefronts} wavefronts of {} shared {what}s, {ideal} ideal ({times:.1}x)",
        number(requests)
    )
}

fn sectors(what: &str, requests: u64, sectors: u64, ideal: u64) -> String {
    let each = |count: u64| count as f64 / requests.max(1) as f64;
    let (own, best) = (each(sectors), each(ideal));
    format!(
        "uncoalesced: {} sectors of {} global {what}s, {own:.1} each; {best:.1} ideal",
        number(sectors),
        number(requests)
    )
}

/// A line that loses time.
pub(super) struct Finding<'a> {
    pub(super) line: &'a Line,
    /// Lost cycles of a multiprocessor.
    pub(super) cycles: u64,
    pub(super) sentence: String,
    pub(super) help: &'static str,
}

/// The lines that lose most, each for its main reason.
pub(super) fn worst(lines: &[Line], most: usize) -> Vec<Finding<'_>> {
    let finding = |line: &'_ Line| {
        let loss = LOSSES.iter().max_by_key(|loss| (loss.cycles)(&line.counts))?;
        Some((loss, (loss.cycles)(&line.counts))).filter(|(_, cycles)| *cycles > 0)
    };
    let mut found: Vec<Finding> = Vec::new();
    for line in lines {
        if let Some((loss, cycles)) = finding(line) {
            found.push(Finding { line, cycles, sentence: (loss.sentence)(&line.counts), help: loss.help });
        }
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.cycles));
    found.truncate(most);
    found
}

/// The fix for what limits the resident blocks, if it leaves half of the warps out.
pub(super) fn more_warps(occupancy: &Occupancy) -> Option<&'static str> {
    const LIMITS: [(&str, &str); 3] = [
        ("shared memory", "let a block keep less in shared memory, or let more threads share it"),
        ("registers", "let a thread keep fewer values alive, or bound its registers with `.maxnreg`"),
        ("blocks", "let a block have more threads"),
    ];
    let (limit, _) = occupancy.limits[0];
    let help = LIMITS.iter().find(|(name, _)| *name == limit).map(|(_, help)| *help);
    help.filter(|_| 2 * occupancy.warps < occupancy.most_warps)
}

/// The cycles of a multiprocessor that counters lose, for all reasons.
pub(super) fn cycles_lost(counts: &Counts) -> u64 {
    LOSSES.iter().map(|loss| (loss.cycles)(counts)).sum()
}

/// `1,234,567`
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
