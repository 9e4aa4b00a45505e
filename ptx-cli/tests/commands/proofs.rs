//! `proved` in the attribute of a kernel that is compiled from text, and the verdicts on every kernel of the examples and of the library, which
//! are in `docs/proofs.md`.

use super::assert_proved_or;
use expect_test::expect_file;
use ptx_core::check::{Checked, check};
use ptx_core::host::{Expr, Field, Operator, Plain};
use ptx_core::parse::parse_text;
use ptx_core::span::Span;
use ptx_expand::program::contract::Reader;
use ptx_expand::proof::contract;
use ptx_jit::Source;
use ptx_jit::describe::{Kernel, Module};
use ptx_prove::pipeline::{Outcome, Pipeline, explore};
use ptx_prove::{Contract, Finding, Property, Verdict, prove};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The operations of the library.
const LIBRARY: [&str; 9] =
    ["activation", "attention", "comm", "cross_entropy", "gemm", "grouped_gemm", "norm", "rotary", "softmax"];

/// Parts of other operations that an operation names.
const PARTS: [(&str, &str); 2] = [("comm", "gemm/sm90/config"), ("grouped_gemm", "gemm/sm90/config")];

/// The folder of the operations.
const KERNELS: &str = "ptx-kernels/src";

/// An instance of a matrix product.
type Gemm = (&'static str, [u64; 3], (usize, u64));

/// Instances of matrix products whose pipelines are explored: the entry, the bytes of the boxes of A, B and C as `maps` makes them, and the parameter with
/// the offset of the extent along K there, which is at least one where a kernel is launched.
const GEMMS: [Gemm; 4] = [
    ("static_tiles_m64n64k64_1x2_kk_bf16", [4096, 8192, 8192], (3, 16)),
    ("static_tiles_m128n192k64_2x1_kk_bf16", [16384, 12288, 8192], (3, 16)),
    ("claimed_m128n256k64_2x1_kk_bf16_bf16", [16384, 16384, 8192], (5, 8)),
    ("stream_k_m256n192k64_1x2_kk_bf16_bf16", [16384, 24576, 8192], (7, 8)),
];

/// The same of products whose pipelines are explored with the rest of their proofs alone.
const OTHERS: [Gemm; 3] = [
    ("tcgen05_m128n128k64_1x1_kk_bf16", [16384, 16384, 4096], (3, 8)),
    ("product_gathered_m128n256_bf16", [16384, 16384, 8192], (8, 8)),
    ("product_reduced_m128n256_bf16", [16384, 16384, 2048], (14, 8)),
];

/// The kernel whose map of C has a dimension for batches.
const BATCHED: &str = "static_tiles";

/// Columns of a box of C, of two bytes each.
const COLUMNS: u64 = 64;

/// The maps of C: one, or one for each rank.
const RESULTS: [&str; 9] = ["c", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];

/// A kernel by a part of its file's path and by its name, and the bytes of boxes by the names of their maps.
type Mapped = (&'static str, &'static str, &'static [(&'static str, u64)]);

/// Kernels that take tensor maps as they are, with the boxes that a plan makes for the first instance.
const MAPPED: [Mapped; 3] = [
    ("/attention/decode/tma.rs", "decode", &[("k_map", 2048), ("v_map", 2048)]),
    ("/attention/hopper/e4m3/", "forward", &[("q_map", 4096), ("k_map", 10240), ("v_map", 10240)]),
    ("/attention/hopper/forward.rs", "forward", &[("q_map", 8192), ("k_map", 16384), ("v_map", 16384)]),
];

/// An instance of attention.
type Forward = (&'static str, [u64; 3]);

/// Instances of Hopper attention's forward whose pipelines are explored: the entry, and the bytes of the boxes of Q, K and V as their plan makes them.
const FORWARDS: [Forward; 4] = [
    ("forward_d64_bf16", [8192, 16384, 16384]),
    ("forward_d64_causal_bf16", [8192, 16384, 16384]),
    ("forward_d128_bf16", [8192, 16384, 16384]),
    ("forward_d128_causal_bf16", [8192, 16384, 16384]),
];
/// The last part of the path of their kernel's file.
const FORWARD: &str = "attention/hopper/forward.rs";

/// The verdicts on a kernel.
#[derive(Default)]
struct Row {
    /// Its bounds are proved, under its assumptions.
    bounds: bool,
    /// Assumptions that the proofs take for granted.
    assumed: usize,
    /// It is proved that it has no races.
    races: bool,
    /// Its races are proved or refuted.
    decided: bool,
    /// A property is refuted.
    refuted: bool,
    /// The verdict on its pipeline, if it has one.
    pipeline: String,
    /// Why a property is not proved.
    reasons: Vec<String>,
}

/// Entries of `ptx!`, which have no attribute: the grid and the conditions with which their examples launch them.
const OF_PTX: [(&str, &str, &[&str]); 1] = [("clamp", "n.div_ceil(128)", &["len(x) >= 4 * n"])];

/// Attributes with `proved`, kernels, and the beginning of the error; none for a kernel that is proved.
const FROM_TEXT: [(&str, &str, &str); 95] = [
    (
        "block = 32, grid = n.div_ceil(128), requires(n % 4 == 0, x.len() >= n)",
        "#[align(16)] x: &mut [f32], n: u32) { let i = (ctaid.x * 32 + tid.x) * 4; if i < n { let at = x + wide(i) * 4;
         ptx! { st.global.v4.f32 [at], {0.0, 0.0, 0.0, 0.0}; } }",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 128)",
        "x: &mut [f32]) { let at = x + wide(tid.x) * 16; ptx! { st.global.v4.f32 [at], {0.0, 0.0, 0.0, 0.0}; }",
        "alignment is not decided: the address of `x` is known to be a multiple of 4 only",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 32)",
        "x: &[u32]) { let at = (x as u64) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; }",
        "the kernel writes `x`, which its signature only reads",
    ),
    (
        "block = 32, requires(x.len() >= n)",
        "x: &mut [f32], n: u64) { let i = (ctaid.x as u64) * 32 + (tid.x as u64); if i < n { let at = x + i * 4;
         ptx! { st.global.f32 [at], 0.0; } }",
        "[P091",
    ),
    // The address is zero where there are no elements, and only there.
    (
        "block = 32, grid = 1",
        "x: &mut [u32]) { if x as u64 == 0 { let at = x + 4096; ptx! { st.global.u32 [at], 0; } }",
        "bounds are not decided",
    ),
    ("block = 1, grid = 1", "x: &mut [u32]) { if x as u64 != 0 { ptx! { st.global.u32 [x], 0; } }", ""),
    (
        "block = 1, grid = 1",
        "x: &mut [u32]) { if x as u64 != 0 { let at = x + 4; ptx! { st.global.u32 [at], 0; } }",
        "bounds are not decided",
    ),
    (
        "block = 32, grid = 1, pdl, requires(x.len() >= 32)",
        "x: &mut [u32]) { grid::wait(); let at = x + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; }",
        "",
    ),
    // An invariant behind which the access is one step, and one that does not hold.
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; invariant!(i < rows * 32); let at = x.at(i); ptx! { st.global.u32 [at], 0; }",
        "",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows + 1)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; invariant!(i < rows * 32); let at = x.at(i); ptx! { st.global.u32 [at], 0; }",
        "bounds are not decided: the invariant is not proved",
    ),
    // A cut: bounds have nothing else of its registers; numbers of a thread, and of the launch, they keep. Where threads are compared, a cut that is
    // proved is a fact.
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let t = tid.x; let n = rows * 32; cut!(t < 32 && n >= 32); let i = ctaid.x * 32 + t; invariant!(i < n); let at = x.at(i); ptx! { st.global.u32 [at], 0; }",
        "",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i < rows * 32); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i < rows * 32); let at = x.at(i); ptx! { st.global.u32 [at], 0; }",
        "",
    ),
    // Two threads, or two blocks, have one number; and a cut that does not hold leaves one thread alone.
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x / 2; cut!(i < rows * 32); let at = x.at(i); let v = tid.x; ptx! { st.global.u32 [at], v; }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x / 2 * 32 + tid.x; cut!(i < rows * 32); let at = x.at(i); let v = ctaid.x; ptx! { st.global.u32 [at], v; }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i < 1); let at = x.at(0); ptx! { st.global.u32 [at], i; }",
        "bounds are not decided: the invariant is not proved",
    ),
    // The sum over turns is cut, and then each block has numbers of its own, or some have those of others.
    (
        "block = 32, grid = g, requires(x.len() >= 64 * g, g <= 100)",
        "x: &mut [u32], g: u32) { let mut turn: u32 = 0; while turn < 2 { let i = (ctaid.x * 2 + turn) * 32 + tid.x; cut!(i < 64 * g); let at = x.at(i); ptx! { st.global.u32 [at], 0; } turn += 1; }",
        "",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= 64 * g, g <= 100)",
        "x: &mut [u32], g: u32) { let mut turn: u32 = 0; while turn < 2 { let i = (ctaid.x + turn) * 32 + tid.x; cut!(i < 64 * g); let at = x.at(i); let v = ctaid.x; ptx! { st.global.u32 [at], v; } turn += 1; }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i <= rows * 32); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "bounds are not decided",
    ),
    (
        "block = 32, grid = g, requires(x.len() >= rows * 32, rows <= 100, g == rows + 1)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i < rows * 32); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "bounds are not decided: the invariant is not proved",
    ),
    // A sum over the turns of a loop, with and without a register that wraps; with another step, neither the invariant nor the sum holds.
    (
        "block = 1, grid = 1, requires(x.len() >= n, n < 1000)",
        "x: &mut [u32], n: u32) { let (mut i, mut left): (u32, u32) = (0, n); invariant!(i + left <= n); while left > 0 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 1; left -= 1; }",
        "",
    ),
    (
        "block = 1, grid = 1, requires(x.len() >= n, n < 1000)",
        "x: &mut [u32], n: u32) { let (mut i, mut left): (u32, u32) = (0, n); invariant!(i + left <= n); while left > 0 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 2; left -= 1; }",
        "[P091",
    ),
    (
        "block = 1, grid = 1, requires(x.len() >= 8)",
        "x: &mut [u32], n: u32) { let (mut i, mut left): (u32, u32) = (0, n); while left > 0 { if i < 8 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } } i += 3; left -= 1; }",
        "",
    ),
    (
        "block = 1, grid = 1, requires(x.len() >= 2 * n)",
        "x: &mut [u32], n: u32) { let (mut i, mut left): (u32, u32) = (0, n); while left > 0 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 3; left -= 1; }",
        "[P091",
    ),
    // A loop that numbers decide, once for all turns by its invariant; with one element less, and with an invariant that does not hold behind the last turn.
    (
        "block = 32, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { let mut i: u32 = tid.x; invariant!(i >= tid.x); while i < 128 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 32; }",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 127)",
        "x: &mut [u32]) { let mut i: u32 = tid.x; invariant!(i >= tid.x); while i < 128 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 32; }",
        "[P091",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { let mut i: u32 = tid.x; invariant!(i < 128); while i < 128 { let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } i += 32; }",
        "bounds are not decided: the invariant is not proved",
    ),
    // What a number has above the smaller one of it and of another is no less than zero, and what the smaller one has above it may be.
    (
        "block = 32, grid = 1, requires(x.len() > n)",
        "x: &mut [u32], n: u32, m: u32) { let at = x.at(n.max(m) - m); ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() > n)",
        "x: &mut [u32], n: u32, m: u32) { let at = x.at(n.min(m) - m); ptx! { red.global.add.u32 [at], 1; }",
        "[P091",
    ),
    // A copy reads as many bytes as its src-size has, and fills the rest of its 16 bytes with zeros. The last copy reads 8 bytes. In the wrong twins the
    // buffer ends before them, or the src-size may exceed 16.
    (
        "block = 32, grid = 1, requires(x.len() >= 126)",
        "#[align(16)] x: &[u32]) { #[shared(align = 16)] let to: [[b32; 4]; 32]; let (put, from): (u32, u64) = (to + tid.x * 16, x + wide(tid.x) * 16);
         let bytes: u32 = (504 - tid.x * 16).min(16); ptx! { cp.async.cg.shared.global [put], [from], 16, bytes; } cp_async::wait_all();",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 125)",
        "#[align(16)] x: &[u32]) { #[shared(align = 16)] let to: [[b32; 4]; 32]; let (put, from): (u32, u64) = (to + tid.x * 16, x + wide(tid.x) * 16);
         let bytes: u32 = (504 - tid.x * 16).min(16); ptx! { cp.async.cg.shared.global [put], [from], 16, bytes; } cp_async::wait_all();",
        "[P091",
    ),
    (
        "block = 32, grid = 1, requires(x.len() * 4 >= 496 + n, n <= 16)",
        "#[align(16)] x: &[u32], n: u32) { #[shared(align = 16)] let to: [[b32; 4]; 32]; let (put, from): (u32, u64) = (to + tid.x * 16, x + wide(tid.x) * 16);
         ptx! { cp.async.cg.shared.global [put], [from], 16, n; } cp_async::wait_all();",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() * 4 >= 496 + n, n <= 17)",
        "#[align(16)] x: &[u32], n: u32) { #[shared(align = 16)] let to: [[b32; 4]; 32]; let (put, from): (u32, u64) = (to + tid.x * 16, x + wide(tid.x) * 16);
         ptx! { cp.async.cg.shared.global [put], [from], 16, n; } cp_async::wait_all();",
        "bounds are not decided: the copy may be told to read more bytes than it writes",
    ),
    // A divisor that may be negative: on the way here it is positive, or zero, or the number of a register that is large or, with a sign, below zero.
    (
        "block = 32, grid = g, requires(g <= 1000, m <= 1000, x.len() >= 101)",
        "x: &mut [u32], g: u32, m: u32) { if ctaid.x > m { let d: u32 = ctaid.x - m; let q: u32 = 100 / d; let at = x.at(q); ptx! { red.global.add.u32 [at], 1; } }",
        "",
    ),
    (
        "block = 32, grid = g, requires(g <= 1000, m <= 1000, x.len() >= 100)",
        "x: &mut [u32], g: u32, m: u32) { if ctaid.x > m { let d: u32 = ctaid.x - m; let q: u32 = 100 / d; let at = x.at(q); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(g <= 1000, m <= 1000, x.len() >= 101)",
        "x: &mut [u32], g: u32, m: u32) { if ctaid.x >= m { let d: u32 = ctaid.x - m; let q: u32 = 100 / d; let at = x.at(q); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(g <= 1000, m <= 1000, x.len() >= 7)",
        "x: &mut [u32], g: u32, m: u32) { if ctaid.x < m { let d: u32 = ctaid.x - m; let r: u32 = 7 % d; let at = x.at(r); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "block = 32, grid = g, requires(g <= 1000, m <= 1000, x.len() >= 101)",
        "x: &mut [u32], g: u32, m: u32) { if ctaid.x != m { let d: u32 = ctaid.x - m; let q: u32; ptx! { div.s32 q, 100, d; } let at = x.at(q); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    // Barriers with a computed number, each of two warps. In the wrong twins a thread reads what one of another barrier wrote, a barrier has fewer threads
    // than it counts, or lanes of a warp come to two.
    (
        "block = 128, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { #[shared] let s: [u32; 128]; let id: u32 = tid.x / 64 + 1; let (mine, other): (u32, u32) = (s + tid.x * 4, s + (tid.x ^ 32) * 4); let v: u32;
         ptx! { st.shared.u32 [mine], 0; bar.sync id, 64; ld.shared.u32 v, [other]; } let at = x.at(tid.x); ptx! { st.global.u32 [at], v; }",
        "",
    ),
    (
        "block = 128, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { #[shared] let s: [u32; 128]; let id: u32 = tid.x / 64 + 1; let (mine, other): (u32, u32) = (s + tid.x * 4, s + (tid.x ^ 64) * 4); let v: u32;
         ptx! { st.shared.u32 [mine], 0; bar.sync id, 64; ld.shared.u32 v, [other]; } let at = x.at(tid.x); ptx! { st.global.u32 [at], v; }",
        "[P091",
    ),
    (
        "block = 128, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { #[shared] let s: [u32; 128]; let id: u32 = tid.x / 32 % 2 + 1; let (mine, other): (u32, u32) = (s + tid.x * 4, s + (tid.x ^ 32) * 4); let v: u32;
         ptx! { st.shared.u32 [mine], 0; bar.sync id, 64; ld.shared.u32 v, [other]; } let at = x.at(tid.x); ptx! { st.global.u32 [at], v; }",
        "[P091",
    ),
    (
        "block = 128, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { #[shared] let s: [u32; 128]; let id: u32 = tid.x / 32 + 1; let (mine, other): (u32, u32) = (s + tid.x * 4, s + (tid.x ^ 32) * 4); let v: u32;
         ptx! { st.shared.u32 [mine], 0; bar.sync id, 64; ld.shared.u32 v, [other]; } let at = x.at(tid.x); ptx! { st.global.u32 [at], v; }",
        "races are not decided",
    ),
    (
        "block = 128, grid = 1, requires(x.len() >= 128)",
        "x: &mut [u32]) { #[shared] let s: [u32; 128]; let id: u32 = tid.x % 2 + 1; let (mine, other): (u32, u32) = (s + tid.x * 4, s + (tid.x ^ 32) * 4); let v: u32;
         ptx! { st.shared.u32 [mine], 0; bar.sync id, 64; ld.shared.u32 v, [other]; } let at = x.at(tid.x); ptx! { st.global.u32 [at], v; }",
        "races are not decided",
    ),
    // One of two conditions limits nothing by itself.
    (
        "block = 32, grid = g, requires(x.len() >= 32, rows <= 100, g == rows)",
        "x: &mut [u32], rows: u32, g: u32) { let i = ctaid.x * 32 + tid.x; cut!(i < 32 || i < rows * 32); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "bounds are not decided",
    ),
    // The launch before may still read `x`.
    (
        "block = 32, grid = 1, pdl, requires(x.len() >= 32)",
        "x: &mut [u32]) { let at = x + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } grid::wait();",
        "the launch before may still use this memory",
    ),
    // The next launch does not wait for the one before this.
    (
        "block = 32, grid = 1, pdl, requires(x.len() >= 32)",
        "x: &mut [u32], n: u32) { if tid.x < n { grid::wait(); let at = x + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } }",
        "all threads of a block may end without `griddepcontrol.wait`",
    ),
    // A block ends with its last thread: it is enough that one of each block always waits.
    (
        "block = 32, grid = 1, pdl, requires(x.len() >= 1)",
        "x: &mut [u32]) { if tid.x == 7 { grid::wait(); let at = x.at(0); ptx! { st.global.u32 [at], 0; } }",
        "",
    ),
    (
        "block = 64, grid = g, pdl, requires(x.len() >= 1, g < 100)",
        "x: &mut [u32], g: u32) { if ctaid.x != 1 { if tid.x == 7 { grid::wait(); if ctaid.x == 0 { let at = x.at(0); ptx! { st.global.u32 [at], 0; } } } }",
        "all threads of a block may end without `griddepcontrol.wait`",
    ),
    (
        "block = 64, grid = 1, pdl, requires(x.len() >= 1)",
        "x: &mut [u32], n: u32) { if tid.x == 7 { if n != 3 { grid::wait(); let at = x.at(0); ptx! { st.global.u32 [at], 0; } } }",
        "all threads of a block may end without `griddepcontrol.wait`",
    ),
    (
        "block = 64, grid = 1, pdl, requires(x.len() >= 2)",
        "x: &mut [u32]) { if tid.x == 7 { grid::wait(); } if tid.x == 8 { let at = x.at(0); ptx! { st.global.u32 [at], 0; } }",
        "the launch before may still use this memory",
    ),
    // By zero, the quotient is 2^32 - 1.
    (
        "block = 32, grid = 1, requires(x.len() >= 32)",
        "x: &mut [u32], n: u32) { let at = x + wide(tid.x / n) * 4; ptx! { red.global.add.u32 [at], 1; }",
        "[P0916",
    ),
    (
        "block = 32, grid = 1, requires(n > 0, x.len() >= 32)",
        "x: &mut [u32], n: u32) { let at = x + wide(tid.x / n) * 4; ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    // The quotient of the block stays below `rows`, but not with one more block.
    (
        "block = 32, grid = rows * n.div_ceil(32), requires(n > 0, n < 1 << 31, x.len() >= rows)",
        "x: &mut [u32], n: u32, rows: u32) { let at = x.at(ctaid.x / ((n + 31) / 32)); ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 32, grid = rows * n.div_ceil(32) + 1, requires(n > 0, n < 1 << 31, x.len() >= rows)",
        "x: &mut [u32], n: u32, rows: u32) { let at = x.at(ctaid.x / ((n + 31) / 32)); ptx! { red.global.add.u32 [at], 1; }",
        "[P0916",
    ),
    // A quotient by a product stays below a factor where the dividend is below the product: with one more element, or elsewhere, it does not.
    (
        "block = 32, grid = 99, requires(h > 0, w > 0, n > 0, h < 1024, w < 1024, n < 1024, x.len() >= n)",
        "x: &mut [u32], h: u32, w: u32, n: u32) { let i = ctaid.x * 32 + tid.x; if i < n * (h * w) { let at = x.at(i / (h * w)); ptx! { red.global.add.u32 [at], 1; } }",
        "",
    ),
    (
        "block = 32, grid = 99, requires(h > 0, w > 0, n > 0, h < 1024, w < 1024, n < 1024, x.len() >= n)",
        "x: &mut [u32], h: u32, w: u32, n: u32) { let i = ctaid.x * 32 + tid.x; if i <= n * (h * w) { let at = x.at(i / (h * w)); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "block = 32, grid = 99, requires(h > 0, w > 0, n > 0, h < 1024, w < 1024, n < 1024, x.len() >= n)",
        "x: &mut [u32], h: u32, w: u32, n: u32) { let i = ctaid.x * 32 + tid.x; if i < n * (h * w) { let at = x.at(i / (h * w)); ptx! { red.global.add.u32 [at], 1; } }
         let at = x.at(i / (h * w)); ptx! { red.global.add.u32 [at], 1; }",
        "[P091",
    ),
    (
        "block = 32, grid = 99, requires(h > 0, w > 0, n > 0, h < 1024, w < 1024, n < 1024, x.len() >= n)",
        "x: &mut [u32], h: u32, w: u32, n: u32) { let i = ctaid.x * 32 + tid.x; if i < n * (h * w) { let at = x.at(i / (h * n)); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    // Neither is a multiple of 4 in every launch.
    (
        "block = 1, grid = 1, requires(n % 4 == 0 || n < 8, n < 1000, x.len() >= n + 4)",
        "#[align(16)] x: &mut [u32], n: u32) { let at = x.at(n); ptx! { st.global.v4.u32 [at], {0, 0, 0, 0}; }",
        "[P0916",
    ),
    (
        "block = 1, grid = 1, requires(n % 4 == 2, n < 1000, x.len() >= n + 4)",
        "#[align(16)] x: &mut [u32], n: u32) { let at = x.at(n); ptx! { st.global.v4.u32 [at], {0, 0, 0, 0}; }",
        "[P0916",
    ),
    // The alignment that an instance requires: 16 bytes, and 8.
    (
        "block = 1, grid = 1, instances = [(u32, 4), (u64, 2)], requires(x.len() >= 4)",
        "<T, const EACH: u32>(#[align(EACH * size_of::<T>())] x: &mut [T]) { ptx! { st.global.v4.u32 [x], {0, 0, 0, 0}; }",
        "",
    ),
    (
        "block = 1, grid = 1, instances = [(u32, 4), (u32, 2)], requires(x.len() >= 4)",
        "<T, const EACH: u32>(#[align(EACH * size_of::<T>())] x: &mut [T]) { ptx! { st.global.v4.u32 [x], {0, 0, 0, 0}; }",
        "alignment is not decided: the address of `x` is known to be a multiple of 8 only",
    ),
    // An `mbarrier` behind its variable, and one in it, whose order is not described.
    (
        "block = 32, grid = 1, requires(n <= 1)",
        "n: u32) { #[shared] let bar: u64; if tid.x == 0 { mbarrier::init(bar + 8 * n, 1); }",
        "[P0916",
    ),
    (
        "block = 32, grid = 1, requires(n <= 0)",
        "n: u32) { #[shared] let bar: u64; if tid.x == 0 { mbarrier::init(bar + 8 * n, 1); }",
        "races are not decided: its pipeline is not proved: the address of the barrier is not a number",
    ),
    // 16 bytes more than there are.
    (
        "block = 32, grid = 1, requires(n % 4 == 0, x.len() >= n)",
        "#[align(16)] x: &[u32], n: u32) { let bytes = n * 4 + 16; if n < 1000 { ptx! { cp.async.bulk.prefetch.L2.global [x], bytes; } }",
        "[P0916",
    ),
    // Alternatives bound a number: products of three factors. With one more array, or one less in the length, it is not so.
    (
        "block = 32, grid = rows, requires(rows < 1 << 20, arrays == 1 || arrays == 2, columns < 1 << 20, x.len() >= rows * arrays * columns)",
        "x: &mut [u32], rows: u32, arrays: u32, columns: u32) { let mut array: u32 = 0; while array < arrays { if tid.x < columns {
         let at = x.at((ctaid.x * arrays + array) as u64 * columns as u64 + tid.x as u64); ptx! { red.global.add.u32 [at], 1; } } array += 1; }",
        "",
    ),
    (
        "block = 32, grid = rows, requires(rows < 1 << 20, arrays == 1 || arrays == 2, columns < 1 << 20, x.len() >= rows * arrays * columns)",
        "x: &mut [u32], rows: u32, arrays: u32, columns: u32) { let mut array: u32 = 0; while array <= arrays { if tid.x < columns {
         let at = x.at((ctaid.x * arrays + array) as u64 * columns as u64 + tid.x as u64); ptx! { red.global.add.u32 [at], 1; } } array += 1; }",
        "[P091",
    ),
    (
        "block = 32, grid = rows, requires(rows < 1 << 20, arrays == 1 || arrays == 2, columns < 1 << 20, x.len() >= rows * columns)",
        "x: &mut [u32], rows: u32, arrays: u32, columns: u32) { let mut array: u32 = 0; while array < arrays { if tid.x < columns {
         let at = x.at((ctaid.x * arrays + array) as u64 * columns as u64 + tid.x as u64); ptx! { red.global.add.u32 [at], 1; } } array += 1; }",
        "[P091",
    ),
    // A quotient of a number below zero is rounded up: of 1 - 3 and 2 it is -1, and `x` may have one element.
    (
        "block = 1, grid = 1, requires(n >= 1, n < 8, w >= 1, w < 8, x.len() > (n - 3) / w + 1)",
        "x: &mut [u32], n: u32, w: u32) { if n == 1 { let at = x.at(1); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    // A product of a stride and a remainder, with room for the last column, or one element less, or for one column less.
    (
        "block = 32, grid = 8, requires(w > 0, w < 1 << 20, stride < 1 << 30, rows < 1 << 20, x.len() >= (w - 1) * stride + rows)",
        "x: &mut [u32], w: u32, rows: u32, stride: u64) { let i = ctaid.x * 32 + tid.x; let row = i / w; let column = i - row * w;
         if row < rows { let at = x + (column as u64 * stride + row as u64) * 4; ptx! { red.global.add.u32 [at], 1; } }",
        "",
    ),
    (
        "block = 32, grid = 8, requires(w > 0, w < 1 << 20, stride < 1 << 30, rows < 1 << 20, x.len() >= (w - 1) * stride + rows - 1)",
        "x: &mut [u32], w: u32, rows: u32, stride: u64) { let i = ctaid.x * 32 + tid.x; let row = i / w; let column = i - row * w;
         if row < rows { let at = x + (column as u64 * stride + row as u64) * 4; ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "block = 32, grid = 8, requires(w > 1, w < 1 << 20, stride < 1 << 30, rows < 1 << 20, x.len() >= (w - 2) * stride + rows)",
        "x: &mut [u32], w: u32, rows: u32, stride: u64) { let i = ctaid.x * 32 + tid.x; let row = i / w; let column = i - row * w;
         if row < rows { let at = x + (column as u64 * stride + row as u64) * 4; ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    // Choices of a buffer and of its stride go together, and not with the stride of the other one.
    (
        "block = 32, grid = (1, 2), requires(s < 1 << 30, t < 1 << 30, x.len() >= 31 * s + 1, y.len() >= 31 * t + 1)",
        "x: &mut [u32], y: &mut [u32], s: u64, t: u64) { let first = ctaid.y == 0; let (a, b): (u64, u64) = (x, y);
         let at = first.select(a, b) + tid.x as u64 * first.select(s, t) * 4; ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 32, grid = (1, 2), requires(s < 1 << 30, t < 1 << 30, x.len() >= 31 * s + 1, y.len() >= 31 * t + 1)",
        "x: &mut [u32], y: &mut [u32], s: u64, t: u64) { let first = ctaid.y == 0; let (a, b): (u64, u64) = (x, y);
         let at = first.select(a, b) + tid.x as u64 * first.select(t, s) * 4; ptx! { red.global.add.u32 [at], 1; }",
        "[P091",
    ),
    // A stage that returns twice until its phase does, and one stage too many, or one element too few.
    (
        "block = 32, grid = 1, requires(x.len() >= 96, n < 1000)",
        "x: &mut [u32], n: u32) { let (mut stage, mut phase, mut i): (u32, u32, u32) = (0, 0, 0); while i < n { let at = x.at(stage * 32 + tid.x);
         ptx! { red.global.add.u32 [at], phase; } stage += 1; if stage == 3 { stage = 0; phase = phase ^ 1; } i += 1; }",
        "",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 96, n < 1000)",
        "x: &mut [u32], n: u32) { let (mut stage, mut phase, mut i): (u32, u32, u32) = (0, 0, 0); while i < n { let at = x.at(stage * 32 + tid.x);
         ptx! { red.global.add.u32 [at], phase; } stage += 1; if stage == 4 { stage = 0; phase = phase ^ 1; } i += 1; }",
        "[P091",
    ),
    (
        "block = 32, grid = 1, requires(x.len() >= 95, n < 1000)",
        "x: &mut [u32], n: u32) { let (mut stage, mut phase, mut i): (u32, u32, u32) = (0, 0, 0); while i < n { let at = x.at(stage * 32 + tid.x);
         ptx! { red.global.add.u32 [at], phase; } stage += 1; if stage == 3 { stage = 0; phase = phase ^ 1; } i += 1; }",
        "[P091",
    ),
    // Blocks take the parts of `x` by a counter, and hand its number to all threads through shared memory.
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u32], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u32; ptx! { atom.global.add.u32 mine, [at], 1; st.shared.u32 [number], mine; } } block::sync();
         let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "",
    ),
    // The lower half of a number of 64 bits, and its upper half.
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u64], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u64; ptx! { atom.global.add.u64 mine, [at], 1; } let low: u32 = mine as u32; ptx! { st.shared.u32 [number], low; } }
         block::sync(); let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "",
    ),
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u64], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u64; ptx! { atom.global.add.u64 mine, [at], 1; } let high: u32 = (mine >> 32) as u32; ptx! { st.shared.u32 [number], high; } }
         block::sync(); let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "races are not decided",
    ),
    // Two threads of each block count, so that the last one's number is that of another block's first one.
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u32], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x < 2 { let mine: u32; ptx! { atom.global.add.u32 mine, [at], 1; } if tid.x == 0 { ptx! { st.shared.u32 [number], mine; } } }
         block::sync(); let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "races are not decided",
    ),
    // The counter counts in each block alone; another store sets it back; it counts nothing.
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u32], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u32; ptx! { atom.cta.global.add.u32 mine, [at], 1; st.shared.u32 [number], mine; } } block::sync();
         let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "races are not decided",
    ),
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u32], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u32; ptx! { atom.global.add.u32 mine, [at], 1; st.shared.u32 [number], mine; } } block::sync();
         let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         if tid.x == 0 { ptx! { atom.global.exch.b32 _, [at], 0; } }
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "races are not decided",
    ),
    (
        "block = 64, grid = g, requires(g >= 1, g <= 60000, x.len() >= 64 * g, count.len() >= 1)",
        "x: &mut [u32], count: &mut [u32], g: u32) { #[shared] let number: u32; let at = count.at(0);
         if tid.x == 0 { let mine: u32; ptx! { atom.global.max.u32 mine, [at], 1; st.shared.u32 [number], mine; } } block::sync();
         let part: u32; ptx! { ld.shared.u32 part, [number]; } if part >= g { return; } block::sync();
         let to = x.at(part * 64 + tid.x); ptx! { st.global.u32 [to], part; }",
        "races are not decided",
    ),
    // A word of shared memory has one value for all threads that read it between the same barriers, unless one of them writes it.
    (
        "block = 64, grid = 1, requires(x.len() >= 64)",
        "x: &[u32]) { #[shared] let word: u32; let from = x.at(tid.x); let v: u32; ptx! { ld.global.u32 v, [from]; }
         if tid.x == 0 { ptx! { st.shared.u32 [word], v; } } block::sync(); let w: u32; ptx! { ld.shared.u32 w, [word]; }
         if w == 7 { block::sync(); }",
        "",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 64)",
        "x: &[u32]) { #[shared] let word: u32; let from = x.at(tid.x); let v: u32; ptx! { ld.global.u32 v, [from]; }
         if tid.x == 0 { ptx! { st.shared.u32 [word], v; } } block::sync(); let w: u32; ptx! { ld.shared.u32 w, [word]; }
         if w == 7 { block::sync(); } if tid.x == 5 { ptx! { st.shared.u32 [word], v; } }",
        "[P091",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 64)",
        "x: &[u32]) { #[shared] let words: [u32; 2]; let from = x.at(tid.x); let v: u32; ptx! { ld.global.u32 v, [from]; }
         if tid.x < 2 { let to: u32 = words + tid.x * 4; ptx! { st.shared.u32 [to], v; } } block::sync();
         let (w, at): (u32, u32); at = words + (tid.x & 1) * 4; ptx! { ld.shared.u32 w, [at]; } if w == 7 { block::sync(); }",
        "[P091",
    ),
    // A ballot is one number for a warp, and not for a block.
    (
        "block = 64, grid = 1, requires(x.len() >= 64)",
        "x: &[u32]) { let from = x.at(tid.x); let v: u32; ptx! { ld.global.u32 v, [from]; }
         if warp::ballot(v > 3) != 0 { let s: u32 = warp::reduce_sum(v); }",
        "",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 64)",
        "x: &[u32]) { let from = x.at(tid.x); let v: u32; ptx! { ld.global.u32 v, [from]; }
         if warp::ballot(v > 3) != 0 { block::sync(); }",
        "[P091",
    ),
    // A lane reads the number of a known lane of its warp, where all of them come.
    (
        "block = 64, grid = 1, requires(x.len() >= 33)",
        "x: &mut [u32]) { let i: u32 = warp::broadcast::<u32>(tid.x, 0); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 33)",
        "x: &mut [u32]) { let i: u32 = warp::broadcast::<u32>(tid.x, 1); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; }",
        "[P091",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 33)",
        "x: &mut [u32]) { if tid.x != 0 { let i: u32 = warp::broadcast::<u32>(tid.x, 0); let at = x.at(i); ptx! { red.global.add.u32 [at], 1; } }",
        "[P091",
    ),
    // The rank of a block in its cluster is less than the blocks of the cluster.
    (
        "block = 32, grid = 2 * g, cluster = 2, requires(g <= 60000, x.len() >= 64)",
        "x: &mut [u32], g: u32) { let at = x.at(cluster::rank() * 32 + tid.x); ptx! { red.global.add.u32 [at], 1; }",
        "",
    ),
    (
        "block = 32, grid = 2 * g, cluster = 2, requires(g <= 60000, x.len() >= 63)",
        "x: &mut [u32], g: u32) { let at = x.at(cluster::rank() * 32 + tid.x); ptx! { red.global.add.u32 [at], 1; }",
        "[P091",
    ),
    ("block = 32, grid = LIMIT, requires(x.len() >= 32)", "x: &[u32]) {", "there is no `LIMIT` here"),
];

#[test]
fn kernels_from_text_are_proved_or_refused() {
    for (options, kernel, expected) in FROM_TEXT {
        let start = if kernel.starts_with('<') { "" } else { "(" };
        let text = format!("#[ptx_kernel(arch = \"sm_90\", {options}, proved)] pub fn k{start}{kernel} }}");
        match Source::text("k.rs", &text).compile() {
            Ok(program) => {
                assert!(expected.is_empty(), "proved: {text}");
                assert!(program.kernels().all(|kernel| kernel.launch.as_ref().is_ok_and(|launch| launch.proved)));
            }
            Err(error) => {
                let error = error.to_string();
                assert!(!expected.is_empty() && error.contains(expected), "{text}\n{error}");
            }
        }
        assert!(Source::text("k.rs", &text).without_proofs().compile().is_ok() || expected.contains("LIMIT"), "{text}");
    }
}

/// The functions of a struct, the attribute of a kernel that takes it, and the beginning of the error; none for a kernel that is proved.
const WITH_STRUCTS: [(&str, &str, &str); 8] = [
    // A nested array of strides, and what they reach.
    (
        "fn covers(&self, len: u64) -> bool {
            let [row, column] = self.strides[1];
            let last = (u64::from(self.rows) - 1) * row + 31 * column;
            self.rows > 0 && self.rows < 1000 && row < 4096 && column < 4096 && len >= last + 1 }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "",
    ),
    // One element less.
    (
        "fn covers(&self, len: u64) -> bool {
            let [row, column] = self.strides[1];
            let last = (u64::from(self.rows) - 1) * row + 31 * column;
            self.rows > 0 && self.rows < 1000 && row < 4096 && column < 4096 && len >= last }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "bounds are not decided: the conditions do not bound",
    ),
    // The other strides are not those that the kernel reads.
    (
        "fn covers(&self, len: u64) -> bool {
            let [row, column] = self.strides[0];
            let last = (u64::from(self.rows) - 1) * row + 31 * column;
            self.rows > 0 && self.rows < 1000 && row < 4096 && column < 4096 && len >= last + 1 }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "bounds are not decided: the conditions do not bound",
    ),
    // More blocks than rows.
    (
        "fn covers(&self, len: u64) -> bool {
            let [row, column] = self.strides[1];
            let last = (u64::from(self.rows) - 1) * row + 31 * column;
            self.rows > 0 && self.rows < 1000 && row < 4096 && column < 4096 && len >= last + 1 }
         fn grid(&self) -> u32 { self.rows + 1 }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "bounds are not decided: the conditions do not bound",
    ),
    // `all`, `zip`, `if` and a call of another function.
    (
        "fn least(&self) -> u64 { if self.rows < 8 { 8 * 4096 } else { u64::from(self.rows) * 4096 } }
         fn covers(&self, len: u64) -> bool {
            self.strides[1].iter().zip([4064, 1]).all(|(stride, most)| *stride <= most) && self.rows < 1000 && len >= self.least() }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "",
    ),
    (
        "fn least(&self) -> u64 { if self.rows < 8 { 8 * 4096 } else { u64::from(self.rows) * 4000 } }
         fn covers(&self, len: u64) -> bool {
            self.strides[1].iter().zip([4096, 1]).all(|(stride, most)| *stride <= most) && self.rows < 1000 && len >= self.least() }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "bounds are not decided: the conditions do not bound",
    ),
    // A condition without a description is left out: the others suffice, or they do not.
    (
        "fn covers(&self, len: u64) -> bool {
            self.strides[1].iter().all(|stride| *stride <= 1) && self.rows < 1000 && self.rows.is_power_of_two() && len >= 2000 }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "",
    ),
    (
        "fn covers(&self, len: u64) -> bool {
            self.strides[1].iter().all(|stride| *stride <= 1) && self.rows.is_power_of_two() && self.rows < 1000 && len >= 500 }
         fn grid(&self) -> u32 { self.rows }",
        "grid = p.grid(), requires(p.covers(x.len()))",
        "bounds are not decided",
    ),
];

#[test]
fn conditions_read_structs() {
    for (functions, options, expected) in WITH_STRUCTS {
        let text = format!(
            "#[derive(KernelParam)] #[repr(C)] struct P {{ shift: i32, rows: u32, strides: [[u64; 2]; 2] }}
             #[ptx_contract] impl P {{ {functions} }}
             #[ptx_kernel(arch = \"sm_90\", params(P), block = 32, {options}, proved(bounds))]
             pub fn k(x: &mut [f32], p: P) {{
                let at: u64 = x + (p.strides[1][0] * (ctaid.x as u64) + p.strides[1][1] * (tid.x as u64)) * 4;
                ptx! {{ st.global.f32 [at], 0.0; }} }}"
        );
        assert_proved_or(&text, expected);
    }
}

/// Kernels of one warp whose lanes read numbers of each other, and the beginning of the error; none for one whose bounds are proved.
const BETWEEN_LANES: [(&str, &str); 7] = [
    // Each lane limits its number, or half of them do.
    (
        "let from = given.at(tid.x); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; } let of: u32 = warp::scan_max(v);
         let to = x.at(of); ptx! { red.global.add.u32 [to], 1; }",
        "",
    ),
    (
        "let from = given.at(tid.x); let mut v: u32; ptx! { ld.global.u32 v, [from]; } if tid.x < 16 { ptx! { min.u32 v, v, n; } }
         let of: u32 = warp::scan_max(v); let to = x.at(of); ptx! { red.global.add.u32 [to], 1; }",
        "bounds are not decided",
    ),
    // Half of the lanes come to the shuffle.
    (
        "let from = given.at(tid.x); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; } let mut of: u32 = 0;
         if tid.x < 16 { of = warp::broadcast(v, 31); } let to = x.at(of); ptx! { red.global.add.u32 [to], 1; }",
        "bounds are not decided",
    ),
    // All lanes take each turn, since they compare one number; or each compares its own.
    (
        "let (mut end, mut turn): (u32, u32) = (0, 0); invariant!(end <= n);
         while end < m { let from = given.at(tid.x + (turn & 31)); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; }
         end = warp::broadcast(v, 31); turn += 1; } let to = x.at(end); ptx! { red.global.add.u32 [to], 1; }",
        "",
    ),
    (
        "let (mut end, mut turn): (u32, u32) = (0, 0); invariant!(end <= n);
         while end < m + tid.x { let from = given.at(tid.x + (turn & 31)); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; }
         end = warp::broadcast(v, 31); turn += 1; } let to = x.at(end); ptx! { red.global.add.u32 [to], 1; }",
        "bounds are not decided",
    ),
    (
        "let (mut end, mut own, mut turn): (u32, u32, u32) = (0, 0, 0); invariant!(end <= n);
         while own < m { let from = given.at(tid.x + (turn & 31)); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; }
         end = warp::broadcast(v, 31); own = v; turn += 1; } let to = x.at(end); ptx! { red.global.add.u32 [to], 1; }",
        "bounds are not decided",
    ),
    // Lanes leave the loop behind the shuffle.
    (
        "let (mut end, mut own, mut turn): (u32, u32, u32) = (0, 0, 0); invariant!(end <= n);
         loop { let from = given.at(tid.x + (turn & 31)); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, n; }
         end = warp::broadcast(v, 31); own = v; turn += 1; if own >= m { break; } } let to = x.at(end); ptx! { red.global.add.u32 [to], 1; }",
        "bounds are not decided",
    ),
];

#[test]
fn lanes_read_numbers_of_each_other() {
    for (body, expected) in BETWEEN_LANES {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = 1, requires(x.len() > n, given.len() >= 64), proved(bounds))]
             pub fn k(x: &mut [u32], given: &[u32], n: u32, m: u32) {{ {body} }}"
        );
        assert_proved_or(&text, expected);
    }
}

#[test]
#[ignore = "proves every kernel, or those that PTX_PROOFS names, which takes minutes: cargo test -p ptx-cli --test commands -- --ignored proofs"]
fn proofs_are_up_to_date() {
    let mut texts: Vec<(String, Operation)> =
        examples().into_iter().map(|path| (name(&path), Operation::of_example(&path))).collect();
    texts.extend(LIBRARY.iter().map(|name| (format!("{KERNELS}/{name}"), Operation::new(name))));
    let chosen = Chosen::new();
    texts.retain(|(file, operation)| chosen.has_any(file, operation));
    let mut rows = Vec::new();
    for (file, Operation { text, mut declared }) in texts {
        let program = match Source::text(&file, text).without_proofs().compile() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("{file}: {error}");
                let first = error.to_string().lines().next().unwrap_or_default().replace('|', "\\|");
                let reasons = vec![format!("not compiled alone: {first}")];
                rows.push((file.clone(), "all".to_owned(), Row { reasons, ..Row::default() }));
                continue;
            }
        };
        let mut kernels: BTreeMap<(String, String), Row> = BTreeMap::new();
        for module in program.modules() {
            let mut tried = BTreeSet::new();
            for kernel in module.kernels.iter().filter(|kernel| tried.insert(&kernel.name)) {
                // Modules are in the order of the text.
                let at = declared.iter().position(|(name, _)| *name == kernel.name);
                let own = at.map_or_else(|| file.clone(), |at| declared.remove(at).1);
                if chosen.has(&own, &kernel.name) || chosen.has(&file, &kernel.name) {
                    let row = row(module, kernel, &own);
                    kernels.insert((own, kernel.name.clone()), row);
                }
            }
        }
        rows.extend(kernels.into_iter().map(|((file, kernel), row)| (file, kernel, row)));
    }
    let pipelines = [gemms(&chosen), attentions(&chosen)];
    if !chosen.is_all() {
        return eprintln!("{}", document(&rows, &pipelines));
    }
    expect_file!["../../../docs/proofs.md"].assert_eq(&document(&rows, &pipelines));
}

/// The kernels that `PTX_PROOFS` names, by a part of their file's path, such as `comm/dispatch,hopper/forward/forward`: their verdicts are printed
/// alone. All kernels without it.
struct Chosen(Vec<(String, String)>);

impl Chosen {
    fn new() -> Chosen {
        let names = std::env::var("PTX_PROOFS").unwrap_or_default();
        let names = names.split(',').filter_map(|name| name.rsplit_once('/'));
        Chosen(names.map(|(file, kernel)| (format!("/{file}/"), kernel.to_owned())).collect())
    }

    fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, file: &str, kernel: &str) -> bool {
        let file = format!("/{}/", file.trim_end_matches(".rs"));
        self.is_all() || self.0.iter().any(|(own, name)| name == kernel && file.contains(own))
    }

    fn has_any(&self, file: &str, operation: &Operation) -> bool {
        let path = format!("/{}/", file.trim_end_matches(".rs"));
        self.is_all()
            || self.0.iter().any(|(own, _)| path.contains(own))
            || operation.declared.iter().any(|(kernel, file)| self.has(file, kernel))
    }
}

/// The pipelines of matrix products, as lines of a table.
fn gemms(chosen: &Chosen) -> String {
    let wanted: Vec<_> = GEMMS.iter().filter(|(entry, ..)| chosen.has("gemm", entry)).collect();
    if wanted.is_empty() {
        return String::new();
    }
    let text = Operation::new("gemm").text;
    let program = Source::text("gemm", text).without_proofs().compile().unwrap_or_else(|error| panic!("gemm: {error}"));
    let line = |gemm: &Gemm| {
        let (entry, ..) = gemm;
        let kernels =
            || program.modules().iter().flat_map(|module| module.kernels.iter().map(move |own| (module, own)));
        let (module, kernel) = kernels().find(|(_, own)| own.entry == *entry).unwrap_or_else(|| panic!("{entry}"));
        line_of((module, kernel), |contract| of_gemm(contract, gemm))
    };
    wanted.into_iter().map(line).collect()
}

/// The pipelines of attention, as lines of a table.
fn attentions(chosen: &Chosen) -> String {
    let wanted: Vec<_> = FORWARDS.iter().filter(|(entry, _)| chosen.has("attention", entry)).collect();
    if wanted.is_empty() {
        return String::new();
    }
    let Operation { text, mut declared } = Operation::new("attention");
    let program = Source::text("attention", text).without_proofs().compile();
    let program = program.unwrap_or_else(|error| panic!("attention: {error}"));
    // Modules are in the order of the text.
    let mut file_of = |module: &Module| {
        let name = &module.kernels.first()?.name;
        Some(declared.remove(declared.iter().position(|(own, _)| own == name)?).1)
    };
    let module = program.modules().iter().find(|module| file_of(module).is_some_and(|file| file.ends_with(FORWARD)));
    let module = module.expect("the forward kernels of attention");
    let line = |(entry, boxes): &Forward| {
        let kernel = module.kernels.iter().find(|own| own.entry == *entry).unwrap_or_else(|| panic!("{entry}"));
        let names = ["q_map", "k_map", "v_map"].into_iter().map(str::to_owned);
        let boxes = names.zip(*boxes).collect();
        line_of((module, kernel), |contract| Contract { boxes, ..contract })
    };
    wanted.into_iter().map(line).collect()
}

/// The pipeline of a kernel as a line of a table, with what its plan makes of the launch.
fn line_of((module, kernel): (&Module, &Kernel), plan: impl FnOnce(Contract) -> Contract) -> String {
    let entry = &kernel.entry;
    let contract = plan(contract(kernel).unwrap_or_else(|error| panic!("{entry}: {error:?}")));
    let ptx = module.texts.first().map(|text| &*text.ptx).unwrap_or_default();
    let checked = checked(ptx).unwrap_or_else(|| panic!("{entry}"));
    let pipeline = explore(&checked, entry, &contract, &contract.boxes).unwrap_or_else(|| panic!("{entry}"));
    eprintln!("{entry} {:?}", pipeline.time);
    let reason = match &pipeline.outcome {
        Outcome::Proved => "",
        Outcome::Violated(..) => "a later turn of a loop may violate it",
        Outcome::Unknown(_, missing) => missing,
    };
    format!("| `{entry}` | {} | {reason} |\n", explored(&pipeline))
}

/// The contract of a matrix product with what its plan makes of the launch.
fn of_gemm(contract: Contract, (entry, boxes, (param, offset)): &Gemm) -> Contract {
    let depth = Expr::Field(*param, Field { offset: *offset, ty: Plain::Unsigned(4) });
    let some = Expr::Binary(Operator::Ge, Box::new([depth, Expr::Int(1)]), String::new());
    let assume = contract.assume.into_iter().chain([some]).collect();
    let [a, b, c] = *boxes;
    let boxes = [("a", a), ("b", b)].into_iter().chain(RESULTS.map(|name| (name, c)));
    let boxes = boxes.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    // Only the copies to C are compared with each other.
    let batches = if entry.starts_with(BATCHED) { &[1][..] } else { &[] };
    let extents = |name: &str| match RESULTS.contains(&name) {
        true => [&[COLUMNS, c / (2 * COLUMNS)], batches].concat(),
        false => Vec::new(),
    };
    let mapped = ["a", "b"].into_iter().chain(RESULTS);
    let mapped = mapped.map(|name| ptx_prove::Mapped { map: name.to_owned(), extents: extents(name) }).collect();
    Contract { assume, boxes, mapped, ..contract }
}

/// Proves an instance of a kernel, the one whose boxes are known if there is one; the others differ in types and vectors alone.
fn row(module: &Module, kernel: &Kernel, file: &str) -> Row {
    let unknown = |reason| Row { reasons: vec![reason], ..Row::default() };
    let instances = || module.kernels.iter().filter(|own| own.name == kernel.name);
    let gemm = GEMMS.iter().chain(&OTHERS).find_map(|gemm| Some((instances().find(|own| own.entry == gemm.0)?, gemm)));
    let kernel = gemm.map_or(kernel, |(instance, _)| instance);
    let contract = contract(kernel).map(|contract| match gemm {
        Some((_, gemm)) => of_gemm(contract, gemm),
        None => of_ptx(kernel, contract),
    });
    let mut contract = match contract {
        Ok(contract) => contract,
        Err((message, _)) => return unknown(message),
    };
    let mapped = MAPPED.iter().filter(|(own, name, _)| file.contains(own) && kernel.name == *name);
    contract.boxes.extend(mapped.flat_map(|(.., boxes)| *boxes).map(|(name, bytes)| ((*name).to_owned(), *bytes)));
    let text = module.texts.first().map(|text| &*text.ptx).unwrap_or_default();
    let Some(checked) = checked(text) else { panic!("{}", kernel.entry) };
    let start = Instant::now();
    let report = match prove(&checked, &kernel.entry, &contract) {
        Ok(report) => report,
        Err(refusal) => return unknown(format!("the contract is not described: {refusal:?}")),
    };
    eprintln!("{} {:?}", kernel.entry, start.elapsed());
    for finding in report.findings.iter().filter(|finding| finding.verdict != Verdict::Proved) {
        let (number, verdict) = (line(text, finding.span), &finding.verdict);
        let code = text.lines().nth(number - 1).unwrap_or_default().trim_start();
        eprintln!("  {:?} of line {number}, {code}: {verdict:?}", finding.property);
    }
    let own =
        |properties: &'static [Property]| report.findings.iter().filter(move |f| properties.contains(&f.property));
    let is_proved = |finding: &Finding| finding.verdict == Verdict::Proved;
    let certain = |finding: &Finding| matches!(&finding.verdict, Verdict::Refuted(example) if example.is_certain);
    let (bounds, races): (&[Property], &[Property]) =
        (&[Property::Bounds, Property::Alignment], &[Property::Races, Property::Barriers, Property::Initialization]);
    let missing = |properties: &'static [Property]| {
        own(properties).find_map(|finding| match &finding.verdict {
            Verdict::Unknown(missing) => Some(missing.clone()),
            Verdict::Refuted(_) => Some("a later turn of a loop may violate it".to_owned()),
            Verdict::Proved => None,
        })
    };
    let reasons = match (report.findings.iter().find(|f| certain(f)), missing(bounds), missing(races)) {
        (Some(finding), ..) => vec![refuted(finding)],
        (None, Some(bounds), Some(races)) if bounds != races => {
            vec![format!("bounds: {bounds}"), format!("races: {races}")]
        }
        (None, bounds, races) => bounds.or(races).into_iter().collect(),
    };
    Row {
        bounds: own(bounds).all(is_proved),
        assumed: report.assumptions.len(),
        races: own(races).all(is_proved),
        decided: own(races).all(is_proved) || own(races).any(certain),
        refuted: report.findings.iter().any(certain),
        pipeline: report.pipeline.as_ref().map(explored).unwrap_or_default(),
        reasons,
    }
}

/// The number of the line of PTX in which a span begins.
fn line(ptx: &str, span: Span) -> usize {
    ptx.bytes().take(span.lo as usize).filter(|byte| *byte == b'\n').count() + 1
}

/// The contract of an entry of `ptx!`.
fn of_ptx(kernel: &Kernel, contract: Contract) -> Contract {
    let Some((_, grid, assume)) = OF_PTX.iter().find(|(name, ..)| *name == kernel.name) else { return contract };
    let mut reader = Reader::new(kernel.params.iter().map(|param| param.name.clone()));
    let mut read = |text: &str| reader.read(text).unwrap_or_else(|problem| panic!("{text}: {}", problem.message));
    Contract {
        grid: Some(read(grid)),
        assume: assume.iter().map(|text| read(text)).collect(),
        elements: vec![1; kernel.params.len()],
        // As the entry declares it.
        align: None,
        aligns: Vec::new(),
        absent: false,
        numbers: Vec::new(),
        ..contract
    }
}

/// The states and the steps of an exploration that is whole.
fn explored(pipeline: &Pipeline) -> String {
    match pipeline.outcome {
        Outcome::Proved => format!("proved: {} states, {} steps", pipeline.states, pipeline.steps),
        Outcome::Violated(..) | Outcome::Unknown(..) => "–".to_owned(),
    }
}

fn refuted(finding: &Finding) -> String {
    let what = match finding.property {
        Property::Bounds => "leaves",
        Property::Alignment => "is not aligned in",
        Property::Races => "races in",
        Property::Initialization => "reads what nobody wrote in",
        Property::Barriers => return "a barrier that some threads miss".to_owned(),
    };
    format!("a launch of the attribute {what} `{}`", finding.memory)
}

fn checked(ptx: &str) -> Option<Checked> {
    let (tree, earlier) = parse_text(ptx.as_bytes());
    check(tree, earlier, &Default::default()).0
}

fn document(rows: &[(String, String, Row)], [gemms, attentions]: &[String; 2]) -> String {
    let share = |is: fn(&Row) -> bool| {
        let part = rows.iter().filter(|(.., row)| is(row)).count();
        format!("{part} ({} %)", part * 100 / rows.len().max(1))
    };
    let mut out = format!(
        "# Proofs of our kernels\n\n\
         The verdicts of `ptx-prove` on every kernel of the examples and of the library, for all launches that its attribute admits: bounds with alignment, races \
         with barriers and reads of unwritten shared memory. Where a kernel has barriers in memory, its pipeline is explored: its states, and the steps \
         of the exploration. The first instance of each kernel is tried; boxes of tensor maps that it takes as they are, are those that a plan makes, and memory that it writes by such a map nothing else accesses. Entries of `ptx!` have no attribute: theirs are the launches of their examples. Made by `UPDATE_EXPECT=1 cargo test --config profile.dev.package.ptx-prove.opt-level=2 -p ptx-cli --test commands -- --ignored proofs`.\n\n\
         Of {} kernels, bounds are proved of {}: outright of {}, and under assumptions, such as those about numbers that memory holds, of {}. Assumptions are `assume!` in the text of a \
         kernel: the watcher compares them with the registers of every thread, and a launch of the kernel is `unsafe`. Races are proved of {}, decided of {}, and a property is refuted of {}.\n\n\
         | file | kernel | bounds | races | pipeline | reason |\n|---|---|---|---|---|---|\n",
        rows.len(),
        share(|row| row.bounds),
        share(|row| row.bounds && row.assumed == 0),
        share(|row| row.bounds && row.assumed > 0),
        share(|row| row.races),
        share(|row| row.decided),
        share(|row| row.refuted),
    );
    for (file, kernel, row) in rows {
        let verdict = |is_proved| match (is_proved, row.assumed) {
            (false, _) => "–".to_owned(),
            (true, 0) => "proved".to_owned(),
            (true, assumed) => format!("proved, {assumed} assumed"),
        };
        let (bounds, races, reasons) = (verdict(row.bounds), verdict(row.races), row.reasons.join("; "));
        writeln!(out, "| {file} | `{kernel}` | {bounds} | {races} | {} | {reasons} |", row.pipeline).unwrap();
    }
    out + "\n## Pipelines of matrix products\n\nOf kernels of `ptx-kernels/src/gemm/sm90`, with the boxes that a plan makes, for every number of tiles and every extent along K \
           from one on.\n\n| instance | pipeline | reason |\n|---|---|---|\n"
        + gemms
        + "\n## Pipelines of attention\n\nOf the kernel of `ptx-kernels/src/attention/hopper/forward.rs`, with the boxes that a plan makes, for every problem that its attribute \
           admits.\n\n| instance | pipeline | reason |\n|---|---|---|\n"
        + attentions
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The files of the examples.
fn examples() -> Vec<PathBuf> {
    let folders = ["examples", "examples/ampere", "examples/hopper", "examples/blackwell"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    files
}

/// The text of an operation, with the parts of others that it names.
struct Operation {
    text: String,
    /// Its kernels in the order of the text, and the files in which they are.
    declared: Vec<(String, String)>,
}

impl Operation {
    fn new(name: &str) -> Operation {
        let mut out = Operation { text: String::new(), declared: Vec::new() };
        out.add(KERNELS, name);
        for (_, path) in PARTS.iter().filter(|(own, _)| *own == name) {
            let (parents, last) = path.rsplit_once('/').expect("a part is in a module");
            let depth = parents.split('/').map(|parent| out.text += &format!("mod {parent} {{\n")).count();
            out.add(&format!("{KERNELS}/{parents}"), last);
            out.text += &"}\n".repeat(depth);
        }
        out
    }

    fn of_example(path: &Path) -> Operation {
        Operation { text: read(path), declared: Vec::new() }
    }

    /// Adds a module of a crate, with the files of its inner modules in place of their declarations.
    fn add(&mut self, folder: &str, name: &str) {
        let file = format!("{folder}/{name}.rs");
        let mut is_kernel = false;
        self.text += &format!("mod {name} {{\n");
        for line in read(&root().join(&file)).lines() {
            let line = line.trim_start();
            let declared = line.strip_suffix(';').and_then(|line| line.split_once("mod "));
            match declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub")) {
                Some((_, inner)) => self.add(&format!("{folder}/{name}"), inner),
                None => self.text += &format!("{line}\n"),
            }
            is_kernel |= line.starts_with("#[ptx_kernel");
            if let Some(kernel) = line.strip_prefix("pub fn ").filter(|_| is_kernel) {
                let kernel = kernel.split(['<', '(']).next().unwrap_or_default();
                self.declared.push((kernel.to_owned(), file.clone()));
                is_kernel = false;
            }
        }
        self.text += "}\n";
    }
}
