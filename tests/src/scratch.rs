//! A crate that is written, built and run: what only rustc can say of Rust that was made.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a crate of these modules, name and text, and this `main.rs` into a folder (`CARGO_TARGET_TMPDIR`); builds it with `ptx-launch`, runs it in its folder.
/// Gives the folder and what it printed.
///
/// # Errors
/// What could not be written, and the message of cargo or the binary.
pub fn run(under: &Path, name: &str, modules: &[(String, String)], main: &str) -> Result<(PathBuf, String), String> {
    let folder = under.join(name);
    let launch = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("ptx-launch");
    let manifest = format!(
        "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nptx-launch = {{ path = \
         {launch:?} }}\nhalf = \"2\"\n\n[profile.dev]\ndebug = false\nincremental = false\n\n[profile.dev.package.ptx-core]\nopt-level = 2\n\n[profile.dev.package.ptx-interp]\nopt-level = 2\n\n[profile.dev.build-override]\nopt-level = 2\n\n[workspace]\n"
    );
    std::fs::create_dir_all(folder.join("src")).map_err(said)?;
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(said)?;
    std::fs::write(folder.join("src/main.rs"), main).map_err(said)?;
    for (name, text) in modules {
        std::fs::write(folder.join("src").join(name).with_extension("rs"), text).map_err(said)?;
    }
    let target = under.join("scratch-target");
    let mut cargo = Command::new(env!("CARGO"));
    let ran =
        cargo.args(["run", "--quiet"]).env("CARGO_TARGET_DIR", target).current_dir(&folder).output().map_err(said)?;
    match ran.status.success() {
        true => Ok((folder, String::from_utf8_lossy(&ran.stdout).into_owned())),
        false => Err(format!("{}: {}", folder.display(), String::from_utf8_lossy(&ran.stderr))),
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}
