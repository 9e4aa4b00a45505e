//! Typed options for the driver's assembler. How it is said to the driver stands in `jit`.

use std::fmt;

/// Options of the driver's assembler for one [`Kernel::load_with`](crate::Kernel::load_with). What is not set is the
/// driver's own choice.
///
/// ```
/// use ptx_launch::{JitOptions, Optimization};
/// let options = JitOptions::new().max_registers(64).optimization(Optimization::O2).line_info(true);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct JitOptions {
    pub(super) max_registers: Option<u32>,
    pub(super) block: Option<u32>,
    pub(super) min_blocks: Option<u32>,
    pub(super) over_directives: bool,
    pub(super) optimization: Option<Optimization>,
    pub(super) line_info: Option<bool>,
    pub(super) debug: bool,
    pub(super) cache: Option<CacheMode>,
}

/// Optimization level of the assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Optimization {
    /// Not at all: the quickest to assemble, the slowest to run.
    O0,
    /// A little.
    O1,
    /// More.
    O2,
    /// Nearly all.
    O3,
    /// Everything: what the driver does unless it is told otherwise.
    O4,
}

/// Which caches loads from global memory go through where the PTX does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// The driver's default.
    Default,
    /// L2 only (`ld.cg`).
    L2,
    /// L1 and L2 (`ld.ca`).
    L1,
}

impl JitOptions {
    /// Nothing set.
    pub fn new() -> JitOptions {
        JitOptions::default()
    }

    /// At most so many registers for a thread; more are spilled. A `block` or `max_regs` of the kernel's attribute wins,
    /// unless [`over_directives`](JitOptions::over_directives) is set (driver 12.4).
    pub fn max_registers(self, registers: u32) -> JitOptions {
        JitOptions { max_registers: Some(registers), ..self }
    }

    /// Registers are dealt out so that a block may have so many threads (driver 12.4).
    pub fn max_threads(self, threads: u32) -> JitOptions {
        JitOptions { block: Some(threads), ..self }
    }

    /// Registers are dealt out so that so many blocks fit on a multiprocessor; with
    /// [`max_threads`](JitOptions::max_threads) (driver 12.3).
    pub fn min_blocks(self, blocks: u32) -> JitOptions {
        JitOptions { min_blocks: Some(blocks), ..self }
    }

    /// The three numbers above override the PTX's `.maxnreg`, `.reqntid`, `.maxntid` and `.minnctapersm`
    /// (driver 12.4).
    pub fn over_directives(self, on: bool) -> JitOptions {
        JitOptions { over_directives: on, ..self }
    }

    /// Sets the optimization level.
    pub fn optimization(self, level: Optimization) -> JitOptions {
        JitOptions { optimization: Some(level), ..self }
    }

    /// Includes lines of Rust in the machine code, for profilers. Not set, it does where the PTX has `.loc`
    /// (`lineinfo` in the kernel's attribute).
    pub fn line_info(self, on: bool) -> JitOptions {
        JitOptions { line_info: Some(on), ..self }
    }

    /// Makes the machine code debuggable, which disables optimization.
    pub fn debug(self, on: bool) -> JitOptions {
        JitOptions { debug: on, ..self }
    }

    /// The caches of loads that do not name one.
    pub fn cache(self, mode: CacheMode) -> JitOptions {
        JitOptions { cache: Some(mode), ..self }
    }

    /// `CUjit_option` with its value, for a text.
    pub(super) fn for_text(&self, ptx: &str) -> impl Iterator<Item = (i32, usize)> + use<> {
        const MAX_REGISTERS: i32 = 0;
        const OPTIMIZATION_LEVEL: i32 = 7;
        const GENERATE_DEBUG_INFO: i32 = 11;
        const GENERATE_LINE_INFO: i32 = 13;
        const CACHE_MODE: i32 = 14;
        const MIN_CTA_PER_SM: i32 = 31;
        const MAX_THREADS_PER_BLOCK: i32 = 32;
        const OVERRIDE_DIRECTIVE_VALUES: i32 = 33;
        let lines = self.line_info.unwrap_or_else(|| ptx.contains(".loc "));
        let number = |key: i32, value: Option<u32>| value.map(|value| (key, value as usize));
        let flag = |key: i32, on: bool| on.then_some((key, 1));
        [
            number(MAX_REGISTERS, self.max_registers),
            number(MAX_THREADS_PER_BLOCK, self.block),
            number(MIN_CTA_PER_SM, self.min_blocks),
            flag(OVERRIDE_DIRECTIVE_VALUES, self.over_directives),
            self.optimization.map(|level| (OPTIMIZATION_LEVEL, level as usize)),
            flag(GENERATE_LINE_INFO, lines),
            flag(GENERATE_DEBUG_INFO, self.debug),
            self.cache.map(|mode| (CACHE_MODE, mode as usize)),
        ]
        .into_iter()
        .flatten()
    }
}

/// The options that are set, as the calls that set them: `max_registers(64).debug(true)`.
impl fmt::Display for JitOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name}({value})"));
        let flag = |name: &str, on: bool| on.then(|| format!("{name}(true)"));
        let set = [
            number("max_registers", self.max_registers),
            number("max_threads", self.block),
            number("min_blocks", self.min_blocks),
            flag("over_directives", self.over_directives),
            self.optimization.map(|level| format!("optimization({level:?})")),
            self.line_info.map(|on| format!("line_info({on})")),
            flag("debug", self.debug),
            self.cache.map(|mode| format!("cache({mode:?})")),
        ];
        let set: Vec<String> = set.into_iter().flatten().collect();
        f.write_str(if set.is_empty() { "the driver's defaults" } else { "" })?;
        f.write_str(&set.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told() {
        let options = JitOptions::new().max_registers(64).optimization(Optimization::O1).cache(CacheMode::L2);
        assert_eq!(options.to_string(), "max_registers(64).optimization(O1).cache(L2)");
        assert_eq!(options.for_text("").collect::<Vec<_>>(), [(0, 64), (7, 1), (14, 1)]);
        assert_eq!(JitOptions::new().to_string(), "the driver's defaults");
        assert_eq!(JitOptions::new().for_text("    .loc 1 2 3").collect::<Vec<_>>(), [(13, 1)]);
        assert_eq!(JitOptions::new().line_info(false).for_text("    .loc 1 2 3").count(), 0);
    }
}
