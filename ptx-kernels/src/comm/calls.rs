//! The numbers of calls, which each block counts for itself: blocks of the same number on all ranks count alike.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod calls {
    /// The number of the next message of this block; the first one is 1.
    fn begin(counters: GlobalMut<u32>) -> u32 {
        let at = counters.at(ctaid.x);
        let before: u32;
        ptx! { ld.global.u32 before, [at]; }
        before + 1
    }

    /// Writes the last number that this block has used.
    fn end(counters: GlobalMut<u32>, epoch: u32) {
        ptx! { bar.sync 0; }
        if tid.x == 0 {
            let at = counters.at(ctaid.x);
            ptx! { st.global.u32 [at], epoch; }
        }
    }
}
