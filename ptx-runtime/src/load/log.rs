//! ptxas' log of a module, with the lines of Rust for its lines of PTX.

use crate::kernel::{Module, Variant};
use std::fmt::Write;

/// The log, each line that names a line of the PTX followed by where that comes from, and all of it indented.
pub(crate) fn explain(log: &str, (module, variant): (&Module, &Variant), indent: &str) -> String {
    let mut text = String::new();
    for line in log.lines().filter(|line| !line.trim().is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{indent}{}", line.trim_end());
        if let Some(at) = ptx_line(line) {
            text.push_str(&module.text_or_none(variant).origin(at));
        }
    }
    text
}

/// Returns true if it has what a kernel takes: the driver's does not where it had the machine code in a cache of its
/// own.
pub(super) fn has_figures(log: &str) -> bool {
    log.contains("Function properties for ")
}

/// The number in `ptxas …, line 12; error : …`.
fn ptx_line(message: &str) -> Option<u32> {
    let (_, after) = message.split_once(", line ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LineMap;

    #[test]
    fn lines_lead_to_rust() {
        const LINES: LineMap<'_> = LineMap::new("src/main.rs", "2:0:17");
        static VARIANTS: [Variant; 1] = [Variant::new("sm_80", ".version 7.0\n  add.f99 %f1, %f2;\n", LINES)];
        static MODULE: Module = Module::new("k", &VARIANTS);
        let log = "ptxas application ptx input, line 2; error   : Not a name of any known instruction: 'add.f99'\n\n\
                   ptxas fatal   : Ptx assembly aborted due to errors\n";
        assert_eq!(
            explain(log, (&MODULE, &VARIANTS[0]), "    "),
            "\n    ptxas application ptx input, line 2; error   : Not a name of any known instruction: 'add.f99'\
             \n      --> src/main.rs:17\
             \n       | add.f99 %f1, %f2;\
             \n    ptxas fatal   : Ptx assembly aborted due to errors"
        );
    }
}
