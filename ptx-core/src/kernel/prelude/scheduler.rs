//! Which tile of a matrix is whose turn: persistent blocks (or clusters) take every so many-th index, and these helpers
//! say where its tile lies, so that those who work at the same time share rows and columns in the second-level cache.

/// Row by row: `div`, `mul.lo`, `sub`. The column runs first.
fn linear(index: u32, columns: u32) -> (u32, u32) {
    let row: u32 = index / columns;
    (row, index - row * columns)
}

/// In bands of `group` rows, down each column of the band: two `div`, a `min`, three `mul.lo` and additions. With w
/// workers and a group of √w they touch the fewest rows and columns at a time.
fn grouped(index: u32, rows: u32, columns: u32, group: u32) -> (u32, u32) {
    let size: u32 = group * columns;
    let band: u32 = index / size;
    let (first, inside): (u32, u32) = (band * group, index - band * size);
    let mut height: u32 = rows - first;
    ptx! { min.u32 height, height, group; }
    let column: u32 = inside / height;
    (first + inside - column * height, column)
}

/// In bands of `band` rows like `grouped`, but in blocks of `run` columns, and along the rows of a block: who has
/// neighbouring indices shares rows (with a run of 1, which is `grouped`, columns). Three `div`, two `min`, and `mul.lo`.
fn blocked(index: u32, rows: u32, columns: u32, band: u32, run: u32) -> (u32, u32) {
    let size: u32 = band * columns;
    let number: u32 = index / size;
    let (first, inside): (u32, u32) = (number * band, index - number * size);
    let mut height: u32 = rows - first;
    ptx! { min.u32 height, height, band; }
    let block: u32 = inside / (height * run);
    let (left, within): (u32, u32) = (block * run, inside - block * height * run);
    let mut width: u32 = columns - left;
    ptx! { min.u32 width, width, run; }
    let down: u32 = within / width;
    (first + down, left + within - down * width)
}

/// Along Hilbert's curve through a square of 2^`order` × 2^`order` tiles, of which those outside the matrix are to be
/// skipped: a loop of `order` steps over two bits of the index each.
fn hilbert(index: u32, order: u32) -> (u32, u32) {
    let (mut row, mut column, mut rest, mut side, mut step): (u32, u32, u32, u32, u32) = (0, 0, index, 1, 0);
    while step < order {
        let right: u32 = (rest >> 1) & 1;
        let up: u32 = (rest ^ right) & 1;
        if up == 0 {
            if right == 1 {
                row = side - 1 - row;
                column = side - 1 - column;
            }
            let other: u32 = row;
            row = column;
            column = other;
        }
        column += side * right;
        row += side * up;
        rest = rest >> 2;
        side = side << 1;
        step += 1;
    }
    (row, column)
}

/// A worker's number, such that the workers of a GPC have neighbouring ones: what several multiprocessors of a GPC want
/// from the second-level cache at about the same time, it is asked for once. By one thread of each of `workers` workers, who
/// has it from 0 to `workers` - 1, once, wherever the workers run.
///
/// `gpcs` are 17 words, where the numbers of each of 16 GPCs begin and those of the last one end (2^31 from the last used
/// one's end on), then the GPC of each of 256 multiprocessors. `claims` are 17 words, zeros between launches; `claimed` makes
/// them so. `%smid`, `ld.global.nc`, and, once if no GPC has more workers than numbers, two `ld.global.nc` and `atom.add`.
fn claim(gpcs: u64, claims: u64, workers: u32) -> u32 {
    let (sm, gpc, number): (u32, u32, u32);
    sm = smid;
    ptx! { min.u32 sm, sm, 255; }
    let at: u64 = gpcs + wide(sm) * 4;
    ptx! {
        ld.global.nc.u32 gpc, [at + 68];
        and.b32 gpc, gpc, 15;
    }
    loop {
        let (from, count, first, end): (u64, u64, u32, u32);
        from = gpcs + wide(gpc) * 4;
        count = claims + wide(gpc) * 4;
        ptx! {
            ld.global.nc.u32 first, [from];
            ld.global.nc.u32 end, [from + 4];
            atom.relaxed.gpu.global.add.u32 number, [count], 1;
            min.u32 end, end, workers;
        }
        number += first;
        if number < end {
            break;
        }
        gpc = (gpc + 1) & 15;
    }
    number
}

/// By the thread that has claimed a number, before `grid::launch_dependents`: the last of the `workers` makes `claims` ready
/// for the next launch. `atom.inc`, and then four `st.v4` and a fence.
fn claimed(claims: u64, workers: u32) {
    let (at, last, mut before): (u64, u32, u32) = (claims, workers - 1, 0);
    ptx! { atom.acq_rel.gpu.global.inc.u32 before, [at + 64], last; }
    if before == last {
        for word in 0..4 {
            ptx! { st.relaxed.gpu.global.v4.u32 [at + 16 * word], {0, 0, 0, 0}; }
        }
        ptx! { fence.acq_rel.gpu; }
    }
}

/// Of matrices whose heights only the device knows: goes on to the one that has tile `tile`, if `tile` is not before `next`.
/// Matrix g has the rows from `offsets[g]` to `offsets[g + 1]` of at most `most`, in tiles of `ROWS` rows, `columns` tiles
/// side by side; empty ones have none. Then `group` is its number, `start` and `next` are the tiles before it and up to its
/// end, `first` and `end` its rows. Behind the last tile, `group` is at least `groups`.
///
/// All lanes of a warp call it, and `ahead` (the matrices looked at), `group`, `start`, `next`, `first` and `end` start as
/// zeros. Each lane looks at one matrix: for every 32 two `ld.global.nc`, a `warp::scan_sum` and a `vote.sync.ballot`, then
/// `brev`, `clz` and four `shfl.sync.idx`.
fn seek<const ROWS: u32>(
    tile: u32,
    offsets: u64,
    groups: u32,
    most: u32,
    columns: u32,
    ahead: &mut u32,
    group: &mut u32,
    start: &mut u32,
    next: &mut u32,
    first: &mut u32,
    end: &mut u32,
) {
    loop {
        if tile < *next {
            break;
        }
        *group = *ahead;
        if *ahead >= groups {
            break;
        }
        let mine: u32 = *ahead + laneid;
        let (mut from, mut to): (u32, u32) = (0, 0);
        if mine < groups {
            let at: u64 = offsets + wide(mine) * 4;
            ptx! {
                ld.global.nc.u32 from, [at];
                ld.global.nc.u32 to, [at + 4];
                min.u32 to, to, most;
                max.u32 to, to, from;
            }
        }
        let tiles: u32 = (to - from + (ROWS - 1)) / ROWS * columns;
        let through: u32 = *next + warp::scan_sum(tiles);
        let mut mask: b32 = warp::ballot(tile < through);
        if mask == 0 {
            *next = warp::broadcast(through, 31);
            *ahead += 32;
        } else {
            let lane: u32;
            ptx! {
                brev.b32 mask, mask;
                clz.b32 lane, mask;
            }
            *group = *ahead + lane;
            *ahead = *group + 1;
            *next = warp::broadcast(through, lane);
            *start = *next - warp::broadcast(tiles, lane);
            *first = warp::broadcast(from, lane);
            *end = warp::broadcast(to, lane);
        }
    }
}

/// By stream-K, what a worker has of `tiles` tiles of `steps` steps each: the tiles that it has alone, one in every round
/// of `workers`, and from which step to which it works on those that are left, which all workers share alike. If there are
/// a whole number of rounds, nothing is left; if fewer are left than a quarter of a round, the last whole round is shared
/// too, so that nobody has a crumb. Three `div`, and `mul.lo`, `sub`, `setp`.
fn stream_k(worker: u32, workers: u32, tiles: u32, steps: u32) -> (u32, u32, u32) {
    let mut alone: u32 = tiles / workers;
    let rest: u32 = tiles - alone * workers;
    if rest != 0 {
        if 4 * rest < workers {
            if alone != 0 {
                alone -= 1;
            }
        }
    }
    let shared: u32 = (tiles - alone * workers) * steps;
    (alone, worker * shared / workers, (worker + 1) * shared / workers)
}

/// What comes next of the shared steps from `begin` to `end`, last first: the tile among those that are left, and its steps.
/// It is cut off from `end`. Whoever has a tile's last step sums it up; as the worker before began with its part of that
/// tile, and this one ends with it, nobody waits long. `div`, two `mul.lo`, `max`, `sub`.
fn stream_k_part(begin: u32, end: &mut u32, steps: u32) -> (u32, u32, u32) {
    let tile: u32 = (*end - 1) / steps;
    let start: u32 = tile * steps;
    let (mut from, to): (u32, u32) = (begin, *end - start);
    ptx! { max.u32 from, from, start; }
    *end = from;
    (tile, from - start, to)
}
