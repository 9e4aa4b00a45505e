//! The functions of a library, as JSON that Python reads.

#![allow(unsafe_code, reason = "a C interface, and a list of statics")]

use crate::function::{Default, Dim, Element, Function, Kind, Param, TensorKind};
use ptx_target::sort::SortSmall;
use std::ffi::{CString, c_char};
use std::fmt::Write;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A function's place in the list of its library.
pub struct Node {
    function: &'static Function,
    next: AtomicPtr<Node>,
}

/// The functions of this library, the last one first.
static LAST: AtomicPtr<Node> = AtomicPtr::new(null_mut());

impl Node {
    /// A place that is not in the list.
    pub const fn new(function: &'static Function) -> Node {
        Node { function, next: AtomicPtr::new(null_mut()) }
    }
}

/// Puts a function into the list; called once for each when the library is loaded.
pub fn register(node: &'static Node) {
    let at: *mut Node = std::ptr::from_ref(node).cast_mut();
    let mut last = LAST.load(Acquire);
    loop {
        node.next.store(last, Relaxed);
        match LAST.compare_exchange(last, at, AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => last = now,
        }
    }
}

/// The functions of this library, by name.
pub(crate) fn functions() -> Vec<&'static Function> {
    let (mut found, mut at) = (Vec::new(), LAST.load(Acquire).cast_const());
    // SAFETY: the list holds null and addresses of statics.
    while let Some(node) = unsafe { at.as_ref() } {
        found.push(node.function);
        at = node.next.load(Acquire);
    }
    found.sort_small_by_key(|function| function.name);
    found
}

/// The description of all functions, as JSON. The text lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn __ptx_ffi_functions() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let describe = || {
        let functions: Vec<String> = functions().into_iter().map(describe_function).collect();
        CString::new(format!("[{}]", functions.join(","))).unwrap_or_default()
    };
    std::panic::catch_unwind(|| TEXT.get_or_init(describe).as_ptr()).unwrap_or(null())
}

/// A function as a JSON object.
pub(crate) fn describe_function(function: &Function) -> String {
    let params: Vec<String> = function.params.iter().map(describe_param).collect();
    let types = |types: &[crate::DType]| quote_all(types.iter().map(|dtype| dtype.name()));
    let instances: Vec<String> = function.instances.iter().map(|instance| types(instance.types)).collect();
    let parallel =
        function.parallel.iter().map(|parallel| quote_all([parallel.name].into_iter().chain(parallel.groups)));
    format!(
        r#"{{"name":{},"label":{},"doc":{},"backward":{},"parallel":[{}],"types":[{}],"params":[{}]}}"#,
        quote(function.name),
        quote(function.label),
        quote(function.doc),
        function.backward.map_or("null".to_owned(), quote),
        parallel.collect::<Vec<_>>().join(","),
        instances.join(","),
        params.join(",")
    )
}

fn describe_param(param: &Param) -> String {
    let kind = match &param.kind {
        Kind::Tensor(tensor) => describe_tensor(tensor),
        Kind::Int(low, high) => format!(r#""kind":"int","range":[{low},{high}]"#),
        Kind::Float(ty) => format!(r#""kind":"float","dtype":{}"#, quote(ty.name())),
        Kind::Bool => r#""kind":"bool""#.to_owned(),
        Kind::Str => r#""kind":"str""#.to_owned(),
        Kind::Bytes(size) => format!(r#""kind":"bytes","size":{size}"#),
    };
    let default = param.default.map_or(String::new(), |default| format!(r#","default":{}"#, describe_default(default)));
    format!(r#"{{"name":{},{kind},"optional":{}{default}}}"#, quote(param.name), param.optional)
}

fn describe_tensor(tensor: &TensorKind) -> String {
    let element = match tensor.element {
        Element::Fixed(dtype) => quote(dtype.name()),
        Element::Generic(number) => number.to_string(),
    };
    let dim = |dim: &Dim| match dim {
        Dim::Leading => quote(".."),
        Dim::Flat => quote("..."),
        Dim::Name(name, _) => quote(name),
        Dim::Size(size) => size.to_string(),
        Dim::Any => "null".to_owned(),
    };
    let dims: Vec<String> = tensor.dims.iter().map(dim).collect();
    let (written, rank, align) = (tensor.written, tensor.rank, tensor.align);
    format!(
        r#""kind":"tensor","written":{written},"dtype":{element},"rank":{rank},"dims":[{}],"align":{align}"#,
        dims.join(",")
    )
}

fn describe_default(default: Default) -> String {
    match default {
        Default::Int(value) => value.to_string(),
        Default::Float(value) => format!("{value:e}"),
        Default::Bool(value) => value.to_string(),
        Default::Str(value) => quote(value),
    }
}

fn quote_all<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", texts.map(quote).collect::<Vec<_>>().join(","))
}

/// A JSON string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
