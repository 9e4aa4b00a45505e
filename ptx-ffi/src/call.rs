//! A call: checks of all arguments, the choice of the instance, and the arguments as Rust takes them.
#![allow(unsafe_code, reason = "memory of other languages")]

use crate::dtype::{DType, Dtype};
use crate::error::{Exception, Raised};
use crate::fork::Calling;
use crate::function::{Default, Element, Function, Instance, Kind, Param};
use crate::host::{Copies, Outside};
use crate::stream::{Home, with_stream};
use crate::value::{Names, Place, Tensor, Value};
use ptx_launch::{Error, ErrorKind, Result, Stream, TensorMut, TensorRef, View, ViewMut, keep_current_context};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most parameters of a function.
pub const PARAMS: usize = 32;

/// Arguments that were checked, and the stream to work on.
pub struct Call<'a> {
    function: &'static Function,
    stream: &'a Stream,
    values: &'a [Value<'a>],
    /// The device.
    #[cfg_attr(not(feature = "jit"), expect(dead_code, reason = "kernels from text are loaded for each device"))]
    pub(crate) home: Home,
}

impl<'a> Call<'a> {
    /// The stream.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// A tensor that a kernel reads as a tile, and its extents.
    ///
    /// # Errors
    /// If its elements do not lie in row-major order without gaps.
    pub fn read_dense<T: Dtype, const R: usize>(&self, at: usize) -> Result<(View<'a, T>, [usize; R])> {
        let (len, tensor, shape) = self.dense::<T, R>(at)?;
        // SAFETY: as for `TensorRef`.
        Ok((unsafe { View::from_raw(self.stream, tensor.address, len) }, shape))
    }

    /// A tensor that a kernel writes as a tile, and its extents.
    ///
    /// # Errors
    /// If its elements do not lie in row-major order without gaps.
    pub fn write_dense<T: Dtype, const R: usize>(&self, at: usize) -> Result<(ViewMut<'a, T>, [usize; R])> {
        let (len, tensor, shape) = self.dense::<T, R>(at)?;
        // SAFETY: as for `TensorMut`.
        Ok((unsafe { ViewMut::from_raw(self.stream, tensor.address, len) }, shape))
    }

    fn dense<T: Dtype, const R: usize>(&self, at: usize) -> Result<(usize, &'a Tensor, [usize; R])> {
        let (name, tensor) = tensor_of::<T, R>(self, at)?;
        let len = tensor.span;
        let tensor_ref = TensorRef::<T, R>::from_arg(self, at)?;
        match tensor_ref.is_contiguous() {
            true => Ok((len, tensor, tensor_ref.shape())),
            false => Err(not_dense(name, tensor)),
        }
    }

    /// The value of a parameter, and its name.
    pub(crate) fn param(&self, at: usize) -> (&'static str, &'a Value<'a>) {
        let name = self.function.params.get(at).map_or("", |param| param.name);
        (name, self.values.get(at).unwrap_or(&Value::Missing))
    }
}

/// A parameter's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of an exported function",
    label = "expected TensorRef, TensorMut, an integer, f32, f64, bool, &str, an Option of one of them, or a struct with `#[derive(ptx_ffi::Args)]`"
)]
pub trait FromArg<'a>: Sized {
    /// The arguments that it is made of.
    const COUNT: usize = 1;

    /// The argument with this number, or the struct whose fields begin with it.
    ///
    /// # Errors
    /// If the argument is of another kind.
    fn from_arg(call: &Call<'a>, at: usize) -> Result<Self>;
}

/// The arguments from number `at` on, which becomes the number behind them.
///
/// # Errors
/// As [`FromArg::from_arg`].
#[inline]
pub fn next<'a, A: FromArg<'a>>(call: &Call<'a>, at: &mut usize) -> Result<A> {
    let first = *at;
    *at += A::COUNT;
    A::from_arg(call, first)
}

impl<'a, T: Dtype, const R: usize> FromArg<'a> for TensorRef<'a, T, R> {
    fn from_arg(call: &Call<'a>, at: usize) -> Result<Self> {
        let (name, tensor) = tensor_of::<T, R>(call, at)?;
        let (shape, strides) = extents(tensor);
        // SAFETY: the caller of the exported function passes memory of this type, shape and device, which lives until the work on
        // the stream has ended; `check` has compared them with the parameter, and no written tensor shares memory with it.
        let view = unsafe { View::<T>::from_raw(call.stream, tensor.address, tensor.span) };
        TensorRef::strided(view, shape, strides).map_err(|error| named(name, &error))
    }
}

impl<'a, T: Dtype, const R: usize> FromArg<'a> for TensorMut<'a, T, R> {
    fn from_arg(call: &Call<'a>, at: usize) -> Result<Self> {
        let (name, tensor) = tensor_of::<T, R>(call, at)?;
        let (shape, strides) = extents(tensor);
        // SAFETY: as above.
        let view = unsafe { ViewMut::<T>::from_raw(call.stream, tensor.address, tensor.span) };
        TensorMut::strided(view, shape, strides).map_err(|error| named(name, &error))
    }
}

impl<'a, T: FromArg<'a>> FromArg<'a> for Option<T> {
    fn from_arg(call: &Call<'a>, at: usize) -> Result<Self> {
        match call.param(at).1 {
            Value::Missing => Ok(None),
            _ => T::from_arg(call, at).map(Some),
        }
    }
}

macro_rules! scalars {
    ($($pattern:pat => $value:expr, $($ty:ty)*;)*) => { $( $(
        impl<'a> FromArg<'a> for $ty {
            #[allow(irrefutable_let_patterns, clippy::useless_conversion, reason = "one line for all types")]
            fn from_arg(call: &Call<'a>, at: usize) -> Result<Self> {
                match *call.param(at).1 {
                    $pattern => <$ty>::try_from($value).map_err(|_| unexpected(call, at)),
                    _ => Err(unexpected(call, at)),
                }
            }
        }
    )* )* };
}
scalars! {
    Value::Int(value) => value, i8 i16 i32 i64 u8 u16 u32 u64 usize;
    Value::Float(value) => value, f64;
    Value::Bool(value) => value, bool;
    Value::Str(value) => value, &'a str;
}

impl<'a> FromArg<'a> for f32 {
    fn from_arg(call: &Call<'a>, at: usize) -> Result<Self> {
        f64::from_arg(call, at).map(|value| value as f32)
    }
}

fn tensor_of<'a, T: Dtype, const R: usize>(call: &Call<'a>, at: usize) -> Result<(&'static str, &'a Tensor)> {
    match call.param(at) {
        (name, Value::Tensor(tensor)) if tensor.dtype == T::DTYPE && tensor.rank == R => Ok((name, tensor)),
        _ => Err(unexpected(call, at)),
    }
}

fn extents<const R: usize>(tensor: &Tensor) -> ([usize; R], [usize; R]) {
    let pick = |from: &[usize]| std::array::from_fn(|at| from.get(at).copied().unwrap_or(1));
    (pick(tensor.extents()), pick(tensor.steps()))
}

#[cold]
pub(crate) fn unexpected(call: &Call<'_>, at: usize) -> Error {
    let (name, value) = call.param(at);
    Error::other(format!("{name}: {} does not fit the parameter's type", value.kind()))
}

#[cold]
pub(crate) fn not_dense(name: &str, tensor: &Tensor) -> Error {
    let (shape, strides) = (tensor.extents(), tensor.steps());
    Error::new(
        ErrorKind::Condition,
        format!("{name}: shape {shape:?} with strides {strides:?} has gaps; make it contiguous"),
    )
}

#[cold]
fn named(name: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{name}: {error}"))
}

/// Calls a function with arguments of another language. `stream` returns the stream of a GPU to work on. Nothing unwinds out of it.
pub(crate) fn run(
    function: &'static Function,
    values: &mut [Value<'_>; PARAMS],
    given: usize,
    stream: impl FnOnce(usize) -> std::result::Result<*mut std::ffi::c_void, Raised>,
) -> std::result::Result<(), Raised> {
    let call = || {
        let (place, instance) = check(function, values, given)?;
        let values = &mut values[..function.params.len()];
        let home = Home::of(place);
        match place {
            Place::Host => on_copies(function, instance, home, Outside::Host, values),
            Place::Cuda(ordinal) => {
                let (on_gpu, raw) = (Home::Cuda(ordinal), stream(ordinal)?);
                keep_current_context(|| {
                    with_stream(on_gpu, raw, |stream| match home == on_gpu {
                        true => (instance.call)(&Call { function, stream, values, home })
                            .map_err(|error| Raised::of_launch(&error)),
                        false => on_copies(function, instance, home, Outside::Cuda(stream), values),
                    })
                })
            }
        }
    };
    let _calling = Calling::begin();
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Raised::of_panic(&*panic)));
    result.map_err(|raised| raised.within(function.label))
}

/// Calls an instance on the CPU device, with copies of the tensors.
fn on_copies(
    function: &'static Function,
    instance: &Instance,
    home: Home,
    outside: Outside<'_>,
    values: &mut [Value<'_>],
) -> std::result::Result<(), Raised> {
    let launched = |error| Raised::of_launch(&error);
    with_stream(home, std::ptr::null_mut(), |stream| {
        let mut copies = Copies::take(stream, outside, function, values).map_err(launched)?;
        (instance.call)(&Call { function, stream, values, home }).map_err(launched)?;
        copies.give_back().map_err(launched)
    })
}

/// Compares all arguments with the description, and finds their place and the instance. Tensors leave it with the parameter's rank.
fn check(
    function: &'static Function,
    values: &mut [Value<'_>; PARAMS],
    given: usize,
) -> std::result::Result<(Place, &'static Instance), Raised> {
    let count = function.params.len();
    if given > count || given < function.required() {
        let message =
            format!("takes {count} arguments, of which {} are required; {given} are given", function.required());
        return Err(Raised::new(Exception::Type, message));
    }
    let (mut place, mut names) = (None, Names::default());
    for (at, (param, value)) in function.params.iter().zip(values.iter_mut()).enumerate() {
        check_kind(param, value)?;
        let (Some(kind), Value::Tensor(tensor)) = (param.tensor(), &mut *value) else { continue };
        tensor.fit(param, kind)?;
        names.bind(function.params, at, tensor)?;
        check_place(param, tensor, &mut place)?;
        check_alignment(param, kind.align, tensor)?;
    }
    check_overlaps(function, values)?;
    let instance = choose(function, values)?;
    match place {
        Some((_, place)) => Ok((place, instance)),
        None => Err(Raised::new(Exception::Type, "takes at least one tensor")),
    }
}

/// Makes of an argument what the parameter takes: a default for a missing one, a float for an int.
fn check_kind(param: &Param, value: &mut Value<'_>) -> std::result::Result<(), Raised> {
    match (&param.kind, &*value) {
        (Kind::Tensor(_), Value::Tensor(_)) => return Ok(()),
        (_, Value::Missing) => *value = param.default.map_or(Value::Missing, default),
        _ => {}
    }
    let expected = match (&param.kind, &*value) {
        (_, Value::Missing) if param.optional => return Ok(()),
        (Kind::Float(ty), Value::Float(number)) if ty.overflows(*number) => return Err(too_large(param, *ty, number)),
        (Kind::Float(ty), Value::Int(number)) if ty.overflows(*number as f64) => {
            return Err(too_large(param, *ty, number));
        }
        (Kind::Float(_), Value::Float(_)) | (Kind::Bool, Value::Bool(_)) | (Kind::Str, Value::Str(_)) => return Ok(()),
        (Kind::Bytes(size), Value::Str(digits)) if digits.len() == 2 * size => return Ok(()),
        (Kind::Bytes(size), Value::Str(digits)) => {
            let message = format!("expected {size} bytes, found {}", digits.len() / 2);
            return Err(Raised::wrong_value(param.name, message));
        }
        (Kind::Float(_), Value::Int(number)) => {
            *value = Value::Float(*number as f64);
            return Ok(());
        }
        (Kind::Int(..), Value::Bool(truth)) => {
            *value = Value::Int((*truth).into());
            return Ok(());
        }
        (Kind::Int(low, high), Value::Int(number)) if ((*low).into()..=(*high).into()).contains(number) => {
            return Ok(());
        }
        (Kind::Int(low, high), Value::Int(number)) => {
            let message = format!("{number} is outside of {low} to {high}");
            return Err(Raised::wrong_value(param.name, message));
        }
        (Kind::Tensor(_), _) => "a tensor",
        (Kind::Int(..), _) => "an int",
        (Kind::Float(_), _) => "a float",
        (Kind::Bool, _) => "a bool",
        (Kind::Str, _) => "a str",
        (Kind::Bytes(_), _) => "the bytes of a struct",
    };
    Err(Raised::wrong_type(param.name, format!("expected {expected}, found {}", value.kind())))
}

#[cold]
fn too_large(param: &Param, ty: DType, number: impl std::fmt::Debug) -> Raised {
    Raised::wrong_value(param.name, format!("{number:?} is too large for {ty}"))
}

fn default<'a>(default: Default) -> Value<'a> {
    match default {
        Default::Int(value) => Value::Int(value.into()),
        Default::Float(value) => Value::Float(value),
        Default::Bool(value) => Value::Bool(value),
        Default::Str(value) => Value::Str(value),
    }
}

fn check_place<'p>(
    param: &'p Param,
    tensor: &Tensor,
    place: &mut Option<(&'p str, Place)>,
) -> std::result::Result<(), Raised> {
    let (first, known) = *place.get_or_insert((param.name, tensor.place));
    if known == tensor.place {
        return Ok(());
    }
    let message = format!("is on {}, and {first} is on {}", tensor.place.name(), known.name());
    Err(Raised::wrong_value(param.name, message))
}

fn check_alignment(param: &Param, align: usize, tensor: &Tensor) -> std::result::Result<(), Raised> {
    let align = align.max(tensor.dtype.bytes());
    if tensor.address.is_multiple_of(align as u64) || tensor.span == 0 {
        return Ok(());
    }
    let message = format!("its address {:#x} is not a multiple of {align} bytes", tensor.address);
    Err(Raised::wrong_value(param.name, message))
}

/// A written tensor shares no memory with another one.
fn check_overlaps(function: &Function, values: &[Value<'_>]) -> std::result::Result<(), Raised> {
    let tensors = || {
        let both = function.params.iter().zip(values);
        both.filter_map(|(param, value)| match (param.tensor(), value) {
            (Some(kind), Value::Tensor(tensor)) => Some((param, kind.written, tensor)),
            _ => None,
        })
    };
    for (at, (param, _, tensor)) in tensors().enumerate().filter(|(_, (_, written, _))| *written) {
        let others = tensors().enumerate().filter(|(other, (_, written, _))| *other < at || (*other > at && !written));
        for (_, (other, _, memory)) in others {
            if tensor.overlaps(memory) {
                return Err(Raised::wrong_value(param.name, format!("shares memory with {}", other.name)));
            }
        }
    }
    Ok(())
}

/// The instance for the types of the tensors.
pub(crate) fn choose(
    function: &'static Function,
    values: &[Value<'_>],
) -> std::result::Result<&'static Instance, Raised> {
    let fits = |instance: &Instance| mismatch(function, values, instance).is_none();
    if let Some(instance) = function.instances.iter().find(|instance| fits(instance)) {
        return Ok(instance);
    }
    // The message is about the first argument that no instance takes, given those in front of it.
    let furthest =
        function.instances.iter().filter_map(|instance| mismatch(function, values, instance)).max_by_key(|m| m.0);
    let Some((at, ..)) = furthest else { return Err(Raised::new(Exception::Type, "has no instances")) };
    let candidates = function.instances.iter().filter_map(|instance| mismatch(function, values, instance));
    let mut expected: Vec<&str> = candidates.filter(|m| m.0 == at).map(|m| m.1.name()).collect();
    expected.dedup();
    let (name, found) = match (&function.params[at], values.get(at)) {
        (param, Some(Value::Tensor(tensor))) => (param.name, tensor.dtype.name()),
        (param, _) => (param.name, "nothing"),
    };
    Err(Raised::wrong_type(name, format!("expected a tensor of {}, found {found}", expected.join(" or "))))
}

/// The first tensor whose type is not that of an instance, and the instance's.
fn mismatch(function: &Function, values: &[Value<'_>], instance: &Instance) -> Option<(usize, DType)> {
    function.params.iter().zip(values).enumerate().find_map(|(at, (param, value))| {
        let (Some(kind), Value::Tensor(tensor)) = (param.tensor(), value) else { return None };
        let expected = match kind.element {
            Element::Fixed(dtype) => dtype,
            Element::Generic(number) => *instance.types.get(number)?,
        };
        (expected != tensor.dtype).then_some((at, expected))
    })
}
