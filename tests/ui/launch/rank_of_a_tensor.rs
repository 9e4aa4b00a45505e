//! Functions of libraries say which tensor they take.

use ptx_launch::prelude::*;
use ptx_launch::{IntoTensor, IntoTensorMut};

fn read<'a>(_: impl IntoTensor<'a, f32, 2>) {}

fn write<'a>(_: impl IntoTensorMut<'a, f32, 2>) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let (x, mut y) = (device.zeros::<f32>(8)?, device.zeros::<u32>(8)?);
    read(x.tile([2, 2, 2])?);
    read(&x);
    write(y.tile_mut([2, 4])?);
    write(x.tile([2, 4])?);
    Ok(())
}
