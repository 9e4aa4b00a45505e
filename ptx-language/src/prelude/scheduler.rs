//! The order of the tiles of a matrix. Persistent blocks (or clusters) take indices in turn, and these helpers return the tile
//! of an index, so that blocks that run at the same time share rows and columns in the second-level cache.

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

/// In bands of `band` rows like `grouped`, but in blocks of `run` columns, and along the rows of a block:
/// neighboring indices share rows (with a run of 1, which is `grouped`, columns). Three `div`, two `min`, and `mul.lo`.
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

/// A worker's number, from 0 to `workers` - 1, each once. The workers of a GPC get neighboring numbers, so that the multiprocessors
/// of a GPC share their requests to the second-level cache. One thread of each of `workers` workers calls it.
///
/// `gpcs` are 17 words, where the numbers of each of 16 GPCs begin and those of the last one end (2^31 from the last used
/// one's end on), then the GPC of each of 256 multiprocessors. `counters` are 17 words, zeros between launches; `claimed` makes
/// them so. `%smid`, `ld.global.nc`, and, once if no GPC has more workers than numbers, two `ld.global.nc` and `atom.add`.
fn claim(gpcs: u64, counters: u64, workers: u32) -> u32 {
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
        count = counters + wide(gpc) * 4;
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

/// The number of a cluster, claimed by thread 32 of its first block; 0 in other threads. Two `setp`, and under them `claim`.
fn claim_by_leader(gpcs: u64, counters: u64, num_clusters: u32) -> u32 {
    let mut id: u32 = 0;
    if tid.x == 32 {
        if cluster::rank() == 0 {
            id = claim(gpcs, counters, num_clusters);
        }
    }
    id
}

/// By the thread that has claimed a number, before `grid::launch_dependents`: the last of the `workers` makes `counters` ready
/// for the next launch. `atom.inc`, and then four `st.v4` and a fence.
fn claimed(counters: u64, workers: u32) {
    let (at, last, mut before): (u64, u32, u32) = (counters, workers - 1, 0);
    ptx! { atom.acq_rel.gpu.global.inc.u32 before, [at + 64], last; }
    if before == last {
        for word in 0..4 {
            ptx! { st.relaxed.gpu.global.v4.u32 [at + 16 * word], {0, 0, 0, 0}; }
        }
        ptx! { fence.acq_rel.gpu; }
    }
}

/// The tiles of C, `tiles_m` × `tiles_n`, in an order that keeps neighbors in the second-level cache: `blocked`.
struct Raster {
    tiles_m: u32,
    tiles_n: u32,
    band: u32,
    run: u32,
}

impl Raster {
    /// The tiles of `TILE_M` × `TILE_N` that cover `m` × `n` elements, in bands and runs of clusters: two `add` and two `div`.
    fn covering<const TILE_M: u32, const TILE_N: u32>(m: u32, n: u32, band: u32, run: u32) -> Raster {
        let tiles_m: u32 = (m + (TILE_M - 1)) / TILE_M;
        let tiles_n: u32 = (n + (TILE_N - 1)) / TILE_N;
        Raster { tiles_m, tiles_n, band, run }
    }

    /// The number of tiles: `mul.lo`.
    fn count(&self) -> u32 {
        self.tiles_m * self.tiles_n
    }

    /// The row and the column of a tile: `blocked`.
    fn tile(&self, index: u32) -> (u32, u32) {
        blocked(index, self.tiles_m, self.tiles_n, self.band, self.run)
    }
}

/// The number that a cluster has claimed, sent to all of its blocks.
struct ClusterId {
    sent: mbarrier::Barrier,
    id: u32,
}

impl Shared<ClusterId> {
    /// Initializes the barrier, in one thread of each block: `mbarrier.init`.
    fn init(self) {
        self.sent.init(1);
    }

    /// Claims a number for this block's cluster of `BLOCKS` blocks and sends it to all of them; then the next grid may start. All threads of
    /// all blocks call it after thread 0 of each has initialized its barriers, which the whole cluster may use from here on.
    /// `bar.warp.sync`, `barrier.cluster.arrive.relaxed`, `claim_by_leader`, `bar.warp.sync`, `barrier.cluster.wait`; in thread 32
    /// `broadcast` and `grid::launch_dependents`.
    fn claim<const BLOCKS: u32>(self, gpcs: u64, counters: u64, num_clusters: u32) {
        warp::sync();
        cluster::arrive_relaxed();
        let id: u32 = claim_by_leader(gpcs, counters, num_clusters);
        warp::sync();
        cluster::wait();
        if tid.x == 32 {
            self.broadcast::<BLOCKS>(id, counters, num_clusters);
            grid::launch_dependents();
        }
    }

    /// Sends the `id` of the first block to the cluster's `BLOCKS` blocks, by one thread of each, and calls `claimed`.
    /// `mbarrier.arrive.expect_tx`, and for each block two `mapa` and `st.async`.
    fn broadcast<const BLOCKS: u32>(self, id: u32, counters: u64, num_clusters: u32) {
        self.sent.arrive_expect(4);
        if cluster::rank() == 0 {
            for block in 0..BLOCKS {
                cluster::send(self.id, id, self.sent, block);
            }
            claimed(counters, num_clusters);
        }
    }

    /// Waits for the number: `mbarrier.try_wait` in a loop, `ld.shared`, and `shfl.sync.idx`, so that the compiler keeps one
    /// register for the warp.
    fn wait(self) -> u32 {
        let mut id: u32 = 0;
        self.sent.wait(0);
        ptx! { ld.shared.u32 id, [self.id]; }
        warp::broadcast(id, 0)
    }
}

/// Matrices whose heights only the device has: group g has rows `offsets[g]` to `offsets[g + 1]`, of at most `rows`, and `tiles_n` tiles
/// side by side. Empty groups have no tiles. Where offsets decrease, a group begins behind the rows of all groups before it.
struct Groups {
    offsets: Global<u32>,
    count: u32,
    rows: u32,
    tiles_n: u32,
}

/// The group of a tile: its rows, and the tiles before it and up to its end. `group` is at least the number of groups after the last
/// tile.
struct GroupCursor {
    group: u32,
    first_row: u32,
    end_row: u32,
    first_tile: u32,
    end_tile: u32,
    /// The next group to look at.
    next: u32,
}

impl GroupCursor {
    /// In front of the first group: six `mov`.
    fn new() -> GroupCursor {
        GroupCursor { group: 0, first_row: 0, end_row: 0, first_tile: 0, end_tile: 0, next: 0 }
    }

    /// Moves on to the group with tile `tile`; tiles have `BLOCK_M` rows, and only grow. All lanes of a warp
    /// call it. Each lane looks at one group: for every 32 two `ld.global.nc`, a `warp::scan_max`, a `warp::scan_sum` and a
    /// `vote.sync.ballot`, then `brev`, `clz` and four `shfl.sync.idx`.
    fn seek<const BLOCK_M: u32>(&mut self, groups: &Groups, tile: u32) {
        invariant!(self.end_row <= groups.rows);
        loop {
            if tile < self.end_tile {
                break;
            }
            self.group = self.next;
            if self.next >= groups.count {
                break;
            }
            let mine: u32 = self.next + laneid;
            let (mut from, mut to): (u32, u32) = (self.end_row, self.end_row);
            if mine < groups.count {
                let at = groups.offsets.at(mine);
                ptx! {
                    ld.global.nc.u32 from, [at];
                    ld.global.nc.u32 to, [at + 4];
                }
            }
            // Groups never share a row, whatever the offsets are: each begins where all before it end.
            ptx! {
                max.u32 from, from, self.end_row;
                max.u32 to, to, from;
                min.u32 to, to, groups.rows;
            }
            to = warp::scan_max(to);
            let before: u32 = warp::shuffle_up(to, 1);
            if laneid != 0 {
                from = before;
            }
            ptx! { min.u32 from, from, to; }
            let tiles: u32 = (to - from + (BLOCK_M - 1)) / BLOCK_M * groups.tiles_n;
            let through: u32 = self.end_tile + warp::scan_sum(tiles);
            let mut mask: b32 = warp::ballot(tile < through);
            if mask == 0 {
                self.end_tile = warp::broadcast(through, 31);
                self.end_row = warp::broadcast(to, 31);
                self.next += 32;
            } else {
                let lane: u32;
                ptx! {
                    brev.b32 mask, mask;
                    clz.b32 lane, mask;
                }
                self.group = self.next + lane;
                self.next = self.group + 1;
                self.end_tile = warp::broadcast(through, lane);
                self.first_tile = self.end_tile - warp::broadcast(tiles, lane);
                self.first_row = warp::broadcast(from, lane);
                self.end_row = warp::broadcast(to, lane);
            }
        }
    }
}

/// Stream-K: `tiles` tiles of `steps` steps along K for `num_clusters` clusters. Whole tiles, those before `full_tiles`, go round: one
/// for each cluster. All clusters share the steps of the remaining tiles alike; `begin` and `end` are those of `cluster`. Nothing is
/// left if the rounds are whole. If less than a quarter of a round is left, the last whole round is shared, too.
struct StreamK {
    cluster: u32,
    num_clusters: u32,
    tiles: u32,
    steps: u32,
    full_tiles: u32,
    begin: u32,
    end: u32,
}

impl StreamK {
    /// The share of one cluster: three `div`, and `mul.lo`, `sub`, `setp`.
    fn new(cluster: u32, num_clusters: u32, tiles: u32, steps: u32) -> StreamK {
        let mut rounds: u32 = tiles / num_clusters;
        let rest: u32 = tiles - rounds * num_clusters;
        if rest != 0 {
            if 4 * rest < num_clusters {
                if rounds != 0 {
                    rounds -= 1;
                }
            }
        }
        let full_tiles: u32 = rounds * num_clusters;
        let shared: u32 = (tiles - full_tiles) * steps;
        let (begin, end): (u32, u32) = (cluster * shared / num_clusters, (cluster + 1) * shared / num_clusters);
        StreamK { cluster, num_clusters, tiles, steps, full_tiles, begin, end }
    }

    /// The share of another cluster: as `new`.
    fn of_cluster(&self, cluster: u32) -> StreamK {
        StreamK::new(cluster, self.num_clusters, self.tiles, self.steps)
    }

    /// Takes the next unit of work from the end of this cluster's shared steps: its tile, and its part of K, with `STEP` elements per
    /// step. Units go from the last one to the first: the cluster with a tile's last step sums the tile up, and the cluster before began
    /// with its part, so nobody waits long. `div`, four `mul.lo`, `max`, `sub`.
    fn next_unit<const STEP: u32>(&mut self, k: &mut mainloop::KRange) -> u32 {
        let tile: u32 = (self.end - 1) / self.steps;
        let first: u32 = tile * self.steps;
        let from: u32 = self.begin.max(first);
        k.begin = (from - first) * STEP;
        k.end = (self.end - first) * STEP;
        self.end = from;
        self.full_tiles + tile
    }
}

/// A line of `total` units of work in equal shares: the first `extra` blocks have one unit more than `base`.
struct Shares {
    base: u32,
    extra: u32,
}

impl Shares {
    /// The shares of `blocks` blocks: `div`, `mul.lo`, `sub`.
    fn new(total: u32, blocks: u32) -> Shares {
        let base: u32 = total / blocks;
        Shares { base, extra: total - base * blocks }
    }

    /// The first unit of a block, which is the end of the one before: `mul.lo`, `min`, `add`.
    fn begin(&self, block: u32) -> u32 {
        block * self.base + block.min(self.extra)
    }

    /// The block of a unit: a branch, and `div` on each side.
    fn owner(&self, unit: u32) -> u32 {
        let long: u32 = self.extra * (self.base + 1);
        let mut block: u32 = 0;
        if unit < long {
            block = unit / (self.base + 1);
        } else {
            block = self.extra + (unit - long) / self.base;
        }
        block
    }
}
