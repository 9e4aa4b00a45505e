//! Which tile of a matrix is whose turn: persistent blocks (or clusters) take every so many-th index, and these helpers
//! say where its tile lies, so that those who work at the same time share rows and columns in the second-level cache.

/// Row by row: `div`, `mul.lo`, `sub`. The column runs first.
fn linear(index: u32, columns: u32) -> (u32, u32) {
    let row: u32 = index / columns;
    (row, index - row * columns)
}

/// In bands of `group` rows, down each column of the band: two `div`, a `min`, three `mul.lo` and additions. With w
/// workers and a group of √w they touch the fewest rows and columns at a time.
fn grouped(index: u32, rows: u32, columns: u32, group: u32) -> (u32, u32) {
    let size: u32 = group * columns;
    let band: u32 = index / size;
    let (first, inside): (u32, u32) = (band * group, index - band * size);
    let height: u32 = rows - first;
    ptx! { min.u32 height, height, group; }
    let column: u32 = inside / height;
    (first + inside - column * height, column)
}

/// Along Hilbert's curve through a square of 2^`order` × 2^`order` tiles, of which those outside the matrix are to be
/// skipped: a loop of `order` steps over two bits of the index each.
fn hilbert(index: u32, order: u32) -> (u32, u32) {
    let (row, column, rest, side, step): (u32, u32, u32, u32, u32) = (0, 0, index, 1, 0);
    while step < order {
        let right: u32 = (rest >> 1) & 1;
        let up: u32 = (rest ^ right) & 1;
        if up == 0 {
            if right == 1 {
                row = side - 1 - row;
                column = side - 1 - column;
            }
            let other: u32 = row;
            row = column;
            column = other;
        }
        column += side * right;
        row += side * up;
        rest = rest >> 2;
        side = side << 1;
        step += 1;
    }
    (row, column)
}
