use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, unsafe(requires()))]
pub fn chosen_by_the_caller() {
    #[shared(dynamic)]
    let scratch: [f32];
    ptx! { st.shared.f32 [scratch], 0f00000000; }
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn chosen_by_nobody() {
    #[shared(dynamic)]
    let scratch: [f32];
    ptx! { st.shared.f32 [scratch], 0f00000000; }
}

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn chosen_by_an_unsafe_caller() {
    #[shared(dynamic)]
    let scratch: [f32];
    ptx! { st.shared.f32 [scratch], 0f00000000; }
}

fn main() {}
