//! A copy against the driver's: the ceiling of every kernel that is bound by memory, and the shortest suite to read.

use crate::bench::{Bench, Case, Work};
use crate::data;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::cell::RefCell;

/// Elements.
const SIZES: [usize; 3] = [1 << 24, 1 << 26, 1 << 28];

pub fn f32(bench: &mut Bench) -> Result<()> {
    for n in SIZES {
        let size = n.to_string();
        if bench.wants(&size) {
            one(bench, size, n)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, size: String, n: usize) -> Result<()> {
    let (device, stream, seed) = (bench.device.clone(), bench.stream.clone(), bench.seed());
    let from = data::normal::<f32>(&device, &stream, n, seed)?;
    let to = RefCell::new(device.zeros::<f32>(n)?);
    let mut case = Case {
        kernel: "copy f32",
        size,
        work: Work::Bytes(8.0 * n as f64),
        poison: Box::new(|stream| data::poison(stream, &mut to.borrow_mut())),
        check: Box::new(|stream| data::error(stream, &to.borrow(), &from)),
        limit: 0.0,
        contestants: Vec::new(),
    };
    case.ours("16 bytes a thread", |stream| data::copy::<f32>(stream, &from, &mut *to.borrow_mut(), n as u32));
    if !bench.options.alone {
        case.rival("driver", |stream| by_driver(stream, &from, &to.borrow()));
    }
    bench.contest(case)
}

#[allow(unsafe_code, reason = "a call of the driver")]
fn by_driver(stream: &Stream, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<()> {
    let Some(cuda) = stream.as_cuda() else { return Err(Error::other("the driver copies on a CUDA device")) };
    // SAFETY: both buffers are alive, and as long as this says.
    let copied = unsafe {
        let (to, from, bytes) = (to.address(), from.address(), 4 * from.len());
        cudarc::driver::result::memcpy_dtod_async(to, from, bytes, cuda.cu_stream())
    };
    copied.map_err(|error| Error::other(format!("the driver does not copy: {error:?}")))
}
