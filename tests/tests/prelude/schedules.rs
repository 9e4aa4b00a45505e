//! `scheduler` and `swizzle`: whose tile is where, and which bytes lie where.

use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::collections::BTreeSet;

#[ptx_kernel(arch = "sm_80", block = 256, grid = 1, unsafe(requires(out.len() >= 2048)))]
pub fn orders(rows: u32, columns: u32, band: u32, run: u32, order: u32, out: &mut [u32]) {
    let to: u64 = out + wide(tid.x) * 8;
    let (x, y): (u32, u32) = scheduler::linear(tid.x, columns);
    let (z, w): (u32, u32) = scheduler::grouped(tid.x, rows, columns, band);
    let (r, c): (u32, u32) = scheduler::hilbert(tid.x, order);
    let (u, v): (u32, u32) = scheduler::blocked(tid.x, rows, columns, band, run);
    ptx! {
        st.global.v2.u32 [to], {x, y};
        st.global.v2.u32 [to + 2048], {z, w};
        st.global.v2.u32 [to + 4096], {r, c};
        st.global.v2.u32 [to + 6144], {u, v};
    }
}

#[ptx_test(seeds = 1)]
fn every_order_visits_every_tile_once(device: &Device) -> Result<()> {
    let (rows, columns, band, run) = (16, 16, 5, 3);
    let mut out = device.zeros::<u32>(2048)?;
    orders(device, rows, columns, band, run, 4, &mut out)?;
    let out = out.download()?;
    let tiles: Vec<(u32, u32)> = out.chunks(2).map(|tile| (tile[0], tile[1])).collect();
    for order in tiles.chunks(256) {
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 256);
        assert!(order.iter().all(|(row, column)| *row < rows && *column < columns));
    }
    assert_eq!(tiles[17], (1, 1));
    // Five rows down, then the next column; the last band is one row high.
    assert_eq!(tiles[256..262], [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (0, 1)]);
    assert_eq!(tiles[256 + 241], (15, 1));
    // Neighbors on Hilbert's curve are neighbors in the plane.
    let near = |pair: &[(u32, u32)]| pair[0].0.abs_diff(pair[1].0) + pair[0].1.abs_diff(pair[1].1) == 1;
    assert!(tiles[512..768].windows(2).all(near));
    // Five rows of three columns, then the next three; the last block of a band is one column wide.
    assert_eq!(tiles[768..773], [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
    assert_eq!(tiles[768 + 15], (0, 3));
    assert_eq!(tiles[768 + 76..768 + 80], [(1, 15), (2, 15), (3, 15), (4, 15)]);
    assert_eq!(tiles[768 + 80], (5, 0));
    Ok(())
}

/// The number that each block claims.
#[ptx_kernel(
    arch = "sm_80",
    block = 32,
    grid = workers,
    unsafe(requires(workers > 0, gpcs.len() >= 273, counters.len() >= 17, out.len() >= workers))
)]
pub fn numbers(gpcs: &[u32], counters: &mut [u32], workers: u32, out: &mut [u32]) {
    if tid.x == 0 {
        let (number, to): (u32, u64) = (scheduler::claim(gpcs, counters, workers), out + wide(ctaid.x) * 4);
        ptx! { st.global.u32 [to], number; }
        scheduler::claimed(counters, workers);
    }
}

#[ptx_test(seeds = 2)]
fn every_worker_claims_a_number_of_its_own(device: &Device) -> Result<()> {
    // GPCs of two, three and all other numbers; every multiprocessor belongs to the second, which is soon full.
    let mut words = vec![1 << 31; 17];
    words[..3].copy_from_slice(&[0, 2, 5]);
    words.extend([1; 256]);
    let (gpcs, mut counters) = (device.upload(&words)?, device.zeros::<u32>(17)?);
    for workers in [1, 3, 11, 24, 11] {
        let mut out = device.upload(&vec![u32::MAX; workers as usize])?;
        numbers(device, &gpcs, &mut counters, workers, &mut out)?;
        let mut found = out.download()?;
        found.sort_unstable();
        assert_eq!(found, (0..workers).collect::<Vec<_>>());
        assert_eq!(counters.download()?, [0; 17], "ready for the next launch");
    }
    Ok(())
}

/// The parts of every worker in its order: tile, first and last step; `u32::MAX` behind them.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(workers <= 32, out.len() >= 32 * 96)))]
pub fn parts(workers: u32, tiles: u32, steps: u32, out: &mut [u32]) {
    if tid.x >= workers {
        return;
    }
    let mut to: u64 = out + wide(tid.x) * 384;
    let mut shared = scheduler::StreamK::new(tid.x, workers, tiles, steps);
    let mut tile: u32 = tid.x;
    while tile < shared.full_tiles {
        put(&mut to, tile, 0, steps);
        tile += workers;
    }
    let mut k = mainloop::KRange { begin: 0, end: 0, backward: 0 };
    while shared.begin < shared.end {
        tile = shared.next_unit::<1>(&mut k);
        put(&mut to, tile, k.begin, k.end);
    }

    fn put(to: &mut u64, tile: u32, from: u32, last: u32) {
        ptx! {
            st.global.u32 [to], tile;
            st.global.u32 [to + 4], from;
            st.global.u32 [to + 8], last;
        }
        *to += 12;
    }
}

#[ptx_test(seeds = 1)]
fn stream_k_shares_every_step_once_and_alike(device: &Device) -> Result<()> {
    for (workers, tiles, steps) in [(8, 20, 7), (8, 16, 3), (8, 3, 5), (5, 1, 2), (7, 50, 1), (1, 3, 4), (8, 0, 3)] {
        let mut out = device.upload(&vec![u32::MAX; 32 * 96])?;
        parts(device, workers, tiles, steps, &mut out)?;
        let out = out.download()?;
        let of_worker = |worker: &[u32]| -> Vec<[u32; 3]> {
            worker.chunks(3).map(|part| [part[0], part[1], part[2]]).take_while(|part| part[0] != u32::MAX).collect()
        };
        let parts: Vec<Vec<[u32; 3]>> = out.chunks(96).take(workers as usize).map(of_worker).collect();
        let mut done = BTreeSet::new();
        for [tile, from, last] in parts.iter().flatten() {
            assert!(from < last && *last <= steps);
            assert!((*from..*last).all(|step| done.insert((*tile, step))), "twice: tile {tile}");
        }
        assert_eq!(done.len() as u32, tiles * steps);
        let loads: Vec<u32> = parts.iter().map(|parts| parts.iter().map(|[_, from, last]| last - from).sum()).collect();
        assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
        // Who waits does so for those before it, and with its last part.
        for parts in &parts {
            let waits = parts.iter().position(|[_, from, last]| *from > 0 && *last == steps);
            assert!(waits.is_none_or(|at| at == parts.len() - 1), "{parts:?}");
        }
    }
    Ok(())
}

/// The group of every tile, and the group's first row, end and first tile.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(offsets.len() > groups, out.len() >= 4 * tiles)))]
pub fn groups_of(offsets: &[u32], groups: u32, most: u32, columns: u32, tiles: u32, out: &mut [u32]) {
    let (mut tile, mut to): (u32, GlobalMut<u32>) = (0, out);
    let all = scheduler::Groups { offsets, count: groups, rows: most, tiles_n: columns };
    let mut cursor = scheduler::GroupCursor::new();
    while tile < tiles {
        cursor.seek::<16>(&all, tile);
        if tid.x == 0 {
            ptx! { st.global.v4.u32 [to], {cursor.group, cursor.first_row, cursor.end_row, cursor.first_tile}; }
        }
        to += 16;
        tile += 1;
    }
}

#[ptx_test(seeds = 1)]
fn a_tile_finds_its_group(device: &Device) -> Result<()> {
    let heights: Vec<u32> = (0..77).map(|g| if g % 5 < 2 { 0 } else { g * 7 % 50 }).collect();
    let mut offsets = vec![3];
    offsets.extend(heights.iter().scan(3, |end, rows| (*end += rows, Some(*end)).1));
    let most = offsets[77] - 5;
    let scrambled: Vec<u32> = (0..78).map(|g| if g == 70 { u32::MAX } else { g * 37 % 400 + 3 * g }).collect();
    for (offsets, most) in [(offsets, most), (scrambled, 700)] {
        check_groups(device, &offsets, most)?;
    }
    Ok(())
}

/// No two groups share a row: one begins where all before it end.
fn check_groups(device: &Device, offsets: &[u32], most: u32) -> Result<()> {
    let (columns, mut expected, mut from) = (3, Vec::new(), offsets[0].min(most));
    for (group, end) in offsets[1..].iter().enumerate() {
        let (end, start) = ((*end).min(most).max(from), expected.len() as u32);
        let tiles = (end - from).div_ceil(16) * columns;
        expected.extend(std::iter::repeat_n([group as u32, from, end, start], tiles as usize));
        from = end;
    }
    let tiles = expected.len() as u32 + 2;
    let mut out = device.zeros::<u32>(4 * tiles as usize)?;
    groups_of(device, &device.upload(offsets)?, 77, most, columns, tiles, &mut out)?;
    let found: Vec<[u32; 4]> = out.download()?.chunks(4).map(|g| [g[0], g[1], g[2], g[3]]).collect();
    assert_eq!(found[..expected.len()], expected);
    assert!(found[expected.len()..].iter().all(|[group, ..]| *group >= 77));
    Ok(())
}

#[ptx_kernel(arch = "sm_80", block = 512, grid = 1, unsafe(requires(out.len() >= 1536)))]
pub fn swizzles(out: &mut [u32]) {
    let (to, at): (u64, u32) = (out + wide(tid.x) * 4, tid.x * 16);
    let (a, b, c): (u32, u32, u32) = (swizzle::bytes128(at), swizzle::bytes64(at), swizzle::bytes32(at));
    ptx! {
        st.global.u32 [to], a;
        st.global.u32 [to + 2048], b;
        st.global.u32 [to + 4096], c;
    }
}

#[ptx_test(seeds = 1)]
fn swizzles_exchange_pieces_within_a_row(device: &Device) -> Result<()> {
    let mut out = device.zeros::<u32>(1536)?;
    swizzles(device, &mut out)?;
    for (found, width) in out.download()?.chunks(512).zip([128, 64, 32]) {
        for (piece, place) in found.iter().enumerate() {
            // Rows of `width` bytes; those that lie in the same 128 bytes are swizzled alike.
            let (at, turn) = (16 * piece as u32, 16 * piece as u32 / 128 * 16 % width);
            assert_eq!(*place, at / width * width + ((at % width) ^ turn), "{width} bytes, piece {piece}");
        }
    }
    Ok(())
}
