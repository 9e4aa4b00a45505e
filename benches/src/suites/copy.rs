//! A copy against the driver's: the ceiling of every kernel that is bound by memory, and the shortest suite to read.

use crate::bench::{Bench, Case, Work};
use crate::data;
use ptx_launch::Result;
use std::cell::RefCell;

/// Elements.
const SIZES: &[usize] = &[1 << 23, 1 << 24, 1 << 26, 1 << 28];
/// For a rehearsal.
const SMALL: &[usize] = &[1 << 14];
/// The kernel's name.
const KERNEL: &str = "copy f32";

pub fn f32(bench: &mut Bench) -> Result<()> {
    for n in bench.sizes(SIZES, SMALL).iter().copied() {
        let size = n.to_string();
        if bench.wants(KERNEL, &size) {
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
        kernel: KERNEL,
        size,
        work: Work::Bytes(8.0 * n as f64),
        poison: Box::new(|stream| data::poison(stream, &mut to.borrow_mut())),
        check: Box::new(|stream| data::error(stream, &to.borrow(), &from)),
        limit: 0.0,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    case.ours("16 bytes a thread", |stream| data::copy::<f32>(stream, &from, &mut *to.borrow_mut(), n as u32));
    if !bench.options.alone {
        case.rival("driver", |stream| stream.copy(&from, &mut *to.borrow_mut()));
    }
    bench.contest(case)
}
