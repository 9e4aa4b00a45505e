//! What the examples for `sm_100a` share: the device that can run them.

use ptx_launch::prelude::*;

/// What stands where a figure would be: no machine of this project has the chip.
pub const NO_FIGURE: &str = "no chip, no figure";

/// The device if it can run `sm_100a`, else the CPU device, which can.
pub fn device(device: &Device) -> Device {
    let fits = match device.as_cuda() {
        None => true,
        Some(context) => context.compute_capability().is_ok_and(|(major, minor)| (major, minor) == (10, 0)),
    };
    if fits { device.clone() } else { Device::cpu() }
}
