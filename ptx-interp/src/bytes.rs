//! The bytes of an allocation, which several machines' memories may share until one of them writes.

use std::sync::Arc;

/// Bytes that are copied when they are written while somebody else has them, too.
#[derive(Debug)]
pub(super) enum Bytes {
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
}

impl Bytes {
    pub(super) fn get(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        if let Bytes::Shared(_) = self {
            self.settle();
        }
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(bytes) => Arc::make_mut(bytes).as_mut_slice(),
        }
    }

    /// The same bytes for somebody else.
    pub(super) fn share(&mut self) -> Bytes {
        if let Bytes::Own(bytes) = self {
            *self = Bytes::Shared(Arc::new(std::mem::take(bytes)));
        }
        match self {
            Bytes::Shared(bytes) => Bytes::Shared(bytes.clone()),
            Bytes::Own(bytes) => Bytes::Own(bytes.clone()),
        }
    }

    /// Makes them its own again; a copy if others still have them.
    #[cold]
    pub(super) fn settle(&mut self) {
        if let Bytes::Shared(bytes) = self {
            *self = Bytes::Own(Arc::unwrap_or_clone(std::mem::take(bytes)));
        }
    }
}
