//! Tensors in the memory of the host, which the CPU device cannot see: they are copied to its own memory before a call, and what the
//! call has changed is copied back.
#![allow(unsafe_code, reason = "memory of other languages")]

use crate::function::Function;
use crate::value::{Tensor, Value};
use ptx_launch::{Buffer, Error, ErrorKind, Result, Stream};

/// Host memory begins at a multiple of this on the device if it does on the host, so that alignment is the same.
const ALIGN: u64 = 256;

/// The copies of a call.
pub(crate) struct Copies(Vec<Copied>);

struct Copied {
    device: Buffer<u8>,
    /// The bytes before the call, with padding in front; only of tensors that are written.
    before: Vec<u8>,
    padding: usize,
    host: u64,
}

impl Copies {
    /// Copies the tensors among `values`, and moves them to the copies.
    pub(crate) fn take(stream: &Stream, function: &Function, values: &mut [Value<'_>]) -> Result<Copies> {
        let mut copies = Vec::new();
        for (param, value) in function.params.iter().zip(values) {
            let (Some(kind), Value::Tensor(tensor)) = (param.tensor(), value) else { continue };
            let copied = Copied::take(stream, tensor, param.name, kind.written)?;
            tensor.address = copied.device.address() + copied.padding as u64;
            copies.push(copied);
        }
        Ok(Copies(copies))
    }

    /// Copies the bytes that the call has changed.
    pub(crate) fn give_back(&mut self) -> Result<()> {
        self.0.iter().filter(|copied| !copied.before.is_empty()).try_for_each(Copied::give_back)
    }
}

impl Copied {
    fn take(stream: &Stream, tensor: &Tensor, name: &str, written: bool) -> Result<Copied> {
        let (host, range) = (tensor.address, tensor.range());
        let padding = (host % ALIGN) as usize;
        let len = range.end.saturating_sub(range.start) as usize;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(padding.saturating_add(len)).map_err(|_| no_memory(name, len))?;
        bytes.resize(padding, 0);
        if len > 0 {
            // SAFETY: the caller of the exported function passes memory that holds all elements of the tensor.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(host as *const u8, len) });
        }
        let device = stream.device().upload(&bytes).map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => no_memory(name, len),
            _ => error,
        })?;
        Ok(Copied { device, before: if written { bytes } else { Vec::new() }, padding, host })
    }

    /// Bytes between the elements belong to others: only those that changed are written.
    fn give_back(&self) -> Result<()> {
        let after = self.device.download()?;
        let changed =
            self.before.iter().zip(&after).enumerate().skip(self.padding).filter(|(_, (old, new))| old != new);
        for (at, (_, new)) in changed {
            let to = (self.host + (at - self.padding) as u64) as *mut u8;
            // SAFETY: a byte of the tensor's memory, which the caller lets the function write; on the CPU device only elements of
            // the tensor can have changed, or bytes between them that the function was not given to write.
            unsafe { to.write(*new) };
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
