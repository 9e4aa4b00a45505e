//! The shapes of outputs. The library computes them from those of the inputs; inputs of the shapes of the call before have outputs of its shapes, too.

use ptx_ffi::rt::{DlTensor, Made};
use std::cell::RefCell;
use std::rc::Rc;

/// The shapes of a function's last call. Whoever holds the lock of the interpreter has them alone.
#[derive(Default)]
pub(crate) struct Shapes(RefCell<Last>);

#[derive(Default)]
struct Last {
    wanted: u32,
    inputs: Kinds,
    made: Rc<[Made]>,
}

/// The types and the extents of tensors, each behind the number of its parameter.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    words: [i64; 48],
    len: usize,
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds { words: [0; 48], len: 0 }
    }
}

impl Kinds {
    /// Adds a tensor. `None` where there is no room.
    #[inline]
    pub(crate) fn add(&mut self, at: usize, tensor: &DlTensor, extents: &[i64]) -> Option<()> {
        let (first, rest) = self.words.get_mut(self.len..)?.split_first_mut()?;
        *first = (at as i64) << 32 | i64::from(tensor.code) << 24 | i64::from(tensor.bits) << 16 | extents.len() as i64;
        rest.get_mut(..extents.len())?.copy_from_slice(extents);
        self.len += 1 + extents.len();
        Some(())
    }

    fn words(&self) -> &[i64] {
        self.words.get(..self.len).unwrap_or(&[])
    }
}

impl Shapes {
    /// The shapes of the outputs with a bit in `wanted`, for these inputs, as `infer` computes them.
    pub(crate) fn find(
        &self,
        wanted: u32,
        inputs: Option<&Kinds>,
        infer: impl FnOnce() -> Option<Rc<[Made]>>,
    ) -> Option<Rc<[Made]>> {
        let Some(inputs) = inputs else { return infer() };
        let mut last = self.0.borrow_mut();
        if last.wanted != wanted || last.inputs.words() != inputs.words() {
            *last = Last { wanted, inputs: *inputs, made: infer()? };
        }
        Some(Rc::clone(&last.made))
    }
}
