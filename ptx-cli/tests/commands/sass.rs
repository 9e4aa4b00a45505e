//! `ptx sass` without its tools: scripts in their place repeat what ptxas and nvdisasm printed about the kernels of `commands/sass`.
//!
//! `PTX_RECORD=1 PTXAS=… NVDISASM=… UPDATE_EXPECT=1 cargo test … sass` runs the tools themselves, and records what they print.
#![cfg(unix)]

use ptx_expand::temp_dir::TempDir;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds the kernel by the first line of its PTX, which it leaves beside the machine code for the other tool.
const PTXAS: &str = r#"#!/bin/sh
all="$*"
for word; do case "$before" in -o) out=$word;; esac; case "$word" in *.ptx) in=$word;; esac; before=$word; done
name=$(sed -n '1s,^// recorded: ,,p' "$in")
if [ -n "$REAL_PTXAS" ]; then
  "$REAL_PTXAS" $all > "$RECORDED/$name.ptxas" 2>&1 || exit 1
else
  echo > "$out"
fi
echo "$name" > "$out.name"
cat "$RECORDED/$name.ptxas"
"#;

const NVDISASM: &str = r#"#!/bin/sh
for word; do file=$word; done
name=$(cat "$file.name")
case "$*" in *-plr*) kind=registers;; *) kind=lines;; esac
if [ -n "$REAL_NVDISASM" ]; then "$REAL_NVDISASM" "$@" > "$RECORDED/$name.$kind"; fi
cat "$RECORDED/$name.$kind"
"#;

fn recorded() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/sass"))
}

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The output of `ptx sass` with these arguments, in the folder of the kernels.
fn sass(arguments: &[&str]) -> String {
    let folder = TempDir::new("ptx-test").unwrap();
    let mut ptx = Command::new(env!("CARGO_BIN_EXE_ptx"));
    ptx.arg("sass").args(arguments).current_dir(recorded()).env("RECORDED", recorded());
    let records = std::env::var_os("PTX_RECORD").is_some();
    for (tool, text) in [("PTXAS", PTXAS), ("NVDISASM", NVDISASM)] {
        if let Some(real) = std::env::var_os(tool).filter(|_| records) {
            ptx.env(format!("REAL_{tool}"), real);
        }
        ptx.env(tool, script(folder.path(), tool, text));
    }
    let output = ptx.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn expect(name: &str, text: &str) {
    expect_test::expect_file![recorded().join(name)].assert_eq(text);
}

/// The control words of a loop with loads, stores and barriers, its blocks with their cycles, and the lines of PTX and CUDA.
#[test]
fn a_loop_is_shown_with_its_schedule_and_its_sources() {
    let folder = TempDir::new("ptx-sass-test").unwrap();
    let page = folder.path().join("page.html");
    let text = sass(&["tile.ptx", "--html", page.to_str().unwrap()]);
    expect("tile.txt", &text);
    assert!(
        text.contains("tile.cu 5: ((float*)tile)[threadIdx.x] = in[128 * i + threadIdx.x];\nptx 24: ld.global.f32"),
        "{text}"
    );
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<i>tile.cu:7</i>") && html.contains("MUFU.EX2") && !html.contains("http"), "{html}");
}

/// Spills are counted and marked, and registers are counted for each line.
#[test]
fn spills_are_shown() {
    let text = sass(&["spills.ptx"]);
    expect("spills.txt", &text);
    assert!(text.contains("bytes stored") && text.contains("STL") && text.contains("LDL"), "{text}");
}

#[test]
fn two_versions_are_compared() {
    expect("diff.txt", &sass(&["--diff", "tile.ptx", "plain.ptx"]));
}
