//! Random cases, as many as the environment variable gives.

use super::{check, check_append, check_decode, check_forward, check_latent, check_prefill, device};
use crate::case::{Case, Random};
use crate::{decode, e4m3};
use ptx_kernels::attention::Layout;

/// Seeds of random cases: `PTX_ATTENTION_CASES` of them, from `PTX_ATTENTION_SEED` on.
fn seeds() -> std::ops::Range<u64> {
    let count: u64 = std::env::var("PTX_ATTENTION_CASES").map_or(0, |count| count.parse().unwrap());
    let first: u64 = std::env::var("PTX_ATTENTION_SEED").map_or(1, |seed| seed.parse().unwrap());
    first..first + count
}

/// The longest sequence of a random case: `PTX_ATTENTION_LONGEST`, else `gpu` tokens on a GPU and `cpu` on the CPU.
fn longest(gpu: usize, cpu: usize) -> usize {
    let given = std::env::var("PTX_ATTENTION_LONGEST").map(|longest| longest.parse().unwrap());
    given.unwrap_or(if device().is_cuda() { gpu } else { cpu })
}

/// Random cases, on the GPU larger ones.
#[test]
fn random_cases() {
    for seed in seeds() {
        check(&random_case(seed, longest(400, 90)));
    }
}

/// The same for the forward pass, which Hopper has a kernel of its own for.
#[test]
fn random_forward_cases() {
    for seed in seeds() {
        check_forward(&random_case(seed, longest(400, 90)));
    }
}

/// The same for caches.
#[test]
fn random_caches() {
    for seed in seeds() {
        check_append(seed);
        check_prefill(&decode::random_prefill(seed, longest(500, 90)));
        check_latent(&decode::random_latent(seed, longest(1000, 100)));
        check_decode(&decode::random_decode(seed, longest(3000, 400)));
    }
}

/// The same with elements of 8 bits.
#[test]
fn random_bytes() {
    for seed in seeds() {
        e4m3::check(&e4m3::random_case(seed, longest(500, 90)));
    }
}

pub fn random_case(seed: u64, longest: usize) -> Case {
    let r = &mut Random(seed);
    let group = [1, 2, 4][r.below(3)];
    let batch = 1 + r.below(3);
    let packed = r.chance(40);
    let length = |r: &mut Random| if r.chance(10) { r.below(4) } else { 1 + r.below(longest) };
    let (m, n) = (length(r).max(1), length(r).max(1));
    let lengths = |r: &mut Random, fixed: usize| -> Vec<usize> {
        (0..batch).map(|_| if packed { length(r) } else { fixed }).collect()
    };
    let (mut queries, mut keys) = (lengths(r, m), lengths(r, n));
    // Tensors of no tokens at all have no memory.
    queries[0] = queries[0].max(1);
    keys[0] = keys[0].max(1);
    // Half of the rows fill the tiles of the kernels.
    let dim = if r.chance(50) { [64, 96, 128, 192, 256][r.below(5)] } else { 8 * (1 + r.below(32)) };
    let dim_v = if r.chance(60) { dim } else { 8 * (1 + r.below(32)) };
    let window = |r: &mut Random| r.chance(50).then(|| r.below(longest) as u32);
    let (left, right) = (window(r), if r.chance(50) { Some(0) } else { window(r) });
    Case {
        queries,
        keys,
        packed,
        heads: group * (1 + r.below(2)),
        group,
        dim,
        dim_v,
        left,
        right,
        top_left: r.chance(20),
        scale: r.chance(30).then_some(0.25),
        cap: if r.chance(30) { 4.0 } else { 0.0 },
        bias: if r.chance(25) { 1 + r.below(2) as u32 } else { 0 },
        layout: if r.chance(50) { Layout::Bshd } else { Layout::Bhsd },
        half: r.chance(50),
        narrow: false,
        seed,
        portable: r.chance(30),
        deterministic: r.chance(30),
    }
}
