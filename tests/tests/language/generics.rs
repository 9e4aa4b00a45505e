//! Instances.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![super::passes!(each_instance_is_an_entry_of_one_module), super::assembles("fill::PTX", fill::PTX)]
}

#[ptx_kernel(arch = "sm_80", block = N, grid = 1, instances = [(f32, 32), (u32, 64)], unsafe(requires()))]
pub fn fill<T, const N: u32>(value: T, out: &mut [T]) {
    let at: u64 = out + wide(tid.x) * 4;
    ptx! { st.global.b32 [at], value; }
}

fn each_instance_is_an_entry_of_one_module() {
    for entry in [
        <fill::Instance<f32, 32> as fill::Exists>::kernel().entry,
        <fill::Instance<u32, 64> as fill::Exists>::kernel().entry,
    ] {
        assert!(fill::PTX.contains(&format!(".entry {entry}(")), "{entry}\n{}", fill::PTX);
    }
}
