//! A choice that a thread keeps is the one that a new thread makes: products that differ in one thing, in random order.

use crate::random::Random;
use ptx_kernels::gemm::{Choice, tuning};

/// All that a choice may depend on.
#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: &'static str,
    shape: [u32; 3],
    b_k_major: bool,
    batches: usize,
    /// For A, B and C the bytes that are added to the address, to the stride of batches and to that of lines.
    padding: [[u64; 3]; 3],
    deterministic: bool,
}

const FIRST: Asked =
    Asked { kind: "bf16", shape: [512; 3], b_k_major: true, batches: 4, padding: [[0; 3]; 3], deterministic: false };

fn choose(asked: Asked) -> Option<Choice> {
    let Asked { kind, shape, b_k_major, batches, padding, deterministic } = asked;
    tuning::choice_of_batches((kind, shape, b_k_major), batches, padding, deterministic)
}

/// The product with another value of one of its parts.
fn changed(mut asked: Asked, random: &mut Random) -> Asked {
    match random.below(8) {
        0 => asked.shape[random.below(3)] = random.of(&[1, 8, 64, 128, 512, 520, 1000]),
        1 => asked.batches = random.of(&[1, 2, 4]),
        2 => asked.b_k_major ^= true,
        3 => asked.deterministic ^= true,
        4 => asked.kind = random.of(&["bf16", "f16", "e4m3", "i8", "tf32"]),
        _ => asked.padding[random.below(3)][random.below(3)] = random.of(&[0, 2, 4, 8, 16, 32]),
    }
    asked
}

#[test]
fn kept_choices_are_those_of_a_new_thread() {
    let (mut random, mut asked, mut kinds) = (Random::new(41), FIRST, std::collections::BTreeSet::new());
    for turn in 0..3000 {
        asked = if turn % 25 == 0 { FIRST } else { changed(asked, &mut random) };
        let kept = choose(asked);
        let fresh = std::thread::scope(|scope| scope.spawn(|| choose(asked)).join().unwrap());
        assert_eq!(kept, fresh, "turn {turn}: {asked:?}");
        kinds.extend(kept.map(|choice| choice.algorithm));
    }
    assert!(kinds.len() > 20, "the products differ too little: {kinds:?}");
}
