//! The calling convention of XLA's FFI, API version 0.1 (`xla/ffi/api/c_api.h`): inputs are arguments, outputs results, scalars attributes by
//! their names. The attribute `absent` has a bit for each parameter without a tensor. `updated` counts the outputs that come as inputs, too,
//! behind the others: XLA gives both the same memory, so that the function finds there what was passed. Attributes of other names have no effect.
#![allow(unsafe_code, reason = "a C interface")]

use crate::call::{PARAMS, run};
use crate::dtype::DType;
use crate::error::{Exception, Raised};
use crate::function::{Function, Kind};
use crate::value::{Place, Tensor, Value, Wrong};
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;

#[repr(C)]
struct Extension {
    size: usize,
    kind: i32,
    next: *mut Extension,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct Metadata {
    size: usize,
    version: Version,
    traits: u32,
    state: i64,
}

#[repr(C)]
struct Version {
    size: usize,
    extension: *mut Extension,
    major: i32,
    minor: i32,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Buffers {
    size: usize,
    extension: *mut Extension,
    count: i64,
    kinds: *const i32,
    buffers: *const *const XlaBuffer,
}

#[repr(C)]
struct XlaBuffer {
    size: usize,
    extension: *mut Extension,
    dtype: i32,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

#[repr(C)]
struct Attributes {
    size: usize,
    extension: *mut Extension,
    count: i64,
    kinds: *const i32,
    names: *const *const Text,
    values: *const *const c_void,
}

#[repr(C)]
struct Text {
    data: *const u8,
    size: usize,
}

#[repr(C)]
struct Scalar {
    dtype: i32,
    value: *const c_void,
}

/// `XLA_FFI_CallFrame`.
#[repr(C)]
struct Frame {
    size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: i32,
    args: Buffers,
    rets: Buffers,
    attributes: Attributes,
}

/// `XLA_FFI_Api`, up to the last function that is called.
#[repr(C)]
struct Api {
    size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    create_error: unsafe extern "C" fn(*const ErrorArgs) -> *mut c_void,
    message_of_error: *const c_void,
    destroy_error: unsafe extern "C" fn(*const DestroyArgs),
    register: *const c_void,
    get_stream: unsafe extern "C" fn(*mut GetArgs<*mut c_void>) -> *mut c_void,
    others: [*const c_void; 12],
    get_ordinal: unsafe extern "C" fn(*mut GetArgs<i32>) -> *mut c_void,
}

#[repr(C)]
struct ErrorArgs {
    size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: i32,
}

#[repr(C)]
struct DestroyArgs {
    size: usize,
    extension: *mut Extension,
    error: *mut c_void,
}

#[repr(C)]
struct GetArgs<T> {
    size: usize,
    extension: *mut Extension,
    context: *mut c_void,
    value: T,
}

/// `XLA_FFI_Extension_Metadata`.
const METADATA: i32 = 1;
/// `XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE`: calls with the same arguments launch the same kernels.
const COMMAND_BUFFER_COMPATIBLE: u32 = 1;
/// `XLA_FFI_ExecutionStage_EXECUTE`.
const EXECUTE: i32 = 3;
/// Kinds of attributes.
const SCALAR: i32 = 3;
const STRING: i32 = 4;
/// `XLA_FFI_DataType_PRED`.
const PRED: i32 = 1;
/// Attributes that belong to no parameter.
const ABSENT: &[u8] = b"absent";
const UPDATED: &[u8] = b"updated";
/// The number of a function that was made in this process.
#[cfg(feature = "jit")]
const FUNCTION: &[u8] = b"__function";

/// An exported function as XLA calls it, on a GPU or on the host.
///
/// # Safety
/// `frame` is a call frame of XLA's that lives during the call.
pub unsafe fn call(function: &'static Function, frame: *mut c_void, on_gpu: bool) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { answer(frame, on_gpu, |_| Ok(function)) }
}

/// The same for a function that the attributes of the call name.
///
/// # Safety
/// As [`call`].
#[cfg(feature = "jit")]
pub(crate) unsafe fn call_named(
    frame: *mut c_void,
    on_gpu: bool,
    find: impl FnOnce(i64) -> Result<&'static Function, Raised>,
) -> *mut c_void {
    // SAFETY: passed on.
    unsafe {
        answer(frame, on_gpu, |frame| match attribute(&frame.attributes, FUNCTION) {
            Some(Value::Int(key)) => find(i64::try_from(key).unwrap_or(0)),
            _ => Err(Raised::new(Exception::Type, "the call names no kernel")),
        })
    }
}

/// # Safety
/// As [`call`].
unsafe fn answer(
    frame: *mut c_void,
    on_gpu: bool,
    find: impl FnOnce(&Frame) -> Result<&'static Function, Raised>,
) -> *mut c_void {
    // SAFETY: passed on.
    let frame = unsafe { &mut *frame.cast::<Frame>() };
    // SAFETY: extensions live as long as the frame.
    if let Some(extension) = unsafe { frame.extension.as_ref() }.filter(|extension| extension.kind == METADATA) {
        let extension: *const MetadataExtension = std::ptr::from_ref(extension).cast();
        // SAFETY: the kind is that of this extension.
        let metadata = unsafe { &mut *(*extension).metadata };
        (metadata.version.major, metadata.version.minor) = (0, 1);
        metadata.traits = if on_gpu { COMMAND_BUFFER_COMPATIBLE } else { 0 };
        return null_mut();
    }
    if frame.stage != EXECUTE {
        return null_mut();
    }
    // SAFETY: passed on.
    match find(frame).and_then(|function| unsafe { execute(function, frame, on_gpu) }) {
        Ok(()) => null_mut(),
        Err(raised) => error_of(frame, &raised),
    }
}

/// # Safety
/// As [`call`].
unsafe fn execute(function: &'static Function, frame: &Frame, on_gpu: bool) -> Result<(), Raised> {
    let place = if on_gpu { Place::Cuda(ordinal(frame)?) } else { Place::Host };
    let mut values = Value::none();
    // SAFETY: passed on.
    unsafe { read_all(function, frame, place, &mut values) }.map_err(|raised| raised.within(function.label))?;
    run(function, &mut values, function.params.len(), |_| stream(frame))
}

/// # Safety
/// As [`call`].
unsafe fn read_all<'a>(
    function: &Function,
    frame: &'a Frame,
    place: Place,
    values: &mut [Value<'a>; PARAMS],
) -> Result<(), Raised> {
    let number = |name| {
        // SAFETY: passed on.
        match unsafe { attribute(&frame.attributes, name) } {
            Some(Value::Int(number)) => i64::try_from(number).unwrap_or(0),
            _ => 0,
        }
    };
    let (absent, updated) = (number(ABSENT), number(UPDATED));
    let (mut args, mut rets) = (0, 0);
    for (at, (param, value)) in function.params.iter().zip(values).enumerate() {
        let Some(kind) = param.tensor() else {
            // SAFETY: passed on.
            *value = unsafe { attribute(&frame.attributes, param.name.as_bytes()) }.unwrap_or(Value::Missing);
            // JAX has no attributes of 64 bits without a sign: a larger number is the negative one of the same bits.
            if let (Kind::Int(_, high), Value::Int(number @ ..0)) = (param.kind, *value)
                && i64::try_from(high).is_err()
            {
                *value = Value::Int(number + (1 << 64));
            }
            continue;
        };
        if absent >> at & 1 != 0 {
            continue;
        }
        let (buffers, number) = if kind.written { (&frame.rets, &mut rets) } else { (&frame.args, &mut args) };
        // SAFETY: passed on.
        *value = match unsafe { buffer(buffers, *number) } {
            // SAFETY: passed on.
            Some(buffer) => unsafe { read_buffer(buffer, place) }.map_err(|wrong| wrong.raise(param.name))?,
            None => Value::Missing,
        };
        *number += 1;
    }
    let (counts, found) = ([frame.args.count, frame.rets.count], [args as i64 + updated, rets as i64]);
    match counts == found {
        true => Ok(()),
        false => {
            let message = format!(
                "takes {} inputs and {} outputs; {} and {} are given",
                found[0], found[1], counts[0], counts[1]
            );
            Err(Raised::new(Exception::Type, message))
        }
    }
}

/// # Safety
/// As [`call`].
unsafe fn buffer(buffers: &Buffers, at: usize) -> Option<&XlaBuffer> {
    let inside = usize::try_from(buffers.count).is_ok_and(|count| at < count);
    // SAFETY: the list has that many; kind 1 is a buffer, and the only one.
    inside.then(|| unsafe { &**buffers.buffers.add(at) })
}

/// # Safety
/// As [`call`].
unsafe fn read_buffer<'a>(buffer: &XlaBuffer, place: Place) -> Result<Value<'a>, Wrong> {
    let unknown = || Wrong::Type(format!("type {} of XLA is not supported", buffer.dtype));
    let dtype = DType::from_xla(buffer.dtype).ok_or_else(unknown)?;
    let dims = match usize::try_from(buffer.rank) {
        Ok(0) | Err(_) => &[][..],
        // SAFETY: it has an extent for each dimension.
        Ok(rank) => unsafe { std::slice::from_raw_parts(buffer.dims, rank) },
    };
    Tensor::new((buffer.data as u64, dtype, place), dims, None).map(Value::Tensor)
}

/// The attribute of this name.
///
/// # Safety
/// As [`call`].
unsafe fn attribute<'a>(attributes: &'a Attributes, name: &[u8]) -> Option<Value<'a>> {
    let count = usize::try_from(attributes.count).unwrap_or(0);
    // SAFETY: all three lists have that many; the kind is the type of a value.
    unsafe {
        let is_named = |at: &usize| text(*attributes.names.add(*at)) == name;
        let at = (0..count).find(is_named)?;
        let value = *attributes.values.add(at);
        match *attributes.kinds.add(at) {
            SCALAR => read_scalar(&*value.cast()),
            STRING => std::str::from_utf8(text(value.cast())).ok().map(Value::Str),
            _ => Some(Value::Other("an array or a dictionary")),
        }
    }
}

/// # Safety
/// As [`call`].
unsafe fn text<'a>(text: *const Text) -> &'a [u8] {
    // SAFETY: passed on.
    unsafe { if (*text).size == 0 { &[] } else { std::slice::from_raw_parts((*text).data, (*text).size) } }
}

/// # Safety
/// As [`call`].
unsafe fn read_scalar<'a>(scalar: &Scalar) -> Option<Value<'a>> {
    // SAFETY: the value has the type that the scalar names.
    unsafe {
        Some(match (scalar.dtype, DType::from_xla(scalar.dtype)) {
            (PRED, _) => Value::Bool(*scalar.value.cast::<u8>() != 0),
            (_, Some(DType::F32)) => Value::Float((*scalar.value.cast::<f32>()).into()),
            (_, Some(DType::F64)) => Value::Float(*scalar.value.cast()),
            (_, Some(DType::I32)) => Value::Int((*scalar.value.cast::<i32>()).into()),
            (_, Some(DType::I64)) => Value::Int((*scalar.value.cast::<i64>()).into()),
            (_, Some(DType::U32)) => Value::Int((*scalar.value.cast::<u32>()).into()),
            _ => Value::Other("a scalar of another type"),
        })
    }
}

fn ordinal(frame: &Frame) -> Result<usize, Raised> {
    // SAFETY: the table belongs to the frame.
    let api = unsafe { &*frame.api };
    if api.size < size_of::<Api>() {
        return Err(Raised::new(
            Exception::Runtime,
            "this version of XLA does not tell the device; JAX 0.6 and later do",
        ));
    }
    let args =
        |value| GetArgs { size: size_of::<GetArgs<i32>>(), extension: null_mut(), context: frame.context, value };
    let mut args = args(0);
    // SAFETY: the arguments are those of this function.
    check(api, unsafe { (api.get_ordinal)(&raw mut args) }, "the device")?;
    usize::try_from(args.value).map_err(|_| Raised::new(Exception::Runtime, "XLA gives a negative device ordinal"))
}

fn stream(frame: &Frame) -> Result<*mut c_void, Raised> {
    // SAFETY: the table belongs to the frame.
    let api = unsafe { &*frame.api };
    let size = size_of::<GetArgs<*mut c_void>>();
    let mut args = GetArgs { size, extension: null_mut(), context: frame.context, value: null_mut() };
    // SAFETY: the arguments are those of this function.
    check(api, unsafe { (api.get_stream)(&raw mut args) }, "the stream")?;
    Ok(args.value)
}

/// An error for one that XLA returns.
fn check(api: &Api, error: *mut c_void, what: &str) -> Result<(), Raised> {
    if error.is_null() {
        return Ok(());
    }
    let args = DestroyArgs { size: size_of::<DestroyArgs>(), extension: null_mut(), error };
    // SAFETY: the error is ours.
    unsafe { (api.destroy_error)(&raw const args) };
    Err(Raised::new(Exception::Runtime, format!("XLA does not tell {what} of the call")))
}

fn error_of(frame: &Frame, raised: &Raised) -> *mut c_void {
    let code = match raised.class {
        Exception::Type | Exception::Value => 3,
        Exception::Memory => 8,
        Exception::NotImplemented => 12,
        Exception::Runtime => 13,
    };
    let message = CString::new(raised.message.replace('\0', " ")).unwrap_or_default();
    let args = ErrorArgs { size: size_of::<ErrorArgs>(), extension: null_mut(), message: message.as_ptr(), code };
    // SAFETY: the table belongs to the frame; the message is copied.
    unsafe { ((*frame.api).create_error)(&raw const args) }
}
