//! Collective operations by NCCL, also across machines: communicators, loaded at run time.
//!
//! The library is looked for at the path in `PTX_NCCL`, and then by its usual names. Nothing here links to it, and nothing panics without
//! it.
#![allow(unsafe_code, reason = "calls of NCCL")]

use crate::buffer::{Bound, Buffer, Element};
use crate::context::{bound, within};
use crate::device::{Device, Inner};
use crate::devices::Devices;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Queue, Stream};
use cudarc::driver::CudaContext;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

/// The environment variable with the library's path.
const PATH: &str = "PTX_NCCL";
/// The library's usual names.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// `ncclSuccess`, and `ncclInProgress`.
const FINE: [c_int; 2] = [0, 7];

type Handle = *mut c_void;

/// The name of a communicator that is about to be made: one rank makes it, and sends its bytes to the others.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CommunicatorId([c_char; 128]);

impl CommunicatorId {
    /// A new name.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] without NCCL, or an error of NCCL.
    pub fn new() -> Result<CommunicatorId> {
        let nccl = Nccl::get()?;
        let mut id = CommunicatorId([0; 128]);
        // SAFETY: writes 128 bytes.
        nccl.check(unsafe { (nccl.ncclGetUniqueId)(&raw mut id) }, "a communicator gets its name")?;
        Ok(id)
    }

    /// Its bytes, for other processes.
    pub fn to_bytes(self) -> [u8; 128] {
        self.0.map(c_char::cast_unsigned)
    }

    /// The name with these bytes.
    pub fn from_bytes(bytes: [u8; 128]) -> CommunicatorId {
        CommunicatorId(bytes.map(u8::cast_signed))
    }
}

impl fmt::Debug for CommunicatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommunicatorId")
    }
}

macro_rules! table {
    ($($name:ident($($arg:ty),*);)*) => {
        /// NCCL's functions, by their names in its manual.
        #[allow(non_snake_case, reason = "the names of the manual")]
        struct Nccl {
            $($name: unsafe extern "C" fn($($arg),*) -> c_int,)*
            ncclGetErrorString: unsafe extern "C" fn(c_int) -> *const c_char,
            _library: Library,
        }

        impl Nccl {
            fn resolve(library: Library) -> std::result::Result<Nccl, libloading::Error> {
                // SAFETY: the signatures are those of NCCL's manual.
                unsafe {
                    Ok(Nccl {
                        $($name: *library.get(stringify!($name))?,)*
                        ncclGetErrorString: *library.get("ncclGetErrorString")?,
                        _library: library,
                    })
                }
            }
        }
    };
}

table! {
    ncclGetUniqueId(*mut CommunicatorId);
    ncclCommInitRank(*mut Handle, c_int, CommunicatorId, c_int);
    ncclCommInitAll(*mut Handle, c_int, *const c_int);
    ncclCommDestroy(Handle);
    ncclCommAbort(Handle);
    ncclCommGetAsyncError(Handle, *mut c_int);
    ncclAllReduce(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void);
    ncclBroadcast(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void);
    ncclAllGather(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void);
    ncclReduceScatter(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void);
    ncclSend(*const c_void, usize, c_int, c_int, Handle, *mut c_void);
    ncclRecv(*mut c_void, usize, c_int, c_int, Handle, *mut c_void);
    ncclGroupStart();
    ncclGroupEnd();
}

impl Nccl {
    /// The library of this machine, looked for once in the life of the process.
    fn get() -> Result<&'static Nccl> {
        static NCCL: OnceLock<Result<Nccl>> = OnceLock::new();
        NCCL.get_or_init(Nccl::open).as_ref().map_err(Error::clone)
    }

    fn open() -> Result<Nccl> {
        let given = std::env::var(PATH).ok();
        let names: Vec<&str> = match &given {
            Some(path) => vec![path],
            None => NAMES.to_vec(),
        };
        // SAFETY: loading NCCL runs its initializers, which every program with NCCL runs.
        let library =
            names.iter().find_map(|name| unsafe { Library::new(*name) }.ok()).ok_or_else(|| absent(&names))?;
        Nccl::resolve(library).map_err(|error| too_old(&error))
    }

    fn check(&self, code: c_int, asked: &str) -> Result<()> {
        if FINE.contains(&code) { Ok(()) } else { Err(self.error(code, asked)) }
    }

    #[cold]
    fn error(&self, code: c_int, asked: &str) -> Error {
        // SAFETY: gives a constant string for every number.
        let text = unsafe { (self.ncclGetErrorString)(code) };
        // SAFETY: checked not to be null; the string is constant and ends in a zero.
        let text = if text.is_null() { "unknown".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Error::new(ErrorKind::Driver, format!("{asked}: {text} (NCCL, {code})"))
            .help("NCCL_DEBUG=WARN lets NCCL print the reason")
    }
}

/// An element type of NCCL's.
///
/// # Safety
/// `TYPE` is NCCL's number of this type.
pub unsafe trait NcclElement: Element {
    /// `ncclDataType_t`
    #[doc(hidden)]
    const TYPE: i32;
}

macro_rules! elements {
    ($($ty:ty = $number:literal;)*) => { $(
        // SAFETY: the number is the one of NCCL's manual.
        unsafe impl NcclElement for $ty {
            const TYPE: i32 = $number;
        }
    )* };
}
elements! { i8 = 0; u8 = 1; i32 = 2; u32 = 3; i64 = 4; u64 = 5; f32 = 7; f64 = 8; }
#[cfg(feature = "half")]
elements! { half::f16 = 6; half::bf16 = 9; }

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Reduction {
    /// The sum.
    Sum = 0,
    /// The product.
    Product = 1,
    /// The largest.
    Max = 2,
    /// The smallest.
    Min = 3,
    /// The sum, divided by the number of ranks.
    Average = 4,
}

/// A rank of a group of GPUs, in this process or in several, on one machine or on several.
///
/// Every rank calls the same operations in the same order. One thread that calls them for several ranks does so in a [`Group`]; outside of one,
/// an operation may wait for the other ranks.
pub struct Communicator {
    nccl: &'static Nccl,
    handle: Handle,
    context: Arc<CudaContext>,
    rank: usize,
    ranks: usize,
}

// SAFETY: NCCL takes a communicator from any thread, though from one at a time: it is not `Sync`.
unsafe impl Send for Communicator {}

impl Communicator {
    /// The communicators of GPUs of this process, a rank for each.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] without NCCL or for CPU devices, or an error of NCCL.
    pub fn of_devices(devices: &Devices) -> Result<Vec<Communicator>> {
        let contexts = devices.iter().map(context).collect::<Result<Vec<_>>>()?;
        let nccl = Nccl::get()?;
        let ordinals: Vec<c_int> = contexts.iter().map(|context| context.ordinal() as c_int).collect();
        let mut handles = vec![null_mut(); contexts.len()];
        contexts.iter().try_for_each(|context| bound(context))?;
        let count = contexts.len() as c_int;
        // SAFETY: both arrays have `count` entries.
        let code = unsafe { (nccl.ncclCommInitAll)(handles.as_mut_ptr(), count, ordinals.as_ptr()) };
        nccl.check(code, "communicators of this process are made")?;
        let ranks = contexts.len();
        let all = contexts.into_iter().zip(handles).enumerate();
        Ok(all.map(|(rank, (context, handle))| Communicator { nccl, handle, context, rank, ranks }).collect())
    }

    /// Joins the communicator of this name as one of `ranks` ranks; returns when all have.
    ///
    /// # Errors
    /// As [`of_devices`](Communicator::of_devices); [`ErrorKind::Condition`] if there is no such rank.
    pub fn join(device: &Device, id: CommunicatorId, rank: usize, ranks: usize) -> Result<Communicator> {
        let (context, nccl) = (context(device)?, Nccl::get()?);
        if rank >= ranks {
            return Err(Error::new(ErrorKind::Condition, format!("rank {rank} of {ranks} joins a communicator"))
                .possible("ranks from 0 on, below their number"));
        }
        bound(&context)?;
        let mut handle = null_mut();
        // SAFETY: writes the handle; the context is current.
        let code = unsafe { (nccl.ncclCommInitRank)(&raw mut handle, ranks as c_int, id, rank as c_int) };
        nccl.check(code, "a communicator is joined")?;
        Ok(Communicator { nccl, handle, context, rank, ranks })
    }

    /// The same, and ends with an error if not all ranks have joined within `patience`. NCCL does not say which ones are missing.
    ///
    /// # Errors
    /// As [`join`](Communicator::join); [`ErrorKind::Fault`] after the patience.
    pub fn join_within(
        device: &Device,
        id: CommunicatorId,
        rank: usize,
        ranks: usize,
        patience: Duration,
    ) -> Result<Communicator> {
        let device = device.clone();
        let joined = run_within(patience, move || Communicator::join(&device, id, rank, ranks));
        joined.unwrap_or_else(|| Err(alone(rank, ranks, patience)))
    }

    /// Its rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// An error if an operation of it has failed since, such as that of a rank that is gone.
    ///
    /// # Errors
    /// The error of the operation.
    pub fn check(&self) -> Result<()> {
        let mut code = 0;
        // SAFETY: writes one integer.
        let asked = unsafe { (self.nccl.ncclCommGetAsyncError)(self.handle, &raw mut code) };
        self.nccl.check(asked, "a communicator tells its state")?;
        self.nccl.check(code, "an operation of a communicator failed")
    }

    /// Ends the operations that are under way, also those that wait for ranks that are gone.
    ///
    /// # Errors
    /// An error of NCCL.
    pub fn abort(mut self) -> Result<()> {
        let handle = std::mem::replace(&mut self.handle, null_mut());
        bound(&self.context)?;
        // SAFETY: the handle is ours, and used no more.
        self.nccl.check(unsafe { (self.nccl.ncclCommAbort)(handle) }, "a communicator is aborted")
    }

    /// `x` = the reduction of `x` over all ranks.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] if the memory or the stream is of another device, or an error of NCCL.
    pub fn all_reduce<T: NcclElement>(&self, stream: &Stream, x: &mut Buffer<T>, by: Reduction) -> Result<()> {
        Group::run(|group| group.all_reduce(self, stream, x, by))
    }

    /// `x` on every rank = `x` of rank `root`.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn broadcast<T: NcclElement>(&self, stream: &Stream, x: &mut Buffer<T>, root: usize) -> Result<()> {
        Group::run(|group| group.broadcast(self, stream, x, root))
    }

    /// Part r of `to` = `from` of rank r.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce); [`ErrorKind::Condition`] if `to` has not as many parts as there are ranks.
    pub fn all_gather<T: NcclElement>(&self, stream: &Stream, from: &Buffer<T>, to: &mut Buffer<T>) -> Result<()> {
        Group::run(|group| group.all_gather(self, stream, from, to))
    }

    /// `to` = part r, on rank r, of the reduction of `from` over all ranks.
    ///
    /// # Errors
    /// As [`all_gather`](Communicator::all_gather).
    pub fn reduce_scatter<T: NcclElement>(
        &self,
        stream: &Stream,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
        by: Reduction,
    ) -> Result<()> {
        Group::run(|group| group.reduce_scatter(self, stream, (from, to), by))
    }

    /// Sends to a rank, which receives as many elements of the same type.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn send<T: NcclElement>(&self, stream: &Stream, from: &Buffer<T>, peer: usize) -> Result<()> {
        Group::run(|group| group.send(self, stream, from, peer))
    }

    /// Receives from a rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn receive<T: NcclElement>(&self, stream: &Stream, to: &mut Buffer<T>, peer: usize) -> Result<()> {
        Group::run(|group| group.receive(self, stream, to, peer))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is ours, and used no more.
            let _ = within(&self.context, || Ok(unsafe { (self.nccl.ncclCommDestroy)(self.handle) }));
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank, self.ranks)
    }
}

/// Operations that NCCL submits together: those of several ranks of one thread, or sends and receives that wait for each other.
pub struct Group<'a> {
    /// The uses of memory, which are recorded when all operations are submitted.
    uses: Vec<Bound<'a>>,
}

/// The memory, the handle of a communicator, and the stream of an operation.
type Place = (u64, Handle, *mut c_void);

impl<'a> Group<'a> {
    /// Calls `work`, and submits its operations.
    ///
    /// # Errors
    /// Those of `work` and of NCCL, [`ErrorKind::Unsupported`] without NCCL.
    pub fn run<R>(work: impl FnOnce(&mut Group<'a>) -> Result<R>) -> Result<R> {
        let nccl = Nccl::get()?;
        let mut group = Group { uses: Vec::new() };
        // SAFETY: takes no arguments.
        nccl.check(unsafe { (nccl.ncclGroupStart)() }, "a group of operations begins")?;
        let result = work(&mut group);
        // SAFETY: takes no arguments; a group has begun on this thread.
        let ended = nccl.check(unsafe { (nccl.ncclGroupEnd)() }, "a group of operations is submitted");
        drop(group);
        let result = result?;
        ended.map(|()| result)
    }

    fn place(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        bind: impl FnOnce() -> Result<Bound<'a>>,
    ) -> Result<Place> {
        let Queue::Cuda(_, on) = &stream.0 else { return Err(no_cpu()) };
        if on.context().cu_ctx() != by.context.cu_ctx() {
            return Err(other_device(by, stream));
        }
        let uses = bind()?;
        bound(&by.context)?;
        let address = uses.address();
        self.uses.push(uses);
        Ok((address, by.handle, on.cu_stream().cast()))
    }

    fn read<T>(&mut self, by: &Communicator, stream: &'a Stream, from: &'a Buffer<T>) -> Result<Place> {
        self.place(by, stream, || from.bind_read(stream.as_stream_ref()))
    }

    fn written<T>(&mut self, by: &Communicator, stream: &'a Stream, to: &'a mut Buffer<T>) -> Result<Place> {
        self.place(by, stream, || to.bind_write(stream.as_stream_ref()))
    }

    /// [`Communicator::all_reduce`]
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`].
    pub fn all_reduce<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        x: &'a mut Buffer<T>,
        reduction: Reduction,
    ) -> Result<()> {
        let len = x.len();
        let (at, handle, on) = self.written(by, stream, x)?;
        let at = at as *mut c_void;
        // SAFETY: the memory has so many elements, is bound to the stream, and the communicator is alive.
        let code = unsafe { (by.nccl.ncclAllReduce)(at, at, len, T::TYPE, reduction as c_int, handle, on) };
        by.nccl.check(code, "an all-reduce is submitted")
    }

    /// [`Communicator::broadcast`]
    ///
    /// # Errors
    /// Those of [`Communicator::broadcast`].
    pub fn broadcast<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        x: &'a mut Buffer<T>,
        root: usize,
    ) -> Result<()> {
        let len = x.len();
        let root = rank_of(by, root)?;
        let (at, handle, on) = self.written(by, stream, x)?;
        let at = at as *mut c_void;
        // SAFETY: as above.
        let code = unsafe { (by.nccl.ncclBroadcast)(at, at, len, T::TYPE, root, handle, on) };
        by.nccl.check(code, "a broadcast is submitted")
    }

    /// [`Communicator::all_gather`]
    ///
    /// # Errors
    /// Those of [`Communicator::all_gather`].
    pub fn all_gather<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        from: &'a Buffer<T>,
        to: &'a mut Buffer<T>,
    ) -> Result<()> {
        let len = part(by, from.len(), to.len())?;
        let (source, ..) = self.read(by, stream, from)?;
        let (target, handle, on) = self.written(by, stream, to)?;
        // SAFETY: as above; the lengths fit.
        let code = unsafe {
            (by.nccl.ncclAllGather)(source as *const c_void, target as *mut c_void, len, T::TYPE, handle, on)
        };
        by.nccl.check(code, "an all-gather is submitted")
    }

    /// [`Communicator::reduce_scatter`]
    ///
    /// # Errors
    /// Those of [`Communicator::reduce_scatter`].
    pub fn reduce_scatter<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        (from, to): (&'a Buffer<T>, &'a mut Buffer<T>),
        reduction: Reduction,
    ) -> Result<()> {
        let len = part(by, to.len(), from.len())?;
        let (source, ..) = self.read(by, stream, from)?;
        let (target, handle, on) = self.written(by, stream, to)?;
        let (source, target) = (source as *const c_void, target as *mut c_void);
        // SAFETY: as above; the lengths fit.
        let code = unsafe { (by.nccl.ncclReduceScatter)(source, target, len, T::TYPE, reduction as c_int, handle, on) };
        by.nccl.check(code, "a reduce-scatter is submitted")
    }

    /// [`Communicator::send`]
    ///
    /// # Errors
    /// Those of [`Communicator::send`].
    pub fn send<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        from: &'a Buffer<T>,
        peer: usize,
    ) -> Result<()> {
        let (len, peer) = (from.len(), rank_of(by, peer)?);
        let (at, handle, on) = self.read(by, stream, from)?;
        // SAFETY: as above.
        let code = unsafe { (by.nccl.ncclSend)(at as *const c_void, len, T::TYPE, peer, handle, on) };
        by.nccl.check(code, "a send is submitted")
    }

    /// [`Communicator::receive`]
    ///
    /// # Errors
    /// Those of [`Communicator::receive`].
    pub fn receive<T: NcclElement>(
        &mut self,
        by: &Communicator,
        stream: &'a Stream,
        to: &'a mut Buffer<T>,
        peer: usize,
    ) -> Result<()> {
        let (len, peer) = (to.len(), rank_of(by, peer)?);
        let (at, handle, on) = self.written(by, stream, to)?;
        // SAFETY: as above.
        let code = unsafe { (by.nccl.ncclRecv)(at as *mut c_void, len, T::TYPE, peer, handle, on) };
        by.nccl.check(code, "a receive is submitted")
    }
}

/// The result of `work`, which goes on in a thread of its own if it takes longer than `patience`, or cannot be started.
fn run_within<R: Send + 'static>(patience: Duration, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (sender, receiver) = mpsc::channel();
    // Nobody may be left to receive it.
    let run = move || drop(sender.send(work()));
    std::thread::Builder::new().name("ptx-nccl".to_owned()).spawn(run).ok()?;
    receiver.recv_timeout(patience).ok()
}

#[cold]
fn alone(rank: usize, ranks: usize, patience: Duration) -> Error {
    let asked = format!("rank {rank} of {ranks} joins a communicator, and has waited for the others for {patience:?}");
    Error::new(ErrorKind::Fault, asked)
        .possible("all ranks, each by the same name of the communicator")
        .help("look for the error of a rank that ended; NCCL_DEBUG=INFO lets NCCL print who has joined")
}

fn context(device: &Device) -> Result<Arc<CudaContext>> {
    match &device.0 {
        Inner::Cuda(device) => Ok(device.context().clone()),
        Inner::Cpu(_) => Err(no_cpu()),
    }
}

/// A rank as NCCL takes it.
fn rank_of(by: &Communicator, rank: usize) -> Result<c_int> {
    if rank < by.ranks {
        return Ok(rank as c_int);
    }
    Err(Error::new(ErrorKind::Condition, format!("rank {rank} is named")).possible(format!("0 to {}", by.ranks - 1)))
}

/// The length of a part, if the whole has one for each rank.
fn part(by: &Communicator, part: usize, whole: usize) -> Result<usize> {
    if part.checked_mul(by.ranks) == Some(whole) {
        return Ok(part);
    }
    Err(Error::new(ErrorKind::Condition, format!("a part of {part} elements, and a buffer of {whole}"))
        .possible(format!("{} parts, one for each rank", by.ranks)))
}

#[cold]
fn absent(names: &[&str]) -> Error {
    Error::new(ErrorKind::Unsupported, format!("NCCL is not on this machine ({} was not found)", names.join(" and ")))
        .possible("`ptx_kernels::comm`, for the GPUs of one machine")
        .help(format!("install NCCL 2.18 or newer, or set {PATH} to the path of libnccl.so.2"))
}

#[cold]
fn too_old(error: &libloading::Error) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this NCCL is too old: {error}")).possible("NCCL 2.18 or newer")
}

#[cold]
fn no_cpu() -> Error {
    Error::new(ErrorKind::Unsupported, "a CPU device is used with NCCL")
        .possible("GPUs")
        .help("`ptx_kernels::comm` has collective operations for CPU devices, too")
}

#[cold]
fn other_device(by: &Communicator, stream: &Stream) -> Error {
    let asked =
        format!("rank {} of a communicator, on CUDA device {}, is used on {stream:?}", by.rank, by.context.ordinal());
    Error::new(ErrorKind::WrongDevice, asked).possible("streams of the communicator's device")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn without_nccl_there_is_an_error() {
        if let Err(error) = CommunicatorId::new() {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("NCCL is not on this machine"), "{error}");
        }
        let bytes = [7; 128];
        assert_eq!(CommunicatorId::from_bytes(bytes).to_bytes(), bytes);
    }

    #[test]
    fn a_wait_for_ranks_ends() {
        assert_eq!(run_within(Duration::from_secs(60), || 7), Some(7));
        let never = || std::thread::sleep(Duration::from_secs(5));
        assert_eq!(run_within(Duration::from_millis(5), never), None);
        assert!(
            alone(1, 4, Duration::from_secs(3))
                .to_string()
                .contains("rank 1 of 4 joins a communicator, and has waited")
        );
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn cpu_devices_are_refused() {
        let devices = Devices::cpu(2);
        let id = CommunicatorId::from_bytes([0; 128]);
        let joined = Communicator::join_within(&devices[0], id, 0, 2, Duration::from_secs(60)).unwrap_err();
        for error in [Communicator::of_devices(&devices).unwrap_err(), joined] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
