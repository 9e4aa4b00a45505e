//! The PTX of a kernel is a constant of its module.

use super::first_kernel::saxpy;

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    println!("{}", saxpy::PTX);
    assert!(saxpy::PTX.contains("fma.rn.f32"));
    Ok(())
}
// ANCHOR_END: main
