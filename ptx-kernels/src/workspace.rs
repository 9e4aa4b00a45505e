//! Scratch memory of operations: a pool with one [`Workspace`] per stream, or one of the caller's.
//!
//! An operation that needs scratch memory takes it from the pool of its stream, unless its builder has a workspace. Operations on one
//! stream run one after the other, so one allocation serves all of them; streams never share one. The pool grows when an
//! operation needs more than all before it on that stream, and allocates nothing otherwise. It keeps the memory of the
//! [`STREAMS`] streams that were used last.
//!
//! While another library (PyTorch, JAX) captures the stream, memory that stays to the end of the process takes the pool's place, one allocation
//! per stream: such a graph holds addresses, and there is no notice when it is gone. Graphs that were captured on one stream must not run at the
//! same time on several.
//!
//! Threads that submit to one stream take turns: the workspace is locked while an operation submits its kernels. A captured graph
//! holds the memory that it was recorded with, also after the pool has replaced it. A capture cannot grow the pool, so run the work
//! once before it is captured, as for the loading of kernels, or pass a workspace.
#![allow(dead_code, reason = "not every operation needs scratch memory")]

use ptx_launch::{Buffer, Device, Error, ErrorKind, Result, StreamId, StreamRef};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of streams whose memory the pool keeps; that of the stream that was not used for the longest time is freed first.
pub const STREAMS: usize = 16;

/// Number of flags in a workspace.
pub const FLAGS: usize = 1 << 14;

/// The most bytes that an operation plans to take from the pool.
pub(crate) const POOL_LIMIT: usize = 1 << 30;

/// The pool grows in steps of this many bytes.
const STEP: usize = 1 << 20;

/// Scratch memory for operations on one device, for builders with a method `workspace`.
///
/// Matrix products take only algorithms for which it is large enough. For others a workspace that is too small is an
/// [`ErrorKind::Condition`], whose message has the bytes that are needed.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::workspace::Workspace;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let mut workspace = Workspace::new(&device, 1 << 20)?;
/// assert_eq!(workspace.bytes(), 1 << 20);
/// # #[cfg(feature = "gemm")]
/// # {
/// use ptx_kernels::gemm::Gemm;
/// let (a, mut c) = (device.upload(&[1.0f32; 16])?, device.zeros::<f32>(16)?);
/// let (a, c_tile) = (a.tile([4, 4])?, c.tile_mut([4, 4])?);
/// Gemm::new().workspace(&mut workspace).run(&device, a, a, c_tile)?;
/// assert_eq!(c.download()?, [4.0; 16]);
/// # }
/// # Ok(())
/// # }
/// ```
pub struct Workspace {
    /// Contents that no operation relies on.
    scratch: Buffer<u8>,
    /// Zeros between operations: a kernel that sets one clears it again.
    flags: Buffer<u32>,
    /// Memory that operations made for themselves, one of each type.
    kept: Vec<Box<dyn Any + Send>>,
}

impl Workspace {
    /// A workspace of `bytes` bytes, and [`FLAGS`] flags of 32 bits.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], or an error of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Workspace> {
        Ok(Workspace { scratch: device.zeros(bytes)?, flags: device.zeros(FLAGS)?, kept: Vec::new() })
    }

    /// Bytes of scratch memory.
    pub fn bytes(&self) -> usize {
        self.scratch.len()
    }

    /// The scratch memory, without defined contents. Its address is a multiple of 256.
    pub(crate) fn scratch(&mut self) -> &mut Buffer<u8> {
        &mut self.scratch
    }

    /// The scratch memory, and the flags, which are zeros and which the operation leaves as zeros.
    pub(crate) fn parts(&mut self) -> (&mut Buffer<u8>, &mut Buffer<u32>) {
        (&mut self.scratch, &mut self.flags)
    }

    /// Memory that an operation keeps here for itself; `make` makes it once, outside of captures.
    pub(crate) fn keep<S: Any + Send>(&mut self, make: impl FnOnce() -> Result<S>) -> Result<&mut S> {
        let at = match self.kept.iter().position(|kept| kept.is::<S>()) {
            Some(at) => at,
            None => {
                self.kept.push(Box::new(make()?));
                self.kept.len() - 1
            }
        };
        self.kept.get_mut(at).and_then(|kept| kept.downcast_mut()).ok_or_else(|| Error::other("kept memory is gone"))
    }

    /// True if [`keep`](Workspace::keep) would make nothing.
    pub(crate) fn has<S: Any + Send>(&self) -> bool {
        self.kept.iter().any(|kept| kept.is::<S>())
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} bytes)", self.bytes())
    }
}

/// The workspace of a stream.
struct Slot {
    id: StreamId,
    workspace: Arc<Mutex<Option<Workspace>>>,
}

/// Slots, the one that was used last at the end.
static POOL: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

/// Frees the pool's memory. Work that uses it runs to its end, and graphs keep theirs.
///
/// ```
/// ptx_kernels::workspace::clear_pool();
/// ```
pub fn clear_pool() {
    drop(std::mem::take(&mut *lock(&POOL)));
}

/// The bytes that an operation may plan with: those of the caller's workspace, or the limit of the pool.
pub(crate) fn available(given: Option<&Workspace>) -> usize {
    given.map_or(POOL_LIMIT, Workspace::bytes)
}

/// True if the workspace that [`with`] takes, the one that is given or the stream's, keeps memory of this type.
pub(crate) fn has<S: Any + Send>(stream: StreamRef<'_>, given: Option<&Workspace>) -> bool {
    if let Some(workspace) = given {
        return workspace.has::<S>();
    }
    let slot = lock(&POOL).iter().find(|slot| slot.id == stream.id()).map(|slot| slot.workspace.clone());
    slot.is_some_and(|workspace| lock(&workspace).as_ref().is_some_and(Workspace::has::<S>))
}

/// Calls `work` with a workspace of at least `bytes` bytes: the one that is given, or the stream's. It belongs to this thread until
/// `work` returns. `work` submits kernels to `stream` only, and must not take the stream's workspace a second time.
///
/// # Errors
/// [`ErrorKind::Condition`] if the given workspace is smaller, [`ErrorKind::Unsupported`] if the pool would grow in a
/// capture, those of `work`, or an error of the driver.
pub(crate) fn with<R>(
    stream: StreamRef<'_>,
    given: Option<&mut Workspace>,
    bytes: usize,
    work: impl FnOnce(&mut Workspace) -> Result<R>,
) -> Result<R> {
    if let Some(workspace) = given {
        return if workspace.bytes() >= bytes { work(workspace) } else { Err(too_small(workspace.bytes(), bytes)) };
    }
    if stream.is_captured_elsewhere() {
        return with_kept(stream, bytes, work);
    }
    let slot = slot(stream.id());
    let mut slot = lock(&slot);
    match &mut *slot {
        Some(workspace) if workspace.bytes() >= bytes => work(workspace),
        slot => work(grow(slot, stream, bytes)?),
    }
}

/// Workspaces of graphs of other libraries, by the streams that were captured; the last one of a stream is the largest.
static KEPT: Mutex<Vec<(StreamId, Vec<Workspace>)>> = Mutex::new(Vec::new());

/// The same for a stream that another library captures.
#[cold]
fn with_kept<R>(stream: StreamRef<'_>, bytes: usize, work: impl FnOnce(&mut Workspace) -> Result<R>) -> Result<R> {
    let (id, mut kept) = (stream.id(), lock(&KEPT));
    let at = kept.iter().position(|slot| slot.0 == id).unwrap_or_else(|| {
        kept.push((id, Vec::new()));
        kept.len() - 1
    });
    let largest = kept[at].1.last().map_or(0, Workspace::bytes);
    if largest < bytes || kept[at].1.is_empty() {
        let device = stream.device()?;
        let scratch = device.zeros_beside_captures(bytes.max(2 * largest).next_multiple_of(STEP))?;
        let flags = device.zeros_beside_captures(FLAGS)?;
        kept[at].1.push(Workspace { scratch, flags, kept: Vec::new() });
    }
    match kept[at].1.last_mut() {
        Some(workspace) => work(workspace),
        None => Err(captured(bytes)),
    }
}

/// The slot of a stream, which is now the one that was used last.
fn slot(id: StreamId) -> Arc<Mutex<Option<Workspace>>> {
    let mut pool = lock(&POOL);
    let found = match pool.iter().position(|slot| slot.id == id) {
        Some(at) => pool.remove(at),
        None => Slot { id, workspace: Arc::default() },
    };
    let workspace = found.workspace.clone();
    let oldest = (pool.len() >= STREAMS).then(|| pool.remove(0));
    pool.push(found);
    drop(pool);
    drop(oldest);
    workspace
}

#[cold]
fn grow<'w>(slot: &'w mut Option<Workspace>, stream: StreamRef<'_>, bytes: usize) -> Result<&'w mut Workspace> {
    if stream.is_captured() {
        return Err(captured(bytes));
    }
    // The old memory is freed before the new one is allocated, unless its flags stay.
    let (flags, kept) = slot.take().map_or((None, Vec::new()), |old| (Some(old.flags), old.kept));
    let device = stream.device()?;
    let scratch = device.zeros(bytes.next_multiple_of(STEP))?;
    let flags = flags.map_or_else(|| device.zeros(FLAGS), Ok)?;
    Ok(slot.insert(Workspace { scratch, flags, kept }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn too_small(len: usize, bytes: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("a workspace of {len} bytes is passed, and {bytes} are needed"))
        .possible(format!("`Workspace::new(&device, {bytes})`, or the pool, which grows"))
}

#[cold]
fn captured(bytes: usize) -> Error {
    // Flags are a part of it, also where no bytes are needed.
    let what = if bytes == 0 { "a workspace".to_owned() } else { format!("{bytes} bytes of workspace") };
    Error::new(
        ErrorKind::Unsupported,
        format!("an operation in a capture needs {what}, which its stream does not have yet"),
    )
    .possible("operations for which the stream's workspace is large enough")
    .help("run the work once before it is captured, or pass a workspace to the operation")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ptx_launch::AsStream;
    use std::collections::HashSet;

    fn address(device: &Device, bytes: usize) -> u64 {
        let device = &device;
        with(device.as_stream(), None, bytes, |workspace| Ok(workspace.scratch().address())).unwrap()
    }

    #[test]
    fn a_stream_keeps_its_memory_until_it_grows_or_the_pool_is_full() {
        let (one, other) = (Device::cpu(), Device::cpu());
        let first = address(&one, 100);
        address(&other, 100);
        assert_eq!(address(&one, STEP), first);
        let grown = with((&one).as_stream(), None, STEP + 1, |workspace| Ok(workspace.bytes())).unwrap();
        assert_eq!(grown, 2 * STEP);

        // In the same test, for it takes the memory of all others.
        let devices: Vec<_> = (0..2 * STREAMS).map(|_| Device::cpu()).collect();
        devices.iter().for_each(|device| assert_ne!(address(device, 1), 0));
        assert!(lock(&POOL).len() <= STREAMS);
    }

    #[test]
    fn the_callers_memory_is_taken_as_it_is() {
        let device = Device::cpu();
        let mut own = Workspace::new(&device, 64).unwrap();
        let expected = own.scratch().address();
        let given =
            with((&device).as_stream(), Some(&mut own), 64, |workspace| Ok(workspace.scratch().address())).unwrap();
        assert_eq!(given, expected);
        let error = with((&device).as_stream(), Some(&mut own), 65, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Condition);
    }

    /// A memory has one user at a time. It need not be the stream's only one: a full pool gives the slot of a stream away while a
    /// thread still works with its memory, and the next thread gets another.
    #[test]
    fn threads_take_turns() {
        let device = Device::cpu();
        let busy = Mutex::new(HashSet::new());
        let use_it = || {
            with((&device).as_stream(), None, 10, |workspace| {
                let address = workspace.scratch().address();
                assert!(lock(&busy).insert(address), "two threads use the memory at {address:#x}");
                std::thread::yield_now();
                lock(&busy).remove(&address);
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..100).try_for_each(|_| use_it()))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
    }
}
