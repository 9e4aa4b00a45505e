//! Packed types and 8-bit floats by the names that PTX gives them, for the generic arguments of a kernel.
#![allow(non_camel_case_types, reason = "PTX's names")]

#[cfg(feature = "half")]
use half::{bf16, f16};

/// Two `bf16` in 32 bits, the first in the low half.
#[cfg(feature = "half")]
pub type bf16x2 = [bf16; 2];

/// Two `f16` in 32 bits, the first in the low half.
#[cfg(feature = "half")]
pub type f16x2 = [f16; 2];

/// A float of 4 exponent and 3 mantissa bits, as its bits.
pub type e4m3 = u8;
