//! Outputs that are unlike every input. PyTorch reads a shape and a type for as long as it makes a tensor; a tensor like another one takes half the time. So
//! a parameter keeps a pattern: a tensor of its last shape, without memory.

use crate::object::{Object, Outcome, Ptr};
use crate::torch::Torch;
use ptx_ffi::rt::Made;
use std::cell::{Cell, RefCell};

/// The shape and the type of an output, and its device, as DLPack has them.
type Kind = (Made, [i32; 2]);

/// The pattern of a parameter. Whoever holds the lock of the interpreter has it alone, except while PyTorch works.
#[derive(Default)]
pub(crate) struct Pattern {
    last: Cell<Option<Kind>>,
    tensor: RefCell<Option<Object>>,
}

impl Pattern {
    /// A new tensor of this kind, in the place of another one.
    pub(crate) fn make(&self, torch: &Torch, place: Ptr, kind: Kind) -> Outcome<Object> {
        if self.last.replace(Some(kind)) != Some(kind) {
            drop(self.tensor.take());
            return torch.make(place, &kind.0);
        }
        let known = self.tensor.borrow().as_ref().map(|tensor| Object::share(tensor.get()));
        // A shape that comes again will come often.
        let Some(pattern) = known else {
            let pattern = torch.make(place, &kind.0)?;
            torch.take_memory(pattern.get())?;
            let made = torch.make_like(pattern.get());
            self.keep(kind, pattern);
            return made;
        };
        torch.make_like(pattern.get())
    }

    /// Keeps a pattern, unless another call has come in between.
    fn keep(&self, kind: Kind, pattern: Object) {
        if self.last.get() == Some(kind) {
            drop(self.tensor.replace(Some(pattern)));
        }
    }
}
