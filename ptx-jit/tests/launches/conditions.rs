//! Condition functions by the macro, and of this file's text while the program runs: the same verdicts and the same messages.
#![allow(unsafe_code, clippy::indexing_slicing, reason = "the kernel accesses nothing")]

use ptx_jit::{JitModule, Source};
use ptx_launch::prelude::*;
use ptx_launch::{KernelParam, ptx_contract};

/// Numbers of every kind.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Shape {
    strides: [u64; 3],
    extents: [u32; 3],
    offset: i32,
}

const LEAST: u64 = 2;

#[ptx_contract]
impl Shape {
    const MOST: u32 = 8;

    fn volume(&self) -> u64 {
        self.strides[0] * self.strides[1] * self.strides[2]
    }

    fn is_even(n: u64) -> bool {
        n.is_multiple_of(2) || n.is_power_of_two()
    }

    fn covers(&self, lens: [u64; 2], by: u64) -> bool {
        let [first, .., last] = self.extents;
        let scale = if first > last { u64::from(first - last) } else { 1 };
        let held = lens.iter().zip(self.strides).all(|(len, stride)| *len >= stride * scale || stride >= 1 << 40);
        held && (0..3).any(|at| self.strides[at] % by < 1 || u64::from(self.extents[at]) >= LEAST)
    }

    fn fits(&self, other: &Shape, by: u64) -> bool {
        let (volume, other_volume) = (self.volume(), other.volume());
        (volume / by <= other_volume.max(other.strides[0]) && !Self::is_even(self.strides[1]))
            || other.covers([self.strides[2], by], by + 1)
            || -self.offset < other.offset - 3
    }

    fn grid(&self, block: u32) -> (u32, u32) {
        let blocks = self.extents[0].div_ceil(block).max(1);
        (blocks.min(Self::MOST), if self.offset < 0 { 1 } else { 2 })
    }
}

#[ptx_module(arch = "sm_80", params(Shape))]
pub(crate) mod kernels {
    use super::Shape;

    #[ptx_kernel(
        block = 32,
        grid = s.grid(32),
        unsafe(requires(s.covers([x.len(), y.len()], by), s.fits(&other, by), s.extents[0] + 1 > other.extents[1]))
    )]
    #[allow(unused_variables)]
    pub fn check(x: &[u8], y: &[u8], s: Shape, other: Shape, by: u64) {}
}

impl Shape {
    fn random(next: &mut impl FnMut(u64) -> u64) -> Shape {
        let mut wide = || {
            let bits = [3, 7, 40, 64][next(4) as usize];
            next(u64::MAX) >> (64 - bits)
        };
        let strides = [(); 3].map(|()| wide());
        let extents = [(); 3].map(|()| (next(u64::MAX) >> [61, 32][next(2) as usize]) as u32);
        Shape { strides, extents, offset: [i32::MIN, -3, 0, 5, i32::MAX][next(5) as usize] }
    }

    fn bytes(&self) -> Vec<u8> {
        let strides = self.strides.iter().flat_map(|n| n.to_le_bytes());
        let extents = self.extents.iter().flat_map(|n| n.to_le_bytes());
        strides.chain(extents).chain(self.offset.to_le_bytes()).collect()
    }
}

#[test]
fn conditions_are_the_same_from_text() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("conditions.rs", include_str!("conditions.rs")))?;
    let kernel = module.kernel("check")?;
    let memory = device.zeros::<u8>(1 << 12)?;
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state.rotate_left(31)) * u128::from(below)) >> 64) as u64
    };
    let mut counts = [0; 4];
    for _ in 0..if std::env::var_os("PTX_THOROUGH").is_some() { 200_000 } else { 2_000 } {
        let (s, other, by) = (Shape::random(&mut next), Shape::random(&mut next), next(4));
        let [x, y] = [next(1 << 12), next(40)].map(|len| memory.slice(..len as usize));
        let (x, y) = (x?, y?);
        let macros = kernels::check(&device, &x, &y, s, other, by).map_err(|error| error.to_string());
        let text =
            kernel.launch().read(&x)?.read(&y)?.bytes(&s.bytes())?.bytes(&other.bytes())?.value(by)?.run(&device);
        let text = text.map_err(|error| error.to_string());
        assert_eq!(macros, text, "{s:?} {other:?} {by}");
        let kind = match &macros {
            Ok(()) => 0,
            Err(message) if message.contains("divides by zero or overflows") => 1,
            Err(message) if message.contains("fits") => 2,
            Err(_) => 3,
        };
        counts[kind] += 1;
    }
    assert!(
        counts.iter().all(|count| *count > 20),
        "accepted, without a result, refused by `fits`, by others: {counts:?}"
    );
    Ok(())
}
