//! What the columns of a row cannot say: implications between its slots, operands, targets and versions.

/// One rule of a row.
#[derive(Debug)]
pub struct Rule {}
