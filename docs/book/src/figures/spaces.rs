//! The memory spaces of PTX: which threads see each, and which instructions move its data.

use super::chart::{self, BLUE, GRAY, GREEN, ORANGE, PINK, VIOLET, YELLOW};

/// The scopes, each inside of the next one.
const SCOPES: [&str; 6] = ["thread", "warp", "block", "cluster", "GPU", "system"];

/// A space: its name, the scope that sees it, and the instructions.
struct Space {
    name: &'static str,
    scope: &'static str,
    color: &'static str,
    words: &'static str,
    moved: &'static str,
}

const fn space(
    name: &'static str,
    scope: &'static str,
    color: &'static str,
    words: &'static str,
    moved: &'static str,
) -> Space {
    Space { name, scope, color, words, moved }
}

const SPACES: [Space; 9] = [
    space(".reg", "thread", BLUE, "let x", "every instruction; shfl reads another lane's"),
    space(".local", "thread", GRAY, "arrays", "ld.local, st.local: an array with a varying index, spills"),
    space(".shared", "block", GREEN, "#[shared]", "ld, st, cp.async, TMA; ldmatrix, wgmma and tcgen05.mma read tiles"),
    space(
        "tensor memory",
        "block",
        VIOLET,
        "tcgen05.alloc",
        "tcgen05.mma, .ld, .st, .cp: sums and scales, from sm_100 on",
    ),
    space(
        ".shared::cluster",
        "cluster",
        GREEN,
        "mapa, multicast",
        "ld, st, red.async, TMA: shared memory of the cluster's blocks, from sm_90 on",
    ),
    space(".param", "GPU", YELLOW, "parameters, read only", "ld.param: the arguments of a launch"),
    space(".const", "GPU", YELLOW, "constants, read only", "ld.const"),
    space(".global", "GPU", ORANGE, "&[T], &mut [T]", "ld, st, atom, red, cp.async, TMA"),
    space(
        ".global of others",
        "system",
        PINK,
        "SymmetricBuffer, pinned host memory",
        "ld, st, atom with .sys; multimem",
    ),
];

/// Widths of the names, of a scope and of the instructions; the height of a row.
const NAMES: usize = 120;
const SCOPE: usize = 64;
const MOVED: usize = 480;
const ROW: usize = 28;

pub(super) fn svg() -> String {
    let size = [NAMES + SCOPES.len() * SCOPE + MOVED, (SPACES.len() + 1) * ROW];
    let mut out = chart::open("Memory spaces: who sees each, and what moves its data", size);
    for (at, scope) in SCOPES.iter().enumerate() {
        chart::text(&mut out, [NAMES + at * SCOPE + SCOPE / 2, 18], "gray", scope);
    }
    for (row, space) in SPACES.iter().enumerate() {
        let y = (row + 1) * ROW;
        let scopes = 1 + SCOPES.iter().position(|scope| *scope == space.scope).unwrap_or(0);
        chart::text(&mut out, [NAMES / 2, y + 16], "black", space.name);
        chart::rect(&mut out, [NAMES, y, scopes * SCOPE, ROW - 6], space.color, space.words);
        chart::text(&mut out, [NAMES + SCOPES.len() * SCOPE + MOVED / 2, y + 16], "gray", space.moved);
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_has_a_scope() {
        assert!(SPACES.iter().all(|space| SCOPES.contains(&space.scope)));
    }
}
