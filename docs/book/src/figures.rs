//! The pictures of the documents as SVG, each computed from the rules of what it shows. Pictures of layouts are drawn by `ptx-interp`.

mod attention;
mod chart;
mod ring;
mod schedulers;
mod spaces;

use ring::Ring;

/// Every picture, with its path in the repository.
#[must_use]
pub fn all() -> Vec<(&'static str, String)> {
    // The chapter's durations: a copy takes about 1 µs to arrive, and a stage of 128 × 128 × 64 about 0.3 µs to multiply.
    let ring = |stages| Ring { stages, copy: 10, multiply: 3 };
    vec![
        ("docs/book/figures/ring_1.svg", ring(1).svg(6)),
        ("docs/book/figures/ring_4.svg", ring(4).svg(20)),
        ("ptx-kernels/docs/figures/attention_forward.svg", attention::forward()),
        ("ptx-kernels/docs/figures/attention_backward.svg", attention::backward()),
        ("ptx-kernels/docs/figures/gemm_schedulers.svg", schedulers::over_time()),
        ("ptx-kernels/docs/figures/gemm_order.svg", schedulers::order()),
        ("ptx-launch/docs/figures/memory_spaces.svg", spaces::svg()),
    ]
}
