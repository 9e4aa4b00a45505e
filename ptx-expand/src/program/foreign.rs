//! Texts in other languages, by a word at the beginning of a line.

const LANGUAGES: &[(&str, &str)] = &[
    (
        ".version",
        "this is PTX, whose entries need signatures: `ptx_file` in Python and `Source::ptx` in Rust take them",
    ),
    ("__global__", CUDA),
    ("extern \"C\" __global__", CUDA),
    ("template", CUDA),
    ("@", PYTHON),
    ("def ", PYTHON),
    ("import ", PYTHON),
    ("from ", PYTHON),
];

const CUDA: &str = "this is CUDA C++; kernels here are functions of Rust: `#[ptx_kernel(…)] fn name(…) { … }`";
const PYTHON: &str = "this is Python; kernels here are functions of Rust: `#[ptx_kernel(…)] fn name(…) { … }`";

/// The help for a text that is not Rust.
pub(super) fn hint(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(str::trim_start);
    lines.find_map(|line| LANGUAGES.iter().find(|(word, _)| line.starts_with(word)).map(|(_, hint)| *hint))
}
