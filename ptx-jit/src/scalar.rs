//! The types of arguments, by the names that kernels have for them.

use ptx_runtime::KernelParam;
use ptx_runtime::expansion::{Int, int};

/// A number that kernels take, and an element of slices and tiles.
pub trait Scalar: KernelParam {
    /// The names of the types in a kernel that this one is.
    const NAMES: &'static [&'static str];

    /// The number in a host expression.
    fn number(self) -> Number;
}

/// A number in a host expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer of any type.
    Int(Int),
    /// A floating-point number.
    Float(f64),
}

macro_rules! scalars {
    ($($ty:ty: $($name:literal)* => $number:expr;)*) => { $(
        impl Scalar for $ty {
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn number(self) -> Number {
                let number: fn($ty) -> Number = $number;
                number(self)
            }
        }
    )* };
}
scalars! {
    u8: "u8" "e4m3" => |n| Number::Int(int(n));
    u16: "u16" => |n| Number::Int(int(n));
    u32: "u32" "f16x2" "bf16x2" => |n| Number::Int(int(n));
    u64: "u64" => |n| Number::Int(int(n));
    i8: "i8" => |n| Number::Int(int(n));
    i16: "i16" => |n| Number::Int(int(n));
    i32: "i32" => |n| Number::Int(int(n));
    i64: "i64" => |n| Number::Int(int(n));
    f32: "f32" => |n| Number::Float(n.into());
    f64: "f64" => Number::Float;
}
#[cfg(feature = "half")]
scalars! {
    half::f16: "f16" => |n| Number::Float(n.into());
    half::bf16: "bf16" => |n| Number::Float(n.into());
}
