//! `math`: functions of `f32` against the host's in `f64`, and their special values.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Every function of the module on the same inputs; `out` has a row for each.
#[ptx_kernel(arch = "sm_75", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, out.len() >= 9 * n)))]
pub fn functions(x: &[f32], out: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * 256 + tid.x;
    if i < n {
        let from = x.at(i);
        let v: f32;
        ptx! { ld.global.f32 v, [from]; }
        put::<0>(out, math::exp(v), i, n);
        put::<1>(out, math::log(v), i, n);
        put::<2>(out, math::erf(v), i, n);
        put::<3>(out, math::tanh(v), i, n);
        put::<4>(out, math::sigmoid(v), i, n);
        put::<5>(out, math::normal_cdf(v), i, n);
        put::<6>(out, math::exp_approx(v), i, n);
        put::<7>(out, math::sigmoid_approx(v), i, n);
        put::<8>(out, math::tanh_approx(v), i, n);
    }

    fn put<const ROW: u32>(out: GlobalMut<f32>, value: f32, i: u32, n: u32) {
        let to = out.at(ROW * n + i);
        ptx! { st.global.f32 [to], value; }
    }
}

/// A function, its name, and the error that its documentation allows at an input, in ulp of the result, plus an absolute one.
struct Function {
    name: &'static str,
    exact: fn(f64) -> f64,
    ulps: fn(f64) -> f64,
    absolute: f64,
}

const TINY: f64 = f32::MIN_POSITIVE as f64;

const FUNCTIONS: [Function; 9] = [
    Function { name: "exp", exact: f64::exp, ulps: |_| 3.0, absolute: 0.0 },
    Function { name: "log", exact: f64::ln, ulps: |_| 2.0, absolute: 0.0 },
    Function { name: "erf", exact: erf, ulps: |_| 4.0, absolute: 0.0 },
    Function { name: "tanh", exact: f64::tanh, ulps: |_| 4.0, absolute: 0.0 },
    Function { name: "sigmoid", exact: sigmoid, ulps: |_| 5.0, absolute: 0.0 },
    Function { name: "normal_cdf", exact: normal_cdf, ulps: |_| 0.0, absolute: 2.4e-7 },
    Function { name: "exp_approx", exact: f64::exp, ulps: |x| 2.0 + 1.3 * x.abs(), absolute: TINY },
    Function { name: "sigmoid_approx", exact: sigmoid, ulps: |x| 4.0 + 1.3 * x.abs(), absolute: TINY },
    Function { name: "tanh_approx", exact: f64::tanh, ulps: |_| 8788.0, absolute: 0.0 },
];

/// The error function: its series near zero, a continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    if x.abs() >= 3.0 {
        return x.signum() * (1.0 - erfc_fraction(x.abs()));
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// 1 - erf(x) for x above 2.
fn erfc_fraction(x: f64) -> f64 {
    let fraction = (1..200).rev().fold(x, |below, n| x + f64::from(n) / 2.0 / below);
    if x > 30.0 { 0.0 } else { (-x * x).exp() / fraction / std::f64::consts::PI.sqrt() }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// The distance between neighbors of `f32` at a value.
fn ulp(value: f64) -> f64 {
    let exponent = value.abs().max(TINY).log2().floor().min(127.0);
    (exponent - 23.0).exp2()
}

/// Inputs of every size and sign, dense where functions change, and special ones.
fn inputs() -> Vec<f32> {
    let special =
        [0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 88.7228, 88.72284, 103.9, 104.0];
    let sizes = (0..0x7f80_0000u32).step_by(0x7f80_0000 / 6000).map(f32::from_bits);
    let near = (0..12_000).map(|i| i as f32 * 1e-3);
    let ones = (0..2000).map(|i| 1.0 + (i as f32 - 1000.0) * 3e-7);
    let all = special.into_iter().chain(sizes).chain(near).chain(ones);
    all.flat_map(|x| [x, -x]).collect()
}

#[test]
fn functions_keep_their_error_bounds() -> Result<()> {
    let (device, x) = (Device::named(&std::env::var("PTX_DEVICE").unwrap_or_else(|_| "cpu".into()))?, inputs());
    let mut out = device.zeros::<f32>(9 * x.len())?;
    functions(&device.stream(), &device.upload(&x)?, &mut out, x.len() as u32)?;
    for (function, row) in FUNCTIONS.iter().zip(out.download()?.chunks(x.len())) {
        let mut worst = 0.0f64;
        for (x, y) in x.iter().map(|x| f64::from(*x)).zip(row.iter().map(|y| f64::from(*y))) {
            let exact = (function.exact)(x);
            let rounded = f64::from(exact as f32);
            if rounded.is_finite() && y.is_finite() {
                let error = (y - exact).abs();
                let allowed = (function.ulps)(x) * ulp(exact) + function.absolute;
                assert!(
                    error <= allowed,
                    "{}({x:e}) is {y:e} and not {exact:e}: {} ulp",
                    function.name,
                    error / ulp(exact)
                );
                worst = worst.max((error - function.absolute).max(0.0) / ulp(exact));
            } else {
                let overflows = exact > f64::from(f32::MAX) * 0.9999 && y.is_infinite() == rounded.is_finite();
                let same = y.is_nan() == rounded.is_nan() && (y.is_nan() || y == rounded);
                assert!(same || overflows, "{}({x:e}) is {y:e} and not {exact:e}", function.name);
            }
        }
        println!("{}: {worst:.2} ulp", function.name);
    }
    Ok(())
}

#[test]
fn zeros_keep_their_sign() -> Result<()> {
    let device = Device::cpu();
    let mut out = device.zeros::<f32>(18)?;
    functions(&device.stream(), &device.upload(&[0.0, -0.0])?, &mut out, 2)?;
    let out = out.download()?;
    for row in [2, 3, 8] {
        assert_eq!([out[2 * row].to_bits(), out[2 * row + 1].to_bits()], [0, 0x8000_0000], "{}", FUNCTIONS[row].name);
    }
    Ok(())
}
