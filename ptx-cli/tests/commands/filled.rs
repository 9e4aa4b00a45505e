//! Tables in shared memory that the threads of a block fill together, whose length is the launch's, and mutants that leave some out.

use super::assert_proved_or;

/// Each thread reads any word below the number.
const KERNEL: &str = "#[ptx_kernel(arch = \"sm_90\", block = 64, grid = 1, requires(n < 1024, x.len() >= 64), proved)]
     pub fn k(x: &mut [u32], n: u32) {
        #[shared] let table: [u32; 1024];
        let (first, own): (u32, u64) = (table, x + wide(tid.x) * 4);
        let mut i: u32 = tid.x;
        while i < n {
            let at: u32 = first + i * 4;
            ptx! { st.shared.u32 [at], 0; }
            i += 64;
        }
        block::sync();
        let id: u32;
        ptx! { ld.global.u32 id, [own]; }
        if id < n {
            let from: u32 = first + id * 4;
            let found: u32;
            ptx! { ld.shared.u32 found, [from]; st.global.u32 [own], found; }
        } }";

/// Mutants that leave words unwritten: the last one, those of every other turn, of half of the threads, of all turns behind the 500th word, and halves of
/// each; and mutants that read the word behind the last one, or the one before the first.
const MUTANTS: [(&str, &str); 7] = [
    ("while i < n {", "while i + 1 < n {"),
    ("i += 64;", "i += 128;"),
    ("i: u32 = tid.x;", "i: u32 = tid.x / 2 * 2;"),
    ("i += 64;", "i += 64; if i > 500 { break; }"),
    ("if id < n {", "if id <= n {"),
    ("if id < n {", "if id - 1 < n {"),
    ("ptx! { st.shared.u32 [at], 0; }", "let half: u16 = 0; ptx! { st.shared.u16 [at], half; }"),
];

#[test]
fn all_threads_fill_a_table() {
    assert_proved_or(KERNEL, "");
    for (old, new) in MUTANTS {
        assert!(KERNEL.contains(old), "{old}");
        assert_proved_or(&KERNEL.replacen(old, new, 1), "[P091");
    }
}
