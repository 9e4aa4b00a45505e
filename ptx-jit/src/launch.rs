//! A launch in the making: each argument is compared with its parameter, and the whole with the kernel's conditions.
#![allow(unsafe_code, reason = "a launch trusts its caller about what the kernel does")]

mod maps;

use crate::host::{Arguments, Known};
use crate::kernel::JitKernel;
use crate::scalar::{Number, Scalar};
use ptx_expand::program::{Dim, From, Kernel, Kind};
use ptx_runtime::expansion::{Submission, aligned, dim, launch};
use ptx_runtime::{
    AnyMemory, Arg, AsStream, Bound, Config, Error, ErrorKind, ReadSlice, ReadTile, Result, WriteSlice, WriteTile,
};
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

/// An argument that is tied to a stream.
enum Ready<'s> {
    Bytes(&'s [u8]),
    /// And its part of `extents`.
    Memory(Bound<'s>, Range<usize>),
}

impl Ready<'_> {
    fn arg(&self) -> Arg<'_> {
        match self {
            Ready::Bytes(bytes) => Arg::bytes(bytes),
            Ready::Memory(bound, _) => bound.arg(),
        }
    }
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
        let (kernel, loaded) = (&*self.kernel.described, self.kernel.runtime.kernel());
        if self.arguments.len() != kernel.params.len() {
            return Err(wrong_count(kernel, self.arguments.len()));
        }
        let dims = self.dims()?;
        let config = self.configured(&dims)?;
        let submission = Submission::on(stream.as_stream());
        let stream = submission.stream();
        let JitLaunch { arguments, extents, bytes, .. } = &mut self;
        let mut ready = Vec::with_capacity(arguments.len());
        for argument in arguments.iter_mut() {
            ready.push(match &mut argument.content {
                Content::Bytes(part) => Ready::Bytes(bytes.get(part.clone()).unwrap_or_default()),
                Content::Memory(memory) => Ready::Memory(memory.bind(stream)?, argument.shape.clone()),
            });
        }
        for (param, ready) in kernel.params.iter().zip(&ready) {
            if let (Some(align), Ready::Memory(memory, _)) = (param.align, ready) {
                aligned(memory, align, loaded, &param.name)?;
            }
        }
        let tile = |at: usize| match ready.get(at) {
            Some(Ready::Memory(memory, shape)) => (memory.address(), extents.get(shape.clone()).unwrap_or_default()),
            _ => (0, [].as_slice()),
        };
        let maps = maps::all((kernel, loaded), stream, tile)?;
        let args = kernel.taken.iter().filter_map(|taken| match taken.from {
            From::Param(at) => ready.get(at).map(Ready::arg),
            From::Dim(at) => dims.get(at).map(Arg::new),
            From::Map(at) => maps.get(at).map(Arg::new),
        });
        let args: Vec<Arg<'_>> = args.collect();
        if args.len() != loaded.params.len() {
            return Err(wrong_count(kernel, args.len()));
        }
        // SAFETY: there is one argument for each parameter, of its size; the caller vouches for the rest.
        unsafe { launch(loaded, stream, &config, &args) }
    }

    /// The dimensions that tiles name, which agree with each other and with the constants.
    fn dims(&self) -> Result<Vec<u32>> {
        let (kernel, loaded) = (&self.kernel.described, self.kernel.runtime.kernel());
        let mut found: Vec<Option<u32>> = vec![None; kernel.dims.len()];
        for (param, argument) in kernel.params.iter().zip(&self.arguments) {
            let Kind::Tile { dims, .. } = &param.kind else { continue };
            for (named, extent) in dims.iter().zip(self.shape(argument)) {
                match named {
                    Dim::Named(at) => {
                        let Some(known) = found.get_mut(*at) else { continue };
                        match u32::try_from(*extent) {
                            Ok(extent) if known.is_none_or(|known| known == extent) => *known = Some(extent),
                            _ => return self.dim_of_all(*at).map(|_| Vec::new()),
                        }
                    }
                    Dim::Constant(name, value) => {
                        dim(loaded, name, &[(name, *value as usize), (&param.name, *extent)])?;
                    }
                }
            }
        }
        Ok(found.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The extent of this name in all tiles, or the error that shows them.
    #[cold]
    fn dim_of_all(&self, wanted: usize) -> Result<u32> {
        let kernel = &self.kernel.described;
        let mut places = Vec::new();
        for (param, argument) in kernel.params.iter().zip(&self.arguments) {
            let Kind::Tile { dims, .. } = &param.kind else { continue };
            let named = dims.iter().zip(self.shape(argument));
            let named = named.filter(|(dim, _)| matches!(dim, Dim::Named(at) if *at == wanted));
            places.extend(named.map(|(_, extent)| (param.name.as_str(), *extent)));
        }
        let name = kernel.dims.get(wanted).map_or("", String::as_str);
        dim(self.kernel.runtime.kernel(), name, &places)
    }

    fn shape(&self, argument: &Argument<'_>) -> &[usize] {
        self.extents.get(argument.shape.clone()).unwrap_or_default()
    }

    fn configured(&self, dims: &[u32]) -> Result<Config> {
        let kernel = &self.kernel.described;
        let launch = kernel.launch.as_ref().map_err(|problem| {
            Error::new(ErrorKind::Unsupported, format!("`{}` is launched, and {}", kernel.entry, problem.message))
                .help(problem.help.join("; "))
        })?;
        let arguments = Arguments { kernel: self.kernel.runtime.kernel(), known: self, dims };
        let attribute = arguments.config(launch)?;
        match self.config {
            Some(config) if launch.vouched || launch.proved => config.safely_over(attribute),
            Some(config) => config.over(attribute),
            None => Ok(attribute),
        }
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
            format!("Tile{}<{element}, ({})>", if *written { "Mut" } else { "" }, dims.join(", "))
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
