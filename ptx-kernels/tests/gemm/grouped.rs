//! The gradient of grouped products' matrices, against `f64`: ragged groups, empty ones, extents that are no multiples of a tile. Rows of other
//! groups have infinities, which must not get in.

use crate::random::{Number, Random};
use half::bf16;
use ptx_kernels::grouped_gemm::GroupedGemm;
use ptx_launch::Device;

/// Rows of each group, the rows in front of the first one and behind the last one, K and N.
const SHAPES: [(&[usize], usize, [usize; 2]); 4] =
    [(&[130, 0, 7, 64], 5, [72, 136]), (&[1, 63, 65], 0, [8, 264]), (&[0, 0], 3, [136, 8]), (&[200], 1, [264, 72])];

fn check(device: &Device, heights: &[usize], around: usize, [k, n]: [usize; 2]) {
    let rows = heights.iter().sum::<usize>() + 2 * around;
    let mut random = Random::new((rows + k + n) as u64);
    let mut matrix = |columns: usize| -> Vec<bf16> {
        let mut of = |row: usize| {
            let inside = (around..rows - around).contains(&row);
            if inside { bf16::nearest(random.unit()) } else { bf16::INFINITY }
        };
        (0..rows * columns).map(|at| of(at / columns)).collect()
    };
    let (a, dc) = (matrix(k), matrix(n));
    let ends = heights.iter().scan(around, |end, height| {
        *end += height;
        Some(*end)
    });
    let offsets: Vec<usize> = std::iter::once(around).chain(ends).collect();
    let as_u32: Vec<u32> = offsets.iter().map(|offset| *offset as u32).collect();
    let (on_a, on_dc, on_offsets) =
        (device.upload(&a).unwrap(), device.upload(&dc).unwrap(), device.upload(&as_u32).unwrap());
    let mut db = device.upload(&vec![bf16::NAN; heights.len() * k * n]).unwrap();
    let grouped = GroupedGemm::new(device).unwrap();
    let (a_tile, dc_tile) = (on_a.tile([rows, k]).unwrap(), on_dc.tile([rows, n]).unwrap());
    grouped.gradient_b(device, a_tile, dc_tile, &on_offsets, db.tile_mut([heights.len(), k, n]).unwrap()).unwrap();
    let found = db.download().unwrap();
    for (group, range) in offsets.windows(2).map(|pair| pair[0]..pair[1]).enumerate() {
        for at in 0..k * n {
            let (row, column) = (at / n, at % n);
            let term = |r: usize| a[r * k + row].value() * dc[r * n + column].value();
            let (sum, size): (f64, f64) =
                range.clone().map(term).fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let (found, bound) = (found[group * k * n + at].value(), sum.abs() * 0.004 + size * 1e-6);
            assert!((found - sum).abs() <= bound, "group {group}, ({row}, {column}): {found}, expected {sum}");
        }
    }
}

#[test]
fn the_gradient_of_each_matrix_is_that_of_its_own_rows() {
    for (heights, around, shape) in SHAPES {
        check(&Device::cpu(), heights, around, shape);
    }
}

#[test]
#[ignore = "needs a GPU of compute capability 9.0"]
fn the_gradient_of_each_matrix_is_that_of_its_own_rows_on_a_gpu() {
    let device = Device::cuda(0).unwrap();
    for (heights, around, shape) in SHAPES {
        check(&device, heights, around, shape);
    }
    check(&device, &[1500, 0, 700, 129, 1, 640, 63], 7, [136, 264]);
}
