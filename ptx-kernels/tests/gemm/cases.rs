//! Cases that random products seldom have: empty extents, errors, scratch memory of the caller.

use half::bf16;
use ptx_kernels::float8::E4m3;
use ptx_kernels::gemm::{Activation, Gemm, algorithms, gemm};
use ptx_kernels::workspace::Workspace;
use ptx_launch::{AsStream, ErrorKind, Result, TensorMut, TensorRef};

#[test]
fn without_k_the_sums_are_zeros() -> Result<()> {
    let device = super::device();
    let (a, b) = (device.upload::<f32>(&[])?, device.upload::<f32>(&[])?);
    let mut c = device.upload(&[f32::NAN, 1.0, 2.0, 3.0])?;
    let bias = device.upload(&[4.0f32, 5.0])?;
    let mut with_beta = Gemm::new().beta(2.0).bias_columns(bias.tile([2])?);
    with_beta.run(&device, a.tile([2, 0])?, b.tile([0, 2])?, c.tile_mut([2, 2])?)?;
    let found = c.download()?;
    assert!(found[0].is_nan(), "the old C is read");
    assert_eq!(found[1..], [7.0, 8.0, 11.0]);
    gemm(&device, a.tile([2, 0])?, b.tile([0, 2])?, c.tile_mut([2, 2])?)?;
    assert_eq!(c.download()?, [0.0; 4]);
    Ok(())
}

/// As IEEE 754 has it: a factor of zero keeps the NaN of a sum, and with `beta` = 0 the old C is not read. Subnormal numbers count.
#[test]
fn factors_of_zero() -> Result<()> {
    let device = super::device();
    let a = device.upload(&[f32::NAN, 1.0, 1.0, f32::INFINITY, 1e-40, 2.0])?;
    let (b, mut c) = (device.upload(&[1.0f32, 0.0])?, device.upload(&[f32::NAN, f32::INFINITY, f32::NAN])?);
    Gemm::new().alpha(0.0).run(&device, a.tile([3, 2])?, b.tile([2, 1])?, c.tile_mut([3, 1])?)?;
    let found = c.download()?;
    assert!(found[0].is_nan() && found[1].is_nan() && found[2] == 0.0, "{found:?}");
    gemm(&device, a.tile([3, 2])?, b.tile([2, 1])?, c.tile_mut([3, 1])?)?;
    assert_eq!(c.download()?[2], 1e-40);
    Ok(())
}

/// A stride of zero repeats rows, columns and matrices; one that leads nowhere is no matter.
#[test]
fn operands_are_repeated() -> Result<()> {
    let device = super::device();
    let (a, b) = (device.upload(&[1.0f32, 2.0, 3.0])?, device.upload(&[1.0f32, -1.0, 0.5])?);
    let rows = TensorRef::strided(&a, [2, 4, 3], [0, 0, 1])?;
    let columns = TensorRef::strided(&b, [2, 3, 5], [0, 1, 0])?;
    let mut c = device.zeros::<f32>(40)?;
    gemm(&device, rows, columns, c.tile_mut([2, 4, 5])?)?;
    assert_eq!(c.download()?, [0.5; 40]);
    let (row, column) =
        (TensorRef::strided(&a, [1, 3], [usize::MAX / 8, 1])?, TensorRef::strided(&b, [3, 1], [1, usize::MAX / 8])?);
    gemm(&device, row, column, c.tile_mut([1, 1])?)?;
    assert_eq!(c.download()?[0], 0.5);
    Ok(())
}

#[test]
fn without_elements_nothing_is_launched() -> Result<()> {
    let device = super::device();
    let (a, b) = (device.upload(&[1.0f32; 4])?, device.upload::<f32>(&[])?);
    let mut c = device.upload(&[9.0f32])?;
    gemm(&device, a.tile([2, 2])?, b.tile([2, 0])?, c.tile_mut([2, 0])?)?;
    assert_eq!(c.download()?, [9.0]);
    Ok(())
}

#[test]
fn errors_say_what_is_possible() -> Result<()> {
    let device = super::device();
    let (a, b) = (device.upload(&[1i8; 12])?, device.upload(&[1i8; 12])?);
    let mut c = device.zeros::<i32>(9)?;
    let wrong = gemm(&device, a.tile([3, 4])?, b.tile([3, 4])?, c.tile_mut([3, 3])?).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Condition);
    let (a, b) = (a.tile([3, 4])?, b.tile([4, 3])?);
    let wrong = Gemm::new().alpha(2.0).run(&device, a, b, c.tile_mut([3, 3])?).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Unsupported);
    assert!(wrong.to_string().contains("f32, f16 or bf16"), "{wrong}");
    let wrong = Gemm::new().algorithm("none", 1).run(&device, a, b, c.tile_mut([3, 3])?).unwrap_err();
    assert!(wrong.to_string().contains("m64n64k16_1x1_xx_simt"), "{wrong}");
    let (x, mut y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(1)?);
    let mut workspace = Workspace::new(&device, 4)?;
    let mut gemm = Gemm::new().workspace(&mut workspace).algorithm("m64n64k16_1x1_xx_simt", 4);
    let wrong = gemm.run(&device, x.tile([1, 64])?, x.tile([64, 1])?, y.tile_mut([1, 1])?).unwrap_err();
    assert!(wrong.to_string().contains("bytes of workspace (parts of K: 4)"), "{wrong}");
    assert!(wrong.to_string().contains("possible: 4 bytes"), "{wrong}");
    let bias = device.upload(&[1.0f32; 4])?;
    let mut c = device.zeros::<f32>(9)?;
    let wrong = Gemm::new().bias_rows(bias.tile([4])?).run(&device, a, b, c.tile_mut([3, 3])?).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Condition);
    Ok(())
}

#[test]
fn activations_have_the_values_of_pytorch_at_infinity() -> Result<()> {
    use Activation::{Gelu, GeluTanh, Relu, Silu};
    let device = super::device();
    let values = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -1.0, 2.0];
    let (a, one) = (device.upload(&values)?, device.upload(&[1.0f32])?);
    for activation in [Relu, Gelu, GeluTanh, Silu] {
        let mut c = device.zeros::<f32>(5)?;
        Gemm::new().activation(activation).run(&device, a.tile([5, 1])?, one.tile([1, 1])?, c.tile_mut([5, 1])?)?;
        let found = c.download()?;
        assert!(if activation == Relu { found[0] == 0.0 } else { found[0].is_nan() }, "{activation:?}: {found:?}");
        assert_eq!(found[1], f32::INFINITY);
        assert!(found[2].is_nan());
    }
    Ok(())
}

#[test]
fn the_callers_workspace_limits_the_choice() -> Result<()> {
    let device = super::device();
    let k = 4096;
    let (a, b) = (device.upload(&vec![bf16::from_f32(0.5); 8 * k])?, device.upload(&vec![bf16::from_f32(2.0); 8 * k])?);
    let mut c = device.zeros::<f32>(64)?;
    for bytes in [0, 100, 1 << 20] {
        let mut workspace = Workspace::new(&device, bytes)?;
        let b = TensorRef::from(b.tile([8, k])?).transposed();
        let mut gemm = Gemm::new().workspace(&mut workspace);
        let choice = gemm.choose(&device, a.tile([8, k])?, b, c.tile_mut([8, 8])?)?;
        assert!(choice.workspace <= bytes, "{choice:?}");
        gemm.run(&device, a.tile([8, k])?, b, c.tile_mut([8, 8])?)?;
        assert_eq!(c.download()?, [4096.0; 64]);
    }
    Ok(())
}

/// Every instance with the generic epilogue for `bf16`, at a size with parts of tiles, whole K and K in two parts.
#[test]
fn every_generic_instance_is_right() -> Result<()> {
    let device = super::device();
    if device.is_cuda() && (&device.stream()).as_stream().properties()?.capability != Some(90) {
        return Ok(());
    }
    let [m, n, k] = [72, 136, 72];
    let values: Vec<bf16> = (0..n * k).map(|at| bf16::from_f32((at * 7 % 15) as f32 - 7.0)).collect();
    let (a, b) = (device.upload(&values[..m * k])?, device.upload(&values)?);
    for name in crate::thorough::one_in(5, algorithms("bf16").filter(|name| name.ends_with("_generic"))) {
        let (a_mn, b_mn) = (name.contains("_m"), name.ends_with("n_generic"));
        let mut results = Vec::new();
        for (algorithm, splits) in [("m64n64k16_1x1_xx_simt", 1), (name, 1), (name, 2)] {
            let mut c = device.zeros::<bf16>(m * n)?;
            let a = if a_mn { TensorRef::from(a.tile([k, m])?).transposed() } else { a.tile([m, k])?.into() };
            let b = if b_mn { b.tile([k, n])?.into() } else { TensorRef::from(b.tile([n, k])?).transposed() };
            Gemm::new().algorithm(algorithm, splits).run(&device, a, b, c.tile_mut([m, n])?)?;
            results.push(c.download()?);
        }
        assert!(results.iter().all(|result| *result == results[0]), "{name}");
    }
    Ok(())
}

/// A thread keeps its choices: for the same product, and for no other one.
#[test]
fn a_choice_is_that_of_its_product() -> Result<()> {
    let device = super::device();
    let (a, b, mut c) =
        (device.zeros::<bf16>(1 << 16)?, device.zeros::<bf16>(1 << 16)?, device.zeros::<bf16>(1 << 16)?);
    let mut choose = |[m, n, k]: [usize; 3], deterministic: bool| {
        let gemm = Gemm::<bf16, 2>::new().deterministic(deterministic);
        gemm.choose(&device, a.tile([m, k])?, b.tile([k, n])?, c.tile_mut([m, n])?)
    };
    let shapes: Vec<[usize; 3]> = (1..400).map(|at| [1 + at % 61, 8 * (1 + at % 13), 8 * at]).collect();
    let shapes: Vec<_> = shapes.into_iter().filter(|[m, n, k]| m * k.max(n) < 1 << 16 && k * n < 1 << 16).collect();
    let first: Vec<_> = shapes.iter().map(|shape| choose(*shape, true)).collect::<Result<_>>()?;
    for (shape, choice) in shapes.iter().zip(&first) {
        assert_eq!(choose(*shape, true)?, *choice, "{shape:?}");
        assert_eq!(choose(*shape, true)?, *choice, "{shape:?}");
        assert!(choice.workspace <= 1 << 30, "{choice:?}");
    }
    assert!(first.iter().any(|choice| *choice != first[0]), "one choice for all shapes");
    Ok(())
}

/// Every type has a kernel for every number of rows.
#[test]
fn few_rows_have_a_kernel() -> Result<()> {
    let device = super::device();
    let (k, n) = (3, 5);
    for m in 1..40 {
        let (a, b) = (device.upload(&vec![2.0f32; m * k])?, device.upload(&vec![0.5f32; k * n])?);
        let mut c = device.zeros::<f32>(m * n)?;
        gemm(&device, a.tile([m, k])?, b.tile([k, n])?, c.tile_mut([m, n])?)?;
        assert_eq!(c.download()?, vec![3.0; m * n], "{m} rows");
        let (a, b) = (device.upload(&vec![2i8; m * k])?, device.upload(&vec![3i8; k * n])?);
        let mut c = device.zeros::<i32>(m * n)?;
        gemm(&device, a.tile([m, k])?, b.tile([k, n])?, c.tile_mut([m, n])?)?;
        assert_eq!(c.download()?, vec![18; m * n], "{m} rows");
    }
    Ok(())
}

#[test]
fn parts_of_k_give_the_same_bits_each_time() -> Result<()> {
    let device = super::device();
    let values: Vec<f32> = (0..64 * 300).map(|at| (at as f32 * 0.7).sin()).collect();
    let (a, b) = (device.upload(&values)?, device.upload(&values)?);
    let mut found = Vec::new();
    for _ in 0..2 {
        let mut c = device.zeros::<f32>(64 * 64)?;
        Gemm::new().deterministic(true).algorithm("m64n64k16_1x1_xx_simt", 4).run(
            &device,
            a.tile([64, 300])?,
            b.tile([300, 64])?,
            c.tile_mut([64, 64])?,
        )?;
        found.push(c.download()?.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
    }
    assert_eq!(found[0], found[1]);
    Ok(())
}

/// A kernel for one chip.
const CLAIMED: &str = "m128n256k128_2x1_kk_claimed";

/// Kernels for other chips run on the CPU device, too.
#[test]
fn kernels_for_one_chip_take_dense_products() -> Result<()> {
    let device = super::device();
    let [m, n, k] = [72, 136, 192];
    let values: Vec<E4m3> = (0..n * k).map(|at| E4m3::from_f32((at * 7 % 15) as f32 - 7.0)).collect();
    let (a, b) = (device.upload(&values[..m * k])?, device.upload(&values)?);
    let mut results = Vec::new();
    for algorithm in [CLAIMED, "m64n64k16_1x1_xx_simt"] {
        if device.is_cuda()
            && algorithm == CLAIMED
            && (&device.stream()).as_stream().properties()?.capability != Some(90)
        {
            continue;
        }
        let mut c = device.zeros::<bf16>(m * n)?;
        let b = TensorRef::from(b.tile([n, k])?).transposed();
        let mut gemm = Gemm::new().algorithm(algorithm, 1);
        assert_eq!(gemm.choose(&device, a.tile([m, k])?, b, c.tile_mut([m, n])?)?.algorithm, algorithm);
        gemm.run(&device, a.tile([m, k])?, b, c.tile_mut([m, n])?)?;
        results.push(c.download()?);
    }
    assert_eq!(results.first(), results.last());
    let mut c = device.zeros::<bf16>(m * n)?;
    let plain = Gemm::new().alpha(2.0).algorithm(CLAIMED, 1);
    let b = TensorRef::from(b.tile([n, k])?).transposed();
    let refused = { plain }.run(&device, a.tile([m, k])?, b, c.tile_mut([m, n])?).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    Ok(())
}

/// More batches than blocks along z, with strides of zero.
#[test]
#[ignore = "takes minutes on the CPU device: PTX_DEVICE=cuda cargo test -p ptx-kernels --test gemm -- --ignored batches_are_many"]
fn batches_are_many() -> Result<()> {
    let device = super::device();
    let batches = 65_537;
    let (a, b) = (device.upload(&[3.0f32])?, device.upload(&[2.0f32])?);
    let mut c = device.zeros::<f32>(batches)?;
    let one = TensorRef::strided(&a, [batches, 1, 1], [0, 1, 1])?;
    let other = TensorRef::strided(&b, [batches, 1, 1], [0, 1, 1])?;
    let out = TensorMut::strided(c.view_mut(), [batches, 1, 1], [1, 1, 1])?;
    Gemm::new().algorithm("m64n64k16_1x1_xx_simt", 1).run(&device, one, other, out)?;
    assert!(c.download()?.iter().all(|v| *v == 6.0));
    Ok(())
}

/// `m{M}n{N}k{K}_{cluster}_{majors}_{family}`, and each name once for each type.
#[test]
fn names_have_one_scheme() {
    let families = ["simt", "rows", "runs", "mma", "generic", "static", "claimed", "streamk", "tcgen05"];
    for kind in ["f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "i8"] {
        let names: Vec<_> = algorithms(kind).collect();
        assert!(!names.is_empty());
        for name in &names {
            let [tile, cluster, majors, family] = name.split('_').collect::<Vec<_>>()[..] else { panic!("{name}") };
            let extents = tile.split(['m', 'n', 'k']).skip(1).filter(|extent| extent.parse::<u32>().is_ok());
            let blocks = cluster.split('x').filter(|blocks| blocks.parse::<u32>().is_ok());
            let is_named = extents.count() == 3 && blocks.count() == 2 && families.contains(&family);
            assert!(is_named && majors.chars().zip(["kmx", "knx"]).all(|(major, of)| of.contains(major)), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
