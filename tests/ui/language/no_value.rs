use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn branches() {
    let a: u32 = if tid.x == 0 { 1 };
    let b: u32 = if tid.x == 0 { 1 } else { };
    let c: u32 = if tid.x == 0 { 1; } else { 2 };
    let d: u32 = if tid.x == 0 { return; } else { 2 };
}

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn blocks() {
    let a: u32 = loop { break; };
    let b: u32 = { let inner: u32 = 2; };
    let c: u32 = 'block: {
        if tid.x == 0 {
            break 'block;
        }
        3
    };
}

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn functions() {
    fn nothing() {}
    fn sometimes(x: u32) -> u32 {
        if x == 0 { 1 }
    }
    let a: u32 = nothing();
    let b: u32 = sometimes(tid.x);
}

fn main() {}
