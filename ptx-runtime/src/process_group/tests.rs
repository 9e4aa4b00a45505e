//! Ranks that are threads, each with a CPU device of its own: as strange as processes may be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::{ProcessGroup, Rendezvous};
use crate::device::Device;
use crate::error::{ErrorKind, Result};
use crate::symmetric::SymmetricBuffer;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

/// A path that no other test has.
fn path() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Rendezvous::named(&format!("test-{}-{number}", std::process::id()), 0, 1).path().to_owned()
}

/// Calls `work` on a thread for each of these meetings.
fn each<R: Send>(meetings: &[Rendezvous], work: impl Fn(&Rendezvous) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = meetings.iter().map(|meeting| scope.spawn(move || work(meeting))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn meetings(ranks: usize, patience: Duration) -> Vec<Rendezvous> {
    let path = path();
    (0..ranks).map(|rank| Rendezvous::at(&path, rank, ranks).patience(patience)).collect()
}

fn join(meeting: &Rendezvous) -> Result<ProcessGroup> {
    ProcessGroup::join(&Device::cpu(), meeting)
}

/// The errors of all ranks, which have this kind and say this.
fn all_fail<R>(results: Vec<Result<R>>, kind: ErrorKind, part: &str) {
    for result in results {
        let Err(error) = result else { panic!("no error that says {part}") };
        assert!(error.to_string().contains(part), "{error}\n{part}");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn ranks_share_memory_and_messages() {
    for ranks in [1, 2, 5] {
        let meetings = meetings(ranks, LONG);
        let sums = each(&meetings, |meeting| {
            let group = join(meeting).unwrap();
            let rank = group.rank();
            let all = group.gather(&[rank as u8; 3]).unwrap();
            assert_eq!(all, (0..ranks).map(|rank| vec![rank as u8; 3]).collect::<Vec<_>>());
            let mut x = SymmetricBuffer::<u32>::join(&group, 10).unwrap();
            let mut y = SymmetricBuffer::<u8>::join_with_signals(&group, 0, 0).unwrap();
            assert_eq!((x.ranks(), x.rank(), y.len(), y.parts_mut().signals.len()), (ranks, rank, 0, 0));
            assert!(x.has_ranks_of(&y));
            assert_eq!(x.download().unwrap(), [0; 10]);
            x.write(&[rank as u32 + 1; 10]).unwrap();
            group.meet().unwrap();
            let mut word = [0; 4];
            let crate::device::Inner::Cpu(cpu) = &group.device().0 else { panic!("a CPU device") };
            let read = |address: &u64| {
                cpu.read(*address + 36, &mut word).unwrap();
                u32::from_le_bytes(word)
            };
            let sum: u32 = x.addresses().iter().map(read).sum();
            // Each goes when it likes, in another order on each rank.
            if rank.is_multiple_of(2) {
                drop((x, group, y));
            } else {
                drop((group, y, x));
            }
            sum
        });
        assert_eq!(sums, vec![(1..=ranks as u32).sum::<u32>(); ranks]);
        assert!(!meetings[0].path().exists());
    }
}

#[test]
fn ranks_that_are_none_are_refused() {
    for (rank, ranks) in [(0, 0), (2, 2), (7, 3), (0, 129), (usize::MAX, 2)] {
        all_fail(vec![join(&Rendezvous::at(path(), rank, ranks))], ErrorKind::Condition, "is to be rank");
    }
}

#[test]
fn two_processes_with_one_rank_end_the_meeting() {
    let all = meetings(3, LONG);
    let twice = [all[0].clone(), all[1].clone(), all[1].clone()];
    all_fail(each(&twice, join), ErrorKind::Condition, "two processes are rank 1");
    let all = meetings(2, LONG);
    let twice = [all[0].clone(), all[0].clone()];
    all_fail(each(&twice, join), ErrorKind::Condition, "two processes are rank 0");
}

#[test]
fn numbers_of_ranks_differ() {
    let path = path();
    let differ = [Rendezvous::at(&path, 0, 2), Rendezvous::at(&path, 1, 3)];
    all_fail(each(&differ, join), ErrorKind::Condition, "wants a group of 3, and rank 0 one of 2");
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let start = Instant::now();
    let all = meetings(4, SHORT);
    let results = each(&[all[0].clone(), all[2].clone()], join);
    let texts: Vec<String> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(texts[0].contains("ranks 1, 3 did not come"), "{texts:?}");
    assert!(texts[1].contains("ranks 1, 3 did not come") || texts[1].contains("some of the other ranks"), "{texts:?}");
    all_fail(vec![join(&all[1])], ErrorKind::Fault, "rank 0 did not come");
    assert!(start.elapsed() < LONG / 10);
    assert!(!all[0].path().exists());
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let all = meetings(2, LONG);
    drop(UnixListener::bind(all[0].path()).unwrap());
    assert!(all[0].path().exists());
    each(&all, join).into_iter().for_each(|group| drop(group.unwrap()));
    let mut wrong = meetings(2, SHORT);
    std::fs::write(wrong[0].path(), "a file of the user's").unwrap();
    all_fail(vec![join(&wrong[0])], ErrorKind::Fault, "no socket");
    assert_eq!(std::fs::read_to_string(wrong[0].path()).unwrap(), "a file of the user's");
    std::fs::remove_file(wrong[0].path()).unwrap();
    wrong[0] = Rendezvous::at("/tmp/".to_owned() + &"long".repeat(50), 0, 2);
    all_fail(vec![join(&wrong[0])], ErrorKind::Fault, "up to 90 bytes");
    wrong[0] = Rendezvous::at("/nowhere/at/all", 0, 2);
    all_fail(vec![join(&wrong[0])], ErrorKind::Fault, "rank 0 cannot meet others at /nowhere/at/all");
}

#[test]
fn groups_follow_each_other_at_one_path() {
    let all = meetings(3, LONG);
    each(&all, |meeting| (0..5).for_each(|_| join(meeting).unwrap().meet().unwrap()));
}

#[test]
fn memory_of_other_lengths_is_an_error_on_all_and_the_group_goes_on() {
    let texts = each(&meetings(3, LONG), |meeting| {
        let group = join(meeting).unwrap();
        let error = SymmetricBuffer::<f32>::join(&group, 4 + group.rank() / 2).unwrap_err();
        let other = match group.rank() {
            1 => SymmetricBuffer::<u32>::join(&group, 4).unwrap_err(),
            _ => SymmetricBuffer::<f32>::join(&group, 4).unwrap_err(),
        };
        assert!(other.to_string().contains("u32"), "{other}");
        group.meet().unwrap();
        assert_eq!(SymmetricBuffer::<f32>::join(&group, 4).unwrap().len(), 4);
        (error.kind(), error.to_string())
    });
    for (kind, text) in texts {
        assert_eq!(kind, ErrorKind::Condition);
        assert!(text.contains("of 4 elements") && text.contains("of 5 elements"), "{text}");
    }
}

#[test]
fn a_rank_without_memory_fails_all() {
    let all = meetings(2, LONG);
    let results = each(&all, |meeting| SymmetricBuffer::<f32>::join(&join(meeting).unwrap(), 1 << 40));
    all_fail(results, ErrorKind::OutOfMemory, "");
}

#[test]
fn a_rank_that_leaves_or_is_late_is_named() {
    let results = each(&meetings(3, LONG), |meeting| {
        let group = join(meeting).unwrap();
        if group.rank() == 1 { Ok(()) } else { group.meet() }
    });
    for rank in [0, 2] {
        let error = results[rank].clone().unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("rank {rank} waits for rank ")) && text.contains("rank 1 (process"),
            "{error}"
        );
    }
    let results = each(&meetings(2, SHORT), |meeting| {
        let group = join(meeting).unwrap();
        if group.rank() == 1 {
            std::thread::sleep(3 * SHORT);
        }
        let first = group.meet();
        // The same error again: messages are missing from now on.
        assert_eq!(first, group.meet());
        first
    });
    let error = results[0].clone().unwrap_err();
    assert!(error.to_string().contains("rank 1") && error.to_string().contains("did not come within 300ms"), "{error}");
}

#[test]
fn other_calls_are_an_error_on_both() {
    let results = each(&meetings(2, LONG), |meeting| {
        let group = join(meeting).unwrap();
        if group.rank() == 0 { group.meet() } else { group.gather(&[]).map(drop) }
    });
    all_fail(results, ErrorKind::Condition, "asks its group for");
}
