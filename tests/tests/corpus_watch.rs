//! Compilers' output for sound kernels runs under the watcher without a finding, with its intended arguments.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use ptx_core::check::check;
use ptx_core::parse;
use ptx_interp::{Launch, Machine, Options, Program};
use std::path::Path;

/// Number of interleavings per kernel.
const SEEDS: u64 = 6;

/// An argument: a buffer of so many zeros, or a scalar.
enum Arg {
    Zeros(usize),
    U32(u32),
    F32(f32),
    Null,
}
use Arg::{F32, Null, U32, Zeros};

/// A file of `corpus/ptx`, an entry of it, blocks, threads, bytes of dynamic shared memory.
struct Run {
    file: &'static str,
    entry: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: &'static [Arg],
}

const fn run(
    (file, entry): (&'static str, &'static str),
    (grid, block): ([u32; 2], [u32; 2]),
    shared: u32,
    args: &'static [Arg],
) -> Run {
    Run { file, entry, grid: [grid[0], grid[1], 1], block: [block[0], block[1], 1], shared, args }
}

const MATMUL: &[Arg] = &[Zeros(32_768), Zeros(262_144), Zeros(262_144), U32(128), Null, Null];
const SOFTMAX: &[Arg] = &[Zeros(16_384), Zeros(16_384), U32(1024), U32(1000), Null, Null];
const TRANSPOSE: &[Arg] = &[Zeros(65_536), Zeros(65_536), U32(60), U32(50)];

#[rustfmt::skip]
const RUNS: &[Run] = &[
    run(("triton-3.9/matmul.sm_75.ptx", "matmul"), ([2, 2], [128, 1]), 65_536, MATMUL),
    run(("triton-3.9/matmul.sm_80.ptx", "matmul"), ([2, 2], [128, 1]), 65_536, MATMUL),
    run(("triton-3.9/matmul.sm_90.ptx", "matmul"), ([2, 2], [128, 1]), 65_536, MATMUL),
    run(("triton-3.9/matmul.sm_100.ptx", "matmul"), ([2, 2], [128, 1]), 65_536, MATMUL),
    run(("triton-3.9/softmax.sm_80.ptx", "softmax"), ([4, 1], [128, 1]), 8192, SOFTMAX),
    run(("triton-3.9/softmax.sm_100.ptx", "softmax"), ([4, 1], [128, 1]), 8192, SOFTMAX),
    run(("triton-3.9/dropout.sm_90.ptx", "dropout"), ([2, 1], [128, 1]), 0, &[Zeros(4096), Zeros(4096), U32(700), U32(5), Null, Null]),
    run(("nvcc-13.5/saxpy.sm_75.ptx", "saxpy"), ([4, 1], [256, 1]), 0, &[U32(1000), F32(2.0), Zeros(4096), Zeros(4096)]),
    run(("nvcc-13.5/saxpy.sm_75.ptx", "saxpy4"), ([1, 1], [256, 1]), 0, &[U32(1000), F32(2.0), Zeros(4096), Zeros(4096)]),
    run(("nvcc-13.5/reduce.sm_80.ptx", "sum_f32"), ([3, 1], [128, 1]), 0, &[Zeros(4096), Zeros(4), U32(1000)]),
    run(("nvcc-13.5/reduce.sm_80.ptx", "sum_f64"), ([3, 1], [96, 1]), 0, &[Zeros(8192), Zeros(8), U32(1000)]),
    run(("nvcc-13.5/reduce.sm_80.ptx", "votes"), ([1, 1], [32, 1]), 0, &[Zeros(4096), Zeros(4096)]),
    run(("nvcc-13.5/wmma_gemm.sm_80.ptx", "wmma_gemm"), ([2, 2], [32, 1]), 0, &[Zeros(65_536), Zeros(65_536), Zeros(65_536), U32(64), U32(64), U32(64)]),
    run(("nvcc-13.5/mma_async.sm_80.ptx", "mma_async"), ([1, 1], [32, 1]), 0, &[Zeros(65_536), Zeros(65_536), Zeros(65_536), U32(64), U32(64)]),
    run(("nvcc-13.5/transpose.sm_86.ptx", "_Z9transposeIfLi32ELi8EEvPT_PKS0_ii"), ([2, 2], [32, 8]), 0, TRANSPOSE),
    run(("nvcc-13.5/transpose.sm_86.ptx", "_Z9transposeIhLi32ELi8EEvPT_PKS0_ii"), ([2, 2], [32, 8]), 0, TRANSPOSE),
    run(("nvcc-13.5/control.sm_75.ptx", "collatz"), ([1, 1], [64, 1]), 0, &[Zeros(4096), Zeros(4096)]),
];

#[test]
fn what_compilers_made_of_sound_kernels_has_no_finding() {
    for run in RUNS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/ptx").join(run.file);
        let text = std::fs::read(&path).unwrap();
        let (tree, earlier) = parse::parse_text(&text[..]);
        let (checked, errors) = check(tree, earlier, &Default::default());
        let program = Program::new(&checked.unwrap_or_else(|| panic!("{}: {errors:?}", run.file))).unwrap();
        for seed in 0..SEEDS {
            launch(run, &program, seed);
        }
    }
}

fn launch(run: &Run, program: &Program, seed: u64) {
    let mut machine = Machine::new();
    let mut params: Vec<u8> = Vec::new();
    for arg in run.args {
        let bytes = match arg {
            Zeros(len) => {
                let address = machine.alloc(*len as u64).unwrap();
                machine.write(address, &vec![0; *len]).unwrap();
                address.to_le_bytes().to_vec()
            }
            U32(value) => value.to_le_bytes().to_vec(),
            F32(value) => value.to_le_bytes().to_vec(),
            Null => vec![0; 8],
        };
        params.resize(params.len().next_multiple_of(bytes.len()), 0);
        params.extend(bytes);
    }
    let launch = Launch {
        entry: run.entry,
        grid: run.grid,
        block: run.block,
        cluster: [1, 1, 1],
        dynamic_shared: run.shared,
        cooperative: false,
        params: &params,
        options: Options { seed, ..Options::default() },
    };
    if let Err(fault) = machine.launch(program, &launch) {
        panic!("{} {}: {fault}", run.file, run.entry);
    }
}
