//! Products whose kernels communicate, on GPUs where there are enough for a test, else on CPU ranks under the watcher. Operands are small integers, so that every
//! order of a sum has the same bits.

use super::same;
use half::{bf16, f16};
use ptx_kernels::comm::products::{self, Half, Rank};
#[cfg(target_os = "linux")]
use ptx_launch::ProcessGroup;
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result, TensorMut, TensorRef};

/// An element of a matrix of small integers; matrices of other numbers differ.
fn element(which: usize, row: usize, column: usize) -> i32 {
    let mixed = (which * 7919 + row * 104_729 + column * 1_299_709) as u64;
    ((mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 5) as i32 - 2
}

fn matrix<T: super::Number>(which: usize, rows: usize, columns: usize) -> Vec<T> {
    (0..rows * columns).map(|at| T::of(element(which, at / columns, at % columns) as f32)).collect()
}

/// Row by row, the products of rows of A with columns of B, summed over pairs of matrices.
fn product<T: super::Number>(pairs: &[[usize; 2]], [m, n, k]: [usize; 3]) -> Vec<T> {
    let mut sums = vec![0i32; m * n];
    for [a, b] in pairs {
        let left: Vec<i32> = (0..m * k).map(|at| element(*a, at / k, at % k)).collect();
        let right: Vec<i32> = (0..n * k).map(|at| element(*b, at / k, at % k)).collect();
        for (at, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (&left[at / n * k..][..k], &right[at % n * k..][..k]);
            *sum += row.iter().zip(column).map(|(a, b)| a * b).sum::<i32>();
        }
    }
    sums.into_iter().map(|sum| T::of(sum as f32)).collect()
}

/// A (M x K) and B (N x K) of each rank.
fn operands<T: super::Number + Half>(devices: &Devices, [m, n, k]: [usize; 3]) -> Vec<[Buffer<T>; 2]> {
    let of = |(rank, device): (usize, &Device)| {
        let [a, b] = [matrix(2 * rank, m, k), matrix(2 * rank + 1, n, k)].map(|all: Vec<T>| device.upload(&all));
        [a.unwrap(), b.unwrap()]
    };
    devices.iter().enumerate().map(of).collect()
}

/// B as the product takes it, from an N x K matrix.
fn columns<T: super::Number>(b: &Buffer<T>, [k, n]: [usize; 2]) -> TensorRef<'_, T, 2> {
    TensorRef::strided(b, [k, n], [1, k]).unwrap()
}

fn reduced<T: super::Number + Half>(devices: &Devices, group: &mut [Rank], extents: [usize; 3], calls: usize) {
    let ([m, n, k], count) = (extents, devices.len());
    let part = m / count;
    let all = operands::<T>(devices, extents);
    let guard = T::of(-77.0);
    let fill = |device: &Device| device.upload(&vec![guard; part * n + 8]).unwrap();
    let mut out: Vec<_> = devices.iter().map(fill).collect();
    let mut whole = SymmetricBuffer::<T>::zeros(devices, m * n + 8).unwrap();
    for x in whole.iter_mut() {
        x.write(&vec![guard; m * n + 8]).unwrap();
    }
    devices.synchronize().unwrap();
    for _ in 0..calls {
        for rank in 0..count {
            let (a, b) = (all[rank][0].tile([m, k]).unwrap(), columns(&all[rank][1], [k, n]));
            let c = TensorMut::strided(&mut out[rank], [part, n], [n, 1]).unwrap();
            products::gemm_reduce_scatter(&devices[rank], &mut group[rank], a, b, c).unwrap();
        }
        for rank in 0..count {
            let (a, b) = (all[rank][0].tile([m, k]).unwrap(), columns(&all[rank][1], [k, n]));
            products::gemm_all_reduce(&devices[rank], &mut group[rank], a, b, whole.on_mut(rank).unwrap()).unwrap();
        }
    }
    devices.synchronize().unwrap();
    let pairs: Vec<_> = (0..count).map(|rank| [2 * rank, 2 * rank + 1]).collect();
    let mut want = product::<T>(&pairs, extents);
    for (rank, out) in out.iter().enumerate() {
        let mut want = want[rank * part * n..(rank + 1) * part * n].to_vec();
        want.extend([guard; 8]);
        same(&out.download().unwrap(), &want, &format!("reduce-scatter of {extents:?} on rank {rank} of {count}"));
    }
    want.extend([guard; 8]);
    for rank in 0..count {
        let found = whole.on(rank).unwrap().download().unwrap();
        same(&found, &want, &format!("all-reduce of {extents:?} on rank {rank} of {count}"));
    }
}

fn gathered<T: super::Number + Half>(devices: &Devices, group: &mut [Rank], extents: [usize; 3], calls: usize) {
    let ([m, n, k], count) = (extents, devices.len());
    let part = m / count;
    let all = operands::<T>(devices, extents);
    let mut rows = SymmetricBuffer::<T>::zeros(devices, m * k).unwrap();
    let whole = matrix::<T>(0, m, k);
    let mut out: Vec<_> = devices.iter().map(|device| device.zeros::<T>(m * n).unwrap()).collect();
    for call in 0..calls {
        // Each rank has the rows of its part, and other values elsewhere.
        for rank in 0..count {
            let mut own = vec![T::of(call as f32); m * k];
            let range = rank * part * k..(rank + 1) * part * k;
            own[range.clone()].copy_from_slice(&whole[range]);
            rows.on_mut(rank).unwrap().write(&own).unwrap();
        }
        devices.synchronize().unwrap();
        for rank in 0..count {
            let (b, c) = (columns(&all[rank][1], [k, n]), out[rank].tile_mut([m, n]).unwrap());
            products::all_gather_gemm(&devices[rank], &mut group[rank], rows.on_mut(rank).unwrap(), b, c).unwrap();
        }
        devices.synchronize().unwrap();
        for (rank, out) in out.iter().enumerate() {
            let what = format!("all-gather of {extents:?} on rank {rank} of {count}");
            same(&rows.on(rank).unwrap().download().unwrap(), &whole, &what);
            same(&out.download().unwrap(), &product::<T>(&[[0, 2 * rank + 1]], extents), &what);
        }
    }
}

/// The three products on a rank of a group of processes.
#[cfg(target_os = "linux")]
pub(super) fn of_process(group: &ProcessGroup) -> Result<()> {
    let (extents, ranks, at) = ([272, 72, 72], group.ranks(), group.rank());
    let ([m, n, k], part, device) = (extents, extents[0] / ranks, group.device());
    let mut rank = Rank::join(group, [m, n])?;
    let (a, b) = (device.upload(&matrix::<bf16>(2 * at, m, k))?, device.upload(&matrix::<bf16>(2 * at + 1, n, k))?);
    let mut c = device.zeros::<bf16>(part * n)?;
    let (mut whole, mut rows) = (SymmetricBuffer::<bf16>::join(group, m * n)?, SymmetricBuffer::join(group, m * k)?);
    products::gemm_reduce_scatter(device, &mut rank, a.tile([m, k])?, columns(&b, [k, n]), c.tile_mut([part, n])?)?;
    products::gemm_all_reduce(device, &mut rank, a.tile([m, k])?, columns(&b, [k, n]), &mut whole)?;
    group.finish(&device.stream())?;
    let pairs: Vec<_> = (0..ranks).map(|rank| [2 * rank, 2 * rank + 1]).collect();
    let want = product::<bf16>(&pairs, extents);
    same(&c.download()?, &want[at * part * n..][..part * n], "reduce-scatter");
    same(&whole.download()?, &want, "all-reduce");
    let all = matrix::<bf16>(0, m, k);
    rows.slice_mut(at * part * k..(at + 1) * part * k)?.write(&all[at * part * k..][..part * k])?;
    group.meet()?;
    let mut out = device.zeros::<bf16>(m * n)?;
    products::all_gather_gemm(device, &mut rank, &mut rows, columns(&b, [k, n]), out.tile_mut([m, n])?)?;
    group.finish(&device.stream())?;
    same(&rows.download()?, &all, "all-gather");
    same(&out.download()?, &product::<bf16>(&[[0, 2 * at + 1]], extents), "all-gather + GEMM");
    Ok(())
}

#[test]
fn sums_of_products_are_scattered_and_shared() {
    let devices = Devices::best(2).unwrap();
    let mut group = Rank::group(&devices, [272, 72]).unwrap();
    reduced::<bf16>(&devices, &mut group, [272, 72, 72], 1);
}

#[test]
fn rows_of_all_ranks_are_multiplied() {
    let devices = Devices::best(2).unwrap();
    let mut group = Rank::group(&devices, [528, 72]).unwrap();
    gathered::<bf16>(&devices, &mut group, [528, 72, 64], 2);
}

/// The signals of one kind of product mean nothing to the other.
#[test]
fn products_of_both_kinds_take_turns() {
    let devices = Devices::best(3).unwrap().each(|device| device.seed(5));
    let mut group = Rank::group(&devices, [96, 64]).unwrap();
    for columns in [40, 64] {
        gathered::<f16>(&devices, &mut group, [96, columns, 72], 1);
        reduced::<f16>(&devices, &mut group, [96, columns, 64], 1);
    }
}

#[test]
fn a_single_rank_multiplies_alone() {
    let devices = Devices::best(1).unwrap();
    let mut group = Rank::group(&devices, [40, 48]).unwrap();
    reduced::<bf16>(&devices, &mut group, [40, 48, 64], 1);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let devices = Devices::best(2).unwrap();
    let mut group = Rank::group(&devices, [256, 256]).unwrap();
    let (x, mut c) = (devices[0].zeros::<bf16>(1 << 20).unwrap(), devices[0].zeros::<bf16>(1 << 20).unwrap());
    let mut kind = |a: [usize; 2], b: [usize; 2], of_c: [usize; 2]| -> Result<()> {
        let (a, b) = (TensorRef::strided(&x, a, [a[1], 1])?, columns(&x, [b[1], b[0]]));
        let c = TensorMut::strided(&mut c, of_c, [of_c[1], 1])?;
        products::gemm_reduce_scatter(&devices[0], &mut group[0], a, b, c)
    };
    let mut fails = |a, b, c| kind(a, b, c).unwrap_err();
    assert_eq!(fails([255, 64], [64, 64], [127, 64]).kind(), ErrorKind::Unsupported);
    assert_eq!(fails([256, 64], [64, 64], [256, 64]).kind(), ErrorKind::Condition);
    assert_eq!(fails([256, 64], [64, 72], [128, 64]).kind(), ErrorKind::Condition);
    let error = fails([1024, 64], [512, 64], [512, 512]);
    assert!(error.to_string().contains("products::Rank::group"), "{error}");
}
