//! Parts of warp-specialized attention kernels: pieces of work, rings of tiles of K and V, the softmax of a warp group.
//!
//! One warp group copies tiles by TMA; each of the others owns 64 queries. A thread of these has two rows of scores, 8 apart, as `wgmma`
//! leaves them: of each 8 columns two. For `sm_90` and later.

/// A position in rings of `STAGES` stages: the stage, and the parity of its round.
struct Position<const STAGES: u32> {
    stage: u32,
    phase: u32,
}

impl<const STAGES: u32> Position<STAGES> {
    /// The next stage; the parity changes where the ring starts again: `add`, `setp`, and under it `mov` and `xor`.
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.phase = self.phase ^ 1;
        }
    }
}

/// A ring of `STAGES` tiles of K or of V, and its barriers. A tile has `PARTS` parts of `PART` bytes, whose rows are 128 bytes.
struct Ring<const STAGES: u32, const PARTS: u32, const PART: u32> {
    tiles: u32,
    full: u32,
    empty: u32,
}

impl<const STAGES: u32, const PARTS: u32, const PART: u32> Ring<STAGES, PARTS, PART> {
    /// The ring of the tiles from `tiles` on, with `2 * STAGES` barriers of 8 bytes from `barriers` on.
    fn new(tiles: u32, barriers: u32) -> Ring<STAGES, PARTS, PART> {
        Ring { tiles, full: barriers, empty: barriers + 8 * STAGES }
    }

    /// Initializes the barriers, in one thread: each of `READERS` warps releases a stage. `mbarrier.init`.
    fn init<const READERS: u32>(&self) {
        for i in 0..STAGES {
            mbarrier::init(self.full + 8 * i, 1);
            mbarrier::init(self.empty + 8 * i, READERS);
        }
    }

    /// The same for stages that `FILLERS` warps fill.
    fn init_filled<const FILLERS: u32, const READERS: u32>(&self) {
        for i in 0..STAGES {
            mbarrier::init(self.full + 8 * i, FILLERS);
            mbarrier::init(self.empty + 8 * i, READERS);
        }
    }

    /// Begins to copy the tile of a head whose first row is `token`, `COLUMNS` elements for each part, when its stage is empty.
    fn load<const COLUMNS: u32>(&self, map: TensorMap, at: &Position<STAGES>, head: u32, token: u32, batch: u32) {
        let (bar, to): (u32, u32) = (self.full + 8 * at.stage, self.tiles + at.stage * (PARTS * PART));
        mbarrier::wait(self.empty + 8 * at.stage, at.phase ^ 1);
        mbarrier::arrive_expect(bar, PARTS * PART);
        for i in 0..PARTS {
            tma::load_4d(to + i * PART, map, COLUMNS * i, head, token, batch, bar);
        }
    }

    /// Waits until a tile is there: `mbarrier.try_wait.parity` in a loop.
    fn wait(&self, at: &Position<STAGES>) {
        mbarrier::wait(self.full + 8 * at.stage, at.phase);
    }

    /// Waits until a stage is empty: `mbarrier.try_wait.parity` in a loop.
    fn wait_empty(&self, at: &Position<STAGES>) {
        mbarrier::wait(self.empty + 8 * at.stage, at.phase ^ 1);
    }

    /// One lane of each warp signals that the warp has filled its part of a stage: `setp`, and under it `mbarrier.arrive`.
    fn fill(&self, stage: u32) {
        if laneid == 0 {
            mbarrier::arrive(self.full + 8 * stage);
        }
    }

    /// One lane of each warp signals that the warp has read a stage: `setp`, and under it `mbarrier.arrive`.
    fn release(&self, stage: u32) {
        if laneid == 0 {
            mbarrier::arrive(self.empty + 8 * stage);
        }
    }

    /// The rows of a tile from number `row` on become zeros, also for `wgmma`, by `count` threads that call it: `st.shared.v4` in a loop and
    /// `fence.proxy.async`. `thread` is the number of this one. A barrier has to follow.
    fn clear_rows(&self, stage: u32, row: u32, thread: u32, count: u32) {
        let tile: u32 = self.tiles + stage * (PARTS * PART);
        let mut at: u32 = row * 128 + thread * 16;
        while at < PART {
            let to: u32 = tile + at;
            for i in 0..PARTS {
                ptx! { st.shared.v4.u32 [to + i * PART], {0, 0, 0, 0}; }
            }
            at += count * 16;
        }
        tma::fence();
    }
}

/// The queries of `GROUPS` warp groups, 64 of each in `PARTS` parts with rows of `WIDTH` swizzled bytes, and two barriers for each group: its
/// queries are there, and it has read them.
struct Queries<const GROUPS: u32, const PARTS: u32, const WIDTH: u32> {
    tile: u32,
    full: u32,
    empty: u32,
}

impl<const GROUPS: u32, const PARTS: u32, const WIDTH: u32> Queries<GROUPS, PARTS, WIDTH> {
    /// The queries at `tile`, with `2 * GROUPS` barriers of 8 bytes from `barriers` on.
    fn new(tile: u32, barriers: u32) -> Queries<GROUPS, PARTS, WIDTH> {
        Queries { tile, full: barriers, empty: barriers + 8 * GROUPS }
    }

    /// Initializes the barriers, in one thread: `mbarrier.init`.
    fn init(&self) {
        for i in 0..GROUPS {
            mbarrier::init(self.full + 8 * i, 1);
            mbarrier::init(self.empty + 8 * i, 4);
        }
    }

    /// Begins to copy the queries of each group for piece number `turn`, `COLUMNS` elements for each part, when it has read those before.
    fn load<const COLUMNS: u32>(&self, map: TensorMap, work: &Work, turn: u32) {
        for group in 0..GROUPS {
            let bar: u32 = self.full + 8 * group;
            mbarrier::wait(self.empty + 8 * group, turn & 1 ^ 1);
            mbarrier::arrive_expect(bar, 64 * PARTS * WIDTH);
            for i in 0..PARTS {
                let to: u32 = self.tile + (i * GROUPS + group) * (64 * WIDTH);
                tma::load_4d(to, map, COLUMNS * i, work.head, work.first + 64 * group, work.batch, bar);
            }
        }
    }

    /// Waits for the queries of a group: `mbarrier.try_wait.parity` in a loop.
    fn wait(&self, group: u32, turn: u32) {
        mbarrier::wait(self.full + 8 * group, turn & 1);
    }

    /// One lane of each warp of a group signals that the warp has read the queries: `setp`, and under it `mbarrier.arrive`.
    fn release(&self, group: u32) {
        if laneid == 0 {
            mbarrier::arrive(self.empty + 8 * group);
        }
    }
}

/// A piece of work: queries from `first` on of a head of a sequence, and the number of tiles of keys that they see. Without a tile there is
/// no more work.
#[align(16)]
struct Work {
    first: u32,
    head: u32,
    batch: u32,
    blocks: u32,
}

impl Work {
    /// No work.
    fn none() -> Work {
        Work { first: 0, head: 0, batch: 0, blocks: 0 }
    }
}

/// The keys of a piece of work where they are not all that a tensor has: the number of the first tile, the row of the tensor in which the
/// sequence's queries begin, and the numbers of its queries and keys.
struct Bounds {
    begin: u32,
    start: u32,
    queries: u32,
    keys: u32,
}

impl Bounds {
    /// Nothing.
    fn none() -> Bounds {
        Bounds { begin: 0, start: 0, queries: 0, keys: 0 }
    }
}

/// Two slots for pieces of work on their way from the thread that claims them to the warp groups, and their barriers. With `BOUNDED` = 1
/// bounds go with them.
struct Slots<const BOUNDED: u32> {
    work: Shared<[Work; 2 + 2 * BOUNDED]>,
    full: u32,
    empty: u32,
}

impl<const BOUNDED: u32> Slots<BOUNDED> {
    /// The slots, with four barriers of 8 bytes from `barriers` on.
    fn new(work: Shared<[Work; 2 + 2 * BOUNDED]>, barriers: u32) -> Slots<BOUNDED> {
        Slots { work, full: barriers, empty: barriers + 16 }
    }

    /// Initializes the barriers, in one thread: each of `READERS` warps receives each piece. `mbarrier.init`.
    fn init<const READERS: u32>(&self) {
        for i in 0..2 {
            mbarrier::init(self.full + 8 * i, 1);
            mbarrier::init(self.empty + 8 * i, READERS);
        }
    }

    /// Sends piece number `turn`, when its slot is empty: `mbarrier.try_wait.parity` in a loop, `st.shared.v4`, `mbarrier.arrive`.
    fn send(&self, work: &Work, bounds: &Bounds, turn: u32) {
        let slot: u32 = turn & 1;
        mbarrier::wait(self.empty + 8 * slot, (turn >> 1) & 1 ^ 1);
        let to = self.work.at(slot);
        ptx! { st.shared.v4.u32 [to], {work.first, work.head, work.batch, work.blocks}; }
        if BOUNDED == 1 {
            ptx! { st.shared.v4.u32 [to + 32], {bounds.begin, bounds.start, bounds.queries, bounds.keys}; }
        }
        mbarrier::arrive(self.full + 8 * slot);
    }

    /// Waits for piece number `turn`: `mbarrier.try_wait.parity` in a loop, `ld.shared.v4`, `bar.warp.sync`, `mbarrier.arrive`.
    fn receive(&self, work: &mut Work, bounds: &mut Bounds, turn: u32) {
        let slot: u32 = turn & 1;
        mbarrier::wait(self.full + 8 * slot, (turn >> 1) & 1);
        let from = self.work.at(slot);
        ptx! { ld.shared.v4.u32 {work.first, work.head, work.batch, work.blocks}, [from]; }
        if BOUNDED == 1 {
            ptx! { ld.shared.v4.u32 {bounds.begin, bounds.start, bounds.queries, bounds.keys}, [from + 32]; }
        }
        warp::sync();
        if laneid == 0 {
            mbarrier::arrive(self.empty + 8 * slot);
        }
    }
}

/// The order in which blocks claim pieces of work: `section` heads at a time, whose keys and values fit the second-level cache, and of
/// these one tile of queries after the other.
struct Order {
    tiles: u32,
    section: u32,
}

impl Order {
    /// The tile and the head of piece `index`, heads of all sequences counted: two `div`, two `rem`.
    fn locate(&self, index: u32) -> (u32, u32) {
        let (number, inside): (u32, u32) = (index / (self.section * self.tiles), index % (self.section * self.tiles));
        (inside / self.section, number * self.section + inside % self.section)
    }
}

/// A batch of `count` sequences, packed if `variable` is 1 (`attention::Sequence::locate`): cumulative lengths of Q and K, tokens of the tensors of
/// both, and of the longest sequences.
struct Batch {
    starts: [Global<i32>; 2],
    variable: u32,
    count: u32,
    tokens: [u32; 2],
    longest: [u32; 2],
}

/// Pieces of work of `heads` heads and tiles of `ROWS` queries and `KEYS` keys, one sequence after the other. `before` are those of earlier
/// sequences than the current one, which has `tiles` of queries.
struct Sequences<const ROWS: u32, const KEYS: u32> {
    batch: Batch,
    heads: u32,
    number: u32,
    before: u32,
    tiles: u32,
    q: attention::Sequence,
    k: attention::Sequence,
}

impl<const ROWS: u32, const KEYS: u32> Sequences<ROWS, KEYS> {
    /// The first sequence.
    fn new(batch: Batch, heads: u32) -> Sequences<ROWS, KEYS> {
        let q = attention::Sequence { start: 0, len: 0 };
        let k = attention::Sequence { start: 0, len: 0 };
        let mut first = Sequences::<ROWS, KEYS> { batch, heads, number: 0, before: 0, tiles: 0, q, k };
        first.locate();
        first
    }

    /// The extents of the current sequence.
    fn locate(&mut self) {
        let (all, number): (u32, u32) = (self.batch.variable, self.number);
        self.q = attention::Sequence::locate(self.batch.starts[0], all, number, self.batch.tokens[0], self.batch.longest[0]);
        self.k = attention::Sequence::locate(self.batch.starts[1], all, number, self.batch.tokens[1], self.batch.longest[1]);
        self.tiles = (self.q.len + (ROWS - 1)) / ROWS;
    }

    /// Moves on to the sequence of piece `index`; behind the last piece it has no tiles.
    fn seek(&mut self, index: u32) {
        let mut end: u32 = self.before + self.tiles * self.heads;
        while index >= end {
            self.before = end;
            self.number += 1;
            if self.number >= self.batch.count {
                self.tiles = 0;
                break;
            }
            self.locate();
            end = self.before + self.tiles * self.heads;
        }
    }

    /// Piece `index`, which is one of this sequence, late queries first, `section` heads at a time. Without a key that they see there is one tile,
    /// all of it hidden.
    fn piece(&self, index: u32, section: u32, top_left: u32, left: i32, right: i32) -> (Work, Bounds) {
        let order = Order { tiles: self.tiles.max(1), section };
        let (row, head): (u32, u32) = order.locate(index - self.before);
        let first: u32 = (order.tiles - 1 - row) * ROWS;
        let mask = attention::Mask::new(self.q.len, self.k.len, top_left, left, right);
        let (mut begin, mut end): (u32, u32) = mask.tiles::<KEYS>(first, (first + ROWS).min(self.q.len) - 1);
        let blind: pred = begin >= end;
        begin = blind.select(0, begin);
        end = blind.select(1, end);
        let blocks: u32 = (self.tiles == 0).select(0, end - begin);
        // Packed sequences are one for the tensor maps.
        let batch: u32 = (self.batch.variable != 0).select(0, self.number);
        let bounds = Bounds { begin, start: self.q.start, queries: self.q.len, keys: self.k.len };
        (Work { first, head, batch, blocks }, bounds)
    }
}

/// By one thread of each block, when it claims no more: the last block brings the two words of `claims` back to 0. `atom.inc`, and under a
/// predicate `st`.
fn claimed(claims: u64) {
    let (last, mut ended): (u32, u32) = (nctaid.x - 1, 0);
    ptx! { atom.acq_rel.gpu.global.inc.u32 ended, [claims + 4], last; }
    if ended == last {
        ptx! { st.relaxed.gpu.global.u32 [claims], 0; }
    }
}

/// The online softmax of this thread's two rows: the largest score so far, unless later ones exceed it by little, the thread's part of the sum of
/// exponentials, and the factor by which the last tile changed earlier sums. Powers are those of 2. The largest score stays until another one
/// exceeds it by more than `SLACK` in the exponent, and exponentials are scaled by `2^LIFT`, so that they are at most `2^(SLACK + LIFT)`.
struct Softmax<const SLACK: u32, const LIFT: u32> {
    most: [f32; 2],
    sum: [f32; 2],
    shrink: [f32; 2],
}

impl<const SLACK: u32, const LIFT: u32> Softmax<SLACK, LIFT> {
    /// No keys.
    fn new() -> Softmax<SLACK, LIFT> {
        Softmax { most: [-1e30, -1e30], sum: [0.0, 0.0], shrink: [1.0, 1.0] }
    }

    /// No keys again.
    fn clear<const HALF: u32>(&mut self) {
        self.most[HALF] = -1e30;
        self.sum[HALF] = 0.0;
    }

    /// Scores become exponentials; the sums, and the factors by which earlier sums shrink. Returns true if any row of this
    /// warp has such a factor: seldom, because of the slack.
    fn update<const N: u32>(&mut self, s: &mut [f32; N], exponent: f32) -> pred {
        let mut grown: pred = false;
        for half in 0..2 {
            let (mut x, mut y): (f32, f32) = (self.most[half], self.most[half]);
            for j in 0..N / 4 {
                x = x.max(s[4 * j + 2 * half]);
                y = y.max(s[4 * j + 2 * half + 1]);
            }
            x = fragment::quad_max(x.max(y));
            self.shrink[half] = (self.most[half] - x) * exponent;
            let far: pred = self.shrink[half] < -(SLACK as f32);
            ptx! {
                selp.f32 self.shrink[half], self.shrink[half], 0f00000000, far;
                selp.f32 x, x, self.most[half], far;
                or.pred grown, grown, far;
                ex2.approx.ftz.f32 self.shrink[half], self.shrink[half];
            }
            self.most[half] = x;
            let base: f32 = if LIFT == 0 { -x * exponent } else { (-x).fma(exponent, LIFT as f32) };
            let (mut a, mut b): (f32, f32) = (self.sum[half] * self.shrink[half], 0.0);
            for j in 0..N / 4 {
                const AT: u32 = 4 * j + 2 * half;
                ptx! {
                    fma.rn.f32 s[AT], s[AT], exponent, base;
                    fma.rn.f32 s[AT + 1], s[AT + 1], exponent, base;
                    ex2.approx.ftz.f32 s[AT], s[AT];
                    ex2.approx.ftz.f32 s[AT + 1], s[AT + 1];
                    add.f32 a, a, s[AT];
                    add.f32 b, b, s[AT + 1];
                }
            }
            self.sum[half] = a + b;
        }
        warp::any(grown)
    }

    /// The sums of earlier tiles shrink by the factors of the last one: `mul`.
    fn shrink<const N: u32>(&self, sums: &mut [f32; N]) {
        for i in 0..N {
            sums[i] *= self.shrink[i / 2 % 2];
        }
    }

    /// The inverse of a row's sum of exponentials, 0 without a key, and its logarithm of base 2 (see `logarithm`): `fragment::quad_sum`,
    /// `rcp.approx`, `lg2.approx`.
    fn finish<const HALF: u32>(&self) -> (f32, f32) {
        let total: f32 = fragment::quad_sum(self.sum[HALF]);
        let (mut inverse, log): (f32, f32);
        ptx! {
            rcp.approx.ftz.f32 inverse, total;
            lg2.approx.ftz.f32 log, total;
        }
        inverse = (total == 0.0).select(0.0, inverse);
        (inverse, if LIFT == 0 { log } else { log - LIFT as f32 })
    }

    /// The natural logarithm of a row's sum of exponentials, whose `log` is relative to the largest score: `fma`, `mul`.
    fn logarithm<const HALF: u32>(&self, log: f32, exponent: f32) -> f32 {
        self.most[HALF].fma(exponent, log) * 0.6931471805599453
    }
}

/// Scores of this thread's row `HALF` become minus infinity from column `limit` on; `column` is the tile's first one. `setp` and `selp` for
/// each score.
fn hide_from<const HALF: u32, const N: u32>(s: &mut [f32; N], column: u32, limit: i32) {
    let seen: i32 = limit - signed(column + laneid % 4 * 2);
    for j in 0..N / 4 {
        for e in 0..2 {
            const AT: u32 = 4 * j + 2 * HALF + e;
            let hidden: pred = seen <= (8 * j + e) as i32;
            ptx! { selp.f32 s[AT], 0fFF800000, s[AT], hidden; }
        }
    }
}

/// Scores of this thread's row `HALF` become minus infinity outside of the columns from `from` to before `to`; `column` is the tile's first
/// one. `sub`, `setp` and `selp` for each score.
fn hide_outside<const HALF: u32, const N: u32>(s: &mut [f32; N], column: u32, from: i32, to: i32) {
    let first: i32 = from - signed(column + laneid % 4 * 2);
    let width: u32 = unsigned((to - from).max(0));
    for j in 0..N / 4 {
        for e in 0..2 {
            const AT: u32 = 4 * j + 2 * HALF + e;
            let behind: u32 = unsigned((8 * j + e) as i32 - first);
            let hidden: pred = behind >= width;
            ptx! { selp.f32 s[AT], 0fFF800000, s[AT], hidden; }
        }
    }
}

/// Scores become tanh(scale · s): `mul` and `attention::tanh`.
fn bound<const N: u32>(s: &mut [f32; N], scale: f32) {
    for i in 0..N {
        s[i] = attention::tanh(s[i] * scale);
    }
}

/// Exponentials as the left operand of the next product, pairs of columns: `cvt.rn`.
fn pack<T, const N: u32>(packed: &mut [b32; N / 2], s: &[f32; N]) {
    for i in 0..N / 2 {
        ptx! { cvt.rn.{T}x2.f32 packed[i], s[2 * i + 1], s[2 * i]; }
    }
}

/// Writes this thread's row `HALF` of sums, rounded to `T`, to the row at `to`: neighboring lanes exchange pairs, so that four of them write whole
/// sectors of 32 bytes. With `RAGGED` = 1 the row has `columns` elements, a multiple of 8. `cvt.rn`, `selp`, `shfl.sync.bfly`, and under `inside`
/// `st.global.v2`.
fn store_row<T, const HALF: u32, const RAGGED: u32, const N: u32>(
    sums: &[f32; N],
    to: u64,
    inside: pred,
    columns: u32,
) {
    let odd: pred = (laneid & 1) != 0;
    let own: u64 = to + ((laneid & 1) * 16 + (laneid & 2) * 4) as u64;
    for t in 0..N / 8 {
        const AT: u32 = 8 * t + 2 * HALF;
        let (x, y, sent, got): (b32, b32, b32, b32);
        ptx! {
            cvt.rn.{T}x2.f32 x, sums[AT + 1], sums[AT];
            cvt.rn.{T}x2.f32 y, sums[AT + 5], sums[AT + 4];
            selp.b32 sent, x, y, odd;
            shfl.sync.bfly.b32 got, sent, 1, 31, 0xffffffff;
            selp.b32 x, got, x, odd;
            selp.b32 y, y, got, odd;
        }
        if RAGGED == 1 {
            let writes: pred = inside & ((laneid & 1) * 8 + 16 * t < columns);
            ptx! { @writes st.global.v2.b32 [own + 32 * t], {x, y}; }
        } else {
            ptx! { @inside st.global.v2.b32 [own + 32 * t], {x, y}; }
        }
    }
}
