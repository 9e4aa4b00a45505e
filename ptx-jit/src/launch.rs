//! A launch in the making: each argument is compared with its parameter, and the whole with the kernel's conditions.
#![allow(unsafe_code, reason = "a launch trusts its caller about what the kernel does")]

mod few;
mod passed;

pub use passed::{Passed, configure};

use crate::host::Known;
use crate::kernel::JitKernel;
use crate::scalar::{Number, Scalar};
use passed::{configured, dims_of};
use ptx_expand::program::{Dim, From, Kernel, Kind};
use ptx_runtime::expansion::Submission;
use ptx_runtime::{AnyMemory, AsStream, Config, Error, ErrorKind, ReadSlice, ReadTile, Result, WriteSlice, WriteTile};
use std::fmt::Display;
use std::ops::Range;

/// A launch of a [`JitKernel`]: the arguments so far.
#[must_use]
pub struct JitLaunch<'a> {
    kernel: &'a JitKernel,
    config: Option<Config>,
    arguments: Vec<Argument<'a>>,
    /// The extents of all tiles, and the bytes of all numbers and structs: what is allocated once is allocated quickly.
    extents: Vec<usize>,
    bytes: Vec<u8>,
}

struct Argument<'a> {
    content: Content<'a>,
    number: Option<Number>,
    len: usize,
    /// Its part of `extents`.
    shape: Range<usize>,
}

enum Content<'a> {
    /// A part of `bytes`.
    Bytes(Range<usize>),
    Memory(AnyMemory<'a>),
}

impl JitKernel {
    /// Starts a launch. The arguments follow in the order of the parameters.
    pub fn launch(&self) -> JitLaunch<'_> {
        let count = self.described.params.len();
        let (extents, bytes) = (Vec::with_capacity(4 * count), Vec::new());
        JitLaunch { kernel: self, config: None, arguments: Vec::with_capacity(count), extents, bytes }
    }
}

impl<'a> JitLaunch<'a> {
    /// The sizes that the attribute leaves open: `grid` and `block`.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// The next argument is memory that the kernel reads, for `&[T]`.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if the next parameter is another one.
    pub fn read<T: Scalar>(self, memory: impl ReadSlice<T> + 'a) -> Result<Self> {
        self.expect(
            |kind| matches!(kind, Kind::Slice { element, written: false } if is::<T>(element)),
            format_args!("&[{}]", name::<T>()),
        )?;
        let len = memory.len();
        Ok(self.push_memory(AnyMemory::read(memory), len, &[]))
    }

    /// The next argument is memory that the kernel writes, for `&mut [T]`.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read).
    pub fn write<T: Scalar>(self, memory: impl WriteSlice<T> + 'a) -> Result<Self> {
        self.expect(
            |kind| matches!(kind, Kind::Slice { element, written: true } if is::<T>(element)),
            format_args!("&mut [{}]", name::<T>()),
        )?;
        let len = memory.len();
        Ok(self.push_memory(AnyMemory::write(memory), len, &[]))
    }

    /// The next argument is memory with a shape that the kernel reads, for `Tile<T, …>`.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read).
    pub fn read_tile<T: Scalar, const R: usize>(self, tile: impl ReadTile<T, R> + 'a) -> Result<Self> {
        self.expect(
            |kind| matches!(kind, Kind::Tile { element, dims, written: false } if is::<T>(element) && dims.len() == R),
            format_args!("Tile<{}, …> of {R} dimensions", name::<T>()),
        )?;
        let (len, shape) = (tile.len(), tile.shape());
        Ok(self.push_memory(AnyMemory::read(tile), len, &shape))
    }

    /// The next argument is memory with a shape that the kernel writes, for `TileMut<T, …>`.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read).
    pub fn write_tile<T: Scalar, const R: usize>(self, tile: impl WriteTile<T, R> + 'a) -> Result<Self> {
        self.expect(
            |kind| matches!(kind, Kind::Tile { element, dims, written: true } if is::<T>(element) && dims.len() == R),
            format_args!("TileMut<{}, …> of {R} dimensions", name::<T>()),
        )?;
        let (len, shape) = (tile.len(), tile.shape());
        Ok(self.push_memory(AnyMemory::write(tile), len, &shape))
    }

    /// The next argument is memory that the kernel reads, for a slice or a tile of any element type: its bytes, the name and the size of its
    /// elements, and its shape.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read), and if the memory has fewer elements than the shape.
    pub fn read_bytes(self, memory: impl ReadSlice<u8> + 'a, element: (&str, usize), shape: &[usize]) -> Result<Self> {
        let len = self.expect_bytes(memory.len(), element, shape, false)?;
        Ok(self.push_memory(AnyMemory::read(memory), len, shape))
    }

    /// The next argument is memory that the kernel writes, as [`read_bytes`](JitLaunch::read_bytes).
    ///
    /// # Errors
    /// As [`read_bytes`](JitLaunch::read_bytes).
    pub fn write_bytes(
        self,
        memory: impl WriteSlice<u8> + 'a,
        element: (&str, usize),
        shape: &[usize],
    ) -> Result<Self> {
        let len = self.expect_bytes(memory.len(), element, shape, true)?;
        Ok(self.push_memory(AnyMemory::write(memory), len, shape))
    }

    /// The next argument is this number.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read).
    pub fn value<T: Scalar>(self, value: T) -> Result<Self> {
        self.expect(|kind| matches!(kind, Kind::Value(ty) if is::<T>(ty)), name::<T>())?;
        // SAFETY: a parameter's every byte is initialized, and it lives during this expression.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
        Ok(self.push_bytes(bytes, Some(value.number())))
    }

    /// The next argument is a struct, of these bytes.
    ///
    /// # Errors
    /// As [`read`](JitLaunch::read), and if the struct has another size.
    pub fn bytes(self, bytes: &[u8]) -> Result<Self> {
        let at = self.arguments.len();
        let size =
            self.kernel.described.taken.iter().find(|taken| taken.from == From::Param(at)).map(|taken| taken.size);
        self.expect(
            |kind| matches!(kind, Kind::Value(_)) && size == Some(bytes.len() as u64),
            format_args!("{} bytes", bytes.len()),
        )?;
        Ok(self.push_bytes(bytes, None))
    }

    /// The number of elements of `bytes` bytes.
    fn expect_bytes(&self, bytes: usize, (name, size): (&str, usize), shape: &[usize], write: bool) -> Result<usize> {
        let mutable = if write { "mut " } else { "" };
        self.expect(
            |kind| match kind {
                Kind::Slice { element, written } => element == name && *written == write,
                Kind::Tile { element, dims, written } => {
                    element == name && *written == write && dims.len() == shape.len()
                }
                _ => false,
            },
            format_args!("{mutable}memory of {name} in {} dimensions", shape.len()),
        )?;
        let len = bytes / size.max(1);
        let elements = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        match elements.is_some_and(|elements| elements <= len) {
            true => Ok(len),
            false => Err(too_short(&self.kernel.described, self.arguments.len(), shape, len)),
        }
    }

    fn push_memory(mut self, memory: AnyMemory<'a>, len: usize, shape: &[usize]) -> Self {
        let from = self.extents.len();
        self.extents.extend_from_slice(shape);
        let shape = from..self.extents.len();
        self.arguments.push(Argument { content: Content::Memory(memory), number: None, len, shape });
        self
    }

    fn push_bytes(mut self, bytes: &[u8], number: Option<Number>) -> Self {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let content = Content::Bytes(from..self.bytes.len());
        self.arguments.push(Argument { content, number, len: 0, shape: 0..0 });
        self
    }

    /// Compares the next parameter with an argument.
    fn expect(&self, fits: impl FnOnce(&Kind) -> bool, found: impl Display) -> Result<()> {
        let kernel = &self.kernel.described;
        match kernel.params.get(self.arguments.len()) {
            Some(param) if fits(&param.kind) => Ok(()),
            Some(param) => Err(wrong_kind(kernel, &param.name, &param.kind, found)),
            None => Err(wrong_count(kernel, self.arguments.len() + 1)),
        }
    }

    /// Submits it.
    ///
    /// # Errors
    /// Missing arguments, a condition of the kernel that does not hold, and those of a typed launch. On a GPU [`ErrorKind::Unsupported`] if
    /// the kernel is not `proved` and nobody vouches for it: it has no `unsafe(requires(…))`, or its source is not [`trusted`](crate::Source::trusted).
    pub fn run(self, stream: impl AsStream) -> Result<()> {
        let is_checked = stream.as_stream().is_cpu();
        let launch = self.kernel.described.launch.as_ref();
        let is_safe = launch.is_ok_and(|launch| launch.proved || launch.vouched && self.kernel.is_trusted);
        if !(is_checked || is_safe) {
            return Err(nobody_vouches(&self.kernel.described));
        }
        // SAFETY: the CPU device checks every access, or the kernel is proved, or its author and the caller of `trusted` vouch for it.
        unsafe { self.submit(stream) }
    }

    /// Submits it. On a CUDA device it returns before the kernel has ended.
    ///
    /// # Errors
    /// Missing arguments, a condition of the kernel that does not hold, and those of a typed launch.
    ///
    /// # Safety
    /// The kernel uses its arguments soundly: it stays inside of its memory, and writes only what it got to be written.
    pub unsafe fn submit(mut self, stream: impl AsStream) -> Result<()> {
        let kernel = self.kernel;
        if self.arguments.len() != kernel.described.params.len() {
            return Err(wrong_count(&kernel.described, self.arguments.len()));
        }
        let dims = dims_of(kernel, &self)?;
        let config = configured(kernel, self.config, &self, &dims)?;
        let submission = Submission::on(stream.as_stream());
        let JitLaunch { arguments, extents, bytes, .. } = &mut self;
        let (mut bound, mut passed) = (Vec::with_capacity(arguments.len()), Vec::with_capacity(arguments.len()));
        for argument in arguments.iter_mut() {
            let shape = extents.get(argument.shape.clone()).unwrap_or_default();
            passed.push(match &mut argument.content {
                Content::Bytes(part) => Passed::Struct(bytes.get(part.clone()).unwrap_or_default()),
                Content::Memory(memory) => {
                    let memory = memory.bind(submission.stream())?;
                    let address = memory.address();
                    bound.push(memory);
                    Passed::Memory(address, argument.len, shape)
                }
            });
        }
        // SAFETY: there is one argument for each parameter, which was compared with it; the caller vouches for the rest.
        unsafe { passed::submit(kernel, submission.stream(), (&config, &dims), &passed) }
    }
}

impl Known for JitLaunch<'_> {
    fn number(&self, at: usize) -> Option<Number> {
        self.arguments.get(at)?.number
    }

    fn len(&self, at: usize) -> usize {
        self.arguments.get(at).map_or(0, |argument| argument.len)
    }

    fn bytes(&self, at: usize) -> &[u8] {
        match self.arguments.get(at).map(|argument| &argument.content) {
            Some(Content::Bytes(part)) => self.bytes.get(part.clone()).unwrap_or_default(),
            _ => &[],
        }
    }

    fn shape(&self, at: usize) -> &[usize] {
        self.arguments.get(at).and_then(|argument| self.extents.get(argument.shape.clone())).unwrap_or_default()
    }
}

impl std::fmt::Debug for JitLaunch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JitLaunch({}, {} arguments)", self.kernel.described.entry, self.arguments.len())
    }
}

fn is<T: Scalar>(name: &str) -> bool {
    T::NAMES.contains(&name)
}

fn name<T: Scalar>() -> &'static str {
    T::NAMES.first().copied().unwrap_or_default()
}

/// A parameter's type as its author wrote it.
fn written(kernel: &Kernel, kind: &Kind) -> String {
    let extent = |dim: &Dim| match dim {
        Dim::Named(at) => kernel.dims.get(*at).cloned().unwrap_or_default(),
        Dim::Constant(name, _) => name.clone(),
    };
    match kind {
        Kind::Slice { element, written } => format!("&{}[{element}]", if *written { "mut " } else { "" }),
        Kind::Tile { element, dims, written } => {
            let dims: Vec<String> = dims.iter().map(extent).collect();
            let (mutable, comma) = (if *written { "Mut" } else { "" }, if dims.len() == 1 { "," } else { "" });
            format!("Tile{mutable}<{element}, ({}{comma})>", dims.join(", "))
        }
        Kind::Value(ty) => ty.clone(),
        Kind::Map => "TensorMap".to_owned(),
        Kind::Object(name) => (*name).to_owned(),
    }
}

#[cold]
fn wrong_kind(kernel: &Kernel, param: &str, kind: &Kind, found: impl Display) -> Error {
    Error::new(ErrorKind::BadOption, format!("`{}` gets {found} for its parameter `{param}`", kernel.entry))
        .possible(format!("`{param}: {}`", written(kernel, kind)))
}

#[cold]
fn too_short(kernel: &Kernel, at: usize, shape: &[usize], len: usize) -> Error {
    let param = kernel.params.get(at).map_or("", |param| &param.name);
    Error::new(
        ErrorKind::Condition,
        format!("`{}` gets {len} elements for its parameter `{param}` of shape {shape:?}", kernel.entry),
    )
}

#[cold]
fn wrong_count(kernel: &Kernel, count: usize) -> Error {
    let plural = if count == 1 { "" } else { "s" };
    let params: Vec<_> =
        kernel.params.iter().map(|param| format!("`{}: {}`", param.name, written(kernel, &param.kind))).collect();
    Error::new(ErrorKind::BadOption, format!("`{}` is launched with {count} argument{plural}", kernel.entry))
        .possible(format!("one for each of its {} parameters: {}", kernel.params.len(), params.join(", ")))
}

#[cold]
fn nobody_vouches(kernel: &Kernel) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`{}` is run on a GPU, and nobody vouches for it", kernel.entry))
        .possible("kernels with `unsafe(requires(…))` of a trusted source")
        .help("call `Source::trusted`, or launch it with `submit`, in `unsafe`; on the CPU device every access is checked")
}
