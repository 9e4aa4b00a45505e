//! PTX of each statement of the kernel language: small kernels beside their source in `lowering/*.ptx`
//! (`UPDATE_EXPECT=1` renews them), checked by ptxas.
#![allow(missing_docs, unused, unsafe_code, clippy::all, reason = "kernels are no Rust")]

#[path = "lowering/addresses.rs"]
mod addresses;
#[path = "lowering/blocks.rs"]
mod blocks;
#[path = "lowering/constants.rs"]
mod constants;
#[path = "lowering/control.rs"]
mod control;
#[path = "lowering/gemm.rs"]
mod gemm;
#[path = "lowering/helpers.rs"]
mod helpers;
#[path = "lowering/library.rs"]
mod library;
#[path = "lowering/memory.rs"]
mod memory;
#[path = "lowering/operators.rs"]
mod operators;
#[path = "lowering/outside.rs"]
mod outside;
#[path = "lowering/structs.rs"]
mod structs;

use expect_test::expect_file;
use libtest_mimic::{Arguments, Completion, Trial};
use ptx_tests::ptxas;

fn main() -> std::process::ExitCode {
    let texts = [
        ("operators", operators::operators::PTX, expect_file!["lowering/operators.ptx"]),
        ("control", control::control::PTX, expect_file!["lowering/control.ptx"]),
        ("constants", constants::constants::PTX, expect_file!["lowering/constants.ptx"]),
        ("helpers", helpers::helpers::PTX, expect_file!["lowering/helpers.ptx"]),
        ("memory", memory::memory::PTX, expect_file!["lowering/memory.ptx"]),
        ("blocks", blocks::blocks::PTX, expect_file!["lowering/blocks.ptx"]),
        ("library", library::library::PTX, expect_file!["lowering/library.ptx"]),
        ("outside", outside::outside::PTX, expect_file!["lowering/outside.ptx"]),
        ("structs", structs::structs::PTX, expect_file!["lowering/structs.ptx"]),
        ("addresses", addresses::addresses::PTX, expect_file!["lowering/addresses.ptx"]),
        ("gemm", gemm::gemm::PTX, expect_file!["lowering/gemm.ptx"]),
    ];
    let trials = texts.into_iter().flat_map(|(name, text, expected)| {
        let same = Trial::test(format!("{name} is as expected"), move || {
            expected.assert_eq(text);
            Ok(())
        });
        let assembles = Trial::ignorable_test(format!("{name} assembles"), move || match ptxas::find() {
            None => Ok(Completion::ignored_with(ptxas::ABSENT)),
            Some(_) => Ok(ptxas::assemble(text).map(|()| Completion::Completed)?),
        });
        [same, assembles]
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
