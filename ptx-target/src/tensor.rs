//! The vocabulary of tensor maps, for whoever makes them and for the CPU device: element types, swizzles and the other
//! choices of the driver's `cuTensorMapEncodeTiled` (PTX 5.5). Variants are in the driver's order.
//!
//! Only numbers and arithmetic of addresses: nothing here reads memory.

/// Element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 8-bit integer, or any 8-bit float.
    U8,
    /// 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// `half::f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `half::bf16`
    Bf16,
    /// `f32`; reductions take subnormals as zero, copies leave them.
    F32Ftz,
    /// `f32`, rounded to 10 bits of fraction, ties to even; every NaN becomes the same one.
    Tf32,
    /// The same; reductions take subnormals as zero, copies leave them.
    Tf32Ftz,
    /// 16 4-bit elements in 8 bytes (driver 12.8).
    U4Align8,
    /// 16 4-bit elements in 8 bytes, 16 bytes apart in shared memory (driver 12.8).
    U4Align16,
    /// 16 6-bit elements in 12 bytes, 16 bytes apart in shared memory (driver 12.8).
    U6Align16,
}

/// Bits of an element, and whether it is a floating-point number, in the order of `CUtensorMapDataType`.
const FACTS: [(u64, bool); 16] = [
    (8, false),
    (16, false),
    (32, false),
    (32, false),
    (64, false),
    (64, false),
    (16, true),
    (32, true),
    (64, true),
    (16, true),
    (32, true),
    (32, true),
    (32, true),
    (4, false),
    (4, false),
    (6, false),
];

impl ElementType {
    /// Every type, in the order of its number.
    pub const ALL: [ElementType; 16] = [
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::I32,
        ElementType::U64,
        ElementType::I64,
        ElementType::F16,
        ElementType::F32,
        ElementType::F64,
        ElementType::Bf16,
        ElementType::F32Ftz,
        ElementType::Tf32,
        ElementType::Tf32Ftz,
        ElementType::U4Align8,
        ElementType::U4Align16,
        ElementType::U6Align16,
    ];

    /// `CUtensorMapDataType`
    pub fn code(self) -> u32 {
        self as u32
    }

    fn facts(self) -> (u64, bool) {
        FACTS.get(self as usize).copied().unwrap_or((8, false))
    }

    /// Bits in global memory.
    pub fn bits(self) -> u64 {
        self.facts().0
    }

    /// True for floating-point types.
    pub fn is_float(self) -> bool {
        self.facts().1
    }

    /// True for types smaller than a byte.
    pub fn is_packed(self) -> bool {
        self.bits() < 8
    }

    /// True for packed types with gaps in shared memory, which have stricter alignments.
    pub fn has_gaps(self) -> bool {
        matches!(self, ElementType::U4Align16 | ElementType::U6Align16)
    }

    /// Elements that are moved as one: 16 of packed types.
    pub fn group(self) -> u64 {
        if self.is_packed() { 16 } else { 1 }
    }

    /// Bytes of a group in global memory.
    pub fn global_bytes(self) -> u64 {
        self.bits() * self.group() / 8
    }

    /// Bytes of a group in shared memory.
    pub fn shared_bytes(self) -> u64 {
        if self.has_gaps() { 16 } else { self.global_bytes() }
    }

    /// The bits of the NaN that [`Fill::Nan`] gives, if the type has one: what an H200 writes.
    pub fn nan(self) -> Option<u64> {
        const HALF: u64 = 0x7ff7;
        match self {
            ElementType::F16 | ElementType::Bf16 => Some(HALF),
            ElementType::F32 | ElementType::F32Ftz | ElementType::Tf32 | ElementType::Tf32Ftz => {
                Some(HALF << 16 | HALF)
            }
            ElementType::F64 => Some(HALF << 48 | HALF << 32 | HALF << 16 | HALF),
            _ => None,
        }
    }
}

/// The order of pieces of 16 bytes in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// As in global memory.
    #[default]
    None,
    /// Within rows of 32 bytes.
    B32,
    /// Within rows of 64 bytes.
    B64,
    /// Within rows of 128 bytes.
    B128,
    /// Within rows of 128 bytes, in pieces of 32 bytes (driver 12.8).
    B128Atom32,
    /// The same, and the two 8-byte halves of 16 bytes exchanged in every other line.
    B128Atom32Flip8,
    /// Within rows of 128 bytes, in pieces of 64 bytes (driver 12.8).
    B128Atom64,
    /// Within rows of 96 bytes; only `tensormap.replace` sets it.
    B96,
}

/// The change of an address by a swizzle: `bits` bits from `low` on are exclusively or-ed with those of the line (the
/// address in units of 128 bytes); with `flip`, bit 3 too with the lowest of the line.
struct Mix {
    /// Bytes of a row.
    span: u64,
    low: u32,
    bits: u32,
    flip: bool,
}

/// In the order of [`Swizzle`].
#[rustfmt::skip]
const MIXES: [Mix; 8] = [
    Mix { span: 16, low: 4, bits: 0, flip: false },
    Mix { span: 32, low: 4, bits: 1, flip: false },
    Mix { span: 64, low: 4, bits: 2, flip: false },
    Mix { span: 128, low: 4, bits: 3, flip: false },
    Mix { span: 128, low: 5, bits: 2, flip: false },
    Mix { span: 128, low: 5, bits: 2, flip: true },
    Mix { span: 128, low: 6, bits: 1, flip: false },
    Mix { span: 96, low: 4, bits: 1, flip: false },
];

/// Bytes of a line: what all patterns count in.
const LINE: u32 = 7;

impl Swizzle {
    /// Every swizzle, in the order of its number.
    pub const ALL: [Swizzle; 8] = [
        Swizzle::None,
        Swizzle::B32,
        Swizzle::B64,
        Swizzle::B128,
        Swizzle::B128Atom32,
        Swizzle::B128Atom32Flip8,
        Swizzle::B128Atom64,
        Swizzle::B96,
    ];

    fn mix(self) -> &'static Mix {
        &MIXES[self as usize]
    }

    /// Bytes of a row of the pattern; 16 without one.
    pub fn span(self) -> u64 {
        self.mix().span
    }

    /// Bytes after which the pattern repeats: what a tile in shared memory is aligned to.
    pub fn repeat(self) -> u64 {
        128 << self.mix().bits
    }

    /// Its name in messages.
    pub fn words(self) -> &'static str {
        const WORDS: [&str; 8] = [
            "no swizzle",
            "32-byte swizzle",
            "64-byte swizzle",
            "128-byte swizzle",
            "128-byte swizzle in pieces of 32 bytes",
            "128-byte swizzle in pieces of 32 bytes with a flip",
            "128-byte swizzle in pieces of 64 bytes",
            "96-byte swizzle",
        ];
        WORDS.get(self as usize).copied().unwrap_or("another swizzle")
    }

    /// The physical position of the byte at an address. The pattern begins at multiples of
    /// [`repeat`](Swizzle::repeat).
    pub fn apply(self, address: u64) -> u64 {
        self.apply_from(address, 0)
    }

    /// The same for a pattern that begins `base` lines of 128 bytes later.
    pub fn apply_from(self, address: u64, base: u64) -> u64 {
        let Mix { low, bits, flip, .. } = *self.mix();
        let line = (address >> LINE).wrapping_sub(base);
        let mixed = address ^ (line & ((1 << bits) - 1)) << low;
        if flip { mixed ^ (line & 1) << 3 } else { mixed }
    }
}

/// Interleaving of channels in global memory: NC/8HWC8 layouts, of 3 to 5 dimensions. The innermost dimension and
/// coordinate count slices of channels (of 16 or 32 bytes, side by side), not elements; which slice it is, the
/// dimension behind the batch defines. One instruction moves one slice of channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interleave {
    /// They are not.
    #[default]
    None,
    /// In slices of 16 bytes.
    B16,
    /// In slices of 32 bytes.
    B32,
}

impl Interleave {
    /// Every interleaving, in the order of its number.
    pub const ALL: [Interleave; 3] = [Interleave::None, Interleave::B16, Interleave::B32];
}

/// Number of bytes that the L2 cache fetches at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Promotion {
    /// The requested bytes.
    #[default]
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

impl Promotion {
    /// Every promotion, in the order of its number.
    pub const ALL: [Promotion; 4] = [Promotion::None, Promotion::B64, Promotion::B128, Promotion::B256];
}

/// Value of elements outside of the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Zero.
    #[default]
    Zero,
    /// A special NaN, which the tensor cores multiply as zero; for floating-point types.
    Nan,
}

impl Fill {
    /// Every fill, in the order of its number.
    pub const ALL: [Fill; 2] = [Fill::Zero, Fill::Nan];
}
