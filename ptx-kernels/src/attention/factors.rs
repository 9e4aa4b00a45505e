//! The factors of Q, K and V of type `e4m3`.

use super::options::Descale;
use super::problem::{Problem, reach, refuse};
use ptx_launch::{KernelParam, Result, ptx_contract};

/// Strides of the factors: a parameter of the kernels, by value. Its constructor is the only one, so that every offset that a kernel
/// computes from it lies inside the `reach` of its tensor.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub(crate) struct Factors {
    /// Bytes from sequence to sequence, and from head to head.
    pub(super) q: [u64; 2],
    pub(super) k: [u64; 2],
    pub(super) v: [u64; 2],
    /// Factors of Q, K and V from the first to the last one, 0 without factors.
    pub(super) reach: [u64; 3],
}

impl Factors {
    /// Checks the shapes.
    pub(super) fn new(given: &Descale<'_>, problem: &Problem) -> Result<Factors> {
        let expected = [problem.batch, problem.heads / problem.kv_group].map(|extent| extent as usize);
        let mut factors = Factors::default();
        for (name, tensor, strides, at) in [
            ("Q", &given[0], &mut factors.q, 0),
            ("K", &given[1], &mut factors.k, 1),
            ("V", &given[2], &mut factors.v, 2),
        ] {
            let Some(tensor) = tensor else { continue };
            if tensor.shape() != expected {
                let found = format!("the factors of {name} have the shape {:?}", tensor.shape());
                let help = "a stride of 0 repeats a factor: `TensorRef::strided`";
                return Err(refuse(found, format!("{expected:?} (sequences, heads of K)")).help(help));
            }
            *strides = tensor.strides().map(|stride| 4 * stride as u64);
            factors.reach[at] = reach(&tensor.shape(), &tensor.strides());
        }
        Ok(factors)
    }
}

#[ptx_contract]
impl Factors {
    /// Returns true if so many bytes hold the factors of all heads of K, where there are some.
    pub(super) fn holds(&self, extents: [u32; 2], bytes: [u64; 3]) -> bool {
        let strides = [self.q, self.k, self.v];
        strides.iter().all(|strides| strides.iter().all(|stride| *stride % 4 == 0))
            && (0..3).all(|of| self.reach[of] == 0 || bytes[of] >= Self::last(strides[of], extents) + 4)
    }

    /// The offset of the last factor.
    fn last([sequence, head]: [u64; 2], [sequences, heads]: [u32; 2]) -> u64 {
        u64::from(sequences - 1) * sequence + u64::from(heads - 1) * head
    }
}
