//! Copies to memory by tensor maps: no two of them write the same elements, and all are behind the end of the launch before. Each mutant has a race, or is
//! in a launch that the contract does not describe, and is not proved.

use super::{file, one_in, said};
use ptx_core::check::check;
use ptx_core::parse::parse_text;
use ptx_expand::proof::contract;
use ptx_jit::Source;
use ptx_prove::{Contract, Mapped, Property, Verdict, prove};

/// A block stores boxes of 32 by 2 words, one below the other. The second warp copies, behind the wait of the first one.
const BOXES: &str = "
    #[ptx_kernel(arch = \"sm_90a\", block = 64, grid = g, pdl, requires(g >= 1, g <= 1024, n <= 1024))]
    pub fn k(c: TensorMap, g: u32, n: u32) {
        #[shared(align = 128)] let tile: [[u32; 64]; 1];
        if tid.x < 32 { grid::wait(); }
        let mut turn: u32 = 0;
        while turn < n {
            if tid.x == 32 { tma::wait_read::<0>(); }
            block::sync();
            let to: u32 = tile + tid.x * 4;
            ptx! { st.shared.u32 [to], turn; }
            tma::fence();
            block::sync();
            if tid.x == 32 {
                tma::store_2d(c, ctaid.x * 32, turn * 2, tile);
                tma::commit();
            }
            turn += 1;
        }
        if tid.x == 32 { tma::wait_read::<0>(); }
    }";

/// What mutants of it replace.
const OF_BOXES: [(&str, &str); 12] = [
    // Boxes overlap: of two blocks, of two turns, and of two threads.
    ("ctaid.x * 32", "ctaid.x * 31"),
    ("ctaid.x * 32", "ctaid.x / 2 * 32"),
    ("ctaid.x * 32", "(ctaid.x & 7) * 32"),
    ("ctaid.x * 32", "0"),
    ("turn * 2", "turn"),
    ("turn * 2", "turn / 2 * 2"),
    ("turn * 2", "0"),
    ("tid.x == 32", "(tid.x & 31) == 0"),
    // Two blocks in the other dimension have the same coordinates.
    ("grid = g", "grid = (g, 2)"),
    // A multiple wraps around.
    ("ctaid.x * 32", "ctaid.x * 0x8000_0000"),
    // The launch before may go on.
    ("if tid.x < 32 { grid::wait(); }", "if tid.x < 32 { if n == 5 { grid::wait(); } }"),
    ("if tid.x < 32 { grid::wait(); }", "if ctaid.x > 0 { if tid.x < 32 { grid::wait(); } }"),
];

/// A block copies a box from one map to another one.
const COPIES: &str = "
    #[ptx_kernel(arch = \"sm_90a\", block = 32, grid = g, requires(g >= 1, g <= 1024))]
    pub fn k(a: TensorMap, c: TensorMap, g: u32) {
        #[shared(align = 128)] let tile: [[u32; 64]; 1];
        #[shared(align = 8)] let bar: [u64; 1];
        if tid.x == 0 { ptx! { mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; } }
        block::sync();
        if tid.x == 0 {
            ptx! { mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; }
            tma::load_2d(tile, a, ctaid.x * 32, 0, bar);
            let is_done: pred;
            loop {
                ptx! { mbarrier.try_wait.parity.shared.b64 is_done, [bar], 0; }
                if is_done { break; }
            }
            tma::store_2d(c, ctaid.x * 32, 0, tile);
            tma::commit();
            tma::wait_read::<0>();
        }
    }";

const OF_COPIES: [(&str, &str); 2] = [
    // What one block reads another one writes.
    ("tma::load_2d(tile, a, ctaid.x * 32", "tma::load_2d(tile, c, ctaid.x * 32 + 32"),
    ("tma::store_2d(c", "tma::store_2d(a"),
];

/// Blocks store boxes of a matrix, which is in bands of rows: the tiles of a band are numbered along its columns.
const BANDS: &str = "
    #[ptx_kernel(arch = \"sm_90a\", block = 32, grid = g, requires(
        g >= 1, g <= 1 << 30, rows >= 1, rows <= 1 << 20, columns >= 1, columns <= 1 << 20, rows * columns <= 1 << 31,
        band >= 1, band <= 512, band * columns <= 1 << 31
    ))]
    pub fn k(c: TensorMap, g: u32, rows: u32, columns: u32, band: u32) {
        #[shared(align = 128)] let smem: [[u32; 64]; 1];
        let (to, size): (u32, u32) = (smem + tid.x * 8, band * columns);
        ptx! { st.shared.v2.u32 [to], {0, 0}; }
        tma::fence();
        block::sync();
        let mut tile: u32 = ctaid.x;
        while tile < rows * columns {
            let number: u32 = tile / size;
            invariant!(number * band < rows);
            let (first, inside): (u32, u32) = (number * band, tile - number * size);
            let mut height: u32 = rows - first;
            ptx! { min.u32 height, height, band; }
            invariant!(
                height >= 1 && height <= band && first + height <= rows && (height == band || first + height == rows)
            );
            let column: u32 = inside / height;
            assume!(column < columns);
            let row: u32 = first + inside - column * height;
            invariant!(first <= row && row < first + height);
            if tid.x == 0 {
                tma::store_2d(c, column * 32, row * 2, smem);
                tma::commit();
            }
            tile += nctaid.x;
        }
        if tid.x == 0 { tma::wait_read::<0>(); }
    }";

const OF_BANDS: [(&str, &str); 12] = [
    // The tiles of blocks, or of turns.
    ("tile += nctaid.x", "tile += 1"),
    ("tile += nctaid.x", "tile += nctaid.x / 2 + 1"),
    ("tile: u32 = ctaid.x", "tile: u32 = ctaid.x / 2"),
    ("tile: u32 = ctaid.x", "tile: u32 = 0"),
    // Boxes of one row, one column, or one place of each band.
    ("column * 32, row * 2", "column * 32, 0"),
    ("column * 32, row * 2", "0, row * 2"),
    ("column * 32, row * 2", "column * 32, (row - first) * 2"),
    ("column * 32, row * 2", "column * 32, first * 2"),
    ("column * 32, row * 2", "column * 31, row * 2"),
    ("column * 32, row * 2", "column * 32, row"),
    // The numbers of tiles have gaps, or more lanes store.
    ("tile - number * size", "(tile - number * size) / 2"),
    ("if tid.x == 0 {\n                tma", "if tid.x < 2 {\n                tma"),
];

/// Maps of boxes of 32 by 2 words.
fn maps(names: &[&str]) -> Vec<Mapped> {
    names.iter().map(|map| Mapped { map: (*map).to_owned(), extents: vec![32, 2] }).collect()
}

/// The findings about order that are no proofs.
fn open(text: &str, mapped: Vec<Mapped>) -> Vec<String> {
    let program = Source::text("k.rs", text).without_proofs().compile().unwrap_or_else(|error| panic!("{error}"));
    let module = &program.modules()[0];
    let kernel = &module.kernels[0];
    let ptx = &module.texts[0].ptx;
    let boxes = ["a", "c"].map(|name| (name.to_owned(), 256)).to_vec();
    let contract = Contract { boxes, mapped, ..contract(kernel).unwrap() };
    let (tree, earlier) = parse_text(ptx.as_bytes());
    let checked = check(tree, earlier, &Default::default()).0.unwrap();
    let report = prove(&checked, &kernel.entry, &contract).unwrap();
    let is_open = |verdict: &Verdict| *verdict != Verdict::Proved;
    let open = report.findings.into_iter().filter(|own| own.property != Property::Bounds && is_open(&own.verdict));
    open.map(|own| format!("{:?}: {:?}", own.property, own.verdict)).collect()
}

fn assert_open(text: &str, mutants: &[(&str, &str)], names: &[&str]) {
    let found = open(text, maps(names));
    assert!(found.is_empty(), "{found:?}");
    for (from, to) in mutants {
        let mutant = text.replace(from, to);
        assert_ne!(mutant, text, "{from}");
        assert!(!open(&mutant, maps(names)).is_empty(), "proved: {mutant}");
    }
}

#[test]
fn boxes_of_two_copies_are_apart() {
    assert_open(BOXES, &OF_BOXES, &["c"]);
}

#[test]
fn boxes_of_tiles_in_bands_are_apart() {
    assert_open(BANDS, &one_in(6, OF_BANDS).collect::<Vec<_>>(), &["c"]);
}

#[test]
fn boxes_that_are_read_are_not_written() {
    assert_open(COPIES, &OF_COPIES, &["a", "c"]);
}

#[test]
fn memory_of_maps_is_that_of_others_if_nobody_vouches() {
    assert!(!open(BOXES, Vec::new()).is_empty());
    assert!(!open(COPIES, maps(&["c"])).is_empty());
    assert!(!open(COPIES, maps(&["a"])).is_empty());
    // Larger boxes overlap, and coordinates count only with all extents.
    for extents in [vec![33, 2], vec![32, 3], vec![32], vec![32, 2, 1]] {
        assert!(!open(BOXES, vec![Mapped { map: "c".to_owned(), extents: extents.clone() }]).is_empty(), "{extents:?}");
    }
}

#[test]
fn memory_of_maps_is_told_on_the_command_line() {
    let folder = file("");
    let path = folder.beside("boxes.rs");
    std::fs::write(&path, BOXES).unwrap();
    let prove = |mapped: &str| said(&["prove", path.to_str().unwrap(), "--box", "c=256", "--own-map", mapped]);
    let (code, out, err) = prove("c=32,2");
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, _) = prove("c=33,2");
    assert!(
        code == 2 && out.contains("two copies to memory by the tensor map `c` may write the same elements"),
        "{out}"
    );
    let (code, _, err) = prove("c=33,x");
    assert!(code == 2 && err.contains("such as `c=64,64,1`"), "{err}");
}

/// Stores of both warps behind waits that a barrier orders before them, and others.
#[test]
fn a_wait_of_one_lane_is_passed_on_by_barriers() {
    let wait = "if tid.x < 32 { grid::wait(); }";
    let one = BOXES.replace(wait, "if tid.x == 0 { grid::wait(); }");
    assert_eq!(open(&one, maps(&["c"])), Vec::<String>::new());
    // Behind the last barrier.
    let late = BOXES.replace(wait, "").replace(
        "if tid.x == 32 { tma::wait_read::<0>(); }\n    }",
        "if tid.x < 32 { grid::wait(); } if tid.x == 32 { tma::wait_read::<0>(); }\n    }",
    );
    assert_ne!(late, BOXES);
    assert!(!open(&late, maps(&["c"])).is_empty());
    // Another lane of the warp waits, which orders nothing.
    let store = "if tid.x == 32 {\n                tma::store_2d";
    let lane = BOXES.replace(wait, "").replace(store, &format!("if tid.x == 33 {{ grid::wait(); }} {store}"));
    assert!(lane.contains("tid.x == 33"));
    assert!(!open(&lane, maps(&["c"])).is_empty());
}
