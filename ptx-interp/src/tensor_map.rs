//! Tensor maps of the CPU device: the description of a tensor for `cp.async.bulk.tensor` (5.5), in 128 bytes.
//!
//! The bytes of a GPU's map are the driver's secret; these are our own, so that a map made for one device is refused by
//! the other. What the copies do with a map is in `ops::tensor`.

pub use ptx_target::tensor::{ElementType, Fill, Interleave, Promotion, Swizzle};
use std::error::Error;
use std::fmt;

/// The bytes of a map.
pub const BYTES: usize = 128;
/// The most dimensions of a tensor.
pub const RANK: usize = 5;
/// First bytes of every map of the CPU device.
const MAGIC: [u8; 8] = *b"PTX-CPU\x01";

/// Data that one instruction moves. Lists are innermost first, like the coordinates of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A box of elements.
    Tiled {
        /// Its size, before the steps are counted.
        tile: [u32; RANK],
    },
    /// Pixels of a bounding box (5.5.4).
    Im2col {
        /// The corner with the smallest coordinates, from the tensor's: width, height, depth as far as there are.
        lower: [i16; 3],
        /// The corner with the largest, from the tensor's end.
        upper: [i16; 3],
        /// Channels of a pixel.
        channels: u32,
        /// Pixels that are moved.
        pixels: u32,
    },
    /// Pixels of one row (5.5.5), with `.im2col::w` and `.im2col::w::128`.
    Im2colW {
        /// The corner with the smallest width.
        lower: i16,
        /// The corner with the largest.
        upper: i16,
        /// Channels of a pixel.
        channels: u32,
        /// Pixels that are moved.
        pixels: u32,
    },
}

/// A tensor in global memory and how it is read and written. Lists are innermost first; those behind `rank` do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// Its first byte.
    pub address: u64,
    /// Dimensions.
    pub rank: u32,
    /// Elements of each dimension.
    pub dims: [u64; RANK],
    /// Bytes between neighbors of each dimension but the innermost.
    pub strides: [u64; RANK - 1],
    /// Of how many elements one is taken in each dimension.
    pub steps: [u32; RANK],
    /// Data that one instruction moves.
    pub mode: Mode,
    /// Type of an element.
    pub element: ElementType,
    /// Interleaving of channels.
    pub interleave: Interleave,
    /// The order in shared memory.
    pub swizzle: Swizzle,
    /// Size of an L2 fetch.
    pub promotion: Promotion,
    /// Value of elements outside.
    pub fill: Fill,
}

/// Why 128 bytes are no tensor map, or a map describes nothing that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMap(String);

impl fmt::Display for InvalidMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidMap {}

/// Bytes that are written, or read, one field after another.
struct Fields<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Fields<'_> {
    fn put<const N: usize>(&mut self, value: [u8; N]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + N) {
            to.copy_from_slice(&value);
        }
        self.at += N;
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut value = [0; N];
        if let Some(from) = self.bytes.get(self.at..self.at + N) {
            value.copy_from_slice(from);
        }
        self.at += N;
        value
    }

    /// A member of a list, by a byte.
    fn one_of<T: Copy>(&mut self, all: &[T], what: &str) -> Result<T, InvalidMap> {
        let [number] = self.take();
        let missing = || InvalidMap(format!("a tensor map with {what} number {number}; {} exist", all.len()));
        all.get(usize::from(number)).copied().ok_or_else(missing)
    }
}

impl TensorMap {
    /// A packed tensor that is moved in tiles, without steps, swizzle or interleaving. Lists are innermost first.
    ///
    /// # Errors
    /// As [`check`](TensorMap::check).
    pub fn tiled(address: u64, element: ElementType, dims: &[u64], tile: &[u32]) -> Result<TensorMap, InvalidMap> {
        let mut map = TensorMap {
            address,
            rank: dims.len().min(255) as u32,
            dims: listed(dims, 1),
            strides: [0; RANK - 1],
            steps: [1; RANK],
            mode: Mode::Tiled { tile: listed(tile, 1) },
            element,
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            promotion: Promotion::None,
            fill: Fill::Zero,
        };
        let mut stride = element.bits();
        for (to, dim) in map.strides.iter_mut().zip(map.dims) {
            stride = stride.saturating_mul(dim);
            *to = stride / 8;
        }
        if tile.len() != dims.len() {
            return Err(InvalidMap(format!("a tile of {} dimensions of a tensor of {}", tile.len(), dims.len())));
        }
        map.check()?;
        Ok(map)
    }

    /// The 128 bytes of the map, checked or not.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut fields = Fields { bytes: &mut bytes, at: 0 };
        fields.put(MAGIC);
        let (mode, tile, corners) = self.mode.numbers();
        let kinds = [self.element as u8, self.interleave as u8, self.swizzle as u8, self.promotion as u8];
        fields.put([self.rank as u8, self.fill as u8, mode]);
        fields.put(kinds);
        fields.put(self.address.to_le_bytes());
        // A dimension has 1 to 2³² elements.
        self.dims.iter().for_each(|dim| fields.put((dim.wrapping_sub(1) as u32).to_le_bytes()));
        self.strides.iter().for_each(|stride| fields.put(stride.to_le_bytes()));
        self.steps.iter().for_each(|step| fields.put((*step as u16).to_le_bytes()));
        tile.iter().for_each(|size| fields.put((*size as u16).to_le_bytes()));
        corners.iter().for_each(|corner| fields.put(corner.to_le_bytes()));
        bytes
    }

    /// The map that 128 bytes hold, whose numbers may still be wrong: `tensormap.replace` changes them one by one.
    ///
    /// # Errors
    /// If the bytes are no map of the CPU device.
    pub fn read(bytes: &[u8; BYTES]) -> Result<TensorMap, InvalidMap> {
        let mut copy = *bytes;
        let mut fields = Fields { bytes: &mut copy, at: 0 };
        if fields.take() != MAGIC {
            return Err(InvalidMap(
                "these 128 bytes are no tensor map of the CPU device: nothing made one here, or something overwrote it"
                    .into(),
            ));
        }
        let [rank] = fields.take();
        let fill = fields.one_of(&Fill::ALL, "fill")?;
        let [mode] = fields.take();
        let element = fields.one_of(&ElementType::ALL, "element type")?;
        let interleave = fields.one_of(&Interleave::ALL, "interleave")?;
        let swizzle = fields.one_of(&Swizzle::ALL, "swizzle")?;
        let promotion = fields.one_of(&Promotion::ALL, "L2 promotion")?;
        let address = u64::from_le_bytes(fields.take());
        let dims = std::array::from_fn(|_| u64::from(u32::from_le_bytes(fields.take())) + 1);
        let strides = std::array::from_fn(|_| u64::from_le_bytes(fields.take()));
        let steps = std::array::from_fn(|_| u16::from_le_bytes(fields.take()).into());
        let tile = std::array::from_fn(|_| u16::from_le_bytes(fields.take()).into());
        let corners = std::array::from_fn(|_| i16::from_le_bytes(fields.take()));
        let mode = Mode::of(mode, tile, corners)?;
        let rank = rank.into();
        Ok(TensorMap { address, rank, dims, strides, steps, mode, element, interleave, swizzle, promotion, fill })
    }

    /// The map that 128 bytes hold.
    ///
    /// # Errors
    /// If they are no map of the CPU device, or one that breaks a rule.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<TensorMap, InvalidMap> {
        let map = TensorMap::read(bytes)?;
        map.check()?;
        Ok(map)
    }

    /// The rules that every map keeps; the driver has more, about what its chips can do fast.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), InvalidMap> {
        let rank = self.rank as usize;
        let broken = |what: String| Err(InvalidMap(format!("a tensor map with {what}")));
        if !(1..=RANK).contains(&rank) {
            return broken(format!("{rank} dimensions; 1 to {RANK} are possible"));
        }
        let align = if self.interleave == Interleave::B32 || self.element.shared_bytes() == 16 { 32 } else { 16 };
        if !self.address.is_multiple_of(align) {
            return broken(format!("address {:#x}; it must be a multiple of {align}", self.address));
        }
        if let Some(dim) = self.dims[..rank].iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return broken(format!("{dim} elements in a dimension; 1 to 2^32 are possible"));
        }
        if let Some(stride) = self.strides[..rank - 1].iter().find(|s| !s.is_multiple_of(16) || **s >= 1 << 40) {
            return broken(format!("a stride of {stride} bytes; multiples of 16 below 2^40 are possible"));
        }
        if let Some(step) = self.steps[..rank].iter().find(|step| !(1..=8).contains(*step)) {
            return broken(format!("a step of {step} elements; 1 to 8 are possible"));
        }
        self.check_row()?;
        self.check_mode()
    }

    /// Checks the box of one instruction against the element type and the swizzle.
    fn check_row(&self) -> Result<(), InvalidMap> {
        let bytes = self.row_bytes();
        let span = self.swizzle.span();
        let whole = u64::from(self.row()).is_multiple_of(self.element.group()) && bytes.is_multiple_of(16);
        if !whole {
            return Err(InvalidMap(format!(
                "a tensor map with a row of {} elements, {bytes} bytes; it must be a multiple of 16 bytes",
                self.row()
            )));
        }
        if self.swizzle != Swizzle::None && self.interleave == Interleave::None && bytes > span {
            return Err(InvalidMap(format!("a tensor map with rows of {bytes} bytes swizzled within {span}")));
        }
        if self.fill == Fill::Nan && self.element.nan().is_none() {
            return Err(InvalidMap(format!("a tensor map that fills {:?} elements with NaN", self.element)));
        }
        Ok(())
    }

    fn check_mode(&self) -> Result<(), InvalidMap> {
        let rank = self.rank as usize;
        let broken = |what: String| Err(InvalidMap(format!("a tensor map with {what}")));
        if self.interleave != Interleave::None && rank < 3 {
            return broken(format!("interleaved channels in {rank} dimensions; 3 to 5 are possible"));
        }
        match self.mode {
            Mode::Tiled { tile } => match tile[..rank].iter().find(|size| !(1..=256).contains(*size)) {
                Some(size) => broken(format!("a tile of {size} elements in a dimension; 1 to 256 are possible")),
                None => Ok(()),
            },
            Mode::Im2col { .. } | Mode::Im2colW { .. } if rank < 3 => {
                broken(format!("im2col of {rank} dimensions; 3 to 5 are possible"))
            }
            Mode::Im2col { channels, pixels, .. } | Mode::Im2colW { channels, pixels, .. } => {
                let possible = (1..=256).contains(&channels) && (1..=1024).contains(&pixels);
                let asked = format!("{channels} channels of {pixels} pixels; 1 to 256 and 1 to 1024 are possible");
                if possible { Ok(()) } else { broken(asked) }
            }
        }
    }

    /// Elements of a row that one instruction moves: of the innermost dimension.
    pub fn row(&self) -> u32 {
        match self.mode {
            Mode::Tiled { tile } => tile[0],
            Mode::Im2col { channels, .. } | Mode::Im2colW { channels, .. } => channels,
        }
    }

    /// Bytes of such a row in shared memory.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.row()).div_ceil(self.element.group()) * self.element.shared_bytes()
    }
}

impl Mode {
    /// Its number, two to five sizes, and corners.
    fn numbers(self) -> (u8, [u32; RANK], [i16; 6]) {
        match self {
            Mode::Tiled { tile } => (0, tile, [0; 6]),
            Mode::Im2col { lower: [a, b, c], upper: [d, e, f], channels, pixels } => {
                (1, [channels, pixels, 0, 0, 0], [a, b, c, d, e, f])
            }
            Mode::Im2colW { lower, upper, channels, pixels } => {
                (2, [channels, pixels, 0, 0, 0], [lower, 0, 0, upper, 0, 0])
            }
        }
    }

    fn of(number: u8, tile: [u32; RANK], corners: [i16; 6]) -> Result<Mode, InvalidMap> {
        let [channels, pixels, ..] = tile;
        let [a, b, c, d, e, f] = corners;
        match number {
            0 => Ok(Mode::Tiled { tile }),
            1 => Ok(Mode::Im2col { lower: [a, b, c], upper: [d, e, f], channels, pixels }),
            2 => Ok(Mode::Im2colW { lower: a, upper: d, channels, pixels }),
            _ => Err(InvalidMap(format!("a tensor map with mode number {number}; 3 exist"))),
        }
    }
}

/// A list of at most five, with the rest filled.
fn listed<T: Copy>(list: &[T], rest: T) -> [T; RANK] {
    let mut all = [rest; RANK];
    for (to, from) in all.iter_mut().zip(list) {
        *to = *from;
    }
    all
}

#[cfg(test)]
#[path = "tensor_map/tests.rs"] // also where `tests/units` includes this file
mod tests;
