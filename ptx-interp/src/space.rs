//! The address map: where each space lies in the generic address space, and which bytes an address names.

use super::soft::mask;
use ptx_core::ir::Space;

/// Generic windows: the number above bit 40 is the space, what is below it is the address in that space.
const WINDOW: u32 = 40;
const LOCAL: u64 = 1;
const SHARED: u64 = 2;
const CONST: u64 = 3;
const PARAM: u64 = 4;
const CODE: u64 = 5;
/// Start of a thread's local memory: never 0, and apart from the entry's parameters, so that `ld.param` can tell.
pub(super) const LOCAL_START: u64 = 1 << 16;
/// Bits of a `shared::cluster` address below the block's rank plus one.
pub(super) const RANK: u32 = 24;

/// The space that an instruction names, or that a generic address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Generic,
    Global,
    /// The block's own shared memory: `.shared`, `.shared::cta`.
    Shared,
    /// That of any block of the cluster: `.shared::cluster`. The address contains which.
    Cluster,
    Const,
    Local,
    Param,
}

impl Where {
    /// The space a modifier names; none is generic.
    pub(super) fn from_modifier(modifier: Option<&str>) -> Where {
        const NAMES: [(&str, Where); 5] = [
            ("global", Where::Global),
            ("shared", Where::Shared),
            ("const", Where::Const),
            ("local", Where::Local),
            ("param", Where::Param),
        ];
        let name = modifier.unwrap_or("");
        if name == "shared::cluster" {
            return Where::Cluster;
        }
        let name = name.split([':', '[']).next().unwrap_or("");
        NAMES.iter().find(|(n, _)| *n == name).map_or(Where::Generic, |(_, space)| *space)
    }

    fn window(self) -> u64 {
        match self {
            Where::Local => LOCAL << WINDOW,
            Where::Shared | Where::Cluster => SHARED << WINDOW,
            Where::Const => CONST << WINDOW,
            Where::Param => PARAM << WINDOW,
            Where::Generic | Where::Global => 0,
        }
    }

    /// The generic address of an address in this space.
    pub(super) fn to_generic(self, address: u64) -> u64 {
        address.wrapping_add(self.window())
    }

    /// The address in this space of a generic one.
    pub(super) fn local_to(self, address: u64) -> u64 {
        address.wrapping_sub(self.window())
    }

    /// Returns true for shared memory, of the block or of the cluster.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Where::Shared | Where::Cluster)
    }

    /// Returns true if an address in this space means other bytes in every thread.
    pub(super) fn is_private(self, address: u64) -> bool {
        match self {
            Where::Local => true,
            Where::Param => address >= LOCAL_START,
            Where::Generic => resolve(address).0 == Where::Local,
            _ => false,
        }
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Where::Generic => "generic",
            Where::Global => "global",
            Where::Shared | Where::Cluster => "shared",
            Where::Const => "const",
            Where::Local => "local",
            Where::Param => "param",
        }
    }
}

impl From<Space> for Where {
    fn from(space: Space) -> Where {
        match space {
            Space::Global | Space::Opaque => Where::Global,
            Space::Shared => Where::Shared,
            Space::Const => Where::Const,
            Space::Local => Where::Local,
            Space::Param => Where::Param,
        }
    }
}

/// The space of a generic address, and the address there.
pub(super) fn resolve(address: u64) -> (Where, u64) {
    let space = match address >> WINDOW {
        LOCAL => Where::Local,
        SHARED => Where::Shared,
        CONST => Where::Const,
        PARAM => Where::Param,
        _ => return (Where::Global, address),
    };
    (space, address & mask(WINDOW))
}

/// The `.shared::cluster` address of the same offset in the block of this rank.
pub(super) fn in_block(rank: u64, address: u64) -> u64 {
    (rank + 1) << RANK | address & mask(RANK)
}

/// The address of a function, 16 bytes apart.
pub(super) fn code_address(function: usize) -> u64 {
    (CODE << WINDOW) + 16 * (function as u64 + 1)
}

/// The function at an address.
pub(super) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(CODE << WINDOW)?;
    if offset % 16 == 0 { (offset / 16).checked_sub(1).map(|f| f as usize) } else { None }
}

/// Place of the bytes of an access. Its space is never `Where::Cluster`: the rank is that of the block with the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub space: Where,
    /// The block of the cluster, for shared memory.
    pub rank: usize,
    /// The address there; in local memory from the start of the thread's.
    pub at: u64,
}

/// Up to eight bytes as a number.
pub(super) fn number(bytes: &[u8]) -> u64 {
    match bytes {
        [a, b, c, d] => return u32::from_le_bytes([*a, *b, *c, *d]).into(),
        [a, b, c, d, e, f, g, h] => return u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => {}
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}
