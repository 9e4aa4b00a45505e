//! The instruction descriptor of `tcgen05.mma` (9.7.16.4.2): what each kind can be asked for, and what 32 bits ask for.

use crate::fault::Fault;
use ptx_target::descriptor::{Extents, Major};

/// The type of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    F16,
    F32,
    S32,
}

/// The type of scale factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleType {
    Ue4m3,
    Ue8m0,
}

/// A `.kind`.
#[derive(Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    /// The types of A and B by their number; empty: there is none of this number.
    types: &'static [&'static str],
    results: &'static [(u32, Result)],
    /// Bits that an element takes in memory; how many of 256 bits a product sums over.
    pub bits: u32,
    transposes: bool,
    negates: bool,
    /// With `.block_scale`, the types of scale factors by their number.
    scales: &'static [Option<ScaleType>],
}

const F8F6F4: &[&str] = &["e4m3", "e5m2", "", "e2m3", "e3m2", "e2m1"];
const F16_F32: &[(u32, Result)] = &[(0, Result::F16), (1, Result::F32)];
const PLAIN: Kind =
    Kind { name: "", types: &[], results: F16_F32, bits: 8, transposes: true, negates: true, scales: &[] };
/// D is `f32`, and the descriptor does not say so.
const SCALED: Kind = Kind { results: &[], ..PLAIN };

/// Every kind.
pub(super) static KINDS: [Kind; 7] = [
    Kind { name: "kind::f16", types: &["f16", "bf16"], bits: 16, ..PLAIN },
    Kind { name: "kind::tf32", types: &["", "", "tf32"], results: &[(1, Result::F32)], bits: 32, ..PLAIN },
    Kind { name: "kind::f8f6f4", types: F8F6F4, ..PLAIN },
    Kind { name: "kind::i8", types: &["u8", "s8"], results: &[(2, Result::S32)], negates: false, ..PLAIN },
    Kind { name: "kind::mxf8f6f4", types: F8F6F4, scales: &[None, Some(ScaleType::Ue8m0)], ..SCALED },
    Kind {
        name: "kind::mxf4",
        types: &["", "e2m1"],
        bits: 4,
        transposes: false,
        scales: &[None, Some(ScaleType::Ue8m0)],
        ..SCALED
    },
    Kind {
        name: "kind::mxf4nvf4",
        types: &["", "e2m1"],
        bits: 4,
        transposes: false,
        scales: &[Some(ScaleType::Ue4m3), Some(ScaleType::Ue8m0)],
        ..SCALED
    },
];

impl Kind {
    /// Returns true if it is one with `.block_scale`.
    pub(super) fn scaled(&self) -> bool {
        !self.scales.is_empty()
    }

    /// The bits of a descriptor that must be 0.
    fn reserved(&self) -> u32 {
        const SATURATE: u32 = 1 << 3;
        match (self.scaled(), self.bits) {
            (true, 4) => 0x0700_004b | 1 << 12,
            (true, _) => 0x0700_004b | 1 << 31,
            (false, _) if self.integer() => 0x2080_0040,
            (false, _) => 0x2080_0040 | SATURATE,
        }
    }

    /// Returns true if it is of integers.
    pub(super) fn integer(&self) -> bool {
        self.results.first().is_some_and(|(_, result)| *result == Result::S32)
    }
}

/// The parts of the instruction's form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub kind: &'static Kind,
    pub sparse: bool,
    /// `.ws`
    pub stationary: bool,
    /// `.cta_group::2`
    pub pairs: bool,
    /// On `sm_103a` a product of 4-bit types may sum over 96.
    pub wide: bool,
}

/// A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    pub ty: &'static str,
    pub negate: bool,
    /// It stands with its rows (columns of B) together, not with k.
    pub transpose: bool,
    /// "Scale Factor Data ID".
    pub scale: u32,
}

/// A descriptor, decoded and found possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idesc {
    pub selector: u32,
    pub saturate: bool,
    pub result: Result,
    pub a: Factor,
    pub b: Factor,
    pub n: usize,
    /// Rows in all blocks together.
    pub m: usize,
    /// Number of elements of a row of A, zeros of a sparse one included.
    pub k: usize,
    pub scale: Option<ScaleType>,
}

fn refuse<T>(form: &Form, what: impl AsRef<str>) -> std::result::Result<T, Fault> {
    Err(Fault::undefined(format!("an instruction descriptor of {} with {}", form.kind.name, what.as_ref())))
}

impl Idesc {
    /// Decodes 32 bits.
    pub(super) fn new(word: u32, form: &Form) -> std::result::Result<Idesc, Fault> {
        let field = |at: u32, bits: u32| word >> at & ((1 << bits) - 1);
        let kind = form.kind;
        let reserved = kind.reserved();
        if word & reserved != 0 {
            return refuse(form, format!("the bits {:#x}, which must be 0 ({word:#010x})", word & reserved));
        }
        if field(2, 1) != u32::from(form.sparse) {
            let (says, is) = if form.sparse { ("dense", ".sp") } else { ("sparse", "not .sp") };
            return refuse(form, format!("bit 2 that says {says} in an instruction that is {is}"));
        }
        let extents = Extents::of(word);
        let transpose = |major: Major| u32::from(major == Major::Mn);
        let (scale_b, scale_a) = if kind.scaled() { (field(4, 2), field(29, 2)) } else { (0, 0) };
        let a = factor(form, 'A', field(7, 3), (field(13, 1), transpose(extents.majors[0])), scale_a)?;
        let type_bits = if kind.bits == 4 { 2 } else { 3 };
        let b = factor(form, 'B', field(10, type_bits), (field(14, 1), transpose(extents.majors[1])), scale_b)?;
        let found = Idesc {
            selector: if kind.scaled() { 0 } else { field(0, 2) },
            saturate: kind.integer() && field(3, 1) == 1,
            result: result(form, field(4, 2))?,
            a,
            b,
            n: extents.n as usize,
            m: extents.m as usize,
            k: depth(form, kind.bits == 4 && field(31, 1) == 1)?,
            scale: scale_type(form, field(23, 1))?,
        };
        found.check(form)
    }

    fn check(self, form: &Form) -> std::result::Result<Idesc, Fault> {
        let rows: &[usize] = match (form.stationary, form.pairs, form.kind.scaled(), form.sparse) {
            (true, ..) => &[32, 64, 128],
            (_, true, true, true) => &[256],
            (_, true, ..) => &[128, 256],
            (_, false, true, _) => &[128],
            _ => &[64, 128],
        };
        if !rows.contains(&self.m) {
            return refuse(form, format!("M = {}; this instruction takes {rows:?}", self.m));
        }
        if !columns(form, self.b.transpose && form.kind.bits == 8).any(|n| n == self.n) {
            return refuse(form, format!("N = {}, which it does not take here", self.n));
        }
        if self.result == Result::F16 && [self.a.ty, self.b.ty].contains(&"bf16") {
            return refuse(form, "a D of f16 and factors of bf16; it must be f32");
        }
        if self.selector != 0 && form.kind.bits == 8 {
            return refuse(form, format!("sparsity selector {}; it must be 0", self.selector));
        }
        Ok(self)
    }
}

fn factor(
    form: &Form,
    name: char,
    ty: u32,
    (negate, transpose): (u32, u32),
    scale: u32,
) -> std::result::Result<Factor, Fault> {
    let Some(ty) = form.kind.types.get(ty as usize).copied().filter(|ty| !ty.is_empty()) else {
        return refuse(form, format!("type {ty} of {name}, which does not exist"));
    };
    if negate == 1 && !form.kind.negates {
        return refuse(form, format!("a negated {name}; it cannot be negated"));
    }
    let movable = form.kind.transposes && (form.kind.bits != 8 || ["e4m3", "e5m2", "u8", "s8"].contains(&ty));
    if transpose == 1 && !movable {
        return refuse(form, format!("a transposed {name} of {ty}; it cannot be transposed"));
    }
    Ok(Factor { ty, negate: negate == 1, transpose: transpose == 1, scale })
}

fn result(form: &Form, number: u32) -> std::result::Result<Result, Fault> {
    if form.kind.scaled() {
        return Ok(Result::F32);
    }
    match form.kind.results.iter().find(|(known, _)| *known == number) {
        Some((_, result)) => Ok(*result),
        None => refuse(form, format!("type {number} of D, which does not exist")),
    }
}

fn scale_type(form: &Form, number: u32) -> std::result::Result<Option<ScaleType>, Fault> {
    match form.kind.scales.get(number as usize) {
        None => Ok(None),
        Some(Some(ty)) => Ok(Some(*ty)),
        Some(None) => refuse(form, "scale factors of ue4m3; they must be ue8m0"),
    }
}

/// 256 bits of k, twice as many if A is sparse, or the 96 elements of `sm_103a`.
fn depth(form: &Form, wide: bool) -> std::result::Result<usize, Fault> {
    let plain = 256 / form.kind.bits as usize;
    match (wide, form.sparse) {
        (true, false) if form.wide => Ok(96),
        (true, false) => refuse(form, "K = 96, which only sm_103a has"),
        (true, true) => refuse(form, "K = 96 and a sparse A"),
        (false, true) => Ok(2 * plain),
        (false, false) => Ok(plain),
    }
}

/// The N that an instruction takes (Tables 39 and 52).
fn columns(form: &Form, transposed_bytes: bool) -> impl Iterator<Item = usize> {
    let integer = form.kind.integer();
    let (stationary, sparse, pairs) = (form.stationary, form.sparse, form.pairs);
    (8..=256).step_by(8).filter(move |n| match (stationary, pairs) {
        (true, _) => [64, 128].contains(n) || *n == 256 && !sparse,
        (_, true) => n % if integer || transposed_bytes { 32 } else { 16 } == 0,
        _ => !(integer && *n > 32 || transposed_bytes) || n % 16 == 0,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const F16: Form = Form { kind: &KINDS[0], sparse: false, stationary: false, pairs: false, wide: false };

    fn form(kind: &str) -> Form {
        Form { kind: KINDS.iter().find(|k| k.name.ends_with(kind)).unwrap(), ..F16 }
    }

    /// M and N, type 1 of D.
    fn shape(m: u32, n: u32) -> u32 {
        (m / 16) << 24 | (n / 8) << 17 | 1 << 4
    }

    #[test]
    fn fields_stand_where_the_manual_says() {
        let word = shape(64, 24) | 1 << 7 | 1 << 13 | 1 << 16;
        let idesc = Idesc::new(word, &F16).unwrap();
        assert_eq!((idesc.m, idesc.n, idesc.k, idesc.result), (64, 24, 16, Result::F32));
        assert_eq!((idesc.a.ty, idesc.a.negate, idesc.a.transpose), ("bf16", true, false));
        assert_eq!((idesc.b.ty, idesc.b.negate, idesc.b.transpose), ("f16", false, true));
        let scaled = 2 << 4 | 1 << 7 | 1 << 10 | 16 << 17 | 1 << 27 | 2 << 29;
        let idesc = Idesc::new(scaled, &Form { sparse: true, ..form("mxf4nvf4") });
        assert!(idesc.unwrap_err().message.contains("says dense"));
        let idesc = Idesc::new(scaled | 1 << 2, &Form { sparse: true, ..form("mxf4nvf4") }).unwrap();
        assert_eq!((idesc.m, idesc.n, idesc.k, idesc.scale), (128, 128, 128, Some(ScaleType::Ue4m3)));
        assert_eq!((idesc.a.scale, idesc.b.scale, idesc.result), (2, 2, Result::F32));
    }

    #[test]
    fn what_does_not_exist_is_refused_in_words() {
        let why = |word, form: &Form| Idesc::new(word, form).unwrap_err().message;
        assert!(why(shape(48, 16), &F16).contains("M = 48; this instruction takes [64, 128]"));
        assert!(why(shape(128, 0), &F16).contains("N = 0"));
        assert!(why(shape(128, 40), &form("i8")).contains("type 1 of D"));
        assert!(why(shape(128, 40) + (1 << 4), &form("i8")).contains("N = 40"));
        assert!(why(shape(128, 16) | 2 << 7, &F16).contains("type 2 of A"));
        assert!(why(shape(128, 16) | 1 << 6, &F16).contains("must be 0"));
        assert!(why(shape(128, 16) & !(3 << 4) | 1 << 7, &F16).contains("a D of f16"));
        assert!(why((shape(128, 16) + (1 << 4)) | 1 << 13, &form("i8")).contains("negated A"));
        assert!(why(shape(128, 16) | 5 << 10 | 1 << 16, &form(":f8f6f4")).contains("transposed B of e2m1"));
        assert!(
            why(shape(128, 128), &Form { stationary: true, sparse: false, pairs: false, ..form("tf32") })
                .contains("type 0")
        );
        assert!(why(1 << 31 | 1 << 7 | 1 << 10 | 1 << 23 | 1 << 17 | 1 << 27, &form(":mxf4")).contains("K = 96"));
        assert!(why(1 << 7 | 1 << 10 | 1 << 17 | 1 << 27, &form(":mxf4")).contains("ue4m3"));
        assert!(why(1 << 17 | 1 << 27, &form("mxf8f6f4")).contains("ue4m3"));
    }

    #[test]
    fn every_bit_without_a_field_is_zero() {
        let mxf4 = 1 << 7 | 1 << 10 | 16 << 17 | 1 << 23 | 1 << 27;
        for (form, right, reserved) in [
            (F16, shape(128, 16), &[3, 6, 23, 29][..]),
            (form(":f8f6f4"), shape(128, 16), &[3, 6, 23, 29]),
            (form("i8"), shape(128, 16) + (1 << 4), &[6, 23, 29]),
            (form(":mxf4"), mxf4, &[0, 1, 3, 6, 12, 24, 25, 26]),
            (form("mxf8f6f4"), 16 << 17 | 1 << 23 | 1 << 27, &[0, 1, 3, 6, 24, 25, 26, 31]),
        ] {
            assert!(Idesc::new(right, &form).is_ok(), "{}", form.kind.name);
            for bit in reserved {
                let why = Idesc::new(right | 1 << bit, &form).unwrap_err().message;
                assert!(why.contains("must be 0"), "{} {bit}: {why}", form.kind.name);
            }
        }
    }

    #[test]
    fn no_word_panics() {
        let mut word = 1u32;
        for _ in 0..100_000 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for kind in &KINDS {
                for bits in 0..8 {
                    let [sparse, stationary, pairs] = [1, 2, 4].map(|bit| bits & bit != 0);
                    let _ = Idesc::new(word, &Form { kind, sparse, stationary, pairs, wide: true });
                }
            }
        }
    }
}
