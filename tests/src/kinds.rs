//! The kinds of disagreement that are left knowingly: by what a report of one is told. `tests/README.md` describes what ptxas does in
//! each, what we do, and why. A disagreement of no kind is a mistake of the table or of the checker.

use crate::instruction::Instruction;

/// One of them.
#[derive(Debug)]
pub struct Kind {
    /// As `tests/README.md` names it.
    pub name: &'static str,
    /// The opcodes; any, if there is none.
    opcodes: &'static [&'static str],
    /// One of these stands in an operand; any, if there is none.
    operands: &'static [&'static str],
    /// One of these is said.
    said: &'static [&'static str],
}

/// Those that are known; the first that fits counts.
const KINDS: &[Kind] = &[
    Kind {
        name: "several instructions",
        opcodes: &[
            "mma", "wmma", "tex", "tld4", "multimem", "vadd4", "vsub4", "div", "rem", "rcp", "sqrt", "shfl", "match",
            "cp", "vote", "ldmatrix", "mul", "mad", "mov", "sured", "cvt", "redux", "suld", "sust", "barrier", "red",
        ],
        operands: &[],
        said: &[
            "refused without a line",
            "for instruction 'add'",
            "for instruction 'mov'",
            "for instruction '_mma'",
            "for instruction 'cvt'",
            "for instruction 'dp4a'",
            "for instruction 'st'",
            "for instruction 'ld'",
            "for instruction 'setp'",
            "for instruction 'selp'",
            "does not match formal parameter",
            "must be register or constant",
            "instruction types specified for 'cvt'",
            "elements of different types",
        ],
    },
    Kind {
        name: "predicates as numbers",
        opcodes: &[],
        operands: &[],
        said: &[
            "a `.pred` register cannot be a",
            "a `.pred` register cannot stand beside",
            "cannot stand beside a `.pred` one",
        ],
    },
    Kind { name: "packed halves as predicates", opcodes: &[], operands: &[], said: &["cannot be a `.pred` operand"] },
    Kind { name: "vector registers", opcodes: &[], operands: &[], said: &["wants a scalar register here"] },
    Kind {
        name: "sums that are no numbers",
        opcodes: &[],
        operands: &["+"],
        said: &["wants a register here", "wants a constant here", "this is no operand"],
    },
    Kind { name: "sums of other widths", opcodes: &[], operands: &["+"], said: &["register cannot be a"] },
    Kind {
        name: "special registers and literals",
        opcodes: &[],
        operands: &["%tid", "%clock", "%ntid", "%lane", "%ctaid", "%cluster", "%sm", "%pm", "%env", "0f", "0F", "_"],
        said: &["wants a register here", "wants a vector of", "operands here, not", "is not a combination"],
    },
    Kind {
        name: "names of functions",
        opcodes: &[
            "div",
            "mov",
            "clmad",
            "sust",
            "suld",
            "sured",
            "fns",
            "cvt",
            "rcp",
            "prmt",
            "red",
            "st",
            "add",
            "mul",
            "sqrt",
            "sub",
            "tcgen05",
            "tensormap",
            "multimem",
        ],
        operands: &["f"],
        said: &[
            "wants a register here",
            "is not a combination",
            "Arguments mismatch for instruction 'clmad",
            "Call argument 'f'",
            "Vector expected for argument",
        ],
    },
    Kind { name: "sums", opcodes: &["div"], operands: &["+"], said: &["is not a combination"] },
    Kind {
        name: "minus signs of all operands",
        opcodes: &["vmax4"],
        operands: &["-%"],
        said: &["wants a register here"],
    },
    Kind {
        name: "braces around one register",
        opcodes: &["add", "cvt", "fma", "mov", "mbarrier", "mul", "sub"],
        operands: &["{"],
        said: &["wants a register here", "(this one has 1)"],
    },
    Kind {
        name: "handles as addresses",
        opcodes: &[],
        operands: &["[t", "[u"],
        said: &["the variable is in `.", "operands here, not", "is not a combination"],
    },
    Kind {
        name: "unused addresses of variables",
        opcodes: &["mov"],
        operands: &["g", "c", "s"],
        said: &["is not a combination", "wants a register here"],
    },
    Kind {
        name: "numbers of 64 bits",
        opcodes: &["bar", "barrier", "cp", "multimem"],
        operands: &[],
        said: &["must be a constant"],
    },
    Kind {
        name: "modifiers that mean nothing",
        opcodes: &[],
        operands: &[],
        said: &[
            "has no modifier `.b2`",
            "has no modifier `.acc::f32`",
            "has no modifier `.row`",
            "has no modifier `.sat`",
            "has no modifier `.swizzle_mode`",
            "has no modifier `.interleave_layout`",
            "has no modifier `.element_stride`",
            "has no modifier `.e2m1p4x4`",
            "has no modifier `.fill_mode`",
            "has no modifier `.swizzle_atomicity`",
            "has no modifier `.subnormal`",
            "has no modifier `.notanumber`",
            "has no place here in",
            "`bar` lacks one of",
        ],
    },
    Kind {
        name: "modifiers that mean nothing",
        opcodes: &["bar", "prefetchu"],
        operands: &[],
        said: &["has no modifier"],
    },
    Kind {
        name: "modifiers that mean nothing",
        opcodes: &["fence"],
        operands: &[],
        said: &[
            "Modifier '.async' requires",
            "Multiple .sync_restrict",
            "Multiple .alias",
            "Illegal modifier '.sync_restrict",
        ],
    },
    Kind { name: "offsets in volumes", opcodes: &["tex"], operands: &[], said: &["Illegal modifier '.3d'"] },
    Kind {
        name: "vectors of eight bytes",
        opcodes: &["ld", "st"],
        operands: &["{"],
        said: &["8` is not a combination"],
    },
    Kind {
        name: "modifiers twice or in another order",
        opcodes: &["wmma"],
        operands: &[],
        said: &["Illegal reduction operation", "Unexpected instruction types"],
    },
    Kind {
        name: "literals among coordinates",
        opcodes: &["suld", "sust", "sured"],
        operands: &[],
        said: &["Arguments mismatch for instruction 'su"],
    },
    Kind {
        name: "one value for a vector",
        opcodes: &["sust", "mov", "st"],
        operands: &[],
        said: &["elements in braces here"],
    },
    Kind { name: "narrow addresses", opcodes: &[], operands: &["["], said: &["an address in a 32- or 64-bit"] },
    Kind {
        name: "loosely checked operands",
        opcodes: &["tex", "tld4", "cvt", "st", "sust", "suld", "multimem"],
        operands: &[],
        said: &["register cannot be a", "a literal of this kind cannot be a"],
    },
    Kind {
        name: "loosely checked operands",
        opcodes: &["cp", "mov", "sust"],
        operands: &["{"],
        said: &["cannot stand beside"],
    },
    Kind { name: "loosely checked operands", opcodes: &["st"], operands: &[], said: &["needs PTX 9.0; this"] },
    Kind {
        name: "loosely checked operands",
        opcodes: &["clusterlaunchcontrol"],
        operands: &["{"],
        said: &["wants a vector of 1 element"],
    },
    Kind {
        name: "integers for accumulators",
        opcodes: &["mma", "multimem"],
        operands: &["{"],
        said: &["Arguments mismatch for instruction 'mma'", "Arguments mismatch for instruction 'multimem.st'"],
    },
    Kind {
        name: "sums that are no numbers",
        opcodes: &["mma", "wmma"],
        operands: &["+"],
        said: &["elements in braces here"],
    },
    Kind {
        name: "operands that mean nothing",
        opcodes: &["tex", "tld4"],
        operands: &[],
        said: &["wants an address in brackets"],
    },
    Kind { name: "loosely checked operands", opcodes: &["ld", "ldu"], operands: &[], said: &["operand of `ld"] },
    Kind {
        name: "loosely checked operands",
        opcodes: &["tex", "txq"],
        operands: &["{"],
        said: &["wants a register here", "wants a vector of 1 element"],
    },
    Kind {
        name: "operands that mean nothing",
        opcodes: &["atom"],
        operands: &[],
        said: &["cannot be a `.u64` operand of `atom`"],
    },
    Kind { name: "loosely checked operands", opcodes: &["mov"], operands: &["{"], said: &["register cannot be a"] },
    Kind {
        name: "brackets left out",
        opcodes: &["cp", "fabric"],
        operands: &[],
        said: &["wants an address in brackets"],
    },
    Kind {
        name: "vectors of integers",
        opcodes: &["st"],
        operands: &["{"],
        said: &["a literal of this kind cannot be", "wants a vector of"],
    },
    Kind { name: "addresses without a meaning", opcodes: &["fence"], operands: &["["], said: &["this is no address"] },
];

/// The kind of a disagreement about an instruction; `None` if it is of none.
pub fn kind(instruction: &Instruction, said: &str) -> Option<&'static str> {
    let opcode = instruction.opcode();
    let written = |sign: &&str| instruction.operands.iter().any(|o| o.contains(*sign));
    let fits = |kind: &&Kind| {
        (kind.opcodes.is_empty() || kind.opcodes.contains(&opcode))
            && (kind.operands.is_empty() || kind.operands.iter().any(written))
            && kind.said.iter().any(|sign| said.contains(sign))
    };
    KINDS.iter().find(fits).map(|kind| kind.name)
}
