//! Swizzles: which 16-byte chunk of a row of shared memory a thread finds where, so that no two meet in a bank. `Tile128` is shared memory
//! with such rows.

/// `ROWS` rows of 128 swizzled bytes, as TMA writes and the tensor cores read them. Its tensor map comes from the same type:
/// `#[tma(tile = swizzle::Tile128::<bf16, 64>)]` on a parameter is the box `[64, 64]` with the swizzle.
#[align(1024)]
struct Tile128<T, const ROWS: u32> {
    rows: [[T; 128 / size_of::<T>()]; ROWS],
}

impl<T, const ROWS: u32> Tile128<T, ROWS> {
    /// Elements of a row.
    const COLUMNS: u32 = 128 / size_of::<T>();
    /// Bytes of the tile.
    const BYTES: u32 = 128 * ROWS;
}

impl<T, const ROWS: u32> Shared<Tile128<T, ROWS>> {
    /// Loads the box at column `x` and row `y` of a tensor, and counts its bytes at `bar`: `cp.async.bulk.tensor.2d`. By one thread. For
    /// `sm_90` and later.
    fn load(self, map: TensorMap, x: u32, y: u32, bar: u32) {
        tma::load_2d(self, map, x, y, bar);
    }

    /// Stores the box at column `x` and row `y` of a tensor: `cp.async.bulk.tensor.2d`. By one thread, after a fence of the async proxy. For
    /// `sm_90` and later.
    fn store(self, map: TensorMap, x: u32, y: u32) {
        tma::store_2d(map, x, y, self);
    }

    /// The descriptor for `wgmma`, of rows along K: `wgmma::descriptor_k128`.
    fn descriptor(self) -> u64 {
        wgmma::descriptor_k128(self)
    }

    /// The address of the element at (`row`, `column`): two `mul.lo`, two `add`, `bytes128`.
    fn element(self, row: u32, column: u32) -> Shared<T> {
        let (start, offset): (u32, u32) = (self, row * 128 + column * size_of::<T>());
        Shared::<T>::from_addr(start + bytes128(offset))
    }
}

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
