//! The whole program on small sizes, on whatever device is here, with a companion that only claims to compute, one that
//! is not there, and one that dies. What the kernels compute is checked; their figures mean nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use ptx_expand::temp_dir::TempDir;
use serde_json::Value;
use std::process::{Command, Output};

/// Runs the program, which writes into a folder of its own.
fn bench(arguments: &[&str]) -> (Output, TempDir) {
    let folder = TempDir::new("ptx-bench").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(["--rehearse", "--turns", "2", "--turn-ms", "0.01", "--json"]).arg(folder.path().join("run.json"));
    command.arg("--docs").arg(folder.path()).env("PTX_DEVICE", "cpu");
    (command.args(arguments).output().unwrap(), folder)
}

fn stub() -> String {
    format!("sh {}/tests/stub.sh", env!("CARGO_MANIFEST_DIR"))
}

/// Of an entry: kernel, contestant, and why it was not measured.
fn words(entry: &Value) -> (&str, &str, Option<&str>) {
    (entry["kernel"].as_str().unwrap(), entry["contestant"].as_str().unwrap(), entry["why"].as_str())
}

#[test]
fn every_promised_kernel_meets_its_rivals() {
    let stub = stub();
    let arguments = ["--all", "--companion", &stub, "--companion", "/nonexistent", "--companion", "true"];
    let (output, folder) = bench(&arguments);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    let entries = run["entries"].as_array().unwrap();
    let of = |kernel: &str, who: &str| {
        let found = entries.iter().find(|entry| words(entry).0 == kernel && words(entry).1.starts_with(who));
        found.unwrap_or_else(|| panic!("{who} is not in {kernel}:\n{shown}"))
    };
    for kernel in
        ["rms_norm f32", "layer_norm bf16", "swiglu f32", "attention bf16", "gemm bf16", "gemm e4m3", "gemm bf16 sm_80"]
    {
        let ours = entries.iter().filter(|entry| words(entry).0 == kernel && entry["ours"] == true);
        assert!(
            ours.clone().count() > 0
                && ours.clone().all(|entry| entry["right"] == true && entry["rate"].as_f64() > Some(0.0))
        );
        assert_eq!(of(kernel, "torch.compile")["median"], 1.5);
        assert!(of(kernel, "wrong")["right"] == false && of(kernel, "wrong")["rate"] == 0.0);
        assert_eq!(words(of(kernel, "fails")).2, Some("out of order"));
        assert_eq!(words(of(kernel, "pyptx")).2, Some("not installed"));
    }
    let says: Vec<&str> =
        run["machine"]["companions"].as_array().unwrap().iter().map(|says| says.as_str().unwrap()).collect();
    assert_eq!((says.len(), says[0]), (3, "stub 1"));
    assert!(says[1].contains("does not start") && says[2].contains("is gone: "), "{says:?}");
    assert_eq!(words(of("softmax bf16", "sh ")).2, Some("no softmax here"));
    assert!(words(of("gemm bf16", "cuBLASLt")).2.unwrap().contains("no CUDA device"));
    for kernel in ["attention bf16", "rms_norm f32", "layer_norm bf16"] {
        assert_eq!(words(of(kernel, "cuDNN")).2, Some("cuDNN needs a CUDA device"));
    }
    let page = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(
        page.contains("; stub 1") && page.contains("| swiglu f32 | torch.compile |") && page.contains("swiglu-f32.svg")
    );
    assert!(folder.path().join("swiglu-f32.svg").exists());
}

#[test]
fn what_nothing_is_promised_of_runs_too() {
    let (output, folder) = bench(&["--filter", "power", "--filter", "gemm f16", "--alone"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    let entries = run["entries"].as_array().unwrap();
    for kernel in ["power bf16", "gemm f16"] {
        let mut of = entries.iter().filter(|entry| words(entry).0 == kernel).peekable();
        assert!(of.peek().is_some() && of.all(|entry| entry["right"] == true), "{kernel}: {entries:?}");
    }
}

#[test]
fn when_the_time_is_over_that_is_said() {
    let (output, folder) = bench(&["--minutes", "0", "--filter", "copy", "--alone"]);
    assert!(!output.status.success());
    let run: Value = serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(words(&run["entries"][0]), ("copy f32", "ours", Some("the time was over")));
}
