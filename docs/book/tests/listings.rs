//! Every listing of the book runs, on the CPU device where there is no GPU.
#![allow(unreachable_pub, missing_docs, clippy::unwrap_used, clippy::approx_constant, reason = "tests")]

// Declared one by one: `cargo fmt` sees no module that a macro declares.
#[path = "../listings/ampere_mma.rs"]
pub mod ampere_mma;
#[path = "../listings/ampere_pipeline.rs"]
pub mod ampere_pipeline;
#[path = "../listings/ampere_shared.rs"]
pub mod ampere_shared;
#[path = "../listings/block_sum.rs"]
pub mod block_sum;
#[path = "../listings/cuda.rs"]
pub mod cuda;
#[path = "../listings/first_kernel.rs"]
pub mod first_kernel;
#[path = "../listings/hopper_gemm.rs"]
pub mod hopper_gemm;
#[path = "../listings/hopper_tma.rs"]
pub mod hopper_tma;
#[path = "../listings/hopper_wgmma.rs"]
pub mod hopper_wgmma;
#[path = "../listings/host.rs"]
pub mod host;
#[path = "../listings/host_api.rs"]
pub mod host_api;
#[path = "../listings/porting.rs"]
pub mod porting;
#[path = "../listings/print_ptx.rs"]
pub mod print_ptx;
#[path = "../listings/shipping.rs"]
pub mod shipping;
#[path = "../listings/testing.rs"]
pub mod testing;
#[path = "../listings/transpiled.rs"]
pub mod transpiled;
#[path = "../listings/transpose.rs"]
pub mod transpose;
#[path = "../listings/triton.rs"]
pub mod triton;

/// A test for each listing, which runs its `main`.
macro_rules! runs {
    ($($name:ident)*) => {
        mod runs {
            $(#[test] fn $name() { super::$name::main().unwrap(); })*
        }
    };
}

runs! {
    first_kernel
    host_api
    print_ptx
    transpose
    block_sum
    ampere_mma
    ampere_shared
    ampere_pipeline
    hopper_tma
    hopper_wgmma
    hopper_gemm
    testing
    cuda
    triton
    porting
    shipping
    transpiled
}

/// The speed of each step at 4096³ on the GPU, as the tutorial's chapters print it.
#[test]
#[ignore = "needs a Hopper GPU"]
fn speed_of_each_step() {
    use ptx_launch::prelude::*;
    let device = Device::cuda(0).unwrap();
    let (stream, n) = (device.stream(), 4096);
    let data: Vec<bf16> = (0..n * n).map(|i| bf16::from_f32((i * 7919 % 1000) as f32 / 500.0 - 1.0)).collect();
    let (a, b) = (device.upload(&data).unwrap(), device.upload(&data).unwrap());
    let mut c = device.zeros::<f32>(n * n).unwrap();
    let steps: [(&str, host::Gemm); 5] = [
        ("ampere_mma", ampere_mma::launch),
        ("ampere_shared", ampere_shared::launch),
        ("ampere_pipeline", ampere_pipeline::launch),
        ("hopper_wgmma", hopper_wgmma::launch),
        ("hopper_gemm", hopper_gemm::launch),
    ];
    for (name, gemm) in steps {
        host::check(&device, [128, 128, 256], gemm).unwrap();
        let run = || gemm(&stream, &a, &b, &mut c, [n as u32; 3]);
        let time = Timer::new().measure(&stream, run).unwrap().median();
        println!("{name}: {:.0} TFLOP/s, {time:?}", 2e-12 * (n as f64).powi(3) / time.as_secs_f64());
    }
}

/// The module of the guide to transpiling is what the transpiler makes of the corpus' file; `UPDATE_EXPECT=1` renews it.
#[test]
fn the_transpiled_softmax_is_current() {
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(book.join("../../corpus/ptx/triton-3.9/softmax.sm_80.ptx")).unwrap();
    let (tree, _) = ptx_core::parse::parse_text(text);
    let made = ptx_transpile::sugar(&tree, "softmax", &[]).unwrap().text;
    let path = book.join("transpiled/softmax.rs");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == made, "UPDATE_EXPECT=1 renews transpiled/softmax.rs");
}

/// The pictures of the documents; `UPDATE_EXPECT=1` renews them.
#[test]
fn the_pictures_are_current() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, svg) in ptx_book::figures::all() {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(root.join(path), &svg).unwrap();
        }
        assert!(std::fs::read_to_string(root.join(path)).unwrap_or_default() == svg, "UPDATE_EXPECT=1 renews {path}");
    }
}

/// The code in the chapters is that of the listings; `UPDATE_EXPECT=1` renews it.
#[test]
fn the_chapters_show_their_listings() {
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in chapters(&book.join("text")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let renewed = ptx_book::listing::renew(&text, book).unwrap();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &renewed).unwrap();
        } else {
            assert!(text == renewed, "UPDATE_EXPECT=1 renews {}", path.display());
        }
    }
}

/// The files of the chapters in a folder and those below it.
fn chapters(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_chapter = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let found = paths.flat_map(|path| if path.is_dir() { chapters(&path) } else { vec![path] });
    found.filter(is_chapter).collect()
}

/// The listings compiled while the program runs: the PTX is that of the macros to the byte, and so are the results.
mod at_run_time {
    use super::{ampere_pipeline, ampere_shared, first_kernel, hopper_gemm};
    use half::bf16;
    use ptx_jit::{JitModule, Source};
    use ptx_launch::prelude::*;

    fn listing(name: &str) -> Source {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("listings");
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
        let launch =
            launch.read_tile(on_a.tile([m, k]).unwrap()).unwrap().read_tile(on_b.tile([n, k]).unwrap()).unwrap();
        launch.write_tile(c.tile_mut([m, n]).unwrap()).unwrap().run(&device).unwrap();
        let c = c.download().unwrap();
        for (row, column) in [(0, 0), (129, 135), (64, 7), (127, 128)] {
            let sum: f32 = (0..k).map(|i| a[row * k + i].to_f32() * b[column * k + i].to_f32()).sum();
            assert_eq!(c[row * n + column], sum, "{row}, {column}");
        }
    }
}
