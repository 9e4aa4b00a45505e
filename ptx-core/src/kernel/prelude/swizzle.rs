//! Swizzles: which 16-byte piece of a row of shared memory a thread finds where, so that no two meet in a bank.

/// The byte `offset` in a tile whose rows are 128 bytes, as TMA and `wgmma` swizzle it: `shr`, `and`, `xor`.
fn bytes128(offset: u32) -> u32 {
    offset ^ ((offset >> 3) & 0x70)
}

/// The same for rows of 64 bytes: `shr`, `and`, `xor`.
fn bytes64(offset: u32) -> u32 {
    offset ^ ((offset >> 3) & 0x30)
}

/// The same for rows of 32 bytes: `shr`, `and`, `xor`.
fn bytes32(offset: u32) -> u32 {
    offset ^ ((offset >> 3) & 0x10)
}
