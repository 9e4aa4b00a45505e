//! Memory of candle's storages with the type that each of them has at run time.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Error, Result, WithDType};
use half::{bf16, f16};
use ptx_launch::{Buffer, Device, ErrorKind, KernelParam, View};

/// An element type of inputs.
pub(crate) trait Typed: WithDType + KernelParam {
    /// The memory, if it has elements of this type.
    fn view<'a>(memory: &Memory<'a>) -> Option<View<'a, Self>>;
}

macro_rules! types {
    ($($name:ident $ty:ty),*) => {
        /// Elements that a kernel reads.
        #[derive(Clone, Copy)]
        pub(crate) enum Memory<'a> {
            $($name(View<'a, $ty>),)*
        }

        /// A copy of a storage on the CPU device.
        pub(crate) enum HostMemory {
            $($name(Buffer<$ty>),)*
        }

        $(impl Typed for $ty {
            fn view<'a>(memory: &Memory<'a>) -> Option<View<'a, $ty>> {
                match memory {
                    Memory::$name(view) => Some(*view),
                    _ => None,
                }
            }
        })*

        impl HostMemory {
            /// Copies the elements from `start` on.
            pub(crate) fn upload(device: &Device, storage: &CpuStorage, start: usize) -> Result<HostMemory> {
                match storage {
                    $(CpuStorage::$name(values) => {
                        let values = values.get(start..).unwrap_or(&[]);
                        device.upload(values).map(HostMemory::$name).map_err(Error::wrap)
                    })*
                    other => Err(unsupported(other.dtype())),
                }
            }

            /// The copy.
            pub(crate) fn view(&self) -> Memory<'_> {
                match self {
                    $(HostMemory::$name(buffer) => Memory::$name(buffer.view()),)*
                }
            }
        }

        #[cfg(feature = "cuda")]
        impl<'a> Memory<'a> {
            /// The elements of a storage from `start` on, and the guard of candle's events about them. `stream` is `theirs`, candle's stream.
            ///
            /// # Safety
            /// As [`View::from_raw`], for all elements of the storage.
            #[allow(unsafe_code, reason = "the caller vouches for candle's memory")]
            pub(crate) unsafe fn of_cuda(
                (stream, theirs): (&'a ptx_launch::Stream, &'a cudarc::driver::CudaStream),
                storage: &'a candle_core::CudaStorage,
                start: usize,
            ) -> Result<(Memory<'a>, cudarc::driver::SyncOnDrop<'a>)> {
                use candle_core::cuda_backend::CudaStorageSlice;
                use cudarc::driver::DevicePtr;
                match &storage.slice {
                    $(CudaStorageSlice::$name(slice) => {
                        let (address, guard) = slice.device_ptr(theirs);
                        let start = start.min(slice.len());
                        let address = address + (start * size_of::<$ty>()) as u64;
                        // SAFETY: the caller vouches for it.
                        let view = unsafe { View::from_raw(stream, address, slice.len() - start) };
                        Ok((Memory::$name(view), guard))
                    })*
                    _ => Err(unsupported(storage.dtype())),
                }
            }
        }
    };
}
types! { F32 f32, F16 f16, BF16 bf16, I32 i32, U32 u32, I64 i64 }

impl<'a> Memory<'a> {
    /// The elements, which have to be of type `T`.
    pub(crate) fn of<T: Typed>(&self) -> ptx_launch::Result<View<'a, T>> {
        let wrong =
            || ptx_launch::Error::new(ErrorKind::Condition, format!("an input is not of {}", T::DTYPE.as_str()));
        T::view(self).ok_or_else(wrong)
    }
}

fn unsupported(dtype: candle_core::DType) -> Error {
    Error::Msg(format!("tensors of {} are not supported", dtype.as_str()))
}
