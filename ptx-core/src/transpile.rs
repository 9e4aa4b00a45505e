//! PTX to Rust, and the proof that nothing was changed on the way. One pass a file; `same` is the proof.

pub mod same;
