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
    let height: u32 = rows - first;
    ptx! { min.u32 height, height, group; }
    let column: u32 = inside / height;
    (first + inside - column * height, column)
}

/// Along Hilbert's curve through a square of 2^`order` × 2^`order` tiles, of which those outside the matrix are to be
/// skipped: a loop of `order` steps over two bits of the index each.
fn hilbert(index: u32, order: u32) -> (u32, u32) {
    let (row, column, rest, side, step): (u32, u32, u32, u32, u32) = (0, 0, index, 1, 0);
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
    ahead: u32,
    group: u32,
    start: u32,
    next: u32,
    first: u32,
    end: u32,
) {
    loop {
        if tile < next {
            break;
        }
        group = ahead;
        if ahead >= groups {
            break;
        }
        let mine: u32 = ahead + laneid;
        let (from, to): (u32, u32) = (0, 0);
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
        let through: u32 = next + warp::scan_sum(tiles);
        let mask: b32 = warp::ballot(tile < through);
        if mask == 0 {
            next = warp::broadcast(through, 31);
            ahead += 32;
        } else {
            let lane: u32;
            ptx! {
                brev.b32 mask, mask;
                clz.b32 lane, mask;
            }
            group = ahead + lane;
            ahead = group + 1;
            next = warp::broadcast(through, lane);
            start = next - warp::broadcast(tiles, lane);
            first = warp::broadcast(from, lane);
            end = warp::broadcast(to, lane);
        }
    }
}

/// By stream-K, what a worker has of `tiles` tiles of `steps` steps each: the tiles that it has alone, one in every round
/// of `workers`, and from which step to which it works on those that are left, which all workers share alike. If there are
/// a whole number of rounds, nothing is left; if fewer are left than a quarter of a round, the last whole round is shared
/// too, so that nobody has a crumb. Three `div`, and `mul.lo`, `sub`, `setp`.
fn stream_k(worker: u32, workers: u32, tiles: u32, steps: u32) -> (u32, u32, u32) {
    let alone: u32 = tiles / workers;
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
fn stream_k_part(begin: u32, end: u32, steps: u32) -> (u32, u32, u32) {
    let tile: u32 = (end - 1) / steps;
    let start: u32 = tile * steps;
    let (from, to): (u32, u32) = (begin, end - start);
    ptx! { max.u32 from, from, start; }
    end = from;
    (tile, from - start, to)
}
