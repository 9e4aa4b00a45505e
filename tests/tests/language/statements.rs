//! One statement, one meaning.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(instructions_are_emitted_token_for_token),
        super::passes!(comments_reach_the_driver_as_ascii),
        super::passes!(the_version_is_the_lowest_that_the_target_allows),
        super::passes!(each_target_has_its_text),
        super::passes!(loops_over_ranges_are_unrolled),
        super::passes!(shared_arrays_have_an_address),
        super::passes!(the_helper_library_is_read_when_it_is_named),
        super::assembles("library::PTX", library::PTX),
        super::assembles("saxpy::PTX", saxpy::PTX),
        super::assembles("branches::PTX", branches::PTX),
        super::assembles("branches::TEXTS[1]", branches::TEXTS[1].1),
        super::assembles("unrolled::PTX", unrolled::PTX),
        super::assembles("shared_memory::PTX", shared_memory::PTX),
    ]
}

/// Multiplies and adds.
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, y.len() >= n)))]
pub fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let (px, py): (u64, u64) = (x + wide(i) * 4, y + wide(i) * 4);
        let (vx, vy): (f32, f32);
        ptx! {
            ld.global.f32   vx, [px];   // verbatim
            ld.global.f32   vy, [py];
            fma.rn.f32      vy, alpha, vx, vy;
            st.global.f32   [py], vy;
        }
    }
}

fn instructions_are_emitted_token_for_token() {
    let ptx = saxpy::PTX;
    assert!(ptx.contains(".visible .entry saxpy("), "{ptx}");
    assert!(ptx.contains(".reqntid 256"), "{ptx}");
    assert!(ptx.contains("ld.global.f32   %vx, [%px];   // verbatim"), "{ptx}");
    assert!(ptx.contains("fma.rn.f32      %vy, %alpha, %vx, %vy;"), "{ptx}");
    assert_eq!(saxpy::KERNEL.params.len(), 4);
}

#[ptx_kernel(arch = "sm_80")]
fn commented(out: &mut [f32]) {
    ptx! { st.global.f32 [out], 0f40490FDB;     // π
    }
}

fn comments_reach_the_driver_as_ascii() {
    assert!(commented::PTX.is_ascii() && commented::PTX.contains("// ?"), "{}", commented::PTX);
}

fn the_version_is_the_lowest_that_the_target_allows() {
    assert!(saxpy::PTX.starts_with(".version 7.0\n.target sm_80\n"), "{}", saxpy::PTX);
}

#[ptx_kernel(arch("sm_80", "sm_90a"), version = "8.4")]
fn branches(out: &mut [u32], n: u32) {
    let mut sum: u32 = 0;
    let mut i: u32 = 0;
    'outer: while i < n {
        loop {
            i += 1;
            if i == 7 {
                continue 'outer;
            } else if i > 9 {
                break 'outer;
            }
            sum += i;
        }
    }
    if arch >= sm_90 {
        ptx! { st.global.u32 [out], sum; }
    } else {
        ptx! { st.global.u32 [out + 4], sum; }
    }
}

fn each_target_has_its_text() {
    let [("sm_80", old), ("sm_90a", new)] = branches::TEXTS else { panic!("{:?}", branches::TEXTS) };
    assert!(old.contains("[%out + 4]") && !new.contains("[%out + 4]"));
    assert!(new.starts_with(".version 8.4\n.target sm_90a\n"));
}

#[ptx_kernel(arch = "sm_80")]
fn unrolled(out: &mut [f32]) {
    const N: usize = 4;
    let acc: [f32; N];
    for i in 0..N {
        acc[i] = i as f32;
    }
    ptx! { st.global.v4.f32 [out], {acc[..]}; }
}

fn loops_over_ranges_are_unrolled() {
    assert!(unrolled::PTX.contains("{%acc0, %acc1, %acc2, %acc3}"), "{}", unrolled::PTX);
}

#[ptx_kernel(arch = "sm_80", block = 128)]
fn shared_memory(out: &mut [u32]) {
    #[shared(align = 16)]
    let tile: [u32; 128];
    let at: u32 = tile + tid.x * 4;
    let x: u32;
    ptx! {
        st.shared.u32 [at], 7;
        ld.shared.u32 x, [at];
        st.global.u32 [out], x;
    }
}

fn shared_arrays_have_an_address() {
    assert!(shared_memory::PTX.contains(".shared .align 16 .b8 tile[512]") || shared_memory::PTX.contains("tile[128]"));
}

#[ptx_kernel(arch = "sm_80", block = 256)]
fn library(x: &[f32], out: &mut [f32]) {
    let v: f32;
    ptx! { ld.global.f32 v, [x]; }
    let sum: f32 = block::reduce_sum::<8, f32>(v);
    ptx! { st.global.f32 [out], sum; }
}

fn the_helper_library_is_read_when_it_is_named() {
    assert!(library::PTX.contains("shfl.sync.bfly.b32 "), "{}", library::PTX);
}
