//! Equality of kernels over the real numbers, decided on the CPU device.

mod real;

pub use real::{Real, RealElement};

use crate::buffer::Buffer;
use crate::device::cpu::CpuDevice;
use crate::device::{Device, Inner};
use crate::error::{Error, ErrorKind, Result};
use ptx_interp::field::{Field, Number};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Decides that kernels compute the same sums, products and quotients of real numbers for some sizes, whatever the data: a tiled product
/// and the plain one, a fused norm and its formula.
///
/// `run` makes inputs with [`Reals::numbers`], launches kernels on [`Reals::device`], and states with [`Reals::equal`] which results are equal.
/// It runs in 16 finite fields of about 2^16 elements each: there all kernels compute with random elements in the place of floats, while
/// their copies, shuffles, fragments and swizzles are those of the CPU device. Two different rational functions of degree d agree in
/// all fields with a probability of at most (d / 65353)^16 (the lemma of Schwartz and Zippel). Rounding does not exist there, so
/// that kernels are equal which sum in another order, or in another precision.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # use ptx_launch::prove_equal;
/// #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(x.len() >= 32, y.len() >= 32)))]
/// fn square_of_sum(x: &[f32], y: &mut [f32]) {
///     let (from, to) = (x.at(tid.x), y.at(tid.x));
///     let v: f32;
///     ptx! {
///         ld.global.f32 v, [from];
///         add.rn.f32 v, v, 1.0;
///         mul.rn.f32 v, v, v;
///         st.global.f32 [to], v;
///     }
/// }
///
/// prove_equal(|reals| {
///     let x = reals.numbers::<f32>(32)?;
///     let mut y = reals.device().zeros::<f32>(32)?;
///     square_of_sum(reals.device(), &x, &mut y)?;
///     let (one, two) = (reals.constant(1.0), reals.constant(2.0));
///     let expanded: Vec<_> = reals.read(&x)?.into_iter().map(|x| x * x + two * x + one).collect();
///     reals.equal(&y, &expanded)
/// })?;
/// # Ok::<(), ptx_launch::Unproved>(())
/// ```
///
/// Square roots, powers of two, logarithms, sines, cosines and `tanh` are functions of which nothing is known but that equal arguments have equal values.
/// Sizes are fixed: whatever `run` does with other numbers than its inputs.
///
/// # Errors
/// - [`Unproved::Different`]: some data have different results.
/// - [`Unproved::Unknown`]: a kernel compares numbers, cuts them to integers, or works on their bits, or the results differ and depend on a function of
///   which nothing is known.
/// - [`Unproved::Failed`]: a launch failed, or `run` stated nothing.
///
/// *Needs the feature `cpu`, which is on by default.*
pub fn prove_equal(run: impl Fn(&Reals) -> Result<()>) -> std::result::Result<(), Unproved> {
    (0..Field::COUNT).try_for_each(|prime| prove_in(prime, &run))
}

/// Attempts with a prime: that a divisor is zero by chance is no reason to give up.
const ATTEMPTS: u64 = 4;

fn prove_in(prime: u64, run: &impl Fn(&Reals) -> Result<()>) -> std::result::Result<(), Unproved> {
    let mut found = Verdict::Nothing;
    for attempt in 0..ATTEMPTS {
        let reals = Reals::new(Field::new(prime + attempt * Field::COUNT));
        run(&reals).map_err(Unproved::of)?;
        found = reals.verdict.replace(Verdict::Nothing);
        let unknown = reals.cpu.machine().unknown_function().map(str::to_owned);
        match (&found, unknown) {
            (Verdict::NoNumber(_), _) => {}
            (Verdict::Different(what), Some(name)) => {
                let reason = format!("{what}, where `{name}` is a function of which nothing is known");
                return Err(Unproved::Unknown(Error::other(reason)));
            }
            (Verdict::Different(what), None) => return Err(Unproved::Different(what.clone())),
            (Verdict::Equal, _) => return Ok(()),
            (Verdict::Nothing, _) => {
                return Err(Unproved::Failed(
                    Error::other("nothing was compared").help("call `Reals::equal` with the results"),
                ));
            }
        }
    }
    let Verdict::NoNumber(what) = found else { return Ok(()) };
    Err(Unproved::Unknown(
        Error::other(format!("{what} is no number: it depends on a division by zero, or on bits that were no number"))
            .help("write constants of kernels as floats, `1.0`, and not as their bits"),
    ))
}

/// The reason for which [`prove_equal`] fails.
#[derive(Debug)]
pub enum Unproved {
    /// The results differ for some data.
    Different(String),
    /// It is not decided.
    Unknown(Error),
    /// A call failed.
    Failed(Error),
}

impl Unproved {
    fn of(error: Error) -> Unproved {
        match error.kind() {
            ErrorKind::Unsupported => Unproved::Unknown(error),
            _ => Unproved::Failed(error),
        }
    }
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unproved::Different(what) => write!(f, "not equal over the real numbers: {what}"),
            Unproved::Unknown(error) => write!(f, "not decided over the real numbers: {error}"),
            Unproved::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unproved {}

/// What the comparisons of a run have found.
enum Verdict {
    Nothing,
    Equal,
    Different(String),
    NoNumber(String),
}

/// Real numbers and a device that computes with them, for [`prove_equal`].
pub struct Reals {
    device: Device,
    cpu: CpuDevice,
    field: Field,
    next: Cell<u64>,
    verdict: RefCell<Verdict>,
}

impl Reals {
    fn new(field: Field) -> Reals {
        let cpu = CpuDevice::over(field);
        let device = Device(Inner::Cpu(cpu.clone()));
        Reals { device, cpu, field, next: Cell::new(0), verdict: RefCell::new(Verdict::Nothing) }
    }

    /// The CPU device that computes with real numbers. Its launches are not watched.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A buffer of `len` unknown numbers.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn numbers<T: RealElement>(&self, len: usize) -> Result<Buffer<T>> {
        let values: Vec<T> = (0..len).map(|_| self.next()).collect();
        let buffer = self.device.upload(&values)?;
        self.cpu.machine().mark_numbers(buffer.address(), (len * size_of::<T>()) as u64);
        Ok(buffer)
    }

    /// An unknown number, as an argument of launches by value: its bits are no float of any meaning. Other floats are the rational numbers
    /// that they are; those inside of structs are of no use.
    pub fn number<T: RealElement>(&self) -> T {
        let number: T = self.next();
        self.cpu.machine().give_number(number.code());
        number
    }

    fn next<T: RealElement>(&self) -> T {
        let index = self.next.get();
        self.next.set(index + 1);
        T::from_code(self.field.encode(self.field.random(index), T::BITS))
    }

    /// The rational number that a float is, to compute with on the host.
    pub fn constant(&self, value: f64) -> Real {
        Real::new(self.field, self.field.float(value))
    }

    /// The unknown number that an argument is.
    pub fn value<T: RealElement>(&self, argument: T) -> Real {
        Real::new(self.field, self.field.decode(argument.code(), T::BITS))
    }

    /// The numbers of a buffer, to compute with on the host.
    ///
    /// # Errors
    /// An error of the launch that made them.
    pub fn read<T: RealElement>(&self, buffer: &Buffer<T>) -> Result<Vec<Real>> {
        Ok(buffer.download()?.into_iter().map(|value| self.value(value)).collect())
    }

    /// States that the numbers of a buffer are those of `expected`, another buffer or numbers of the host.
    ///
    /// # Errors
    /// An error of a launch that made them; [`prove_equal`] returns what differs.
    pub fn equal<T: RealElement>(&self, results: &Buffer<T>, expected: &(impl Numbers + ?Sized)) -> Result<()> {
        let (results, expected) = (self.read(results)?, expected.numbers(self)?);
        let mut verdict = self.verdict.borrow_mut();
        if matches!(*verdict, Verdict::Different(_) | Verdict::NoNumber(_)) {
            return Ok(());
        }
        if results.len() != expected.len() {
            *verdict = Verdict::Different(format!("{} and {} numbers", results.len(), expected.len()));
            return Ok(());
        }
        let pairs = || results.iter().zip(&expected).map(|(mine, theirs)| (mine.number(), theirs.number()));
        *verdict = if let Some(at) = pairs().position(|(mine, theirs)| mine == Number::NONE || theirs == Number::NONE) {
            Verdict::NoNumber(format!("element {at}"))
        } else if let Some(at) = pairs().position(|(mine, theirs)| mine != theirs) {
            Verdict::Different(format!("element {at} of {} differs", results.len()))
        } else {
            Verdict::Equal
        };
        Ok(())
    }
}

impl fmt::Debug for Reals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reals").finish_non_exhaustive()
    }
}

/// Numbers that [`Reals::equal`] compares with: a buffer, or numbers of the host.
pub trait Numbers {
    #[doc(hidden)]
    fn numbers(&self, reals: &Reals) -> Result<Vec<Real>>;
}

impl<T: RealElement> Numbers for Buffer<T> {
    fn numbers(&self, reals: &Reals) -> Result<Vec<Real>> {
        reals.read(self)
    }
}

impl Numbers for [Real] {
    fn numbers(&self, _: &Reals) -> Result<Vec<Real>> {
        Ok(self.to_vec())
    }
}

impl Numbers for Vec<Real> {
    fn numbers(&self, _: &Reals) -> Result<Vec<Real>> {
        Ok(self.clone())
    }
}
