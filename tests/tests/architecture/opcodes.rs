//! Comparisons with opcodes. What an instruction is stands in `isa/*.isa`, what it does in `ptx-interp/src/ops/`, what it means to
//! a warning or to the watcher in a table beside them: lists, not branches. A literal that is compared is a branch.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// The files that compare opcodes, how often, and the reason.
pub(crate) const ALLOWED: &[(&str, usize, &str)] = &[
    // Not opcodes, but spelled like one.
    ("ptx-cli/src/lsp/session.rs", 1, "`exit` is a message of the Language Server Protocol"),
    (
        "ptx-core/src/isa/read/lines.rs",
        2,
        "`feature` and `idle` begin lines of the table: what is no instruction, and modifiers without effect",
    ),
    ("ptx-core/src/isa/rule.rs", 1, "`neg` in the notation of rules: the operand has a minus"),
    ("ptx-language/src/lower/call.rs", 2, "`min` and `max` are functions of the kernel language"),
    ("ptx-language/src/lower/constant/builtin.rs", 3, "the same, of constants"),
    ("ptx-language/src/prelude/warp.rs", 3, "an argument of the helper, written in the kernel language"),
    // The shape of control flow: these five end a block or call, in every version of PTX.
    (
        "ptx-language/src/lower/ptx.rs",
        6,
        "nothing falls through `ret`, `exit`, `bra`, `brx` and `trap`; the names in a `call` are not registers",
    ),
    ("ptx-transpile/src/flow.rs", 3, "a jump or a `ret` becomes a statement of Rust"),
    ("ptx-transpile/src/read.rs", 1, "a scope with a call is not one of registers only"),
    ("ptx-transpile/src/same/stream.rs", 1, "`bra.uni` without a guard is `bra`"),
    // The transpiler finds idioms of compilers; each pass is about the instructions that it replaces.
    ("ptx-transpile/src/operators.rs", 5, "moves, and packed operands of `ld`, `st` and `mov`, become expressions"),
    ("ptx-transpile/src/params.rs", 2, "the loads of parameters at the start of a kernel, and their conversions"),
    ("ptx-transpile/src/pointers.rs", 10, "accesses through a parameter show the type of its pointer"),
    ("ptx-transpile/src/waits.rs", 5, "the loop that waits for an mbarrier"),
    // One case of an instruction that shares its code with others.
    ("ptx-language/src/lower/ptx/name.rs", 1, "`st.param` stores the value of a parameter, not its address"),
    ("ptx-interp/src/ops/atomic.rs", 1, "`atom` has a destination and `red` has none"),
    ("ptx-interp/src/ops/float.rs", 1, "`sub` negates its second operand, `add` does not"),
    ("ptx-interp/src/watch/findings/registers.rs", 1, "`setmaxnreg.inc` takes registers, `.dec` gives them"),
    ("ptx-interp/src/watch/follow.rs", 2, "`st` to global memory and `shfl` move values in ways of their own"),
    ("ptx-interp/src/ops/role.rs", 1, "of bulk copies, those that reduce are atomic"),
];

/// Every comparison of a literal with an opcode: the lines, by file.
pub(crate) fn comparisons(crates: &[&str]) -> BTreeMap<String, Vec<usize>> {
    let opcodes = opcodes();
    let mut found = BTreeMap::new();
    for file in crates.iter().flat_map(|krate| source::files(krate)) {
        let path = file.path.strip_prefix(source::root()).unwrap_or(&file.path).to_str().unwrap().to_owned();
        let lines: Vec<usize> = literals(&file.code)
            .filter(|(at, text)| {
                let opcode = text.split(['.', ':']).next().unwrap_or_default();
                opcodes.contains(opcode) && is_compared(&file.code, *at, text.len())
            })
            .map(|(at, _)| source::line(&file.code, at))
            .collect();
        if !lines.is_empty() {
            found.insert(path, lines);
        }
    }
    found
}

/// The first words of the rows of the instruction table.
fn opcodes() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(source::root().join("ptx-core/isa")).unwrap() {
        let path = entry.unwrap().path();
        // These two hold directives, types and special registers.
        let rows = path.extension().is_some_and(|e| e == "isa");
        let text = if rows { std::fs::read_to_string(&path).unwrap() } else { String::new() };
        for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())) {
            let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len());
            all.insert(line[..end].to_owned());
        }
    }
    for word in ["directive", "sreg", "target", "type"] {
        all.remove(word);
    }
    all
}

/// String literals of one line, with their offsets behind the quote.
fn literals(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + code[at..].find('"')? + 1;
            // The character `'"'` opens no string.
            if code[..start - 1].ends_with('\'') && code[start..].starts_with('\'') {
                at = start;
                continue;
            }
            let mut end = start;
            while !code[end..].starts_with('"') {
                end += if code[end..].starts_with('\\') { 1 } else { 0 };
                end += code[end..].chars().next()?.len_utf8();
            }
            at = end + 1;
            if code[start..end].starts_with(|c: char| c.is_ascii_lowercase()) {
                return Some((start, &code[start..end]));
            }
        }
    })
}

/// Returns true for an operand of `==` and `!=`, a pattern, and a prefix that is looked for.
fn is_compared(code: &str, at: usize, len: usize) -> bool {
    let (before, after) = (code[..at - 1].trim_end(), code[at + len + 1..].trim_start());
    let prefix = ["starts_with(", "strip_prefix(", "ends_with(", "Some(", "matches!(", "==", "!=", "|"];
    prefix.iter().any(|p| before.ends_with(p)) || ["=>", "|", "if ", "=="].iter().any(|p| after.starts_with(p))
}
