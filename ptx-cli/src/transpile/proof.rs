//! The comparison of the generated Rust with the PTX that it came from: a build's output for it.

use super::assembler;
use crate::output::Failure;
use ptx_core::isa::Arch;
use ptx_core::parse::parse_text;
use ptx_transpile::same;
use std::fmt;

/// The degree to which Rust and PTX agree.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    /// The PTX that a build makes of the Rust, or what it reports.
    pub(super) expanded: Result<String, String>,
    /// It is the input, byte for byte.
    pub(super) identical: bool,
    /// The first difference in its instructions, if any.
    pub(super) difference: Option<String>,
    /// True if the machine code is equal; `None` if it was not compared or ptxas rejects the input.
    pub(super) machine_code: Option<Result<bool, String>>,
}

impl Proof {
    /// Expands the Rust and compares; with `debug`, `.loc` and the like must be there too.
    pub(super) fn of(input: &[u8], rust: &str, debug: bool) -> Proof {
        let expanded = expand(rust);
        let mut proof = Proof { expanded, identical: false, difference: None, machine_code: None };
        if let Ok(ptx) = &proof.expanded {
            proof.identical = ptx.as_bytes() == input;
            let (a, b) = (parse_text(input).0, parse_text(ptx.as_bytes()).0);
            let text = |line: Option<same::Line>| line.map_or_else(|| "nothing".to_owned(), |l| l.text);
            proof.difference = same::difference(&a, &b, debug).map(|d| format!("{} became {}", text(d.a), text(d.b)));
        }
        proof
    }

    /// The result of [`prove`](ptx_transpile::prove::prove).
    pub(super) fn known(input: &[u8], ptx: &str) -> Proof {
        let identical = ptx.as_bytes() == input;
        Proof { expanded: Ok(ptx.to_owned()), identical, difference: None, machine_code: None }
    }

    /// Assembles both.
    pub(super) fn assemble(&mut self, input: &[u8], arch: Arch) -> Result<(), Failure> {
        let Ok(ptx) = &self.expanded else { return Ok(()) };
        let Ok(before) = assembler::code(input, arch)? else { return Ok(()) };
        let after = assembler::code(ptx.as_bytes(), arch)?;
        self.machine_code = Some(after.map(|after| after == before));
        Ok(())
    }

    pub(super) fn holds(&self) -> bool {
        self.expanded.is_ok() && self.difference.is_none() && !matches!(self.machine_code, Some(Ok(false) | Err(_)))
    }
}

/// The PTX of the only module in a Rust source.
pub(super) fn expand(rust: &str) -> Result<String, String> {
    let modules = ptx_expand::modules(rust).map_err(|e| e.to_string())?;
    match modules.as_slice() {
        [only] => only.ptx.first().cloned().ok_or_else(|| "no text".to_owned()),
        _ => Err(format!("{} modules", modules.len())),
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.expanded, &self.difference) {
            (Err(error), _) => write!(f, "does not compile: {error}"),
            (Ok(_), Some(difference)) => write!(f, "not the same: {difference}"),
            (Ok(_), None) if self.identical => f.write_str("the same bytes"),
            (Ok(_), None) => f.write_str("the same instructions"),
        }?;
        match &self.machine_code {
            None => Ok(()),
            Some(Ok(true)) => f.write_str(", the same machine code"),
            Some(Ok(false)) => f.write_str(", OTHER MACHINE CODE"),
            Some(Err(error)) => write!(f, ", refused by ptxas: {error}"),
        }
    }
}
