//! The bytes of an allocation, which several machines' memories may share until one of them writes; or memory of the host's.

use std::fmt::Debug;
use std::sync::Arc;

/// Memory that somebody else has, too, as processes share it. A machine has it as an allocation, by [`Machine::map`](crate::Machine::map).
///
/// Others may change it only between two calls of the machine's functions: whoever shares memory calls them under a lock.
pub trait OutsideMemory: Debug + Send + Sync {
    /// All bytes; their number never changes.
    fn bytes(&self) -> &[u8];

    /// The same, to change.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Bytes that are copied when they are written while somebody else has them, too; or those of the host, which are never copied.
#[derive(Debug)]
pub(super) enum Bytes {
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
    Outside(Box<dyn OutsideMemory>),
}

impl Bytes {
    pub(super) fn get(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
            Bytes::Outside(memory) => memory.bytes(),
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
            Bytes::Outside(memory) => Some(memory.bytes_mut()),
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
            Bytes::Outside(memory) => Bytes::Own(memory.bytes().to_vec()),
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
