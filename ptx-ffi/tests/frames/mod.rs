//! Arguments and call frames as C programs make them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

pub(crate) type Tvm = unsafe extern "C" fn(*mut c_void, *const ptx_ffi::rt::Any, i32, *mut ptx_ffi::rt::Any) -> c_int;
pub(crate) type Xla = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// An argument.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// Address, codes of DLPack and XLA, shape.
    Tensor(*mut c_void, (u8, i32), &'a [i64]),
}

/// Elements of tensors.
pub(crate) trait Element {
    const CODES: (u8, i32);
}

impl Element for f32 {
    const CODES: (u8, i32) = (2, 11);
}

impl Element for i32 {
    const CODES: (u8, i32) = (0, 4);
}

impl<'a> Arg<'a> {
    pub(crate) fn read<T: Element>(values: &'a [T], shape: &'a [i64]) -> Self {
        Arg::at(values.as_ptr().cast_mut(), shape)
    }

    pub(crate) fn write<T: Element>(values: &'a mut [T], shape: &'a [i64]) -> Self {
        Arg::at(values.as_mut_ptr(), shape)
    }

    pub(crate) fn at<T: Element>(address: *mut T, shape: &'a [i64]) -> Self {
        Arg::Tensor(address.cast(), T::CODES, shape)
    }
}

#[repr(C)]
struct DlTensor(*mut c_void, i32, i32, i32, u8, u8, u16, *const i64, *const i64, u64);

/// Calls a function as TVM-FFI does.
pub(crate) fn call_tvm(function: Tvm, args: &[Arg<'_>]) -> c_int {
    let tensors: Vec<Option<DlTensor>> = args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(at, codes, shape) => {
                Some(DlTensor(*at, 1, 0, shape.len() as i32, codes.0, 32, 1, shape.as_ptr(), null(), 0))
            }
            _ => None,
        })
        .collect();
    let any = |(arg, tensor): (&Arg<'_>, &Option<DlTensor>)| match (arg, tensor) {
        (Arg::Int(value), _) => [1, *value as u64],
        (Arg::Float(value), _) => [3, value.to_bits()],
        (_, Some(tensor)) => [7, std::ptr::from_ref(tensor) as u64],
        _ => [0, 0],
    };
    let values: Vec<[u64; 2]> = args.iter().zip(&tensors).map(any).collect();
    let mut result = [u64::MAX; 2];
    let code = unsafe { function(null_mut(), values.as_ptr().cast(), values.len() as i32, (&raw mut result).cast()) };
    assert_eq!(result == [0, 0], code == 0);
    code
}

#[repr(C)]
struct Buffer(usize, usize, i32, *mut c_void, i64, *const i64);

/// A scalar, a text, and the value that the scalar points to.
type Attribute = (Scalar, Text, u64);

#[repr(C)]
struct Text(*const u8, usize);

#[repr(C)]
struct Scalar(i32, *const c_void);

#[repr(C)]
struct List(usize, usize, i64, *const i32, *const *const c_void);

#[repr(C)]
struct Attributes(List, *const *const c_void);

#[repr(C)]
struct Frame(usize, usize, *const Api, usize, i32, List, List, Attributes);

#[repr(C)]
struct Api {
    head: [usize; 3],
    version: [usize; 3],
    create_error: unsafe extern "C" fn(*const ErrorArgs) -> *mut c_void,
    others: [usize; 17],
}

#[repr(C)]
struct ErrorArgs(usize, usize, *const c_char, i32);

unsafe extern "C" fn create_error(args: *const ErrorArgs) -> *mut c_void {
    let (message, code) = unsafe { (CStr::from_ptr((*args).2).to_str().unwrap().to_owned(), (*args).3) };
    Box::into_raw(Box::new((code, message))).cast()
}

/// Calls a handler as XLA does; returns the error's code and message.
pub(crate) fn call_xla(
    handler: Xla,
    args: &[Arg<'_>],
    rets: &[Arg<'_>],
    attributes: &[(&str, Arg<'_>)],
) -> Option<(i32, String)> {
    let buffer = |arg: &Arg<'_>| match arg {
        Arg::Tensor(at, codes, shape) => Buffer(0, 0, codes.1, *at, shape.len() as i64, shape.as_ptr()),
        _ => unreachable!("inputs and outputs are tensors"),
    };
    let buffers = [args, rets].map(|list| list.iter().map(buffer).collect::<Vec<_>>());
    let pointers = buffers
        .each_ref()
        .map(|list| list.iter().map(|b| std::ptr::from_ref(b).cast()).collect::<Vec<*const c_void>>());
    let names: Vec<Text> = attributes.iter().map(|(name, _)| Text(name.as_ptr(), name.len())).collect();
    let scalars: Vec<(i32, Box<Attribute>)> = attributes
        .iter()
        .map(|(_, value)| match value {
            Arg::Int(value) => (3, Box::new((Scalar(5, null()), Text(null(), 0), *value as u64))),
            Arg::Float(value) => (3, Box::new((Scalar(12, null()), Text(null(), 0), value.to_bits()))),
            Arg::Text(text) => (4, Box::new((Scalar(0, null()), Text(text.as_ptr(), text.len()), 0))),
            Arg::Tensor(..) => unreachable!("attributes are scalars"),
        })
        .map(|(kind, mut value)| {
            value.0.1 = (&raw const value.2).cast();
            (kind, value)
        })
        .collect();
    let kinds: Vec<i32> = scalars.iter().map(|scalar| scalar.0).collect();
    let name_pointers: Vec<*const c_void> = names.iter().map(|name| std::ptr::from_ref(name).cast()).collect();
    let values: Vec<*const c_void> = scalars
        .iter()
        .map(|(kind, value)| if *kind == 3 { (&raw const value.0).cast() } else { (&raw const value.1).cast() })
        .collect();
    let api = Api { head: [size_of::<Api>(), 0, 0], version: [0; 3], create_error, others: [0; 17] };
    let list = |pointers: &Vec<*const c_void>| List(0, 0, pointers.len() as i64, null(), pointers.as_ptr());
    let named = List(0, 0, names.len() as i64, kinds.as_ptr(), name_pointers.as_ptr());
    let mut frame =
        Frame(0, 0, &raw const api, 0, 3, list(&pointers[0]), list(&pointers[1]), Attributes(named, values.as_ptr()));
    let error: *mut (i32, String) = unsafe { handler((&raw mut frame).cast()) }.cast();
    (!error.is_null()).then(|| *unsafe { Box::from_raw(error) })
}

unsafe extern "C" {
    fn __ptx_ffi_functions() -> *const c_char;
    fn __ptx_ffi_jit(request: *const u8, len: usize) -> *mut c_char;
    fn __ptx_ffi_free(text: *mut c_char);
    pub(crate) fn __xla_ffi_ptx_ffi_jit_cpu(frame: *mut c_void) -> *mut c_void;
}

/// The answer to a request.
pub(crate) fn ask(texts: &[&str]) -> String {
    let request: Vec<u8> =
        texts.iter().flat_map(|text| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()).collect();
    let answer = unsafe { __ptx_ffi_jit(request.as_ptr(), request.len()) };
    let text = unsafe { CStr::from_ptr(answer) }.to_str().unwrap().to_owned();
    unsafe { __ptx_ffi_free(answer) };
    text
}

/// The description of the functions in this program.
pub(crate) fn functions() -> String {
    unsafe { CStr::from_ptr(__ptx_ffi_functions()) }.to_str().unwrap().to_owned()
}
