//! Kernels that compute the same as their formulas over the real numbers, for all data of a size.

use crate::{
    ampere_gemm, ampere_gemm_f64, ampere_gemm_pipelined, ampere_gemm_warp, hopper_wgmma_tile, is_thorough, rms_norm,
};
use libtest_mimic::{Completion, Trial};
use ptx_kernels::gemm::{Gemm, algorithms};
use ptx_launch::prelude::*;
use ptx_launch::{Real, RealElement, Reals, Result, TensorRef, Unproved, prove_equal};

/// A name, the proof, and whether it takes seconds.
type Case = (&'static str, fn(&Reals) -> Result<()>, bool);

const EQUAL: &[Case] = &[
    ("gemm_warp", warp, false),
    ("gemm_pipelined", pipelined, false),
    ("ampere_gemm", ampere, true),
    ("gemm_f64", doubles, false),
    ("hopper_wgmma_tile", wgmma_tile, true),
    ("hopper_gemm, tiles claimed", |reals| library(reals, "claimed"), true),
    ("hopper_gemm, stream-K", |reals| library(reals, "streamk"), true),
    ("rms_norm", normalize, false),
    ("a factor of two", |reals| twice(reals, 2.0), false),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let equal = EQUAL.iter().map(|(name, case, long)| {
        Trial::ignorable_test(format!("{name} is its formula over the real numbers"), move || {
            match *long && !is_thorough() {
                true => Ok(Completion::ignored_with("takes seconds: set PTX_THOROUGH=1")),
                false => Ok(prove_equal(case).map(|()| Completion::Completed)?),
            }
        })
    });
    let others = OTHERS.iter().map(|(name, case, is)| {
        Trial::test(format!("{name} over the real numbers"), move || match prove_equal(case) {
            Err(why) if is(&why) => Ok(()),
            other => Err(format!("{other:?}").into()),
        })
    });
    equal.chain(others)
}

/// A name, a comparison that fails, and how.
type Other = (&'static str, fn(&Reals) -> Result<()>, fn(&Unproved) -> bool);

const OTHERS: &[Other] = &[
    ("a product of the other operands is another one", swapped, |why| matches!(why, Unproved::Different(_))),
    (
        "a factor that differs by little is another one",
        |reals| twice(reals, 2.000_000_2),
        |why| matches!(why, Unproved::Different(_)),
    ),
    ("a maximum is not decided", |reals| unary(reals, |device, x, y| wrong::relu(device, x, y)), is_unknown),
    ("a test of bits is not decided", |reals| unary(reals, |device, x, y| wrong::positive(device, x, y)), is_unknown),
    (
        "a number as an address is not decided",
        |reals| unary(reals, |device, x, y| wrong::indexed(device, x, y)),
        is_unknown,
    ),
    (
        "bits in shared memory are not decided",
        |reals| unary(reals, |device, x, y| wrong::staged(device, x, y)),
        is_unknown,
    ),
    (
        "a square root that differs is not decided",
        |reals| unary(reals, |device, x, y| wrong::root(device, x, y)),
        is_unknown,
    ),
];

fn is_unknown(why: &Unproved) -> bool {
    matches!(why, Unproved::Unknown(_))
}

/// Kernels that are the identity for positive numbers, or for some of them.
#[ptx_module(arch = "sm_80")]
mod wrong {
    /// `max(x, 0)`.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn relu(x: &[f32], y: &mut [f32]) {
        let (from, to) = (x.at(tid.x), y.at(tid.x));
        let v: f32;
        ptx! { ld.global.f32 v, [from]; max.f32 v, v, 0.0; st.global.f32 [to], v; }
    }

    /// Stores nothing for numbers with a sign.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn positive(x: &[f32], y: &mut [f32]) {
        let (from, to) = (x.at(tid.x), y.at(tid.x));
        let v: s32;
        ptx! { ld.global.b32 v, [from]; }
        if v >= 0 {
            ptx! { st.global.b32 [to], v; }
        }
    }

    /// Stores at a place that the bits of a number name.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn indexed(x: &[f32], y: &mut [f32]) {
        let from = x.at(tid.x);
        let v: u32;
        ptx! { ld.global.b32 v, [from]; }
        let to = y.at(v % 32);
        ptx! { st.global.b32 [to], v; }
    }

    /// The test of bits, by another thread, of a number in shared memory.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn staged(x: &[f32], y: &mut [f32]) {
        #[shared]
        let stage: [u32; 32];
        let (from, to, own, other) = (x.at(tid.x), y.at(tid.x), stage.at(tid.x), stage.at(31 - tid.x));
        let (v, mirrored): u32;
        let number: f32;
        ptx! {
            ld.global.f32   number, [from];
            st.shared.f32   [own], number;
            bar.sync        0;
            ld.shared.u32   mirrored, [other];
            ld.shared.u32   v, [own];
        }
        if mirrored < 0x80000000 {
            ptx! { st.global.u32 [to], v; }
        }
    }

    /// The root of the square.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn root(x: &[f32], y: &mut [f32]) {
        let (from, to) = (x.at(tid.x), y.at(tid.x));
        let v: f32;
        ptx! { ld.global.f32 v, [from]; mul.rn.f32 v, v, v; sqrt.rn.f32 v, v; st.global.f32 [to], v; }
    }

    /// `factor · x`.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
    pub(crate) fn scale(x: &[f32], y: &mut [f32], factor: f32) {
        let (from, to) = (x.at(tid.x), y.at(tid.x));
        let v: f32;
        ptx! { ld.global.f32 v, [from]; mul.rn.f32 v, v, factor; st.global.f32 [to], v; }
    }
}

/// A kernel is the identity.
fn unary(reals: &Reals, launch: fn(&Device, &Buffer<f32>, &mut Buffer<f32>) -> Result<()>) -> Result<()> {
    let x = reals.numbers(32)?;
    let mut y = reals.device().zeros(32)?;
    launch(reals.device(), &x, &mut y)?;
    reals.equal(&y, &x)
}

/// A product with a factor is the sum of two.
fn twice(reals: &Reals, factor: f32) -> Result<()> {
    let x = reals.numbers(32)?;
    let mut y = reals.device().zeros(32)?;
    wrong::scale(reals.device(), &x, &mut y, factor)?;
    let expected: Vec<_> = reals.read(&x)?.into_iter().map(|x| x + x).collect();
    reals.equal(&y, &expected)
}

fn swapped(reals: &Reals) -> Result<()> {
    let [a, b] = [reals.numbers::<f16>(16 * 16)?, reals.numbers::<f16>(16 * 16)?];
    let mut c = reals.device().zeros::<f16>(16 * 16)?;
    ampere_gemm_warp::gemm_warp::<f16>(reals.device(), &b, &a, &mut c, 16, 16, 16)?;
    reals.equal(&c, &product(reals, (&a, &b), [16, 16, 16])?)
}

/// A · Bᵀ: A is `m` × `k`, B is `n` × `k`.
fn product<T: RealElement>(
    reals: &Reals,
    (a, b): (&Buffer<T>, &Buffer<T>),
    [m, n, k]: [usize; 3],
) -> Result<Vec<Real>> {
    let (a, b) = (reals.read(a)?, reals.read(b)?);
    let element = |at: usize| a[at / n * k..][..k].iter().zip(&b[at % n * k..][..k]).map(|(a, b)| *a * *b).sum();
    Ok((0..m * n).map(element).collect())
}

/// A kernel is the product of two matrices.
fn multiplies<T: RealElement, O: RealElement>(
    reals: &Reals,
    shape @ [m, n, k]: [usize; 3],
    launch: impl Fn(&Device, &Buffer<T>, &Buffer<T>, &mut Buffer<O>) -> Result<()>,
) -> Result<()> {
    let (a, b) = (reals.numbers(m * k)?, reals.numbers(n * k)?);
    let mut c = reals.device().zeros(m * n)?;
    launch(reals.device(), &a, &b, &mut c)?;
    reals.equal(&c, &product(reals, (&a, &b), shape)?)
}

fn warp(reals: &Reals) -> Result<()> {
    multiplies(reals, [16, 16, 48], |device, a, b, c| ampere_gemm_warp::gemm_warp::<bf16>(device, a, b, c, 16, 16, 48))
}

fn pipelined(reals: &Reals) -> Result<()> {
    let launch = |device: &Device, a: &_, b: &_, c: &mut _| {
        ampere_gemm_pipelined::gemm_pipelined::<f16>(device, a, b, c, 64, 64, 96)
    };
    multiplies(reals, [64, 64, 96], launch)
}

/// Edges in all three directions.
fn ampere(reals: &Reals) -> Result<()> {
    multiplies(reals, [72, 136, 72], |device, a, b, c| {
        ampere_gemm::kernels::gemm::square::<bf16>(device, a, b, c, 72, 136, 72)
    })
}

fn doubles(reals: &Reals) -> Result<()> {
    multiplies(reals, [32, 32, 12], |device, a: &Buffer<f64>, b: &Buffer<f64>, c: &mut Buffer<f64>| {
        ampere_gemm_f64::kernels::gemm(device, a.tile([32, 12])?, b.tile([32, 12])?, c.tile_mut([32, 32])?)
    })
}

fn wgmma_tile(reals: &Reals) -> Result<()> {
    multiplies(reals, [64, 128, 128], |device, a: &Buffer<bf16>, b: &Buffer<bf16>, c: &mut Buffer<f32>| {
        hopper_wgmma_tile::kernels::tile(device, a.tile([64, 128])?, b.tile([128, 128])?, c.tile_mut([64, 128])?)
    })
}

/// The library's GEMM with a scheduler, A and B along K, at edges of its tiles.
fn library(reals: &Reals, scheduler: &str) -> Result<()> {
    let name = algorithms("bf16").find(|name| name.ends_with(scheduler) && name.contains("_kk_"));
    let name = name.ok_or_else(|| ptx_launch::Error::other(format!("no algorithm with {scheduler}")))?;
    let [m, n, k] = [136, 136, 136];
    multiplies(reals, [m, n, k], |device, a: &Buffer<bf16>, b: &Buffer<bf16>, c: &mut Buffer<bf16>| {
        let (a, b) = (TensorRef::strided(a, [m, k], [k, 1])?, TensorRef::strided(b, [k, n], [1, k])?);
        Gemm::<bf16, 2>::new().algorithm(name, 1).run(&device.stream(), a, b, c.tile_mut([m, n])?)
    })
}

fn normalize(reals: &Reals) -> Result<()> {
    const COLUMNS: usize = 2048;
    let (x, weight) = (reals.numbers::<bf16>(COLUMNS)?, reals.numbers::<bf16>(COLUMNS)?);
    let mut out = reals.device().zeros::<bf16>(COLUMNS)?;
    let epsilon: f32 = reals.number();
    rms_norm::rms_norm(reals.device(), &x, &weight, &mut out, epsilon, 1)?;
    let (x, weight) = (reals.read(&x)?, reals.read(&weight)?);
    let mean = x.iter().map(|x| *x * *x).sum::<Real>() / reals.constant(COLUMNS as f64);
    let root = (mean + reals.value(epsilon)).sqrt();
    let expected: Vec<_> = x.iter().zip(&weight).map(|(x, weight)| *x * *weight / root).collect();
    reals.equal(&out, &expected)
}
