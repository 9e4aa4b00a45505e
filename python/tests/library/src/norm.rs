//! RMSNorm, one thread a row: not fast, but whole. Its gradient needs what the forward pass may leave behind.

use ptx_ffi::prelude::*;

/// rstd\[r\] = 1 / sqrt(mean(x\[r\]²) + eps)
#[ptx_kernel(arch = "sm_80", block = 64, grid = M.div_ceil(64), unsafe(requires(N > 0)))]
fn statistics(x: Tile<f32, (M, N)>, rstd: TileMut<f32, (M,)>, eps: f32) {
    let row: u32 = ctaid.x * ntid.x + tid.x;
    if row < M {
        let (mut sum, mut c): (f32, u32) = (0.0, 0);
        while c < N {
            let v: f32;
            let from: Global<f32> = x.at(row, c);
            ptx! { ld.global.f32 v, [from]; fma.rn.f32 sum, v, v, sum; }
            c += 1;
        }
        let (count, to): (f32, GlobalMut<f32>) = (N as f32, rstd.at(row));
        ptx! { div.rn.f32 sum, sum, count; add.rn.f32 sum, sum, eps; sqrt.rn.f32 sum, sum; rcp.rn.f32 sum, sum; st.global.f32 [to], sum; }
    }
}

/// out\[r\]\[c\] = x\[r\]\[c\] · w\[c\] / sqrt(mean(x\[r\]²) + eps)
#[ptx_kernel(arch = "sm_80", block = 64, grid = M.div_ceil(64), unsafe(requires(N > 0)))]
fn forward(x: Tile<f32, (M, N)>, w: Tile<f32, (N,)>, out: TileMut<f32, (M, N)>, eps: f32) {
    let row: u32 = ctaid.x * ntid.x + tid.x;
    if row < M {
        let (mut sum, mut c): (f32, u32) = (0.0, 0);
        while c < N {
            let v: f32;
            let from: Global<f32> = x.at(row, c);
            ptx! { ld.global.f32 v, [from]; fma.rn.f32 sum, v, v, sum; }
            c += 1;
        }
        let count: f32 = N as f32;
        ptx! { div.rn.f32 sum, sum, count; add.rn.f32 sum, sum, eps; sqrt.rn.f32 sum, sum; rcp.rn.f32 sum, sum; }
        c = 0;
        while c < N {
            let (mut v, f): (f32, f32);
            let (from, scale, to): (Global<f32>, Global<f32>, GlobalMut<f32>) = (x.at(row, c), w.at(c), out.at(row, c));
            ptx! { ld.global.f32 v, [from]; ld.global.f32 f, [scale]; mul.rn.f32 v, v, sum; mul.rn.f32 v, v, f; st.global.f32 [to], v; }
            c += 1;
        }
    }
}

/// grad_x = rstd · (w · g − x · rstd² · mean(w · g · x)), a thread a row.
#[ptx_kernel(arch = "sm_80", block = 64, grid = M.div_ceil(64), unsafe(requires(N > 0)))]
fn backward_x(
    x: Tile<f32, (M, N)>,
    w: Tile<f32, (N,)>,
    rstd: Tile<f32, (M,)>,
    g: Tile<f32, (M, N)>,
    grad_x: TileMut<f32, (M, N)>,
) {
    let row: u32 = ctaid.x * ntid.x + tid.x;
    if row < M {
        let (mut dot, mut c): (f32, u32) = (0.0, 0);
        let at: Global<f32> = rstd.at(row);
        let scale: f32;
        ptx! { ld.global.f32 scale, [at]; }
        while c < N {
            let (from, by, grad): (Global<f32>, Global<f32>, Global<f32>) = (x.at(row, c), w.at(c), g.at(row, c));
            let (v, f, mut d): (f32, f32, f32);
            ptx! { ld.global.f32 v, [from]; ld.global.f32 f, [by]; ld.global.f32 d, [grad]; mul.rn.f32 d, d, f; fma.rn.f32 dot, d, v, dot; }
            c += 1;
        }
        let count: f32 = N as f32;
        ptx! { div.rn.f32 dot, dot, count; mul.rn.f32 dot, dot, scale; mul.rn.f32 dot, dot, scale; }
        c = 0;
        while c < N {
            let (from, by, grad, to): (Global<f32>, Global<f32>, Global<f32>, GlobalMut<f32>) =
                (x.at(row, c), w.at(c), g.at(row, c), grad_x.at(row, c));
            let (mut v, f, mut d): (f32, f32, f32);
            ptx! {
                ld.global.f32 v, [from]; ld.global.f32 f, [by]; ld.global.f32 d, [grad];
                mul.rn.f32 d, d, f; mul.rn.f32 v, v, dot; sub.rn.f32 d, d, v; mul.rn.f32 d, d, scale; st.global.f32 [to], d;
            }
            c += 1;
        }
    }
}

/// grad_w\[c\] = Σ g\[r\]\[c\] · x\[r\]\[c\] · rstd\[r\], a thread a column.
#[ptx_kernel(arch = "sm_80", block = 64, grid = N.div_ceil(64), unsafe(requires(M > 0)))]
fn backward_w(x: Tile<f32, (M, N)>, rstd: Tile<f32, (M,)>, g: Tile<f32, (M, N)>, grad_w: TileMut<f32, (N,)>) {
    let column: u32 = ctaid.x * ntid.x + tid.x;
    if column < N {
        let (mut sum, mut r): (f32, u32) = (0.0, 0);
        while r < M {
            let (from, by, grad): (Global<f32>, Global<f32>, Global<f32>) =
                (x.at(r, column), rstd.at(r), g.at(r, column));
            let (v, f, mut d): (f32, f32, f32);
            ptx! { ld.global.f32 v, [from]; ld.global.f32 f, [by]; ld.global.f32 d, [grad]; mul.rn.f32 d, d, f; fma.rn.f32 sum, d, v, sum; }
            r += 1;
        }
        let to: GlobalMut<f32> = grad_w.at(column);
        ptx! { st.global.f32 [to], sum; }
    }
}

/// RMSNorm over the last dimension: `x · w / sqrt(mean(x²) + eps)`.
#[ptx_ffi::export(
    shapes(x = [.., n], w = [n], out = [.., n], rstd = [..]), defaults(eps = 1e-6), backward = rms_norm_backward
)]
fn rms_norm(
    stream: &Stream,
    x: TensorRef<'_, f32, 2>,
    w: TensorRef<'_, f32, 1>,
    mut out: TensorMut<'_, f32, 2>,
    rstd: Option<TensorMut<'_, f32, 1>>,
    eps: f32,
) -> Result<()> {
    dense("x", x.is_contiguous())?;
    dense("out", out.is_contiguous())?;
    let ([m, n], [_]) = (x.shape(), w.shape());
    if m == 0 || n == 0 {
        return Ok(());
    }
    forward(stream, Tile::of(&x, [m, n])?, Tile::of(&w, [n])?, Tile::of_mut(&mut out, [m, n])?, eps)?;
    match rstd {
        Some(mut rstd) => statistics(stream, Tile::of(&x, [m, n])?, Tile::of_mut(&mut rstd, [m])?, eps),
        None => Ok(()),
    }
}

/// The gradients of `rms_norm`.
#[ptx_ffi::export(shapes(x = [.., n], w = [n], rstd = [..], grad_out = [.., n], grad_x = [.., n], grad_w = [n]))]
fn rms_norm_backward(
    stream: &Stream,
    x: TensorRef<'_, f32, 2>,
    w: TensorRef<'_, f32, 1>,
    rstd: TensorRef<'_, f32, 1>,
    grad_out: TensorRef<'_, f32, 2>,
    grad_x: Option<TensorMut<'_, f32, 2>>,
    grad_w: Option<TensorMut<'_, f32, 1>>,
) -> Result<()> {
    dense("x", x.is_contiguous())?;
    dense("grad_out", grad_out.is_contiguous())?;
    let [m, n] = x.shape();
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (read, row) = (Tile::of(&x, [m, n])?, Tile::of(&rstd, [m])?);
    if let Some(mut to) = grad_x {
        let grad = Tile::of(&grad_out, [m, n])?;
        backward_x(stream, read, Tile::of(&w, [n])?, row, grad, Tile::of_mut(&mut to, [m, n])?)?;
    }
    match grad_w {
        Some(mut to) => backward_w(stream, read, row, Tile::of(&grad_out, [m, n])?, Tile::of_mut(&mut to, [n])?),
        None => Ok(()),
    }
}

fn dense(name: &str, is_dense: bool) -> Result<()> {
    match is_dense {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Condition, format!("{name} has gaps")).help("make it contiguous")),
    }
}
