//! Items for the macros' expansions. `ptx-launch` adds those of its macros.

pub use crate::buffer::{Bound, ReadSlice, WriteSlice};
pub use crate::config::{Config, IntoDim};
pub use crate::contracted::{
    Checked, Contracted, Receiver, Text, ToHost, Undefined, Unviewed, Viewed, Whole, checked, every, host,
    shown_fields, some,
};
pub use crate::error::Result;
pub use crate::int::{Arithmetic, Int, IntegerArithmetic, ToInt, int};
pub use crate::kernel::{Cubin, Kernel, LineMap, Module, Variant};
pub use crate::launch::launch;
pub use crate::param::{Arg, KernelParam, Param};
pub use crate::statics::Static;
pub use crate::stream::{AsStream, StreamRef, Submission};
pub use crate::tensor_map::{
    ElementType, Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap, TensorMapBuilder,
};
pub use crate::texture::{Surface, Texture};
pub use crate::tile::{ReadTile, WriteTile, dim};
pub use ::core;
pub use ptx_target::Contract;

use crate::error::{Error, ErrorKind};
pub use crate::testing::{each_seed, each_seed_assembled};

/// A slice parameter in a host expression: all that is known of it there is its length.
#[derive(Clone, Copy, Debug)]
pub struct Len(Int);

impl Len {
    /// The slice that has this many elements.
    #[inline]
    pub fn new(len: usize) -> Len {
        Len(int(len))
    }

    /// Number of elements.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "it has one, below")]
    pub fn len(self) -> Int {
        self.0
    }

    /// Returns true if there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The result of a launch for which an arithmetic expression has no value.
///
/// # Errors
/// [`ErrorKind::Condition`], always.
#[cold]
pub fn without_value<T>(kernel: &Kernel, expression: &str) -> Result<T> {
    Err(undefined(kernel.entry, expression))
}

/// An expression of the attribute of the kernel `entry` that has no value.
#[cold]
pub fn undefined(entry: &str, expression: &str) -> Error {
    let asked = format!("`{entry}` is launched with values for which `{expression}` divides by zero or overflows");
    Error::new(ErrorKind::Condition, asked).help("check the arguments of the launch")
}

/// The result of a method of a struct of parameters: that of a condition function may not exist.
#[derive(Clone, Copy, Debug)]
pub struct Returned<T>(pub T);

impl<T> Returned<Checked<T>> {
    /// The value.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] where it has none.
    #[inline]
    pub fn value(self, kernel: &Kernel) -> Result<T> {
        match self.0 {
            Ok(value) => Ok(value),
            Err(Undefined(text)) => without_value(kernel, text),
        }
    }
}

/// The result of any other method.
pub trait Plain<T> {
    /// The value.
    ///
    /// # Errors
    /// None.
    fn value(self, kernel: &Kernel) -> Result<T>;
}

impl<T> Plain<T> for Returned<T> {
    #[inline]
    fn value(self, _: &Kernel) -> Result<T> {
        Ok(self.0)
    }
}

/// The kernel of the instance that is picked at run time.
///
/// # Errors
/// [`ErrorKind::Condition`] if the instances with the types of the call have no such name.
pub fn instance<I: Copy + PartialEq + std::fmt::Debug>(
    kernels: &[(I, &'static Kernel)],
    wanted: I,
    kernel: &str,
) -> Result<&'static Kernel> {
    match kernels.iter().find(|(name, _)| *name == wanted) {
        Some((_, found)) => Ok(found),
        None => Err(no_instance(&mut kernels.iter().map(|(name, _)| name as &dyn std::fmt::Debug), &wanted, kernel)),
    }
}

#[cold]
fn no_instance(
    names: &mut dyn Iterator<Item = &dyn std::fmt::Debug>,
    wanted: &dyn std::fmt::Debug,
    kernel: &str,
) -> Error {
    let names: Vec<String> = names.map(|name| format!("`{name:?}`")).collect();
    let asked = format!("the instance `{wanted:?}` of `{kernel}` does not exist for these types");
    Error::new(ErrorKind::Condition, asked)
        .possible(names.join(", "))
        .help("pick one of these, or add it to `instances` in the kernel's attribute")
}

/// The tensor map of a parameter, which an error names.
///
/// # Errors
/// Those of [`TensorMapBuilder::build`].
pub fn build_map(map: &TensorMapBuilder, kernel: &Kernel, parameter: &str) -> Result<TensorMap> {
    map.build().map_err(|error| error.about(&format!("`{}` is launched with `{parameter}` as ", kernel.entry), ""))
}

/// The alignment that constants decide.
#[inline]
pub fn alignment(align: Int) -> u64 {
    u64::try_from(align.0).unwrap_or(1)
}

/// Checks the alignment of memory that a kernel takes with `#[align(16)]`.
///
/// # Errors
/// [`ErrorKind::Condition`] for another address.
#[inline]
pub fn aligned(memory: &Bound<'_>, align: u64, kernel: &Kernel, parameter: &str) -> Result<()> {
    aligned_at(memory.address(), align, kernel, parameter)
}

/// The same by its address.
///
/// # Errors
/// As [`aligned`].
#[inline]
pub fn aligned_at(address: u64, align: u64, kernel: &Kernel, parameter: &str) -> Result<()> {
    if address.is_multiple_of(align.max(1)) { Ok(()) } else { Err(misaligned(align, kernel, parameter)) }
}

#[cold]
fn misaligned(align: u64, kernel: &Kernel, parameter: &str) -> Error {
    let asked =
        format!("`{}` is launched with `{parameter}` at an address that is no multiple of {align}", kernel.entry);
    Error::new(ErrorKind::Condition, asked)
        .possible(format!("its attribute must hold: `#[align({align})]`"))
        .help("pass a buffer, or a view that begins at such an address")
}

/// A value in the message about a condition.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a, T>(pub &'a T);

impl<T: std::fmt::Debug> Shown<'_, T> {
    /// Its text.
    #[cold]
    pub fn shown(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The text of a value whose type has no [`Debug`](std::fmt::Debug). The compiler takes the method of [`Shown`] wherever it exists.
pub trait Opaque {
    /// Its text.
    fn shown(&self) -> String;
}

impl<T> Opaque for Shown<'_, T> {
    fn shown(&self) -> String {
        "a value without `Debug`".to_owned()
    }
}

/// The text of a condition of `requires(…)` that does not hold, and what it names: indices of the launch's values.
#[derive(Clone, Copy, Debug)]
pub struct Unmet<'a>(pub &'a str, pub &'a [u8]);

/// The error for a condition that does not hold, with the values of what it names.
#[cold]
pub fn unmet(kernel: &Kernel, Unmet(condition, named): Unmet<'_>, values: &[(&str, &dyn std::fmt::Display)]) -> Error {
    let named: Vec<_> = named.iter().filter_map(|at| values.get(usize::from(*at)).copied()).collect();
    unmet_by(kernel.entry, condition, &named)
}

/// The same for the kernel `entry`, which no device has yet.
#[cold]
pub fn unmet_by(entry: &str, condition: &str, values: &[(&str, &dyn std::fmt::Display)]) -> Error {
    let values: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let found = match values.is_empty() {
        true => "a condition that never holds".to_owned(),
        false => values.join(", "),
    };
    Error::new(ErrorKind::Condition, format!("`{entry}` is launched with {found}"))
        .possible(format!("its condition must hold: {condition}"))
}
