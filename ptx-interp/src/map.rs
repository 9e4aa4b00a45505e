//! Names of addresses in the words of the source: a byte of a variable, or of a parameter's target.

use super::global::Global;
use super::grid::Grid;
use super::listing::Listing;
use super::names::{Named, Names, sort_by_address};
use super::space::{Place, Where, number};
use ptx_core::ir::VarId;

/// Data that names an address.
#[derive(Clone, Copy)]
pub(super) struct Map<'a> {
    pub listing: &'a Listing,
    pub grid: &'a Grid<'a>,
    pub global: &'a Global,
}

impl Map<'_> {
    /// Name of a place in a space that all threads see alike.
    pub(super) fn name_of(self, place: Place) -> Option<String> {
        match place.space {
            Where::Shared | Where::Cluster => self.shared(place.at),
            Where::Global | Where::Generic => self.global(place.at),
            Where::Const => self.constant(place.at),
            Where::Param => near(&self.names(self.grid.entry)?.params, place.at),
            Where::Local => None,
        }
    }

    /// ``byte 4 of `tile` ``
    pub(super) fn shared(self, at: u64) -> Option<String> {
        let names = self.names(self.grid.entry)?;
        if at >= self.grid.dynamic && self.grid.dynamic_bytes > 0 {
            let byte = at - self.grid.dynamic;
            return Some(match names.dynamic.as_slice() {
                [only] => format!("byte {byte} of `{only}`"),
                _ => format!("byte {byte} of dynamic shared memory"),
            });
        }
        near(&names.shared, at)
    }

    /// A global variable, or the allocation and the parameter that points to it.
    fn global(self, at: u64) -> Option<String> {
        let (base, len) = self.global.around(at)?;
        if let Some(variable) = self.grid.addresses.iter().position(|address| *address == base) {
            let id = self.listing.layout.globals.get(variable)?;
            let name = self.listing.variables.get(id.index())?.name.clone();
            return near(&[Named { at: base, size: len, name }], at);
        }
        let words = self.grid.params.chunks_exact(8).map(number);
        let pointer = (0..).step_by(8).zip(words).find(|(_, word)| word.wrapping_sub(base) < len)?;
        let names = self.names(self.grid.entry)?;
        let param = names.params.iter().rfind(|param| param.at <= pointer.0)?;
        let (name, start) = (&param.name, pointer.1);
        Some(match at.checked_sub(start) {
            Some(byte) if start == base && byte < len => format!("byte {byte} of the {len} that `{name}` points to"),
            Some(byte) if start == base => format!("{} the {len} bytes that `{name}` points to", behind(byte - len)),
            Some(byte) => format!("{byte} bytes behind where `{name}` points"),
            None => format!("{} bytes before where `{name}` points", start - at),
        })
    }

    fn constant(self, at: u64) -> Option<String> {
        let named = |(id, at): &(VarId, u64)| {
            let data = self.listing.variables.get(id.index())?;
            Some(Named { at: *at, size: data.size, name: data.name.clone() })
        };
        let mut list: Vec<Named> = self.listing.layout.constants.iter().filter_map(named).collect();
        sort_by_address(&mut list);
        near(&list, at)
    }

    /// The byte of the frame of a function.
    pub(super) fn frame(self, function: usize, byte: u64) -> Option<String> {
        near(&self.names(function)?.frame, byte)
    }

    fn names(&self, function: usize) -> Option<&Names> {
        self.listing.names.get(function)
    }
}

/// The variable at an address, or the one before it.
fn near(list: &[Named], at: u64) -> Option<String> {
    let Named { at: start, size, name } = list.iter().rfind(|named| named.at <= at)?;
    Some(match at - start {
        0 if *size > 0 => format!("`{name}`"),
        byte if byte < *size => format!("byte {byte} of `{name}`"),
        byte => format!("{} `{name}`, which has {size} bytes", behind(byte - size)),
    })
}

fn behind(bytes: u64) -> String {
    if bytes == 0 { "right behind".into() } else { format!("{bytes} bytes behind") }
}
