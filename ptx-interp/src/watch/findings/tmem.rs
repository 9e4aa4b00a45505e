//! Tensor memory that a block does not give back.

use super::party;
use crate::block::Block;
use crate::fault::{Fault, FaultKind};
use crate::listing::Listing;
use crate::tmem::Tmem;
use ptx_core::diag::codes;

/// Objects if a block that ends has columns.
pub(in crate::watch) fn leak(
    listing: &Listing,
    block: &Block,
    tensor: &Tmem,
    allocated: Option<(u32, [u32; 3])>,
) -> Result<(), Fault> {
    let columns = tensor.taken_columns();
    if columns == 0 {
        return Ok(());
    }
    let message = format!("a block ends with {columns} columns of tensor memory that it has not freed");
    let mut fault = Fault::new(FaultKind::Resources, message).code(&codes::W0501).help(
        "`tcgen05.dealloc` by a whole warp before the block ends, behind a barrier after the last use; the address is what \
         `tcgen05.alloc` wrote",
    );
    fault.span = allocated.and_then(|(pc, _)| party(listing, pc, String::new())).map(|party| party.span);
    (fault.thread, fault.block) = (allocated.map(|(_, thread)| thread), Some(block.id));
    Err(fault)
}
