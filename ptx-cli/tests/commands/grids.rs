//! Races between rows and columns of matrices, and mutants of kernels that are proved: a column that reaches over its row, rows that overlap, and
//! blocks whose places are not apart.

use ptx_jit::Source;

/// Attributes, kernels, and the beginning of the error; none for a kernel that is proved.
const KERNELS: [(&str, &str, &str); 14] = [
    // An element for each thread, in rows of any length.
    (
        "grid = (n.div_ceil(32), m), requires(n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) { let column = ctaid.x * 32 + tid.x; if column < n {
         let at = x.at(ctaid.y as u64 * n as u64 + column as u64); ptx! { st.global.u32 [at], 1; } }",
        "",
    ),
    // Columns behind the row are those of the next one.
    (
        "grid = (n.div_ceil(32), m), requires(n < 1 << 20, m < 1 << 16, x.len() >= m * n + 32)",
        "x: &mut [u32], m: u32, n: u32) { let column = ctaid.x * 32 + tid.x; if column <= n {
         let at = x.at(ctaid.y as u64 * n as u64 + column as u64); ptx! { st.global.u32 [at], 1; } }",
        "without order",
    ),
    // Two elements for each thread, of which the second may be behind the row.
    (
        "grid = (n.div_ceil(64), m), requires(n % 2 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "#[align(8)] x: &mut [u32], m: u32, n: u32) { let column = ctaid.x * 64 + tid.x * 2; if column < n {
         let at = x + (ctaid.y as u64 * n as u64 + column as u64) * 4; ptx! { st.global.v2.u32 [at], {1, 2}; } }",
        "",
    ),
    (
        "grid = (n.div_ceil(64), m), requires(n < 1 << 20, m < 1 << 16, x.len() >= m * n + 1)",
        "x: &mut [u32], m: u32, n: u32) { let column = ctaid.x * 64 + tid.x * 2; if column < n {
         let at = x.at(ctaid.y as u64 * n as u64 + column as u64); ptx! { st.global.u32 [at], 1; st.global.u32 [at + 4], 2; } }",
        "without order",
    ),
    // Rows of threads and of blocks: 4 of 8 columns.
    (
        "grid = (n / 8, m / 4), requires(n % 8 == 0, m % 4 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) {
         let at = x.at((ctaid.y * 4 + tid.x / 8) as u64 * n as u64 + (ctaid.x * 8 + tid.x % 8) as u64); ptx! { st.global.u32 [at], 1; }",
        "",
    ),
    // The last row of a block is the first one of the next.
    (
        "grid = (n / 8, m / 4), requires(n % 8 == 0, m % 4 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) {
         let at = x.at((ctaid.y * 3 + tid.x / 8) as u64 * n as u64 + (ctaid.x * 8 + tid.x % 8) as u64); ptx! { st.global.u32 [at], 1; }",
        "without order",
    ),
    // One column too many for each block.
    (
        "grid = (n / 8, m / 4), requires(n % 8 == 0, m % 4 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) {
         let at = x.at((ctaid.y * 4 + tid.x / 8) as u64 * n as u64 + (ctaid.x * 7 + tid.x % 8) as u64); ptx! { st.global.u32 [at], 1; }",
        "without order",
    ),
    // Two stores of a thread, in rows that no other thread has.
    (
        "grid = (n / 8, m / 8), requires(n % 8 == 0, m % 8 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) {
         let at = x.at((ctaid.y * 8 + tid.x / 8) as u64 * n as u64 + (ctaid.x * 8 + tid.x % 8) as u64); ptx! { st.global.u32 [at], 1; }
         let below = at + n as u64 * 16; ptx! { st.global.u32 [below], 1; }",
        "",
    ),
    (
        "grid = (n / 8, m / 8), requires(n % 8 == 0, m % 8 == 0, n < 1 << 20, m < 1 << 16, x.len() >= m * n)",
        "x: &mut [u32], m: u32, n: u32) {
         let at = x.at((ctaid.y * 8 + tid.x / 8) as u64 * n as u64 + (ctaid.x * 8 + tid.x % 8) as u64); ptx! { st.global.u32 [at], 1; }
         let below = at + n as u64 * 12; ptx! { st.global.u32 [below], 1; }",
        "without order",
    ),
    // Planes of rows.
    (
        "grid = (n.div_ceil(32), h, m), requires(n < 1 << 10, h < 1 << 10, m < 1 << 10, x.len() >= m * h * n)",
        "x: &mut [u32], m: u32, h: u32, n: u32) { let column = ctaid.x * 32 + tid.x; if column < n {
         let at = x.at((ctaid.z * h + ctaid.y) as u64 * n as u64 + column as u64); ptx! { st.global.u32 [at], 1; } }",
        "",
    ),
    // One row too many in each plane.
    (
        "grid = (n.div_ceil(32), h, m), requires(n < 1 << 10, h < 1 << 10, h > 0, m < 1 << 10, x.len() >= m * h * n)",
        "x: &mut [u32], m: u32, h: u32, n: u32) { let column = ctaid.x * 32 + tid.x; if column < n {
         let at = x.at((ctaid.z * (h - 1) + ctaid.y) as u64 * n as u64 + column as u64); ptx! { st.global.u32 [at], 1; } }",
        "without order",
    ),
    // Parts of blocks, whose places differ modulo 64.
    (
        "grid = n, requires(n < 1 << 16, x.len() >= n * 64)",
        "x: &mut [u32], n: u32) { let at = x.at(ctaid.x * 64 + tid.x); ptx! { st.global.u32 [at], 1; st.global.u32 [at + 128], 1; }",
        "",
    ),
    (
        "grid = n, requires(n < 1 << 16, x.len() >= n * 64)",
        "x: &mut [u32], n: u32) { let at = x.at(ctaid.x * 48 + tid.x); ptx! { st.global.u32 [at], 1; st.global.u32 [at + 128], 1; }",
        "without order",
    ),
    // A block reads what the next one writes.
    (
        "grid = n, requires(n < 1 << 16, x.len() >= n * 32 + 1)",
        "x: &mut [u32], n: u32) { let at = x.at(ctaid.x * 32 + tid.x); let old: u32;
         ptx! { ld.global.u32 old, [at + 4]; st.global.u32 [at], old; }",
        "without order",
    ),
];

#[test]
fn rows_and_columns_are_apart_or_race() {
    for (options, kernel, expected) in KERNELS {
        let text = format!("#[ptx_kernel(arch = \"sm_90\", block = 32, {options}, proved)] pub fn k({kernel} }}");
        match Source::text("k.rs", &text).compile() {
            Ok(_) => assert!(expected.is_empty(), "proved: {text}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!expected.is_empty() && error.contains(expected), "{text}\n{error}");
            }
        }
    }
}
