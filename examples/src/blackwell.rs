//! Shared parts of the examples for `sm_100a`: the device that can run them, and the line of their report.

use crate::Report;
use ptx_launch::prelude::*;
use std::time::Duration;

/// The text in place of a figure where the CPU device runs an example.
pub const NO_FIGURE: &str = "no chip, no figure";

/// The device if it can run `sm_100a`, else the CPU device, which can.
pub fn device(device: &Device) -> Device {
    crate::chip_or_cpu(device, (10, 0))
}

/// The line of an example of several checks: the worst error, and the first one's time.
pub fn report(name: &'static str, device: &Device, size: &str, found: &[(f64, Duration)]) -> Report {
    Report {
        name,
        device: device.name().to_owned(),
        size: size.to_owned(),
        error: found.iter().map(|(error, _)| *error).fold(0.0, f64::max),
        limit: 1.0,
        time: found.first().map_or(Duration::ZERO, |(_, time)| *time),
        figure: NO_FIGURE.to_owned(),
    }
}
