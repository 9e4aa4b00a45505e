//! `#[ptx_test]`: what users write to test their kernels in `cargo test`.
#![allow(clippy::unwrap_used, reason = "tests")]

use ptx_launch::prelude::*;

/// The sum of a block's values.
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(x.len() >= 64, out.len() >= 1)))]
pub fn sum(x: &[u32], out: &mut [u32]) {
    let v: u32;
    let address: u64 = x + wide(tid.x) * 4;
    ptx! {
        ld.global.u32 v, [address];
        red.global.add.u32 [out], v;
    }
}

/// Pairs of threads swap their numbers, without the barrier that it needs.
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(out.len() >= 64)))]
pub fn hasty(out: &mut [u32]) {
    #[shared]
    let tile: [u32; 64];
    let mine: u32 = tile + tid.x * 4;
    let other: u32 = tile + (tid.x ^ 1) * 4;
    let to: u64 = out + wide(tid.x) * 4;
    let t: u32 = tid.x;
    let v: u32;
    ptx! {
        st.shared.u32 [mine], t;
        ld.shared.u32 v, [other];
        st.global.u32 [to], v;
    }
}

/// The same with both accesses on one line.
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires()))]
#[rustfmt::skip]
pub fn crowded() {
    #[shared]
    let tile: [u32; 64];
    let mine: u32 = tile + tid.x * 4;
    let other: u32 = tile + (tid.x ^ 1) * 4;
    let t: u32 = tid.x;
    let v: u32;
    ptx! { st.shared.u32 [mine], t; } ptx! { ld.shared.u32 v, [other]; }
}

#[test]
fn a_line_of_several_instructions_has_columns() {
    let said = crowded(&Device::cpu()).unwrap_err().to_string();
    let source = include_str!("ptx_test.rs").lines().enumerate();
    let (line, text) = source.into_iter().find(|(_, text)| text.contains("[other]; }")).unwrap();
    for instruction in ["st.shared.u32", "ld.shared.u32"] {
        let column = 1 + text.find(instruction).unwrap();
        assert!(said.contains(&format!("ptx_test.rs:{}:{column}\n       | {instruction}", line + 1)), "{said}");
    }
}

#[ptx_test(seeds = 8)]
fn sums_are_right(device: &Device) -> ptx_launch::Result<()> {
    let mut out = device.zeros::<u32>(1)?;
    sum(device, &device.upload(&[3; 64])?, &mut out)?;
    assert_eq!(out.download()?, [192]);
    Ok(())
}

#[ptx_test]
fn a_missing_barrier_is_found(device: &Device) {
    let Ok(mut out) = device.zeros::<u32>(64) else { return };
    match hasty(device, &mut out) {
        Err(error) => {
            let said = error.to_string();
            let both = said.matches("ptx_test.rs:").count() == 2;
            assert!(both && said.contains("a data race in shared memory") && said.contains("bar.sync"), "{said}");
        }
        Ok(()) => assert!(device.is_cuda(), "the CPU device finds it"),
    }
}

#[ptx_test(seeds = 1)]
fn the_watcher_can_be_turned_off(device: &Device) -> ptx_launch::Result<()> {
    let device = if device.is_cuda() { return Ok(()) } else { Device::cpu().watch(false) };
    hasty(&device, &mut device.zeros::<u32>(64)?)
}

/// Promises about machine code, with `#[ptx_test(assembled)]`.
mod assembled {
    use ptx_launch::prelude::*;

    #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, no_local, max_registers = 32, occupancy = 8, unsafe(requires(x.len() >= 32)))]
    fn double(x: &mut [u32]) {
        let at = x.at(tid.x);
        let mut value: u32;
        ptx! { ld.global.u32 value, [at]; }
        value += value;
        ptx! { st.global.u32 [at], value; }
    }

    // A build does not assemble texts, so that the promise is broken in the test.
    ptx_file!("triple.ptx",
        #[ptx_kernel(grid = 1, max_registers = 2, unsafe(requires(x.len() >= 32)))]
        fn triple(x: &mut [u32]));

    #[ptx_test(assembled)]
    fn promises_that_are_kept(device: &Device) {
        double(device, &mut device.upload(&[1; 32]).unwrap()).unwrap();
    }

    #[ptx_test(assembled, seeds = 1)]
    #[should_panic(expected = "registers a thread, more than 2 on sm_80\n  its attribute promises `max_registers`")]
    fn promises_that_are_broken(device: &Device) {
        triple(device, &mut device.upload(&[1; 32]).unwrap()).unwrap();
    }

    #[ptx_test(assembled, seeds = 1)]
    #[should_panic(expected = "the test launches no kernel")]
    fn tests_without_kernels(_: &Device) {}
}
