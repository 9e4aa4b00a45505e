//! Symmetric memory: the same allocation on every rank, which the kernels of all ranks reach, with words for signals. This file has the ranks of
//! one process, `processes` those of several.
#![allow(unsafe_code, reason = "memory that outlives its owner's handle")]

#[cfg(all(target_os = "linux", feature = "processes"))]
mod processes;

use crate::buffer::{Buffer, Element};
use crate::device::{Device, Inner};
use crate::devices::Devices;
use crate::error::{Error, ErrorKind, Result};
use crate::process_group::ProcessGroup;
use crate::stream::AsStream;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Signals of each rank, where the caller names no other number.
const SIGNALS: usize = 4096;

/// One buffer of the same length on each rank. Kernels of every rank read and write all of them; the host has a [`Symmetric`] for each.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let devices = Devices::cpu(2);
/// let mut x = SymmetricBuffer::<f32>::zeros(&devices, 4)?;
/// x.on_mut(1)?.write(&[1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(x.on(0)?.download()?, [0.0; 4]);
/// // A thread for each rank may take its part.
/// let parts: Vec<Symmetric<f32>> = x.into_ranks();
/// assert_eq!(parts[1].rank(), 1);
/// # Ok(())
/// # }
/// ```
pub struct SymmetricBuffer<T: Element>(Vec<Symmetric<T>>);

/// A rank's part of symmetric memory: a [`Buffer`], and the addresses of the parts of all ranks.
///
/// The memory of all ranks is there until the last part is dropped, which waits for the work of every rank. Of ranks in several processes each has
/// the memory of all until it drops its own part, in any order. Nothing but signals in kernels, and waits of the host, orders the uses of one
/// rank's part by kernels of others. A GPU's part of a group of processes that has failed is never freed, because its kernels may still run.
pub struct Symmetric<T: Element> {
    part: ManuallyDrop<Part<T>>,
    rank: usize,
    shared: Arc<Shared>,
}

/// Memory of a rank.
struct Part<T> {
    data: Buffer<T>,
    signals: Buffer<u32>,
    table: Buffer<u64>,
}

/// A rank's memory as a launch takes it, see [`Symmetric::parts_mut`].
pub struct SymmetricParts<'a, T> {
    /// The rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// The rank's own data.
    pub data: &'a mut Buffer<T>,
    /// Its own signals: zero at first, and kernels of all ranks write them.
    pub signals: &'a mut Buffer<u32>,
    /// The addresses of the data of each rank, and then those of the signals of each rank.
    pub table: &'a Buffer<u64>,
}

/// State of all parts in this process.
struct Shared {
    /// The devices of all ranks, or the one of this process.
    devices: Devices,
    /// The group of this process, if each rank has a process.
    group: Option<ProcessGroup>,
    ranks: usize,
    /// The addresses of the data of each rank, and then those of the signals of each rank.
    addresses: Vec<u64>,
    /// Parts that were dropped: others may still use their memory.
    gone: Mutex<Vec<Gone>>,
}

/// Memory of a rank that was dropped.
struct Gone(#[expect(dead_code, reason = "it is only dropped")] Box<dyn Any>);

// SAFETY: it is the memory of a `Part`, whose elements lie on a device: the host has no value of their type.
unsafe impl Send for Gone {}

impl Drop for Shared {
    fn drop(&mut self) {
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        let has_failed = self.group.as_ref().is_some_and(|group| group.check().is_err());
        if has_failed && self.devices.iter().any(Device::is_cuda) {
            // Kernels may wait for a rank that has ended, and nobody waits for them: their memory stays as long as the process.
            std::mem::forget(gone);
            return;
        }
        // A launch that failed has ended, too, so that its error changes nothing here.
        let _ = self.devices.synchronize();
        drop(gone);
    }
}

impl<T: Element> SymmetricBuffer<T> {
    /// `len` elements on each device whose bytes are all zero, and 4096 signals.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if two GPUs cannot reach each other, [`ErrorKind::OutOfMemory`], or an error of the driver.
    pub fn zeros(devices: &Devices, len: usize) -> Result<SymmetricBuffer<T>> {
        SymmetricBuffer::with_signals(devices, len, SIGNALS)
    }

    /// The same with another number of signals for each rank.
    ///
    /// # Errors
    /// Those of [`zeros`](SymmetricBuffer::zeros).
    pub fn with_signals(devices: &Devices, len: usize, signals: usize) -> Result<SymmetricBuffer<T>> {
        devices.enable_peer_access()?;
        let all = |device: &Device| Ok((allocate::<T>(device, len)?, allocate::<u32>(device, signals)?));
        let all = devices.iter().map(all).collect::<Result<Vec<_>>>()?;
        let (data, pads) = (all.iter().map(|(data, _)| data.address()), all.iter().map(|(_, pads)| pads.address()));
        let addresses: Vec<u64> = data.chain(pads).collect();
        let tables = devices.iter().map(|device| device.upload(&addresses)).collect::<Result<Vec<_>>>()?;
        // The kernels of others start without waiting for the streams that clear this memory.
        devices.synchronize()?;
        let (devices, ranks) = (devices.clone(), devices.len());
        let shared = Arc::new(Shared { devices, group: None, ranks, addresses, gone: Mutex::default() });
        let part = |(rank, ((data, signals), table))| Symmetric {
            part: ManuallyDrop::new(Part { data, signals, table }),
            rank,
            shared: shared.clone(),
        };
        Ok(SymmetricBuffer(all.into_iter().zip(tables).enumerate().map(part).collect()))
    }

    /// This process's part of memory that all ranks of a group have: `len` elements whose bytes are all zero, and 4096 signals. Every rank calls it
    /// with the same type and length.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if ranks ask for different memory; [`ErrorKind::Fault`] with the rank that has failed, has ended, or did not come
    /// within the patience of the group; [`ErrorKind::OutOfMemory`], or an error of the driver.
    pub fn join(group: &ProcessGroup, len: usize) -> Result<Symmetric<T>> {
        SymmetricBuffer::join_with_signals(group, len, SIGNALS)
    }

    /// The same with another number of signals for each rank.
    ///
    /// # Errors
    /// Those of [`join`](SymmetricBuffer::join).
    pub fn join_with_signals(group: &ProcessGroup, len: usize, signals: usize) -> Result<Symmetric<T>> {
        join(group, len, signals)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.0.len()
    }

    /// The part of a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there is no such rank.
    pub fn on(&self, rank: usize) -> Result<&Symmetric<T>> {
        self.0.get(rank).ok_or_else(|| no_rank(rank, self.0.len()))
    }

    /// The same, to change.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there is no such rank.
    pub fn on_mut(&mut self, rank: usize) -> Result<&mut Symmetric<T>> {
        let ranks = self.0.len();
        self.0.get_mut(rank).ok_or_else(|| no_rank(rank, ranks))
    }

    /// The parts of all ranks, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Symmetric<T>> {
        self.0.iter_mut()
    }

    /// The parts of all ranks, for a thread each.
    pub fn into_ranks(self) -> Vec<Symmetric<T>> {
        self.0
    }
}

impl<T: Element> Symmetric<T> {
    /// Its rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.shared.ranks
    }

    /// The devices of all ranks; of ranks in several processes that of this one.
    pub fn devices(&self) -> &Devices {
        &self.shared.devices
    }

    /// Returns true if another one is memory of the same rank of the same devices, or of the same group of processes.
    pub fn has_ranks_of<U: Element>(&self, other: &Symmetric<U>) -> bool {
        let same = |(one, other): (&Device, &Device)| one.as_stream().id() == other.as_stream().id();
        let (own, others) = (&self.shared.devices, &other.shared.devices);
        let same_group = match (&self.shared.group, &other.shared.group) {
            (Some(own), Some(other)) => own.is(other),
            (None, None) => own.len() == others.len() && own.iter().zip(others.iter()).all(same),
            _ => false,
        };
        same_group && self.rank == other.rank
    }

    /// The addresses of the data of all ranks, for tensor maps of other ranks' memory.
    pub fn addresses(&self) -> &[u64] {
        self.shared.addresses.get(..self.shared.ranks).unwrap_or_default()
    }

    /// All that a launch of a communicating kernel takes.
    pub fn parts_mut(&mut self) -> SymmetricParts<'_, T> {
        let (rank, ranks) = (self.rank as u32, self.shared.ranks as u32);
        let Part { data, signals, table } = &mut *self.part;
        SymmetricParts { rank, ranks, data, signals, table }
    }
}

impl<T: Element> Deref for Symmetric<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.part.data
    }
}

impl<T: Element> DerefMut for Symmetric<T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        &mut self.part.data
    }
}

impl<T: Element> Drop for Symmetric<T> {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here, and nobody has the value after its drop.
        let part = unsafe { ManuallyDrop::take(&mut self.part) };
        self.shared.gone.lock().unwrap_or_else(PoisonError::into_inner).push(Gone(Box::new(part)));
    }
}

impl<T: Element> fmt::Debug for Symmetric<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symmetric(rank {} of {}, {:?})", self.rank, self.shared.ranks, self.part.data)
    }
}

impl<T: Element> fmt::Debug for SymmetricBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SymmetricBuffer").field(&self.0).finish()
    }
}

#[cfg(all(target_os = "linux", feature = "processes"))]
use processes::join;

#[cfg(not(all(target_os = "linux", feature = "processes")))]
fn join<T: Element>(group: &ProcessGroup, _: usize, _: usize) -> Result<Symmetric<T>> {
    match *group {}
}

/// Zeros that other GPUs reach, too: the driver's pools, from which other buffers come, belong to one GPU.
fn allocate<T: Element>(device: &Device, len: usize) -> Result<Buffer<T>> {
    let mut buffer = match &device.0 {
        Inner::Cuda(cuda) => Buffer::reachable(cuda, len)?,
        Inner::Cpu(_) => Buffer::allocate(device, len)?,
    };
    buffer.clear()?;
    Ok(buffer)
}

#[cold]
fn no_rank(rank: usize, ranks: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("rank {rank} is asked for")).possible(format!("0 to {}", ranks.max(1) - 1))
}
