//! Elementary functions of `f32`.
//!
//! Errors are in units in the last place (ulp) of the exact result. They follow from the PTX manual's bounds for the instructions: 2 ulp for
//! `ex2.approx`, 1 ulp for `rcp.approx`. Special values are those of C's library. The functions that end in `_approx` are the
//! two or four instructions that fast kernels use, with a larger error. Polynomials are minimax fits, their coefficients rounded to `f32`.

/// e to the power `x`, to 3 ulp, subnormal results included. The integer part of x · log2(e) becomes an exponent: `fma.rm`, `max`, `min`,
/// `sub`, `shl`. The fraction takes two `fma` and `ex2.approx.ftz`. A `mul` joins them.
fn exp(x: f32) -> f32 {
    let (mut shifted, mut rest, mut power, whole): (f32, f32, f32, f32);
    let scale: b32;
    // The last bits of 1.5 · 2^23 + 127 + n are the biased exponent of 2^n. The limits keep n between -126 and 126.
    ptx! {
        fma.rm.f32          shifted, x, 1.4426950408889634, 12583039.0;
        max.f32             shifted, shifted, 12582913.0;
        min.f32             shifted, shifted, 12583165.0;
        sub.rn.f32          whole, 12583039.0, shifted;
        fma.rn.f32          rest, x, 1.4426950216293335, whole;
        fma.rn.f32          rest, x, 1.9259629911266175e-8, rest;
        ex2.approx.ftz.f32  power, rest;
        shl.b32             scale, shifted, 23;
        mul.rn.f32          power, power, scale;
    }
    power
}

/// e to the power `x`, to 2 + 1.3 |x| ulp; results below 2^-126 are zero: `mul` and `ex2.approx.ftz`.
fn exp_approx(x: f32) -> f32 {
    let mut power: f32;
    ptx! {
        mul.rn.f32          power, x, 1.4426950408889634;
        ex2.approx.ftz.f32  power, power;
    }
    power
}

/// The natural logarithm, to 2 ulp, of subnormal numbers, too. `x` is m · 2^n with m between 2/3 and 4/3: six instructions, and `mul` for
/// subnormal numbers. Nine `fma` and a `mul` for log(m), `fma` with n · log(2). `lg2.approx` gives the result for zero, infinity and NaN.
fn log(x: f32) -> f32 {
    let (small, ordinary): (pred, pred);
    let (mut scaled, mut exponent, mut mantissa): (f32, f32, f32);
    let (mut bits, mut range): (i32, u32);
    ptx! {
        mov.b32         range, x;
        sub.u32         range, range, 1;
        setp.lt.u32     ordinary, range, 0x7f7fffff;
        setp.lt.f32     small, x, 1.1754943508222875e-38;
        mul.rn.f32      scaled, x, 8388608.0;
        selp.f32        scaled, scaled, x, small;
        selp.f32        exponent, -23.0, 0.0, small;
        mov.b32         bits, scaled;
        sub.s32         bits, bits, 0x3f2aaaab;
        and.b32         bits, bits, 0xff800000;
        mov.b32         range, scaled;
        sub.s32         range, range, bits;
        mov.b32         mantissa, range;
        cvt.rn.f32.s32  scaled, bits;
        fma.rn.f32      exponent, scaled, 1.1920928955078125e-7, exponent;
        sub.rn.f32      mantissa, mantissa, 1.0;
    }
    let mut sum: f32 = -0.12880028784275055;
    for term in [
        0.13984593749046326,
        -0.12187480926513672,
        0.14005734026432037,
        -0.16680195927619934,
        0.2001042664051056,
        -0.2499980628490448,
        0.3333321511745453,
        -0.5,
    ] {
        sum = sum.fma(mantissa, term);
    }
    let special: f32;
    ptx! {
        mul.rn.f32      scaled, mantissa, mantissa;
        fma.rn.f32      sum, scaled, sum, mantissa;
        fma.rn.f32      sum, exponent, 0.6931471805599453, sum;
        lg2.approx.f32  special, x;
    }
    ordinary.select(sum, special)
}

/// The error function, to 4 ulp. Below 0.9 an odd polynomial: `mul` and seven `fma`. Else 1 - 2^q(|x|): seven `fma`, `ex2.approx.ftz`, `sub`. Both
/// are computed; `setp` and `selp` take one, `copysign` its sign.
fn erf(x: f32) -> f32 {
    let (size, square): (f32, f32) = (x.abs(), x * x);
    let mut small: f32 = -0.0006053445977158844;
    for term in
        [0.005004345905035734, -0.026773398742079735, 0.11281978338956833, -0.3761250674724579, 0.12837915122509003]
    {
        small = small.fma(square, term);
    }
    small = small.fma(x, x);
    let mut large: f32 = -3.0048660846659914e-5;
    for term in [
        0.0006223539239726961,
        -0.005996121093630791,
        0.03618346527218819,
        -0.15612874925136566,
        -0.9138044118881226,
        -1.629507303237915,
        0.00024411850608885288,
    ] {
        large = large.fma(size, term);
    }
    ptx! {
        ex2.approx.ftz.f32  large, large;
        sub.rn.f32          large, 1.0, large;
        copysign.f32        large, x, large;
    }
    (size < 0.9).select(small, large)
}

/// The normal distribution's cumulative function Φ(x), which is (1 + erf(x / √2)) / 2, with an absolute error below 2^-22: 2^p(|x|) from eight `fma` and
/// `ex2.approx.ftz`, and 1 minus it for positive `x`: `sub`, `setp`, `selp`.
fn normal_cdf(x: f32) -> f32 {
    let size: f32 = x.abs();
    let mut tail: f32 = -2.840409933924093e-6;
    for term in [
        3.944869968108833e-5,
        -0.00018653995357453823,
        -0.00013601707178168,
        0.007062154822051525,
        -0.05249525606632233,
        -0.45920851826667786,
        -1.1511051654815674,
        -1.0,
    ] {
        tail = tail.fma(size, term);
    }
    ptx! { ex2.approx.ftz.f32 tail, tail; }
    (x < 0.0).select(tail, 1.0 - tail)
}

/// The hyperbolic tangent, to 4 ulp. Below 0.55 an odd polynomial: two `mul` and four `fma`. Else 1 - 2 / (e^(2|x|) + 1): `exp_approx`, two `add`,
/// `rcp.approx.ftz`, `fma`. Both are computed; `setp` and `selp` take one, `copysign` its sign.
fn tanh(x: f32) -> f32 {
    let (size, square): (f32, f32) = (x.abs(), x * x);
    let mut small: f32 = 0.01643787883222103;
    for term in [-0.05267200991511345, 0.1332072913646698, -0.3333294689655304] {
        small = small.fma(square, term);
    }
    small = (small * square).fma(x, x);
    let mut large: f32 = exp_approx(size + size) + 1.0;
    ptx! {
        rcp.approx.ftz.f32  large, large;
        fma.rn.f32          large, large, -2.0, 1.0;
    }
    let mut y: f32 = (size < 0.55).select(small, large);
    ptx! { copysign.f32 y, x, y; }
    y
}

/// The hyperbolic tangent with a relative error below 2^-10.9, by one instruction: `tanh.approx`. For `sm_75` and later.
fn tanh_approx(x: f32) -> f32 {
    let y: f32;
    ptx! { tanh.approx.f32 y, x; }
    y
}

/// The logistic function 1 / (1 + e^-x), to 5 ulp, subnormal results included: `exp` of -|x|, `add`, `rcp.approx.ftz`, and for negative `x` a `mul`:
/// `setp`, `selp`.
fn sigmoid(x: f32) -> f32 {
    let power: f32 = exp(-x.abs());
    let mut high: f32 = power + 1.0;
    ptx! { rcp.approx.ftz.f32 high, high; }
    (x < 0.0).select(high * power, high)
}

/// The logistic function 1 / (1 + e^-x), to 4 + 1.3 |x| ulp; results below 2^-126 are zero: `mul`, `ex2.approx.ftz`, `add`, `rcp.approx.ftz`.
fn sigmoid_approx(x: f32) -> f32 {
    let mut whole: f32;
    ptx! {
        mul.rn.f32          whole, x, -1.4426950408889634;
        ex2.approx.ftz.f32  whole, whole;
        add.rn.f32          whole, whole, 1.0;
        rcp.approx.ftz.f32  whole, whole;
    }
    whole
}
