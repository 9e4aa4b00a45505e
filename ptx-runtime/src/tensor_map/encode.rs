//! The driver's encoder. It runs on the host and needs a driver. The context of the stream, if there is one, is made current first.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::{Mode, Swizzle, TensorMap, TensorMapBuilder};
use crate::context::bound;
use crate::driver::{Code, Driver};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::c_void;

/// The most dimensions that a map has.
const RANK: usize = 5;

/// Arguments for the driver, innermost dimension first.
struct Lists {
    shape: [u64; RANK],
    /// In bytes, from the second dimension on.
    strides: [u64; RANK],
    steps: [u32; RANK],
}

/// Calls an encoder of the driver. They differ in the arguments behind the strides, which describe a tile, and in those behind the interleaving.
macro_rules! call {
    ($encode:ident, $builder:ident, $map:ident, $lists:ident, [$($tile:expr),*], [$($mode:expr),*]) => {
        // SAFETY: the map is 128 bytes, aligned to 128; every list is as long as the highest rank.
        unsafe {
            $encode(
                (&raw mut $map).cast(),
                $builder.element.code(),
                $builder.shape.len() as u32,
                $builder.address as *mut c_void,
                $lists.shape.as_ptr(),
                $lists.strides.as_ptr(),
                $($tile,)*
                $lists.steps.as_ptr(),
                $builder.interleave as u32,
                $($mode,)*
                $builder.swizzle as u32,
                $builder.promotion as u32,
                $builder.fill as u32,
            )
        }
    };
}

impl TensorMapBuilder {
    /// The driver's verdict alone, for tests that compare it with the rules.
    ///
    /// # Errors
    /// [`ErrorKind::DriverTooOld`](crate::ErrorKind::DriverTooOld), or an error of the driver.
    #[doc(hidden)]
    pub fn encode(&self) -> Result<TensorMap> {
        let driver = Driver::get()?;
        self.context.as_deref().map_or(Ok(()), bound)?;
        let mut map = TensorMap([0; 16]);
        let lists = self.lists();
        let code = match &self.mode {
            Mode::Tiled { tile } => {
                let (encode, tile) = (driver.cuTensorMapEncodeTiled()?, reversed::<_, u32>(tile));
                call!(encode, self, map, lists, [tile.as_ptr()], [])
            }
            Mode::Im2col { lower, upper, channels, pixels } => {
                let encode = driver.cuTensorMapEncodeIm2col()?;
                let (lower, upper) = (reversed::<_, i32>(lower), reversed::<_, i32>(upper));
                call!(encode, self, map, lists, [lower.as_ptr(), upper.as_ptr(), *channels as u32, *pixels as u32], [])
            }
            Mode::Im2colWide { lower, upper, channels, pixels } => {
                let encode = driver.cuTensorMapEncodeIm2colWide()?;
                // `CUtensorMapIm2ColWideMode`: W, where the number of pixels counts, or W128.
                let (mode, pixels) = pixels.map_or((1, 128), |pixels| (0, pixels as u32));
                call!(encode, self, map, lists, [*lower, *upper, *channels as u32, pixels], [mode])
            }
        };
        if code == 0 { Ok(map) } else { Err(self.refused(driver, code)) }
    }

    /// An error for a missing feature of the device or the driver, where the rules hold.
    #[cold]
    fn refused(&self, driver: &Driver, code: Code) -> Error {
        let asked = format!("a tensor map of {:?} elements {:?}, swizzle {:?}", self.shape, self.element, self.swizzle);
        if !self.is_newer() {
            return driver.error(code, &asked);
        }
        Error::new(ErrorKind::TensorMap, asked)
            .possible(
                "packed elements, larger swizzle atoms and wide im2col on devices of compute capability 10.0 and later",
            )
            .help("use whole bytes, swizzles `None`, `B32`, `B64` or `B128`, and `.im2col(…)`")
    }

    /// Returns true if it requires what came with compute capability 10.0.
    fn is_newer(&self) -> bool {
        let wide = matches!(self.mode, Mode::Im2colWide { .. });
        wide || self.element.is_packed() || self.swizzle as u32 > Swizzle::B128 as u32
    }

    fn lists(&self) -> Lists {
        let strides = self.element_strides().into_iter().map(|stride| self.bytes(stride) as u64);
        let mut strides: Vec<u64> = strides.collect();
        strides.pop();
        Lists { shape: reversed(&self.shape), strides: reversed(&strides), steps: reversed(&self.steps()) }
    }
}

/// The list the other way round, as the driver's type; the values fit by the rules.
fn reversed<T: Copy + TryInto<U>, U: Copy + Default>(list: &[T]) -> [U; RANK] {
    let mut all = [U::default(); RANK];
    for (to, from) in all.iter_mut().zip(list.iter().rev()) {
        *to = (*from).try_into().unwrap_or_default();
    }
    all
}
