//! The calling convention of TVM-FFI 0.1 (`tvm/ffi/c_api.h`): an array of tagged 16-byte values, tensors as DLPack's `DLTensor`. The two
//! functions of its library that are called are looked up when they are needed, so that a library loads without it.
#![allow(unsafe_code, reason = "a C interface")]
#![allow(non_snake_case, reason = "the interface's names")]

use crate::call::{PARAMS, run};
use crate::dtype::DType;
use crate::error::{Exception, Raised};
use crate::function::Function;
use crate::symbol::symbol;
use crate::value::{Place, Tensor, Value, Wrong};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// `TVMFFIAny`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Any {
    index: i32,
    /// The length of a short string.
    small: u32,
    payload: [u8; 8],
}

impl Any {
    /// `None`.
    pub const NONE: Any = Any::new(0, [0; 8]);

    const fn new(index: i32, payload: [u8; 8]) -> Any {
        Any { index, small: 0, payload }
    }

    /// An integer.
    pub fn int(value: i64) -> Any {
        Any::new(1, value.to_ne_bytes())
    }

    /// Returns true for an integer below zero.
    pub fn is_negative(&self) -> bool {
        self.index == 1 && i64::from_ne_bytes(self.payload) < 0
    }

    /// A truth value.
    pub fn bool(value: bool) -> Any {
        Any::new(2, u64::from(value).to_ne_bytes())
    }

    /// A number.
    pub fn float(value: f64) -> Any {
        Any::new(3, value.to_ne_bytes())
    }

    /// A tensor, which lives as long as this value is used.
    pub fn tensor(tensor: *const DlTensor) -> Any {
        Any::new(7, (tensor as u64).to_ne_bytes())
    }

    /// A text that ends in a zero, and lives as long as this value is used.
    pub fn text(text: *const c_char) -> Any {
        Any::new(8, (text as u64).to_ne_bytes())
    }
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlTensor {
    /// The address.
    pub data: *mut c_void,
    /// The kind of the device: 1 is the host, 2 CUDA.
    pub device_type: i32,
    /// The number of the device.
    pub device_id: i32,
    /// The number of dimensions.
    pub ndim: i32,
    /// The code of the type.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
    /// The elements of a vector.
    pub lanes: u16,
    /// The extents.
    pub shape: *const i64,
    /// The strides in elements; null for elements in row-major order.
    pub strides: *const i64,
    /// Bytes between the address and the first element.
    pub byte_offset: u64,
}

/// `TVMFFIByteArray`.
#[repr(C)]
struct ByteArray {
    data: *const u8,
    size: usize,
}

/// Bytes of `TVMFFIObject`, behind which the contents of an object lie.
const HEADER: usize = 24;

/// The longest short string.
const SMALL: usize = 7;

/// An exported function as TVM-FFI calls it.
///
/// # Safety
/// `args` has `count` values that live during the call; `result` can be written.
pub unsafe fn call(function: &'static Function, args: *const Any, count: i32, result: *mut Any) -> c_int {
    let given = if args.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    // SAFETY: passed on.
    let args = if given == 0 { &[] } else { unsafe { std::slice::from_raw_parts(args, given) } };
    let mut values = Value::none();
    // SAFETY: the values live during the call.
    let read = unsafe { read_all(function, args, &mut values) };
    let raised = match read.and_then(|()| run(function, &mut values, given, current_stream)) {
        Ok(()) => {
            if !result.is_null() {
                // SAFETY: passed on. None is all zeros.
                unsafe { result.write(Any { index: 0, small: 0, payload: [0; 8] }) };
            }
            return 0;
        }
        Err(raised) => raised,
    };
    raise(&raised);
    -1
}

/// A function object of TVM-FFI, as the result of a call.
///
/// # Safety
/// `result` can be written.
#[cfg(feature = "jit")]
pub(crate) unsafe fn return_function(
    found: Result<&'static Function, Raised>,
    safe_call: SafeCall,
    result: *mut Any,
) -> c_int {
    let made = found.and_then(|function| {
        static CREATE: OnceLock<Option<Create>> = OnceLock::new();
        let create = CREATE.get_or_init(|| symbol("TVMFFIFunctionCreate"));
        let create = create.ok_or_else(|| Raised::new(Exception::Runtime, "TVM-FFI's library is not loaded"))?;
        let (own, mut object) = (std::ptr::from_ref(function).cast_mut().cast(), std::ptr::null_mut());
        // SAFETY: the function lives as long as the process, so that nothing deletes it.
        match unsafe { create(own, safe_call, None, &raw mut object) } {
            0 => Ok(object),
            _ => Err(Raised::new(Exception::Memory, "TVM-FFI makes no function")),
        }
    });
    match made {
        Ok(object) => {
            let payload = (object as u64).to_ne_bytes();
            // SAFETY: passed on.
            unsafe { result.write(Any { index: 68, small: 0, payload }) };
            0
        }
        Err(raised) => {
            raise(&raised);
            -1
        }
    }
}

/// `TVMFFISafeCallType`
#[cfg(feature = "jit")]
pub(crate) type SafeCall = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;
/// `TVMFFIFunctionCreate`
#[cfg(feature = "jit")]
type Create =
    unsafe extern "C" fn(*mut c_void, SafeCall, Option<unsafe extern "C" fn(*mut c_void)>, *mut *mut c_void) -> c_int;

/// The integer that is the only argument of a call.
///
/// # Safety
/// `args` has `count` values that live during the call.
#[cfg(feature = "jit")]
pub(crate) unsafe fn only_int(args: *const Any, count: i32) -> Option<i64> {
    if args.is_null() || count != 1 {
        return None;
    }
    // SAFETY: passed on.
    let any = unsafe { &*args };
    (any.index == 1).then(|| i64::from_ne_bytes(any.payload))
}

/// # Safety
/// As [`call`].
pub(crate) unsafe fn read_all<'a>(
    function: &Function,
    args: &'a [Any],
    values: &mut [Value<'a>; PARAMS],
) -> Result<(), Raised> {
    for (at, (value, arg)) in values.iter_mut().zip(args).enumerate() {
        // SAFETY: passed on.
        *value = unsafe { read(arg) }.map_err(|wrong| {
            let name = function.params.get(at).map_or("argument", |param| param.name);
            wrong.raise(name).within(function.label)
        })?;
    }
    Ok(())
}

/// # Safety
/// As [`call`].
#[inline(always)]
unsafe fn read(any: &Any) -> Result<Value<'_>, Wrong> {
    let bits = u64::from_ne_bytes(any.payload);
    let pointer = bits as *const u8;
    if pointer.is_null() && is_pointer(any.index) {
        return Ok(Value::Other("a null pointer"));
    }
    // SAFETY: the tag is the kind of the pointer; an object's contents lie behind its header.
    unsafe {
        Ok(match any.index {
            0 => Value::Missing,
            1 => Value::Int((bits as i64).into()),
            2 => Value::Bool(bits != 0),
            3 => Value::Float(f64::from_bits(bits)),
            7 => Value::Tensor(read_tensor(&*pointer.cast())?),
            70 => Value::Tensor(read_tensor(&*pointer.add(HEADER).cast())?),
            8 => Value::Str(read_text(std::ffi::CStr::from_ptr(pointer.cast()).to_bytes())?),
            11 => Value::Str(read_text(any.payload.get(..(any.small as usize).min(SMALL)).unwrap_or(&[]))?),
            65 => {
                let text = &*pointer.add(HEADER).cast::<ByteArray>();
                let bytes = if text.size == 0 { &[] } else { std::slice::from_raw_parts(text.data, text.size) };
                Value::Str(read_text(bytes)?)
            }
            78 => read_big_int(any),
            68 => Value::Other("a function"),
            71 | 75 => Value::Other("a list"),
            72 | 76 => Value::Other("a dict"),
            _ => Value::Other("an object"),
        })
    }
}

/// An integer that does not fit 64 bits with a sign.
///
/// # Safety
/// As [`call`].
#[cold]
unsafe fn read_big_int(any: &Any) -> Value<'_> {
    type Content = unsafe extern "C" fn(*const Any) -> ByteArray;
    static CONTENT: OnceLock<Option<Content>> = OnceLock::new();
    let number = CONTENT.get_or_init(|| symbol("TVMFFIBigIntGetContentByteArray")).and_then(|content| {
        // SAFETY: the value is such an integer. Its words stay where they are while it lives, the least significant one first.
        let words = unsafe {
            let words = content(any);
            std::slice::from_raw_parts(words.data, words.size)
        };
        words.try_into().map(i128::from_ne_bytes).ok()
    });
    number.map_or(Value::Other("an int of more than 128 bits"), Value::Int)
}

/// Returns true for the tags of values that lie elsewhere: tensors, C's texts, and all objects.
fn is_pointer(tag: i32) -> bool {
    matches!(tag, 7 | 8 | 64..)
}

fn read_text(bytes: &[u8]) -> Result<&str, Wrong> {
    std::str::from_utf8(bytes).map_err(|_| Wrong::Value("text that is not UTF-8".to_owned()))
}

/// # Safety
/// The shape and the strides, if it has any, have an element for each dimension.
#[inline(always)]
unsafe fn read_tensor(tensor: &DlTensor) -> Result<Tensor, Wrong> {
    let rank = usize::try_from(tensor.ndim).map_err(|_| Wrong::Value("a negative number of dimensions".to_owned()))?;
    let dtype = match tensor.lanes {
        1 => DType::from_dlpack(tensor.code, tensor.bits),
        _ => None,
    };
    let dtype =
        dtype.ok_or_else(|| Wrong::Type(format!("expected a tensor of numbers, found {}", type_name(tensor))))?;
    let place = match (tensor.device_type, usize::try_from(tensor.device_id)) {
        (1 | 3, _) => Place::Host,
        (2 | 13, Ok(ordinal)) => Place::Cuda(ordinal),
        (other, _) => {
            let message = format!("expected a tensor on cpu or cuda, found device type {other} of DLPack");
            return Err(Wrong::Value(message));
        }
    };
    if rank > 0 && tensor.shape.is_null() {
        return Err(Wrong::Value(format!("{rank} dimensions without a shape")));
    }
    let list = |at: *const i64| match rank {
        0 => &[][..],
        // SAFETY: passed on.
        _ => unsafe { std::slice::from_raw_parts(at, rank) },
    };
    let strides = (!tensor.strides.is_null()).then(|| list(tensor.strides));
    let address = if tensor.data.is_null() { 0 } else { (tensor.data as u64).wrapping_add(tensor.byte_offset) };
    Tensor::new((address, dtype, place), list(tensor.shape), strides)
}

/// The type of a tensor that no kernel takes.
fn type_name(tensor: &DlTensor) -> String {
    let (bits, lanes) = (tensor.bits, tensor.lanes);
    match (tensor.code, lanes) {
        (6, 1) => "bool".to_owned(),
        (5, 1) => format!("complex{bits}"),
        (7..=14, 1) => "a float of 8 bits".to_owned(),
        (code, _) => format!("code {code}, {bits} bits, {lanes} lanes of DLPack"),
    }
}

/// The stream of a GPU that is current in TVM-FFI: Python sets it for each call from the framework of the tensors.
fn current_stream(ordinal: usize) -> Result<*mut c_void, Raised> {
    type GetStream = unsafe extern "C" fn(i32, i32) -> *mut c_void;
    static GET: OnceLock<Option<GetStream>> = OnceLock::new();
    match GET.get_or_init(|| symbol("TVMFFIEnvGetStream")) {
        // SAFETY: 2 is CUDA.
        Some(get) => Ok(unsafe { get(2, ordinal as i32) }),
        None => Err(Raised::new(Exception::Runtime, "TVM-FFI's library is not loaded")),
    }
}

/// Sets the exception that the caller raises.
fn raise(raised: &Raised) {
    type SetRaised = unsafe extern "C" fn(*const c_char, *const c_char);
    static SET: OnceLock<Option<SetRaised>> = OnceLock::new();
    let class = match raised.class {
        Exception::Type => c"TypeError",
        Exception::Value => c"ValueError",
        Exception::Memory => c"MemoryError",
        Exception::NotImplemented => c"NotImplementedError",
        Exception::Runtime => c"RuntimeError",
    };
    let message = CString::new(raised.message.replace('\0', " ")).unwrap_or_default();
    if let Some(set) = SET.get_or_init(|| symbol("TVMFFIErrorSetRaisedFromCStr")) {
        // SAFETY: both texts end in a zero, and are copied.
        unsafe { set(class.as_ptr(), message.as_ptr()) };
    }
}
