//! Tiles of a warp's products by `mma.sync.m16n8k16`: operands of 16 bits in shared memory, sums in `f32` registers.
//!
//! Rows of a tile with `COLUMNS` elements are `pitch(COLUMNS)` bytes apart, 16 more than they need, so that `ldmatrix` meets no
//! bank twice, and every offset inside a tile is a constant. A warp has `MT` times 16 rows of the sums and `NT` times 8
//! columns: `sums[i][j]` are this lane's four of 16 × 8, columns `2 * (laneid % 4)` and the next one of row `laneid / 4`, then
//! the same of the row 8 below. For `sm_80` and later.

/// Bytes from row to row of a tile.
fn pitch(columns: u32) -> u32 {
    2 * columns + 16
}

/// Begins to copy the first `rows` of `ROWS` rows to a tile, and `columns` of `COLUMNS` elements; the others become zeros.
/// Row 0 is at `from`, `stride` bytes from row to row. Eight threads of `THREADS` (four, unless `COLUMNS` is a multiple of 64)
/// copy a row: `cp.async.cg` of 16 bytes each.
fn copy_rows<const ROWS: u32, const COLUMNS: u32, const THREADS: u32>(
    tile: u32,
    from: u64,
    stride: u64,
    rows: u32,
    columns: u32,
) {
    const ACROSS: u32 = if COLUMNS % 64 == 0 { 8 } else { 4 };
    const STEP: u32 = THREADS / ACROSS;
    let (row, column): (u32, u32) = (tid.x / ACROSS, tid.x % ACROSS);
    let to: u32 = tile + row * pitch(COLUMNS) + (column << 4);
    let mut at: u64 = from + row as u64 * stride + wide(column) * 16;
    for i in 0..ROWS / STEP {
        let row_inside: pred = row + i * STEP < rows;
        for j in 0..COLUMNS / 8 / ACROSS {
            let inside: pred = row_inside & (column * 8 + j * ACROSS * 8 < columns);
            let bytes: u32 = inside.select(16, 0);
            cp_async::copy16_zero(to + (i * STEP * pitch(COLUMNS) + j * ACROSS * 16), at + (j * ACROSS * 16) as u64, bytes);
        }
        at += stride * STEP as u64;
    }
}

/// The address that this lane names to `ldmatrix` for 16 rows from `tile` on, and for the same rows 8 elements on: of a left
/// operand, and of a right one that `multiply_packed` reads. `and`, `mul.lo`, `shr`, `shl`, two `add`.
fn rows_a<const COLUMNS: u32>(tile: u32) -> u32 {
    tile + (laneid & 15) * pitch(COLUMNS) + ((laneid >> 4) << 4)
}

/// The same for 8 rows, the same rows 8 elements on, and the next 8 rows: of a right operand that `multiply` reads.
fn rows_b<const COLUMNS: u32>(tile: u32) -> u32 {
    tile + ((laneid & 7) + ((laneid >> 4) << 3)) * pitch(COLUMNS) + (((laneid >> 3) & 1) << 4)
}

/// Zeros in all sums: `mov`.
fn clear<const MT: u32, const NT: u32>(sums: &mut [[[f32; 4]; NT]; MT]) {
    for i in 0..MT {
        for j in 0..NT {
            sums[i][j] = [0.0; 4];
        }
    }
}

/// Products of all sums by a factor: `mul`.
fn scale<const MT: u32, const NT: u32>(sums: &mut [[[f32; 4]; NT]; MT], by: f32) {
    for i in 0..MT {
        for j in 0..NT {
            for e in 0..4 {
                sums[i][j][e] *= by;
            }
        }
    }
}

/// Products of all sums by those of another tile: `mul`.
fn multiply_elements<const MT: u32, const NT: u32>(sums: &mut [[[f32; 4]; NT]; MT], by: &[[[f32; 4]; NT]; MT]) {
    for i in 0..MT {
        for j in 0..NT {
            for e in 0..4 {
                sums[i][j][e] *= by[i][j][e];
            }
        }
    }
}

/// `sums` += A · Bᵀ over the `K` elements of the rows of both tiles: `a` from `rows_a`, `b` from `rows_b`. For each 16 of `K`,
/// `MT` + `NT` / 2 times `ldmatrix.x4` and `MT` · `NT` times `mma.sync`.
fn multiply<T, const K: u32, const MT: u32, const NT: u32>(sums: &mut [[[f32; 4]; NT]; MT], a: u32, b: u32) {
    for k in 0..K / 16 {
        let left: [[b32; 4]; MT];
        for i in 0..MT {
            left[i] = matrix::load_x4(a + (i * 16 * pitch(K) + k * 32));
        }
        for j in 0..NT / 2 {
            let right: [b32; 4] = matrix::load_x4(b + (j * 16 * pitch(K) + k * 32));
            for i in 0..MT {
                matrix::multiply::<T>(&mut sums[i][2 * j], left[i], [right[0], right[1]]);
                matrix::multiply::<T>(&mut sums[i][2 * j + 1], left[i], [right[2], right[3]]);
            }
        }
    }
}

/// `sums` += A · B: A's `KT` times 16 columns in registers from `pack`, B's rows in a tile of `COLUMNS` elements, `b` from
/// `rows_a`. For each 16 rows of B `NT` / 2 times `ldmatrix.x4.trans` and `MT` · `NT` times `mma.sync`.
fn multiply_packed<T, const COLUMNS: u32, const MT: u32, const KT: u32, const NT: u32>(
    sums: &mut [[[f32; 4]; NT]; MT],
    a: &[[[b32; 4]; KT]; MT],
    b: u32,
) {
    for k in 0..KT {
        for j in 0..NT / 2 {
            let right: [b32; 4] = matrix::load_x4_transposed(b + (k * 16 * pitch(COLUMNS) + j * 32));
            for i in 0..MT {
                matrix::multiply::<T>(&mut sums[i][2 * j], a[i][k], [right[0], right[1]]);
                matrix::multiply::<T>(&mut sums[i][2 * j + 1], a[i][k], [right[2], right[3]]);
            }
        }
    }
}

/// The sums of one product as the left operand of the next, rounded to `T`: `cvt.rn` of pairs.
fn pack<T, const MT: u32, const KT: u32>(sums: &[[[f32; 4]; 2 * KT]; MT]) -> [[[b32; 4]; KT]; MT] {
    let packed: [[[b32; 4]; KT]; MT];
    for i in 0..MT {
        for k in 0..KT {
            for part in 0..4 {
                const TILE: u32 = 2 * k + part / 2;
                const PAIR: u32 = part % 2 * 2;
                ptx! { cvt.rn.{T}x2.f32 packed[i][k][part], sums[i][TILE][PAIR + 1], sums[i][TILE][PAIR]; }
            }
        }
    }
    packed
}

/// The sum over the four lanes that share a row: two `shfl.sync.bfly` and `add`.
fn quad_sum(x: f32) -> f32 {
    quad::<"add">(x)
}

/// The largest over the four lanes that share a row: two `shfl.sync.bfly` and `max`.
fn quad_max(x: f32) -> f32 {
    quad::<"max">(x)
}

/// `OP` over the four lanes that share a row: two `shfl.sync.bfly` and `warp::combine`.
fn quad<const OP: &str>(x: f32) -> f32 {
    let mut all: f32 = x;
    for step in [1, 2] {
        let other: f32;
        ptx! { shfl.sync.bfly.b32 other, all, step, 31, 0xffffffff; }
        warp::combine::<OP, f32>(&mut all, other);
    }
    all
}

/// Writes sums, rounded to `T`, to the tile at `tile` of `COLUMNS` elements, this warp's first row: `cvt.rn` of pairs and
/// `st.shared.b32`, four lanes 16 bytes of a row.
fn store<T, const COLUMNS: u32, const MT: u32, const NT: u32>(sums: &[[[f32; 4]; NT]; MT], tile: u32) {
    let to: u32 = tile + (laneid >> 2) * pitch(COLUMNS) + ((laneid & 3) << 2);
    for i in 0..MT {
        for j in 0..NT {
            for half in 0..2 {
                const AT: u32 = (16 * i + 8 * half) * pitch(COLUMNS) + 16 * j;
                let pair: b32;
                ptx! {
                    cvt.rn.{T}x2.f32 pair, sums[i][j][2 * half + 1], sums[i][j][2 * half];
                    st.shared.b32 [to + AT], pair;
                }
            }
        }
    }
}

/// Copies the first `rows` of a warp's `ROWS` rows from the tile at `tile`, and `columns` of `COLUMNS` elements, to `to` with
/// `stride` bytes from row to row: `ld.shared.v4` and, inside, `st.global.v4`; four lanes write 64 bytes of a row.
fn write_rows<const ROWS: u32, const COLUMNS: u32>(tile: u32, to: u64, stride: u64, rows: u32, columns: u32) {
    let (row, column): (u32, u32) = (laneid >> 2, laneid & 3);
    let from: u32 = tile + row * pitch(COLUMNS) + (column << 4);
    let mut at: u64 = to + row as u64 * stride + wide(column) * 16;
    for i in 0..ROWS / 8 {
        let row_inside: pred = row + 8 * i < rows;
        for j in 0..COLUMNS / 32 {
            let inside: pred = row_inside & (column * 8 + 32 * j < columns);
            const AT: u32 = 8 * i * pitch(COLUMNS) + 64 * j;
            let packed: [b32; 4];
            ptx! {
                ld.shared.v4.b32 {packed[..]}, [from + AT];
                @inside st.global.v4.b32 [at + 64 * j], {packed[..]};
            }
        }
        at += stride * 8;
    }
}
