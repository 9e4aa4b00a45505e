//! The choice between ways: its table is that of the result files, and what is chosen is done.

use super::{same, sums, values};
use half::bf16;
use ptx_kernels::comm::Rank;
use ptx_kernels::comm::choice::{self, MEASURED, Means, Operation, Way, Work, choose};
use ptx_launch::prelude::*;

const ALL: Means = Means { ranks: 2, has_nccl: true, has_products: true };

#[test]
fn the_table_is_that_of_the_result_files() {
    let of_file = |text: &str| text.replace("\\u00d7", "×").replace(char::is_whitespace, "");
    let all_reduce = of_file(include_str!("../../../benches/results/all-reduce.json"));
    let products = of_file(include_str!("../../../benches/results/products.json"));
    let digits = |time: f64| time.to_string();
    for row in &MEASURED {
        let [ours, separate, nccl] = row.times.map(digits);
        let suffix = match row.operation {
            Operation::AllReduce => "",
            Operation::GemmReduceScatter => ",reduce-scatter",
            Operation::GemmAllReduce => ",all-reduce",
            Operation::AllGatherGemm => ",all-gather",
        };
        let name = row.name.replace(' ', "");
        // Files may have zeros at the end.
        let has = |text: &str, parts: &[&str]| {
            let begin = format!("[\"{name}{suffix}\",");
            let found = text.split(&begin).nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
            let found: Vec<f64> = found.split(',').filter_map(|cell| cell.trim_matches('"').parse().ok()).collect();
            parts.iter().all(|part| found.contains(&part.parse().unwrap()))
        };
        let is_there = match row.operation {
            Operation::AllReduce => has(&all_reduce, &[&ours, &nccl]),
            _ => has(&products, &[&ours, &separate, &nccl]),
        };
        assert!(is_there, "{row:?} is in no file");
    }
    let rows = |text: &str| text.split("\"rows\":").nth(1).unwrap().matches('[').count() - 1;
    assert_eq!(rows(&all_reduce) + rows(&products), MEASURED.len());
}

#[test]
fn the_fastest_possible_way_is_chosen() {
    let way = |work: Work, means: Means| choose(work, means).map(|choice| choice.way);
    for bytes in [0, 100, 16 << 10, 3 << 20, 64 << 20, 1 << 33] {
        assert_eq!(way(Work::AllReduce { bytes, is_symmetric: true }, ALL), Some(Way::Ours), "{bytes}");
    }
    let plain = |bytes| Work::AllReduce { bytes, is_symmetric: false };
    assert_eq!([way(plain(1000), ALL), way(plain(64 << 20), ALL)], [Some(Way::Ours), Some(Way::Nccl)]);
    assert_eq!(way(plain(64 << 20), Means { has_nccl: false, ..ALL }), None);
    let large = [8192, 8192, 14336];
    let products = [Work::GemmReduceScatter(large), Work::GemmAllReduce(large), Work::AllGatherGemm(large)];
    assert_eq!(products.map(|work| way(work, ALL)), [Some(Way::Ours); 3]);
    let odd = choose(Work::GemmAllReduce([4095, 8192, 4096]), Means { has_nccl: false, ..ALL }).unwrap();
    assert_eq!(odd.to_string(), "separate kernels, the only way");
}

#[test]
fn what_is_chosen_is_done() {
    let devices = Devices::best(2).unwrap();
    let mut group = Rank::group(&devices).unwrap();
    let mut x = SymmetricBuffer::<f32>::zeros(&devices, 40).unwrap();
    let mut plain: Vec<_> = (0..2).map(|rank| devices[rank].upload(&values::<f32>(rank, 0, 40)).unwrap()).collect();
    let streams: Vec<Stream> = devices.iter().map(Device::stream).collect();
    for rank in 0..2 {
        x.on_mut(rank).unwrap().write(&values(rank, 0, 40)).unwrap();
    }
    for (rank, plain) in plain.iter_mut().enumerate() {
        let (stream, group) = (&streams[rank], &mut group[rank]);
        let symmetric = choice::all_reduce(stream, group, x.on_mut(rank).unwrap(), None).unwrap();
        let anywhere = choice::all_reduce(stream, group, plain, None).unwrap();
        assert_eq!([symmetric.way, anywhere.way], [Way::Ours; 2]);
    }
    for (rank, plain) in plain.iter().enumerate() {
        same(&plain.download().unwrap(), &sums::<f32>(2, 0, 40), "memory that is not symmetric");
        same(&x.on(rank).unwrap().download().unwrap(), &sums::<f32>(2, 0, 40), "symmetric memory");
    }
    let mut large = devices[0].zeros::<f32>(1 << 20).unwrap();
    let error = choice::all_reduce(&streams[0], &mut group[0], &mut large, None).unwrap_err().to_string();
    assert!(error.contains("make the memory symmetric"), "{error}");
}

/// A product that no kernel of ours takes is made by separate kernels: ten columns.
#[cfg(feature = "gemm")]
#[test]
fn products_of_other_extents_are_separate() {
    use ptx_kernels::comm::products;
    use ptx_launch::TensorRef;
    let devices = Devices::best(2).unwrap();
    let (mut group, mut fused) = (Rank::group(&devices).unwrap(), products::Rank::group(&devices, [4, 16]).unwrap());
    let [m, n, k] = [4, 10, 8];
    let ones = |len: usize| devices.iter().map(|device| device.upload(&vec![bf16::ONE; len]).unwrap()).collect();
    let (a, b): (Vec<_>, Vec<_>) = (ones(m * k), ones(n * k));
    let mut whole = SymmetricBuffer::<bf16>::zeros(&devices, m * n).unwrap();
    let mut all = SymmetricBuffer::<bf16>::zeros(&devices, m * n).unwrap();
    let mut part: Vec<_> = devices.iter().map(|device| device.zeros::<bf16>(m * n / 2).unwrap()).collect();
    for (rank, part) in part.iter_mut().enumerate() {
        let stream = devices[rank].stream();
        let (a, b) = (a[rank].tile([m, k]).unwrap(), TensorRef::strided(&b[rank], [k, n], [1, k]).unwrap());
        let ranks = choice::Both { product: &mut fused[rank], collective: &mut group[rank] };
        let whole = whole.on_mut(rank).unwrap();
        let scattered = choice::gemm_reduce_scatter(&stream, ranks, a, b, whole, part).unwrap();
        let (a, ranks) = (a, choice::Both { product: &mut fused[rank], collective: &mut group[rank] });
        let summed = choice::gemm_all_reduce(&stream, ranks, a, b, all.on_mut(rank).unwrap()).unwrap();
        assert_eq!([scattered.way, summed.way], [Way::Separate; 2]);
    }
    devices.synchronize().unwrap();
    for (rank, part) in part.iter().enumerate() {
        same(&part.download().unwrap(), &[bf16::from_f32(16.0); 20], "scattered");
        same(&all.on(rank).unwrap().download().unwrap(), &[bf16::from_f32(16.0); 40], "summed");
    }
}
