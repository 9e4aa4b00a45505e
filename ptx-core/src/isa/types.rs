//! Scalar and packed types: names of lines in the table.

use super::{Gate, table};

/// A scalar or packed type, as an index into [`Table::types`](super::Table::types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(pub u8);

/// Meaning of a type's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `.pred`
    Pred,
    /// `.b8` … `.b128`
    Bits,
    /// `.u8` … `.u64`
    Unsigned,
    /// `.s8` … `.s64`
    Signed,
    /// `.f16`, `.bf16`, `.f32`, `.f64`, `.tf32`
    Float,
    /// Several elements in one register: `.f16x2`, `.e4m3x2` …
    Packed,
    /// `.texref`, `.samplerref`, `.surfref`
    Opaque,
}

/// One `type` line.
#[derive(Debug)]
pub struct TypeInfo {
    /// `u32`
    pub name: &'static str,
    /// Number of bits of one value.
    pub bits: u32,
    /// Meaning of the bits.
    pub class: Class,
    /// The types a register may be declared with to hold it.
    pub registers: Vec<&'static str>,
    /// The same as a set of [`Type`]s.
    pub(crate) holders: u128,
    /// True if `.reg` may declare it.
    pub declares: bool,
    /// True if an integer literal may stand for it.
    pub takes_int: bool,
    /// True if a float literal may stand for it.
    pub takes_float: bool,
    /// Targets and versions that can declare it, unless all.
    pub gate: Option<Gate>,
}

impl Type {
    /// Its line of the table.
    pub fn info(self) -> &'static TypeInfo {
        &table().types[self.0 as usize]
    }

    /// `u32`
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Number of bits of one value.
    pub fn bits(self) -> u32 {
        self.info().bits
    }

    /// Number of bytes of one value in memory.
    pub fn bytes(self) -> u64 {
        u64::from(self.info().bits.div_ceil(8))
    }

    /// Meaning of its bits.
    pub fn class(self) -> Class {
        self.info().class
    }

    /// Returns true if a register declared as `register` may hold it.
    pub fn held_by(self, register: Type) -> bool {
        self.info().holders >> register.0 & 1 == 1
    }

    /// The type of this name, without its dot.
    pub fn find(name: &str) -> Option<Type> {
        table().type_names.get(name).copied()
    }
}
