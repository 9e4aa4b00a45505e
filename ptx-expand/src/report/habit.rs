//! Help for what does not parse as Rust: most of it is C++, or PTX outside of `ptx!`. The compiler reads an attribute's item before the
//! macro does, and its own suggestions are for host code.

use crate::tokens::leaves::Leaves;
use proc_macro2::TokenStream;

/// Leaves of the statement with the error, in a row, and the help for it. The first entry that fits counts.
const HABITS: &[(&[&str], &str)] = &[
    (&["for", "("], "`for i in 0..4 { … }` is unrolled; a loop at run time is `while i < n { …; i += 1; }`"),
    (&["?"], "write `if p { a } else { b }`, or `p.select(a, b)`, which is one `selp`"),
    (&["+", "+"], "write `i += 1;`"),
    (&["-", "-"], "write `i -= 1;`"),
    (&["__shared__"], "write `#[shared] let tile: [f32; 128];`"),
    (&["__device__"], "write `fn name(x: f32) -> f32 { … }` in the kernel's `#[ptx_module]`"),
    (&["__constant__"], "write `static NAME: [f32; 3] = [0.0; 3];`"),
    (&["goto"], "write `break 'label;` or `continue 'label;`, or `bra label;` in `ptx! { … }`"),
    (&["asm", "volatile"], "write the instructions in `ptx! { … }`, with variables as operands"),
    (&["Tile", "<"], TILE),
    (&["TileMut", "<"], TILE),
    (&["float"], TYPES),
    (&["double"], TYPES),
    (&["int"], TYPES),
    (&["unsigned"], TYPES),
    (&["half"], TYPES),
    (&["uint32_t"], TYPES),
    (&["size_t"], TYPES),
];

const TILE: &str = "the dimensions of a tile are names in round brackets: `Tile<f32, (M, N)>`";
const TYPES: &str = "declare a register with `let x: f32 = …;`, and convert it with `x as f32`";

/// The help for `x[i, j]`.
const INDICES: &str =
    "an index is one number; the address of an element is `x.at(i, j)`, and `ld` and `st` in `ptx! { … }` use it";

/// The help where no entry fits.
const RUST: &str = "statements are Rust; instructions of PTX stand in `ptx! { … }`";

/// The help for an error of the parser.
pub fn help(item: TokenStream, error: &syn::Error) -> &'static str {
    if error.to_string().starts_with("comparison operators") {
        return "write parentheses, `(a < b) & (c < d)`: `&`, `|` and `^` bind closer than comparisons";
    }
    let leaves = Leaves::from_stream(item);
    let statement = statement(&leaves, error.span().start());
    let has = |row: &[&str]| statement.windows(row.len()).any(|leaves| leaves == row);
    let habit = HABITS.iter().find(|(row, _)| has(row)).map(|(_, help)| *help);
    let indices = error.to_string().ends_with("expected `]`").then_some(INDICES);
    habit.or(indices).unwrap_or(RUST)
}

/// The leaves of the statement around a place.
fn statement(leaves: &Leaves, place: proc_macro2::LineColumn) -> Vec<&str> {
    let all: Vec<&str> = (0..leaves.spans.len()).map(|at| leaves.leaf(at)).collect();
    let at = leaves.spans.iter().position(|span| span.start() == place).unwrap_or(all.len());
    let ends = |leaf: &&str| matches!(*leaf, ";" | "{" | "}");
    let first = all[..at].iter().rposition(ends).map_or(0, |end| end + 1);
    let len = all[at..].iter().position(ends).unwrap_or(all.len() - at);
    all[first..at + len].to_vec()
}
