//! Transpiled kernels through their typed launch, on a GPU if there is one, else on the CPU device: nvcc's saxpy, Triton's
//! softmax, and the Hopper GEMM of the shared corpus (`fastcu_k12_sm90a.ptx`), raised.
//!
//!     cargo test -p ptx-tests --test transpiled_runs -- --ignored --nocapture

#![allow(clippy::unwrap_used, reason = "tests")]

use ptx_core::parse::parse_text;
use ptx_tests::{corpus, scratch};
use ptx_transpile::Without;
use ptx_transpile::prove::prove;
use std::path::{Path, PathBuf};

#[test]
#[ignore = "builds a crate of transpiled kernels; wants the shared corpus"]
fn transpiled_kernels_give_the_right_numbers() {
    let ours = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/ptx").join(path);
    let gemm = corpus::folder().unwrap().join("pyptx/fastcu_k12_sm90a.ptx");
    let files = [
        ("saxpy", ours("nvcc-13.5/saxpy.sm_75.ptx")),
        ("softmax", ours("triton-3.9/softmax.sm_80.ptx")),
        ("gemm", gemm),
    ];
    let modules = files.map(|(name, file)| (name.to_owned(), raised(&file)));
    let (_, printed) = scratch::run(
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        "transpiled-runs",
        &modules,
        include_str!("transpiled_runs/launches.rs"),
    )
    .unwrap();
    println!("{printed}");
}

fn raised(file: &PathBuf) -> String {
    // nvcc 13.5 writes PTX 9.5, which the driver of CUDA 13.0 does not read; nothing in the file needs it.
    let text = std::fs::read_to_string(file).unwrap().replace(".version 9.5", ".version 9.0");
    let tree = parse_text(text.as_bytes()).0;
    let expand = |source: &str| {
        let modules = ptx_expand::modules(source).map_err(|e| e.to_string())?;
        modules.into_iter().next().and_then(|m| m.ptx.into_iter().next()).ok_or_else(|| "no module".to_owned())
    };
    prove(&tree, "k", &Without::from(["labels"]), &expand).unwrap().text
}
