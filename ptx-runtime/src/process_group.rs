//! Processes of one machine that work together, each as a rank with a device of its own: how they meet, and how they exchange messages and
//! memory. This module needs Linux and the feature `processes`. Other builds have `elsewhere` in its place.
//!
//! `rendezvous` has the place where they meet, `meeting` lets them meet, `socket` is the link between two of them, `shared` the memory of CPU devices, and
//! `handles` that of GPUs.

#[cfg(feature = "cpu")]
pub(crate) mod shared;

pub(crate) mod handles;
mod meeting;
mod rendezvous;
mod socket;
#[cfg(all(test, feature = "cpu"))]
mod tests;

pub use rendezvous::Rendezvous;

use crate::device::{Device, Inner};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Queue, Stream};
use meeting::Met;
pub(crate) use socket::Message;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Time after the end of a process in which the work of others may still end without it.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two looks at a stream.
const PAUSE: Duration = Duration::from_micros(50);

/// A rank of a group of processes on one machine, each with a device: its own GPU, or a CPU device. A clone is the same rank.
///
/// *Needs Linux and the feature `processes`.*
///
/// Every process calls [`join`](ProcessGroup::join) with its rank and the place of a [`Rendezvous`], and then the same functions of the group in
/// the same order: those that make [symmetric memory](crate::SymmetricBuffer::join), and [`meet`](ProcessGroup::meet). One that does not come
/// within the patience of the group, or calls something else, is an error on all ranks, which names it.
///
/// When a process ends, the others' waits for it end with an error: those in functions of the group, those for work on a CPU device, and
/// [`finish`](ProcessGroup::finish). Kernels of a GPU that wait for another rank end by their own patience, which `ptx_kernels::comm::Rank::join`
/// takes from the group.
///
/// CPU devices of a group take turns: a launch runs while its process waits for it. The watcher of each sees its own process alone: accesses to
/// symmetric memory are checked for bounds and alignment, everything else as ever. [`Devices::cpu`](crate::Devices::cpu), with all ranks in one
/// process, finds races between ranks, too.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_launch::{ProcessGroup, Rendezvous};
/// # fn main() -> ptx_launch::Result<()> {
/// # let job = format!("doc-{}", std::process::id());
/// // Two threads stand for two processes.
/// let rank = |rank: usize| {
///     let group = ProcessGroup::join(&Device::cpu(), &Rendezvous::named(&job, rank, 2))?;
///     let mut x = SymmetricBuffer::<f32>::join(&group, 4)?;
///     x.write(&[rank as f32; 4])?;
///     group.meet()?;
///     ptx_launch::Result::Ok(x.ranks())
/// };
/// std::thread::scope(|scope| {
///     let other = scope.spawn(|| rank(1));
///     assert_eq!(rank(0)?, 2);
///     other.join().expect("it does not panic").map(drop)
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct ProcessGroup(Arc<State>);

struct State {
    rank: usize,
    device: Device,
    patience: Duration,
    met: Met,
    /// Held during an exchange.
    exchanges: Mutex<()>,
    failed: Mutex<Option<Error>>,
    lost: OnceLock<usize>,
}

impl ProcessGroup {
    /// Meets the other ranks. `device` is this rank's own. A CPU device takes turns with those of other processes from now on, and its
    /// launches run while the host waits for them.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] for a rank that is none, if two processes have one rank, or if numbers of ranks or kinds of devices differ;
    /// [`ErrorKind::Fault`] if a rank does not come within the patience; [`ErrorKind::Unsupported`] on other systems than Linux.
    pub fn join(device: &Device, rendezvous: &Rendezvous) -> Result<ProcessGroup> {
        check_device(device)?;
        let met = meeting::meet(rendezvous, device.is_cuda())?;
        let (rank, patience) = (rendezvous.rank(), rendezvous.patience_of());
        let (exchanges, failed, lost) = Default::default();
        let device = device.clone();
        let group = ProcessGroup(Arc::new(State { rank, device, patience, met, exchanges, failed, lost }));
        #[cfg(feature = "cpu")]
        if let Inner::Cpu(cpu) = &group.0.device.0 {
            let state: Arc<State> = group.0.clone();
            let peers: Arc<dyn crate::device::node::Peers> = state;
            cpu.join(Arc::downgrade(&peers));
        }
        Ok(group)
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.0.met.links.len()
    }

    /// The device of this rank.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Time that this rank waits for others.
    pub fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// [`ErrorKind::Fault`] with the rank that has ended, or did not come within the patience; [`ErrorKind::Condition`] if one calls another
    /// function.
    pub fn meet(&self) -> Result<()> {
        self.exchange("meet", Ok((&[], &[]))).map(drop)
    }

    /// The bytes of all ranks, up to 32 KiB of each, in their order.
    ///
    /// # Errors
    /// Those of [`meet`](ProcessGroup::meet); [`ErrorKind::Limits`] for more bytes.
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let own = if bytes.len() <= socket::MOST { Ok((bytes, &[][..])) } else { Err(too_long(bytes.len())) };
        Ok(self.exchange("gather", own)?.into_iter().map(|message| message.bytes).collect())
    }

    /// Waits until all work in a stream of this rank has ended: at most for the patience, and not for ever behind the end of another process,
    /// for which its kernels may wait.
    ///
    /// # Errors
    /// Those of [`Stream::synchronize`]; [`ErrorKind::Fault`] with the rank whose process has ended.
    pub fn finish(&self, stream: &Stream) -> Result<()> {
        // A CPU device looks for the others itself.
        let Queue::Cuda(_, cuda) = &stream.0 else { return stream.synchronize() };
        self.wait_for(cuda)?;
        stream.synchronize().map_err(|error| match self.0.find_lost() {
            Some(rank) => {
                let why = self.0.lost(rank);
                self.0.fail_with(&why);
                why.help(format!("the work of rank {} ended with this error: {error}", self.rank()))
            }
            None => error,
        })
    }

    /// Returns when the work in a stream has ended, also with an error.
    fn wait_for(&self, stream: &cudarc::driver::CudaStream) -> Result<()> {
        let (start, mut lost) = (Instant::now(), None);
        // A stream without an event has an error, which `synchronize` returns.
        let Ok(event) = crate::context::Event::behind(stream) else { return Ok(()) };
        while event.is_pending() {
            lost = lost.or_else(|| self.0.find_lost().map(|rank| (rank, Instant::now())));
            match lost {
                Some((rank, since)) if since.elapsed() > GRACE => return Err(self.0.fail_with(&self.0.lost(rank))),
                _ if start.elapsed() > self.0.patience => return Err(self.0.fail_with(&self.late())),
                _ => std::thread::sleep(PAUSE),
            }
        }
        Ok(())
    }

    /// Sends `own` to all ranks and returns what they sent, in their order. All of them call it for the same `what`.
    pub(crate) fn exchange(&self, what: &str, own: Result<(&[u8], &[BorrowedFd<'_>])>) -> Result<Vec<Message>> {
        let _turn = self.0.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.check()?;
        let until = Instant::now() + self.0.patience;
        let sent = Sent::new(what, &own);
        for (rank, link) in self.0.links() {
            let fds = own.as_ref().map_or(&[][..], |(_, fds)| fds);
            link.send(&sent.0, fds, until).map_err(|error| self.0.fail_with(&self.broken(rank, &error, what)))?;
        }
        let mut all: Vec<Message> = (0..self.ranks()).map(|_| Message::default()).collect();
        let mut wrong = own.as_ref().err().cloned();
        if let Ok((bytes, _)) = &own {
            all[self.0.rank].bytes = bytes.to_vec();
        }
        for (rank, link) in self.0.links() {
            let received = link.receive(until).map_err(|error| self.0.fail_with(&self.broken(rank, &error, what)))?;
            match self.read(rank, received, what) {
                Ok(message) => all[rank] = message,
                // The messages of the others are read, too, so that the next exchange begins with the next ones.
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        wrong.map_or(Ok(all), Err)
    }

    fn read(&self, rank: usize, received: Message, what: &str) -> Result<Message> {
        let Some((their, failed, bytes)) = Sent::read(&received.bytes) else {
            return Err(Error::new(ErrorKind::Fault, format!("the message of {} cannot be read", self.0.name(rank))));
        };
        if failed {
            let text = String::from_utf8_lossy(bytes);
            return Err(Error::new(ErrorKind::Fault, format!("{} failed: {text}", self.0.name(rank))));
        }
        if their != what.as_bytes() {
            let their = String::from_utf8_lossy(their);
            let asked =
                format!("rank {} asks its group for {what}, and {} for {their}", self.rank(), self.0.name(rank));
            return Err(
                Error::new(ErrorKind::Condition, asked).possible("the same calls on every rank, in the same order")
            );
        }
        Ok(Message { bytes: bytes.to_vec(), fds: received.fds })
    }

    /// An error if the group has failed before.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// Returns true if both are the same rank of the same group.
    pub(crate) fn is(&self, other: &ProcessGroup) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[cold]
    fn late(&self) -> Error {
        let asked = format!("the work of rank {} has not ended within {:?}", self.rank(), self.0.patience);
        Error::new(ErrorKind::Fault, asked).possible("kernels whose other ranks have launched them, too")
    }

    #[cold]
    fn broken(&self, rank: usize, error: &std::io::Error, what: &str) -> Error {
        match error.kind() {
            std::io::ErrorKind::TimedOut => {
                let asked = format!("{} did not come within {:?}: {what}", self.0.name(rank), self.0.patience);
                Error::new(ErrorKind::Fault, asked).possible("the same calls on every rank, in the same order")
            }
            _ if self.0.met.links[rank].as_ref().is_some_and(socket::Link::is_closed) => {
                self.0.lost(self.0.find_lost().unwrap_or(rank))
            }
            _ => Error::new(ErrorKind::Fault, format!("the link to {} failed: {error}", self.0.name(rank))),
        }
    }
}

/// A message of an exchange: the length of the request, one byte that is 1 after a failure, the request, and the data or the error.
struct Sent(Vec<u8>);

impl Sent {
    fn new(what: &str, own: &Result<(&[u8], &[BorrowedFd<'_>])>) -> Sent {
        let mut bytes = (what.len() as u32).to_le_bytes().to_vec();
        bytes.push(u8::from(own.is_err()));
        bytes.extend_from_slice(what.as_bytes());
        match own {
            Ok((data, _)) => bytes.extend_from_slice(data),
            Err(error) => bytes.extend(error.to_string().bytes().take(socket::MOST)),
        }
        Sent(bytes)
    }

    /// The request, true after a failure, and the rest.
    fn read(bytes: &[u8]) -> Option<(&[u8], bool, &[u8])> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (failed, rest) = rest.split_first()?;
        let (what, data) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        Some((what, *failed != 0, data))
    }
}

impl State {
    /// The other ranks and the links to them.
    fn links(&self) -> impl Iterator<Item = (usize, &socket::Link)> {
        self.met.links.iter().enumerate().filter_map(|(rank, link)| Some((rank, link.as_ref()?)))
    }

    /// The first rank whose process has ended, or left the group: that of others may follow.
    fn find_lost(&self) -> Option<usize> {
        let find = || self.links().find(|(_, link)| link.is_closed()).map(|(rank, _)| rank);
        self.lost.get().copied().or_else(|| find().map(|found| *self.lost.get_or_init(|| found)))
    }

    /// An error if the group has failed before.
    fn check(&self) -> Result<()> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// Keeps the first error of the group, which all later calls return.
    fn fail_with(&self, error: &Error) -> Error {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        error.clone()
    }

    fn name(&self, rank: usize) -> String {
        format!("rank {rank} (process {})", self.met.processes.get(rank).copied().unwrap_or(0))
    }

    /// The error of a wait for ranks that are gone. Those that have found it before may be gone, too, so that all of them are named.
    #[cold]
    fn lost(&self, rank: usize) -> Error {
        let gone = self.links().filter(|(other, link)| *other == rank || link.is_closed());
        let names: Vec<String> = gone.map(|(other, _)| self.name(other)).collect();
        let have = if names.len() == 1 { "has" } else { "have" };
        let names = names.join(" and ");
        Error::new(
            ErrorKind::Fault,
            format!("rank {} waits for {names}, which {have} ended or left the group", self.rank),
        )
    }
}

#[cfg(feature = "cpu")]
impl crate::device::node::Peers for State {
    fn rank_of(&self) -> [usize; 2] {
        [self.rank, self.met.links.len()]
    }

    fn turn(&self) -> &std::fs::File {
        &self.met.turn
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn find_failure(&self, waited: Duration) -> Option<Error> {
        let lost = || self.find_lost().filter(|_| waited > GRACE).map(|rank| self.fail_with(&self.lost(rank)));
        self.check().err().or_else(lost)
    }

    fn fail(&self, error: &Error) {
        self.fail_with(error);
    }
}

impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessGroup(rank {} of {}, {})", self.rank(), self.ranks(), self.0.device)
    }
}

/// Refuses devices whose memory nobody else can have.
fn check_device(device: &Device) -> Result<()> {
    match &device.0 {
        Inner::Cuda(_) => Ok(()),
        #[cfg(feature = "cpu")]
        Inner::Cpu(cpu) if cpu.field().is_none() => Ok(()),
        Inner::Cpu(_) => Err(Error::new(ErrorKind::Unsupported, "this CPU device is to join a group of processes")
            .possible("`Device::cpu()`, and GPUs")),
    }
}

#[cold]
fn too_long(bytes: usize) -> Error {
    Error::new(ErrorKind::Limits, format!("{bytes} bytes of each rank are to be gathered"))
        .possible(format!("up to {}", socket::MOST))
}
