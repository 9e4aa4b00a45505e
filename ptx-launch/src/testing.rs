//! What `#[ptx_test]` runs: a test on the CPU device under several seeds, and on a GPU where that is asked for.

use crate::device::Device;
use std::fmt::Debug;

/// The environment variable that chooses the device.
const CHOICE: &str = "PTX_DEVICE";

/// What a test can return.
pub trait Verdict {
    /// Whether the test failed.
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

/// Runs a test on a fresh CPU device for each seed, 0 first, until it fails; then, if `PTX_DEVICE` names a CUDA device,
/// there.
#[allow(clippy::expect_used, reason = "a test that was asked to run on a GPU fails without one")]
pub fn each_seed<V: Verdict>(seeds: u64, run: fn(&Device) -> V) -> V {
    let on = |device: &Device, place: String| {
        let place = Place(place);
        let verdict = run(device);
        if verdict.failed() {
            eprintln!("this was {}", place.0);
        }
        verdict
    };
    let mut verdict = on(&Device::cpu(), "on the CPU device with seed 0".to_owned());
    for seed in 1..seeds {
        if verdict.failed() {
            return verdict;
        }
        verdict = on(&Device::cpu().seed(seed), format!("on the CPU device with seed {seed}"));
    }
    match std::env::var(CHOICE) {
        Ok(choice) if choice.starts_with("cuda") && !verdict.failed() => {
            let device = Device::named(&choice).expect("PTX_DEVICE asks for a CUDA device");
            on(&device, format!("on {device}"))
        }
        _ => verdict,
    }
}
