//! The end of every launch: dimensions, conditions and sizes are computed from the arguments, and the arguments become those of the entry.
#![allow(unsafe_code, reason = "a launch trusts its caller about what the kernel does")]

use super::few::Few;
use super::wrong_count;
use crate::host::{Arguments, Known};
use crate::kernel::JitKernel;
use crate::scalar::Number;
use ptx_expand::program::{Dim, From, Kernel, Kind, Launch};
use ptx_runtime::expansion::{Submission, aligned_at, dim, launch};
use ptx_runtime::{Arg, AsStream, Config, Error, ErrorKind, ReadSlice, Result, Stream, StreamRef, View};

/// An argument of a launch by addresses: [`JitKernel::launch_with`].
#[derive(Clone, Copy, Debug)]
pub enum Passed<'a> {
    /// Memory: its address, the number of its elements, and its extents, which memory for a slice does not need.
    Memory(u64, usize, &'a [usize]),
    /// A number: the bytes of the kernel's type, from the first one on, and its value.
    Number([u8; 8], Number),
    /// The bytes of a struct.
    Struct(&'a [u8]),
}

/// The dimensions of a kernel.
pub(super) type Dims = Few<u32, 12>;

impl Passed<'_> {
    fn arg(&self) -> Arg<'_> {
        match self {
            Passed::Memory(address, ..) => Arg::new(address),
            Passed::Number(bytes, _) => Arg::new(bytes),
            Passed::Struct(bytes) => Arg::bytes(bytes),
        }
    }
}

impl Known for [Passed<'_>] {
    #[inline]
    fn number(&self, at: usize) -> Option<Number> {
        match self.get(at)? {
            Passed::Number(_, number) => Some(*number),
            _ => None,
        }
    }

    #[inline]
    fn len(&self, at: usize) -> usize {
        match self.get(at) {
            Some(Passed::Memory(_, len, _)) => *len,
            _ => 0,
        }
    }

    #[inline]
    fn bytes(&self, at: usize) -> &[u8] {
        match self.get(at) {
            Some(Passed::Struct(bytes)) => bytes,
            _ => &[],
        }
    }

    #[inline]
    fn shape(&self, at: usize) -> &[usize] {
        match self.get(at) {
            Some(Passed::Memory(_, _, shape)) => shape,
            _ => &[],
        }
    }
}

impl JitKernel {
    /// Launches it with arguments that somebody has compared with its parameters: nothing is allocated for a usual kernel. On a CUDA device it returns
    /// before the kernel has ended.
    ///
    /// # Errors
    /// A wrong number of arguments, a condition of the kernel that does not hold, and those of a typed launch.
    ///
    /// # Safety
    /// Each argument is one for the parameter with its number: memory on the device of the stream, of the parameter's type, with at least as many
    /// elements as its extents say, that stays valid until the work on the stream has ended; a number of the parameter's type, which its bytes are; a
    /// struct of the parameter's size. No memory that is written is another argument, too. The kernel uses its arguments soundly.
    pub unsafe fn launch_with(&self, stream: &Stream, passed: &[Passed<'_>]) -> Result<()> {
        let described = &*self.described;
        if passed.len() != described.params.len() {
            return Err(wrong_count(described, passed.len()));
        }
        let dims = dims_of(self, passed)?;
        let config = configured(self, None, passed, &dims)?;
        let submission = Submission::on(stream.as_stream());
        // All of the memory is on this device: one piece stands for the others where the stream is captured.
        // SAFETY: nothing is read here.
        let memory = &unsafe { View::<u8>::from_raw(stream, 0, 0) };
        let _bound = ReadSlice::bind(&memory, submission.stream())?;
        // SAFETY: passed on.
        unsafe { submit(self, submission.stream(), (&config, &dims), passed) }
    }
}

/// Submits a kernel whose conditions hold.
///
/// # Safety
/// As [`JitKernel::launch_with`].
pub(super) unsafe fn submit(
    kernel: &JitKernel,
    stream: StreamRef<'_>,
    (config, dims): (&Config, &[u32]),
    passed: &[Passed<'_>],
) -> Result<()> {
    let (described, loaded) = (&*kernel.described, kernel.runtime.kernel());
    for (param, passed) in described.params.iter().zip(passed) {
        if let (Some(align), Passed::Memory(address, ..)) = (param.align, passed) {
            aligned_at(*address, align, loaded, &param.name)?;
        }
    }
    let tile = |at: usize| match passed.get(at) {
        Some(Passed::Memory(address, _, shape)) => (*address, *shape),
        _ => (0, [].as_slice()),
    };
    let maps = kernel.maps.of_launch((described, loaded), stream, tile)?;
    let mut args = Few::<Arg<'_>, 24>::new(Arg::new(&0u64), described.taken.len());
    for (arg, taken) in args.iter_mut().zip(&described.taken) {
        let found = match taken.from {
            From::Param(at) => passed.get(at).map(Passed::arg),
            From::Dim(at) => dims.get(at).map(Arg::new),
            From::Map(at) => maps.get(at).map(Arg::new),
        };
        *arg = found.ok_or_else(|| wrong_count(described, passed.len()))?;
    }
    if args.len() != loaded.params.len() {
        return Err(wrong_count(described, args.len()));
    }
    // SAFETY: there is one argument for each parameter, of its size; the caller vouches for the rest.
    unsafe { launch(loaded, stream, config, &args) }
}

/// The dimensions that tiles name, which agree with each other and with the constants.
pub(super) fn dims_of(kernel: &JitKernel, known: &(impl Known + ?Sized)) -> Result<Dims> {
    let (described, loaded) = (&*kernel.described, kernel.runtime.kernel());
    let mut found = Few::<Option<u32>, 12>::new(None, described.dims.len());
    for (at, param) in described.params.iter().enumerate() {
        let Kind::Tile { dims, .. } = &param.kind else { continue };
        for (named, extent) in dims.iter().zip(known.shape(at)) {
            match named {
                Dim::Named(at) => {
                    let Some(known_extent) = found.get_mut(*at) else { continue };
                    match u32::try_from(*extent) {
                        Ok(extent) if known_extent.is_none_or(|known| known == extent) => *known_extent = Some(extent),
                        _ => return dim_of_all(kernel, known, *at).map(|_| Dims::new(0, 0)),
                    }
                }
                Dim::Constant(name, value) => {
                    dim(loaded, name, &[(name, *value as usize), (&param.name, *extent)])?;
                }
            }
        }
    }
    let mut every = Dims::new(0, found.len());
    every.iter_mut().zip(found.iter()).for_each(|(every, found)| *every = found.unwrap_or_default());
    Ok(every)
}

/// The extent of this name in all tiles, or the error that shows them.
#[cold]
fn dim_of_all(kernel: &JitKernel, known: &(impl Known + ?Sized), wanted: usize) -> Result<u32> {
    let described = &*kernel.described;
    let mut places = Vec::new();
    for (at, param) in described.params.iter().enumerate() {
        let Kind::Tile { dims, .. } = &param.kind else { continue };
        let named = dims.iter().zip(known.shape(at));
        let named = named.filter(|(dim, _)| matches!(dim, Dim::Named(at) if *at == wanted));
        places.extend(named.map(|(_, extent)| (param.name.as_str(), *extent)));
    }
    let name = described.dims.get(wanted).map_or("", String::as_str);
    dim(kernel.runtime.kernel(), name, &places)
}

/// The sizes of a launch, after the conditions were checked.
pub(super) fn configured(
    kernel: &JitKernel,
    config: Option<Config>,
    known: &(impl Known + ?Sized),
    dims: &[u32],
) -> Result<Config> {
    let (launch, attribute) = of_attribute(&kernel.described, known, dims)?;
    match config {
        Some(config) if launch.vouched || launch.proved => config.safely_over(attribute),
        Some(config) => config.over(attribute),
        None => Ok(attribute),
    }
}

/// The sizes of a launch by the attribute of a kernel that no device has to have, after the conditions were checked: what a launch does before it
/// submits. `dims` are the kernel's dimensions, in order.
///
/// # Errors
/// A condition that does not hold, an expression without a value, and [`ErrorKind::Unsupported`] for an attribute that needs a compiler of Rust.
pub fn configure(kernel: &Kernel, passed: &[Passed<'_>], dims: &[u32]) -> Result<Config> {
    of_attribute(kernel, passed, dims).map(|(_, config)| config)
}

fn of_attribute<'k>(kernel: &'k Kernel, known: &(impl Known + ?Sized), dims: &[u32]) -> Result<(&'k Launch, Config)> {
    let launch = kernel.launch.as_ref().map_err(|problem| refused(kernel, problem))?;
    Ok((launch, Arguments { entry: &kernel.entry, known, dims }.config(launch)?))
}

#[cold]
fn refused(kernel: &Kernel, problem: &ptx_expand::program::Problem) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`{}` is launched, and {}", kernel.entry, problem.message))
        .help(problem.help.join("; "))
}
