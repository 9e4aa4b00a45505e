//! The hand-written expansion, used on the CPU device: what a typed launch promises on every device.
#![allow(clippy::unwrap_used, unsafe_code, reason = "tests")]

mod expansion;

use expansion::{Shape, saxpy, tiles};
use ptx_launch::prelude::*;

#[test]
fn conditions_are_checked_on_the_host() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    let error = saxpy(&device.stream(), 3.0, &x, &mut y, 11).unwrap_err();
    assert_eq!(error.kind(), ptx_launch::ErrorKind::Condition);
    let text = error.to_string();
    assert!(text.contains("`saxpy` is launched with x.len() = 10, y.len() = 10, n = 11"), "{text}");
    assert!(text.contains("its condition must hold: x.len() >= n"), "{text}");
}

#[test]
fn an_empty_grid_runs_nothing_and_views_can_be_passed() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    saxpy(&device, 3.0, &x.slice(2..4).unwrap(), &mut y.slice_mut(..2).unwrap(), 0).unwrap();
    assert_eq!(y.download().unwrap(), [0.0; 10]);
}

#[test]
fn the_attribute_and_the_call_must_agree() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    let config = Config::grid(2).block(32).cluster(4);
    // SAFETY: it does not get as far as a launch.
    let error = unsafe { tiles::<3>(&device, config, &TensorMap::from_raw([0; 16]), Shape { m: 1, n: 1 }, &mut out) }
        .unwrap_err();
    assert!(error.to_string().contains("the kernel's attribute sets it to 2×1×1"), "{error}");
}

#[test]
fn buffers_stay_with_their_device() {
    let (device, other) = (Device::cpu(), Device::cpu());
    let (x, mut y) = (device.upload(&[1.0f32; 4]).unwrap(), other.zeros::<f32>(4).unwrap());
    let error = saxpy(&device, 3.0, &x, &mut y, 4).unwrap_err();
    assert_eq!(error.kind(), ptx_launch::ErrorKind::WrongDevice);
}
