//! Tensor memory that a block does not give back.

use crate::diag::codes;
use crate::interp::block::Block;
use crate::interp::fault::{Fault, FaultKind};
use crate::interp::tmem::Tmem;

/// Objects if a block that ends has columns.
pub(in crate::interp) fn leak(block: &Block, tensor: &Tmem) -> Result<(), Fault> {
    let columns = tensor.taken_columns();
    if columns == 0 {
        return Ok(());
    }
    let message = format!("a block ends with {columns} columns of tensor memory that it has not freed");
    let mut fault =
        Fault::new(FaultKind::Resources, message).code(&codes::W0501).help("`tcgen05.dealloc` before it ends");
    fault.block = Some(block.id);
    Err(fault)
}
