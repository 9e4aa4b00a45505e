//! Condition functions (`#[ptx_contract]`) as launches call them: over integers without a type, with an error where a result does not exist. Everything
//! here is called by the macros' expansions.

use crate::int::{Int, ToInt};
use std::fmt;

/// A struct of parameters with condition functions.
pub trait Contracted {
    /// It, with the functions that launches call.
    type View<'a>
    where
        Self: 'a;
    /// Its view.
    fn view(&self) -> Self::View<'_>;
    /// The fields that a function reads, for the message about a condition.
    fn read_by(&self, function: &str) -> Text;
}

/// An expression that divides by zero or overflows: its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undefined(pub &'static str);

/// The result of a condition function.
pub type Checked<T> = Result<T, Undefined>;

/// A value as host expressions see it: integers without a type, and arrays and tuples of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no place in a condition",
    label = "expected an integer, or an array or a tuple of integers"
)]
pub trait ToHost {
    /// Its type there.
    type Host;
    /// The same value.
    fn to_host(self) -> Self::Host;
}

impl<T: ToInt> ToHost for T {
    type Host = Int;
    #[inline]
    fn to_host(self) -> Int {
        self.to_int()
    }
}

impl ToHost for bool {
    type Host = bool;
    #[inline]
    fn to_host(self) -> bool {
        self
    }
}

impl<T: ToHost, const N: usize> ToHost for [T; N] {
    type Host = [T::Host; N];
    #[inline]
    fn to_host(self) -> Self::Host {
        self.map(T::to_host)
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => { $(
        impl<$($part: ToHost),*> ToHost for ($($part,)*) {
            type Host = ($($part::Host,)*);
            #[inline]
            #[allow(non_snake_case, reason = "the names of the types are those of the values, too")]
            fn to_host(self) -> Self::Host {
                let ($($part,)*) = self;
                ($($part.to_host(),)*)
            }
        }
    )* };
}
tuples! { (A) (A B) (A B C) (A B C D) }

/// `value`, as host expressions see it.
#[inline]
pub fn host<T: ToHost>(value: T) -> T::Host {
    value.to_host()
}

/// The result of arithmetic.
///
/// # Errors
/// The text of an expression without a result.
#[inline]
pub fn checked<T>(value: Option<T>, text: &'static str) -> Checked<T> {
    value.ok_or(Undefined(text))
}

/// `all`, up to the first element that decides.
///
/// # Errors
/// The first condition without a result.
#[inline]
pub fn every<I: IntoIterator>(over: I, mut holds: impl FnMut(I::Item) -> Checked<bool>) -> Checked<bool> {
    for element in over {
        if !holds(element)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `any`, up to the first element that decides.
///
/// # Errors
/// The first condition without a result.
#[inline]
pub fn some<I: IntoIterator>(over: I, mut holds: impl FnMut(I::Item) -> Checked<bool>) -> Checked<bool> {
    every(over, |element| holds(element).map(|holds| !holds)).map(|none| !none)
}

/// A struct whose method a host expression calls: one with condition functions is its view, any other one is itself. The compiler takes the method of
/// [`Viewed`] wherever it exists.
#[derive(Clone, Copy, Debug)]
pub struct Viewed<'a, T>(pub &'a T);

impl<'a, T: Contracted> Viewed<'a, T> {
    /// Its view.
    #[inline]
    pub fn viewed(self) -> T::View<'a> {
        self.0.view()
    }
}

/// A struct without condition functions.
pub trait Unviewed<'a, T> {
    /// The struct itself.
    fn viewed(self) -> &'a T;
}

impl<'a, T> Unviewed<'a, T> for Viewed<'a, T> {
    #[inline]
    fn viewed(self) -> &'a T {
        self.0
    }
}

/// The struct whose function a condition calls, in a message: the fields that the function reads, or else all that `whole` returns.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a, T, F> {
    /// The struct.
    pub of: &'a T,
    /// The function.
    pub function: &'a str,
    /// Its text without condition functions.
    pub whole: F,
}

impl<T: Contracted, F> Receiver<'_, T, F> {
    /// Its text.
    #[cold]
    pub fn shown(&self) -> Text {
        self.of.read_by(self.function)
    }
}

/// A receiver without condition functions.
pub trait Whole {
    /// Its text.
    fn shown(&self) -> Text;
}

impl<T, F: Fn() -> String> Whole for Receiver<'_, T, F> {
    #[cold]
    fn shown(&self) -> Text {
        Text((self.whole)())
    }
}

/// A text that is shown as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Some fields of a struct as text: `Problem { reach: [4, 4], .. }`.
#[cold]
pub fn shown_fields(name: &str, fields: &[(&str, &dyn fmt::Debug)]) -> Text {
    let fields: Vec<String> = fields.iter().map(|(field, value)| format!("{field}: {value:?}, ")).collect();
    Text(format!("{name} {{ {}.. }}", fields.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::{Arithmetic, int};

    #[test]
    fn conditions_end_where_they_are_decided() {
        let holds = |n: Int| checked(int(8).div(n), "8 / n").map(|part| part > 1);
        assert_eq!(every([int(4), int(8), int(0)], holds), Ok(false));
        assert_eq!(every([int(4), int(0), int(8)], holds), Err(Undefined("8 / n")));
        assert_eq!((some([int(4), int(0)], holds), some([int(8)], holds)), (Ok(true), Ok(false)));
        assert_eq!(host([(1u8, 2u64), (3, 4)]), [(int(1), int(2)), (int(3), int(4))]);
        assert_eq!(shown_fields("P", &[("n", &1)]).0, "P { n: 1, .. }");
    }
}
