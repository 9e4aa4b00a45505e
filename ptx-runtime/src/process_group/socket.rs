//! The link between two processes: a socket of packets, which carries open files, too.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with, socketpair,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most bytes that a caller may send.
pub(super) const MOST: usize = 32 << 10;
/// The most bytes of a packet, with what stands in front.
const PACKET: usize = 2 * MOST;
/// The most open files of a packet that Linux takes.
const FILES: usize = 253;

/// A link.
#[derive(Debug)]
pub(super) struct Link(OwnedFd);

/// A packet.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// A socket that is no link yet.
pub(super) fn open() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Waits until something can be done with a file.
///
/// # Errors
/// [`ErrorKind::TimedOut`] at `until`.
pub(super) fn wait(fd: BorrowedFd<'_>, what: PollFlags, until: Instant) -> Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(fd, what)], Some(&time)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Link {
    /// Both ends of a new link.
    pub(super) fn pair() -> Result<(Link, Link)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Link(one), Link(other)))
    }

    /// The link of a socket that is connected, and does not block.
    pub(super) fn of(socket: OwnedFd) -> Link {
        Link(socket)
    }

    /// The socket, to send it to another process.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] at `until`, [`ErrorKind::BrokenPipe`] if the other end is closed.
    pub(super) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>], until: Instant) -> Result<()> {
        let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(fds).size()];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => wait(self.as_fd(), PollFlags::OUT, until)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next packet.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] at `until`, [`ErrorKind::UnexpectedEof`] if the other end is closed.
    pub(super) fn receive(&self, until: Instant) -> Result<Message> {
        let mut bytes = vec![0; PACKET];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        loop {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                // No packet is empty.
                Ok(found) if found.bytes == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(found) => {
                    let fds = control.drain().flat_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                        _ => Vec::new(),
                    });
                    let fds = fds.collect();
                    bytes.truncate(found.bytes);
                    return Ok(Message { bytes, fds });
                }
                Err(Errno::AGAIN) => wait(self.as_fd(), PollFlags::IN, until)?,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(Error::from(error)),
            }
        }
    }

    /// Returns true if the other end is closed, also while packets from it wait here.
    pub(super) fn is_closed(&self) -> bool {
        let mut look = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let looked = poll(&mut look, Some(&now));
        looked.is_ok_and(|found| found > 0)
            && look[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
    }
}

/// The earlier of `until` and so long from now on.
pub(super) fn within(until: Instant, time: Duration) -> Instant {
    until.min(Instant::now() + time)
}
