//! Errors at run time. Every error names what was requested, what is possible, and what to do.
//!
//! Nothing here depends on how an error comes about; the modules that find one write its sentences.

use std::fmt;

/// The result of everything that talks to a device.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error, for programs; people read the [`Display`](fmt::Display) text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no CUDA driver on this machine.
    NoDriver,
    /// The driver lacks something that was asked for.
    DriverTooOld,
    /// There is no such device.
    NoDevice,
    /// An environment variable or an option has a value that means nothing.
    BadOption,
    /// A buffer and a stream belong to different devices.
    WrongDevice,
    /// A condition of `requires(…)` does not hold, or lengths do not fit.
    Condition,
    /// Grid, block, cluster or shared memory are not what the device or the kernel allows.
    Limits,
    /// No variant of the kernel runs on the device.
    NoVariant,
    /// The PTX did not assemble or load.
    Load,
    /// There is not enough memory.
    OutOfMemory,
    /// A tensor map breaks a rule of the driver.
    TensorMap,
    /// The kernel did something wrong while it ran; on a CUDA device the context is lost.
    Fault,
    /// The device cannot do this.
    Unsupported,
    /// Any other answer of the driver.
    Driver,
    /// Something that is not of this crate failed, in work that it timed or recorded.
    Other,
}

/// An error of the launch runtime.
///
/// It is one pointer wide, so that results of launches travel in registers.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Report>);

#[derive(Clone, PartialEq, Eq)]
struct Report {
    kind: ErrorKind,
    asked: String,
    possible: Option<String>,
    help: Option<String>,
    code: Option<i32>,
}

impl Error {
    /// An error of this kind; `asked` names the request that did not work. For libraries of kernels, whose errors are those of
    /// a launch.
    pub fn new(kind: ErrorKind, asked: impl Into<String>) -> Self {
        Error(Box::new(Report { kind, asked: asked.into(), possible: None, help: None, code: None }))
    }

    /// The failure of something else, for work that a [`Timer`](crate::Timer) or a capture calls.
    pub fn other(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Other, what)
    }

    /// Adds what is possible instead.
    #[must_use]
    pub fn possible(mut self, possible: impl Into<String>) -> Self {
        self.0.possible = Some(possible.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds the driver's code.
    #[must_use]
    pub(crate) fn code(mut self, code: i32) -> Self {
        self.0.code = Some(code);
        self
    }

    /// The same error, with text in front of what was asked, and behind it.
    #[must_use]
    pub(crate) fn about(mut self, before: &str, after: &str) -> Self {
        self.0.asked = format!("{before}{}{after}", self.0.asked);
        self
    }

    /// Kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The driver's result code (`CUresult`), where the driver gave one.
    pub fn driver_code(&self) -> Option<i32> {
        self.0.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.asked)?;
        if let Some(possible) = &self.0.possible {
            write!(f, "\n  possible: {possible}")?;
        }
        if let Some(help) = &self.0.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// The same text as [`Display`](fmt::Display): this is what a `main` that returns the error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}
