//! Files of the kernel language: `ptx run` beside their attributes, and refutations of `ptx prove` as command lines.

use super::said;
use ptx_expand::temp_dir::TempDir;

/// Reads one element too many.
const SCALE: &str = r#"
#[ptx_kernel(arch = "sm_80", block = BLOCK, grid = n.div_ceil(BLOCK), requires(x.len() >= n))]
fn scale<const BLOCK: u32>(factor: f32, x: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i <= n {
        let at = x.at(i);
        let mut value: f32;
        ptx! { ld.global.f32 value, [at]; }
        value *= factor;
        ptx! { st.global.f32 [at], value; }
    }
}
"#;

/// All threads of a block write one element.
const RACE: &str = r#"
#[ptx_kernel(arch = "sm_80", block = (32, 2), grid = 1, requires(N >= 1))]
fn race(x: Tile<f32, (N,)>, out: TileMut<f32, (N,)>) {
    let (from, to) = (x.at(0), out.at(0));
    let mut value: f32;
    ptx! { ld.global.f32 value, [from]; st.global.f32 [to], value; }
}
"#;

fn folder(text: &str) -> (TempDir, String) {
    let folder = TempDir::new("ptx-rust").unwrap();
    // A shell would read this as two words.
    let path = folder.path().join("the kernel.rs");
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    (folder, name)
}

/// Every command line that shows a refutation is run by a shell, and has a finding in the line of Rust that the refutation has.
#[test]
#[cfg(unix)]
fn refutations_are_command_lines() {
    for (text, options, lines) in [(SCALE, &["--with", "BLOCK=96"][..], &["8:16", "10:16"][..]), (RACE, &[], &["6:41"])]
    {
        let (_folder, name) = folder(text);
        let (code, out, err) = said(&[&["prove", &name], options].concat());
        assert_eq!(code, 1, "{out}{err}");
        assert!(!out.contains("--assume"), "{out}");
        let shown: Vec<&str> = out.lines().filter_map(|line| Some(line.split_once("this shows it: ptx ")?.1)).collect();
        assert_eq!(shown.len(), lines.len(), "{out}");
        for (command, line) in shown.iter().zip(lines) {
            assert!(out.contains(&format!("the kernel.rs:{line}\n")), "{out}");
            let command = format!("{} {command}", env!("CARGO_BIN_EXE_ptx"));
            let run = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            let found = String::from_utf8(run.stdout).unwrap();
            assert_eq!(run.status.code(), Some(1), "{command}: {found}");
            let at = lines.iter().any(|line| found.contains(&format!("the kernel.rs:{line}\n")));
            assert!(found.starts_with("error[W0") && at, "{command}: {found}");
        }
    }
}

#[test]
fn run_has_the_sizes_of_the_attribute() {
    let (folder, name) = folder(SCALE);
    let buffer = format!("{}:400", folder.path().join("x.bin").display());
    let run = |options: &[&str]| {
        let arguments = ["run", &name, "--with", "BLOCK=64", "--arg", "f32:2", "--arg", &buffer, "--arg", "u32:99"];
        said(&[&arguments, options].concat())
    };
    for entry in ["scale", "scale_64"] {
        assert_eq!(run(&["--entry", entry]), (0, String::new(), String::new()), "{entry}");
    }
    assert_eq!(run(&["--block", "64"]).0, 0);
    let (code, _, err) = run(&["--block", "33"]);
    assert!(code == 2 && err.contains("`--block 33` is not the block of the kernel's attribute, 64"), "{err}");
    let (code, _, err) = run(&["--grid", "3"]);
    assert_eq!((code, &err[..]), (0, "note: `--grid 3` takes the place of the attribute's 2\n"));
    let (code, _, err) = run(&["--entry", "scale_65"]);
    assert!(code == 2 && err.contains("there is no such kernel; the file has `scale_64`"), "{err}");
}

#[test]
fn arguments_are_those_of_the_file() {
    let (_folder, name) = folder(SCALE);
    let (code, out, _) = said(&["check", &name, "--with", "BLOCK=64", "--with", "WIDE=3"]);
    assert!(code == 1 && out.contains("there is no generic parameter `WIDE`"), "{out}");
    let (code, out, _) = said(&["check", &name, "--with", "BLOCK=64", "--with", "BLOCK=3"]);
    assert!(code == 1 && out.contains("`BLOCK` has two arguments, `64` and `3`"), "{out}");
    let (code, _, err) = said(&["run", "k.ptx", "--with", "BLOCK=64"]);
    assert!(code == 2 && err.contains("`--with BLOCK=…` is for Rust files"), "{err}");
}

#[test]
fn numbers_that_their_type_cannot_hold() {
    for number in ["f32:1e40", "f32:-3.5e38", "f16:65520", "bf16:3.4e38", "f64:1e400", "u8:256", "struct:f16:7e4"] {
        let (code, _, err) = said(&["run", "k.ptx", "--arg", number]);
        assert!(code == 2 && (err.contains("is too large for .") || err.contains("is no .u8")), "{number}: {err}");
    }
    for number in ["f32:inf", "f32:-Infinity", "f16:nan", "f16:65519", "f64:1e308", "f32:1e-60", "f32:3.4028235e38"] {
        let (_, _, err) = said(&["run", "no such file.ptx", "--arg", number]);
        assert!(err.contains("no such file"), "{number}: {err}");
    }
}
