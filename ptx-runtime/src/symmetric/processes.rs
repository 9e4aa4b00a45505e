//! Symmetric memory whose ranks are processes: each makes its own part, sends it to the others as an open file, and maps theirs.

use super::{Gone, Part, Shared, Symmetric};
use crate::buffer::{Buffer, Element};
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Inner};
use crate::devices::Devices;
use crate::error::{Error, ErrorKind, Result};
use crate::process_group::ProcessGroup;
use crate::process_group::handles::{Mapping, signals_behind};
use std::any::type_name;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// A rank's own memory, and the file and the bytes from which others map it.
struct Own<T> {
    data: Buffer<T>,
    signals: Buffer<u32>,
    file: OwnedFd,
    bytes: usize,
}

/// Memory of another rank: where its data and its signals are in this process, and what keeps them there.
struct Other {
    addresses: [u64; 2],
    kept: Gone,
}

/// Makes this rank's part, and maps those of the others.
pub(super) fn join<T: Element>(group: &ProcessGroup, len: usize, signals: usize) -> Result<Symmetric<T>> {
    let what = format!(
        "symmetric memory of {len} elements of {} ({} bytes) with {signals} signals",
        type_name::<T>(),
        size_of::<T>()
    );
    let lens = [bytes_of::<T>(len), bytes_of::<u32>(signals)];
    let own = lens[0].clone().and_then(|_| allocate::<T>(group.device(), len, signals));
    let bytes = own.as_ref().map_or([0; 8], |own| (own.bytes as u64).to_le_bytes());
    let files = own.as_ref().map(|own| [own.file.as_fd()]);
    let sent = match &files {
        Ok(files) => Ok((&bytes[..], &files[..])),
        Err(error) => Err((*error).clone()),
    };
    let received = group.exchange(&what, sent)?;
    let (own, [data, pads]) = (own?, lens);
    let lens = [data?, pads?];
    let map = |(rank, message): (usize, &crate::process_group::Message)| {
        if rank == group.rank() {
            return Ok(Other { addresses: [own.data.address(), own.signals.address()], kept: Gone(Box::new(())) });
        }
        let bytes = <[u8; 8]>::try_from(message.bytes.as_slice()).map_or(0, u64::from_le_bytes);
        let file = message.fds.first().ok_or_else(|| no_file(rank))?;
        map(group.device(), file, lens, bytes as usize)
    };
    let others: Result<Vec<Other>> = received.iter().enumerate().map(map).collect();
    let made = others.and_then(|others| finish(group, own, others));
    // Nobody uses the memory of others before all have mapped it.
    group.exchange(&format!("{what}, mapped"), made.as_ref().map(|_| (&[][..], &[][..])).map_err(Error::clone))?;
    made
}

fn finish<T: Element>(group: &ProcessGroup, own: Own<T>, others: Vec<Other>) -> Result<Symmetric<T>> {
    let of = |part: usize| others.iter().map(move |other| other.addresses[part]);
    let addresses: Vec<u64> = of(0).chain(of(1)).collect();
    let table = group.device().upload(&addresses)?;
    group.device().synchronize()?;
    let devices = Devices::of(vec![group.device().clone()])?;
    let gone = Mutex::new(others.into_iter().map(|other| other.kept).collect());
    let shared = Shared { devices, group: Some(group.clone()), ranks: group.ranks(), addresses, gone };
    let part = Part { data: own.data, signals: own.signals, table };
    Ok(Symmetric { part: ManuallyDrop::new(part), rank: group.rank(), shared: Arc::new(shared) })
}

/// The rank's own memory, whose bytes are zero.
fn allocate<T: Element>(device: &Device, len: usize, signals: usize) -> Result<Own<T>> {
    let (data, pads) = (bytes_of::<T>(len)?, bytes_of::<u32>(signals)?);
    match &device.0 {
        Inner::Cuda(cuda) => allocate_on_gpu(cuda, (data, len), (pads, signals)),
        #[cfg(feature = "cpu")]
        Inner::Cpu(cpu) => {
            let file = crate::process_group::shared::allocate([data, pads])?;
            let [one, other] = crate::process_group::shared::map(&file, [data, pads])?;
            let (data_memory, pad_memory) = (cpu.map(Box::new(one), data), cpu.map(Box::new(other), pads));
            let (data, signals) = (Buffer::of_cpu(data_memory, len), Buffer::of_cpu(pad_memory, signals));
            Ok(Own { data, signals, file, bytes: 0 })
        }
        #[cfg(not(feature = "cpu"))]
        Inner::Cpu(cpu) => cpu.never(),
    }
}

fn allocate_on_gpu<T: Element>(
    device: &CudaDevice,
    (data, len): (usize, usize),
    (pads, signals): (usize, usize),
) -> Result<Own<T>> {
    let behind = signals_behind(data);
    let (mapping, file) = Mapping::allocate(device, behind + pads)?;
    let (bytes, mapping) = (mapping.bytes(), Arc::new(mapping));
    let mut data = Buffer::of_mapping(device, mapping.clone(), 0, len);
    let mut signals = Buffer::of_mapping(device, mapping, behind, signals);
    data.clear()?;
    signals.clear()?;
    device.synchronize()?;
    Ok(Own { data, signals, file, bytes })
}

/// Maps the memory of another rank.
fn map(device: &Device, file: &OwnedFd, [data, pads]: [usize; 2], bytes: usize) -> Result<Other> {
    match &device.0 {
        Inner::Cuda(cuda) => {
            let behind = signals_behind(data);
            if bytes < behind + pads {
                return Err(Error::new(ErrorKind::Fault, "another rank has less memory than was agreed"));
            }
            let mapping = Mapping::import(cuda, file, bytes)?;
            let addresses = [mapping.address(), mapping.address() + behind as u64];
            Ok(Other { addresses, kept: Gone(Box::new(mapping)) })
        }
        #[cfg(feature = "cpu")]
        Inner::Cpu(cpu) => {
            let [one, other] = crate::process_group::shared::map(file, [data, pads])?;
            let kept = (cpu.map(Box::new(one), data), cpu.map(Box::new(other), pads));
            Ok(Other { addresses: [kept.0.used_address(), kept.1.used_address()], kept: Gone(Box::new(kept)) })
        }
        #[cfg(not(feature = "cpu"))]
        Inner::Cpu(cpu) => cpu.never(),
    }
}

fn bytes_of<T>(len: usize) -> Result<usize> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes < isize::MAX as usize / 4);
    bytes.ok_or_else(|| {
        let asked = format!("symmetric memory of {len} elements of {} bytes is asked for", size_of::<T>());
        Error::new(ErrorKind::OutOfMemory, asked)
    })
}

#[cold]
fn no_file(rank: usize) -> Error {
    Error::new(ErrorKind::Fault, format!("rank {rank} sent no memory"))
}
