//! Launch runtime.
