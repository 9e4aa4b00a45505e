//! Products that communicate, beside the same work by one kernel after the other.

use super::{Random, graphs, number};
use half::bf16;
use ptx_kernels::comm::{self, products};
use ptx_kernels::gemm::{Gemm, gemm};
use ptx_launch::prelude::*;
use ptx_launch::{Communicator, Graph, Group, Reduction, Result, TensorMut, TensorRef};
use std::time::Duration;

/// The memory of all ranks.
struct Data {
    extents: [usize; 3],
    /// M x K and N x K.
    a: Vec<Buffer<bf16>>,
    b: Vec<Buffer<bf16>>,
    /// M x N, as plain and as symmetric memory, and a part of it.
    c: Vec<Buffer<bf16>>,
    sums: SymmetricBuffer<bf16>,
    part: Vec<Buffer<bf16>>,
    /// The rows of all ranks, M x K, and this rank's own ones alone.
    own: Vec<Buffer<bf16>>,
    rows: SymmetricBuffer<bf16>,
    group: Vec<comm::Rank>,
    fused: Vec<products::Rank>,
}

impl Data {
    fn new(devices: &Devices, extents: [usize; 3], values: &[bf16]) -> Result<Data> {
        let ([m, n, k], count) = (extents, devices.len());
        let all = |len: usize| devices.iter().map(|device| device.zeros::<bf16>(len)).collect::<Result<Vec<_>>>();
        let mut data = Data {
            extents,
            a: all(m * k)?,
            b: all(n * k)?,
            c: all(m * n)?,
            sums: SymmetricBuffer::zeros(devices, m * n)?,
            part: all(m * n / count)?,
            own: all(m * k / count)?,
            rows: SymmetricBuffer::zeros(devices, m * k)?,
            group: comm::Rank::group(devices)?,
            fused: products::Rank::group(devices, [m, n])?,
        };
        // Every rank, and both operands, have other values: they begin elsewhere in the same line.
        for rank in 0..count {
            data.a[rank].write(&values[rank * 977..][..m * k])?;
            data.b[rank].write(&values[rank * 331 + 4096..][..n * k])?;
            let own = data.own_rows(rank);
            data.own[rank].write(&values[5000..][own.clone()])?;
            data.rows.on_mut(rank)?.slice_mut(own.clone())?.write(&values[5000..][own])?;
        }
        devices.synchronize()?;
        Ok(data)
    }

    fn own_rows(&self, rank: usize) -> std::ops::Range<usize> {
        let [m, _, k] = self.extents;
        let part = m * k / self.a.len();
        rank * part..(rank + 1) * part
    }

    fn multiply(&mut self, rank: usize, stream: &Stream, from: From, to: To) -> Result<()> {
        let [m, n, k] = self.extents;
        let a = match from {
            From::A => self.a[rank].tile([m, k])?,
            From::Rows => self.rows.on(rank)?.tile([m, k])?,
        };
        let b = TensorRef::strided(&self.b[rank], [k, n], [1, k])?;
        let c = match to {
            To::C => &mut self.c[rank],
            To::Sums => &mut **self.sums.on_mut(rank)?,
        };
        gemm(stream, a, b, TensorMut::strided(c, [m, n], [n, 1])?)
    }

    /// One of our ways, on one rank.
    fn run(&mut self, way: Way, rank: usize, stream: &Stream) -> Result<()> {
        let ([m, n, k], count) = (self.extents, self.a.len());
        match way {
            Way::Gemm => self.multiply(rank, stream, From::A, To::C),
            // The kernel whose main loop and tile those that communicate have.
            Way::SameTile => {
                let (a, b) = (self.a[rank].tile([m, k])?, TensorRef::strided(&self.b[rank], [k, n], [1, k])?);
                let c = TensorMut::strided(&mut self.c[rank], [m, n], [n, 1])?;
                Gemm::new().algorithm("m128n256k64_2x1_kk_claimed", 1).run(stream, a, b, c)
            }
            Way::ThenScatter => {
                self.multiply(rank, stream, From::A, To::Sums)?;
                let out = self.part[rank].tile_mut([m * n / count])?;
                comm::reduce_scatter(stream, &mut self.group[rank], self.sums.on_mut(rank)?, out)
            }
            Way::ThenReduce => {
                self.multiply(rank, stream, From::A, To::Sums)?;
                comm::all_reduce(stream, &mut self.group[rank], self.sums.on_mut(rank)?)
            }
            Way::GatherFirst => {
                let x = self.own[rank].tile([m * k / count])?;
                comm::all_gather(stream, &mut self.group[rank], x, self.rows.on_mut(rank)?)?;
                self.multiply(rank, stream, From::Rows, To::C)
            }
            Way::Scatter => {
                let (a, b) = (self.a[rank].tile([m, k])?, TensorRef::strided(&self.b[rank], [k, n], [1, k])?);
                let c = TensorMut::strided(&mut self.part[rank], [m / count, n], [n, 1])?;
                products::gemm_reduce_scatter(stream, &mut self.fused[rank], a, b, c)
            }
            Way::Reduce => {
                let (a, b) = (self.a[rank].tile([m, k])?, TensorRef::strided(&self.b[rank], [k, n], [1, k])?);
                products::gemm_all_reduce(stream, &mut self.fused[rank], a, b, self.sums.on_mut(rank)?)
            }
            Way::Gather => {
                let b = TensorRef::strided(&self.b[rank], [k, n], [1, k])?;
                let c = TensorMut::strided(&mut self.c[rank], [m, n], [n, 1])?;
                products::all_gather_gemm(stream, &mut self.fused[rank], self.rows.on_mut(rank)?, b, c)
            }
        }
    }

    /// The same work by NCCL, on all ranks.
    fn run_nccl(&mut self, way: Way, streams: &[Stream], all: &[Communicator]) -> Result<()> {
        let count = streams.len();
        if way != Way::GatherFirst {
            (0..count).try_for_each(|rank| self.multiply(rank, &streams[rank], From::A, To::C))?;
        }
        let Data { own, c, part, rows, .. } = &mut *self;
        let memory = own.iter().zip(c).zip(part.iter_mut().zip(rows.iter_mut()));
        Group::run(|group| {
            for (rank, ((own, c), (part, rows))) in memory.enumerate() {
                let (nccl, stream) = (&all[rank], &streams[rank]);
                match way {
                    Way::ThenScatter => group.reduce_scatter(nccl, stream, (&*c, part), Reduction::Sum)?,
                    Way::ThenReduce => group.all_reduce(nccl, stream, c, Reduction::Sum)?,
                    _ => group.all_gather(nccl, stream, own, &mut **rows)?,
                }
            }
            Ok(())
        })?;
        if way == Way::GatherFirst {
            (0..count).try_for_each(|rank| self.multiply(rank, &streams[rank], From::Rows, To::C))?;
        }
        Ok(())
    }
}

enum From {
    A,
    Rows,
}

enum To {
    C,
    Sums,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Gemm,
    SameTile,
    Scatter,
    Reduce,
    Gather,
    ThenScatter,
    ThenReduce,
    GatherFirst,
}

const WAYS: [Way; 8] = [
    Way::Gemm,
    Way::SameTile,
    Way::Scatter,
    Way::ThenScatter,
    Way::Reduce,
    Way::ThenReduce,
    Way::Gather,
    Way::GatherFirst,
];

/// Small integers, most of them zeros, so that every order of a sum has the same bits.
fn integers(len: usize) -> Vec<bf16> {
    let mut random = Random(11);
    (0..len).map(|_| bf16::from_f32(if random.below(24) == 0 { random.below(3) as f32 - 1.0 } else { 0.0 })).collect()
}

/// Results against one kernel after the other, on one stream a rank and with no wait between the calls.
pub(crate) fn check(devices: &Devices) -> Result<()> {
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<_>>>()?;
    let small = !devices[0].is_cuda();
    let shapes: &[[usize; 3]] = if small {
        &[[512, 256, 128]]
    } else {
        &[[4096, 8192, 4096], [512, 256, 128], [1040, 1304, 712], [264, 8, 8], [8192, 1024, 1000]]
    };
    for extents in shapes {
        let [m, n, k] = *extents;
        let values = integers((m * k).max(n * k) + 10_000);
        let mut data = Data::new(devices, *extents, &values)?;
        let run = |data: &mut Data, way: Way| -> Result<()> {
            (0..devices.len()).try_for_each(|rank| data.run(way, rank, &streams[rank]))
        };
        run(&mut data, Way::ThenReduce)?;
        streams.iter().try_for_each(Stream::synchronize)?;
        let sums = data.sums.on(0)?.download()?;
        for _ in 0..3 {
            run(&mut data, Way::Scatter)?;
            run(&mut data, Way::Reduce)?;
        }
        run(&mut data, Way::Gather)?;
        run(&mut data, Way::Gather)?;
        streams.iter().try_for_each(Stream::synchronize)?;
        let part = m * n / devices.len();
        let gathered = data.c.iter().map(Buffer::download).collect::<Result<Vec<_>>>()?;
        for (rank, found) in gathered.iter().enumerate() {
            let shared = data.sums.on(rank)?.download()?;
            let scattered = data.part[rank].download()?;
            let want = &sums[rank * part..(rank + 1) * part];
            report("reduce-scatter", *extents, rank, &scattered, want);
            report("all-reduce", *extents, rank, &shared, &sums);
            let rows = data.rows.on(rank)?.download()?;
            report("rows", *extents, rank, &rows, &values[5000..][..m * k]);
            data.multiply(rank, &streams[rank], From::Rows, To::C)?;
            report("all-gather", *extents, rank, found, &data.c[rank].download()?);
        }
    }
    Ok(())
}

fn report(what: &str, extents: [usize; 3], rank: usize, found: &[bf16], want: &[bf16]) {
    let wrong = found.iter().zip(want).filter(|(found, want)| found != want).count();
    let (nonzero, most) =
        (want.iter().filter(|x| x.to_f32() != 0.0).count(), want.iter().fold(0f32, |m, x| m.max(x.to_f32())));
    println!(
        "{{\"check\": \"{what}\", \"extents\": {extents:?}, \"rank\": {rank}, \"wrong\": {wrong}, \"of\": {}, \"nonzero\": {nonzero}, \"most\": {most}}}",
        want.len()
    );
}

pub(crate) fn measure(devices: &Devices) -> Result<()> {
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<_>>>()?;
    let nccl = Communicator::of_devices(devices).ok();
    let mut random = Random(5);
    for extents in [[4096, 8192, 4096], [8192, 8192, 14336]] {
        let [m, n, k] = extents;
        // A line that repeats: random values take long to make.
        let line: Vec<bf16> =
            (0..1_000_003).map(|_| bf16::from_f32(random.below(2001) as f32 / 1000.0 - 1.0)).collect();
        let values: Vec<bf16> = line.iter().cycle().take((m * k).max(n * k) + 10_000).copied().collect();
        let mut data = Data::new(devices, extents, &values)?;
        // The launches load kernels and grow workspaces, which no capture does.
        for way in WAYS {
            (0..devices.len()).try_for_each(|rank| data.run(way, rank, &streams[rank]))?;
            streams.iter().try_for_each(Stream::synchronize)?;
        }
        let calls = 10;
        let settings = settings();
        let mut all: Vec<(String, Vec<Graph>)> = Vec::new();
        for way in WAYS {
            let is_fused = matches!(way, Way::Scatter | Way::Reduce | Way::Gather);
            for setting in if is_fused { &settings[..] } else { &settings[..1] } {
                if let Some([chunk, band, run]) = *setting {
                    for rank in &mut data.fused {
                        rank.set_chunk(chunk);
                        rank.set_raster([band, run]);
                    }
                }
                let graphs =
                    graphs(devices, &streams, |rank, stream| (0..calls).try_for_each(|_| data.run(way, rank, stream)))?;
                let setting = setting.filter(|_| is_fused).map(|setting| format!(" {setting:?}"));
                all.push((format!("{way:?}{}", setting.unwrap_or_default()), graphs));
            }
        }
        let mut times: Vec<(String, Vec<Duration>)> = Vec::new();
        for _ in 0..number("PTX_ROUNDS", 5) {
            let timer = || Timer::new().warm_up(1).runs(3);
            // Another order each time: what runs before changes the temperature, and so the clock.
            (1..all.len()).rev().for_each(|at| all.swap(at, random.below(at + 1)));
            for (name, graphs) in &all {
                let timing = timer().measure(&streams[0], || graphs.iter().try_for_each(Graph::launch))?;
                streams.iter().try_for_each(Stream::synchronize)?;
                note(&mut times, name, timing.median());
            }
            for way in [Way::ThenScatter, Way::ThenReduce, Way::GatherFirst] {
                let Some(nccl) = &nccl else { continue };
                let timing =
                    timer().measure(&streams[0], || (0..calls).try_for_each(|_| data.run_nccl(way, &streams, nccl)))?;
                streams.iter().try_for_each(Stream::synchronize)?;
                note(&mut times, &format!("{way:?} by NCCL"), timing.median());
            }
        }
        times.sort();
        for (name, mut all) in times {
            all.sort();
            let us = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(calls);
            println!(
                "{{\"product\": {extents:?}, \"way\": \"{name}\", \"us\": {:.1}, \"least\": {:.1}, \"most\": {:.1}}}",
                us(all[all.len() / 2]),
                us(all[0]),
                us(all[all.len() - 1])
            );
        }
    }
    Ok(())
}

/// Bytes on a link, bands and runs to compare: all of the numbers in `PTX_CHUNKS`, `PTX_BANDS` and `PTX_RUNS`. Without one of them those that the library has.
fn settings() -> Vec<Option<[u32; 3]>> {
    let [chunks, bands, runs] = ["PTX_CHUNKS", "PTX_BANDS", "PTX_RUNS"].map(|name| {
        let text = std::env::var(name).unwrap_or_default();
        text.split(' ').filter_map(|number| number.parse().ok()).collect::<Vec<u32>>()
    });
    let of_band = |chunk: u32, band: u32| runs.iter().map(move |run| Some([chunk, band, *run]));
    let all = chunks.iter().flat_map(|chunk| bands.iter().flat_map(move |band| of_band(*chunk, *band)));
    let all: Vec<_> = all.collect();
    if all.is_empty() { vec![None] } else { all }
}

fn note(times: &mut Vec<(String, Vec<Duration>)>, name: &str, time: Duration) {
    match times.iter_mut().find(|(known, _)| known == name) {
        Some((_, all)) => all.push(time),
        None => times.push((name.to_owned(), vec![time])),
    }
}
