//! PTX as a text of the kernel language whose PTX is the same.

use crate::program::{CompileError, Source};
use ptx_core::emit::rust;
use ptx_core::parse::parse_text;
use ptx_transpile::{Without, module_name, prove::prove};

/// A module of PTX in the kernel language.
#[derive(Clone, Debug)]
pub struct Transpiled {
    /// The text: one `#[ptx_module]`, or `ptx! { … }` where no statement can be raised.
    pub rust: String,
    /// The PTX that it is compiled to: the instructions of the input in their order.
    pub ptx: String,
}

/// Writes a module of PTX as a person would, as far as a comparison of the PTX proves that it is the same. `name` is its file.
///
/// # Errors
/// Everything that is wrong in the PTX.
pub fn transpile(name: &str, ptx: &str) -> Result<Transpiled, CompileError> {
    Source::ptx(name, ptx, "").compile()?;
    let stem = std::path::Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    let (tree, _) = parse_text(ptx);
    // ptxas looks at labels that nothing jumps to.
    let without: Without = ["labels"].into();
    let raised = prove(&tree, &module_name(&stem), &without, &expand);
    Ok(match raised {
        Ok(proved) => Transpiled { rust: proved.text, ptx: proved.ptx },
        Err(_) => Transpiled { rust: rust::plain(&tree, &module_name(&stem)).text, ptx: ptx.to_owned() },
    })
}

/// The PTX of the only module in a text.
fn expand(rust: &str) -> Result<String, String> {
    let modules = ptx_expand::modules(rust).map_err(|error| error.to_string())?;
    match modules.as_slice() {
        [module] if module.ptx.len() == 1 => Ok(module.ptx.concat()),
        _ => Err("the text has another number of modules".to_owned()),
    }
}
