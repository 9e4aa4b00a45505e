//! Memory of a device: buffers and pinned host memory.

use super::{Buffer, Element, Pinned};
use crate::device::Device;
use crate::driver::Driver;
use crate::error::Result;

impl Device {
    /// A buffer with a copy of `data`, which may be changed or dropped as soon as this returns.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or an error of the driver.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = Buffer::allocate(self, data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Host memory of `len` elements whose bytes are all zero, locked in place for copies that run beside the host.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or an error of the driver.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>> {
        Pinned::zeroed(self, len)
    }

    /// A buffer of `len` elements whose bytes are all zero when this returns: the host waits. It can be called while another library
    /// captures a stream, which may use the buffer, and is no part of the graph: the buffer has to live as long as the graph.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or an error of the driver.
    pub fn zeros_beside_captures<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        if !self.is_cuda() {
            return self.zeros(len);
        }
        Driver::get()?.beside_captures(|| {
            let buffer = self.zeros(len)?;
            buffer.wait()?;
            Ok(buffer)
        })
    }

    /// A buffer of `len` elements whose bytes are all zero.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or an error of the driver.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = Buffer::allocate(self, len)?;
        buffer.clear()?;
        Ok(buffer)
    }
}
