//! Fragments of `mma.sync`: the matrices of 8 × 8 elements of 16 bits that a warp moves between shared memory and its
//! registers. Each lane names one row of 16 bytes; rows at different offsets modulo 128 bytes have no bank conflicts.
//! docs/language/layouts.md shows which lane and register hold an element.

/// Four matrices: lanes 0 to 7 name the rows of the first, 8 to 15 those of the second. `ldmatrix.x4`.
fn load_x4(row: u32) -> [b32; 4] {
    let matrices: [b32; 4];
    ptx! { ldmatrix.sync.aligned.m8n8.x4.shared.b16 {matrices[..]}, [row]; }
    matrices
}

/// Two matrices: `ldmatrix.x2`.
fn load_x2(row: u32) -> [b32; 2] {
    let matrices: [b32; 2];
    ptx! { ldmatrix.sync.aligned.m8n8.x2.shared.b16 {matrices[..]}, [row]; }
    matrices
}

/// Four matrices, each transposed: `ldmatrix.x4.trans`.
fn load_x4_transposed(row: u32) -> [b32; 4] {
    let matrices: [b32; 4];
    ptx! { ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {matrices[..]}, [row]; }
    matrices
}

/// Two matrices, each transposed: `ldmatrix.x2.trans`.
fn load_x2_transposed(row: u32) -> [b32; 2] {
    let matrices: [b32; 2];
    ptx! { ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {matrices[..]}, [row]; }
    matrices
}

/// Four matrices to shared memory: `stmatrix.x4`. For `sm_90` and later.
fn store_x4(row: u32, matrices: [b32; 4]) {
    ptx! { stmatrix.sync.aligned.m8n8.x4.shared.b16 [row], {matrices[..]}; }
}

/// Four matrices, each transposed, to shared memory: `stmatrix.x4.trans`. For `sm_90` and later.
fn store_x4_transposed(row: u32, matrices: [b32; 4]) {
    ptx! { stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [row], {matrices[..]}; }
}

/// `sum` += 16 × 16 times 16 × 8 elements of `T` (`bf16` or `f16`): `mma.sync.m16n8k16`. A's matrices are upper and lower
/// left, then upper and lower right; B's are its columns' first and last eight of K.
fn multiply<T>(sum: &mut [f32; 4], a: [b32; 4], b: [b32; 2]) {
    ptx! { mma.sync.aligned.m16n8k16.row.col.f32.{T}.{T}.f32 {sum[..]}, {a[..]}, {b[..]}, {sum[..]}; }
}
