//! `proved` in the attribute of a kernel that is compiled from text.

use ptx_jit::Source;

/// Attributes with `proved`, kernels, and the beginning of the error; none for a kernel that is proved.
const FROM_TEXT: [(&str, &str, &str); 6] = [
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
    (
        "block = 32, grid = 1, requires(x.len() >= 32)",
        "x: &mut [u32]) { if x as u64 == 0 { let at = x + 4096; ptx! { st.global.u32 [at], 0; } }",
        "[P091",
    ),
    ("block = 32, grid = LIMIT, requires(x.len() >= 32)", "x: &[u32]) {", "`LIMIT` cannot be evaluated"),
];

#[test]
fn kernels_from_text_are_proved_or_refused() {
    for (options, kernel, expected) in FROM_TEXT {
        let text = format!("#[ptx_kernel(arch = \"sm_80\", {options}, proved)] pub fn k({kernel} }}");
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
