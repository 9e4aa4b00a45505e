//! Functions that fail, each in its way.

use ptx_ffi::prelude::*;

/// Fails in the way of `how`: "panic", "condition", "memory", "unsupported", "other", or not at all.
#[ptx_ffi::export(shapes(x = [n], out = [n]))]
fn fail(_stream: &Stream, x: TensorRef<'_, f32, 1>, out: TensorMut<'_, f32, 1>, how: &str) -> Result<()> {
    let _ = (x, out);
    let kind = match how {
        "panic" => panic!("on purpose"),
        "condition" => ErrorKind::Condition,
        "memory" => ErrorKind::OutOfMemory,
        "unsupported" => ErrorKind::Unsupported,
        "other" => ErrorKind::Other,
        _ => return Ok(()),
    };
    Err(Error::new(kind, "on purpose"))
}

/// Writes behind the end of `out`.
#[ptx_kernel(arch = "sm_80", block = 1, grid = 1, unsafe(requires(out.len() > 0)))]
fn stray_kernel(out: &mut [f32], distance: u32) {
    let to: GlobalMut<f32> = out.at(distance);
    ptx! { st.global.f32 [to], 1.0; }
}

/// A kernel that leaves its memory, which the CPU device notices. A GPU does where `distance` leads out of all memory.
#[ptx_ffi::export(shapes(x = [n], out = [n]), defaults(distance = 1048576))]
fn stray(stream: &Stream, x: TensorRef<'_, f32, 1>, mut out: TensorMut<'_, f32, 1>, distance: u32) -> Result<()> {
    let _ = x;
    stray_kernel(stream, &mut out, distance)
}
