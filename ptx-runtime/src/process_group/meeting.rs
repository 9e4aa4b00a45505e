//! The meeting of the ranks: rank 0 listens at a path, the others come there, and it gives each of them a link to every other one.

use super::rendezvous::Rendezvous;
use super::socket::{self, Link, Message, within};
use crate::error::{Error, ErrorKind, Result};
use ptx_target::sort::SortSmall;
use rustix::event::PollFlags;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, connect, listen};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The most ranks: links to all of them fit one packet.
const MOST_RANKS: usize = 128;
/// The first bytes of a message, with the version of the protocol.
const MAGIC: &[u8; 8] = b"PTXRANK1";
/// Time between two tries to reach rank 0.
const PAUSE: Duration = Duration::from_millis(5);
/// Time in which a process that has come sends its number.
const INTRODUCTION: Duration = Duration::from_secs(2);
/// Connections that wait to be taken.
const BACKLOG: i32 = 256;

/// The ranks that have met.
pub(super) struct Met {
    /// The link to each rank, but the own one.
    pub links: Vec<Option<Link>>,
    /// The numbers of their processes.
    pub processes: Vec<u32>,
    /// The file whose lock the rank has whose CPU device runs.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "GPUs take no turns"))]
    pub turn: File,
}

/// A process that is to be a rank.
#[derive(Clone, Copy, Debug)]
struct Hello {
    rank: u32,
    ranks: u32,
    /// 1 for a GPU, 0 for a CPU device.
    is_cuda: u32,
    process: u32,
}

impl Hello {
    fn to_bytes(self) -> Vec<u8> {
        let Hello { rank, ranks, is_cuda, process } = self;
        let numbers = [rank, ranks, is_cuda, process].into_iter().flat_map(u32::to_le_bytes);
        MAGIC.iter().copied().chain(numbers).collect()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Hello> {
        let numbers = numbers(bytes.strip_prefix(MAGIC)?);
        let [rank, ranks, is_cuda, process] = *numbers.as_slice() else { return None };
        Some(Hello { rank, ranks, is_cuda, process })
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Meets the other ranks.
pub(super) fn meet(rendezvous: &Rendezvous, is_cuda: bool) -> Result<Met> {
    let (rank, ranks) = (rendezvous.rank(), rendezvous.ranks());
    if ranks == 0 || ranks > MOST_RANKS || rank >= ranks {
        return Err(no_rank(rank, ranks));
    }
    let until = Instant::now() + rendezvous.patience_of();
    let hello = Hello { rank: rank as u32, ranks: ranks as u32, is_cuda: is_cuda.into(), process: std::process::id() };
    if rank == 0 { receive_all(rendezvous, hello, until) } else { come(rendezvous, hello, until) }
}

// ---- rank 0 ----

/// The socket at the path, which is removed when it goes.
struct Place<'a> {
    socket: OwnedFd,
    path: &'a Path,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(self.path);
    }
}

/// Rank 0 waits for all others.
fn receive_all(rendezvous: &Rendezvous, own: Hello, until: Instant) -> Result<Met> {
    let failed = |error: io::Error| broken(rendezvous, &error);
    let turn = memfd_create("ptx-turn", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut met: Vec<Option<(Hello, Link)>> = (0..own.ranks).map(|_| None).collect();
    if own.ranks > 1 {
        let place = Place::open(rendezvous, own, until)?;
        while met.iter().skip(1).any(Option::is_none) {
            let came = place.next(until).and_then(|link| {
                let Some(link) = link else { return Ok(()) };
                admit(&mut met, own, link)
            });
            if let Err(why) = came.map_err(|error| if is_late(&error) { missing(rendezvous, &met) } else { error }) {
                refuse(&met, &why);
                return Err(why);
            }
        }
    }
    welcome(&met, own, &turn, until).map_err(failed)?;
    let processes = met.iter().map(|it| it.as_ref().map_or(own.process, |(hello, _)| hello.process)).collect();
    let links = met.into_iter().map(|it| it.map(|(_, link)| link)).collect();
    Ok(Met { links, processes, turn: reopen(&turn).map_err(failed)? })
}

impl<'a> Place<'a> {
    /// Listens at the path. The socket gets its name when it can be reached, so that one which cannot is stale.
    fn open(rendezvous: &'a Rendezvous, own: Hello, until: Instant) -> Result<Place<'a>> {
        let path = rendezvous.path();
        let failed = |error: io::Error| broken(rendezvous, &error);
        // Threads of one process may meet at a path, too.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{}", own.process, NEXT.fetch_add(1, Ordering::Relaxed)));
        let new = PathBuf::from(name);
        let _ = std::fs::remove_file(&new);
        let socket = listen_at(&new).map_err(failed)?;
        let named = loop {
            match std::fs::hard_link(&new, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match free(rendezvous, own, until) {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                linked => break linked.map_err(failed),
            }
        };
        let _ = std::fs::remove_file(&new);
        named.map(|()| Place { socket, path })
    }

    /// The next process that comes; `None` for one that sends nothing.
    fn next(&self, until: Instant) -> Result<Option<(Hello, Link)>> {
        socket::wait(self.socket.as_fd(), PollFlags::IN, until).map_err(late)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.socket, flags) else { return Ok(None) };
        let link = Link::of(socket);
        let said = link.receive(within(until, INTRODUCTION)).ok();
        Ok(said.and_then(|message| Some((Hello::of_bytes(&message.bytes)?, link))))
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket::open()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket that nobody listens to. One that somebody listens to is another rank 0, which is told.
fn free(rendezvous: &Rendezvous, own: Hello, until: Instant) -> Result<()> {
    let path = rendezvous.path();
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(broken(
            rendezvous,
            &io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"),
        ));
    }
    match reach(path) {
        Ok(link) => {
            let _ = link.send(&own.to_bytes(), &[], until);
            Err(twice(0, own.process, None))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(broken(rendezvous, &error)),
    }
}

/// Takes a process as the rank that it is to be.
fn admit(met: &mut [Option<(Hello, Link)>], own: Hello, (hello, link): (Hello, Link)) -> Result<()> {
    let wrong = match met.get(hello.rank as usize) {
        _ if hello.ranks != own.ranks => Some(other_number(hello, own)),
        None => Some(no_rank(hello.rank as usize, own.ranks as usize)),
        _ if hello.rank == 0 => Some(twice(0, own.process, Some(hello.process))),
        // Who has ended may come again.
        Some(Some((other, link))) if !link.is_closed() => Some(twice(hello.rank, other.process, Some(hello.process))),
        _ if hello.is_cuda != own.is_cuda => Some(other_kind(hello)),
        Some(_) => None,
    };
    if let Some(wrong) = wrong {
        tell(&link, &wrong);
        return Err(wrong);
    }
    met[hello.rank as usize] = Some((hello, link));
    Ok(())
}

/// Tells those who have come that the ranks do not meet.
fn refuse(met: &[Option<(Hello, Link)>], why: &Error) {
    met.iter().flatten().for_each(|(_, link)| tell(link, why));
}

fn tell(link: &Link, why: &Error) {
    let text = why.to_string();
    let answer: Vec<u8> = [1].into_iter().chain(text.bytes().take(socket::MOST)).collect();
    let _ = link.send(&answer, &[], Instant::now());
}

/// Gives each rank the numbers of all processes, the file for turns, and its links to the others but rank 0.
fn welcome(met: &[Option<(Hello, Link)>], own: Hello, turn: &OwnedFd, until: Instant) -> io::Result<()> {
    let ranks = met.len();
    let mut links: Vec<Vec<(usize, Link)>> = (0..ranks).map(|_| Vec::new()).collect();
    for one in 1..ranks {
        for other in one + 1..ranks {
            let (left, right) = Link::pair()?;
            links[one].push((other, left));
            links[other].push((one, right));
        }
    }
    let processes = met.iter().map(|it| it.as_ref().map_or(own.process, |(hello, _)| hello.process));
    let text: Vec<u8> = [0].into_iter().chain(processes.flat_map(u32::to_le_bytes)).collect();
    for (it, links) in met.iter().zip(&mut links) {
        let Some((_, link)) = it else { continue };
        links.sort_small_by_key(|(rank, _)| *rank);
        let fds: Vec<BorrowedFd<'_>> =
            [turn.as_fd()].into_iter().chain(links.iter().map(|(_, link)| link.as_fd())).collect();
        link.send(&text, &fds, until)?;
    }
    Ok(())
}

// ---- the others ----

/// Comes to rank 0.
fn come(rendezvous: &Rendezvous, own: Hello, until: Instant) -> Result<Met> {
    let failed = |error: io::Error| broken(rendezvous, &error);
    let link = loop {
        match reach(rendezvous.path()) {
            Ok(link) => break link,
            Err(_) if Instant::now() > until => return Err(nobody(rendezvous)),
            Err(error) if is_too_early(&error) => std::thread::sleep(PAUSE),
            Err(error) => return Err(failed(error)),
        }
    };
    link.send(&own.to_bytes(), &[], until).map_err(failed)?;
    let answer = link.receive(until).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => others_missing(rendezvous),
        io::ErrorKind::UnexpectedEof => ended_early(rendezvous),
        _ => failed(error),
    })?;
    read_answer(rendezvous, own, link, answer)
}

fn read_answer(rendezvous: &Rendezvous, own: Hello, link: Link, answer: Message) -> Result<Met> {
    let (processes, mut fds) = match answer.bytes.split_first() {
        Some((0, text)) => (numbers(text), answer.fds.into_iter()),
        Some((_, text)) => return Err(Error::new(ErrorKind::Condition, String::from_utf8_lossy(text))),
        None => return Err(ended_early(rendezvous)),
    };
    let turn = fds.next();
    let mut links = vec![Some(link)];
    links.extend((1..own.ranks).map(|rank| if rank == own.rank { None } else { fds.next().map(Link::of) }));
    let is_whole = links.iter().filter(|link| link.is_none()).count() == 1 && processes.len() == links.len();
    let turn = turn.filter(|_| is_whole).ok_or_else(|| ended_early(rendezvous))?;
    Ok(Met { links, processes, turn: reopen(&turn).map_err(|error| broken(rendezvous, &error))? })
}

/// Connects to who listens at a path, if that is a process of the same user: others may make files in a common folder.
fn reach(path: &Path) -> io::Result<Link> {
    let socket = socket::open()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    if socket_peercred(&socket)?.uid.as_raw() != std::fs::metadata("/proc/self")?.uid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's process listens there"));
    }
    Ok(Link::of(socket))
}

/// Returns true if rank 0 may still begin to listen.
fn is_too_early(error: &io::Error) -> bool {
    let again = Some(Errno::AGAIN.raw_os_error());
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) || error.raw_os_error() == again
}

/// The same file, opened anew: a lock belongs to what was opened.
fn reopen(file: &OwnedFd) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

// ---- errors ----

/// The error of a wait that took too long, which `is_late` finds.
fn late(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => Error::new(ErrorKind::Other, LATE),
        _ => Error::new(ErrorKind::Fault, error.to_string()),
    }
}

const LATE: &str = "late";

fn is_late(error: &Error) -> bool {
    error.kind() == ErrorKind::Other && error.to_string() == LATE
}

#[cold]
fn missing(rendezvous: &Rendezvous, met: &[Option<(Hello, Link)>]) -> Error {
    let missing: Vec<String> =
        met.iter().enumerate().skip(1).filter(|(_, it)| it.is_none()).map(|(rank, _)| rank.to_string()).collect();
    let who = if missing.len() == 1 { "rank" } else { "ranks" };
    not_there(rendezvous, &format!("{who} {}", missing.join(", ")))
}

#[cold]
fn nobody(rendezvous: &Rendezvous) -> Error {
    not_there(rendezvous, "rank 0")
}

#[cold]
fn not_there(rendezvous: &Rendezvous, who: &str) -> Error {
    let (path, patience) = (rendezvous.path().display(), rendezvous.patience_of());
    Error::new(ErrorKind::Fault, format!("{who} did not come to the meeting at {path} within {patience:?}"))
        .possible(format!("a process for each of the {} ranks, with the same path", rendezvous.ranks()))
        .help("`Rendezvous::patience` lets ranks wait longer")
}

#[cold]
fn others_missing(rendezvous: &Rendezvous) -> Error {
    not_there(rendezvous, "some of the other ranks")
}

#[cold]
fn ended_early(rendezvous: &Rendezvous) -> Error {
    Error::new(ErrorKind::Fault, format!("rank 0 has ended during the meeting at {}", rendezvous.path().display()))
}

#[cold]
fn broken(rendezvous: &Rendezvous, error: &io::Error) -> Error {
    let asked = format!("rank {} cannot meet others at {}: {error}", rendezvous.rank(), rendezvous.path().display());
    Error::new(ErrorKind::Fault, asked)
        .possible("a path of up to 90 bytes in a folder of a local file system, where no file is")
}

#[cold]
fn no_rank(rank: usize, ranks: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("a process is to be rank {rank} of {ranks}"))
        .possible(format!("ranks from 0 on, below their number, which is up to {MOST_RANKS}"))
}

#[cold]
fn twice(rank: u32, process: u32, other: Option<u32>) -> Error {
    let other = other.map_or("another one that waits at the same path".to_owned(), |other| other.to_string());
    Error::new(ErrorKind::Condition, format!("two processes are rank {rank} of a group: {process} and {other}"))
        .possible("a rank of its own for each process, and a path of its own for each group")
}

#[cold]
fn other_number(hello: Hello, own: Hello) -> Error {
    let asked = format!(
        "rank {} (process {}) wants a group of {}, and rank 0 one of {}",
        hello.rank, hello.process, hello.ranks, own.ranks
    );
    Error::new(ErrorKind::Condition, asked).possible("the same number of ranks for all of them")
}

#[cold]
fn other_kind(hello: Hello) -> Error {
    let kinds = if hello.is_cuda == 1 { ["a GPU", "the CPU device"] } else { ["the CPU device", "a GPU"] };
    let asked = format!("rank {} (process {}) has {}, and rank 0 {}", hello.rank, hello.process, kinds[0], kinds[1]);
    Error::new(ErrorKind::Condition, asked).possible("GPUs on all ranks, or CPU devices")
}
