//! Positions in the host's source. Nothing here depends on the host.

/// A half-open range in the host's source: bytes of a `.ptx` text, or tokens of a macro's input.
///
/// Only the host can turn it back into lines and columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First position.
    pub lo: u32,
    /// One past the last position.
    pub hi: u32,
}

impl Span {
    /// The range `lo..hi`.
    pub const fn new(lo: u32, hi: u32) -> Self {
        Span { lo, hi }
    }

    /// The same range, counted from `base`.
    pub(crate) fn back(self, base: u32) -> Span {
        Span { lo: self.lo.saturating_sub(base), hi: self.hi.saturating_sub(base) }
    }

    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}
