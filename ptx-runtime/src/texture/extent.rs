//! Number of texels and dimensions of an array.

use crate::error::{Error, ErrorKind, Result};

/// The shape of a [`TexelArray`](crate::TexelArray).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The slowest dimension first: `[width]`, `[height, width]` or `[depth, height, width]`.
    shape: Vec<usize>,
    kind: Kind,
}

/// Repetition of an array's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Once,
    Layers(usize),
    Cube,
    Cubes(usize),
}

impl Extent {
    /// `[width]`, `[height, width]` or `[depth, height, width]` texels: `tex.1d`, `tex.2d`, `tex.3d`.
    pub fn of(shape: &[usize]) -> Extent {
        Extent { shape: shape.to_vec(), kind: Kind::Once }
    }

    /// So many layers of `[width]` or `[height, width]` texels, which share nothing: `tex.a1d`, `tex.a2d`.
    pub fn layers(layers: usize, shape: &[usize]) -> Extent {
        Extent { shape: shape.to_vec(), kind: Kind::Layers(layers) }
    }

    /// The six faces of a cube, in the order +x, -x, +y, -y, +z, -z: `tex.cube`.
    pub fn cube(edge: usize) -> Extent {
        Extent { shape: vec![edge; 2], kind: Kind::Cube }
    }

    /// So many cubes: `tex.acube`.
    pub fn cubes(cubes: usize, edge: usize) -> Extent {
        Extent { shape: vec![edge; 2], kind: Kind::Cubes(cubes) }
    }

    /// Texels in all: x fastest, then y, then z or the layer.
    pub fn texels(&self) -> usize {
        self.shape
            .iter()
            .chain([&self.layer_count().unwrap_or(1)])
            .fold(1, |all: usize, size| all.saturating_mul(*size))
    }

    /// Texels in x, y and z; 1 for what it does not have.
    pub(super) fn size(&self) -> [usize; 3] {
        let mut sizes = self.shape.iter().rev().copied().chain([1; 3]);
        std::array::from_fn(|_| sizes.next().unwrap_or(1))
    }

    pub(super) fn dims(&self) -> usize {
        self.shape.len()
    }

    /// Layers, six for each cube, if it has any.
    pub(super) fn layer_count(&self) -> Option<usize> {
        match self.kind {
            Kind::Once => None,
            Kind::Layers(layers) => Some(layers),
            Kind::Cube => Some(6),
            Kind::Cubes(cubes) => Some(cubes.saturating_mul(6)),
        }
    }

    pub(super) fn is_cube(&self) -> bool {
        matches!(self.kind, Kind::Cube | Kind::Cubes(_))
    }

    /// Returns true if the number of a layer or cube stands before the coordinates.
    pub(super) fn is_layered(&self) -> bool {
        matches!(self.kind, Kind::Layers(_) | Kind::Cubes(_))
    }

    /// The rules of the driver, which returns only "invalid value".
    pub(super) fn check(&self) -> Result<()> {
        let (layers, most) = (self.layer_count(), if self.kind == Kind::Once { 3 } else { 2 });
        let mut sizes = self.shape.iter().chain(&layers);
        if (1..=most).contains(&self.dims()) && sizes.all(|size| (1..=MOST).contains(size)) {
            return Ok(());
        }
        let of = layers.map_or(String::new(), |layers| format!("{layers} layers of "));
        let asked = format!("an array of {of}{:?} texels", self.shape);
        let possible =
            "`[width]`, `[height, width]`, `[depth, height, width]`, or layers of the first two, none of them zero";
        Err(Error::new(ErrorKind::BadOption, asked).possible(possible))
    }
}

/// More than any driver takes.
const MOST: usize = 1 << 28;
