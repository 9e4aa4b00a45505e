//! A launch as data: its arguments, its options and its statistics. `machine` runs it.

/// The limit on warp instructions of a launch for which nobody asked for another: what a core runs in a minute or two.
const STEP_LIMIT: u64 = 1_000_000_000;

/// One launch of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The entry's name.
    pub entry: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z; at most 1024 in all.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory, behind the static ones.
    pub dynamic_shared: u32,
    /// A cooperative launch: all blocks are resident at once, and may wait for each other.
    pub cooperative: bool,
    /// The parameters, laid out as the entry declares them (each at a multiple of its alignment).
    pub params: &'a [u8],
    /// Options of the run.
    pub options: Options,
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True if to look for races, reads of memory that nothing wrote and the like as well; it takes some two to three
    /// times longer. Bounds and alignment are always checked.
    pub watch: bool,
    /// One seed gives one interleaving of the threads; 0 is the plainest.
    pub seed: u64,
    /// After how many warp instructions a run is called endless; `None` never stops it. Unless said otherwise 10⁹: a minute
    /// or two of a core.
    pub step_limit: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { watch: true, seed: 0, step_limit: Some(STEP_LIMIT) }
    }
}

/// Statistics of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions times the threads that executed them (guarded-off ones do not count).
    pub instructions: u64,
    /// Instructions that warps issued.
    pub warp_instructions: u64,
    /// The kernel's output through `vprintf`.
    pub printed: String,
}
