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

    /// The bytes to write to. `None` where a copy of them does not fit the memory of the host.
    pub(super) fn get_mut(&mut self) -> Option<&mut [u8]> {
        if let Bytes::Shared(_) = self {
            self.settle();
        }
        match self {
            Bytes::Own(bytes) => Some(bytes),
            Bytes::Shared(_) => None,
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

    /// Makes them its own again; a copy if others still have them. They stay shared where there is no memory for it.
    #[cold]
    pub(super) fn settle(&mut self) {
        let Bytes::Shared(bytes) = self else { return };
        *self = match Arc::try_unwrap(std::mem::take(bytes)) {
            Ok(bytes) => Bytes::Own(bytes),
            Err(shared) => {
                let mut copy = Vec::new();
                match copy.try_reserve_exact(shared.len()) {
                    Ok(()) => {
                        copy.extend_from_slice(&shared);
                        Bytes::Own(copy)
                    }
                    Err(_) => Bytes::Shared(shared),
                }
            }
        };
    }
}
