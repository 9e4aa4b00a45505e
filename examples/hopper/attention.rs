//! Attention, forward: O = softmax(Q · Kᵀ · scale) · V, for every head of every sequence, without ever writing a score.
//!
//! One warp group brings tiles of K and V by TMA into two rings; each of the others owns 64 rows of Q and O. A group's
//! next scores are on the tensor cores together with its last product with V, while it takes the exponentials of the
//! scores between; and the groups take turns at the tensor cores, so that one multiplies while another exponentiates.

use ptx_examples::parallel::{generate, split};
use ptx_examples::{Report, random_float, relative_error, timer};
use ptx_launch::prelude::*;
use ptx_launch::{Result, Swizzle};

/// `q`, `k`, `v` and `out` are tokens × heads × `HEAD`; sequence `i` has the tokens `starts[i]` to `starts[i + 1]`, and
/// `longest` is the length of the longest one. `share` heads of Q have one of K and V, which come in tiles of `KEYS` tokens.
/// With `CAUSAL` a token sees itself and those before it.
#[ptx_kernel(
    arch = "sm_90a",
    block = 128 * (GROUPS + 1),
    grid = (longest.div_ceil(64 * GROUPS), heads, sequences),
    shared = 2 * HEAD * (64 * GROUPS + 4 * KEYS),
    max_regs = 65536 / (128 * (GROUPS + 1)) / 8 * 8,
    instances = [
        (64, 3, 128, false), (64, 3, 128, true), (128, 2, 176, false), (128, 2, 176, true), (128, 2, 128, true),
    ],
)]
pub fn attention<const HEAD: u32, const GROUPS: u32, const KEYS: u32, const CAUSAL: bool>(
    q: TensorMap,
    k: TensorMap,
    v: TensorMap,
    out: &mut [bf16],
    starts: &[u32],
    scale: f32,
    heads: u32,
    share: u32,
    longest: u32,
    sequences: u32,
) {
    /// Tiles of K, and of V, in shared memory; rows of Q in a block; and bytes of a tile: parts of 64 columns, whose rows are
    /// 128 bytes.
    const STAGES: u32 = 2;
    const ROWS: u32 = 64 * GROUPS;
    const PARTS: u32 = HEAD / 64;
    const Q_PART: u32 = ROWS * 128;
    const KV_PART: u32 = KEYS * 128;
    const KV_TILE: u32 = PARTS * KV_PART;
    /// Registers of a thread that multiplies, and of one that copies.
    const MANY: u32 = if GROUPS == 2 { 240 } else { 160 };
    const FEW: u32 = if GROUPS == 2 { 24 } else { 32 };

    #[shared(dynamic, align = 1024)]
    let tiles: [u8];
    #[shared]
    let barriers: [u64; 1 + 4 * STAGES];

    let tile: u32 = if CAUSAL { nctaid.x - 1 - ctaid.x } else { ctaid.x };
    let (start, end): (u32, u32);
    let at = starts.at(ctaid.z);
    ptx! {
        ld.global.nc.u32 start, [at];
        ld.global.nc.u32 end, [at + 4];
    }
    let (length, first): (u32, u32) = (end - start, tile * ROWS);
    if first >= length {
        return;
    }
    let mut seen: u32 = length;
    if CAUSAL {
        let below: u32 = first + ROWS;
        ptx! { min.u32 seen, seen, below; }
    }
    let blocks: u32 = (seen + (KEYS - 1)) / KEYS;

    let q_tile: u32 = tiles;
    let k_tiles: u32 = q_tile + PARTS * Q_PART;
    let v_tiles: u32 = k_tiles + STAGES * KV_TILE;
    let q_full: u32 = barriers;
    let (k_full, k_empty): (u32, u32) = (q_full + 8, q_full + 8 + 8 * STAGES);
    let (v_full, v_empty): (u32, u32) = (k_empty + 8 * STAGES, k_empty + 16 * STAGES);
    if tid.x == 0 {
        mbarrier::init(q_full, 1);
        for i in 0..STAGES {
            mbarrier::init(k_full + 8 * i, 1);
            mbarrier::init(v_full + 8 * i, 1);
            mbarrier::init(k_empty + 8 * i, 4 * GROUPS);
            mbarrier::init(v_empty + 8 * i, 4 * GROUPS);
        }
        mbarrier::fence_init();
    }
    block::sync();

    let (mut stage, mut phase, mut block): (u32, u32, u32) = (0, 0, blocks);
    if tid.x < 128 {
        wgmma::fewer_registers::<FEW>();
        if tid.x == 0 {
            mbarrier::arrive_expect(q_full, PARTS * Q_PART);
            for i in 0..PARTS {
                tma::load_3d(q_tile + i * Q_PART, q, 64 * i, ctaid.y, start + first, q_full);
            }
            let head: u32 = ctaid.y / share;
            while block > 0 {
                block -= 1;
                let token: u32 = start + block * KEYS;
                bring(k_tiles, k, head, token, k_full, k_empty, stage, phase);
                bring(v_tiles, v, head, token, v_full, v_empty, stage, phase);
                turn(&mut stage, &mut phase);
            }
        }
    } else {
        wgmma::more_registers::<MANY>();
        let (group, lane): (u32, u32) = (tid.x / 128 - 1, laneid);
        // This thread's rows are `row` and `row` + 8; of 8 keys it holds the scores of two.
        let row: u32 = first + group * 64 + tid.x / 32 % 4 * 16 + lane / 4;
        let top: u32 = first + group * 64 + 1;
        let q_rows: u64 = wgmma::descriptor_k128(q_tile + group * (64 * 128));
        let k_rows: u64 = wgmma::descriptor_k128(k_tiles);
        let v_rows: u64 = wgmma::descriptor::<KV_PART, 1024, 128>(v_tiles);
        let log2_scale: f32 = scale * 1.4426950408889634;
        let (s, p, o): ([f32; KEYS / 2], [b32; KEYS / 4], [f32; HEAD / 2]);
        for i in 0..KEYS / 2 {
            s[i] = 0.0;
        }
        for i in 0..HEAD / 2 {
            o[i] = 0.0;
        }
        let (most, sum, shrink): ([f32; 2], [f32; 2], [f32; 2]);
        most = [-1e30, -1e30];
        sum = [0.0, 0.0];

        // The first scores, with nothing to overlap.
        block -= 1;
        mbarrier::wait(q_full, 0);
        mbarrier::wait(k_full, 0);
        wgmma::fence();
        scores(&mut s, q_rows, k_rows);
        wgmma::commit();
        if group == GROUPS - 1 {
            barrier::arrive::<256>(1);
        }
        wgmma::wait::<0>();
        release(k_empty);
        mask(&mut s, block, row, top, length);
        softmax(&mut s, &mut most, &mut sum, &mut shrink, log2_scale);
        pack(&mut p, s);

        while block > 0 {
            block -= 1;
            let (v_stage, v_phase): (u32, u32) = (stage, phase);
            turn(&mut stage, &mut phase);
            mbarrier::wait(k_full + 8 * stage, phase);
            barrier::sync::<256>(1 + group);
            wgmma::fence();
            scores(&mut s, q_rows, k_rows + (stage * (KV_TILE / 16)) as u64);
            wgmma::commit();
            mbarrier::wait(v_full + 8 * v_stage, v_phase);
            values(&mut o, p, v_rows + (v_stage * (KV_TILE / 16)) as u64);
            wgmma::commit();
            pass(group);
            wgmma::wait::<1>();
            release(k_empty + 8 * stage);
            mask(&mut s, block, row, top, length);
            let grown: pred = softmax(&mut s, &mut most, &mut sum, &mut shrink, log2_scale);
            wgmma::wait::<0>();
            release(v_empty + 8 * v_stage);
            if grown {
                for i in 0..HEAD / 2 {
                    o[i] *= shrink[i / 2 % 2];
                }
            }
            pack(&mut p, s);
        }
        mbarrier::wait(v_full + 8 * stage, phase);
        wgmma::fence();
        values(&mut o, p, v_rows + (stage * (KV_TILE / 16)) as u64);
        wgmma::commit();
        wgmma::wait::<0>();

        // Through this group's rows of Q in shared memory, so that a warp writes whole rows.
        let inverse: [f32; 2];
        for i in 0..2 {
            let total: f32 = quad_sum(sum[i]);
            ptx! { rcp.approx.ftz.f32 inverse[i], total; }
        }
        barrier::sync::<128>(1 + GROUPS + group);
        let mine: u32 = q_tile + (group * 64 + tid.x / 32 % 4 * 16) * 128;
        let to: u32 = mine + (lane & 15) * 128;
        for i in (0..HEAD / 2).step_by(8) {
            let packed: [b32; 4];
            for j in 0..4 {
                const AT: u32 = i + 2 * j;
                let (low, high): (f32, f32) = (o[AT] * inverse[j % 2], o[AT + 1] * inverse[j % 2]);
                ptx! { cvt.rn.bf16x2.f32 packed[j], high, low; }
            }
            let chunk: u32 = (i / 4 % 8 + (lane >> 4)) ^ (lane & 7);
            matrix::store_x4(to + (i / 32 * Q_PART) + (chunk << 4), packed);
        }
        warp::sync();
        let base: u32 = row - lane / 4;
        for i in 0..HEAD / 16 {
            const PART: u32 = i / 4;
            let at: u32 = i % 4 * 4 + lane / 8;
            let packed: [b32; 4];
            let from: u32 = mine + PART * Q_PART + at * 128 + (((lane & 7) ^ (at & 7)) << 4);
            let token: u64 = wide(start + base + at) * heads + ctaid.y as u64;
            let place: u64 = out + (token * HEAD as u64 + (PART * 64 + (lane & 7) * 8) as u64) * 2;
            let inside: pred = base + at < length;
            ptx! {
                ld.shared.v4.b32 {packed[..]}, [from];
                @inside st.global.v4.b32 [place], {packed[..]};
            }
        }
    }

    /// The next stage; the parity changes where the ring starts again.
    fn turn(stage: &mut u32, phase: &mut u32) {
        *stage += 1;
        if *stage == STAGES {
            *stage = 0;
            *phase = *phase ^ 1;
        }
    }

    /// Begins to copy the tile of K or V that starts at a token, when its stage is empty.
    fn bring(tiles: u32, map: TensorMap, head: u32, token: u32, full: u32, empty: u32, stage: u32, phase: u32) {
        let (bar, to): (u32, u32) = (full + 8 * stage, tiles + stage * KV_TILE);
        mbarrier::wait(empty + 8 * stage, phase ^ 1);
        mbarrier::arrive_expect(bar, KV_TILE);
        for i in 0..PARTS {
            tma::load_3d(to + i * KV_PART, map, 64 * i, head, token, bar);
        }
    }

    /// One lane of each warp says that the warp has read a stage.
    fn release(empty: u32) {
        if laneid == 0 {
            mbarrier::arrive(empty);
        }
    }

    /// Lets the next group multiply.
    fn pass(group: u32) {
        let mut next: u32 = group + 2;
        let last: pred = group == GROUPS - 1;
        ptx! { selp.u32 next, 1, next, last; }
        barrier::arrive::<256>(next);
    }

    /// S = Q · Kᵀ: 64 rows and 128 keys, 16 columns at a time.
    fn scores(s: &mut [f32; KEYS / 2], q_rows: u64, k_rows: u64) {
        for i in 0..HEAD / 16 {
            const PART: u64 = (i / 4) as u64;
            const STEP: u64 = (i % 4 * 2) as u64;
            let (a, b): (u64, u64) =
                (q_rows + (PART * Q_PART as u64 / 16 + STEP), k_rows + (PART * KV_PART as u64 / 16 + STEP));
            const SHAPE: &str = wgmma::SHAPES_16[KEYS / 8 - 1];
            if i == 0 {
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.bf16.bf16 {s[..]}, a, b, 0, 1, 1, 0, 0; }
            } else {
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.bf16.bf16 {s[..]}, a, b, 1, 1, 1, 0, 0; }
            }
        }
    }

    /// O += P · V, 16 keys at a time: P in registers, V as it lies, keys by columns.
    fn values(o: &mut [f32; HEAD / 2], p: [b32; KEYS / 4], v_rows: u64) {
        const SHAPE: &str = if HEAD == 64 { "m64n64k16" } else { "m64n128k16" };
        for i in 0..KEYS / 16 {
            let b: u64 = v_rows + (i * (16 * 128 / 16)) as u64;
            ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.bf16.bf16 {o[..]}, {p[4 * i..4 * i + 4]}, b, 1, 1, 1, 1; }
        }
    }

    /// Keys that a row does not see: those behind the sequence's end and, if causal, behind the row's own token. Most
    /// tiles have none.
    fn mask(s: &mut [f32; KEYS / 2], block: u32, row: u32, top: u32, length: u32) {
        let mut least: u32 = length;
        if CAUSAL {
            ptx! { min.u32 least, least, top; }
        }
        if (block + 1) * KEYS > least {
            for half in 0..2 {
                let mut limit: i32 = length as i32;
                if CAUSAL {
                    let own: i32 = (row + (8 * half + 1)) as i32;
                    ptx! { min.s32 limit, limit, own; }
                }
                limit -= (block * KEYS + laneid % 4 * 2) as i32;
                for j in 0..KEYS / 8 {
                    for e in 0..2 {
                        let hidden: pred = limit <= (8 * j + e) as i32;
                        ptx! { selp.f32 s[4 * j + 2 * half + e], 0fFF800000, s[4 * j + 2 * half + e], hidden; }
                    }
                }
            }
        }
    }

    /// Scores to exponentials, their sums, and the factor by which what was summed before shrinks; whether that is so for any
    /// row of this warp. A row's largest score makes its exponentials 1 at most; as long as the one of before leaves them below
    /// 2⁸, it stays, and with it all that was summed. So O is seldom scaled.
    fn softmax(
        s: &mut [f32; KEYS / 2],
        most: &mut [f32; 2],
        sum: &mut [f32; 2],
        shrink: &mut [f32; 2],
        log2_scale: f32,
    ) -> pred {
        let mut grown: pred = false;
        for half in 0..2 {
            let (mut x, mut y): (f32, f32) = (most[half], most[half]);
            for j in 0..KEYS / 8 {
                ptx! {
                    max.f32 x, x, s[4 * j + 2 * half];
                    max.f32 y, y, s[4 * j + 2 * half + 1];
                }
            }
            ptx! { max.f32 x, x, y; }
            for step in [1, 2] {
                ptx! {
                    shfl.sync.bfly.b32 y, x, step, 31, 0xffffffff;
                    max.f32 x, x, y;
                }
            }
            shrink[half] = (most[half] - x) * log2_scale;
            let far: pred = shrink[half] < -8.0;
            ptx! {
                selp.f32 shrink[half], shrink[half], 0f00000000, far;
                selp.f32 x, x, most[half], far;
                or.pred grown, grown, far;
                ex2.approx.ftz.f32 shrink[half], shrink[half];
            }
            most[half] = x;
            let base: f32 = -x * log2_scale;
            let (mut a, mut b): (f32, f32) = (sum[half] * shrink[half], 0.0);
            for j in 0..KEYS / 8 {
                const AT: u32 = 4 * j + 2 * half;
                ptx! {
                    fma.rn.f32 s[AT], s[AT], log2_scale, base;
                    fma.rn.f32 s[AT + 1], s[AT + 1], log2_scale, base;
                    ex2.approx.ftz.f32 s[AT], s[AT];
                    ex2.approx.ftz.f32 s[AT + 1], s[AT + 1];
                    add.f32 a, a, s[AT];
                    add.f32 b, b, s[AT + 1];
                }
            }
            sum[half] = a + b;
        }
        warp::any(grown)
    }

    /// The exponentials as the left operand of the next product: pairs of keys.
    fn pack(p: &mut [b32; KEYS / 4], s: [f32; KEYS / 2]) {
        for i in 0..KEYS / 4 {
            ptx! { cvt.rn.bf16x2.f32 p[i], s[2 * i + 1], s[2 * i]; }
        }
    }

    /// The sum over the four lanes that share a row.
    fn quad_sum(x: f32) -> f32 {
        let mut sum: f32 = x;
        for step in [1, 2] {
            let other: f32;
            ptx! { shfl.sync.bfly.b32 other, sum, step, 31, 0xffffffff; }
            sum += other;
        }
        sum
    }
}

/// What is attended to: sequences by their lengths, heads of Q, how many of them share one of K and V, a head's width.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) lengths: Vec<u32>,
    pub(crate) heads: u32,
    pub(crate) share: u32,
    pub(crate) width: u32,
    pub(crate) causal: bool,
}

impl Task {
    pub(crate) fn tokens(&self) -> u32 {
        self.lengths.iter().sum()
    }

    fn longest(&self) -> u32 {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Keys in a tile, as measured on an H200. Larger ones cost less for each key, but in the last one of a row of Q are more
    /// that it does not see.
    pub(crate) fn keys(&self) -> usize {
        if self.width == 64 || (self.causal && self.longest() <= 8192) { 128 } else { 176 }
    }

    /// Where each sequence starts, and where the last one ends.
    pub(crate) fn starts(&self) -> Vec<u32> {
        let ends = self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// Products of Q with K and of P with V; half of them if causal.
    pub(crate) fn flops(&self) -> f64 {
        let pairs: f64 = self.lengths.iter().map(|length| f64::from(*length).powi(2)).sum();
        pairs * f64::from(4 * self.heads * self.width) * if self.causal { 0.5 } else { 1.0 }
    }
}

/// The tensor maps and sequence starts of one call.
#[derive(Debug)]
pub(crate) struct Plan {
    task: Task,
    keys: usize,
    maps: [TensorMap; 3],
    starts: Buffer<u32>,
}

impl Plan {
    /// For Q, K and V on a device, which must outlive the plan, and tiles of so many keys, those of an instance.
    pub(crate) fn new(device: &Device, task: &Task, qkv: [&Buffer<bf16>; 3], keys: usize) -> Result<Plan> {
        let rows = if task.width == 64 { 192 } else { 128 };
        let map = |x: &Buffer<bf16>, heads: u32, rows| {
            let shape = [task.tokens() as usize, heads as usize, task.width as usize];
            TensorMap::of(device, x, &shape)?.tile(&[rows, 1, 64]).swizzle(Swizzle::B128).build()
        };
        let [q, k, v] = qkv;
        let maps =
            [map(q, task.heads, rows)?, map(k, task.heads / task.share, keys)?, map(v, task.heads / task.share, keys)?];
        Ok(Plan { task: task.clone(), keys, maps, starts: device.upload(&task.starts())? })
    }

    #[allow(unsafe_code, reason = "the kernel reads by tensor maps, which no condition can compare with its numbers")]
    pub(crate) fn launch(&self, stream: &Stream, out: &mut Buffer<bf16>) -> Result<()> {
        let Plan { task, keys, maps: [q, k, v], starts } = self;
        let Task { lengths, heads, share, width, causal } = task;
        let (scale, longest) = (1.0 / (*width as f32).sqrt(), task.longest());
        let sequences = lengths.len() as u32;
        macro_rules! instance {
            ($($generics:tt),*) => {
                attention::<$($generics),*>(stream, q, k, v, out, starts, scale, *heads, *share, longest, sequences)
            };
        }
        // SAFETY: maps, starts and output are of the task's shape, and alive.
        unsafe {
            match (width, causal, keys) {
                (64, false, _) => instance!(64, 3, 128, false),
                (64, true, _) => instance!(64, 3, 128, true),
                (_, false, _) => instance!(128, 2, 176, false),
                (_, true, 128) => instance!(128, 2, 128, true),
                (_, true, _) => instance!(128, 2, 176, true),
            }
        }
    }
}

/// One row of the output, for a token of a sequence and a head.
pub(crate) fn reference(task: &Task, [q, k, v]: [&[bf16]; 3], sequence: usize, token: usize, head: usize) -> Vec<f64> {
    let (width, start) = (task.width as usize, task.starts()[sequence] as usize);
    let groups = (task.heads / task.share) as usize;
    let query = &q[((start + token) * task.heads as usize + head) * width..][..width];
    let row = |x: &[bf16], at: usize| -> Vec<f64> {
        let from = ((start + at) * groups + head / task.share as usize) * width;
        x[from..from + width].iter().map(|x| x.to_f64()).collect()
    };
    let seen = if task.causal { token + 1 } else { task.lengths[sequence] as usize };
    let score = |at| query.iter().zip(row(k, at)).map(|(q, k)| q.to_f64() * k).sum::<f64>() / (width as f64).sqrt();
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
    let mut out = vec![0.0; width];
    for (at, score) in scores.iter().enumerate() {
        let share = (score - top).exp() / total;
        out.iter_mut().zip(row(v, at)).for_each(|(out, v)| *out += share * v);
    }
    out
}

/// Rows of the output that are compared; of larger ones so many, evenly spread, and the first and the last.
const COMPARED: usize = 2304;

fn check(device: &Device, task: &Task, keys: usize, report: &mut Report) -> Result<()> {
    let operand = |heads: u32, seed| -> Vec<bf16> {
        let count = (task.tokens() * heads * task.width) as usize;
        generate(count, |at| bf16::from_f32(2.0 * random_float(at as u32, seed)))
    };
    let groups = task.heads / task.share;
    let (q, k, v) = (operand(task.heads, 1), operand(groups, 2), operand(groups, 3));
    let (dq, dk, dv) = (device.upload(&q)?, device.upload(&k)?, device.upload(&v)?);
    let plan = Plan::new(device, task, [&dq, &dk, &dv], keys)?;
    let mut out = device.upload(&vec![bf16::NAN; q.len()])?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || plan.launch(&stream, &mut out))?.median();
    let result: Vec<f32> = out.download()?.into_iter().map(bf16::to_f32).collect();

    let (width, heads, starts) = (task.width as usize, task.heads as usize, task.starts());
    let rows = result.len() / width;
    // An odd step meets every place in a tile.
    let step = rows.div_ceil(COMPARED) | 1;
    let compared: Vec<usize> = (0..rows).step_by(step).chain([rows - 1]).collect();
    let expected = split(compared.len(), width * task.longest() as usize, |some| {
        let of = |row: &usize| {
            let (token, head) = ((row / heads) as u32, row % heads);
            let sequence = starts.partition_point(|start| *start <= token) - 1;
            reference(task, [&q, &k, &v], sequence, (token - starts[sequence]) as usize, head)
        };
        compared[some].iter().flat_map(of).collect::<Vec<_>>()
    });
    let found: Vec<f32> = compared.iter().flat_map(|row| &result[row * width..][..width]).copied().collect();
    let error = relative_error(&found, expected.concat());
    report.error = report.error.max(if result.iter().all(|x| x.is_finite()) { error } else { f64::INFINITY });
    report.time = time;
    report.size = format!("{:?} × {} × {}", task.lengths, task.heads, task.width);
    report.figure = format!("{:.3} TFLOP/s", task.flops() / time.as_secs_f64().max(1e-12) / 1e12);
    Ok(())
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut report = Report {
        name: "attention",
        device: device.name().to_owned(),
        size: String::new(),
        error: 0.0,
        limit: 6e-3,
        time: std::time::Duration::ZERO,
        figure: String::new(),
    };
    let (heads, share) = (2, 2);
    let long = if device.is_cuda() { 1000 } else { 200 };
    let task = |width, causal| Task { lengths: vec![long, 1, 130], heads, share, width, causal };
    for task in [task(64, false), task(64, true), task(128, true), task(128, false)] {
        check(device, &task, task.keys(), &mut report)?;
    }
    // What long causal sequences take.
    check(device, &task(128, true), 176, &mut report)?;
    if device.is_cuda() {
        // The figure: four sequences of 4096 tokens.
        let large = Task { lengths: vec![4096; 4], heads: 16, share: 1, width: 128, causal: false };
        check(device, &large, large.keys(), &mut report)?;
    }
    Ok(report)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
