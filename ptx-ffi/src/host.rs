//! Tensors in memory that the CPU device cannot see, of the host or of a GPU: they are copied to its own memory before a call, and what the
//! call has changed is copied back.
#![allow(unsafe_code, reason = "memory of other languages")]

use crate::function::Function;
use crate::value::{Tensor, Value};
use ptx_launch::{Buffer, Error, ErrorKind, Result, Stream, View, ViewMut};

/// The memory of the caller's tensors.
#[derive(Clone, Copy)]
pub(crate) enum Outside<'a> {
    /// That of the host.
    Host,
    /// That of a GPU, in the order of this stream.
    Cuda(&'a Stream),
}

impl Outside<'_> {
    /// Appends `len` bytes from an address on.
    fn read(self, address: u64, len: usize, to: &mut Vec<u8>) -> Result<()> {
        match self {
            // SAFETY: the caller of the exported function passes memory that holds all elements of the tensor.
            Outside::Host => to.extend_from_slice(unsafe { std::slice::from_raw_parts(address as *const u8, len) }),
            // SAFETY: the same; the copy has ended when it returns.
            Outside::Cuda(stream) => to.extend(unsafe { View::<u8>::from_raw(stream, address, len) }.download()?),
        }
        Ok(())
    }

    /// Writes bytes to an address.
    fn write(self, address: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Outside::Host => {
                // SAFETY: bytes of the tensor's memory, which the caller lets the function write; on the CPU device only elements of
                // the tensor can have changed, or bytes between them that the function was not given to write.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
                Ok(())
            }
            // SAFETY: as above.
            Outside::Cuda(stream) => unsafe { ViewMut::<u8>::from_raw(stream, address, bytes.len()) }.write(bytes),
        }
    }
}

/// Memory begins at a multiple of this on the device if it does outside, so that alignment is the same.
const ALIGN: u64 = 256;

/// The copies of a call.
pub(crate) struct Copies<'a>(Vec<Copied>, Outside<'a>);

struct Copied {
    device: Buffer<u8>,
    /// The bytes before the call, with padding in front; only of tensors that are written.
    before: Vec<u8>,
    padding: usize,
    outside: u64,
}

impl<'o> Copies<'o> {
    /// Copies the tensors among `values`, and moves them to the copies.
    pub(crate) fn take(
        stream: &Stream,
        outside: Outside<'o>,
        function: &Function,
        values: &mut [Value<'_>],
    ) -> Result<Copies<'o>> {
        let mut copies = Vec::new();
        for (param, value) in function.params.iter().zip(values) {
            let (Some(kind), Value::Tensor(tensor)) = (param.tensor(), value) else { continue };
            let copied = Copied::take((stream, outside), tensor, param.name, kind.written)?;
            tensor.address = copied.device.address() + copied.padding as u64;
            copies.push(copied);
        }
        Ok(Copies(copies, outside))
    }

    /// Copies the bytes that the call has changed.
    pub(crate) fn give_back(&mut self) -> Result<()> {
        let written = self.0.iter().filter(|copied| !copied.before.is_empty());
        written.into_iter().try_for_each(|copied| copied.give_back(self.1))
    }
}

impl Copied {
    fn take((stream, from): (&Stream, Outside<'_>), tensor: &Tensor, name: &str, written: bool) -> Result<Copied> {
        let (outside, range) = (tensor.address, tensor.range());
        let padding = (outside % ALIGN) as usize;
        let len = range.end.saturating_sub(range.start) as usize;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(padding.saturating_add(len)).map_err(|_| no_memory(name, len))?;
        bytes.resize(padding, 0);
        if len > 0 {
            from.read(outside, len, &mut bytes)?;
        }
        let device = stream.device().upload(&bytes).map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => no_memory(name, len),
            _ => error,
        })?;
        Ok(Copied { device, before: if written { bytes } else { Vec::new() }, padding, outside })
    }

    /// Bytes between the elements belong to others: only those that changed are written.
    fn give_back(&self, to: Outside<'_>) -> Result<()> {
        let after = self.device.download()?;
        let has_changed = |at: usize| self.before.get(at) != after.get(at);
        let mut at = self.padding;
        while at < after.len() {
            let changed = (at..after.len()).take_while(|at| has_changed(*at)).count();
            if changed > 0 {
                to.write(self.outside + (at - self.padding) as u64, &after[at..at + changed])?;
            }
            at += changed + (at + changed..after.len()).take_while(|at| !has_changed(*at)).count();
        }
        Ok(())
    }
}

#[cold]
fn no_memory(name: &str, bytes: usize) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!("{name}: a copy of its {bytes} bytes does not fit the memory of the host"),
    )
    .help("the CPU device copies everything between the first and the last element: pass a contiguous array")
}
