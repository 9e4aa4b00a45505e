//! What an instruction may do with registers and bytes that hold numbers.

use crate::field::is_float;
use crate::listing::Code;
use ptx_core::isa::Type;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Its result is a sum, a product or a quotient.
    Exact,
    /// Its result is a function of which nothing is known but that it is one.
    Unknown,
    /// It moves what it is given; true if that is a float by its type.
    Moves(bool),
    /// It makes other bits of the bits.
    Bits,
    /// An integer becomes a number.
    Converts,
    /// It takes no numbers.
    Other,
}

#[rustfmt::skip]
const EXACT: &[&str] = &["add", "sub", "mul", "fma", "mad", "neg", "div", "rcp", "cvt", "mma", "wgmma"];
const UNKNOWN: &[&str] = &["sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"];
#[rustfmt::skip]
const MOVES: &[&str] = &["mov", "ld", "ldu", "st", "shfl", "selp", "ldmatrix", "stmatrix", "movmatrix", "cp", "wmma"];
const BITS: &[&str] = &["and", "or", "xor", "not", "lop3", "prmt", "bfi", "bfe", "shl", "shr", "shf"];

impl Class {
    pub(crate) fn of(code: &Code) -> Class {
        let Some(row) = code.row else { return Class::Other };
        let types: Vec<Type> = code.modifiers.iter().filter_map(|m| Type::find(m)).collect();
        let floats = types.iter().any(|ty| is_float(*ty));
        let is = |list: &[&str]| list.contains(&row.opcode());
        match () {
            () if is(EXACT) && floats && types.last().is_some_and(|ty| !is_float(*ty)) => Class::Converts,
            () if is(EXACT) && floats => Class::Exact,
            () if is(UNKNOWN) && floats => Class::Unknown,
            () if is(MOVES) => Class::Moves(floats),
            () if is(BITS) => Class::Bits,
            () => Class::Other,
        }
    }
}
