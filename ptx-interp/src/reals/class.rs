//! Classes of instructions, by what becomes of the numbers that they read.

use crate::field::is_float;
use crate::listing::Code;
use crate::ops::reals::{is_exact, is_function, moves};
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

const BITS: &[&str] = &["and", "or", "xor", "not", "lop3", "prmt", "bfi", "bfe", "shl", "shr", "shf"];

impl Class {
    pub(crate) fn of(code: &Code) -> Class {
        let Some(row) = code.row else { return Class::Other };
        let types: Vec<Type> = code.modifiers.iter().filter_map(|m| Type::find(m)).collect();
        let floats = types.iter().any(|ty| is_float(*ty));
        let opcode = row.opcode();
        match () {
            () if is_exact(opcode) && floats && types.last().is_some_and(|ty| !is_float(*ty)) => Class::Converts,
            () if is_exact(opcode) && floats => Class::Exact,
            () if is_function(opcode) && floats => Class::Unknown,
            () if moves(opcode) => Class::Moves(floats),
            () if BITS.contains(&opcode) => Class::Bits,
            () => Class::Other,
        }
    }
}
