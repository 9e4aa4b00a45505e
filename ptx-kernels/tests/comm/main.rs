//! Collective operations against sums in the order of the ranks, on GPUs where there are enough for a test, else on CPU ranks under the watcher (`PTX_DEVICE=cpu`:
//! always). On GPUs with `--test-threads=1`: kernels of two tests would wait for each other's.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod choice;
mod experts;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(feature = "gemm")]
mod products;

use half::{bf16, f16};
use ptx_kernels::comm::{self, Algorithm, Float, Rank};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result};

/// An element type, with its values as `f32`.
trait Number: Float + PartialEq {
    const BITS: u32;
    fn of(x: f32) -> Self;
    fn value(self) -> f32;
    fn bits(self) -> u32;
}

macro_rules! numbers {
    ($($ty:ty, $bits:expr, $of:expr, $value:expr;)*) => { $(
        impl Number for $ty {
            const BITS: u32 = $bits;
            fn of(x: f32) -> $ty {
                ($of)(x)
            }
            fn value(self) -> f32 {
                ($value)(self)
            }
            fn bits(self) -> u32 {
                self.to_bits().into()
            }
        }
    )* };
}
numbers! {
    f32, 32, |x| x, |x| x;
    f16, 16, f16::from_f32, f16::to_f32;
    bf16, 16, bf16::from_f32, bf16::to_f32;
}

/// The values of a rank: random, of several magnitudes, so that another order of the sum has other bits.
fn values<T: Number>(rank: usize, call: u32, len: usize) -> Vec<T> {
    let value = |at: usize| {
        let x = (at as u64 ^ (rank as u64) << 40 ^ u64::from(call) << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        T::of((x as f32 / 4.0e9 - 0.5) * (1 << (x % 7)) as f32)
    };
    (0..len).map(value).collect()
}

/// The sum over all ranks, in their order, rounded once.
fn sums<T: Number>(ranks: usize, call: u32, len: usize) -> Vec<T> {
    let all: Vec<Vec<T>> = (0..ranks).map(|rank| values(rank, call, len)).collect();
    let sum = |at: usize| all[1..].iter().fold(all[0][at].value(), |sum, values| sum + values[at].value());
    (0..len).map(|at| T::of(sum(at))).collect()
}

fn same<T: Number>(found: &[T], want: &[T], what: &str) {
    let differs = found.iter().zip(want).position(|(found, want)| found.bits() != want.bits());
    if let Some(at) = differs {
        panic!("{what}: element {at} of {} is {}, not {}", want.len(), found[at].value(), want[at].value());
    }
    assert_eq!(found.len(), want.len(), "{what}");
}

/// Several calls in a row, with no wait between them, each on all ranks.
fn all_reduce<T: Number>(devices: &Devices, lens: &[usize], algorithms: &[Algorithm]) {
    let mut ranks = Rank::group(devices).unwrap();
    let most = *lens.iter().max().unwrap();
    let mut call = 0;
    for algorithm in algorithms {
        for len in lens {
            call += 1;
            let mut x = SymmetricBuffer::<T>::zeros(devices, most + 1).unwrap();
            let guard = T::of(-77.25);
            for rank in 0..devices.len() {
                let mut all = values::<T>(rank, call, *len);
                all.resize(most + 1, guard);
                x.on_mut(rank).unwrap().write(&all).unwrap();
            }
            for turn in 0..2 {
                for (device, (rank, x)) in devices.iter().zip(ranks.iter_mut().zip(x.iter_mut())) {
                    // The second call sums the sums.
                    comm::all_reduce_by(*algorithm, device, rank, x, *len).unwrap();
                    let _ = turn;
                }
            }
            devices.synchronize().unwrap();
            let once = sums::<T>(devices.len(), call, *len);
            let again = |x: &T| (1..devices.len()).fold(x.value(), |sum, _| sum + x.value());
            let mut want: Vec<T> = once.iter().map(|x| T::of(again(x))).collect();
            want.resize(most + 1, guard);
            for rank in 0..devices.len() {
                let what = format!("{algorithm:?} of {len} x {} bits on rank {rank} of {}", T::BITS, devices.len());
                same(&x.on(rank).unwrap().download().unwrap(), &want, &what);
            }
        }
    }
}

const BOTH: [Algorithm; 2] = [Algorithm::Packets, Algorithm::Shares];

#[test]
fn every_rank_has_the_sum() {
    all_reduce::<f32>(&Devices::best(2).unwrap(), &[1, 4, 7, 1024, 2500], &BOTH);
    all_reduce::<bf16>(&Devices::best(3).unwrap(), &[3, 8, 2056], &BOTH);
    all_reduce::<f16>(&Devices::best(4).unwrap().each(|device| device.seed(9)), &[5, 800], &BOTH);
}

#[test]
fn two_ranks_exchange() {
    // Less than a chunk, and chunks of more warps than a block has, whose last one is not full.
    all_reduce::<bf16>(&Devices::best(2).unwrap(), &[8, 2056, 40_008], &[Algorithm::Exchange]);
    all_reduce::<f32>(&Devices::best(2).unwrap().each(|device| device.seed(5)), &[4, 1028], &[Algorithm::Exchange]);
    let devices = Devices::best(3).unwrap();
    let (mut ranks, mut x) = (Rank::group(&devices).unwrap(), SymmetricBuffer::<f32>::zeros(&devices, 8).unwrap());
    let x = x.on_mut(0).unwrap();
    let error = comm::all_reduce_by(Algorithm::Exchange, &devices[0], &mut ranks[0], x, 8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn one_rank_is_a_group() {
    all_reduce::<f32>(&Devices::best(1).unwrap(), &[5, 64], &BOTH);
}

#[test]
fn parts_are_gathered_and_scattered() {
    for (ranks, part) in [(2, 24), (3, 5), (4, 16)] {
        let devices = Devices::best(ranks).unwrap();
        let mut group = Rank::group(&devices).unwrap();
        let mut x = SymmetricBuffer::<bf16>::zeros(&devices, ranks * part).unwrap();
        let mut out: Vec<_> = devices.iter().map(|device| device.zeros::<bf16>(part).unwrap()).collect();
        for rank in 0..ranks {
            x.on_mut(rank).unwrap().write(&values(rank, 0, ranks * part)).unwrap();
        }
        for rank in 0..ranks {
            let out = out[rank].tile_mut([part]).unwrap();
            comm::reduce_scatter(&devices[rank], &mut group[rank], x.on_mut(rank).unwrap(), out).unwrap();
        }
        for rank in 0..ranks {
            let part = out[rank].tile([part]).unwrap();
            comm::all_gather(&devices[rank], &mut group[rank], part, x.on_mut(rank).unwrap()).unwrap();
        }
        devices.synchronize().unwrap();
        let want = sums::<bf16>(ranks, 0, ranks * part);
        for rank in 0..ranks {
            same(&out[rank].download().unwrap(), &want[rank * part..(rank + 1) * part], "reduce-scatter");
            same(&x.on(rank).unwrap().download().unwrap(), &want, "all-gather");
        }
    }
}

#[test]
fn a_thread_for_each_rank() {
    let devices = Devices::best(3).unwrap();
    let (ranks, parts) = (Rank::group(&devices).unwrap(), SymmetricBuffer::<f32>::zeros(&devices, 100).unwrap());
    let run = |device: &Device, mut rank: Rank, mut x: Symmetric<f32>| -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for call in 0..3 {
            x.write(&values(rank.rank(), call, 100))?;
            comm::all_reduce(device, &mut rank, &mut x)?;
            all.extend(x.download()?);
        }
        Ok(all)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |((device, rank), x)| scope.spawn(move || run(device, rank, x));
        let threads: Vec<_> = devices.iter().zip(ranks).zip(parts.into_ranks()).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    let want: Vec<f32> = (0..3).flat_map(|call| sums::<f32>(3, call, 100)).collect();
    results.iter().for_each(|found| same(found, &want, "a thread for each rank"));
}

#[test]
fn misuse_is_an_error() {
    let devices = Devices::best(2).unwrap();
    let mut ranks = Rank::group(&devices).unwrap();
    let mut x = SymmetricBuffer::<f32>::zeros(&devices, 10).unwrap();
    let mut kind = |rank: usize, of: usize, len: usize| {
        let x = x.on_mut(of).unwrap();
        comm::all_reduce_by(Algorithm::Shares, &devices[rank], &mut ranks[rank], x, len).unwrap_err().kind()
    };
    assert_eq!((kind(0, 1, 10), kind(1, 1, 11)), (ErrorKind::Condition, ErrorKind::Condition));
    let mut part = devices[0].zeros::<f32>(4).unwrap();
    let wrong = comm::reduce_scatter(&devices[0], &mut ranks[0], x.on_mut(0).unwrap(), part.tile_mut([4]).unwrap());
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Condition);
    assert_eq!(x.on(2).unwrap_err().kind(), ErrorKind::Condition);
}

#[test]
#[ignore = "needs ptxas: PTXAS=/path/to/ptxas cargo test -p ptx-kernels --test comm -- --ignored assembles"]
fn every_module_assembles() {
    let ptxas = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    for (name, ptx) in comm::MODULES {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ptx"));
        std::fs::write(&file, ptx).unwrap();
        let targets: &[&str] = match *name {
            name if name.ends_with("90a") => &["90a"],
            name if name.ends_with("90") => &["90", "100", "120"],
            _ => &["80"],
        };
        for target in targets {
            let arch = format!("-arch=sm_{target}");
            let run =
                std::process::Command::new(&ptxas).args(["-v", &arch, "-o", "/dev/null"]).arg(&file).output().unwrap();
            let log = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{name} for sm_{target}: {log}");
            let spills = log.lines().filter(|line| line.contains("spill") && !line.contains(" 0 bytes spill stores"));
            assert_eq!(spills.count(), 0, "{name} for sm_{target}: {log}");
            println!("{log}");
        }
    }
}

#[test]
fn a_rank_that_is_missing_or_fails_ends_the_others() {
    let devices = Devices::cpu(3);
    let mut ranks = Rank::group(&devices).unwrap();
    let mut x = SymmetricBuffer::<f32>::zeros(&devices, 40).unwrap();
    // The wait for a launch of rank 2 takes ten seconds, and little of the processor.
    for rank in 0..2 {
        comm::all_reduce_by(Algorithm::Shares, &devices[rank], &mut ranks[rank], x.on_mut(rank).unwrap(), 40).unwrap();
    }
    let first = devices[0].synchronize().unwrap_err();
    let second = devices[1].synchronize().unwrap_err();
    devices[2].synchronize().unwrap();
    assert!(first.to_string().contains("rank 2 had no launch"), "{first}");
    assert!(second.to_string().contains("because rank 0 failed"), "{second}");
}

/// Each rank writes its data, and reads those of the next one; `sync` is false for the mistake.
#[ptx_kernel(
    arch = "sm_80",
    block = 32,
    grid = 1,
    instances = [right = (true), wrong = (false)],
    unsafe(requires(x.len() >= 64, table.len() >= 2 * ranks, rank < ranks))
)]
fn read_next<const SYNC: bool>(x: &mut [u32], table: &[u64], rank: u32, ranks: u32) {
    let symm = node::Symmetric { table, rank, ranks };
    let (own, value): (u64, u32) = (x.at(tid.x), rank * 100 + tid.x);
    ptx! { st.global.u32 [own], value; }
    if SYNC {
        symm.sync(0, 1, 0);
    }
    let from: u64 = symm.on(symm.behind(1)) + wide(tid.x) * 4;
    let found: u32;
    ptx! {
        ld.global.u32 found, [from];
        st.global.u32 [own + 128], found;
    }
}

#[test]
fn a_missing_signal_between_ranks_is_a_finding() {
    let run = |instance: read_next::Instance| -> Result<Vec<u32>> {
        let devices = Devices::cpu(3);
        let mut x = SymmetricBuffer::<u32>::zeros(&devices, 64)?;
        for (device, x) in devices.iter().zip(x.iter_mut()) {
            let parts = x.parts_mut();
            read_next::launch(instance, device, parts.data, parts.table, parts.rank, parts.ranks)?;
        }
        devices.synchronize()?;
        x.on(2)?.download()
    };
    assert_eq!(run(read_next::Instance::right).unwrap()[32..35], [0, 1, 2]);
    let error = run(read_next::Instance::wrong).unwrap_err().to_string();
    assert!(error.contains("W0202") && error.contains("between two ranks") && error.contains(".sys"), "{error}");
}
