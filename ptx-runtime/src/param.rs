//! Kernel arguments: plain values ([`KernelParam`]), and the form of every argument in a launch ([`Arg`]). Device memory as an
//! argument is in `buffer`.
#![allow(unsafe_code, reason = "`KernelParam` promises a memory layout")]

use std::alloc::Layout;
use std::ffi::c_void;
use std::marker::PhantomData;

/// A value that travels to a kernel by its bytes. `#[derive(KernelParam)]` implements it for `#[repr(C)]` structs of
/// such values.
///
/// # Safety
/// Every byte of the value is initialized (no padding), any bytes are a value, it has no pointers to the host and no
/// destructor, and its layout is the one that the kernel's `.param` declares.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a kernel parameter",
    label = "expected an integer, a float, or a struct with `#[derive(KernelParam)]`",
    note = "derive it on a `#[repr(C)]` struct: `#[repr(C)] #[derive(Clone, Copy, KernelParam)] struct S {{ … }}`",
    note = "`half::f16` and `half::bf16` need the feature `half` of ptx-launch"
)]
pub unsafe trait KernelParam: Copy + 'static {}

macro_rules! plain {
    ($($ty:ty)*) => { $(
        // SAFETY: a number has no padding and no pointers, and any bytes are one.
        unsafe impl KernelParam for $ty {}
    )* };
}
plain! { u8 u16 u32 u64 i8 i16 i32 i64 u128 i128 f32 f64 }
#[cfg(feature = "half")]
plain! { half::f16 half::bf16 }

/// The bytes of values.
pub(crate) fn bytes<T: KernelParam>(values: &[T]) -> &[u8] {
    // SAFETY: every byte is initialized, and the slice is as long.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of values, to be overwritten.
pub(crate) fn bytes_mut<T: KernelParam>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: every byte is initialized, any bytes are a value, and the slice is as long.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// The value of which every byte is zero.
pub(crate) fn zero<T: KernelParam>() -> T {
    // SAFETY: any bytes are a value.
    unsafe { std::mem::zeroed() }
}

/// So many values of which every byte is zero; none if there is no memory for them. The allocator clears it, so that no page of a large
/// vector is touched here.
pub(crate) fn zeros<T: KernelParam>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(vec![zero(); len]);
    }
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<T>();
    // SAFETY: the global allocator returned it for this layout, and bytes of zeros are values.
    (!memory.is_null()).then(|| unsafe { Vec::from_raw_parts(memory, len, len) })
}

// SAFETY: an array has the padding of its elements, which have none.
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}

/// One parameter of an entry, as the PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name in the Rust signature.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

impl Param {
    /// A parameter that holds a `T`.
    pub const fn value<T: KernelParam>(name: &'static str) -> Param {
        Param { name, size: size_of::<T>(), align: align_of::<T>() }
    }

    /// A parameter that holds a device pointer.
    pub const fn pointer(name: &'static str) -> Param {
        Param { name, size: 8, align: 8 }
    }
}

/// A pointer to one argument on the caller's stack. An array of them is what the driver's launch takes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Arg<'a> {
    pub(crate) at: *const c_void,
    borrow: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    /// The argument is `value`.
    #[inline]
    pub fn new<T: KernelParam>(value: &'a T) -> Arg<'a> {
        Arg { at: (&raw const *value).cast(), borrow: PhantomData }
    }

    /// The argument is these bytes.
    #[cfg(feature = "check")]
    pub fn bytes(bytes: &'a [u8]) -> Arg<'a> {
        Arg { at: bytes.as_ptr().cast(), borrow: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::zeros;

    #[test]
    fn zeros_are_as_many_as_memory_holds() {
        assert_eq!(zeros::<u32>(3), Some(vec![0; 3]));
        assert_eq!(zeros::<u32>(0), Some(vec![]));
        assert_eq!(zeros::<[u32; 0]>(2), Some(vec![[]; 2]));
        assert_eq!(zeros::<u64>(usize::MAX / 8), None);
    }
}
