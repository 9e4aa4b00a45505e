//! A thread for each rank. Their waits for each other end with an error that names the rank which failed.

use super::Devices;
use crate::context::Event;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Queue, Stream};
use cudarc::driver::CudaStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks at a stream.
const PAUSE: Duration = Duration::from_micros(50);

/// The thread of a rank, see [`Devices::on_threads`].
pub struct RankThread<'a> {
    rank: usize,
    device: &'a Device,
    meeting: &'a Meeting,
}

/// The place where threads meet.
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
    patience: Duration,
}

struct State {
    /// Meetings so far.
    turn: u64,
    /// The ranks that are here.
    here: Vec<bool>,
    /// The ranks whose threads have ended.
    gone: Vec<bool>,
    /// The first failure, and its rank.
    failed: Option<(usize, Error)>,
}

impl Devices {
    /// Calls `work` in a thread for each rank, with the rank's part of `parts`, and returns the results in the order of the ranks. It waits for all threads.
    ///
    /// When a rank fails, the others' waits in [`RankThread::meet`] and [`RankThread::finish`] end with an error that names it. When a rank does not come within
    /// `patience`, they end, too. Kernels of a GPU that wait for another rank need a patience of their own: `ptx_kernels::comm::Rank::set_patience`.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// use std::time::Duration;
    /// let devices = Devices::cpu(3);
    /// let work = |thread: &RankThread<'_>, divisor: i32| {
    ///     let part = 12i32.checked_div(divisor).ok_or_else(|| ptx_launch::Error::other("a part is divided by zero"))?;
    ///     thread.meet()?;
    ///     Ok(part)
    /// };
    /// assert_eq!(devices.on_threads(Duration::from_secs(5), vec![1, 2, 3], work), Ok(vec![12, 6, 4]));
    /// let error = devices.on_threads(Duration::from_secs(5), vec![1, 0, 3], work).unwrap_err();
    /// assert_eq!(error.to_string(), "rank 1: a part is divided by zero");
    /// ```
    ///
    /// # Errors
    /// That of the rank which failed first, with its number. [`ErrorKind::Condition`] unless there is a part for each rank.
    ///
    /// # Panics
    /// When `work` panics on a rank, after all threads have ended.
    pub fn on_threads<P: Send, R: Send>(
        &self,
        patience: Duration,
        parts: Vec<P>,
        work: impl Fn(&RankThread<'_>, P) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if parts.len() != self.len() {
            return Err(Error::new(ErrorKind::Condition, format!("{} parts for {} ranks", parts.len(), self.len()))
                .possible("a part for each rank"));
        }
        let (meeting, work) = (&Meeting::new(self.len(), patience), &work);
        let ended: Vec<_> = std::thread::scope(|scope| {
            let start = |(rank, (device, part))| {
                scope.spawn(move || {
                    let thread = RankThread { rank, device, meeting };
                    let leaving = Leaving { meeting, rank, result: Err(panicked()) };
                    leaving.with(work(&thread, part))
                })
            };
            let threads: Vec<_> = self.iter().zip(parts).enumerate().map(start).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let results = ended.into_iter().map(|ended| ended.unwrap_or_else(|cause| std::panic::resume_unwind(cause)));
        let results: Vec<Result<R>> = results.collect();
        match meeting.lock().failed.take() {
            Some((rank, error)) => Err(error.about(&format!("rank {rank}: "), "")),
            None => results.into_iter().collect(),
        }
    }
}

/// Notes the end of a thread, also when it panics.
struct Leaving<'a> {
    meeting: &'a Meeting,
    rank: usize,
    result: Result<()>,
}

impl Leaving<'_> {
    fn with<R>(mut self, result: Result<R>) -> Result<R> {
        self.result = result.as_ref().map(drop).map_err(Error::clone);
        result
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.meeting.lock();
        state.gone[self.rank] = true;
        if let Err(error) = &self.result {
            state.failed.get_or_insert((self.rank, error.clone()));
        }
        self.meeting.changed.notify_all();
    }
}

impl RankThread<'_> {
    /// Its rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Waits until the threads of all ranks have called it.
    ///
    /// # Errors
    /// [`ErrorKind::Fault`] with the number of a rank that has failed or ended, or did not come within the patience.
    pub fn meet(&self) -> Result<()> {
        let (meeting, start) = (self.meeting, Instant::now());
        let mut state = meeting.lock();
        let turn = state.turn;
        state.here[self.rank] = true;
        if state.here.iter().all(|here| *here) {
            state.here.fill(false);
            state.turn += 1;
            meeting.changed.notify_all();
            return Ok(());
        }
        while state.turn == turn {
            let left = meeting.patience.saturating_sub(start.elapsed());
            state.check(left.is_zero().then_some(meeting.patience))?;
            let waited = meeting.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
        Ok(())
    }

    /// Waits until all work in a stream of this rank has ended. On a GPU at most so long as the patience, and not behind the failure of another rank, for which its
    /// kernels may wait; a CPU device ends such waits itself.
    ///
    /// # Errors
    /// Those of [`Stream::synchronize`], and as [`meet`](RankThread::meet).
    pub fn finish(&self, stream: &Stream) -> Result<()> {
        if let Queue::Cuda(_, stream) = &stream.0 {
            self.wait_for(stream)?;
        }
        stream.synchronize()
    }

    /// Returns when the work in a stream has ended, also with an error.
    fn wait_for(&self, stream: &CudaStream) -> Result<()> {
        let start = Instant::now();
        // A stream without an event has an error, which `synchronize` returns.
        let Ok(event) = Event::behind(stream) else { return Ok(()) };
        while event.is_pending() {
            let failed = self.meeting.lock().failed.clone();
            if let Some((rank, error)) = failed {
                return Err(of_other(rank, &error));
            }
            if start.elapsed() > self.meeting.patience {
                return Err(unfinished(self.rank, self.meeting.patience));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Meeting {
    fn new(ranks: usize, patience: Duration) -> Meeting {
        let (here, gone) = (vec![false; ranks], vec![false; ranks]);
        let state = Mutex::new(State { turn: 0, here, gone, failed: None });
        Meeting { state, changed: Condvar::new(), patience }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// An error if a rank cannot come; or has not, after such a wait.
    fn check(&mut self, waited: Option<Duration>) -> Result<()> {
        if let Some((rank, error)) = &self.failed {
            return Err(of_other(*rank, error));
        }
        let missing = |rank: &usize| !self.here[*rank];
        let ended = (0..self.here.len()).filter(missing).find(|rank| self.gone[*rank]);
        let late = waited.and_then(|waited| Some(((0..self.here.len()).find(missing)?, waited)));
        let (rank, error) = match (ended, late) {
            (Some(rank), _) => (rank, has_ended()),
            (None, Some((rank, waited))) => (rank, is_late(waited)),
            (None, None) => return Ok(()),
        };
        // It is the guilty one, not the first that has lost its patience.
        self.failed = Some((rank, error.clone()));
        Err(of_other(rank, &error))
    }
}

#[cold]
fn panicked() -> Error {
    Error::new(ErrorKind::Fault, "its thread panicked")
}

#[cold]
fn has_ended() -> Error {
    Error::new(ErrorKind::Fault, "its thread ended, and others wait for it to meet them")
        .possible("as many calls of `meet` on every rank")
}

#[cold]
fn is_late(waited: Duration) -> Error {
    Error::new(ErrorKind::Fault, format!("its thread did not come to a meeting within {waited:?}"))
}

#[cold]
fn of_other(rank: usize, error: &Error) -> Error {
    Error::new(ErrorKind::Fault, format!("the wait for other ranks ended, because rank {rank} failed: {error}"))
}

#[cold]
fn unfinished(rank: usize, patience: Duration) -> Error {
    Error::new(ErrorKind::Fault, format!("the work of rank {rank} has not ended within {patience:?}"))
        .possible("kernels whose other ranks have launched them, too")
        .help("`set_patience` of a group lets kernels that wait for a rank end with an error")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn error(patience: Duration, work: impl Fn(&RankThread<'_>) -> Result<()> + Sync) -> String {
        let start = Instant::now();
        let error = Devices::cpu(3).on_threads(patience, vec![(); 3], |thread, ()| work(thread)).unwrap_err();
        assert!(start.elapsed() < LONG / 2);
        error.to_string()
    }

    #[test]
    fn threads_meet_again_and_again() {
        let arrived = Mutex::new(0);
        let work = |thread: &RankThread<'_>, part: usize| {
            for turn in 1..20 {
                *arrived.lock().unwrap() += 1;
                thread.meet()?;
                assert_eq!(*arrived.lock().unwrap(), 3 * turn);
                thread.meet()?;
            }
            thread.finish(&thread.device().stream())?;
            Ok(part + thread.rank())
        };
        assert_eq!(Devices::cpu(3).on_threads(LONG, vec![10, 20, 30], work).unwrap(), [10, 21, 32]);
        assert!(
            Devices::cpu(3).on_threads(LONG, vec![1], work).unwrap_err().to_string().contains("1 parts for 3 ranks")
        );
    }

    #[test]
    fn waits_end_when_a_rank_fails() {
        let others = Mutex::new(Vec::new());
        let found = error(LONG, |thread| {
            if thread.rank() == 1 {
                return Err(Error::other("no weights"));
            }
            let met = thread.meet();
            others.lock().unwrap().push(met.clone().unwrap_err().to_string());
            met
        });
        assert_eq!(found, "rank 1: no weights");
        let others = others.into_inner().unwrap();
        assert!(
            others.len() == 2 && others.iter().all(|text| text.contains("rank 1 failed: no weights")),
            "{others:?}"
        );
    }

    #[test]
    fn waits_end_when_a_rank_ends_or_is_late() {
        let found = error(LONG, |thread| if thread.rank() == 2 { Ok(()) } else { thread.meet() });
        assert!(found.starts_with("rank 2: its thread ended"), "{found}");
        let patience = Duration::from_millis(30);
        let found = error(patience, |thread| {
            if thread.rank() == 0 {
                std::thread::sleep(10 * patience);
            }
            thread.meet()
        });
        assert!(found.starts_with("rank 0: its thread did not come to a meeting within 30ms"), "{found}");
    }

    #[test]
    fn a_panic_ends_waits_and_is_passed_on() {
        let met = Mutex::new(String::new());
        let run = || {
            Devices::cpu(2).on_threads(LONG, vec![(); 2], |thread, ()| {
                if thread.rank() == 0 {
                    std::panic::resume_unwind(Box::new("oh"));
                }
                thread.meet().inspect_err(|error| *met.lock().unwrap() = error.to_string())
            })
        };
        let cause = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(*cause.downcast::<&str>().unwrap(), "oh");
        assert!(met.into_inner().unwrap().contains("rank 0 failed: its thread panicked"));
    }
}
