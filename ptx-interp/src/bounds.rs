//! Addresses where nothing is, nothing is any more, or where the access must not be.

use super::fault::{Fault, FaultKind};
use ptx_core::diag::codes;

/// Bytes outside of what their space has.
pub(super) fn outside(space: &str, has: usize, size: u64) -> Fault {
    let message = format!("{size} bytes of {space} memory outside the {has} bytes that there are");
    Fault::new(FaultKind::OutOfBounds, message).code(&codes::W0101)
}

/// Memory that exists, and that blocks which run at the same time share until one of them writes.
pub(super) fn no_copy() -> Fault {
    let message =
        "a copy of the memory that is written, which blocks share until then, does not fit the memory of the host";
    Fault::new(FaultKind::OutOfMemory, message.to_owned())
}

/// An address of another block's shared memory in an instruction for the block's own.
pub(super) fn foreign(rank: usize, name: Option<String>) -> Fault {
    let message =
        format!("an address in shared memory of block {rank} of the cluster, in an instruction for the block's own");
    Fault::new(FaultKind::OutOfBounds, message)
        .code(&codes::W0101)
        .place(name)
        .help("name the space of addresses that `mapa` gives: `.shared::cluster`, where the instruction has it; `.shared` is `.shared::cta`")
}

/// Bytes of global memory that no allocation holds; `near` is the one below, with its size.
pub(super) fn unmapped(size: u64, address: u64, near: Option<(u64, usize)>) -> Fault {
    let near = match near {
        Some((base, len)) => match address.wrapping_sub(base).checked_sub(len as u64) {
            Some(0) => format!("an allocation of {len} bytes at {base:#x} ends right before"),
            Some(behind) => format!("the one below has {len} bytes at {base:#x}, and ends {behind} bytes before"),
            None => {
                let within = (base + len as u64).saturating_sub(address);
                format!("they begin in an allocation of {len} bytes at {base:#x}, of which {within} are left there")
            }
        },
        None => "no allocation lies below it".to_string(),
    };
    Fault::new(FaultKind::OutOfBounds, format!("{size} bytes of global memory that no allocation holds; {near}"))
        .code(&codes::W0101)
        .at(address)
}

/// Bytes of an allocation that was given back.
pub(super) fn freed(size: u64, address: u64, (base, len): (u64, u64)) -> Fault {
    let message =
        format!("{size} bytes of global memory that was freed: it was an allocation of {len} bytes at {base:#x}");
    Fault::new(FaultKind::OutOfBounds, message).code(&codes::W0103).at(address)
}

/// An address that is no multiple of the access.
pub(super) fn misaligned(size: u64) -> Fault {
    let message = format!("an access of {size} bytes at an address that is no multiple of {size}");
    Fault::new(FaultKind::Misaligned, message).code(&codes::W0102)
}

/// A write where kernels only read.
pub(super) fn read_only(space: &str) -> Fault {
    let message = format!("a write to {space} memory, which kernels can only read");
    Fault::new(FaultKind::BadAccess, message).code(&codes::W0105)
}
