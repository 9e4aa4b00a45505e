//! Checks and measures the collective operations on the GPUs of this machine:
//!
//!     cargo run --release -p ptx-kernels --no-default-features --features comm,measure --example ranks -- check soak latency
//!
//! `check` compares every operation with sums in the order of the ranks, bit by bit, also from a thread for each rank, and copies between GPUs.
//! `soak` runs many all-reduces of random sizes, with random delays of one rank. `latency` prints medians of calls in graphs as lines of JSON.
//! `patience` lets a rank wait for one that never comes. `products` and `products-check` do the same for products that communicate, beside the same
//! work by one kernel after the other. `PTX_RANKS` is the number of GPUs, 2 without it.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program for people")]

#[path = "ranks/products.rs"]
mod products;

use half::{bf16, f16};
use ptx_kernels::comm::{self, Algorithm, Float, Rank};
use ptx_launch::prelude::*;
use ptx_launch::{Communicator, Error, Graph, Group, Reduction, Result};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let ranks = number("PTX_RANKS", 2);
    let devices = Devices::best(ranks)?;
    println!("{{\"devices\": \"{} x {}\"}}", devices.len(), devices[0].name());
    for work in std::env::args().skip(1) {
        let start = Instant::now();
        match work.as_str() {
            "check" => check(&devices)?,
            "soak" => soak(&devices)?,
            "latency" => latency(&devices)?,
            "nccl" => check_nccl(&devices)?,
            "patience" => patience(&devices)?,
            "products-check" => products::check(&devices)?,
            "products" => products::measure(&devices)?,
            other => {
                let all = "check, soak, latency, nccl, patience, products-check and products";
                return Err(Error::other(format!("`{other}` is none of {all}")));
            }
        }
        println!("{{\"done\": \"{work}\", \"seconds\": {:.1}}}", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Numbers of a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

trait Number: Float + PartialEq {
    const NAME: &'static str;
    fn of(x: f32) -> Self;
    fn value(self) -> f32;
}

macro_rules! numbers {
    ($($ty:ident, $of:expr, $value:expr;)*) => { $(
        impl Number for $ty {
            const NAME: &'static str = stringify!($ty);
            fn of(x: f32) -> $ty {
                ($of)(x)
            }
            fn value(self) -> f32 {
                ($value)(self)
            }
        }
    )* };
}
numbers! {
    f32, |x| x, |x| x;
    f16, f16::from_f32, f16::to_f32;
    bf16, bf16::from_f32, bf16::to_f32;
}

fn values<T: Number>(rank: usize, call: usize, len: usize) -> Vec<T> {
    let mut random = Random((rank << 20 ^ call << 40) as u64 + 1);
    (0..len).map(|_| T::of((random.below(1 << 20) as f32 / 5.0e5 - 1.0) * (1 << random.below(7)) as f32)).collect()
}

fn sums<T: Number>(ranks: usize, call: usize, len: usize) -> Vec<T> {
    let all: Vec<Vec<T>> = (0..ranks).map(|rank| values(rank, call, len)).collect();
    let sum = |at: usize| all[1..].iter().fold(all[0][at].value(), |sum, values| sum + values[at].value());
    (0..len).map(|at| T::of(sum(at))).collect()
}

fn same<T: Number>(found: &[T], want: &[T], what: &str) {
    let wrong: Vec<usize> = (0..want.len()).filter(|at| found[*at] != want[*at]).collect();
    if let Some(at) = wrong.first() {
        panic!(
            "{what}: {} of {} elements differ, first {at}: {} for {}",
            wrong.len(),
            want.len(),
            found[*at].value(),
            want[*at].value()
        );
    }
}

fn check(devices: &Devices) -> Result<()> {
    check_type::<bf16>(devices)?;
    check_type::<f32>(devices)?;
    check_type::<f16>(devices)?;
    check_threads(devices)?;
    check_copies(devices)
}

fn check_type<T: Number>(devices: &Devices) -> Result<()> {
    let (count, most) = (devices.len(), 1 << 22);
    let mut group = Rank::group(devices)?;
    let mut x = SymmetricBuffer::<T>::zeros(devices, most)?;
    let (mut call, mut random) = (0, Random(7));
    for algorithm in algorithms(count) {
        for at in 0..24 {
            let top = if algorithm == Algorithm::Packets { comm::MOST_ANYWHERE / size_of::<T>() } else { most };
            let len = fitting::<T>(algorithm, if at == 0 { top } else { 1 + random.below(top >> (at % 18)) });
            call += 1;
            for rank in 0..count {
                x.on_mut(rank)?.slice_mut(..len)?.write(&values::<T>(rank, call, len))?;
            }
            devices.synchronize()?;
            for rank in 0..count {
                comm::all_reduce_by(algorithm, &devices[rank], &mut group[rank], x.on_mut(rank)?, len)?;
            }
            devices.synchronize()?;
            let want = sums::<T>(count, call, len);
            for rank in 0..count {
                let what = format!("{algorithm:?} of {len} {} on rank {rank}", T::NAME);
                same(&x.on(rank)?.slice(..len)?.download()?, &want, &what);
            }
        }
    }
    for part in [4096, 100_003, 1 << 18] {
        let mut all = SymmetricBuffer::<T>::zeros(devices, part * count)?;
        let mut out = devices.iter().map(|device| device.zeros::<T>(part)).collect::<Result<Vec<_>>>()?;
        for rank in 0..count {
            all.on_mut(rank)?.write(&values::<T>(rank, part, part * count))?;
        }
        devices.synchronize()?;
        for rank in 0..count {
            comm::reduce_scatter(&devices[rank], &mut group[rank], all.on_mut(rank)?, out[rank].tile_mut([part])?)?;
        }
        for rank in 0..count {
            comm::all_gather(&devices[rank], &mut group[rank], out[rank].tile([part])?, all.on_mut(rank)?)?;
        }
        devices.synchronize()?;
        let want = sums::<T>(count, part, part * count);
        for rank in 0..count {
            same(&out[rank].download()?, &want[rank * part..(rank + 1) * part], &format!("reduce-scatter of {part}"));
            same(&all.on(rank)?.download()?, &want, &format!("all-gather of {part}"));
        }
    }
    println!("{{\"check\": \"{}\", \"bits\": \"identical\", \"calls\": {call}}}", T::NAME);
    Ok(())
}

/// The algorithms for so many ranks.
fn algorithms(ranks: usize) -> Vec<Algorithm> {
    let all = [Algorithm::Packets, Algorithm::Exchange, Algorithm::Shares];
    all.into_iter().filter(|algorithm| *algorithm != Algorithm::Exchange || ranks == 2).collect()
}

/// The next length that an algorithm takes.
fn fitting<T>(algorithm: Algorithm, len: usize) -> usize {
    if algorithm == Algorithm::Exchange { len.next_multiple_of(16 / size_of::<T>()) } else { len }
}

/// A thread for each rank, with a stream of its own.
fn check_threads(devices: &Devices) -> Result<()> {
    let len = 300_000;
    let (mut group, parts) = (Rank::group(devices)?, SymmetricBuffer::<bf16>::zeros(devices, len)?.into_ranks());
    let patience = Duration::from_secs(30);
    group.iter_mut().for_each(|rank| rank.set_patience(Some(patience)));
    let parts = group.into_iter().zip(parts).collect();
    devices.on_threads(patience, parts, |thread, (mut rank, mut x)| {
        let (device, stream) = (thread.device(), thread.device().new_stream()?);
        for call in 0..50 {
            let len = if call % 2 == 0 { len } else { 1000 + 8 * call };
            x.slice_mut(..len)?.write(&values(rank.rank(), call, len))?;
            device.synchronize()?;
            let all = algorithms(devices.len());
            let algorithm = all[call % all.len()];
            // A signal orders the write of this rank before the reads of others, which begin in a kernel behind it.
            comm::all_reduce_by(algorithm, &stream, &mut rank, &mut x, len)?;
            thread.finish(&stream)?;
            same(&x.slice(..len)?.download()?, &sums(devices.len(), call, len), "a thread for each rank");
        }
        Ok(())
    })?;
    println!("{{\"check\": \"a thread for each rank\"}}");
    Ok(())
}

/// Copies between GPUs, from two threads at once.
fn check_copies(devices: &Devices) -> Result<()> {
    let len = 1 << 20;
    std::thread::scope(|scope| {
        let start = |from: usize| {
            scope.spawn(move || -> Result<()> {
                let to = (from + 1) % devices.len();
                let want: Vec<f32> = values(from, 0, len);
                let x = devices[from].upload(&want)?;
                let (mut y, mut z) = (devices[to].zeros::<f32>(len)?, devices[from].zeros::<f32>(len)?);
                for _ in 0..20 {
                    devices[to].stream().copy(&x, &mut y)?;
                    devices[from].stream().copy(&y, &mut z)?;
                }
                same(&z.download()?, &want, "copies to a peer and back");
                Ok(())
            })
        };
        let threads: Vec<_> = (0..devices.len()).map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    println!("{{\"check\": \"copies between GPUs from threads\"}}");
    Ok(())
}

/// The same work on every rank, each in a graph of its own.
fn graphs(
    devices: &Devices,
    streams: &[Stream],
    mut work: impl FnMut(usize, &Stream) -> Result<()>,
) -> Result<Vec<Graph>> {
    (0..devices.len()).map(|rank| streams[rank].capture(|stream| work(rank, stream))).collect()
}

fn soak(devices: &Devices) -> Result<()> {
    let (calls, target, len) = (100, number("PTX_SOAK", 1_000_000), 1 << 16);
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<_>>>()?;
    let mut group = Rank::group(devices)?;
    let mut x = SymmetricBuffer::<bf16>::zeros(devices, len)?;
    let (mut done, mut random, start) = (0, Random(3), Instant::now());
    let seconds = number("PTX_SOAK_SECONDS", 60);
    while done < target && start.elapsed().as_secs() < seconds as u64 {
        // Random sizes, mostly small, and both algorithms; the values stay small, because each round starts with ones.
        let sizes: Vec<(Algorithm, usize)> = (0..calls)
            .map(|_| match random.below(8) {
                0 => (Algorithm::Shares, 1 + random.below(len)),
                2 if devices.len() == 2 => (Algorithm::Exchange, 8 + random.below(len) / 8 * 8),
                1 => (Algorithm::Packets, 1 + random.below(len)),
                _ => (Algorithm::Packets, 1 + random.below(2048)),
            })
            .collect();
        let all = graphs(devices, &streams, |rank, stream| {
            for (at, (algorithm, len)) in sizes.iter().enumerate() {
                if at % 4 == 0 {
                    stream.fill(&mut **x.on_mut(rank)?, bf16::from_f32(1.0 + rank as f32))?;
                }
                comm::all_reduce_by(*algorithm, stream, &mut group[rank], x.on_mut(rank)?, *len)?;
            }
            Ok(())
        })?;
        for turn in 0..50 {
            for (rank, graph) in all.iter().enumerate() {
                if turn % 5 == 0 && random.below(devices.len()) == rank {
                    std::thread::sleep(Duration::from_micros(random.below(300) as u64));
                }
                graph.launch()?;
            }
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        done += 50 * calls;
        let found = (0..devices.len()).map(|rank| x.on(rank)?.download()).collect::<Result<Vec<_>>>()?;
        // Beyond what the last calls have reduced, each rank has its own ones.
        let tail = calls - calls % 4 - if calls % 4 == 0 { 4 } else { 0 };
        let reduced = sizes[tail..].iter().map(|(_, len)| *len).min().unwrap_or(0);
        let want = (devices.len() * (devices.len() + 1) / 2 * devices.len().pow(3)) as f32;
        for (rank, found) in found.iter().enumerate() {
            same(&found[..reduced], &vec![bf16::from_f32(want); reduced], &format!("soak, rank {rank}"));
        }
    }
    let rate = start.elapsed().as_secs_f64() / done as f64 * 1e6;
    println!("{{\"soak\": {done}, \"microseconds_a_call\": {rate:.2}}}");
    Ok(())
}

fn latency(devices: &Devices) -> Result<()> {
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<_>>>()?;
    let mut group = Rank::group(devices)?;
    let most: usize = 64 << 20;
    let mut x = SymmetricBuffer::<bf16>::zeros(devices, most / 2)?;
    let sizes = [16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20];
    for bytes in sizes {
        for algorithm in algorithms(devices.len()) {
            if algorithm == Algorithm::Packets && bytes > comm::MOST_ANYWHERE {
                continue;
            }
            let calls = if bytes <= 1 << 20 { 100 } else { 20 };
            let all = graphs(devices, &streams, |rank, stream| {
                (0..calls).try_for_each(|_| {
                    comm::all_reduce_by(algorithm, stream, &mut group[rank], x.on_mut(rank)?, bytes / 2)
                })
            })?;
            let timing =
                Timer::new().warm_up(3).runs(15).measure(&streams[0], || all.iter().try_for_each(Graph::launch))?;
            streams.iter().try_for_each(Stream::synchronize)?;
            let (low, high) = timing.quartiles();
            let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(calls);
            println!(
                "{{\"all_reduce\": {bytes}, \"algorithm\": \"{algorithm:?}\", \"us\": {:.2}, \"quartiles\": [{:.2}, {:.2}]}}",
                each(timing.median()),
                each(low),
                each(high)
            );
        }
    }
    Ok(())
}

/// The operations of NCCL on our buffers and streams.
fn check_nccl(devices: &Devices) -> Result<()> {
    let communicators = Communicator::of_devices(devices)?;
    let (count, part) = (devices.len(), 1000);
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<_>>>()?;
    let make = |rank: usize| devices[rank].upload(&values::<f32>(rank, 0, part * count));
    let mut x = (0..count).map(make).collect::<Result<Vec<_>>>()?;
    let mut parts = devices.iter().map(|device| device.zeros::<f32>(part)).collect::<Result<Vec<_>>>()?;
    let mut all = devices.iter().map(|device| device.zeros::<f32>(part * count)).collect::<Result<Vec<_>>>()?;
    Group::run(|group| {
        for (rank, (x, part)) in x.iter().zip(&mut parts).enumerate() {
            group.reduce_scatter(&communicators[rank], &streams[rank], (x, part), Reduction::Sum)?;
        }
        Ok(())
    })?;
    Group::run(|group| {
        for (rank, (part, all)) in parts.iter().zip(&mut all).enumerate() {
            group.all_gather(&communicators[rank], &streams[rank], part, all)?;
        }
        Ok(())
    })?;
    Group::run(|group| {
        for (rank, x) in x.iter_mut().enumerate() {
            group.all_reduce(&communicators[rank], &streams[rank], x, Reduction::Sum)?;
        }
        Ok(())
    })?;
    let want = sums::<f32>(count, 0, part * count);
    let compare = |found: &[f32], what: &str| {
        let wrong = found.iter().zip(&want).position(|(found, want)| (found - want).abs() > 1e-3);
        assert!(wrong.is_none() && found.len() == want.len(), "{what}: {wrong:?}");
    };
    for rank in 0..count {
        compare(&all[rank].download()?, "reduce-scatter and all-gather");
        compare(&x[rank].download()?, "all-reduce");
    }
    // Rank 0 sends its first part to the others by send and receive, and all of it by broadcast.
    let sent = devices[0].upload(&values::<f32>(9, 0, part))?;
    Group::run(|group| {
        for (rank, part) in parts.iter_mut().enumerate().skip(1) {
            group.send(&communicators[0], &streams[0], &sent, rank)?;
            group.receive(&communicators[rank], &streams[rank], part, 0)?;
        }
        Ok(())
    })?;
    x[0].write(&values::<f32>(5, 0, part * count))?;
    Group::run(|group| {
        for (rank, x) in x.iter_mut().enumerate() {
            group.broadcast(&communicators[rank], &streams[rank], x, 0)?;
        }
        Ok(())
    })?;
    for rank in 1..count {
        same(&parts[rank].download()?, &values::<f32>(9, 0, part), "send and receive");
        same(&x[rank].download()?, &values::<f32>(5, 0, part * count), "broadcast");
    }
    println!("{{\"check\": \"nccl\"}}");
    Ok(())
}

/// A rank waits for one that never comes, and ends with an error.
fn patience(devices: &Devices) -> Result<()> {
    let mut group = Rank::group(devices)?;
    let mut x = SymmetricBuffer::<f32>::zeros(devices, 1000)?;
    group[0].set_patience(Some(Duration::from_secs(1)));
    let start = Instant::now();
    comm::all_reduce(&devices[0], &mut group[0], x.on_mut(0)?)?;
    let error = devices[0].synchronize().err();
    let (seconds, kind) = (start.elapsed().as_secs_f64(), error.as_ref().map(Error::kind));
    println!("{{\"patience\": {seconds:.2}, \"error\": \"{kind:?}\"}}");
    // The driver has ended all work of the GPU.
    std::process::exit(i32::from(error.is_none()));
}
