//! Ranks that are processes: this program starts itself once for each. They share the memory of CPU devices; with `PTX_DEVICE=cuda` that of the first GPU, which
//! all of them use.

use super::{BOTH, Number, same, sums, values};
use half::{bf16, f16};
use ptx_kernels::comm::experts::{ExpertParallel, Extents};
use ptx_kernels::comm::{self, Algorithm, Rank};
use ptx_launch::prelude::*;
use ptx_launch::{ProcessGroup, Rendezvous, Result};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time after which the end of a process is an error on all others.
const SOON: Duration = Duration::from_secs(5);
/// Calls of the soak after which a process writes a line.
const CALLS: u32 = 20;
const SAYS: &str = "under way";

// ---- the processes ----

#[test]
#[ignore = "the other tests of this file start it as a process"]
fn rank() {
    let var = |name: &str| std::env::var(format!("PTX_TEST_{name}"));
    let (Ok(work), Ok(path), Ok(rank), Ok(ranks)) = (var("WORK"), var("PATH"), var("RANK"), var("RANKS")) else {
        return;
    };
    let patience = Duration::from_secs(if work == "soak" { 3 } else { 60 });
    let meeting = Rendezvous::at(path, rank.parse().unwrap(), ranks.parse().unwrap()).patience(patience);
    let group = ProcessGroup::join(&Device::best().unwrap(), &meeting).unwrap();
    let result = match work.as_str() {
        "collectives" => collectives::<f32>(&group).and_then(|()| collectives::<bf16>(&group)),
        "parts" => parts::<f16>(&group),
        "experts" => experts(&group),
        #[cfg(feature = "gemm")]
        "products" => super::products::of_process(&group),
        "soak" => soak(&group),
        "alone" => alone(&group),
        other => panic!("no work is called {other}"),
    };
    match result {
        Ok(()) => println!("rank {rank} is done"),
        Err(error) => {
            println!("rank {rank} failed: {error}");
            // As after a panic: without the drops that a program has which goes on.
            std::process::exit(3);
        }
    }
}

fn collectives<T: Number>(group: &ProcessGroup) -> Result<()> {
    let (device, mut rank) = (group.device(), Rank::join(group)?);
    let mut call = 0;
    let all = BOTH.into_iter().chain((group.ranks() == 2).then_some(Algorithm::Exchange));
    for algorithm in all {
        for len in [1, 7, 1024, 2500] {
            call += 1;
            let len = if algorithm == Algorithm::Exchange { 8 * len } else { len };
            let mut x = SymmetricBuffer::<T>::join(group, len)?;
            x.write(&values::<T>(group.rank(), call, len))?;
            comm::all_reduce_by(algorithm, device, &mut rank, &mut x, len)?;
            group.finish(&device.stream())?;
            let what =
                format!("{algorithm:?} of {len} x {} bits on rank {} of {}", T::BITS, group.rank(), group.ranks());
            same(&x.download()?, &sums::<T>(group.ranks(), call, len), &what);
        }
    }
    Ok(())
}

fn parts<T: Number>(group: &ProcessGroup) -> Result<()> {
    let (device, mut rank, ranks, part) = (group.device(), Rank::join(group)?, group.ranks(), 24);
    let mut x = SymmetricBuffer::<T>::join(group, ranks * part)?;
    x.write(&values(group.rank(), 0, ranks * part))?;
    let mut out = device.zeros::<T>(part)?;
    comm::reduce_scatter(device, &mut rank, &mut x, out.tile_mut([part])?)?;
    comm::all_gather(device, &mut rank, out.tile([part])?, &mut x)?;
    group.finish(&device.stream())?;
    let want = sums::<T>(ranks, 0, ranks * part);
    same(&out.download()?, &want[group.rank() * part..][..part], "reduce-scatter");
    same(&x.download()?, &want, "all-gather");
    Ok(())
}

/// Experts that change nothing: a token gets its own row back, as often as its weights say.
fn experts(group: &ProcessGroup) -> Result<()> {
    let (ranks, tokens, hidden) = (group.ranks(), 3, 16);
    let extents = Extents { experts: 2 * ranks, top_k: 2, hidden, tokens, capacity: None };
    let mut ep = ExpertParallel::<f32>::join(group, extents)?;
    let (device, stream) = (group.device(), group.device().stream());
    let rows: Vec<f32> = values(group.rank(), 3, tokens * hidden);
    let ids: Vec<u32> = (0..2 * tokens).map(|at| ((at * 5 + group.rank()) % (2 * ranks)) as u32).collect();
    let (x, ids) = (device.upload(&rows)?, device.upload(&ids)?);
    let weights = device.upload(&[0.5f32, 0.25].repeat(tokens))?;
    let mut out = device.zeros::<f32>(tokens * hidden)?;
    ep.dispatch(&stream, x.tile([tokens, hidden])?, ids.tile([tokens, 2])?)?;
    group.finish(&stream)?;
    let parts = ep.parts_mut();
    let found = parts.rows.download()?;
    parts.results.write(&found)?;
    ep.combine(&stream, weights.tile([tokens, 2])?, out.tile_mut([tokens, hidden])?)?;
    group.finish(&stream)?;
    ep.check()?;
    let want: Vec<f32> = rows.iter().map(|x| x.mul_add(0.25, 0.5 * x)).collect();
    same(&out.download()?, &want, "combine");
    Ok(())
}

/// All-reduces of other sizes, until somebody fails.
fn soak(group: &ProcessGroup) -> Result<()> {
    let (device, mut rank) = (group.device(), Rank::join(group)?);
    let mut x = SymmetricBuffer::<bf16>::join(group, 4096)?;
    for call in 0.. {
        let len = (call as usize * 7919) % 4096 + 1;
        x.write(&values::<bf16>(group.rank(), call, 4096))?;
        group.meet()?;
        let algorithm = if call % 2 == 0 { Algorithm::Packets } else { Algorithm::Shares };
        comm::all_reduce_by(algorithm, device, &mut rank, &mut x, len)?;
        group.finish(&device.stream())?;
        let found = x.download()?;
        same(&found[..len], &sums::<bf16>(group.ranks(), call, len), "soak");
        if call == CALLS {
            println!("{SAYS}");
        }
    }
    Ok(())
}

/// Rank 1 leaves; the others launch a kernel that waits for it.
fn alone(group: &ProcessGroup) -> Result<()> {
    let (device, mut rank) = (group.device(), Rank::join(group)?);
    let mut x = SymmetricBuffer::<f32>::join(group, 64)?;
    if group.rank() == 1 {
        return Ok(());
    }
    comm::all_reduce(device, &mut rank, &mut x)?;
    group.finish(&device.stream())
}

// ---- their parents ----

/// Processes that end with this.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(ranks: usize, work: &str) -> Ranks {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Rendezvous::named(&format!("comm-{}-{number}", std::process::id()), 0, ranks).path().to_owned();
    let one = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::rank", "--ignored", "--nocapture"]);
        command.env("PTX_TEST_WORK", work).env("PTX_TEST_PATH", &path);
        command.env("PTX_TEST_RANK", rank.to_string()).env("PTX_TEST_RANKS", ranks.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    Ranks((0..ranks).map(one).collect())
}

/// What a process has written when it ends.
fn rest(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn all_end_well(ranks: usize, work: &str) {
    let mut all = start(ranks, work);
    for (rank, child) in all.0.iter_mut().enumerate() {
        let text = rest(child);
        assert!(text.contains(&format!("rank {rank} is done")), "{work}, rank {rank} of {ranks}: {text}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn processes_reduce_gather_and_scatter() {
    all_end_well(1, "collectives");
    all_end_well(2, "collectives");
    all_end_well(4, "parts");
    all_end_well(3, "experts");
}

#[cfg(feature = "gemm")]
#[test]
fn processes_multiply() {
    all_end_well(2, "products");
}

#[test]
fn a_killed_process_ends_the_others() {
    let mut all = start(4, "soak");
    let mut outs: Vec<_> = all.0.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    for (rank, out) in outs.iter_mut().enumerate() {
        let is_under_way = |line: std::io::Result<String>| line.is_ok_and(|line| line.contains(SAYS));
        assert!(out.lines().any(is_under_way), "rank {rank} ended early");
    }
    all.0[2].kill().unwrap();
    let killed = Instant::now();
    for rank in [0, 1, 3] {
        let mut text = String::new();
        outs[rank].read_to_string(&mut text).unwrap();
        assert!(killed.elapsed() < SOON, "rank {rank} took {:?}: {text}", killed.elapsed());
        assert!(text.contains(&format!("rank {rank} failed")), "rank {rank}: {text}");
        assert!(!all.0[rank].wait().unwrap().success());
    }
}

#[test]
fn a_process_that_leaves_ends_a_launch_that_waits_for_it() {
    let mut all = start(2, "alone");
    let (began, text) = (Instant::now(), rest(&mut all.0[0]));
    assert!(text.contains("rank 0 waits for rank 1"), "{text}");
    // On a GPU the host has no names of kernels that still run.
    let is_cuda = Device::best().unwrap().is_cuda();
    assert!(is_cuda || text.contains("it waits in `all_reduce"), "{text}");
    assert!(began.elapsed() < 2 * SOON);
    assert!(rest(&mut all.0[1]).contains("rank 1 is done"));
}
