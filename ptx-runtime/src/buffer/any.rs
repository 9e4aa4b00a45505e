//! Memory of any type and owner as an argument of a launch whose kernel is known only while the program runs.

use super::slice::{Bound, ReadSlice, WriteSlice};
use crate::error::Result;
use crate::stream::StreamRef;
use std::marker::PhantomData;

/// Memory that a kernel reads or writes, without its type.
pub struct AnyMemory<'a>(Box<dyn Bind + 'a>);

trait Bind {
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>>;
}

struct Read<T, M>(M, PhantomData<T>);
struct Written<T, M>(M, PhantomData<T>);

impl<T, M: ReadSlice<T>> Bind for Read<T, M> {
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.0.bind(stream)
    }
}

impl<T, M: WriteSlice<T>> Bind for Written<T, M> {
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.0.bind(stream)
    }
}

impl<'a> AnyMemory<'a> {
    /// Memory that the kernel reads.
    pub fn read<T: 'a>(memory: impl ReadSlice<T> + 'a) -> AnyMemory<'a> {
        AnyMemory(Box::new(Read(memory, PhantomData)))
    }

    /// Memory that the kernel writes.
    pub fn write<T: 'a>(memory: impl WriteSlice<T> + 'a) -> AnyMemory<'a> {
        AnyMemory(Box::new(Written(memory, PhantomData)))
    }

    /// The memory, made ready for work on a stream.
    ///
    /// # Errors
    /// Those of [`ReadSlice::bind`] and [`WriteSlice::bind`].
    pub fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.0.bind(stream)
    }
}
