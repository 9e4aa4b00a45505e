//! Arguments as they come from another language, and the rules that a tensor has to obey before Rust sees it.

use crate::dtype::DType;
use crate::error::{Exception, Raised};
use crate::function::{Dim, NAMES, Param, TensorKind};
use ptx_target::sort::SortSmall;

/// The most dimensions of a tensor.
pub(crate) const RANK: usize = 8;

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// None.
    Missing,
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(&'a str),
    Tensor(Tensor),
    /// Something that no parameter takes, by its name.
    Other(&'static str),
}

impl Value<'_> {
    /// Arguments of which none is there. A constant would be copied with all bytes of tensors.
    #[inline]
    pub(crate) fn none<const N: usize>() -> [Self; N] {
        std::array::from_fn(|_| Value::Missing)
    }
}

/// The place of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Memory of the host.
    Host,
    /// The GPU with this ordinal.
    Cuda(usize),
}

/// A tensor that another language owns. Extents and strides count elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    pub(crate) place: Place,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; RANK],
    pub(crate) strides: [usize; RANK],
    /// Number of elements of memory from the first to the last one.
    pub(crate) span: usize,
}

/// The reason why an argument cannot be read.
#[derive(Debug)]
pub(crate) enum Wrong {
    Type(String),
    Value(String),
}

impl Wrong {
    /// The exception for the argument of this name.
    pub(crate) fn raise(self, argument: &str) -> Raised {
        match self {
            Wrong::Type(message) => Raised::wrong_type(argument, message),
            Wrong::Value(message) => Raised::wrong_value(argument, message),
        }
    }
}

impl Place {
    pub(crate) fn name(self) -> String {
        match self {
            Place::Host => "cpu".to_owned(),
            Place::Cuda(ordinal) => format!("cuda:{ordinal}"),
        }
    }
}

impl Value<'_> {
    /// Its kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Missing => "None",
            Value::Int(_) => "an int",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a bool",
            Value::Str(_) => "a str",
            Value::Tensor(_) => "a tensor",
            Value::Other(name) => name,
        }
    }
}

impl Tensor {
    /// A tensor of a foreign description; without strides its elements lie in row-major order. The address of one without memory is zero.
    #[inline(always)]
    pub(crate) fn new(
        (address, dtype, place): (u64, DType, Place),
        shape: &[i64],
        strides: Option<&[i64]>,
    ) -> Result<Tensor, Wrong> {
        let rank = shape.len();
        if rank > RANK {
            return Err(Wrong::Value(format!("{rank} dimensions; at most {RANK} are possible")));
        }
        let mut tensor = Tensor { address, dtype, place, rank, shape: [0; RANK], strides: [1; RANK], span: 0 };
        for (to, extent) in tensor.shape.iter_mut().zip(shape) {
            *to = usize::try_from(*extent).map_err(|_| Wrong::Value(format!("a dimension of {extent} elements")))?;
        }
        // Any strides fit a tensor without elements.
        match strides.filter(|_| !tensor.extents().contains(&0)) {
            Some(strides) => tensor.set_strides(strides)?,
            None => {
                for at in (1..rank).rev() {
                    tensor.strides[at - 1] = tensor.strides[at].saturating_mul(tensor.shape[at].max(1));
                }
            }
        }
        let fits = |span: &usize| span.checked_mul(dtype.bytes()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
        let Some(span) = tensor.count_span().filter(fits) else {
            return Err(Wrong::Value("more elements than memory can have".to_owned()));
        };
        // PyTorch's tensors lose their memory by `resize_` of their storage.
        if address == 0 && span > 0 {
            return Err(Wrong::Value(format!("a tensor of shape {shape:?} without memory")));
        }
        tensor.span = span;
        Ok(tensor)
    }

    /// Dimensions of one element may have any stride, a negative one, too.
    fn set_strides(&mut self, strides: &[i64]) -> Result<(), Wrong> {
        for (at, stride) in strides.iter().take(self.rank).enumerate() {
            self.strides[at] = match usize::try_from(*stride) {
                Ok(stride) => stride,
                Err(_) if self.shape[at] == 1 => 0,
                Err(_) => {
                    return Err(Wrong::Value(format!(
                        "a negative stride ({stride}) in dimension {at}; copy the tensor"
                    )));
                }
            };
        }
        Ok(())
    }

    pub(crate) fn extents(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn steps(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// Returns true if its elements lie in row-major order without gaps.
    #[cfg(feature = "jit")]
    pub(crate) fn is_dense(&self) -> bool {
        let mut step = 1;
        self.extents().contains(&0)
            || self.extents().iter().zip(self.steps()).rev().all(|(extent, stride)| {
                let fits = *extent == 1 || *stride == step;
                step *= extent;
                fits
            })
    }

    fn count_span(&self) -> Option<usize> {
        if self.extents().contains(&0) {
            return Some(0);
        }
        let steps = self.extents().iter().zip(self.steps()).map(|(extent, stride)| (extent - 1).checked_mul(*stride));
        steps.into_iter().try_fold(1usize, |span, step| span.checked_add(step?))
    }

    /// The addresses of its bytes.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let bytes = self.span * self.dtype.bytes();
        self.address..self.address.saturating_add(bytes as u64)
    }

    /// Gives it as many dimensions as a parameter has: those that `..` stands for become one.
    pub(crate) fn fit(&mut self, param: &Param, kind: &TensorKind) -> Result<(), Raised> {
        if !kind.has_leading() {
            return match self.rank == kind.rank {
                true => Ok(()),
                false => Err(wrong_rank(param, kind, self)),
            };
        }
        let rest = kind.rank - 1;
        let Some(leading) = self.rank.checked_sub(rest) else { return Err(wrong_rank(param, kind, self)) };
        let (extent, stride) = self.merge(leading).ok_or_else(|| {
            let message = format!(
                "its first {leading} dimensions (shape {:?}, strides {:?}) are not evenly spaced; make it contiguous",
                self.extents(),
                self.steps()
            );
            Raised::wrong_value(param.name, message)
        })?;
        self.shape.copy_within(leading..self.rank, 1);
        self.strides.copy_within(leading..self.rank, 1);
        (self.rank, self.shape[0], self.strides[0]) = (kind.rank, extent, stride);
        Ok(())
    }

    /// The first dimensions as one: its extent and its stride.
    fn merge(&self, leading: usize) -> Option<(usize, usize)> {
        let extent = self.shape[..leading].iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
        let stepping =
            (0..leading).rev().filter(|at| self.shape[*at] != 1).map(|at| (self.shape[at], self.strides[at]));
        let mut merged: Option<(usize, usize)> = None;
        for (size, stride) in stepping {
            merged = match merged {
                None => Some((size, stride)),
                Some((inner, step)) if extent == 0 || inner.checked_mul(step) == Some(stride) => {
                    Some((inner.saturating_mul(size), step))
                }
                Some(_) => return None,
            };
        }
        // A single row may lie anywhere; its stride steps over it.
        let row = self.shape[leading..self.rank].iter().zip(&self.strides[leading..self.rank]);
        let row = row.map(|(extent, stride)| extent.saturating_mul(*stride)).max().unwrap_or(1);
        Some((extent, merged.map_or(row, |(_, step)| step)))
    }

    /// Returns true if an element of one may share memory with an element of the other. Exact for tensors with the same strides.
    pub(crate) fn overlaps(&self, other: &Tensor) -> bool {
        let (mine, theirs) = (self.range(), other.range());
        if mine.start >= theirs.end || theirs.start >= mine.end {
            return false;
        }
        let bytes = self.dtype.bytes() as u64;
        let apart = self.address.abs_diff(other.address);
        let alike = self.dtype.bytes() == other.dtype.bytes() && apart.is_multiple_of(bytes);
        if !alike || self.rank != other.rank || self.steps() != other.steps() {
            return true;
        }
        let mut dims: Vec<(i128, i128, i128)> = (0..self.rank)
            .map(|at| {
                let (low, high) = if self.address <= other.address { (other, self) } else { (self, other) };
                (self.strides[at] as i128, high.shape[at] as i128 - 1, low.shape[at] as i128 - 1)
            })
            .collect();
        dims.sort_small_by_key(|dim| std::cmp::Reverse(dim.0));
        meets(i128::from(apart / bytes), &dims)
    }
}

/// Returns true if steps of these strides, each at most so many forward and so many back, add up to `apart`; also if a dimension does
/// not step over those with smaller strides.
fn meets(apart: i128, dims: &[(i128, i128, i128)]) -> bool {
    let Some(((stride, forward, back), rest)) = dims.split_first() else { return apart == 0 };
    if *stride == 0 {
        return meets(apart, rest);
    }
    let inner: i128 = rest.iter().map(|(stride, forward, back)| stride * forward.max(back)).sum();
    if inner >= *stride && forward.max(back) > &0 {
        return true;
    }
    let floor = apart.div_euclid(*stride);
    let possible = [floor, floor + 1].into_iter().filter(|steps| (-back..=*forward).contains(steps));
    possible.into_iter().any(|steps| meets(apart - steps * stride, rest))
}

fn wrong_rank(param: &Param, kind: &TensorKind, tensor: &Tensor) -> Raised {
    let expected = match kind.has_leading() {
        true => format!("at least {}", kind.rank - 1),
        false => kind.rank.to_string(),
    };
    let message = format!("expected {expected} dimensions, found shape {:?}", tensor.extents());
    Raised::wrong_value(param.name, message)
}

/// The extents that the names in `shapes(…)` have in a call.
#[derive(Default)]
pub(crate) struct Names {
    /// By the number of the name: its extent, and the parameter and dimension that has it.
    bound: [(usize, u8, u8); NAMES],
    /// A bit for each number that has an extent.
    known: u32,
}

impl Names {
    /// Compares the extents of the tensor with number `position` with those that are known, and keeps them.
    #[inline]
    pub(crate) fn bind(&mut self, params: &[Param], position: usize, tensor: &Tensor) -> Result<(), Raised> {
        let Some(kind) = params[position].tensor() else { return Ok(()) };
        for (at, (dim, extent)) in kind.dims.iter().zip(tensor.extents()).enumerate() {
            let Some(number) = dim.number() else {
                match dim {
                    Dim::Size(size) if size != extent => return Err(wrong_size(&params[position], at, *size, tensor)),
                    _ => continue,
                }
            };
            let Some(bound) = self.bound.get_mut(number) else { continue };
            if self.known & 1 << number == 0 {
                (*bound, self.known) = ((*extent, position as u8, at as u8), self.known | 1 << number);
            } else if bound.0 != *extent {
                return Err(wrong_extent(params, (position, at), *bound, *extent));
            }
        }
        Ok(())
    }
}

#[cold]
fn wrong_size(param: &Param, at: usize, size: usize, tensor: &Tensor) -> Raised {
    let found = tensor.extents();
    Raised::wrong_value(param.name, format!("expected {size} elements in dimension {at}, found shape {found:?}"))
}

#[cold]
fn wrong_extent(
    params: &[Param],
    (position, at): (usize, usize),
    (known, other, place): (usize, u8, u8),
    extent: usize,
) -> Raised {
    let (param, other) = (&params[position], &params[other as usize]);
    let name = param.tensor().map_or("", |kind| kind.dims[at].name());
    let message =
        format!("dimension {at} ({name}) has {extent} elements, and dimension {place} of {} has {known}", other.name);
    Raised::new(Exception::Value, format!("{}: {message}", param.name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::function::{Element, Kind};

    fn tensor(address: u64, shape: &[i64], strides: Option<&[i64]>) -> Tensor {
        Tensor::new((address, DType::F32, Place::Host), shape, strides).unwrap()
    }

    fn fit(mut tensor: Tensor, rank: usize, dims: &'static [Dim]) -> Result<Tensor, Raised> {
        let kind = TensorKind { written: false, element: Element::Fixed(DType::F32), rank, dims, align: 1 };
        let param = Param { name: "x", kind: Kind::Bool, optional: false, default: None };
        tensor.fit(&param, &kind).map(|()| tensor)
    }

    #[test]
    fn leading_dimensions_become_one() {
        const DIMS: &[Dim] = &[Dim::Leading, Dim::Name("n", 1)];
        let merged = |tensor| fit(tensor, 2, DIMS).map(|t| (t.extents().to_vec(), t.steps().to_vec()));
        assert_eq!(merged(tensor(4096, &[2, 3, 5], None)).unwrap(), (vec![6, 5], vec![5, 1]));
        assert_eq!(merged(tensor(4096, &[5], None)).unwrap(), (vec![1, 5], vec![5, 1]));
        assert_eq!(merged(tensor(4096, &[2, 3, 5], Some(&[24, 8, 1]))).unwrap(), (vec![6, 5], vec![8, 1]));
        assert_eq!(merged(tensor(4096, &[2, 1, 5], Some(&[24, 7, 1]))).unwrap(), (vec![2, 5], vec![24, 1]));
        assert_eq!(merged(tensor(4096, &[2, 0, 5], Some(&[99, 8, 1]))).unwrap().0, [0, 5]);
        assert!(merged(tensor(4096, &[2, 3, 5], Some(&[5, 10, 1]))).unwrap_err().message.contains("not evenly spaced"));
        assert!(merged(tensor(4096, &[], None)).unwrap_err().message.contains("at least 1 dimensions"));
        assert!(fit(tensor(4096, &[2, 5], None), 1, &[]).is_err());
    }

    #[test]
    fn wrong_tensors_are_refused() {
        let at = |address| {
            move |shape: &[i64], strides: Option<&[i64]>| {
                Tensor::new((address, DType::F32, Place::Host), shape, strides)
            }
        };
        let new = at(4096);
        assert!(new(&[1; 9], None).is_err() && new(&[-1], None).is_err() && new(&[4], Some(&[-1])).is_err());
        assert!(new(&[i64::MAX, i64::MAX], None).is_err() && new(&[1 << 40, 1 << 40], Some(&[1 << 40, 1])).is_err());
        assert!(new(&[1], Some(&[-1])).is_ok() && new(&[0, 4], Some(&[-4, -1])).is_ok());
        assert_eq!(new(&[4, 0], Some(&[0, 0])).unwrap().steps(), [1, 1]);
        let nowhere = at(0);
        assert!(nowhere(&[0, 4], None).is_ok() && nowhere(&[], None).is_err() && nowhere(&[1, 4], None).is_err());
    }

    #[test]
    fn interleaved_tensors_share_nothing() {
        let part = |column: u64, columns: i64| tensor(4096 + 4 * column, &[3, columns], Some(&[8, 1]));
        assert!(!part(0, 4).overlaps(&part(4, 4)) && !part(4, 4).overlaps(&part(0, 4)));
        assert!(part(0, 4).overlaps(&part(3, 4)) && part(3, 4).overlaps(&part(0, 4)));
        assert!(part(0, 4).overlaps(&part(8, 4)) && part(0, 4).overlaps(&part(6, 4)), "the next row");
        assert!(!part(0, 4).overlaps(&part(24, 4)) && part(0, 4).overlaps(&part(0, 4)));
        assert!(part(0, 4).overlaps(&tensor(4096 + 16, &[3, 4], Some(&[9, 1]))), "other strides");
    }
}
