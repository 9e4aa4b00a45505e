//! Dispatch and combine against the host, on GPUs where there are enough for a test, else on CPU ranks under the watcher.

use super::{Number, same, values};
use half::{bf16, f16};
use ptx_kernels::comm::experts::{ExpertParallel, Extents, Float, NO_EXPERT};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result};

/// `to` = `from`, by a launch, which orders nothing on other ranks.
#[ptx_kernel(
    arch = "sm_80",
    block = 64,
    grid = 2,
    instances = [of_4 = (f32), of_2 = (f16), of_2 = (bf16)],
    unsafe(requires(from.len() >= len, to.len() >= len))
)]
fn copy<T>(from: &[T], to: &mut [T], len: u32) {
    let mut at: u32 = ctaid.x * 64 + tid.x;
    while at < len {
        vector::store_kept::<T, 1>(to.at(at), vector::load::<T, 1>(from.at(at), at < len, 0), at < len);
        at += 128;
    }
}

/// The types that the kernel copies.
trait Copied: Number + Float {
    fn copy(device: &Device, from: &Buffer<Self>, to: &mut Buffer<Self>) -> Result<()>
    where
        Self: Sized;
}

macro_rules! copied {
    ($($ty:ty = $instance:ident;)*) => { $(
        impl Copied for $ty {
            fn copy(device: &Device, from: &Buffer<$ty>, to: &mut Buffer<$ty>) -> Result<()> {
                copy::launch(copy::Instance::$instance, device, from, to, from.len() as u32)
            }
        }
    )* };
}
copied! { f32 = of_4; f16 = of_2; bf16 = of_2; }

/// A turn on all ranks: tokens, and the expert of each pair. An expert's result is its row.
struct Turn<T> {
    extents: Extents,
    x: Vec<Vec<T>>,
    ids: Vec<Vec<u32>>,
    weights: Vec<Vec<f32>>,
}

impl<T: Copied> Turn<T> {
    fn new(extents: Extents, call: u32, tokens: &[usize]) -> Turn<T> {
        let Extents { experts, top_k, hidden, .. } = extents;
        let id = |x: f32| if x > 0.45 { NO_EXPERT } else { (x.abs() * 7919.0) as u32 % experts as u32 };
        let of = |rank: usize, each: usize| tokens[rank] * each;
        let all = |which: u32, each: usize| -> Vec<Vec<f32>> {
            (0..tokens.len()).map(|rank| values(rank, 4 * call + which, of(rank, each))).collect()
        };
        Turn {
            extents,
            x: (0..tokens.len()).map(|rank| values(rank, 4 * call, of(rank, hidden))).collect(),
            ids: all(1, top_k).into_iter().map(|ids| ids.into_iter().map(id).collect()).collect(),
            weights: all(2, top_k),
        }
    }

    fn tokens(&self, rank: usize) -> usize {
        self.x[rank].len() / self.extents.hidden
    }

    /// The rows that a rank gets, in order, and the offsets of its experts.
    fn rows(&self, rank: usize) -> (Vec<T>, Vec<u32>) {
        let Extents { experts, top_k, hidden, .. } = self.extents;
        let local = experts / self.x.len();
        let (mut rows, mut offsets) = (Vec::new(), vec![0]);
        for expert in rank * local..(rank + 1) * local {
            for (x, ids) in self.x.iter().zip(&self.ids) {
                for (pair, _) in ids.iter().enumerate().filter(|(_, id)| **id as usize == expert) {
                    rows.extend(&x[pair / top_k * hidden..][..hidden]);
                }
            }
            offsets.push((rows.len() / hidden) as u32);
        }
        (rows, offsets)
    }

    /// The weighted sums of a rank's tokens.
    fn sums(&self, rank: usize) -> Vec<T> {
        let Extents { top_k, hidden, .. } = self.extents;
        let sum = |at: usize| {
            let pairs = at / hidden * top_k..(at / hidden + 1) * top_k;
            let chosen = pairs.filter(|pair| self.ids[rank][*pair] != NO_EXPERT);
            T::of(chosen.fold(0.0, |sum, pair| self.x[rank][at].value().mul_add(self.weights[rank][pair], sum)))
        };
        (0..self.x[rank].len()).map(sum).collect()
    }

    /// Its memory on the ranks, which outlives the launches: dropping memory waits for its rank.
    fn upload(&self, devices: &Devices) -> Vec<OnDevice<T>> {
        let of = |(at, device): (usize, &Device)| OnDevice {
            shapes: [self.extents.hidden, self.extents.top_k].map(|columns| [self.tokens(at), columns]),
            x: device.upload(&self.x[at]).unwrap(),
            ids: device.upload(&self.ids[at]).unwrap(),
            weights: device.upload(&self.weights[at]).unwrap(),
            out: device.upload(&vec![T::of(-77.25); self.x[at].len()]).unwrap(),
        };
        devices.iter().enumerate().map(of).collect()
    }
}

/// The memory of a turn on a rank.
struct OnDevice<T> {
    shapes: [[usize; 2]; 2],
    x: Buffer<T>,
    ids: Buffer<u32>,
    weights: Buffer<f32>,
    out: Buffer<T>,
}

impl<T: Copied> OnDevice<T> {
    fn dispatch(&self, device: &Device, rank: &mut ExpertParallel<T>) -> Result<()> {
        rank.dispatch(device, self.x.tile(self.shapes[0])?, self.ids.tile(self.shapes[1])?)
    }

    fn combine(&mut self, device: &Device, rank: &mut ExpertParallel<T>) -> Result<()> {
        let parts = rank.parts_mut();
        T::copy(device, parts.rows, parts.results)?;
        self.sum(device, rank)
    }

    fn sum(&mut self, device: &Device, rank: &mut ExpertParallel<T>) -> Result<()> {
        rank.combine(device, self.weights.tile(self.shapes[1])?, self.out.tile_mut(self.shapes[0])?)
    }
}

/// Both, on all ranks.
fn submit<T: Copied>(devices: &Devices, group: &mut [ExpertParallel<T>], memory: &mut [OnDevice<T>]) {
    for ((device, rank), memory) in devices.iter().zip(&mut *group).zip(&*memory) {
        memory.dispatch(device, rank).unwrap();
    }
    for ((device, rank), memory) in devices.iter().zip(group).zip(memory) {
        memory.combine(device, rank).unwrap();
    }
}

/// Turns of different sizes on one group, with no wait between them; then what the last one has sent.
fn turns<T: Copied>(devices: &Devices, extents: Extents, tokens: &[&[usize]]) {
    let mut group = ExpertParallel::<T>::group(devices, extents).unwrap();
    let turns: Vec<Turn<T>> = (0..).zip(tokens).map(|(call, tokens)| Turn::new(extents, call, tokens)).collect();
    let mut memory: Vec<_> = turns.iter().map(|turn| turn.upload(devices)).collect();
    for memory in &mut memory {
        submit(devices, &mut group, memory);
    }
    devices.synchronize().unwrap();
    let want = turns.iter().flat_map(|turn| (0..devices.len()).map(|rank| turn.sums(rank)));
    for (at, (found, want)) in memory.iter().flatten().zip(want).enumerate() {
        same(&found.out.download().unwrap(), &want, &format!("turn and rank {at} of {extents:?}"));
    }
    for (at, rank) in group.iter_mut().enumerate() {
        let (rows, offsets) = turns[turns.len() - 1].rows(at);
        let parts = rank.parts_mut();
        assert_eq!(parts.offsets.download().unwrap(), offsets, "rank {at} of {extents:?}");
        same(&parts.rows.download().unwrap()[..rows.len()], &rows, &format!("rows of rank {at} of {extents:?}"));
        rank.check().unwrap();
    }
}

fn extents(experts: usize, top_k: usize, hidden: usize, tokens: usize) -> Extents {
    Extents { experts, top_k, hidden, tokens, capacity: None }
}

#[test]
fn rows_go_to_their_experts_and_back() {
    turns::<f32>(&Devices::best(1).unwrap(), extents(3, 2, 8, 5), &[&[5], &[2]]);
    turns::<bf16>(&Devices::best(2).unwrap(), extents(6, 2, 16, 9), &[&[9, 3], &[0, 8], &[7, 9]]);
    turns::<f16>(&Devices::best(3).unwrap(), extents(3, 1, 1032, 3), &[&[3, 0, 1], &[0, 0, 0], &[2, 3, 1]]);
    turns::<f32>(&Devices::best(4).unwrap().each(|device| device.seed(5)), extents(8, 3, 4, 7), &[&[1, 7, 0, 6]]);
}

#[test]
fn a_thread_for_each_rank_of_the_experts() {
    let (devices, extents) = (Devices::best(3).unwrap(), extents(6, 2, 8, 4));
    let group = ExpertParallel::<bf16>::group(&devices, extents).unwrap();
    let turns = [[4, 1, 0], [2, 2, 3]];
    let turns: Vec<Turn<bf16>> = (0..).zip(&turns).map(|(call, tokens)| Turn::new(extents, call, tokens)).collect();
    let mut memory: Vec<_> = turns.iter().map(|turn| turn.upload(&devices).into_iter()).collect();
    let run = |device: &Device, mut rank: ExpertParallel<bf16>, memory: Vec<OnDevice<bf16>>| -> Result<()> {
        for (turn, mut memory) in turns.iter().zip(memory) {
            memory.dispatch(device, &mut rank)?;
            memory.combine(device, &mut rank)?;
            same(&memory.out.download()?, &turn.sums(rank.rank()), "a thread for each rank");
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let start = |(device, rank)| {
            let memory = memory.iter_mut().filter_map(Iterator::next).collect();
            let run = &run;
            scope.spawn(move || run(device, rank, memory))
        };
        let threads: Vec<_> = devices.iter().zip(group).map(start).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
}

/// Three rows for two ranks with room for two each: the last one of an expert is not sent.
#[test]
fn rows_without_room_are_counted() {
    let devices = Devices::best(2).unwrap();
    let extents = Extents { capacity: Some(2), ..extents(2, 1, 4, 3) };
    let mut group = ExpertParallel::<f32>::group(&devices, extents).unwrap();
    let mut turn = Turn::new(extents, 0, &[3, 1]);
    (turn.ids, turn.weights) = (vec![vec![1, 1, 1], vec![0]], vec![vec![1.0; 3], vec![1.0]]);
    let mut memory = turn.upload(&devices);
    submit(&devices, &mut group, &mut memory);
    devices.synchronize().unwrap();
    let mut want = turn.sums(0);
    want[8..].fill(0.0);
    same(&memory[0].out.download().unwrap(), &want, "the third token exceeds the capacity");
    assert_eq!(group[1].parts_mut().offsets.download().unwrap(), [0, 2]);
    let error = group[0].check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    assert!(error.to_string().contains("1 rows of rank 0 exceed the capacity"), "{error}");
    group.iter_mut().for_each(|rank| rank.check().unwrap());
}

#[test]
fn a_number_of_no_expert_is_an_error() {
    let (devices, extents) = (Devices::cpu(2), extents(4, 2, 4, 2));
    let mut group = ExpertParallel::<f32>::group(&devices, extents).unwrap();
    let mut turn = Turn::new(extents, 0, &[2, 2]);
    turn.ids[1] = vec![0, 1, 4, 2];
    let memory = turn.upload(&devices);
    for ((device, rank), memory) in devices.iter().zip(&mut group).zip(&memory) {
        memory.dispatch(device, rank).unwrap();
    }
    let (first, second) = (devices[0].synchronize().unwrap_err(), group[1].check().unwrap_err());
    assert!(first.to_string().contains("because rank 1 failed") && second.to_string().contains("trap"), "{second}");
}

#[test]
fn misuse_of_experts_is_an_error() {
    let devices = Devices::best(2).unwrap();
    let wrong = |change: fn(&mut Extents)| {
        let mut extents = extents(4, 2, 8, 3);
        change(&mut extents);
        ExpertParallel::<bf16>::group(&devices, extents).unwrap_err().to_string()
    };
    for (error, part) in [
        (wrong(|extents| extents.experts = 5), "a multiple of the number of ranks"),
        (wrong(|extents| extents.experts = 2048), "up to 1024 experts"),
        (wrong(|extents| extents.hidden = 12), "16 bytes"),
        (wrong(|extents| extents.top_k = 0), "not zero"),
        (wrong(|extents| extents.tokens = 1 << 40), "2^30"),
    ] {
        assert!(error.contains(part), "{error}");
    }
    let mut rank = ExpertParallel::<bf16>::group(&devices, extents(4, 2, 8, 3)).unwrap().remove(0);
    let (x, ids) = (devices[0].zeros::<bf16>(64).unwrap(), devices[0].zeros::<u32>(16).unwrap());
    let mut dispatch = |shape: [usize; 2], choices: [usize; 2]| {
        rank.dispatch(&devices[0], x.tile(shape).unwrap(), ids.tile(choices).unwrap()).unwrap_err()
    };
    for (error, part) in [
        (dispatch([4, 8], [4, 2]), "up to 3, the `tokens` of the group"),
        (dispatch([3, 16], [3, 2]), "[tokens, 8]"),
        (dispatch([3, 8], [2, 2]), "`ids` has the shape [2, 2]"),
    ] {
        assert!(error.kind() == ErrorKind::Condition && error.to_string().contains(part), "{error}");
    }
    let (weights, mut out) = (devices[0].zeros::<f32>(4).unwrap(), devices[0].zeros::<bf16>(16).unwrap());
    let error = rank.combine(&devices[0], weights.tile([2, 2]).unwrap(), out.tile_mut([2, 8]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("0, as many as the last `dispatch`"), "{error}");
}

/// Dispatch, the product of each expert's rows with its matrix, and the sums: as on one device that has all experts.
#[cfg(feature = "gemm")]
#[test]
fn experts_multiply_what_was_sent() {
    use ptx_kernels::grouped_gemm::GroupedGemm;
    let (devices, extents) = (Devices::best(2).unwrap(), extents(4, 2, 16, 5));
    let (n, local) = (extents.hidden, extents.experts / 2);
    let mut group = ExpertParallel::<bf16>::group(&devices, extents).unwrap();
    let mut turn = Turn::<bf16>::new(extents, 0, &[5, 3]);
    // Small integers, whose sums are exact in every order.
    let small = |x: &mut bf16| *x = bf16::from_f32((x.to_f32() * 4.0).round().clamp(-4.0, 4.0));
    turn.x.iter_mut().flatten().for_each(small);
    let mut matrices: Vec<bf16> = values(9, 9, extents.experts * n * n);
    matrices.iter_mut().for_each(small);
    let mut memory = turn.upload(&devices);
    let upload =
        |(at, device): (usize, &Device)| device.upload(&matrices[at * local * n * n..][..local * n * n]).unwrap();
    let b: Vec<_> = devices.iter().enumerate().map(upload).collect();
    for ((device, rank), memory) in devices.iter().zip(&mut group).zip(&memory) {
        memory.dispatch(device, rank).unwrap();
    }
    for (at, (device, rank)) in devices.iter().zip(&mut group).enumerate() {
        let parts = rank.parts_mut();
        let (rows, results) = (parts.rows.tile([parts.capacity, n]), parts.results.tile_mut([parts.capacity, n]));
        let (grouped, b) = (GroupedGemm::new(device).unwrap(), b[at].tile([local, n, n]).unwrap());
        grouped.run(device, rows.unwrap(), b, parts.offsets, results.unwrap()).unwrap();
        memory[at].sum(device, rank).unwrap();
    }
    devices.synchronize().unwrap();
    for (at, memory) in memory.iter().enumerate() {
        let product = |pair: usize, column: usize| -> f32 {
            let (row, expert) = (&turn.x[at][pair / 2 * n..][..n], turn.ids[at][pair] as usize);
            let term = |(k, x): (usize, &bf16)| x.to_f32() * matrices[(expert * n + k) * n + column].to_f32();
            bf16::from_f32(row.iter().enumerate().map(term).sum::<f32>()).to_f32()
        };
        let sum = |out: usize| {
            let pairs = (out / n * 2..out / n * 2 + 2).filter(|pair| turn.ids[at][*pair] != NO_EXPERT);
            let sum = pairs.fold(0.0, |sum, pair| product(pair, out % n).mul_add(turn.weights[at][pair], sum));
            bf16::from_f32(sum)
        };
        let want: Vec<bf16> = (0..turn.x[at].len()).map(sum).collect();
        same(&memory.out.download().unwrap(), &want, &format!("products of rank {at}"));
    }
}

mod mutants {
    //! Mistakes in the kernels, each of which the watcher finds.

    use super::copy;
    use ptx_jit::{JitModule, Source};
    use ptx_launch::Result;
    use ptx_launch::prelude::*;

    const KERNELS: &str = include_str!("../../src/comm/experts/kernels.rs");
    const CALLS: &str = include_str!("../../src/comm/calls.rs");
    const NODE: &str = include_str!("../../../ptx-language/src/prelude/node.rs");

    /// The end of a dispatch, and that of a combination.
    const SENT: &str = "meeting.sync(0, epoch + 1, c.patience);\n        calls::end(d.";
    const READ: &str = "meeting.sync(0, epoch + 1, c.patience);\n        calls::end(m.";

    /// Both kernels for `f32`, with signals of their own, after a replacement.
    fn source(from: &str, to: &str) -> Source {
        let node: String =
            NODE.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
        let (_, calls) = CALLS.split_once("#[ptx_part]").unwrap();
        let module = format!("use super::Call;\nmod signals {{ {node} }}");
        let text = KERNELS
            .replace("modules(crate::comm::calls::calls)", "modules(calls)")
            .replace("use super::Call;", &module)
            .replace("node::", "signals::");
        let text = format!("{text}\n#[ptx_part]{calls}");
        assert!(from.is_empty() || text.contains(from), "nothing to replace: {from}");
        Source::text("experts.rs", text.replace(from, to)).target("sm_80").with("T", "f32").with("EACH", 4)
    }

    /// Two turns of 3 tokens on one rank and 2 on the other, whose experts are all on the other rank.
    fn run(source: &Source) -> Result<()> {
        const TOKENS: [u32; 2] = [3, 2];
        let devices = Devices::cpu(2);
        let module = JitModule::load(&devices[0], source)?;
        let (dispatch, combine) = (module.kernel("dispatch")?, module.kernel("combine")?);
        let zeros = |len: usize| SymmetricBuffer::<f32>::zeros(&devices, len);
        let (mut rows, mut results) = (zeros(20)?, zeros(20)?);
        let mut counts = SymmetricBuffer::<u32>::zeros(&devices, 4)?;
        let x = devices.iter().map(|device| device.upload(&[1.0f32; 12])).collect::<Result<Vec<_>>>()?;
        let ids = [device_ids(&devices[0], 1)?, device_ids(&devices[1], 0)?];
        let words = |len| devices.iter().map(|device| device.zeros::<u32>(len)).collect::<Result<Vec<_>>>();
        let (mut offsets, mut places, mut faults, mut counters) = (words(2)?, words(6)?, words(3)?, words(96)?);
        let mut out = devices.iter().map(|device| device.zeros::<f32>(12)).collect::<Result<Vec<_>>>()?;
        for _ in 0..2 {
            for (at, device) in devices.iter().enumerate() {
                // Experts, choices, tokens, accesses, stride, capacity, rank, ranks, blocks, and no strictness or patience.
                let call = [2, 1, TOKENS[at], 1, 1, 5, at as u32, 2, 1, 0, 0, 0].map(u32::to_le_bytes).concat();
                let (sent, meeting) = (rows.on_mut(at)?.parts_mut(), counts.on_mut(at)?.parts_mut());
                let launch = dispatch.launch().read(&x[at])?.read(&ids[at])?.write(&mut *sent.data)?;
                let launch = launch.write(&mut offsets[at])?.write(&mut places[at])?.write(&mut faults[at])?;
                let launch = launch.write(&mut *meeting.data)?.read(sent.table)?.read(meeting.table)?;
                launch.write(&mut counters[at])?.bytes(&call)?.run(device)?;
                copy::launch(copy::Instance::of_4, device, &*sent.data, &mut **results.on_mut(at)?, 20)?;
                let (read, meeting) = (results.on_mut(at)?.parts_mut(), counts.on_mut(at)?.parts_mut());
                let launch = combine.launch().read(&x[at])?.read(&places[at])?.read(&*read.data)?;
                let launch = launch.write(&mut out[at])?.read(read.table)?.read(meeting.table)?;
                launch.write(&mut counters[at])?.bytes(&call)?.run(device)?;
                // Results of the next layer, in the same place.
                copy::launch(copy::Instance::of_4, device, &**rows.on(at)?, &mut **results.on_mut(at)?, 20)?;
            }
        }
        devices.synchronize()?;
        assert_eq!(out[0].download()?, [1.0; 12]);
        Ok(())
    }

    fn device_ids(device: &Device, id: u32) -> Result<Buffer<u32>> {
        device.upload(&[id; 3])
    }

    #[test]
    fn mistakes_between_ranks_are_findings() {
        run(&source("", "")).unwrap();
        for (from, to, finding) in [
            ("meeting.sync(0, epoch, c.patience);\n        let own", "block::sync(); let own", "W0202"),
            (SENT, "calls::end(d.", "W0202"),
            ("meeting.sync(0, epoch, c.patience);\n        let chunks", "let chunks", "W0202"),
            (READ, "calls::end(m.", "W0202"),
            ("st.release.sys", "st.release.gpu", "W0203"),
            ("ld.acquire.sys", "ld.relaxed.sys", "W0202"),
            ("ptx! { st.release.sys.global.u32 [at], value; }", "let _unused: u64 = at + value as u64;", "W0303"),
        ] {
            let error = run(&source(from, to)).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(finding), "`{to}` in place of `{from}`: {error}");
        }
    }
}
