//! `ptx new`, `ptx completions`, `ptx man` and `ptx warm`. `.ci/templates` builds the crates and runs their tests.

use super::ptx;
use ptx_expand::temp_dir::TempDir;
use std::path::Path;

/// The kinds of crates, each with files of it; the first has kernels.
const KINDS: &[(&str, &[&str])] = &[
    ("app", &["src/main.rs", "Cargo.toml", ".gitignore"]),
    ("library", &["src/lib.rs", "Cargo.toml"]),
    ("python", &["src/lib.rs", "pyproject.toml", "package/my_python/__init__.py", "tests/test_my_python.py"]),
    ("candle", &["src/lib.rs", "Cargo.toml"]),
];

fn stderr(arguments: &[&str]) -> String {
    let output = ptx(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn crates_are_written() {
    let folder = TempDir::new("ptx-new").unwrap();
    for (kind, files) in KINDS {
        let path = folder.path().join(format!("my-{kind}"));
        let output = ptx(&["new", kind, path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("cd "));
        for file in *files {
            let text = std::fs::read_to_string(path.join(file)).unwrap();
            assert!(!text.contains("{{"), "{kind}/{file}: {text}");
        }
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"my-{kind}\"")));
        assert!(manifest.contains(concat!("ptx-launch = { version = \"", env!("CARGO_PKG_VERSION_MAJOR"), ".")));
        let kernels = path.join(files[0]);
        let checked = ptx(&["check", kernels.to_str().unwrap()]);
        assert!(checked.status.success(), "{kind}: {checked:?}");
        assert!(stderr(&["new", kind, path.to_str().unwrap()]).contains("exists already"));
    }
}

#[test]
fn crates_of_a_checkout_are_named_by_paths() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = TempDir::new("ptx-new").unwrap();
    let path = folder.path().join("mine");
    let output = ptx(&["new", "python", path.to_str().unwrap(), "--crates", root.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
    for name in ["ptx-launch", "ptx-ffi"] {
        assert!(manifest.contains(&format!("/{name}\"")), "{manifest}");
    }
    let other = folder.path().join("other");
    let refused = stderr(&["new", "app", other.to_str().unwrap(), "--crates", folder.path().to_str().unwrap()]);
    assert!(refused.contains("there is no `ptx-launch`") && !other.exists(), "{refused}");
}

#[test]
fn names_that_no_package_can_have_are_errors() {
    for (kind, name, why) in [
        ("app", "9lives", "begin it with a lower-case letter"),
        ("app", "with space", "begin it with a lower-case letter"),
        ("app", "MyApp", "begin it with a lower-case letter"),
        ("app", "..", "the last part of `..`"),
        ("app", "fn", "it is a word of Rust"),
        ("library", "ptx-launch", "it is a crate that its code uses"),
        ("app", "build", "it is a folder of cargo's builds"),
        ("python", "class", "it is a word of Python"),
        ("python", "torch", "it is a package that its arrays come from"),
    ] {
        let text = stderr(&["new", kind, name]);
        assert!(text.contains("cannot be the name of a package") && text.contains(why), "{name}: {text}");
    }
}

#[test]
fn shells_and_man_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ptx(&["completions", shell]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("transpile"), "{shell}");
    }
    let page = |arguments: &[&str]| String::from_utf8(ptx(arguments).stdout).unwrap();
    assert!(page(&["man"]).starts_with(".ie") && page(&["man"]).contains("ptx"));
    assert!(page(&["man", "check"]).contains("SYNOPSIS"));
    assert!(stderr(&["man", "chekc"]).contains("there is no command `chekc`"));
}

#[test]
fn the_cpu_device_has_nothing_to_warm() {
    assert!(stderr(&["warm", "--device", "cpu", "kernel.ptx"]).contains("`--device cpu` assembles nothing"));
    let wrong = stderr(&["warm", "--device", "gpu", "kernel.ptx"]);
    assert!(wrong.contains("no device is called `gpu`") && !wrong.contains("PTX_DEVICE"), "{wrong}");
}

/// The runtime's advice is for programs; a command has its own.
#[test]
fn commands_that_need_a_gpu_name_what_needs_none() {
    let folder = TempDir::new("ptx-new").unwrap();
    let file = folder.path().join("k.ptx");
    std::fs::write(&file, ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n").unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["warm", "--device", "cuda:99", file], "PTX_EMBED=sm_90a"),
        (&["bench", file], "`ptx profile`"),
        (&["run", "--device", "cuda", file], "leave out `--device cuda`"),
    ];
    for (command, instead) in cases {
        let said = ptx(command);
        // On a machine with a GPU two of them do their work.
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() || (text.contains(instead) && !text.contains("Device::")), "{text}");
    }
}

#[test]
fn chips_have_names_and_targets() {
    let folder = TempDir::new("ptx-new").unwrap();
    let file = folder.path().join("k.ptx");
    std::fs::write(&file, ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n").unwrap();
    let file = file.to_str().unwrap();
    assert!(ptx(&["check", "--chip", "h200", file]).status.success());
    assert!(ptx(&["profile", "--chip", "sm_90a", file]).status.success());
    for (option, value, text) in [
        ("--chip", "v100", "ptxas 13 has no target `sm_70`; the nearest is `sm_75`. CUDA 12.9"),
        ("--chip", "sm_90b", "did you mean `sm_90"),
        ("--chip", "sm_30", "CUDA 10.2"),
        ("--target", "h100", "that of the H100 is `sm_90a`"),
    ] {
        let said = stderr(&["check", option, value, file]);
        assert!(said.contains(text), "{said}");
    }
    assert!(stderr(&["profile", "--chip", "sm_99", file]).contains("V100 (sm_70)"));
}
