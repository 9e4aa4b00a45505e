//! A choice allocates nothing, whether the thread keeps it or not.
#![allow(unsafe_code, reason = "an allocator that counts")]

use half::bf16;
use ptx_kernels::gemm::Gemm;
use ptx_launch::{Result, TensorRef};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let before = ALLOCATIONS.get();
    choose()?;
    assert_eq!(ALLOCATIONS.get() - before, 0);
    Ok(())
}
