//! A kernel as the macros generate it: the module's PTX in its variants, the entry, its parameters.
//!
//! All of it is `const`. How a module is loaded stands in `load`, how an entry is launched in `launch`.

mod part;
mod text;

pub(crate) use text::Text;

use crate::cache::Cache;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "cpu")]
use crate::launch::CpuProgram;
use crate::load::{CudaKernel, CudaModule};
use crate::param::Param;
use ptx_target::{Contract, Version};
use std::sync::OnceLock;
pub use text::LineMap;

/// A PTX module: the same kernels, assembled for one or several targets.
#[derive(Debug)]
pub struct Module {
    /// Its name in errors: that of the kernel, or the path of the Rust module.
    pub name: &'static str,
    /// One text for each target, in the order of the attribute.
    pub variants: &'static [Variant],
    /// The texts of the packed variants: all of a module in one, because they share most of their lines.
    packed: &'static [u8],
    unpacked: OnceLock<Option<String>>,
    divisions: part::Divisions,
    pub(crate) loaded: Cache<CudaModule>,
    #[cfg(feature = "cpu")]
    pub(crate) interpreted: Cache<CpuProgram>,
}

/// The text of a module for one target.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// `sm_90a`
    pub arch: &'static str,
    text: Stored,
    /// Its machine code, if it was assembled when the program was built.
    pub cubins: &'static [Cubin],
}

/// The place of a text.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Plain(Text<'static>),
    /// `.version`, and the ends of four parts of the unpacked text: of what is before it, of its PTX, of the names of its files, and
    /// of its places.
    Packed(&'static str, [u32; 4]),
}

/// Machine code for one chip, made by ptxas when the program was built.
#[derive(Clone, Copy)]
pub struct Cubin {
    /// `sm_90a`: the chip, as ptxas was told it.
    pub arch: &'static str,
    /// The ELF file.
    pub bytes: &'static [u8],
    /// The log of ptxas: registers and spills.
    pub log: &'static str,
}

impl std::fmt::Debug for Cubin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cubin({}, {} bytes)", self.arch, self.bytes.len())
    }
}

/// An entry of a module, with the options of its attribute. The macros make a `static` of it for every kernel.
#[derive(Debug)]
pub struct Kernel {
    /// The entry's name in the PTX.
    pub entry: &'static str,
    /// Its module.
    pub module: &'static Module,
    /// Its parameters, in order.
    pub params: &'static [Param],
    dynamic_shared: u32,
    /// A bit for each variant in which it waits for the grids before it.
    waits: u32,
    /// Its promises about its machine code.
    contract: Contract,
    pub(crate) on_cuda: Cache<CudaKernel>,
}

impl Module {
    /// A module with these variants; at least one.
    pub const fn new(name: &'static str, variants: &'static [Variant]) -> Module {
        Module::packed(name, variants, &[])
    }

    /// The same with the packed texts of [`Variant::packed`].
    pub const fn packed(name: &'static str, variants: &'static [Variant], packed: &'static [u8]) -> Module {
        Module {
            name,
            variants,
            packed,
            unpacked: OnceLock::new(),
            divisions: part::Divisions::new(),
            loaded: Cache::new(),
            #[cfg(feature = "cpu")]
            interpreted: Cache::new(),
        }
    }

    /// The PTX for each target, in the order of the attribute: `sm_90a` and its text. Programs hold the texts of generated modules
    /// compressed; the first call unpacks them.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] if the program's data is damaged.
    pub fn texts(&self) -> Result<Vec<(&'static str, &str)>> {
        self.variants.iter().map(|variant| Ok((variant.arch, self.text(variant)?.ptx))).collect()
    }

    /// For each target, in the order of the attribute, the lines of Rust that its lines of PTX come from.
    ///
    /// # Errors
    /// As [`texts`](Module::texts).
    pub fn line_maps(&self) -> Result<Vec<LineMap<'_>>> {
        self.variants.iter().map(|variant| Ok(self.text(variant)?.lines)).collect()
    }

    /// The text of one of its variants.
    pub(crate) fn text(&self, variant: &Variant) -> Result<Text<'_>> {
        match variant.text {
            Stored::Plain(text) => Ok(text),
            Stored::Packed(_, ends) => {
                let all = self.unpacked.get_or_init(|| ptx_pack::unpack(self.packed)).as_deref();
                all.and_then(|all| Text::part(all, ends)).ok_or_else(|| self.damaged())
            }
        }
    }

    /// One of its texts with one of its entries alone, if there are others and they share nothing with it. Its lines keep their numbers.
    pub(crate) fn entry_alone(&self, text: Text<'_>, entry: &str) -> Option<String> {
        self.divisions.alone(text.ptx, entry)
    }

    /// The names of the entries of one of its texts, if each of them is assembled alone; else one of them, with which all are.
    pub(crate) fn entry_names<'a>(&self, text: Text<'a>) -> Vec<&'a str> {
        self.divisions.names(text.ptx)
    }

    /// The text that an explanation shows, if there is one.
    pub(crate) fn text_or_none(&self, variant: &Variant) -> Text<'_> {
        self.text(variant).unwrap_or_default()
    }

    #[cold]
    fn damaged(&self) -> Error {
        Error::new(ErrorKind::Load, format!("the compressed PTX of `{}` does not unpack", self.name))
            .possible("the bytes that the macros wrote when the program was built")
            .help("the file of the program is damaged: install or build it again")
    }
}

impl Variant {
    /// The PTX for one target.
    pub const fn new(arch: &'static str, ptx: &'static str, lines: LineMap<'static>) -> Variant {
        Variant { arch, text: Stored::Plain(Text { ptx, lines }), cubins: &[] }
    }

    /// PTX that [`Module::packed`] holds: its `.version`, and the ends of four parts of the unpacked text: of what is before it, of the
    /// PTX, of the names of its files, one a line, and of [`LineMap::places`].
    pub const fn packed(arch: &'static str, version: &'static str, ends: [u32; 4]) -> Variant {
        Variant { arch, text: Stored::Packed(version, ends), cubins: &[] }
    }

    /// The same with its machine code.
    #[must_use]
    pub const fn with_cubins(self, cubins: &'static [Cubin]) -> Variant {
        Variant { cubins, ..self }
    }

    /// `.version` of its PTX.
    pub(crate) fn version(&self) -> Option<Version> {
        match self.text {
            Stored::Plain(text) => text.version(),
            Stored::Packed(version, _) => version.parse().ok(),
        }
    }
}

impl Cubin {
    /// Machine code for a chip, and the log of the ptxas that made it.
    pub const fn new(arch: &'static str, bytes: &'static [u8], log: &'static str) -> Cubin {
        Cubin { arch, bytes, log }
    }
}

impl Kernel {
    /// The entry `entry` of `module`.
    pub const fn new(module: &'static Module, entry: &'static str, params: &'static [Param]) -> Kernel {
        Kernel::sized(module, entry, params, 0)
    }

    /// The same with dynamic shared memory of a type of `dynamic_shared` bytes.
    pub const fn sized(
        module: &'static Module,
        entry: &'static str,
        params: &'static [Param],
        dynamic_shared: u32,
    ) -> Kernel {
        Kernel { entry, module, params, dynamic_shared, waits: 0, contract: Contract::NONE, on_cuda: Cache::new() }
    }

    /// The same. In the variants whose bits are set it waits for the grids before it, with `griddepcontrol.wait`, before it accesses their
    /// memory: there a launch may begin before they have ended.
    #[must_use]
    pub const fn waiting(mut self, variants: u32) -> Kernel {
        self.waits = variants;
        self
    }

    /// The same with promises about its machine code.
    #[must_use]
    pub const fn promising(mut self, contract: Contract) -> Kernel {
        self.contract = contract;
        self
    }

    /// Its promises about its machine code, from its attribute: see [`check_contract`](Kernel::check_contract).
    pub const fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Returns true if it waits for the grids before it in this variant of its module; `None` if it does so in no variant.
    pub(crate) fn waits_in(&self, variant: &Variant) -> Option<bool> {
        let at = self.module.variants.iter().position(|one| std::ptr::eq(one, variant));
        let bits = at.and_then(|at| self.waits.checked_shr(u32::try_from(at).unwrap_or(u32::MAX)));
        (self.waits != 0).then(|| bits.is_some_and(|bits| bits & 1 == 1))
    }

    /// The bytes of its dynamic shared memory, where the type of the variable has a size: `#[shared(dynamic)] let all: All;`.
    /// Else 0.
    pub const fn dynamic_shared(&self) -> u32 {
        self.dynamic_shared
    }

    /// The bytes that the parameters take, and where each starts: each at the next multiple of its alignment.
    #[cfg(any(feature = "cpu", test))]
    pub(crate) fn layout(&self) -> (usize, impl Iterator<Item = (usize, &Param)>) {
        let place = |end: &mut usize, param: &'static Param| {
            let at = end.next_multiple_of(param.align.max(1));
            *end = at + param.size;
            Some((at, param))
        };
        let size = self.params.iter().scan(0, place).last().map_or(0, |(at, param)| at + param.size);
        (size, self.params.iter().scan(0, place))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn packed_texts_are_read_as_plain_ones() {
        const ALL: &str = "twosixty";
        static VARIANTS: [Variant; 2] =
            [Variant::packed("sm_80", "7.0", [0, 3, 3, 3]), Variant::packed("sm_90a", "8.0", [3, 6, 8, 8])];
        let module = Module::packed("m", &VARIANTS, Box::leak(ptx_pack::pack(ALL).into_boxed_slice()));
        assert_eq!(module.texts().unwrap(), [("sm_80", "two"), ("sm_90a", "six")]);
        assert_eq!(module.text(&VARIANTS[1]).unwrap().lines.files, "ty");
        assert_eq!(VARIANTS[1].version().map(|version| version.to_string()).as_deref(), Some("8.0"));
    }

    #[test]
    fn damaged_texts_are_an_error() {
        static VARIANTS: [Variant; 2] =
            [Variant::packed("sm_80", "7.0", [0, 3, 2, 3]), Variant::packed("sm_80", "7.0", [0, 3, 4, 9])];
        static CUT: Module = Module::packed("m", &VARIANTS, b"\x05");
        let ends = Module::packed("m", &VARIANTS, Box::leak(ptx_pack::pack("text").into_boxed_slice()));
        for error in [CUT.texts(), ends.text(&VARIANTS[1]).map(|_| Vec::new())].map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Load);
            assert!(error.to_string().starts_with("the compressed PTX of `m` does not unpack"), "{error}");
        }
    }

    #[test]
    fn parameters_are_aligned() {
        static MODULE: Module = Module::new("m", &[]);
        static PARAMS: [Param; 3] = [Param::value::<f32>("a"), Param::pointer("x"), Param::value::<u16>("n")];
        let kernel = Kernel::new(&MODULE, "k", &PARAMS);
        let (size, at) = kernel.layout();
        assert_eq!(size, 18);
        assert_eq!(at.map(|(at, _)| at).collect::<Vec<_>>(), [0, 8, 16]);
    }
}
