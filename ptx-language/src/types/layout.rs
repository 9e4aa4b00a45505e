//! The layout of `#[repr(C)]` structs: what the host asserts, and where a kernel finds the fields.

use super::Ty;
use crate::MemoryPlace;
use ptx_core::isa::Type;

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
        let offset = self.size.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        self.size = offset.saturating_add(size);
        self.align = self.align.max(align);
        self.own.push((name.to_owned(), offset));
        offset
    }

    /// Adds what follows the last field.
    pub(crate) fn finish(mut self) -> Layout {
        self.size = self.size.checked_next_multiple_of(self.align).unwrap_or(u64::MAX);
        self
    }
}

/// No memory has more bytes than this.
const MOST_BYTES: u64 = 1 << 48;

/// Bytes of a value in memory; `None` if memory cannot hold it.
pub(crate) fn size_of(ty: &Ty) -> Option<u64> {
    let size = match ty {
        Ty::Scalar(_) | Ty::Address(_) => ty.register().map(|ty| ty.bytes()),
        Ty::Array(element, len) => size_of(element)?.checked_mul(*len),
        Ty::Struct(of) => Some(of.memory.as_ref()?.size),
        Ty::Tuple(_) => None,
    };
    size.filter(|size| *size <= MOST_BYTES)
}

/// The alignment of a value in memory, in bytes.
pub(crate) fn align_of(ty: &Ty) -> Option<u64> {
    match ty {
        Ty::Scalar(_) | Ty::Address(_) => ty.register().map(|ty| ty.bytes().max(1)),
        Ty::Array(element, _) => align_of(element),
        Ty::Struct(of) => Some(of.memory.as_ref()?.align),
        Ty::Tuple(_) => None,
    }
}

/// The most places of a variable that are listed.
const MOST_PLACES: usize = 1024;

/// The numbers of a value in memory: arrays of numbers stay together.
pub(crate) fn places(ty: &Ty) -> Vec<MemoryPlace> {
    let mut found = Vec::new();
    place(ty, String::new(), 0, &mut found);
    found
}

/// The numbers in the fields of a struct, those of arrays one by one.
pub(crate) fn numbers(fields: Vec<(String, u64, Ty)>) -> Vec<(String, u64, Type)> {
    let mut found = Vec::new();
    fields.into_iter().for_each(|(path, offset, ty)| add_numbers(&ty, path, offset, &mut found));
    found
}

fn add_numbers(ty: &Ty, path: String, offset: u64, found: &mut Vec<(String, u64, Type)>) {
    match ty {
        _ if found.len() >= MOST_PLACES => {}
        Ty::Array(element, len) => {
            let size = size_of(element).unwrap_or(0);
            for at in (0..*len).take(MOST_PLACES) {
                add_numbers(element, format!("{path}[{at}]"), offset.saturating_add(at.saturating_mul(size)), found);
            }
        }
        _ => found.extend(ty.scalar().map(|ty| (path, offset, ty))),
    }
}

fn place(ty: &Ty, path: String, offset: u64, found: &mut Vec<MemoryPlace>) {
    match ty {
        _ if found.len() >= MOST_PLACES => {}
        Ty::Struct(of) => {
            let offsets = of.memory.iter().flat_map(|layout| &layout.own);
            for ((name, part), (_, at)) in of.fields.iter().zip(offsets) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                place(part, path, offset.saturating_add(*at), found);
            }
        }
        Ty::Array(element, len) if matches!(element.innermost(), Ty::Struct(_)) => {
            let size = size_of(element).unwrap_or(0);
            for at in (0..*len).take(MOST_PLACES) {
                place(element, format!("{path}[{at}]"), offset.saturating_add(at.saturating_mul(size)), found);
            }
        }
        _ => {
            let dims = ty.extents();
            let numbers = |element: Type| MemoryPlace { path, offset, element: element.name().to_owned(), dims };
            found.extend(ty.innermost().register().map(numbers));
        }
    }
}

/// A struct in memory, by the rules of `#[repr(C)]` and its `#[align]`: the least alignment of each field, and of the whole.
pub(crate) fn of_fields(fields: &[(String, Ty)], (least, whole): &(Vec<u64>, u64)) -> Option<Layout> {
    let mut layout = Layout { align: (*whole).max(1), ..Layout::new() };
    for (at, (name, ty)) in fields.iter().enumerate() {
        let least = least.get(at).copied().unwrap_or(1);
        layout.place(name, size_of(ty)?, align_of(ty)?.max(least));
    }
    Some(layout.finish()).filter(|layout| layout.size <= MOST_BYTES)
}
