//! The launch of a kernel in a Rust file: what its attribute makes of the values of `--arg`, as a launch from Rust or Python does.

use super::Extent;
use super::argument::{Argument, Contents};
use crate::output::Failure;
use crate::source::read_bytes;
use ptx_core::isa::{Class, Type};
use ptx_jit::describe::{From, Kernel, Kind};
use ptx_jit::{Number, Passed, configure};
use ptx_runtime::Sizes;
use ptx_runtime::expansion::int;
use std::borrow::Cow;

/// A kernel and the arguments of its entry.
pub(super) struct Attribute<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) arguments: &'a [Argument],
}

impl Attribute<'_> {
    /// The sizes of the launch. Its conditions hold.
    pub(super) fn sizes(&self) -> Result<Sizes, Failure> {
        let structs = self.structs()?;
        let count = self.kernel.params.len();
        let passed: Vec<_> = (0..count).map(|at| self.passed(at, structs.get(at).and_then(Option::as_deref))).collect();
        let dims = (0..self.kernel.dims.len()).map(|at| self.dim(at)).collect::<Result<Vec<_>, _>>()?;
        match configure(self.kernel, &passed, &dims) {
            Ok(config) => Ok(config.sizes()),
            Err(error) => Err(Failure::usage(error.to_string())),
        }
    }

    /// The bytes of each parameter that is a struct.
    fn structs(&self) -> Result<Vec<Option<Cow<'_, [u8]>>>, Failure> {
        let bytes = |at| match self.argument(From::Param(at)) {
            Some(Argument::Struct(bytes)) => Ok(Some(Cow::from(bytes))),
            Some(Argument::Bytes(path)) => {
                read_bytes(path, "an argument has at most 32764 bytes").map(|bytes| Some(bytes.into()))
            }
            _ => Ok(None),
        };
        (0..self.kernel.params.len()).map(bytes).collect()
    }

    /// A parameter as a launch has it.
    fn passed<'v>(&self, at: usize, bytes: Option<&'v [u8]>) -> Passed<'v> {
        match (bytes, self.argument(From::Param(at))) {
            (Some(bytes), _) => Passed::Struct(bytes),
            (None, Some(Argument::Scalar(ty, bytes))) => {
                let all = padded(bytes);
                number(*ty, all).map_or(Passed::Struct(&[]), |number| Passed::Number(all, number))
            }
            _ => Passed::Memory(0, self.elements(at), &[]),
        }
    }

    /// The elements of a parameter's memory: its buffer, or the one of its tensor map.
    fn elements(&self, at: usize) -> usize {
        let map = || self.kernel.maps.iter().position(|map| map.of == at).map(From::Map);
        match self.argument(From::Param(at)).or_else(|| self.argument(map()?)) {
            Some(Argument::Memory(memory)) => {
                let size = match self.kernel.params.get(at).map(|param| &param.kind) {
                    Some(Kind::Slice { element, .. } | Kind::Tile { element, .. }) => {
                        Type::find(element).map(Type::bytes)
                    }
                    _ => None,
                };
                let bytes = match &memory.from {
                    Contents::Filled(bytes, _) => *bytes,
                    Contents::File(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
                };
                usize::try_from(bytes.checked_div(size.unwrap_or(1)).unwrap_or(0)).unwrap_or(usize::MAX)
            }
            Some(Argument::Tensor(tensor)) => tensor.elements(),
            _ => 0,
        }
    }

    fn dim(&self, at: usize) -> Result<u32, Failure> {
        let extent = match self.argument(From::Dim(at)) {
            Some(Argument::Scalar(ty, bytes)) if ty.class() != Class::Float => Some(u32::from_le_bytes(padded(bytes))),
            _ => None,
        };
        let name = || self.kernel.dims.get(at).map_or("", String::as_str);
        extent.ok_or_else(|| Failure::usage(format!("the extent `{}` is a number such as u32:64", name())))
    }

    fn argument(&self, from: From) -> Option<&Argument> {
        self.arguments.get(self.kernel.taken.iter().position(|taken| taken.from == from)?)
    }
}

/// The first bytes of a number, with zeros behind them.
fn padded<const SIZE: usize>(bytes: &[u8]) -> [u8; SIZE] {
    let mut all = [0; SIZE];
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    all
}

/// A number of at most eight bytes.
fn number(ty: Type, bytes: [u8; 8]) -> Option<Number> {
    let bits = u64::from_le_bytes(bytes);
    Some(match ty.class() {
        Class::Float => Number::Float(ptx_interp::decode_float(ty.name(), bits)?),
        Class::Signed => {
            let unused = 64u32.checked_sub(u32::try_from(8 * ty.bytes()).ok()?)?;
            Number::Int(int((bits << unused).cast_signed() >> unused))
        }
        _ => Number::Int(int(bits)),
    })
}

/// Extents as a launch takes them.
pub(super) fn extent(dim: ptx_runtime::Dim) -> Result<Extent, Failure> {
    let [x, y, z] = dim.extents().map(|extent| u32::try_from(extent).ok());
    let all = x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]);
    all.ok_or_else(|| Failure::usage(format!("the attribute asks for {dim}, which no launch takes")))
}

/// Bytes of dynamic shared memory, likewise.
pub(super) fn bytes(shared: Option<i64>) -> Result<u32, Failure> {
    let bytes = shared.unwrap_or(0);
    u32::try_from(bytes).map_err(|_| {
        Failure::usage(format!("the attribute asks for {bytes} bytes of shared memory, which no launch takes"))
    })
}
