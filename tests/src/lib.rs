//! What the tests share: finding ptxas, the corpus, and rendering diagnostics.

pub mod corpus;
pub mod instance;
pub mod judge;
pub mod own;
pub mod ptxas;
