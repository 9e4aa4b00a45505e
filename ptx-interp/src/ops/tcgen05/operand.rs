//! Layout of the factors of `tcgen05.mma` in memory (9.7.16.10.4, 9.7.16.10.6, 9.7.16.10.8): elements in shared and
//! in tensor memory, and the places of the elements of a sparse row.

use super::idesc::{Factor, Form};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::soft::mask;
use crate::tmem::{Taddr, Tmem};
use ptx_target::descriptor::{Descriptor, Major};
use ptx_target::tensor::Swizzle;

/// Bits of a value; those of 4 and 6 bits may stand in wider places.
fn width(ty: &str) -> u32 {
    const WIDTHS: [(&str, u32); 6] = [("f16", 16), ("bf16", 16), ("tf32", 32), ("e2m3", 6), ("e3m2", 6), ("e2m1", 4)];
    WIDTHS.iter().find(|(name, _)| *name == ty).map_or(8, |(_, width)| *width)
}

/// A factor in shared memory.
#[derive(Debug)]
pub(super) struct Shared {
    descriptor: Descriptor,
    /// The second half of a row that does not fit the swizzle's: "byte address mode" of the leading dimension.
    rest: Option<Descriptor>,
    major: Major,
    width: u32,
    /// Elements in 16 bytes; of fewer than 8 bits, `.kind::f8f6f4` has 16 and padding.
    per: usize,
}

impl Shared {
    /// A factor whose rows have `k` elements here.
    pub(super) fn new(bits: u64, factor: Factor, form: &Form, k: usize) -> Result<Shared, Fault> {
        let descriptor = Descriptor::tcgen05(bits).map_err(Fault::undefined)?;
        let major = if factor.transpose { Major::Mn } else { Major::K };
        let atoms = descriptor.swizzle == Swizzle::B128Atom32;
        if factor.transpose && atoms != (form.kind.bits == 32) {
            let rule = if atoms { "only tf32 has" } else { "tf32 needs 128-byte swizzle in pieces of 32 bytes" };
            return Err(Fault::undefined(format!(
                "a transposed matrix of {} with {:?} swizzle: {rule}",
                factor.ty, descriptor.swizzle
            )));
        }
        let rest = if bits >> 52 & 1 == 1 { Some(second(descriptor, major, form)?) } else { None };
        let (room, row) = (descriptor.room(), (k as u64 * u64::from(form.kind.bits)) / 8);
        if major == Major::K && rest.is_none() && descriptor.swizzle != Swizzle::None && row > room {
            let message = format!(
                "rows of {row} bytes at {:#x}, where {:?} swizzle leaves {room}",
                descriptor.start, descriptor.swizzle
            );
            return Err(Fault::undefined(message));
        }
        Ok(Shared { descriptor, rest, major, width: width(factor.ty), per: 128 / form.kind.bits as usize })
    }

    /// `count` lines from `first` on, each `k` codes, one after the other.
    pub(super) fn lines(
        &self,
        ctx: &Ctx,
        rank: usize,
        (first, count): (usize, usize),
        k: usize,
    ) -> Result<Vec<u32>, Fault> {
        let mut codes = vec![0; count * k];
        match self.major {
            Major::K => {
                for line in 0..count {
                    for piece in 0..k / self.per {
                        let at = self.address(first + line, piece);
                        let to = &mut codes[line * k + piece * self.per..][..self.per];
                        self.unpack(ctx.piece(rank, at, self.descriptor.swizzle)?, |i, code| to[i] = code);
                    }
                }
            }
            Major::Mn => {
                for at_k in 0..k {
                    for piece in first / self.per..(first + count).div_ceil(self.per) {
                        let bytes = ctx.piece(rank, self.address(at_k, piece), self.descriptor.swizzle)?;
                        let skipped = (piece * self.per).wrapping_sub(first);
                        self.unpack(bytes, |i, code| {
                            if let Some(to) = codes.get_mut(skipped.wrapping_add(i).wrapping_mul(k).wrapping_add(at_k))
                            {
                                *to = code;
                            }
                        });
                    }
                }
            }
        }
        Ok(codes)
    }

    fn address(&self, line: usize, piece: usize) -> u64 {
        let (line, piece) = (line as u64, piece as u64);
        match &self.rest {
            Some(rest) if 16 * piece >= self.descriptor.room() => {
                rest.piece(self.major, line, piece - self.descriptor.room() / 16)
            }
            _ => self.descriptor.piece(self.major, line, piece),
        }
    }

    fn unpack(&self, bytes: [u8; 16], mut put: impl FnMut(usize, u32)) {
        let word = u128::from_le_bytes(bytes);
        for i in 0..self.per {
            put(i, (word >> (i as u32 * self.width)) as u32 & mask(self.width) as u32);
        }
    }
}

/// Continuation of a row of 96 elements of 4 bits (9.7.16.3.1.2).
fn second(descriptor: Descriptor, major: Major, form: &Form) -> Result<Descriptor, Fault> {
    if form.wide && major == Major::K && descriptor.swizzle == Swizzle::B128 && descriptor.base == 0 {
        return Ok(Descriptor { start: descriptor.leading, ..descriptor });
    }
    let rule = "it exists on sm_103a, for K-major matrices with 128-byte swizzle and base offset 0";
    Err(Fault::undefined(format!("a matrix descriptor whose leading dimension is an address: {rule}")))
}

/// `k` codes of a row of A in tensor memory.
pub(super) fn in_tensor(tmem: &Tmem, at: Taddr, ty: &str, bits: u32, k: usize) -> Result<Vec<u32>, Fault> {
    let words = tmem.row(at, k as u32 * bits / 32)?;
    let width = width(ty);
    // Of 8 bits, those of `e2m1` are in the middle.
    let up = if width == 4 && bits == 8 { 2 } else { 0 };
    let code = |i: u32| words[(i * bits / 32) as usize] >> (i * bits % 32 + up) & mask(width) as u32;
    Ok((0..k as u32).map(code).collect())
}

/// Storage of a chunk of a sparse row: elements of it, stored elements, and the number that belong together.
struct Chunk {
    long: usize,
    stored: usize,
    group: usize,
}

fn chunk(bits: u32) -> Chunk {
    match bits {
        32 => Chunk { long: 2, stored: 1, group: 1 },
        4 => Chunk { long: 8, stored: 4, group: 2 },
        _ => Chunk { long: 4, stored: 2, group: 1 },
    }
}

/// The columns of the metadata of a sparse row, from its address on: the first, and how many.
pub(super) fn metadata_columns(bits: u32, selector: u32) -> (u32, u32) {
    if bits >= 16 { (selector, 1) } else { (0, 2) }
}

/// Positions of the stored elements of a sparse row. `lane` is the row's lane in D. The layouts of the metadata stand
/// in figures; these are CUTLASS's: 8-bit types have a row's 64 bits in its lane; of wider types two lanes that are 8
/// apart share a column, the first half of the row's 32 bits in the lower lane.
pub(super) fn positions(
    tmem: &Tmem,
    at: Taddr,
    lane: u32,
    (bits, selector, k): (u32, u32, usize),
) -> Result<Vec<usize>, Fault> {
    let metadata = if bits >= 16 {
        let half = |which: u32| {
            let lane = (lane & !15) + lane % 8 + 8 * which;
            tmem.row(at.at_lane(lane).right(selector), 1).map(|word| u64::from(word[0]))
        };
        let shift = lane / 8 % 2 * 16;
        (half(0)? >> shift & 0xffff) | (half(1)? >> shift & 0xffff) << 16
    } else {
        let words = tmem.row(at.at_lane(lane), 2)?;
        u64::from(words[0]) | u64::from(words[1]) << 32
    };
    let Chunk { long, stored, group } = chunk(bits);
    let mut found = Vec::with_capacity(k / long * stored);
    for at in 0..k / long {
        let [first, second] = indices(metadata >> (4 * at) & 15, bits == 32)?;
        let first = if bits == 32 { first / 2 } else { first };
        let groups = [first, second].into_iter().take(stored / group);
        found.extend(groups.flat_map(|index| (0..group).map(move |i| at * long + index * group + i)));
    }
    Ok(found)
}

/// The two indices of a chunk's four bits.
fn indices(bits: u64, pair: bool) -> Result<[usize; 2], Fault> {
    const ALL: [u64; 7] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110];
    const PAIRS: [u64; 2] = [0b0100, 0b1110];
    let known: &[u64] = if pair { &PAIRS } else { &ALL };
    if !known.contains(&bits) {
        let known: Vec<String> = known.iter().map(|b| format!("{b:04b}")).collect();
        return Err(Fault::undefined(format!("sparsity metadata of {bits:04b}; it can be {}", known.join(", "))));
    }
    Ok([(bits & 3) as usize, (bits >> 2) as usize])
}
