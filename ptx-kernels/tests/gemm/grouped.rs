//! Grouped products and the gradient of their matrices, against `f64`: ragged groups, empty ones, extents that are no multiples of a tile. Rows of
//! other groups have infinities, which must not get in. `PTX_GEMM_GROUPED` is the number of random products, `PTX_GEMM_SEED` the first one.

use crate::random::{Number, Random};
use half::bf16;
use ptx_kernels::grouped_gemm::{GroupedGemm, Output};
use ptx_launch::{Buffer, Device, ErrorKind, Result, TensorMut, TensorRef};

/// Rows of each group, the rows in front of the first one and behind the last one, K and N.
const SHAPES: [(&[usize], usize, [usize; 2]); 4] =
    [(&[130, 0, 7, 64], 5, [72, 136]), (&[1, 63, 65], 0, [8, 264]), (&[0, 0], 3, [136, 8]), (&[200], 1, [264, 72])];

/// A problem: rows of A and of the gradient of C, in groups of these heights, with others around them.
struct Case {
    offsets: Vec<usize>,
    rows: usize,
    /// K and N.
    extents: [usize; 2],
    random: Random,
}

impl Case {
    fn new(heights: &[usize], around: usize, extents: [usize; 2], seed: u64) -> Case {
        let ends = heights.iter().scan(around, |end, height| {
            *end += height;
            Some(*end)
        });
        let offsets: Vec<usize> = std::iter::once(around).chain(ends).collect();
        let rows = heights.iter().sum::<usize>() + 2 * around;
        Case { offsets, rows, extents, random: Random::new(seed) }
    }

    fn random(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let heights: Vec<usize> =
            (0..random.below(6) + 1).map(|_| random.of(&[0, 0, 1, 5, 16, 63, 64, 65, 127, 128, 129, 140])).collect();
        let extents = [random.of(&[8, 16, 56, 64, 72, 136]), random.of(&[8, 24, 64, 72, 128, 136, 200, 256, 264])];
        Case::new(&heights, random.of(&[0, 0, 1, 7]), extents, seed)
    }

    /// A matrix of `columns` columns whose rows of no group are infinite.
    fn matrix(&mut self, columns: usize) -> Vec<bf16> {
        let inside = self.offsets[0]..self.offsets[self.offsets.len() - 1];
        let random = &mut self.random;
        let mut of = |row: usize| if inside.contains(&row) { bf16::nearest(random.unit()) } else { bf16::INFINITY };
        (0..self.rows * columns).map(|at| of(at / columns)).collect()
    }

    fn groups(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        self.offsets.windows(2).map(|pair| pair[0]..pair[1]).enumerate()
    }

    fn upload_offsets(&self, device: &Device) -> Buffer<u32> {
        device.upload(&self.offsets.iter().map(|offset| *offset as u32).collect::<Vec<_>>()).unwrap()
    }

    /// The product, with matrices along K or along N, and results of `bf16` or `f32`.
    fn check_product<O: Output + Number>(&mut self, device: &Device, b_k_major: bool) {
        let ([k, n], rows, groups) = (self.extents, self.rows, self.offsets.len() - 1);
        let a = self.matrix(k);
        let b: Vec<bf16> = (0..groups * k * n).map(|_| bf16::nearest(self.random.unit())).collect();
        let (on_a, on_b, offsets) =
            (device.upload(&a).unwrap(), device.upload(&b).unwrap(), self.upload_offsets(device));
        let mut c = device.upload(&vec![O::poison(); rows * n]).unwrap();
        let view = if b_k_major {
            TensorRef::from(on_b.tile([groups, n, k]).unwrap()).permuted([0, 2, 1]).unwrap()
        } else {
            on_b.tile([groups, k, n]).unwrap().into()
        };
        let grouped = GroupedGemm::new(device).unwrap();
        grouped.run(device, on_a.tile([rows, k]).unwrap(), view, &offsets, c.tile_mut([rows, n]).unwrap()).unwrap();
        let found = c.download().unwrap();
        let mut is_written = vec![false; rows];
        for (group, range) in self.groups() {
            for (row, column) in range.flat_map(|row| (0..n).map(move |column| (row, column))) {
                is_written[row] = true;
                let of_b = |k_at: usize| {
                    if b_k_major { (group * n + column) * k + k_at } else { (group * k + k_at) * n + column }
                };
                let term = |at: usize| a[row * k + at].value() * b[of_b(at)].value();
                let (sum, size): (f64, f64) =
                    (0..k).map(term).fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                let error = 4.0 * (k + 32) as f64 * 2f64.powi(-24) * size;
                let (found, bound) = (found[row * n + column].value(), error + (sum.abs() + error) * O::ROUNDING);
                assert!((found - sum).abs() <= bound, "group {group}, ({row}, {column}): {found}, expected {sum}");
            }
        }
        let stray = (0..rows * n).find(|at| !is_written[at / n] && !found[*at].is_poison());
        assert_eq!(stray, None, "a row of no group is written");
    }

    /// The gradient of the matrices.
    fn check_gradient(&mut self, device: &Device) {
        let ([k, n], rows, groups) = (self.extents, self.rows, self.offsets.len() - 1);
        let (a, dc) = (self.matrix(k), self.matrix(n));
        let (on_a, on_dc, offsets) =
            (device.upload(&a).unwrap(), device.upload(&dc).unwrap(), self.upload_offsets(device));
        let mut db = device.upload(&vec![bf16::NAN; groups * k * n]).unwrap();
        let grouped = GroupedGemm::new(device).unwrap();
        let (a_tile, dc_tile) = (on_a.tile([rows, k]).unwrap(), on_dc.tile([rows, n]).unwrap());
        grouped.gradient_b(device, a_tile, dc_tile, &offsets, db.tile_mut([groups, k, n]).unwrap()).unwrap();
        let found = db.download().unwrap();
        for (group, range) in self.groups() {
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
}

fn check(device: &Device, heights: &[usize], around: usize, extents: [usize; 2]) {
    let seed = (heights.iter().sum::<usize>() + extents[0] + extents[1]) as u64;
    Case::new(heights, around, extents, seed).check_gradient(device);
}

#[test]
fn random_grouped_products() {
    let device = super::device();
    let first = super::number("PTX_GEMM_SEED", 1);
    for seed in first..first + super::number("PTX_GEMM_GROUPED", 3) {
        println!("PTX_GEMM_SEED={seed}");
        let mut case = Case::random(seed);
        if case.rows == 0 {
            continue;
        }
        match seed % 4 {
            0 => case.check_product::<bf16>(&device, true),
            1 => case.check_product::<bf16>(&device, false),
            2 => case.check_product::<f32>(&device, false),
            _ => case.check_gradient(&device),
        }
    }
}

#[test]
fn wrong_grouped_products_are_errors() -> Result<()> {
    let device = super::device();
    let (values, offsets) = (device.zeros::<bf16>(1 << 12)?, device.upload(&[0u32, 4, 8])?);
    let (mut out, mut wide) = (device.zeros::<bf16>(1 << 12)?, device.zeros::<f32>(1 << 12)?);
    let grouped = GroupedGemm::new(&device)?;
    let (a, b) = (values.tile([8, 16])?, values.tile([2, 16, 24])?);
    let mut text = |a: TensorRef<'_, bf16, 2>, b: TensorRef<'_, bf16, 3>, offsets: &Buffer<u32>, c: [usize; 2]| {
        let wrong = grouped.run(&device, a, b, offsets, out.tile_mut(c).unwrap()).unwrap_err();
        (wrong.kind(), wrong.to_string())
    };
    let (kind, error) = text(a.into(), b.into(), &offsets, [8, 16]);
    assert!(
        kind == ErrorKind::Condition && error.contains("`c` [8, 16]") && error.contains("[groups, k, n]"),
        "{error}"
    );
    let (kind, error) = text(a.into(), b.into(), &device.upload(&[0u32, 8])?, [8, 24]);
    assert!(kind == ErrorKind::Condition && error.contains("`offsets` has 2 elements, for 2 groups"), "{error}");
    let (kind, error) = text(values.tile([8, 12])?.into(), values.tile([2, 12, 24])?.into(), &offsets, [8, 24]);
    assert!(kind == ErrorKind::Unsupported && error.contains("K = 12") && error.contains("multiples of 8"), "{error}");
    let apart = TensorRef::strided(&values, [8, 16], [32, 1])?;
    let (kind, error) = text(apart, b.into(), &offsets, [8, 24]);
    assert!(kind == ErrorKind::Condition && error.contains("`a`") && error.contains("[32, 1]"), "{error}");
    let transposed = TensorRef::from(values.tile([2, 24, 16])?).permuted([0, 2, 1])?;
    let wrong = grouped.run(&device, a, transposed, &offsets, wide.tile_mut([8, 24])?).unwrap_err();
    assert!(wrong.kind() == ErrorKind::Unsupported && wrong.to_string().contains("`bf16`"), "{wrong}");
    let (none, no_columns) = (values.tile([0, 16])?, values.tile([2, 16, 0])?);
    grouped.run(&device, none, b, &offsets, out.tile_mut([0, 24])?)?;
    grouped.run(&device, a, no_columns, &offsets, out.tile_mut([8, 0])?)?;
    let wrong =
        grouped.gradient_b(&device, none, values.tile([0, 24])?, &offsets, out.tile_mut([2, 16, 24])?).unwrap_err();
    assert!(wrong.to_string().contains("one row or more"), "{wrong}");
    Ok(())
}

/// Offsets are the device's: whatever they are, nothing outside of the tensors is accessed, and each row is that of the first group that
/// reaches behind it.
#[test]
fn wrong_offsets_stay_inside() -> Result<()> {
    let device = super::device();
    let [m, n, k] = [8, 24, 16];
    let of_group = |at: usize| bf16::from_f32((1 + at / (k * n)) as f32);
    let (a, b) =
        (device.upload(&vec![bf16::ONE; m * k])?, device.upload(&(0..3 * k * n).map(of_group).collect::<Vec<_>>())?);
    let grouped = GroupedGemm::new(&device)?;
    for offsets in [
        [0, 1000, 1000, u32::MAX],
        [5, 2, 8, 1],
        [u32::MAX, 0, 4, 8],
        [9, 9, 9, 9],
        [0, 6, 2, 8],
        [0, 3, 0, 3],
        [2, 0, 5, 0],
        [4, 1, 0, 8],
    ] {
        let on_device = device.upload(&offsets)?;
        let mut c = device.upload(&vec![bf16::poison(); 2 * m * n])?;
        let (b, out) = (b.tile([3, k, n])?, c.slice_mut(..m * n)?);
        let out = TensorMut::strided(out, [m, n], [n, 1])?;
        grouped.run(&device, a.tile([m, k])?, b, &on_device, out)?;
        let found = c.download()?;
        for row in 0..m {
            let begun = offsets[0] as usize <= row;
            let group = (0..3).find(|group| begun && row < offsets[group + 1] as usize);
            let expected = group.map(|group| (16 * (group + 1)) as f32);
            let fits = |value: &bf16| expected.map_or(value.is_poison(), |expected| value.to_f32() == expected);
            assert!(found[row * n..][..n].iter().all(fits), "{offsets:?}: row {row}, expected {expected:?}");
        }
        assert!(found[m * n..].iter().all(|value| value.is_poison()), "{offsets:?}");
    }
    Ok(())
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
