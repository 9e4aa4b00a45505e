//! The listings of the book, compiled by the macros and while the program runs: the PTX is the same to the byte, and so are the results.
#![allow(unreachable_pub, missing_docs, clippy::unwrap_used, reason = "tests")]

use half::bf16;
use ptx_jit::{JitModule, Source};
use ptx_launch::prelude::*;

#[path = "../../docs/book/listings/ampere_pipeline.rs"]
pub mod ampere_pipeline;
#[path = "../../docs/book/listings/ampere_shared.rs"]
pub mod ampere_shared;
#[path = "../../docs/book/listings/block_sum.rs"]
pub mod block_sum;
#[path = "../../docs/book/listings/first_kernel.rs"]
pub mod first_kernel;
#[path = "../../docs/book/listings/hopper_gemm.rs"]
pub mod hopper_gemm;
#[path = "../../docs/book/listings/hopper_tma.rs"]
pub mod hopper_tma;
#[path = "../../docs/book/listings/host.rs"]
pub mod host;

fn listing(name: &str) -> Source {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/listings");
    Source::file(folder.join(format!("{name}.rs"))).unwrap()
}

#[test]
fn the_ptx_is_that_of_the_macros() {
    let cases = [
        ("first_kernel", "saxpy", first_kernel::saxpy::PTX),
        ("hopper_gemm", "gemm", hopper_gemm::kernels::PTX),
        ("ampere_pipeline", "gemm", ampere_pipeline::kernels::PTX),
        ("ampere_shared", "gemm", ampere_shared::kernels::PTX),
    ];
    for (file, kernel, ptx) in cases {
        let program = listing(file).compile().unwrap();
        assert!(program.ptx(kernel) == Some(ptx), "{file}: {:?}", program.ptx(kernel));
    }
}

#[test]
fn a_gemm_with_tensor_maps_multiplies() {
    let device = Device::cpu();
    let [m, n, k] = [130, 136, 96];
    let number = |i: usize| bf16::from_f32((i * 7 % 11) as f32 - 5.0);
    let (a, b): (Vec<bf16>, Vec<bf16>) =
        ((0..m * k).map(number).collect(), (0..n * k).map(|i| number(i + 3)).collect());
    let module = JitModule::load(&device, &listing("hopper_gemm")).unwrap();
    let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.zeros::<f32>(m * n).unwrap();
    let launch = module.kernel("gemm").unwrap().launch();
    let launch = launch.read_tile(on_a.tile([m, k]).unwrap()).unwrap().read_tile(on_b.tile([n, k]).unwrap()).unwrap();
    launch.write_tile(c.tile_mut([m, n]).unwrap()).unwrap().run(&device).unwrap();
    let c = c.download().unwrap();
    for (row, column) in [(0, 0), (129, 135), (64, 7), (127, 128)] {
        let sum: f32 = (0..k).map(|i| a[row * k + i].to_f32() * b[column * k + i].to_f32()).sum();
        assert_eq!(c[row * n + column], sum, "{row}, {column}");
    }
}
