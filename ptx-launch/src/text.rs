//! One launch of an entry of a PTX text that is known only while the program runs: for tools. What the macros know when they
//! are compiled, the caller says here. Programs use the typed launches.
#![allow(unsafe_code, reason = "a launch trusts its caller about the arguments")]

use crate::buffer::Buffer;
use crate::config::Config;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, LineMap, Module, Variant};
use crate::launch::launch;
use crate::param::{Arg, Param};

/// An entry of a text.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    /// Its name in errors: the name of its file.
    pub name: &'a str,
    /// Its `.target`: `sm_90a`.
    pub arch: &'a str,
    /// The module.
    pub ptx: &'a str,
    /// The kernel.
    pub entry: &'a str,
    /// Bytes and alignment of each parameter, in order.
    pub params: &'a [(usize, usize)],
}

/// An argument by its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The parameter's bytes.
    Plain(Vec<u8>),
    /// The contents of a buffer, whose address is the argument; after the launch what the kernel has left there. (Not `Buffer`: a
    /// second item of that name would make the compiler spell out the path of the first in every error.)
    Memory(Vec<u8>),
}

/// Loads the text, launches the entry once, and waits for its end. The text and what was made of it stay for the life of the
/// process.
///
/// ```
/// # use ptx_launch::{Config, Device, text};
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) { .reg .b64 %p; \
///            ld.param.u64 %p, [out]; st.global.u32 [%p], 7; ret; }";
/// let k = text::Text { name: "k.ptx", arch: "sm_80", ptx, entry: "k", params: &[(8, 8)] };
/// let mut arguments = [text::Value::Memory(vec![0; 4])];
/// text::run(&Device::cpu(), &k, &Config::grid(1u32).block(1u32), &mut arguments)?;
/// assert_eq!(arguments, [text::Value::Memory(vec![7, 0, 0, 0])]);
/// # Ok::<(), ptx_launch::Error>(())
/// ```
///
/// # Errors
/// Those of a typed launch; [`ErrorKind::BadOption`] if the arguments are not as many and as large as the parameters.
pub fn run(device: &Device, text: &Text<'_>, config: &Config, arguments: &mut [Value]) -> Result<()> {
    let mut buffers = Vec::new();
    let mut values = Vec::new();
    for argument in &*arguments {
        values.push(match argument {
            Value::Plain(bytes) => bytes.clone(),
            Value::Memory(bytes) => {
                let buffer = device.upload(bytes)?;
                let address = buffer.address().to_le_bytes().to_vec();
                buffers.push(buffer);
                address
            }
        });
    }
    if !values.iter().map(Vec::len).eq(text.params.iter().map(|(size, _)| *size)) {
        let sizes: Vec<usize> = text.params.iter().map(|(size, _)| *size).collect();
        let message = format!("`{}` takes parameters of {sizes:?} bytes", text.entry);
        return Err(Error::new(ErrorKind::BadOption, message));
    }
    let kernel = kernel(text);
    let args: Vec<Arg<'_>> = values.iter().map(|bytes| Arg::bytes(bytes)).collect();
    let stream = device.stream();
    // SAFETY: there is one argument for each parameter, of its size. The kernel gets the addresses of these buffers alone; one
    // that writes astray spoils what other buffers hold, but every byte there is a value.
    unsafe { launch(kernel, stream.as_stream_ref(), config, &args)? };
    stream.synchronize()?;
    let targets = arguments.iter_mut().filter_map(|a| if let Value::Memory(bytes) = a { Some(bytes) } else { None });
    for (bytes, buffer) in targets.zip(&buffers) {
        *bytes = Buffer::download(buffer)?;
    }
    Ok(())
}

fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}

/// The `static` that the macros generate.
fn kernel(text: &Text<'_>) -> &'static Kernel {
    let variant = Variant::new(leak(text.arch), leak(text.ptx), LineMap::default());
    let module = Box::leak(Box::new(Module::new(leak(text.name), vec![variant].leak())));
    let params = text.params.iter().map(|(size, align)| Param { name: "", size: *size, align: *align });
    Box::leak(Box::new(Kernel::new(module, leak(text.entry), params.collect::<Vec<_>>().leak())))
}
