//! The kernels that `Gemm` chooses on an H100 or H200. A change of the times in `gemm::tuning` changes these lists.

use expect_test::expect;
use ptx_kernels::gemm::{Choice, tuning};

/// SMs of both.
const MULTIPROCESSORS: u32 = 132;

/// `2048 2048 2048 k: hopper/1`: M, N, K, the dimension along which B is dense, the algorithm, and the parts of K.
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
        2048 2048 2048 k: tile_bf16_t128x128_2x1_kk/1
        2048 2048 2048 n: tile_bf16_m128x256_2x1_kn/1
        4096 4096 4096 k: hopper/1
        4096 4096 4096 n: hopper/1
        8192 8192 8192 k: hopper/1
        8192 8192 8192 n: hopper/1
        1024 1024 4096 k: hopper/1
        1024 1024 4096 n: tile_bf16_m64x128_1x1_kn/1
        1024 1024 8192 k: hopper/1
        1024 1024 8192 n: tile_bf16_m64x128_1x1_kn/1
        1024 8192 8192 k: hopper/1
        1024 8192 8192 n: hopper/1
        1024 28672 8192 k: hopper/1
        1024 28672 8192 n: hopper/1
        1024 8192 28672 k: hopper/1
        1024 8192 28672 n: hopper/1
        4096 1024 8192 k: hopper/1
        4096 1024 8192 n: tile_bf16_m128x256_2x1_kn/1
        4096 28672 8192 k: hopper/1
        4096 28672 8192 n: hopper/1
        8192 57344 8192 k: hopper/1
        8192 57344 8192 n: hopper/1
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
        1 4096 4096 k: tile_bf16_t16x64_1x1_kk/1
        1 4096 4096 n: tile_bf16_t16x64_1x1_kn/1
        1 8192 28672 k: wgmma_bf16_few16_kk/2
        1 8192 28672 n: wgmma_bf16_few16_kn/2
        8 4096 4096 k: tile_bf16_t16x64_1x1_kk/1
        8 4096 4096 n: tile_bf16_t16x64_1x1_kn/1
        16 8192 8192 k: tile_bf16_t32x64_1x1_kk/1
        16 8192 8192 n: tile_bf16_t32x64_1x1_kn/1
        64 4096 4096 k: tile_bf16_t64x64_1x1_kk/1
        64 4096 4096 n: tile_bf16_t64x64_1x4_kn/1
        256 4096 4096 k: hopper/1
        256 4096 4096 n: tile_bf16_m64x128_1x1_kn/1
        128 128 8192 k: wgmma_bf16_tiny_kk/13
        128 128 8192 n: wgmma_bf16_few16_kn/16
        512 512 512 k: tile_bf16_t32x64_1x1_kk/1
        512 512 512 n: tile_bf16_t32x64_1x1_kn/1
        1024 1024 1024 k: tile_bf16_t64x128_1x1_kk/1
        1024 1024 1024 n: tile_bf16_m64x128_1x1_kn/1
        4096 4096 256 k: tile_bf16_t128x128_2x1_kk/1
        4096 4096 256 n: tile_bf16_t128x128_2x1_kn/1
        1000 1000 1000 k: tile_bf16_t64x128_1x1_kk/1
        1000 1000 1000 n: tile_bf16_t128x64_1x4_kn/1
        1023 1025 8189 k: wgmma_bf16_few128_kk/1
        1023 1025 8189 n: wgmma_bf16_few96_kn/1
    "#]]
    .assert_eq(&choices("bf16", &shapes));
}

#[test]
fn of_other_types() {
    let shapes = [[16, 4096, 4096], [1024; 3], [4096; 3]];
    let all: String = ["f16", "tf32", "e4m3", "i8"].map(|kind| choices(kind, &shapes)).concat();
    expect![[r#"
        16 4096 4096 k: tile_f16_t16x64_1x1_kk/1
        16 4096 4096 n: tile_f16_t16x64_1x1_kn/1
        1024 1024 1024 k: tile_f16_t64x128_1x1_kk/1
        1024 1024 1024 n: tile_f16_m64x128_1x1_kn/1
        4096 4096 4096 k: hopper/1
        4096 4096 4096 n: hopper/1
        16 4096 4096 k: wgmma_tf32_few16/4
        16 4096 4096 n: mma_tf32_narrow_kn/4
        1024 1024 1024 k: wgmma_tf32_few64/1
        1024 1024 1024 n: wgmma_tf32_few64/1
        4096 4096 4096 k: wgmma_tf32_wide/1
        4096 4096 4096 n: wgmma_tf32_wide/1
        16 4096 4096 k: wgmma_e4m3_few16/1
        16 4096 4096 n: wgmma_e4m3_few16/1
        1024 1024 1024 k: wgmma_e4m3_few64/1
        1024 1024 1024 n: wgmma_e4m3_few64/1
        4096 4096 4096 k: hopper/1
        4096 4096 4096 n: wgmma_e4m3_wide/1
        16 4096 4096 k: wgmma_i8_few16/1
        16 4096 4096 n: wgmma_i8_few16/1
        1024 1024 1024 k: wgmma_i8_few64/1
        1024 1024 1024 n: wgmma_i8_few64/1
        4096 4096 4096 k: wgmma_i8_wide/1
        4096 4096 4096 n: wgmma_i8_wide/1
    "#]]
    .assert_eq(&all);
}

/// Kernels without options are not taken where there are some, whatever the thread has chosen before.
#[test]
fn kept_choices_know_of_options() {
    let name = |has_options| tuning::choice("bf16", [512; 3], true, has_options, MULTIPROCESSORS).unwrap().algorithm;
    assert!(name(false).starts_with("tile"));
    assert!(!name(true).starts_with("tile"));
    assert!(name(false).starts_with("tile"));
}
