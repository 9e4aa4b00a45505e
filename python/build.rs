//! Functions with the same code are one in the library, where rustc brings its linker: 0.2 MB less.

use std::env::{var, var_os};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // From this version on rustc links this target with its own LLD, unless somebody chooses another linker.
    let is_target = var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    if is_target && var_os("RUSTC_LINKER").is_none() && minor_version().is_some_and(|minor| minor >= 90) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}

/// `90` of `rustc 1.90.0`.
fn minor_version() -> Option<u32> {
    let told = Command::new(var_os("RUSTC")?).arg("--version").output().ok()?;
    String::from_utf8(told.stdout).ok()?.split('.').nth(1)?.parse().ok()
}
