//! The tests of `#[ptx_test]`: on the CPU device under several seeds, and on a GPU where that is asked for. Without the feature
//! `cpu` they run on a GPU only.

#[cfg(feature = "cpu")]
mod assembled;

use crate::device::Device;
#[cfg(feature = "cpu")]
pub use assembled::each_seed_assembled;
use std::fmt::Debug;

/// A result that a test can return.
pub trait Verdict {
    /// Returns true if the test failed.
    fn failed(&self) -> bool;
}

impl Verdict for () {
    fn failed(&self) -> bool {
        false
    }
}

impl<E: Debug> Verdict for Result<(), E> {
    fn failed(&self) -> bool {
        self.is_err()
    }
}

/// Says where a test panicked.
struct Place(String);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was {}", self.0);
        }
    }
}

/// Runs a test on one device, and names it when it fails.
fn on<V: Verdict>(device: &Device, place: String, run: fn(&Device) -> V) -> V {
    let place = Place(place);
    let verdict = run(device);
    if verdict.failed() {
        eprintln!("this was {}", place.0);
    }
    verdict
}

#[cfg(feature = "cpu")]
pub use with_cpu::each_seed;

#[cfg(feature = "cpu")]
mod with_cpu {
    use super::{Verdict, on};
    use crate::device::Device;

    /// The environment variable that chooses the device.
    const CHOICE: &str = "PTX_DEVICE";
    /// Those that choose the seeds: one alone, or how many.
    const ONE_SEED: &str = "PTX_SEED";
    const MANY_SEEDS: &str = "PTX_SEEDS";

    /// The seeds to try: those of the test, as many as `PTX_SEEDS`, or only the one of `PTX_SEED`.
    #[allow(clippy::expect_used, reason = "a variable that means nothing fails the test that it should change")]
    fn seeds(asked: u64) -> std::ops::Range<u64> {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().expect("PTX_SEED and PTX_SEEDS are numbers"))
        };
        match (number(ONE_SEED), number(MANY_SEEDS)) {
            (Some(seed), _) => seed..seed.saturating_add(1),
            (None, many) => 0..many.unwrap_or(asked),
        }
    }

    /// Runs a test on a fresh CPU device for each seed, 0 first, until it fails; then, if `PTX_DEVICE` names a CUDA device,
    /// there.
    #[allow(clippy::expect_used, reason = "a test that was asked to run on a GPU fails without one")]
    pub fn each_seed<V: Verdict>(asked: u64, run: fn(&Device) -> V) -> V {
        let mut seeds = seeds(asked);
        let first = seeds.next().unwrap_or(0);
        let with = |seed: u64| {
            let place =
                format!("on the CPU device with seed {seed}; with {ONE_SEED}={seed} the test runs with that one alone");
            on(&Device::cpu().seed(seed), place, run)
        };
        let mut verdict = with(first);
        for seed in seeds {
            if verdict.failed() {
                return verdict;
            }
            verdict = with(seed);
        }
        match std::env::var(CHOICE) {
            Ok(choice) if choice.starts_with("cuda") && !verdict.failed() => {
                let device = Device::named(&choice).expect("PTX_DEVICE asks for a CUDA device");
                on(&device, format!("on {device}"), run)
            }
            _ => verdict,
        }
    }
}

/// Runs a test once, on the GPU: seeds are interleavings of the CPU device, which this build lacks.
#[cfg(not(feature = "cpu"))]
#[allow(clippy::expect_used, reason = "a test without a device fails")]
pub fn each_seed<V: Verdict>(_: u64, run: fn(&Device) -> V) -> V {
    let device = Device::best().expect("without the feature `cpu` of ptx-launch, `#[ptx_test]` needs a GPU");
    on(&device, format!("on {device}"), run)
}

/// Runs a test once, on the GPU: the kernels that it launches are counted on the CPU device.
#[cfg(not(feature = "cpu"))]
pub fn each_seed_assembled<V: Verdict>(asked: u64, run: fn(&Device) -> V, _: &str) -> V {
    each_seed(asked, run)
}
