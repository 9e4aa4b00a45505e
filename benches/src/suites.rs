//! Every suite by its name. A suite names its kernels' sizes and rivals; how a contest is held stands in `bench`.

mod ampere;
mod attention;
pub mod choice;
mod copy;
mod gemm;
mod grouped;
mod kind;
mod power;
mod rows;

use crate::bench::Bench;
use ptx_launch::Result;

/// Holds the contests of one kernel.
pub type Suite = fn(&mut Bench) -> Result<()>;

/// All of them, in the order of the table: those with many sizes last, lest they take the time of the others.
pub const SUITES: &[(&str, Suite)] = &[
    ("copy f32", copy::f32),
    ("gemm e4m3", gemm::e4m3),
    ("grouped gemm f32", grouped::f32),
    ("grouped gemm bf16", grouped::bf16),
    ("attention bf16", attention::bf16),
    ("attention e4m3", attention::e4m3),
    ("attention backward bf16", attention::backward_bf16),
    ("attention error", attention::accuracy),
    ("decode bf16", attention::decode_bf16),
    ("decode latent bf16", attention::decode_latent_bf16),
    ("attention host", attention::host),
    ("gemm bf16 sm_80", ampere::bf16),
    ("rms_norm f32", rows::rms_norm_f32),
    ("rms_norm bf16", rows::rms_norm_bf16),
    ("layer_norm f32", rows::layer_norm_f32),
    ("layer_norm bf16", rows::layer_norm_bf16),
    ("softmax f32", rows::softmax_f32),
    ("softmax bf16", rows::softmax_bf16),
    ("swiglu f32", rows::swiglu_f32),
    ("swiglu bf16", rows::swiglu_bf16),
    ("gemm bf16", gemm::bf16),
    ("gemm f16", gemm::f16),
    ("gemm tf32", gemm::tf32),
    ("gemm i8", gemm::i8),
    ("gemm majors", gemm::majors),
    ("gemm unaligned", gemm::unaligned),
    ("gemm edges", gemm::edges),
    ("gemm host", choice::host),
    ("gemm choice bf16", choice::bf16),
    ("gemm choice f16", choice::f16),
    ("gemm choice tf32", choice::tf32),
    ("gemm choice e4m3", choice::e4m3),
    ("gemm choice i8", choice::i8),
    ("power bf16", power::bf16),
];
