//! The arguments that kernels of several modules take: tables of memory on all ranks, and the calls of each block.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod peers {
    /// The table of symmetric memory that gets what ranks send, and the numbers of the messages of each block or warp.
    struct Inbox {
        table: &[u64],
        counters: &mut [u32],
    }

    /// The tables of the data of all ranks and of their signals, and the calls of each block.
    struct Peers {
        table: &[u64],
        meeting: &[u64],
        #[align(8)]
        counters: &mut [u32],
    }
}
