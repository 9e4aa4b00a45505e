//! The variables of a kernel module, as the host has them.

use crate::buffer::Bound;
use crate::buffer::{Access, CudaMemory};
use crate::cache::Cache;
use crate::context::bound;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Module;
#[cfg(feature = "cpu")]
use crate::launch::CpuProgram;
use crate::load::Home;
use crate::param::{KernelParam, bytes, bytes_mut, zero};
use crate::stream::{AsStream, StreamKind, StreamRef};
use cudarc::driver::{CudaContext, CudaStream};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A `pub static` of a `#[ptx_module]`: one variable on each device.
///
/// A `static` lies in constant memory: kernels read it, and the host writes it between launches. A `static mut` lies in global memory, and
/// kernels write it, too. Each device has the value of the source until something writes another.
///
/// Reads, writes and launches run in the order in which they are submitted, whichever streams and threads submit them, as
/// uses of a [`Buffer`](crate::Buffer) do: a launch counts as a read of the `static`s that its kernel names, and as a write of the
/// `static mut`s. A variable keeps the streams alive that used it last.
///
/// ```
/// use ptx_launch::prelude::*;
///
/// #[ptx_module(arch = "sm_80")]
/// pub mod kernels {
///     /// Factors, which the host chooses.
///     pub static WEIGHTS: [f32; 2] = [1.0, 2.0];
///     /// Blocks so far.
///     pub static mut BLOCKS: u32 = 0;
///
///     #[ptx_kernel(block = 1, grid = 4, unsafe(requires(out.len() >= 4)))]
///     pub fn weigh(out: &mut [f32]) {
///         let (a, b): f32;
///         let before: u32;
///         let at: u64 = out + wide(ctaid.x) * 4;
///         ptx! {
///             atom.global.add.u32  before, [BLOCKS], 1;
///             ld.const.f32         a, [WEIGHTS];
///             ld.const.f32         b, [WEIGHTS + 4];
///             add.f32              a, a, b;
///             st.global.f32        [at], a;
///         }
///     }
/// }
///
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let stream = device.stream();
/// let mut out = device.zeros::<f32>(4)?;
/// kernels::WEIGHTS.write(&stream, [10.0, 0.5])?;
/// kernels::weigh(&stream, &mut out)?;
/// assert_eq!((out.download()?[3], kernels::BLOCKS.read(&stream)?), (10.5, 4));
/// # Ok(())
/// # }
/// ```
pub struct Static<T> {
    module: &'static Module,
    symbol: &'static str,
    /// Access of a launch.
    access: Access,
    on_cuda: Cache<(Home, Arc<CudaMemory>)>,
    value: PhantomData<fn() -> T>,
}

impl<T> Static<T> {
    /// The variable `symbol` of `module`; `is_mutable` if kernels write it. Written by the macros.
    #[doc(hidden)]
    pub const fn new(module: &'static Module, symbol: &'static str, is_mutable: bool) -> Static<T> {
        let access = if is_mutable { Access::Write } else { Access::Read };
        Static { module, symbol, access, on_cuda: Cache::new(), value: PhantomData }
    }

    /// Orders a launch among the uses, until the result is dropped.
    ///
    /// # Errors
    /// Those of loading the module, or an error of the driver.
    #[doc(hidden)]
    pub fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        match stream.kind {
            StreamKind::Cuda(on) => self.on_cuda(on)?.bind_shared(stream, self.access),
            StreamKind::Cpu(_) => Ok(Bound::recorded(0, None)),
        }
    }

    /// The memory in the context of a stream, which becomes current.
    fn on_cuda(&self, on: &CudaStream) -> Result<&Arc<CudaMemory>> {
        let context = on.context();
        bound(context)?;
        let is = |(home, _): &(Home, Arc<CudaMemory>)| home.is(context);
        let found = match self.on_cuda.find(is) {
            Some(found) => found,
            None => self.on_cuda.find_or_make(is, || self.find(context))?,
        };
        Ok(&found.1)
    }

    fn find(&self, context: &Arc<CudaContext>) -> Result<(Home, Arc<CudaMemory>)> {
        let (address, len) = self.module.variable(context, self.symbol)?;
        if len != size_of::<T>() {
            return Err(self.other_size(len));
        }
        Ok((Home::of(context), Arc::new(CudaMemory::of_module(context, address, len))))
    }

    #[cold]
    fn other_size(&self, len: usize) -> Error {
        let (symbol, module, size) = (self.symbol, self.module.name, size_of::<T>());
        Error::new(ErrorKind::Load, format!("`{symbol}` has {len} bytes in the loaded module `{module}`"))
            .possible(format!("the {size} bytes that it was compiled with"))
    }
}

impl<T: KernelParam> Static<T> {
    /// Its value on the stream's device, when all work that writes it has ended.
    ///
    /// # Errors
    /// Those of loading the module, the error of a kernel that failed while it ran ([`ErrorKind::Fault`]),
    /// [`ErrorKind::Unsupported`] in a capture, or an error of the driver.
    pub fn read(&self, stream: impl AsStream) -> Result<T> {
        let mut value = zero::<T>();
        let into = bytes_mut(std::slice::from_mut(&mut value));
        match stream.as_stream().kind {
            StreamKind::Cuda(on) => self.on_cuda(on)?.read_shared(on, into)?,
            #[cfg(feature = "cpu")]
            StreamKind::Cpu(device) => self.on_cpu(device, |bytes| into.copy_from_slice(bytes))?,
            #[cfg(not(feature = "cpu"))]
            StreamKind::Cpu(device) => device.never(),
        }
        Ok(value)
    }

    /// Overwrites it on the stream's device, after all work that uses it.
    ///
    /// # Errors
    /// As [`read`](Static::read).
    pub fn write(&self, stream: impl AsStream, value: T) -> Result<()> {
        let from = bytes(std::slice::from_ref(&value));
        match stream.as_stream().kind {
            StreamKind::Cuda(on) => self.on_cuda(on)?.write_shared(on, from),
            #[cfg(feature = "cpu")]
            StreamKind::Cpu(device) => self.on_cpu(device, |bytes| bytes.copy_from_slice(from)),
            #[cfg(not(feature = "cpu"))]
            StreamKind::Cpu(device) => device.never(),
        }
    }

    /// Calls `act` with its bytes on a CPU device.
    #[cfg(feature = "cpu")]
    fn on_cpu(&self, device: &crate::device::cpu::CpuDevice, act: impl FnOnce(&mut [u8])) -> Result<()> {
        let program = CpuProgram::of(self.module, None)?;
        device.with_variable(program.decoded(), self.symbol, |bytes| match bytes {
            Some(bytes) if bytes.len() == size_of::<T>() => {
                act(bytes);
                Ok(())
            }
            other => Err(self.other_size(other.map_or(0, |bytes| bytes.len()))),
        })
    }
}

impl<T> fmt::Debug for Static<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Static<{}>({} of `{}`)", std::any::type_name::<T>(), self.symbol, self.module.name)
    }
}
