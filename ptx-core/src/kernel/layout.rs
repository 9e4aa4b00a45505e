//! The layout of `#[repr(C)]` structs: what the host asserts, and where a kernel finds the fields.

use super::types::Ty;

/// Layout of a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    /// Bytes, a multiple of `align`.
    pub(crate) size: u64,
    /// Bytes.
    pub(crate) align: u64,
    /// Path (`scale`, `shape.rows`), offset, type; fields of inner structs by their whole path.
    pub(crate) fields: Vec<(String, u64, Ty)>,
    /// Name and offset of its own fields only.
    pub(crate) own: Vec<(String, u64)>,
}

impl Layout {
    /// An empty struct.
    pub(crate) fn new() -> Layout {
        Layout { align: 1, ..Layout::default() }
    }

    /// Makes room for a field and gives its offset.
    pub(crate) fn place(&mut self, name: &str, size: u64, align: u64) -> u64 {
        let align = align.max(1);
        let offset = self.size.next_multiple_of(align);
        self.size = offset + size;
        self.align = self.align.max(align);
        self.own.push((name.to_owned(), offset));
        offset
    }

    /// Adds what follows the last field.
    pub(crate) fn finish(mut self) -> Layout {
        self.size = self.size.next_multiple_of(self.align);
        self
    }
}
