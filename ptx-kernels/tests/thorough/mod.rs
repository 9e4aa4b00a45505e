//! `PTX_THOROUGH`, as `.ci/run` sets it: without it, a part of the cases that take seconds each is run.

pub(crate) fn is_thorough() -> bool {
    std::env::var_os("PTX_THOROUGH").is_some()
}

/// Of a list of cases, one in so many is run; with `PTX_THOROUGH` set, all are.
#[allow(dead_code, reason = "some tests have no list")]
pub(crate) fn one_in<T>(many: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if is_thorough() { 1 } else { many })
}
