//! The layout of `#[repr(C)]` structs: what the host asserts, and where a kernel finds the fields.

use super::types::{StructTy, Ty};

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

/// No memory has more bytes than this.
const MOST_BYTES: u64 = 1 << 48;

/// Bytes of a value in memory; `None` for what memory does not hold.
pub(crate) fn size_of(ty: &Ty) -> Option<u64> {
    let size = match ty {
        Ty::Scalar(_) | Ty::Address(_) => ty.register().map(|ty| ty.bytes()),
        Ty::Array(element, len) => size_of(element)?.checked_mul(*len),
        Ty::Struct(of) => Some(layout_of(of)?.size),
        Ty::Tuple(_) => None,
    };
    size.filter(|size| *size <= MOST_BYTES)
}

/// The alignment of a value in memory, in bytes.
pub(crate) fn align_of(ty: &Ty) -> Option<u64> {
    match ty {
        Ty::Scalar(_) | Ty::Address(_) => ty.register().map(|ty| ty.bytes().max(1)),
        Ty::Array(element, _) => align_of(element),
        Ty::Struct(of) => Some(layout_of(of)?.align),
        Ty::Tuple(_) => None,
    }
}

/// The bytes in front of a field.
pub(crate) fn offset_of(of: &StructTy, field: usize) -> Option<u64> {
    layout_of(of)?.own.get(field).map(|(_, offset)| *offset)
}

/// A struct in memory, by the rules of `#[repr(C)]` and its `#[align]`.
fn layout_of(of: &StructTy) -> Option<Layout> {
    let (fields, whole) = &of.aligns;
    let mut layout = Layout { align: (*whole).max(1), ..Layout::new() };
    for (at, (name, ty)) in of.fields.iter().enumerate() {
        let least = fields.get(at).copied().unwrap_or(1);
        layout.place(name, size_of(ty)?, align_of(ty)?.max(least));
    }
    Some(layout.finish())
}
