//! Memory whose addresses a buffer holds, accesses that order threads of several launches, and traps: each rule has mutants that nothing proves.

use super::assert_proved_or;

/// The head of a kernel that prints nothing: its options, its parameters and body, and a part of the error; none for one that is proved.
type Case = (&'static str, &'static str, &'static str);

/// Stores to one element of each of the memories of a table.
const BOUNDS: [Case; 9] = [
    (
        "unsafe(requires(ranks < 100, n < 1000), addresses(table[..ranks] = [u32; n])), proved(bounds)",
        "table: &[u64], ranks: u32, n: u32) { let mut from: u32 = 0; while from < ranks { if tid.x < n {
         let at: u64 = node::address_in(table, from) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } } from += 1; }",
        "",
    ),
    // One entry more than there are.
    (
        "unsafe(requires(ranks < 100, n < 1000, table.len() >= 100), addresses(table[..ranks] = [u32; n])), proved(bounds)",
        "table: &[u64], ranks: u32, n: u32) { let mut from: u32 = 0; while from <= ranks { if tid.x < n {
         let at: u64 = node::address_in(table, from) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } } from += 1; }",
        "the address is not that of one buffer or variable",
    ),
    // The first element of the table is no address.
    (
        "unsafe(requires(ranks < 100, n < 1000), addresses(table[1..ranks] = [u32; n])), proved(bounds)",
        "table: &[u64], ranks: u32, n: u32) { let mut from: u32 = 0; while from < ranks { if tid.x < n {
         let at: u64 = node::address_in(table, from) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } } from += 1; }",
        "the address is not that of one buffer or variable",
    ),
    // An element behind the memory.
    (
        "unsafe(requires(ranks < 100, n < 1000), addresses(table[..ranks] = [u32; n])), proved(bounds)",
        "table: &[u64], ranks: u32, n: u32) { let mut from: u32 = 0; while from < ranks { if tid.x <= n {
         let at: u64 = node::address_in(table, from) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } } from += 1; }",
        "[P0916",
    ),
    // Half of the elements.
    (
        "unsafe(requires(ranks < 100, n < 1000), addresses(table[..ranks] = [u16; n])), proved(bounds)",
        "table: &[u64], ranks: u32, n: u32) { if ranks > 0 { if tid.x < n {
         let at: u64 = node::address_in(table, 0) + wide(tid.x) * 4; ptx! { st.global.u16 [at], 0; } } }",
        "[P0916",
    ),
    // Elements of two bytes, at addresses that are multiples of two alone.
    (
        "unsafe(requires(ranks < 100), addresses(table[..ranks] = [u16; 64])), proved(bounds)",
        "table: &[u64], ranks: u32) { if ranks > 0 {
         let at: u64 = node::address_in(table, 0) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; } }",
        "alignment is not decided",
    ),
    // As long as `x`, and aligned as it is.
    (
        "unsafe(requires(x.len() >= 64), addresses(table[..1] = x)), proved(bounds)",
        "table: &[u64], #[align(8)] x: &mut [u32]) {
         let at: u64 = node::address_in(table, 0) + wide(tid.x) * 8; ptx! { st.global.v2.u32 [at], {0, 0}; }",
        "",
    ),
    (
        "unsafe(requires(x.len() >= 63), addresses(table[..1] = x)), proved(bounds)",
        "table: &[u64], #[align(8)] x: &mut [u32]) {
         let at: u64 = node::address_in(table, 0) + wide(tid.x) * 8; ptx! { st.global.v2.u32 [at], {0, 0}; }",
        "[P0916",
    ),
    // The kernel changes an address.
    (
        "unsafe(requires(), addresses(table[..1] = [u32; 32])), proved(bounds)",
        "table: &mut [u64]) { let other: u64 = table + 0; ptx! { st.global.u64 [other], 0; }
         let at: u64 = node::address_in(table, 0) + wide(tid.x) * 4; ptx! { st.global.u32 [at], 0; }",
        "the address is not that of one buffer or variable",
    ),
];

/// Threads and blocks that access memory of a table.
const RACES: [Case; 8] = [
    // Each thread has memory of its own.
    (
        "unsafe(requires(), addresses(table[..32] = [u32; 1])), proved(races)",
        "table: &[u64]) { let at: u64 = node::address_in(table, tid.x); let v: u32 = tid.x; ptx! { st.global.u32 [at], v; }",
        "",
    ),
    // Two threads have one.
    (
        "unsafe(requires(), addresses(table[..32] = [u32; 1])), proved(races)",
        "table: &[u64]) { let at: u64 = node::address_in(table, tid.x / 2); let v: u32 = tid.x; ptx! { st.global.u32 [at], v; }",
        "[P091",
    ),
    // Different tables.
    (
        "unsafe(requires(), addresses(a[..1] = [u32; 32], b[..1] = [u32; 32])), proved(races)",
        "a: &[u64], b: &[u64]) { let to: u64 = node::address_in(a, 0) + wide(tid.x) * 4; let from: u64 = node::address_in(b, 0) + wide(31 - tid.x) * 4;
         let got: u32; ptx! { ld.global.u32 got, [from]; st.global.u32 [to], got; }",
        "",
    ),
    // One of the addresses is that of `x`.
    (
        "unsafe(requires(x.len() >= 32), addresses(a[..2] = x)), proved(races)",
        "a: &[u64], x: &mut [u32]) { let to: u64 = node::address_in(a, 1) + wide(tid.x) * 4; let from = x.at(tid.x);
         let got: u32; ptx! { ld.global.u32 got, [from]; st.global.u32 [to], got; }",
        "",
    ),
    (
        "unsafe(requires(x.len() >= 32), addresses(a[..2] = x)), proved(races)",
        "a: &[u64], x: &mut [u32]) { let to: u64 = node::address_in(a, 1) + wide(tid.x) * 4; let from = x.at(31 - tid.x);
         let got: u32; ptx! { ld.global.u32 got, [from]; st.global.u32 [to], got; }",
        "two addresses may be those of the same memory",
    ),
    // Two tables with addresses of `x`.
    (
        "unsafe(requires(x.len() >= 32), addresses(a[..1] = x, b[..1] = x)), proved(races)",
        "a: &[u64], b: &[u64], x: &mut [u32]) { let to: u64 = node::address_in(a, 0) + wide(tid.x) * 4; let from: u64 = node::address_in(b, 0) + wide(31 - tid.x) * 4;
         let got: u32; ptx! { ld.global.u32 got, [from]; st.global.u32 [to], got; }",
        "[P091",
    ),
    // Memory of a table has no value that two loads have in common: another launch may write between them.
    (
        "unsafe(requires(), addresses(table[..1] = [u32; 1])), proved(races)",
        "table: &[u64]) { let at: u64 = node::address_in(table, 0); let got: u32; ptx! { ld.global.u32 got, [at]; } if got > 0 { block::sync(); }",
        "[P091",
    ),
    // `x` is written through its address in the table, and so its elements are no constants.
    (
        "unsafe(requires(x.len() >= 1), addresses(table[..1] = x)), proved(races)",
        "table: &[u64], x: &[u32]) { let at: u64 = node::address_in(table, 0); let (one, two): u32; let from = x.at(0);
         ptx! { ld.global.u32 one, [from]; st.global.u32 [at], 1; ld.global.u32 two, [from]; } if one + two == 1 { block::sync(); }",
        "[P091",
    ),
];

/// Stores and loads that order threads of several blocks.
const ORDER: [(&str, &str, &str); 8] = [
    ("st.release.gpu.global.u32 [x], v;", "ld.acquire.gpu.global.u32 v, [x];", ""),
    ("st.relaxed.sys.global.u32 [x], v;", "ld.relaxed.sys.global.u32 v, [x];", ""),
    ("st.relaxed.sys.global.u32 [x], v;", "ld.global.u32 v, [x];", "[P091"),
    ("st.global.u32 [x], v;", "ld.acquire.gpu.global.u32 v, [x];", "[P091"),
    ("st.volatile.global.u32 [x], v;", "ld.volatile.global.u32 v, [x];", "[P091"),
    // Threads of other blocks are beyond this scope.
    ("st.release.cta.global.u32 [x], v;", "ld.acquire.gpu.global.u32 v, [x];", "[P091"),
    // Parts of a word.
    ("st.release.gpu.global.u16 [x], h;", "ld.acquire.gpu.global.u32 v, [x];", "[P091"),
    ("st.release.gpu.global.v2.u32 [x], {v, v};", "ld.acquire.gpu.global.v2.u32 {v, w}, [x];", ""),
];

/// The end of a launch before a barrier.
const TRAPS: [Case; 5] = [
    ("proved(races)", "let v = x.at(tid.x); let got: u32; ptx! { ld.global.u32 got, [v]; } if got > 0 { ptx! { trap; } } block::sync();", ""),
    ("proved(races)", "let v = x.at(tid.x); let got: u32; ptx! { ld.global.u32 got, [v]; } if got > 0 { return; } block::sync();", "[P091"),
    // A thread comes to another barrier before.
    (
        "proved(races)",
        "let v = x.at(tid.x); let got: u32; ptx! { ld.global.u32 got, [v]; } if got > 0 { block::sync(); ptx! { trap; } } block::sync();",
        "[P091",
    ),
    // A loop that waits, with a limit on its patience.
    (
        "proved(races)",
        "let v = x.at(tid.x); let mut turns: u32 = 0; loop { let got: u32; ptx! { ld.acquire.gpu.global.u32 got, [v]; } if got > 0 { break; }
         turns += 1; if turns > 1000 { ptx! { trap; } } } block::sync();",
        "",
    ),
    (
        "proved(races)",
        "let v = x.at(tid.x); let mut turns: u32 = 0; loop { let got: u32; ptx! { ld.acquire.gpu.global.u32 got, [v]; } if got > 0 { break; }
         turns += 1; if turns > 1000 { return; } } block::sync();",
        "[P091",
    ),
];

/// Parts of memory that ranks share, and of warps.
const PARTS: [Case; 12] = [
    // The start of a rank's part is that of all threads, and not if it depends on the block.
    (
        "block = 32, grid = blocks, requires(blocks >= 1, blocks <= 64, rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= 1 * ranks * count), proved(races)",
        "x: &mut [u32], blocks: u32, rank: u32, ranks: u32, count: u32) { let mut at: u32 = ctaid.x * 32 + tid.x; while at < count {
         let to = x.at(rank * count + at); ptx! { st.global.u32 [to], at; } at += blocks * 32; }",
        "",
    ),
    (
        "block = 32, grid = blocks, requires(blocks >= 1, blocks <= 64, rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= 1 * ranks * count), proved(races)",
        "x: &mut [u32], blocks: u32, rank: u32, ranks: u32, count: u32) { let mut at: u32 = ctaid.x * 32 + tid.x; while at < count {
         let to = x.at(rank * count + at); ptx! { st.global.u32 [to], at; } at += blocks * 16; }",
        "[P091",
    ),
    (
        "block = 32, grid = blocks, requires(blocks >= 1, blocks <= 64, rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= 2 * ranks * count), proved(races)",
        "x: &mut [u32], blocks: u32, rank: u32, ranks: u32, count: u32) { let mut at: u32 = ctaid.x * 32 + tid.x; while at < count {
         let to = x.at((rank + (ctaid.x & 1)) * count + at); ptx! { st.global.u32 [to], at; } at += blocks * 32; }",
        "",
    ),
    // With two blocks, the second part of one is the first part of the other.
    (
        "block = 32, grid = blocks, requires(blocks >= 1, blocks <= 64, rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= 2 * ranks * count), proved(races)",
        "x: &mut [u32], blocks: u32, rank: u32, ranks: u32, count: u32) { let mut at: u32 = ctaid.x * 32 + tid.x; while at < count {
         let to = x.at((rank + (ctaid.x & 1)) * 32 + at); ptx! { st.global.u32 [to], at; } at += blocks * 32; }",
        "[P091",
    ),
    // Lanes that leave a loop with a barrier of their warp come to the next one.
    (
        "block = 64, grid = 1, requires(x.len() >= 2, n < 1000), proved(races)",
        "x: &mut [u32], n: u32) { let at = x.at(tid.x / 32); let mut sum: u32; ptx! { ld.global.u32 sum, [at]; } let mut i: u32 = tid.x / 32;
         while i < n { warp::sync(); sum += 1; i += 2; } warp::sync(); if laneid == 0 { ptx! { st.global.u32 [at], sum; } }",
        "",
    ),
    (
        "block = 64, grid = 1, requires(x.len() >= 2, n < 1000), proved(races)",
        "x: &mut [u32], n: u32) { let at = x.at(tid.x / 32); let mut sum: u32; ptx! { ld.global.u32 sum, [at]; } let mut i: u32 = tid.x / 32;
         while i < n { warp::sync(); sum += 1; i += 2; } if laneid == 0 { ptx! { st.global.u32 [at], sum; } }",
        "[P091",
    ),
    // Lanes leave the loop apart.
    (
        "block = 64, grid = 1, requires(x.len() >= 2, n < 1000), proved(races)",
        "x: &mut [u32], n: u32) { let at = x.at(tid.x / 32); let mut sum: u32; ptx! { ld.global.u32 sum, [at]; } let mut i: u32 = tid.x;
         while i < n { warp::sync(); sum += 1; i += 2; } warp::sync(); if laneid == 0 { ptx! { st.global.u32 [at], sum; } }",
        "[P091",
    ),
    // Two warps.
    (
        "block = 64, grid = 1, requires(x.len() >= 2, n < 1000), proved(races)",
        "x: &mut [u32], n: u32) { let at = x.at(0); let mut sum: u32; ptx! { ld.global.u32 sum, [at]; } let mut i: u32 = tid.x / 32;
         while i < n { warp::sync(); sum += 1; i += 2; } warp::sync(); if laneid == 0 { ptx! { st.global.u32 [at], sum; } }",
        "[P091",
    ),
    // A share of all, up to the whole.
    (
        "block = 32, grid = 1, requires(rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= count), proved(bounds)",
        "x: &mut [u32], rank: u32, ranks: u32, count: u32) { let (first, end): (u32, u32) = (count * rank / ranks, count * (rank + 1) / ranks);
         let mut at: u32 = first + tid.x; while at < end { let to = x.at(at); ptx! { red.global.add.u32 [to], 1; } at += 32; }",
        "",
    ),
    (
        "block = 32, grid = 1, requires(rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= count), proved(bounds)",
        "x: &mut [u32], rank: u32, ranks: u32, count: u32) { let (first, end): (u32, u32) = (count * rank / ranks, count * (rank + 2) / ranks);
         let mut at: u32 = first + tid.x; while at < end { let to = x.at(at); ptx! { red.global.add.u32 [to], 1; } at += 32; }",
        "[P091",
    ),
    (
        "block = 32, grid = 1, requires(rank <= ranks, ranks >= 1, ranks <= 64, count < 1 << 20, x.len() >= count), proved(bounds)",
        "x: &mut [u32], rank: u32, ranks: u32, count: u32) { let (first, end): (u32, u32) = (count * rank / ranks, count * (rank + 1) / ranks);
         let mut at: u32 = first + tid.x; while at < end { let to = x.at(at); ptx! { red.global.add.u32 [to], 1; } at += 32; }",
        "[P091",
    ),
    (
        "block = 32, grid = 1, requires(rank < ranks, ranks <= 64, count < 1 << 20, x.len() >= count), proved(bounds)",
        "x: &mut [u32], rank: u32, ranks: u32, count: u32) { let (first, end): (u32, u32) = (count * rank / ranks, count * (rank + 1) / ranks);
         let mut at: u32 = first + tid.x; while at <= end { let to = x.at(at); ptx! { red.global.add.u32 [to], 1; } at += 32; }",
        "[P091",
    ),
];

fn assert_cases(head: &str, cases: &[Case]) {
    for (options, kernel, expected) in cases {
        let text = format!("#[ptx_kernel(arch = \"sm_80\", {head}, {options})] pub fn k({kernel} }}");
        assert_proved_or(&text, expected);
    }
}

#[test]
fn addresses_in_a_table_are_those_of_memory_with_a_length() {
    assert_cases("block = 32, grid = 1", &BOUNDS);
}

#[test]
fn memory_of_a_table_is_shared_with_its_entries_and_its_argument() {
    assert_cases("block = 32, grid = 1", &RACES);
}

#[test]
fn stores_and_loads_that_synchronize_do_not_race() {
    for (store, load, expected) in ORDER {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = 2, requires(x.len() >= 2), proved(races))]
             pub fn k(#[align(8)] x: &mut [u32]) {{ let (v, w): u32; let h: u16; ptx! {{ mov.u32 v, 1; mov.u16 h, 1; }}
             if tid.x == 0 {{ if ctaid.x == 0 {{ ptx! {{ {store} }} }} else {{ ptx! {{ {load} }} }} }} }}"
        );
        assert_proved_or(&text, expected);
    }
}

#[test]
fn a_trap_ends_the_launch_and_a_return_a_thread() {
    for (options, body, expected) in TRAPS {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = 1, requires(x.len() >= 32), {options})] pub fn k(x: &mut [u32]) {{ {body} }}"
        );
        assert_proved_or(&text, expected);
    }
}

#[test]
fn parts_of_ranks_and_warps_are_apart_or_not() {
    for (options, kernel, expected) in PARTS {
        assert_proved_or(&format!("#[ptx_kernel(arch = \"sm_80\", {options})] pub fn k({kernel} }}"), expected);
    }
}

#[test]
fn a_table_names_memory() {
    for (tables, expected) in [
        ("table[..1] = y", "this is no memory among the parameters"),
        ("n[..1] = table", "this is no memory among the parameters"),
        ("table[..] = [u32; n]", "this does not say which elements are addresses of which memory"),
        ("table = [u32; n]", "this does not say which elements are addresses of which memory"),
    ] {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 1, grid = 1, unsafe(requires(), addresses({tables})))] pub fn k(table: &[u64], n: u32) {{ }}"
        );
        assert_proved_or(&text, expected);
    }
}
