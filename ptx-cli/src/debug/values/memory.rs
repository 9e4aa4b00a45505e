//! Shared memory as its variables declare it: the fields of structs, the elements of arrays, else words.

use super::{Item, Scope, Types, number};
use ptx_core::isa::Type;
use ptx_expand::program::{MemoryLayout, MemoryPlace};
use ptx_interp::debug::{Stop, Variable};

/// The most elements of an array, or words of a variable, that are listed.
const MOST: usize = 4096;
/// The most elements of an array in one line.
const MOST_IN_LINE: usize = 16;

/// The fields of a variable; the elements of one that is an array.
pub(super) fn fields(variable: &Variable, types: &Types) -> Vec<Item> {
    let Some(layout) = layout_of(variable, types) else { return words(&variable.bytes) };
    match layout.places.as_slice() {
        [only] if only.path.is_empty() => elements(&variable.bytes, only),
        places => places
            .iter()
            .map(|place| Item {
                name: place.path.clone(),
                value: in_line(&variable.bytes, place),
                inside: (!place.dims.is_empty()).then(|| Scope::Place { at: variable.at, place: place.clone() }),
            })
            .collect(),
    }
}

/// The layout of a variable: dynamic memory has the size that the launch gives it.
fn layout_of<'t>(variable: &Variable, types: &'t Types) -> Option<&'t MemoryLayout> {
    let named = || types.memory.iter().filter(|layout| layout.symbol == variable.name);
    named().find(|layout| layout.size == variable.bytes.len() as u64).or_else(|| named().next())
}

/// The elements of an array in a variable.
pub(super) fn elements(bytes: &[u8], place: &MemoryPlace) -> Vec<Item> {
    let item = |at: usize| Some(Item { name: index(&place.dims, at), value: element(bytes, place, at)?, inside: None });
    (0..count(place).min(MOST)).map_while(item).collect()
}

fn count(place: &MemoryPlace) -> usize {
    place.dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim)).map_or(usize::MAX, |n| n as usize)
}

/// `[1][3]`: the place of an element in an array of these lengths.
fn index(dims: &[u64], at: usize) -> String {
    let mut rest = at as u64;
    let mut indices = Vec::with_capacity(dims.len());
    for dim in dims.iter().rev() {
        indices.push(rest % (*dim).max(1));
        rest /= (*dim).max(1);
    }
    indices.iter().rev().map(|index| format!("[{index}]")).collect()
}

fn element(bytes: &[u8], place: &MemoryPlace, at: usize) -> Option<String> {
    let ty = Type::find(&place.element)?;
    let size = ty.bytes().max(1) as usize;
    let start = usize::try_from(place.offset).ok()?.checked_add(at.checked_mul(size)?)?;
    let mut eight = [0; 8];
    let own = bytes.get(start..start.checked_add(size)?)?;
    eight.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
    Some(number(Some(ty), u64::from_le_bytes(eight)))
}

/// A number, or the first of an array.
fn in_line(bytes: &[u8], place: &MemoryPlace) -> String {
    if place.dims.is_empty() {
        return element(bytes, place, 0).unwrap_or_default();
    }
    let all = count(place);
    let first: Vec<_> = (0..all.min(MOST_IN_LINE)).map_while(|at| element(bytes, place, at)).collect();
    format!("[{}{}]", first.join(", "), if all > MOST_IN_LINE { ", …" } else { "" })
}

/// `tile`, `tile[3]`, `stages[1].a[2][5]`: a variable, a field, or an element.
pub(super) fn evaluate(stop: &Stop<'_>, text: &str, types: &Types) -> Option<String> {
    stop.shared().iter().find_map(|variable| {
        let rest = text.strip_prefix(variable.name.as_str()).filter(|_| !variable.name.is_empty())?;
        let layout = layout_of(variable, types)?;
        if let ("", [_, ..]) = (rest, layout.places.as_slice())
            && !layout.places.iter().any(|place| place.path.is_empty())
        {
            let all = layout.places.iter().map(|place| format!("{}: {}", place.path, in_line(&variable.bytes, place)));
            return Some(all.collect::<Vec<_>>().join("\n"));
        }
        let path = rest.strip_prefix('.').unwrap_or(rest);
        layout.places.iter().find_map(|place| {
            let behind = path.strip_prefix(place.path.as_str())?;
            match behind {
                "" => Some(in_line(&variable.bytes, place)),
                _ => element(&variable.bytes, place, position(&place.dims, behind)?),
            }
        })
    })
}

/// The number of the element that `[1][3]` names.
fn position(dims: &[u64], text: &str) -> Option<usize> {
    let indices: Vec<u64> = text
        .strip_prefix('[')?
        .strip_suffix(']')?
        .split("][")
        .map(|index| index.trim().parse().ok())
        .collect::<Option<_>>()?;
    let fits = indices.len() == dims.len() && indices.iter().zip(dims).all(|(index, dim)| index < dim);
    fits.then(|| indices.iter().zip(dims).fold(0, |at, (index, dim)| at * (*dim as usize) + *index as usize))
}

/// Words of 32 bits, as integers and as floats.
fn words(bytes: &[u8]) -> Vec<Item> {
    let word = |(at, word): (usize, &[u8])| {
        let mut four = [0; 4];
        four.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
        let value = u32::from_le_bytes(four);
        Item {
            name: format!("[{}]", at * 4),
            value: format!("{value:#010x} = {value} = {:?}", f32::from_bits(value)),
            inside: None,
        }
    };
    bytes.chunks(4).take(MOST).enumerate().map(word).collect()
}
