//! A kernel as the macros generate it: the module's PTX in its variants, the entry, its parameters.
//!
//! All of it is `const`. How a module is loaded stands in `load`, how an entry is launched in `launch`.

mod part;

use crate::cache::Cache;
#[cfg(feature = "cpu")]
use crate::launch::CpuProgram;
use crate::load::{CudaKernel, CudaModule};
use crate::param::Param;

/// A PTX module: the same kernels, assembled for one or several targets.
#[derive(Debug)]
pub struct Module {
    /// Its name in errors: that of the kernel or of the Rust module.
    pub name: &'static str,
    /// One text for each target, in the order of the attribute.
    pub variants: &'static [Variant],
    pub(crate) loaded: Cache<CudaModule>,
    #[cfg(feature = "cpu")]
    pub(crate) interpreted: Cache<CpuProgram>,
}

/// The text of a module for one target.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// `sm_90a`
    pub arch: &'static str,
    /// The PTX.
    pub ptx: &'static str,
    /// Origin of its lines.
    pub lines: LineMap,
    /// Its machine code, if it was assembled when the program was built.
    pub cubin: Option<Cubin>,
}

/// Machine code for one target, made by ptxas when the program was built.
#[derive(Clone, Copy)]
pub struct Cubin {
    /// The ELF file.
    pub bytes: &'static [u8],
    /// The log of ptxas: registers and spills.
    pub log: &'static str,
}

impl std::fmt::Debug for Cubin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cubin({} bytes)", self.bytes.len())
    }
}

/// Which line of Rust made which line of PTX.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineMap {
    /// The Rust files, as rustc names them.
    pub files: &'static [&'static str],
    /// `5:0:10 7:1:3:9`: where the Rust changes, the line of the PTX, an index into `files` and the line of that file, and the column if
    /// the line of Rust has several instructions. All count from 1 but the index, and the first ascends. A line of PTX that is not listed
    /// belongs to the last one before it. A text, because the compiler reads one literal in no time, and long lists of numbers slowly.
    pub places: &'static str,
}

/// An entry of a module, with what its attribute says. The macros make a `static` of it for every kernel.
#[derive(Debug)]
pub struct Kernel {
    /// The entry's name in the PTX.
    pub entry: &'static str,
    /// Its module.
    pub module: &'static Module,
    /// Its parameters, in order.
    pub params: &'static [Param],
    dynamic_shared: u32,
    pub(crate) on_cuda: Cache<CudaKernel>,
}

impl Module {
    /// A module with these variants; at least one.
    pub const fn new(name: &'static str, variants: &'static [Variant]) -> Module {
        Module {
            name,
            variants,
            loaded: Cache::new(),
            #[cfg(feature = "cpu")]
            interpreted: Cache::new(),
        }
    }
}

impl Variant {
    /// The PTX for one target.
    pub const fn new(arch: &'static str, ptx: &'static str, lines: LineMap) -> Variant {
        Variant { arch, ptx, lines, cubin: None }
    }

    /// The same with its machine code.
    #[must_use]
    pub const fn with_cubin(self, bytes: &'static [u8], log: &'static str) -> Variant {
        Variant { cubin: Some(Cubin { bytes, log }), ..self }
    }

    /// The text with one of its entries alone, if there are others and they share nothing with it. Its lines keep their numbers.
    pub(crate) fn entry_alone(&self, entry: &str) -> Option<String> {
        part::of_entry(self.ptx, entry)
    }

    /// A line of the PTX and where it comes from, as lines to put under a message.
    pub(crate) fn origin(&self, ptx_line: u32) -> String {
        let source = self.lines.place(ptx_line).map(|(file, line, column)| match column {
            Some(column) => format!("\n      --> {file}:{line}:{column}"),
            None => format!("\n      --> {file}:{line}"),
        });
        let ptx = ptx_line.checked_sub(1).and_then(|at| self.ptx.lines().nth(at as usize));
        source.unwrap_or_default() + &ptx.map(|ptx| format!("\n       | {}", ptx.trim())).unwrap_or_default()
    }
}

impl LineMap {
    /// A map; see the fields for the shape.
    pub const fn new(files: &'static [&'static str], places: &'static str) -> LineMap {
        LineMap { files, places }
    }

    /// Returns true if its places are these.
    #[cfg(feature = "check")]
    pub(crate) fn is(&self, places: &str) -> bool {
        self.places == places
    }

    /// The Rust file and line of a line of the PTX.
    pub fn source(&self, ptx_line: u32) -> Option<(&'static str, u32)> {
        self.place(ptx_line).map(|(file, line, _)| (file, line))
    }

    /// The Rust file and line of a line of the PTX, and the column if that line has several instructions.
    fn place(&self, ptx_line: u32) -> Option<(&'static str, u32, Option<u32>)> {
        let starts = |place: &&str| place.split(':').next().and_then(|line| line.parse().ok()) <= Some(ptx_line);
        let mut numbers = self.places.split(' ').take_while(starts).last()?.split(':').skip(1);
        let mut next = || numbers.next()?.parse::<u32>().ok();
        let (file, line) = (next()?, next()?);
        Some((self.files.get(file as usize)?, line, next()))
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
        Kernel { entry, module, params, dynamic_shared, on_cuda: Cache::new() }
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
    use super::*;

    #[test]
    fn lines_belong_to_the_last_one_before() {
        let map = LineMap::new(&["a.rs", "b.rs"], "5:0:10 7:1:3");
        assert_eq!(map.source(4), None);
        assert_eq!(map.source(6), Some(("a.rs", 10)));
        assert_eq!(map.source(70), Some(("b.rs", 3)));
    }

    #[test]
    fn lines_with_several_instructions_have_columns() {
        let map = LineMap::new(&["a.rs"], "5:0:10:9 6:0:10:30 8:0:11");
        let column = |line| map.place(line).and_then(|(_, _, column)| column);
        assert_eq!([4, 5, 6, 7, 8].map(column), [None, Some(9), Some(30), Some(30), None]);
        let variant = Variant::new("sm_80", "\n\n\n\nadd.u32 a, b, c;\nsub.u32 d, e, f;\n", map);
        assert_eq!(variant.origin(6), "\n      --> a.rs:10:30\n       | sub.u32 d, e, f;");
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
