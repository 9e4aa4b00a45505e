//! What the examples share: how they print their results.
