//! A product in `f64`, with the error that the documentation allows.

use ptx_kernels::gemm::Activation;

/// A value, and the most that a result may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// One rounding of an `f32`, and some more for the steps of an epilogue.
const STEP: f64 = 1.0 / (1u64 << 22) as f64;

impl Expected {
    /// The sum of products, with the bound of tensor cores and `cut` of the sum of magnitudes more for each product; integers are exact.
    pub(crate) fn sum(products: impl Iterator<Item = f64>, exact: bool, tf32: bool, cut: f64) -> Expected {
        let (mut value, mut size, mut count) = (0.0, 0.0, 0);
        for product in products {
            value += product;
            size += product.abs();
            count += 1;
        }
        let unit = 2f64.powi(-24);
        let cut = if tf32 { 2f64.powi(-9) } else { f64::from(count + 1) * cut };
        let relative = if exact { 0.0 } else { 4.0 * f64::from(count + 32) * unit + cut };
        Expected { value, error: relative * size }
    }

    pub(crate) fn times(self, factor: f64) -> Expected {
        let value = self.value * factor;
        Expected { value, error: self.error * factor.abs() + STEP * value.abs() }
    }

    pub(crate) fn plus(self, other: f64) -> Expected {
        let value = self.value + other;
        Expected { value, error: self.error + STEP * (self.value.abs() + other.abs()) }
    }

    pub(crate) fn activated(self, activation: Activation) -> Expected {
        let x = self.value;
        let value = match activation {
            Activation::None => return self,
            Activation::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Activation::Gelu => x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Activation::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                x * 0.5 * (1.0 + inner.tanh())
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
        };
        // No slope is steeper than 1.13.
        Expected { value, error: 1.13 * self.error + 4.0 * STEP * x.abs() }
    }
}

/// The error function: its series, and for large arguments the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size.is_nan() {
        return x;
    }
    let result = if size < 3.0 {
        let (mut term, mut sum) = (size, size);
        for n in 1..120 {
            term *= -size * size / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..60).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (size + below));
        1.0 - (-size * size).exp() / (size + fraction) / std::f64::consts::PI.sqrt()
    };
    result.copysign(x)
}

#[test]
fn the_error_function_is_right() {
    for (x, expected) in
        [(0.0, 0.0), (0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (-1.0, -0.842_700_792_949_714_9)]
    {
        assert!((erf(x) - expected).abs() < 1e-12, "{x}");
    }
    assert_eq!(erf(f64::INFINITY), 1.0);
    assert!((erf(3.0) - 0.999_977_909_503_001_4).abs() < 1e-12);
}
