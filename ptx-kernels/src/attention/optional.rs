//! The launches of the operations that have features of their own. Where a feature is off, every type has its launches, which are none.

#[cfg(feature = "attention_backward")]
pub use super::backward::Differentiable;
#[cfg(feature = "attention_decode")]
pub use super::decode::Cacheable;

/// No backward pass.
#[cfg(not(feature = "attention_backward"))]
pub trait Differentiable {}
#[cfg(not(feature = "attention_backward"))]
impl<T> Differentiable for T {}

/// No caches.
#[cfg(not(feature = "attention_decode"))]
pub trait Cacheable {}
#[cfg(not(feature = "attention_decode"))]
impl<T> Cacheable for T {}
