//! A choice allocates nothing, whether the thread keeps it or not.

use crate::counting::allocations;
use half::bf16;
use ptx_kernels::gemm::Gemm;
use ptx_launch::{Result, TensorRef};

#[test]
fn a_choice_allocates_nothing() -> Result<()> {
    let device = super::device();
    let (a, mut c) = (device.zeros::<bf16>(1 << 18)?, device.zeros::<bf16>(1 << 16)?);
    // More products than a thread keeps, in both layouts of B, aligned and not.
    let mut choose = || -> Result<()> {
        for at in 0..600 {
            let [m, n, k] = [1 + at % 37, 8 + at % 61 * (1 + at % 2 * 7), 8 + at * 3 % 500];
            let plain = TensorRef::from(a.tile([k, n])?);
            let b = if at % 3 == 0 { plain } else { TensorRef::from(a.tile([n, k])?).transposed() };
            Gemm::<bf16, 2>::new().choose(&device, a.tile([m, k])?, b, c.tile_mut([m, n])?)?;
        }
        Ok(())
    };
    choose()?;
    let before = allocations();
    choose()?;
    assert_eq!(allocations() - before, 0);
    Ok(())
}
