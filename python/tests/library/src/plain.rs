//! Functions of every kind of parameter: types by list, strides, scalars, several outputs, a kernel alone.

use ptx_ffi::prelude::*;

/// Adds one to every element; a kernel without a function around it.
#[ptx_ffi::export]
#[ptx_kernel(arch = "sm_80", block = 128, grid = N.div_ceil(128), unsafe(requires(N > 0)))]
fn add_one(x: Tile<f32, (N,)>, out: TileMut<f32, (N,)>) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < N {
        let value: f32;
        let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(i), out.at(i));
        ptx! { ld.global.f32 value, [from]; add.rn.f32 value, value, 1.0; st.global.f32 [to], value; }
    }
}

/// Copies a tensor of any listed type.
#[ptx_ffi::export(shapes(x = [..], out = [..]), types = [f32, f16, bf16, i32, i64, u8])]
fn copy<T: KernelParam>(stream: &Stream, x: TensorRef<'_, T, 1>, mut out: TensorMut<'_, T, 1>) -> Result<()> {
    if !x.is_contiguous() || !out.is_contiguous() {
        return Err(Error::new(ErrorKind::Condition, "x or out has gaps"));
    }
    stream.copy(&x, &mut out)
}

/// out\[i\] = x\[i * step\] · factor, with steps of any tensor.
#[ptx_kernel(arch = "sm_80", block = 64, grid = n.div_ceil(64),
    unsafe(requires(n == 0 || x.len() > (n - 1) as usize * from as usize, n == 0 || out.len() > (n - 1) as usize * to as usize)))]
fn scale_kernel(x: &[f32], out: &mut [f32], n: u32, from: u32, to: u32, factor: f32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let value: f32;
        let (source, target): (Global<f32>, GlobalMut<f32>) = (x.at(i * from), out.at(i * to));
        ptx! { ld.global.f32 value, [source]; mul.rn.f32 value, value, factor; st.global.f32 [target], value; }
    }
}

/// Multiplies a vector with any stride. `sign` is "plus" or "minus"; `twice` doubles.
#[ptx_ffi::export(shapes(x = [n], out = [n]), defaults(factor = 2, twice = false, sign = "plus", times = 1))]
fn scale(
    stream: &Stream,
    x: TensorRef<'_, f32, 1>,
    mut out: TensorMut<'_, f32, 1>,
    factor: f32,
    twice: bool,
    sign: &str,
    times: u8,
) -> Result<()> {
    let sign = match sign {
        "plus" => 1.0,
        "minus" => -1.0,
        other => return Err(Error::new(ErrorKind::Condition, format!("sign: expected plus or minus, found {other}"))),
    };
    let factor = factor * sign * if twice { 2.0 } else { 1.0 } * f32::from(times);
    let ([n], [from], [to]) = (x.shape(), x.strides(), out.strides());
    scale_kernel(stream, &x, &mut out, n as u32, from as u32, to as u32, factor)
}

/// The extents and strides that Rust sees: dimension by dimension, extent and stride.
#[ptx_ffi::export(shapes(x = [.., a, 4], out = [6]))]
fn layout(stream: &Stream, x: TensorRef<'_, f32, 3>, mut out: TensorMut<'_, i64, 1>) -> Result<()> {
    let pairs: Vec<i64> = x.shape().into_iter().zip(x.strides()).flat_map(|(n, s)| [n as i64, s as i64]).collect();
    let host = stream.device().upload(&pairs)?;
    stream.copy(&host, &mut out)
}

/// Half of the columns each: two outputs.
#[ptx_ffi::export(shapes(x = [n], low = [n], high = [n]))]
fn both(
    stream: &Stream,
    x: TensorRef<'_, f32, 1>,
    mut low: TensorMut<'_, f32, 1>,
    mut high: TensorMut<'_, f32, 1>,
) -> Result<()> {
    let ([n], [from]) = (x.shape(), x.strides());
    let steps = [low.strides()[0], high.strides()[0]];
    scale_kernel(stream, &x, &mut low, n as u32, from as u32, steps[0] as u32, 0.5)?;
    scale_kernel(stream, &x, &mut high, n as u32, from as u32, steps[1] as u32, 2.0)
}

/// Launches nothing: the cost of a call alone.
#[ptx_ffi::export(
    types = [f32, bf16], shapes(x = [.., n], weight = [n], out = [.., n]), defaults(eps = 1e-6), backward = nothing_backward
)]
fn nothing<T: KernelParam>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    out: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    let _ = (stream, x, weight, out, eps);
    Ok(())
}

/// Its gradient.
#[ptx_ffi::export(
    types = [f32, bf16], shapes(x = [.., n], weight = [n], grad_out = [.., n], grad_x = [.., n]), defaults(eps = 1e-6)
)]
fn nothing_backward<T: KernelParam>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    grad_out: TensorRef<'_, T, 2>,
    grad_x: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    let _ = (stream, x, weight, grad_out, grad_x, eps);
    Ok(())
}
