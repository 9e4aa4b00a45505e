//! Pictures of the layouts of matrix fragments in registers, in text, drawn from the functions that the CPU device uses.

use ptx_core::isa::Type;
use ptx_core::isa::find::Form;
use ptx_interp::layouts::{Cell, Spread, TRANSFERS, Tile};
use std::fmt::Write;

type Drawer = fn(&Form) -> Option<String>;

/// Drawers by the name of the instruction.
const DRAWERS: &[(&str, Drawer)] =
    &[("mma", products), ("wgmma.mma_async", accumulators), ("tcgen05.ld", transfers), ("tcgen05.st", transfers)];

/// The layouts of an instruction's fragments, if it has any.
pub(crate) fn pictures(form: &Form) -> Option<String> {
    let name = form.row.name;
    DRAWERS.iter().find(|(known, _)| *known == name).and_then(|(_, draw)| draw(form))
}

/// The extents in `m16n8k32`.
fn shape(form: &Form) -> Option<[usize; 3]> {
    form.slots.iter().flatten().find_map(|member| {
        let (m, rest) = member.text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    })
}

/// A, B and D of `mma`.
fn products(form: &Form) -> Option<String> {
    let [rows, _, depth] = shape(form)?;
    let types: Vec<Type> = form.slots.iter().flatten().filter_map(|member| member.ty).collect();
    let [d, a, b, ..] = types[..] else { return None };
    // Eight rows of 16-bit elements are Volta's, in quads of threads.
    if rows == 8 && a.bits() == 16 {
        return None;
    }
    let per = |ty: Type| usize::try_from(32 / ty.bits().clamp(1, 32)).unwrap_or(1);
    let (a, b, in_d) = (per(a), per(b), per(d));
    let spread = |lines: usize| Spread::Quads { high: lines / 8 };
    let held = |name: char, (register, lane, _): (usize, usize, usize)| format!("T{lane} {name}{register}");
    let tile = Tile::Quads { high: rows / 8 };
    let sums = |row: usize, column: usize| {
        place_of(tile, rows * 8 / 32, row, column).map(|(lane, i)| format!("T{lane} d{}", i / in_d))
    };
    Some(
        [
            grid(&format!("A, {rows} rows × {depth} (K){}", packed(a)), [rows, depth / a], a, &|row, k| {
                Some(held('a', spread(rows).place(row, k * a, a)))
            }),
            grid(&format!("B, {depth} (K) × 8 columns{}", packed(b)), [depth / b, 8], 1, &|k, column| {
                Some(held('b', spread(8).place(column, k * b, b)))
            }),
            grid(&format!("C and D, {rows} rows × 8 columns"), [rows, 8], 1, &sums),
        ]
        .join("\n"),
    )
}

fn packed(per: usize) -> String {
    if per == 1 { String::new() } else { format!(", {per} neighbors along K in a register") }
}

/// D of `wgmma`: a warp has 16 rows.
fn accumulators(form: &Form) -> Option<String> {
    let [_, columns, _] = shape(form)?;
    let shown = columns.min(16);
    let tile = Tile::Quads { high: 2 };
    let cell =
        |row: usize, column: usize| place_of(tile, columns / 2, row, column).map(|(lane, i)| format!("T{lane} d{i}"));
    let title = format!(
        "D, the 16 rows of a warp (warp w: rows 16·w …) × the first {shown} of {columns} columns; 8 columns further are 4 registers"
    );
    Some(grid(&title, [16, shown], 1, &cell))
}

/// The lane and the register that hold an element of D.
fn place_of(tile: Tile, registers: usize, row: usize, column: usize) -> Option<(usize, usize)> {
    let places = (0..32).flat_map(|lane| (0..registers).map(move |i| (lane, i)));
    places.into_iter().find(|(lane, i)| tile.position(*lane, *i) == (row, column))
}

/// Lanes and columns of tensor memory.
fn transfers(form: &Form) -> Option<String> {
    let shapes = || form.slots.iter().flatten();
    let (name, (lanes, place)) = TRANSFERS.iter().find(|(name, _)| shapes().any(|member| member.text == *name))?;
    let place: Cell = *place;
    let cell = |lane: usize, column: usize| {
        let places = (0..32u32).flat_map(|thread| (0..8).map(move |register| (thread, register)));
        let found = places.into_iter().find(|(t, r)| place(*t, *r) == (lane as u32, column as u32));
        found.map(|(thread, register)| format!("T{thread} r{register}"))
    };
    let lanes = usize::try_from(*lanes).unwrap_or(0);
    Some(grid(
        &format!("{name}: {lanes} lanes × the first columns of 32 bits, for the first warp"),
        [lanes, 8],
        1,
        &cell,
    ))
}

/// A table with a row of numbers above, in steps of `step`, and one at the left.
fn grid(
    title: &str,
    [rows, columns]: [usize; 2],
    step: usize,
    cell: &dyn Fn(usize, usize) -> Option<String>,
) -> String {
    const WIDTH: usize = 8;
    let mut out = format!("{title}\n```text\n    ");
    for column in 0..columns {
        let _ = write!(out, "{:<WIDTH$}", column * step);
    }
    for row in 0..rows {
        out.truncate(out.trim_end().len());
        let _ = write!(out, "\n{row:<4}");
        for column in 0..columns {
            let _ = write!(out, "{:<WIDTH$}", cell(row, column).unwrap_or_default());
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n```\n"
}
