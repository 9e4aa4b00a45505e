//! `ptx new`, `ptx completions` and `ptx man`. `.ci/templates` builds the crates and runs their tests.

use super::ptx;
use ptx_expand::temp_dir::TempDir;

#[test]
fn crates_are_written() {
    let folder = TempDir::new("ptx-new").unwrap();
    for (kind, files) in [
        ("app", &["Cargo.toml", "src/main.rs", ".gitignore"][..]),
        ("library", &["Cargo.toml", "src/lib.rs"]),
        ("python", &["pyproject.toml", "package/my_python/__init__.py", "tests/test_my_python.py"]),
        ("candle", &["Cargo.toml", "src/lib.rs"]),
    ] {
        let path = folder.path().join(format!("my-{kind}"));
        let output = ptx(&["new", kind, path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("cd "));
        for file in files {
            let text = std::fs::read_to_string(path.join(file)).unwrap();
            assert!(!text.contains("{{"), "{kind}/{file}: {text}");
        }
        assert!(std::fs::read_to_string(path.join("Cargo.toml")).unwrap().contains(&format!("name = \"my-{kind}\"")));
        let again = ptx(&["new", kind, path.to_str().unwrap()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));
    }
}

#[test]
fn names_that_no_package_can_have_are_errors() {
    for name in ["9lives", "with space", "fn", "ptx-launch", ".."] {
        let output = ptx(&["new", "app", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("cannot be the name of a package"),
            "{name}: {output:?}"
        );
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
    let wrong = ptx(&["man", "chekc"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there is no command `chekc`"));
}
