//! Races between rows and columns of matrices, and mutants of kernels that are proved: a column that reaches over its row, rows that overlap, and
//! blocks whose places are not apart.

use super::{assert_proved_or, is_thorough};

/// Attributes, kernels, and the beginning of the error; none for a kernel that is proved.
const KERNELS: [(&str, &str, &str); 25] = [
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
    // Each thread stores two elements; the second one may be outside of the row.
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
    // A strip of a row for each block: rows of one strip less, and two strips at one place.
    (
        "grid = rows * strips, requires(strips > 0, strips < 1 << 20, rows < 1 << 10, stride >= strips, stride < 1 << 20, x.len() >= rows * stride + 1)",
        "x: &mut [u32], rows: u32, strips: u32, stride: u32) { let row: u32 = ctaid.x / strips; let at = x.at(row * stride + (ctaid.x - row * strips)); if tid.x == 0 { ptx! { st.global.u32 [at], 1; } }",
        "",
    ),
    (
        "grid = rows * strips, requires(strips > 0, strips < 1 << 20, rows < 1 << 10, stride >= strips - 1, stride < 1 << 20, x.len() >= rows * stride + 1)",
        "x: &mut [u32], rows: u32, strips: u32, stride: u32) { let row: u32 = ctaid.x / strips; let at = x.at(row * stride + (ctaid.x - row * strips)); if tid.x == 0 { ptx! { st.global.u32 [at], 1; } }",
        "[P091",
    ),
    (
        "grid = rows * strips, requires(strips > 0, strips < 1 << 20, rows < 1 << 10, stride >= strips, stride < 1 << 20, x.len() >= rows * stride + 1)",
        "x: &mut [u32], rows: u32, strips: u32, stride: u32) { let row: u32 = ctaid.x / strips; let at = x.at(row * stride + (ctaid.x - row * strips) / 2); if tid.x == 0 { ptx! { st.global.u32 [at], 1; } }",
        "[P091",
    ),
    // Two arrays, one behind the other, and one whose start is the last element of the first one.
    (
        "grid = (n, m), requires(n < 1 << 16, m < 1 << 15, x.len() >= m * n * 64)",
        "x: &mut [u32], m: u32, n: u32) { let own = (ctaid.y as u64 * n as u64 + ctaid.x as u64) * 32 + tid.x as u64;
         let (at, behind) = (x.at(own), x.at(own + m as u64 * n as u64 * 32)); ptx! { st.global.u32 [at], 1; st.global.u32 [behind], 2; }",
        "",
    ),
    (
        "grid = (n, m), requires(n < 1 << 16, m < 1 << 15, x.len() >= m * n * 64)",
        "x: &mut [u32], m: u32, n: u32) { let own = (ctaid.y as u64 * n as u64 + ctaid.x as u64) * 32 + tid.x as u64;
         let (at, behind) = (x.at(own), x.at(own + m as u64 * n as u64 * 32 - 1)); ptx! { st.global.u32 [at], 1; st.global.u32 [behind], 2; }",
        "[P091",
    ),
    // A tile of each block, which its threads have in four steps, and tiles that are shorter than that.
    (
        "grid = (n, m), requires(n < 1 << 16, m < 1 << 15, x.len() >= m * n * 128)",
        "x: &mut [u32], m: u32, n: u32) { let at = x.at((ctaid.y as u64 * n as u64 + ctaid.x as u64) * 128 + tid.x as u64);
         ptx! { st.global.u32 [at], 1; st.global.u32 [at + 128], 1; st.global.u32 [at + 256], 1; st.global.u32 [at + 384], 1; }",
        "",
    ),
    (
        "grid = (n, m), requires(n < 1 << 16, m < 1 << 15, x.len() >= m * n * 128)",
        "x: &mut [u32], m: u32, n: u32) { let at = x.at((ctaid.y as u64 * n as u64 + ctaid.x as u64) * 127 + tid.x as u64);
         ptx! { st.global.u32 [at], 1; st.global.u32 [at + 128], 1; st.global.u32 [at + 256], 1; st.global.u32 [at + 384], 1; }",
        "[P091",
    ),
    // A stride that is a sum, and columns that reach over it.
    (
        "grid = (m + n, h), requires(m < 1 << 14, n < 1 << 14, h < 1 << 14, x.len() >= h * (m + n))",
        "x: &mut [u32], m: u32, n: u32, h: u32) { let at = x.at(ctaid.y * (m + n) + ctaid.x); if tid.x == 0 { ptx! { st.global.u32 [at], 1; } }",
        "",
    ),
    (
        "grid = (m + n + 1, h), requires(m < 1 << 14, n < 1 << 14, h < 1 << 14, x.len() >= h * (m + n) + 1)",
        "x: &mut [u32], m: u32, n: u32, h: u32) { let at = x.at(ctaid.y * (m + n) + ctaid.x); if tid.x == 0 { ptx! { st.global.u32 [at], 1; } }",
        "[P091",
    ),
    // The first thread of the first block, and one of each block.
    (
        "grid = n, requires(n < 1 << 16, x.len() > 0)",
        "x: &mut [u32], n: u32) { if (ctaid.x | tid.x) == 0 { ptx! { st.global.u32 [x], 1; } }",
        "",
    ),
    (
        "grid = n, requires(n < 1 << 16, x.len() > 0)",
        "x: &mut [u32], n: u32) { if (ctaid.x | tid.x) <= n { ptx! { st.global.u32 [x], 1; } }",
        "[P091",
    ),
];

/// Conditions of a matrix whose rows lie in its columns, or the other way around, where a single row or column needs no stride; and the error.
const ORDERS: [(&str, &str); 4] = [
    (
        "(columns == 1 || across >= 1) && (rows == 1 || down >= (columns - 1) * across + 1)
         || (rows == 1 || down >= 1) && (columns == 1 || across >= (rows - 1) * down + 1)",
        "",
    ),
    // One element too few, between rows or between columns.
    (
        "(columns == 1 || across >= 1) && (rows == 1 || down >= (columns - 1) * across + 0)
         || (rows == 1 || down >= 1) && (columns == 1 || across >= (rows - 1) * down + 1)",
        "without order",
    ),
    (
        "(columns == 1 || across >= 1) && (rows == 1 || down >= (columns - 1) * across + 1)
         || (rows == 1 || down >= 1) && (columns == 1 || across >= (rows - 1) * down + 0)",
        "without order",
    ),
    // Two rows need no stride either.
    (
        "(columns == 1 || across >= 1) && (rows <= 2 || down >= (columns - 1) * across + 1)
         || (rows <= 2 || down >= 1) && (columns == 1 || across >= (rows - 1) * down + 1)",
        "[P091",
    ),
];
const OF_ORDERS: &str = "x: &mut [u32], rows: u32, columns: u32, down: u64, across: u64) {
    let i = ctaid.x * 32 + tid.x; let row: u32 = i / columns; let column: u32 = i - row * columns;
    if row < rows { let at = x.at(row as u64 * down + column as u64 * across); ptx! { st.global.u32 [at], 1; } }";

/// Tiles in bands of eight rows, down the columns of a band: blocks more than there are tiles, rows from one band to the next, columns behind the
/// tile's own, and whether a block leaves the matrix, or has a place of another one.
const TILES: [(u32, u32, u32, bool); 5] =
    [(0, 8, 0, false), (1, 8, 0, true), (0, 9, 0, true), (0, 8, 32, true), (0, 7, 0, true)];

/// Chunks of rows, which the warps of a block take in turns: columns of a chunk, chunks from turn to turn, rows of a block that others have, and
/// whether threads race.
const CHUNKS: [(u32, u32, u32, bool); 4] = [(32, 2, 0, false), (31, 2, 0, true), (32, 1, 0, true), (32, 2, 1, true)];

#[test]
fn rows_and_columns_are_apart_or_race() {
    KERNELS.into_iter().for_each(assert_kernel);
}

#[test]
fn rows_lie_in_columns_or_columns_in_rows() {
    for (order, expected) in ORDERS {
        let options = format!(
            "grid = (rows * columns).div_ceil(32), requires(rows >= 1, columns >= 1, rows * columns < 1 << 24, down < 1 << 30, across < 1 << 30,
             {order}, x.len() >= (rows - 1) * down + (columns - 1) * across + 1)"
        );
        assert_kernel((&options, OF_ORDERS, expected));
    }
}

fn assert_kernel((options, kernel, expected): (&str, &str, &str)) {
    let text = format!("#[ptx_kernel(arch = \"sm_90\", block = 32, {options}, proved)] pub fn k({kernel} }}");
    assert_proved_or(&text, expected);
}

/// The kernel; with `PTX_THOROUGH=1` its variants, too, which take ten seconds each.
#[test]
fn tiles_of_a_band_stay_in_the_matrix_and_apart() {
    let tried = if is_thorough() { TILES.len() } else { 1 };
    for (more, step, behind, leaves) in TILES.into_iter().take(tried) {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_90\", block = 32, grid = (m / 32) * (n / 32) + {more}, proved,
                requires(m % 32 == 0, n % 32 == 0, m > 0, n > 0, m <= 1 << 20, n <= 1 << 20, x.len() >= m * n))]
             pub fn k(x: &mut [u32], m: u32, n: u32) {{
                let (rows, columns): (u32, u32) = (m / 32, n / 32);
                let size: u32 = 8 * columns;
                let band: u32 = ctaid.x / size;
                let (first, inside): (u32, u32) = (band * {step}, ctaid.x - band * size);
                let mut height: u32 = rows - first;
                ptx! {{ min.u32 height, height, 8; }}
                let column: u32 = inside / height;
                let row: u32 = (first + inside - column * height) * 32 + tid.x;
                let at = x.at(row as u64 * n as u64 + (column * 32 + {behind}) as u64);
                ptx! {{ st.global.u32 [at], 1; }} }}"
        );
        assert_proved_or(&text, if leaves { "[P091" } else { "" });
    }
}

/// Two warps have other chunks, as their turns go on by the number of warps.
#[test]
fn chunks_of_rows_are_of_one_warp() {
    let tried = if is_thorough() { CHUNKS.len() } else { 2 };
    for (width, warps, more, race) in CHUNKS.into_iter().take(tried) {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_90\", block = 64, grid = blocks, proved,
                requires(blocks >= 1, blocks <= 96, columns >= 1, columns <= stride, stride < 1 << 20, rows < 1 << 30,
                rows * columns.div_ceil(32) < 1 << 31, x.len() + (stride - columns) >= rows * stride))]
             pub fn k(x: &mut [u32], rows: u32, columns: u32, stride: u32, blocks: u32) {{
                let each: u32 = (rows + blocks - 1) / blocks;
                let first: u32 = (ctaid.x * each).min(rows);
                let last: u32 = (first + each + {more}).min(rows);
                let chunks: u32 = (columns + 31) / 32;
                let (mut at, end): (u32, u32) = (tid.x / 32, (last - first) * chunks);
                while at < end {{
                    let (row, column): (u32, u32) = (first + at / chunks, at % chunks * {width} + laneid);
                    if column < columns {{
                        let to = x.at(row as u64 * stride as u64 + column as u64);
                        ptx! {{ st.global.u32 [to], at; }}
                    }}
                    at += {warps};
                }} }}"
        );
        assert_proved_or(&text, if race { "races are not decided" } else { "" });
    }
}
