use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u8]) {
    const TEXT: [u8; 3] = *b"abc";
    let byte: u32 = b'a' as u32 + TEXT[2] as u32;
    let x: u32 = 'a';
    let text: [u8; 3] = b"abc";
    let other: u32 = b'a';
}

fn main() {}
