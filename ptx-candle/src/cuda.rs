//! Launches on candle's CUDA memory, by its addresses: candle works on one stream, which orders them.
#![allow(unsafe_code, reason = "candle's memory and stream are taken by their handles")]

use crate::memory::{Memory, Typed};
use crate::run::{Input, Kernel, Op, launched};
use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::{CudaStorage, DType, Error, Layout, Result, Shape};
use cudarc::driver::{CudaStream, DevicePtrMut};
use half::{bf16, f16};
use ptx_launch::{Device, Stream, ViewMut};
use std::sync::{Arc, Mutex, PoisonError};

/// The devices of candle's contexts.
static DEVICES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

pub(crate) fn run<K: Op>(kernel: &K, storages: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)> {
    match storages.first().map(|(storage, _)| kernel.dtype(storage.dtype())) {
        Some(DType::F32) => run_typed::<K, f32>(kernel, storages),
        Some(DType::F16) => run_typed::<K, f16>(kernel, storages),
        Some(DType::BF16) => run_typed::<K, bf16>(kernel, storages),
        _ => Err(Error::Msg(format!("{}: expected tensors of f32, f16 or bf16", K::NAME))),
    }
}

fn run_typed<K, T>(kernel: &K, storages: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)>
where
    K: Op + Kernel<T>,
    T: CudaDType + Typed + cudarc::driver::DeviceRepr,
{
    let layouts: Vec<&Layout> = storages.iter().map(|(_, layout)| *layout).collect();
    let shape = kernel.shape(&layouts)?;
    let Some((first, _)) = storages.first() else { return Err(Error::Msg(format!("{}: no inputs", K::NAME))) };
    let device = first.device.clone();
    let theirs = device.cuda_stream();
    // SAFETY: candle's stream lives as long as its device, which `first` holds.
    let stream = unsafe { Stream::borrowed(&device_of(&theirs)?, theirs.cu_stream().cast()) }.map_err(Error::wrap)?;
    let (mut inputs, mut guards) = (Vec::with_capacity(storages.len()), Vec::with_capacity(storages.len()));
    for (storage, layout) in storages {
        // SAFETY: the storage is borrowed, candle initialized its elements, and frees them on the same stream.
        let (memory, guard) = unsafe { Memory::of_cuda((&stream, &theirs), storage, layout.start_offset()) }?;
        inputs.push(Input { memory, layout });
        guards.push(guard);
    }
    // SAFETY: numbers have no invalid values, and the launch writes all of them.
    let mut out = unsafe { device.alloc::<T>(shape.elem_count()) }?;
    let len = shape.elem_count();
    let (address, guard) = out.device_ptr_mut(&theirs);
    // SAFETY: the new slice, which nothing else uses.
    let memory = unsafe { ViewMut::<T>::from_raw(&stream, address, len) };
    kernel.launch(&stream, &inputs, memory).map_err(|error| launched::<K>(&error))?;
    drop((guard, guards));
    Ok((T::wrap_cuda_slice(out, device), shape))
}

fn device_of(stream: &Arc<CudaStream>) -> Result<Device> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |device: &&Device| device.as_cuda().is_some_and(|context| Arc::ptr_eq(context, stream.context()));
    if let Some(device) = devices.iter().find(known) {
        return Ok(device.clone());
    }
    let device = Device::from_cuda(stream.context()).map_err(Error::wrap)?;
    devices.push(device.clone());
    Ok(device)
}
