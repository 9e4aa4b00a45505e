//! The kernels that `Gemm` chooses on an H100 or H200. A change of the times in `gemm::tuning` changes these lists.

use expect_test::expect;
use ptx_kernels::gemm::{Choice, algorithms, tuning};
use std::collections::BTreeSet;

/// SMs of both.
const MULTIPROCESSORS: u32 = 132;

/// `2048 2048 2048 k: m128n128k64_2x1_kk_static/1`: M, N, K, the dimension along which B is dense, the algorithm, and the parts of K.
fn choices(kind: &str, shapes: &[[u32; 3]]) -> String {
    let layouts = shapes.iter().flat_map(|shape| [(shape, true), (shape, false)]);
    let lines = layouts.map(|(shape, b_k_major)| {
        let Choice { algorithm, splits, .. } = tuning::choice(kind, *shape, b_k_major, false, MULTIPROCESSORS).unwrap();
        let [m, n, k] = shape;
        format!("{m} {n} {k} {}: {algorithm}/{splits}\n", if b_k_major { "k" } else { "n" })
    });
    lines.collect()
}

#[test]
fn of_large_products() {
    let shapes = [
        [2048; 3],
        [4096; 3],
        [8192; 3],
        [1024, 1024, 4096],
        [1024, 1024, 8192],
        [1024, 8192, 8192],
        [1024, 28672, 8192],
        [1024, 8192, 28672],
        [4096, 1024, 8192],
        [4096, 28672, 8192],
        [8192, 57344, 8192],
    ];
    expect![[r#"
        2048 2048 2048 k: m128n128k64_2x1_kk_static/1
        2048 2048 2048 n: m128n256k64_2x1_kn_static/1
        4096 4096 4096 k: m128n256k64_1x2_kk_claimed/1
        4096 4096 4096 n: m128n256k64_2x1_kn_static/1
        8192 8192 8192 k: m256n192k64_1x2_kk_streamk/1
        8192 8192 8192 n: m256n192k64_1x2_kn_streamk/1
        1024 1024 4096 k: m64n128k64_1x2_kk_claimed/1
        1024 1024 4096 n: m64n128k64_1x1_kn_static/1
        1024 1024 8192 k: m64n128k64_1x2_kk_claimed/1
        1024 1024 8192 n: m128n128k64_2x1_kn_generic/2
        1024 8192 8192 k: m128n256k64_1x2_kk_claimed/1
        1024 8192 8192 n: m128n256k64_1x2_kn_claimed/1
        1024 28672 8192 k: m256n192k64_1x2_kk_streamk/1
        1024 28672 8192 n: m256n192k64_1x2_kn_streamk/1
        1024 8192 28672 k: m256n192k64_1x2_kk_streamk/1
        1024 8192 28672 n: m256n192k64_1x2_kn_streamk/1
        4096 1024 8192 k: m128n256k64_1x2_kk_claimed/1
        4096 1024 8192 n: m128n256k64_2x1_kn_static/1
        4096 28672 8192 k: m256n192k64_1x2_kk_streamk/1
        4096 28672 8192 n: m256n192k64_1x2_kn_streamk/1
        8192 57344 8192 k: m256n192k64_1x2_kk_streamk/1
        8192 57344 8192 n: m256n192k64_1x2_kn_streamk/1
    "#]]
    .assert_eq(&choices("bf16", &shapes));
}

#[test]
fn of_few_rows_and_of_small_products() {
    let shapes = [
        [1, 4096, 4096],
        [1, 8192, 28672],
        [8, 4096, 4096],
        [16, 8192, 8192],
        [64, 4096, 4096],
        [256, 4096, 4096],
        [128, 128, 8192],
        [512; 3],
        [1024; 3],
        [4096, 4096, 256],
        [1000, 1000, 1000],
        [1023, 1025, 8189],
    ];
    expect![[r#"
        1 4096 4096 k: m16n64k64_1x1_kk_static/1
        1 4096 4096 n: m16n64k64_1x1_kn_static/1
        1 8192 28672 k: m16n128k64_1x1_kk_generic/2
        1 8192 28672 n: m16n128k64_1x1_kn_generic/2
        8 4096 4096 k: m16n64k64_1x1_kk_static/1
        8 4096 4096 n: m16n64k64_1x1_kn_static/1
        16 8192 8192 k: m32n64k64_1x1_kk_static/1
        16 8192 8192 n: m32n64k64_1x1_kn_static/1
        64 4096 4096 k: m64n64k64_1x1_kk_static/1
        64 4096 4096 n: m64n64k64_1x4_kn_static/1
        256 4096 4096 k: m64n128k64_1x2_kk_claimed/1
        256 4096 4096 n: m64n128k64_1x1_kn_static/1
        128 128 8192 k: m64n32k64_2x1_kk_generic/11
        128 128 8192 n: m16n128k64_1x1_kn_generic/16
        512 512 512 k: m32n64k64_1x1_kk_static/1
        512 512 512 n: m32n64k64_1x1_kn_static/1
        1024 1024 1024 k: m96n128k64_2x1_kk_static/1
        1024 1024 1024 n: m64n128k64_1x1_kn_static/1
        4096 4096 256 k: m128n128k64_2x1_kk_static/1
        4096 4096 256 n: m128n128k64_2x1_kn_static/1
        1000 1000 1000 k: m96n128k64_2x1_kk_static/1
        1000 1000 1000 n: m128n64k64_1x4_kn_static/1
        1023 1025 8189 k: m128n160k64_2x1_kk_generic/2
        1023 1025 8189 n: m128n192k64_1x1_kn_generic/2
    "#]]
    .assert_eq(&choices("bf16", &shapes));
}

#[test]
fn of_other_types() {
    let shapes = [[16, 4096, 4096], [1024; 3], [4096; 3]];
    let all: String = ["f16", "tf32", "e4m3", "i8"].map(|kind| choices(kind, &shapes)).concat();
    expect![[r#"
        16 4096 4096 k: m16n64k64_1x1_kk_static/1
        16 4096 4096 n: m16n64k64_1x1_kn_static/1
        1024 1024 1024 k: m96n128k64_2x1_kk_static/1
        1024 1024 1024 n: m64n128k64_1x1_kn_static/1
        4096 4096 4096 k: m128n256k64_1x2_kk_claimed/1
        4096 4096 4096 n: m128n256k64_2x1_kn_static/1
        16 4096 4096 k: m16n128k32_1x1_kk_generic/4
        16 4096 4096 n: m16n64k16_1x1_kn_mma/4
        1024 1024 1024 k: m128n64k32_1x1_kk_generic/1
        1024 1024 1024 n: m128n64k32_1x1_kk_generic/1
        4096 4096 4096 k: m128n256k32_2x1_kk_generic/1
        4096 4096 4096 n: m128n256k32_2x1_kk_generic/1
        16 4096 4096 k: m16n128k128_1x1_kk_generic/4
        16 4096 4096 n: m16n128k128_1x1_kk_generic/4
        1024 1024 1024 k: m128n64k128_1x1_kk_generic/1
        1024 1024 1024 n: m128n64k128_1x1_kk_generic/1
        4096 4096 4096 k: m128n256k128_2x1_kk_claimed/1
        4096 4096 4096 n: m128n256k128_2x1_kk_generic/1
        16 4096 4096 k: m16n128k128_1x1_kk_generic/4
        16 4096 4096 n: m16n128k128_1x1_kk_generic/4
        1024 1024 1024 k: m128n64k128_1x1_kk_generic/1
        1024 1024 1024 n: m128n64k128_1x1_kk_generic/1
        4096 4096 4096 k: m128n256k128_2x1_kk_generic/1
        4096 4096 4096 n: m128n256k128_2x1_kk_generic/1
    "#]]
    .assert_eq(&all);
}

/// Kernels without options are not taken where there are some, whatever the thread has chosen before.
#[test]
fn kept_choices_know_of_options() {
    let name = |has_options| tuning::choice("bf16", [512; 3], true, has_options, MULTIPROCESSORS).unwrap().algorithm;
    assert!(name(false).ends_with("_static"));
    assert!(!name(true).ends_with("_static"));
    assert!(name(false).ends_with("_static"));
}

/// The cost model has times for each instance, and for nothing else.
#[test]
fn times_are_those_of_the_instances() {
    let kinds: [&[&str]; 4] = [&["f32", "tf32"], &["f16", "bf16"], &["e4m3", "e5m2"], &["i8"]];
    for kinds in kinds {
        let names: BTreeSet<&str> = kinds.iter().flat_map(|kind| algorithms(kind)).collect();
        let times = &tuning::shipped_for(kinds[0]).unwrap().tiles;
        for name in &names {
            let rows = times.iter().filter(|cost| cost.name == *name || tuning::is_without_majors(cost.name, name));
            assert_eq!(rows.count(), 1, "{name}");
        }
        for cost in times.iter() {
            let is_of = |name: &&str| cost.name == *name || tuning::is_without_majors(cost.name, name);
            assert!(names.iter().any(is_of), "{}", cost.name);
        }
    }
}
