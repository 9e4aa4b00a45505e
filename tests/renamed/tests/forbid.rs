//! A crate that forbids `unsafe` launches kernels whose authors vouch for them.
#![forbid(unsafe_code)]

use gpu::prelude::*;
use ptx_renamed::found::{Line, line};

#[test]
fn a_vouched_launch_is_safe() -> gpu::Result<()> {
    let device = Device::cpu();
    let mut y = device.zeros::<f32>(40)?;
    line(&device, Line { a: 2.0, b: 1.0 }, &mut y, 40)?;
    assert_eq!(y.download()?[39], 79.0);
    let unmet = line(&device, Line { a: 2.0, b: 1.0 }, &mut y, 41);
    assert!(unmet.is_err_and(|error| error.to_string().contains("y.len() >= n")));
    Ok(())
}
