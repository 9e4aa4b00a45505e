//! Expansion of the macros: the text of `NAME::PTX`, and that ptxas accepts it. One file of `language/` is one theme.
#![allow(unsafe_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "language/from_macros.rs"]
mod from_macros;
#[path = "language/generics.rs"]
mod generics;
#[path = "language/mistakes.rs"]
mod mistakes;
#[path = "language/modules.rs"]
mod modules;
#[path = "language/named.rs"]
mod named;
#[path = "language/names.rs"]
mod names;
#[path = "language/parameters.rs"]
mod parameters;
#[path = "language/statements.rs"]
mod statements;
#[path = "language/tcgen05.rs"]
mod tcgen05;
#[path = "language/text.rs"]
mod text;
#[path = "language/tiles.rs"]
mod tiles;

use libtest_mimic::{Arguments, Completion, Trial};
use ptx_tests::ptxas;

fn main() -> std::process::ExitCode {
    let trials = [
        text::trials(),
        names::trials(),
        named::trials(),
        parameters::trials(),
        tiles::trials(),
        tcgen05::trials(),
        statements::trials(),
        generics::trials(),
        mistakes::trials(),
        modules::trials(),
        from_macros::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}

/// A check as a trial of its name.
macro_rules! passes {
    ($check:ident) => {
        libtest_mimic::Trial::test(stringify!($check), || {
            $check();
            Ok(())
        })
    };
}
pub(crate) use passes;

/// That ptxas takes a text.
pub fn assembles(name: &str, ptx: &'static str) -> Trial {
    Trial::ignorable_test(format!("{name} assembles"), move || match ptxas::find() {
        None => Ok(Completion::ignored_with(ptxas::ABSENT)),
        Some(_) => Ok(ptxas::assemble(ptx).map(|()| Completion::Completed)?),
    })
}
