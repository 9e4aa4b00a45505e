//! Errors on their way to Python: the exception's class, and a message that names the function and the argument.

use ptx_launch::ErrorKind;
use std::fmt::Display;

/// Class of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    Type,
    Value,
    Memory,
    NotImplemented,
    Runtime,
}

/// An exception of Python, before it is one.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    pub(crate) class: Exception,
    pub(crate) message: String,
}

impl Raised {
    pub(crate) fn new(class: Exception, message: impl Into<String>) -> Raised {
        Raised { class, message: message.into() }
    }

    /// `argument` has the wrong type.
    pub(crate) fn wrong_type(argument: &str, message: impl Display) -> Raised {
        Raised::new(Exception::Type, format!("{argument}: {message}"))
    }

    /// `argument` has a value that is refused.
    pub(crate) fn wrong_value(argument: &str, message: impl Display) -> Raised {
        Raised::new(Exception::Value, format!("{argument}: {message}"))
    }

    /// The same with the function's name in front.
    pub(crate) fn within(mut self, function: &str) -> Raised {
        self.message = format!("{function}: {}", self.message);
        self
    }

    /// An error of a launch.
    pub(crate) fn of_launch(error: &ptx_launch::Error) -> Raised {
        let class = match error.kind() {
            ErrorKind::Condition
            | ErrorKind::Limits
            | ErrorKind::WrongDevice
            | ErrorKind::TensorMap
            | ErrorKind::BadOption => Exception::Value,
            ErrorKind::OutOfMemory => Exception::Memory,
            ErrorKind::Unsupported | ErrorKind::NoVariant => Exception::NotImplemented,
            _ => Exception::Runtime,
        };
        Raised::new(class, error.to_string())
    }

    /// A panic's message.
    pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> Raised {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Raised::new(Exception::Runtime, format!("panicked: {text}"))
    }
}
