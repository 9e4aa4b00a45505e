//! Buffers of offsets and of different numbers, strides in any order, and addresses that are chosen: each rule has mutants that nothing proves.

use super::assert_proved_or;

/// Rows of packed sequences, by blocks that have a sequence each.
const PACKED: &str = "#[ptx_kernel(arch = \"sm_90\", block = 32, grid = n, unsafe(requires(starts.len() > n, n < 1 << 20), offsets(starts)), proved(races))]
     pub fn k(starts: &[u32], x: &mut [u32], n: u32) { let at = starts.at(ctaid.x); let (first, end): (u32, u32);
     ptx! { ld.global.nc.u32 first, [at]; ld.global.nc.u32 end, [at + 4]; }
     if tid.x < end.max(first) - first { let to = x.at(first as u64 + tid.x as u64); ptx! { st.global.u32 [to], 0; } } }";

/// A part of the error of a mutant, and what it changes.
type Mutant = (&'static str, &'static [(&'static str, &'static str)]);
const MUTANTS: [Mutant; 5] = [
    ("races are not decided", &[(", offsets(starts)", "")]),
    // One row too many.
    ("races are not decided", &[("tid.x < end", "tid.x <= end")]),
    // To the end of the next sequence.
    ("races are not decided", &[("starts.len() > n,", "starts.len() > n + 1,"), ("[at + 4]", "[at + 8]")]),
    // Halves of offsets are none.
    ("races are not decided", &[("starts: &[u32]", "starts: &[u64]"), ("[at + 4]", "[at + 8]")]),
    // The kernel changes them.
    (
        "[P0916",
        &[
            ("starts: &[u32]", "starts: &mut [u32]"),
            ("ld.global.nc.u32", "ld.global.u32"),
            ("[at + 4];", "[at + 4]; st.global.u32 [at], 0;"),
        ],
    ),
];

/// Kernels whose blocks have a page of 32 elements each: the conditions of the launch, the place that a thread reads and the one that it writes, and the
/// start of the error.
const DISTINCT: [(&str, &str, &str); 12] = [
    ("pages.len() >= n, distinct(pages < most)", PAGES, ""),
    // They may be the same.
    ("pages.len() >= n", PAGES, "[P091"),
    // Those behind the last page are all that one.
    ("pages.len() >= n, distinct(pages)", PAGES, "[P091"),
    ("pages.len() >= n, distinct(pages < most + 1)", PAGES, "[P091"),
    // Other numbers are different.
    ("pages.len() >= n, distinct(lens < most)", PAGES, "[P091"),
    // Two blocks read one element.
    ("pages.len() >= n, distinct(pages < most)", "pages.at(ctaid.x / 2) | own * 32 + tid.x", "[P091"),
    // Pages overlap.
    ("pages.len() >= n, distinct(pages < most)", "pages.at(ctaid.x) | own * 31 + tid.x", "[P091"),
    // Two pages are one.
    ("pages.len() >= n, distinct(pages < most)", "pages.at(ctaid.x) | own / 2 * 32 + tid.x", "[P091"),
    // A page of each thread.
    ("pages.len() >= 32 * n, distinct(pages < most)", "pages.at(ctaid.x * 32 + tid.x) | own", ""),
    ("pages.len() >= 32 * n, distinct(pages < most)", "pages.at(ctaid.x * 31 + tid.x) | own", "[P091"),
    ("pages.len() >= 32 * n, distinct(pages < most)", "pages.at(ctaid.x * 32 + tid.x) | own + (tid.x & 1)", "[P091"),
    // Threads read what others write, by elements that may be the same.
    (
        "pages.len() >= 32 * n, distinct(pages < most)",
        "pages.at(ctaid.x * 32 + tid.x) | own); let next = pages.at((ctaid.x * 32 + tid.x) ^ 1); let other: u32; ptx! { ld.global.nc.u32 other, [next]; } let from = x.at(other.min(most - 1)); let seen: u32; ptx! { ld.global.u32 seen, [from]; } let to = x.at(own",
        "[P091",
    ),
];

/// A page of each block.
const PAGES: &str = "pages.at(ctaid.x) | own * 32 + tid.x";
/// Rows of 32 elements by two strides.
const BODY: &str = "x: &mut [u32], heads: u32, batch: u32, s: u64, t: u64) {
     let to = x + (ctaid.y as u64 * s + ctaid.x as u64 * t + tid.x as u64) * 4; ptx! { st.global.u32 [to], 0; }";

/// Rows of 8 elements, four of which a block has.
const FOUR: &str = "x: &mut [u32], heads: u32, batch: u32, s: u64, t: u64) { let head: u32 = ctaid.x * 4 + tid.x / 8;
     let to = x + (ctaid.y as u64 * s + head as u64 * t + (tid.x % 8) as u64) * 4; if head < heads { ptx! { st.global.u32 [to], 0; } }";

/// Rows of one element, whose strides are no less.
const SINGLE: &str = "x: &mut [u32], heads: u32, batch: u32, s: u64, t: u64) {
     let to = x + (ctaid.y as u64 * s + ctaid.x as u64 * t) * 4; if tid.x == 0 { ptx! { st.global.u32 [to], 0; } }";

/// The conditions of their strides.
const ORDERS: [(&str, &str, &str); 9] = [
    (BODY, "t >= 32 && s >= t * heads || s >= 32 && t >= s * batch", ""),
    // A row is longer.
    (BODY, "t >= 31 && s >= t * heads || s >= 32 && t >= s * batch", "[P091"),
    // The last row of one is the first one of the next.
    (BODY, "t >= 32 && s >= t * (heads - 1) || s >= 32 && t >= s * batch", "[P091"),
    // Any strides.
    (BODY, "t >= 32 && s >= t * heads || s >= 32 && t >= batch * heads", "[P091"),
    // Threads of one block have other rows in each order, or may share one where a row is longer.
    (FOUR, "t >= 8 && s >= t * heads || s >= 8 && t >= s * batch", ""),
    (FOUR, "t >= 7 && s >= t * heads || s >= 8 && t >= s * batch", "[P091"),
    (FOUR, "t >= 8 && s >= t * heads || s >= 7 && t >= s * batch", "[P091"),
    (SINGLE, "t > 0, s > 0, s >= t * heads || t >= s * batch", ""),
    (SINGLE, "t > 0, s > 0, s >= t * heads || t >= s * (batch - 1)", "[P091"),
];

/// An address or zero, which is zero by its choice alone where the buffer has elements: options, parameters and body, and a part of the error.
const CHOICES: [(&str, &str, &str); 2] = [
    (
        "grid = 1, requires(n < 32, x.len() > 0 || n == 0, y.len() >= 1), proved(bounds)",
        "x: &[u32], y: &mut [u32], n: u32) { let from: u64 = x; let own: u64 = (n != 0).select(from, 0);
         if own == 0 { let to = y.at(n); ptx! { red.global.add.u32 [to], 1; } }",
        "",
    ),
    (
        "grid = 1, requires(n < 32, y.len() >= 1), proved(bounds)",
        "x: &[u32], y: &mut [u32], n: u32) { let from: u64 = x; let own: u64 = (n != 0).select(from, 0);
         if own == 0 { let to = y.at(n); ptx! { red.global.add.u32 [to], 1; } }",
        "[P091",
    ),
];

fn assert_case((options, body, expected): (&str, &str, &str)) {
    assert_proved_or(&format!("#[ptx_kernel(arch = \"sm_90\", block = 32, {options})] pub fn k({body} }}"), expected);
}

#[test]
fn offsets_part_the_rows_of_packed_sequences() {
    assert_proved_or(PACKED, "");
    for (expected, changes) in MUTANTS {
        let mutant = changes.iter().fold(PACKED.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replace(old, new)
        });
        assert_proved_or(&mutant, expected);
    }
}

#[test]
fn different_elements_lead_to_different_places() {
    for (conditions, places, expected) in DISTINCT {
        let (conditions, data) = conditions.split_once(", ").unwrap_or((conditions, ""));
        let options = format!(
            "grid = n, unsafe(requires({conditions}, most > 0, most < 1 << 10, n < 1 << 10), {data}), proved(races)"
        );
        let (from, to) = places.split_once(" | ").unwrap();
        let body = format!(
            "let at = {from}; let page: u32; ptx! {{ ld.global.nc.u32 page, [at]; }} let own: u32 = page.min(most - 1);
             let to = x.at({to}); ptx! {{ st.global.u32 [to], 0; }}"
        );
        let params = "pages: &[u32], lens: &[u32], x: &mut [u32], n: u32, most: u32) {";
        assert_case((&options, &format!("{params} {body}"), expected));
    }
}

#[test]
fn strides_lie_in_each_other_in_some_order() {
    for (body, order, expected) in ORDERS {
        let options = format!(
            "grid = (heads, batch), requires({order}, heads < 1 << 20, s < 1 << 20, t < 1 << 20), proved(races)"
        );
        assert_case((&options, body, expected));
    }
}

#[test]
fn an_address_that_is_chosen_is_not_zero() {
    CHOICES.into_iter().for_each(assert_case);
}
