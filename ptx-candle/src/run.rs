//! The way from candle's storages to a launch and back. On a CUDA device inputs and results are candle's own memory, on candle's stream; host
//! memory is copied to the CPU device.

use crate::memory::{HostMemory, Memory, Typed};
use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, DType, Error, Layout, Result, Shape, Storage, Tensor,
};
use half::{bf16, f16};
use ptx_launch::{ErrorKind, Stream, TensorRef, ViewMut};
use std::sync::OnceLock;

/// An operation whose result has elements of type `T`.
pub(crate) trait Kernel<T> {
    /// Launches it. `out` has as many elements as [`Op::shape`] returns, without gaps.
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], out: ViewMut<'_, T>) -> ptx_launch::Result<()>;
}

/// An operation of candle's.
pub(crate) trait Op: Kernel<f32> + Kernel<f16> + Kernel<bf16> + Send + Sync {
    /// Its name in errors.
    const NAME: &'static str;

    /// The type of the result, from that of the first input.
    fn dtype(&self, first: DType) -> DType {
        first
    }

    /// The extents of the result. Gradients of several inputs are one vector, one behind the other.
    fn shape(&self, layouts: &[&Layout]) -> Result<Shape>;

    /// The gradients of the inputs, from all inputs, the result, and the gradient of the result.
    fn gradients(&self, _inputs: &[&Tensor], _result: &Tensor, _grad: &Tensor) -> Result<Vec<Tensor>> {
        Err(Error::BackwardNotSupported { op: Self::NAME })
    }
}

/// An input: memory, and candle's layout of it, whose first element is the memory's.
pub(crate) struct Input<'a> {
    pub(crate) memory: Memory<'a>,
    pub(crate) layout: &'a Layout,
}

impl<'a> Input<'a> {
    /// Its extents.
    pub(crate) fn dims(&self) -> &[usize] {
        self.layout.dims()
    }

    /// With its own extents. [`check_rank`] has counted them.
    pub(crate) fn tensor<T: Typed, const R: usize>(&self) -> ptx_launch::Result<TensorRef<'a, T, R>> {
        let pick = |from: &[usize]| std::array::from_fn(|at| from.get(at).copied().unwrap_or(1));
        TensorRef::strided(self.memory.of()?, pick(self.layout.dims()), pick(self.layout.stride()))
    }

    /// As rows: all dimensions but the last are one. [`check_rows`] has seen that they can be.
    pub(crate) fn rows<T: Typed>(&self) -> ptx_launch::Result<TensorRef<'a, T, 2>> {
        let (shape, strides) = merge(self.layout).unwrap_or_default();
        TensorRef::strided(self.memory.of()?, shape, strides)
    }
}

/// All dimensions but the last as one: extents and strides.
fn merge(layout: &Layout) -> Option<([usize; 2], [usize; 2])> {
    let (columns, leading) = layout.dims().split_last()?;
    let (last, steps) = layout.stride().split_last()?;
    let mut merged: Option<(usize, usize)> = None;
    for (extent, step) in leading.iter().zip(steps).rev().filter(|(extent, _)| **extent != 1) {
        merged = match merged {
            None => Some((*extent, *step)),
            Some((count, inner)) if count * inner == *step => Some((count * extent, inner)),
            Some(_) => return None,
        };
    }
    let (count, step) = merged.unwrap_or((1, *columns));
    Some(([count, *columns], [step, *last]))
}

/// The number of rows and their length.
///
/// # Errors
/// For a scalar, and for dimensions that do not lie evenly spaced.
pub(crate) fn check_rows(name: &str, layout: &Layout) -> Result<[usize; 2]> {
    let message =
        || format!("{name}: {:?} with strides {:?} is not made of evenly spaced rows", layout.dims(), layout.stride());
    merge(layout).map(|merged| merged.0).ok_or_else(|| Error::Msg(message()))
}

/// The extents.
///
/// # Errors
/// If there are not `R`.
pub(crate) fn check_rank<const R: usize>(name: &str, layout: &Layout) -> Result<[usize; R]> {
    layout
        .dims()
        .try_into()
        .map_err(|_| Error::Msg(format!("{name}: expected {R} dimensions, found {:?}", layout.dims())))
}

/// candle's operation, and inputs that have no gradient, behind the others.
pub(crate) struct Custom<K>(pub(crate) K, pub(crate) Vec<Tensor>);

impl<K: Op> Custom<K> {
    fn run_host(&self, storages: &[(&CpuStorage, &Layout)]) -> Result<(CpuStorage, Shape)> {
        let guards: Vec<_> = self.1.iter().map(Tensor::storage_and_layout).collect();
        let mut all = storages.to_vec();
        for (storage, layout) in &guards {
            match &**storage {
                Storage::Cpu(storage) => all.push((storage, layout)),
                _ => return Err(mixed(K::NAME)),
            }
        }
        match storages.first().map(|(storage, _)| self.0.dtype(storage.dtype())) {
            Some(DType::F32) => run_host::<K, f32>(&self.0, &all),
            Some(DType::F16) => run_host::<K, f16>(&self.0, &all),
            Some(DType::BF16) => run_host::<K, bf16>(&self.0, &all),
            _ => Err(Error::Msg(format!("{}: expected tensors of f32, f16 or bf16", K::NAME))),
        }
    }

    fn gradients(&self, inputs: &[&Tensor], result: &Tensor, grad: &Tensor) -> Result<std::vec::IntoIter<Tensor>> {
        let all: Vec<&Tensor> = inputs.iter().copied().chain(&self.1).collect();
        Ok(self.0.gradients(&all, result, &grad.contiguous()?)?.into_iter())
    }

    #[cfg(not(feature = "cuda"))]
    fn run_cuda(&self, _: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)> {
        Err(Error::NotCompiledWithCudaSupport)
    }

    #[cfg(feature = "cuda")]
    fn run_cuda(&self, storages: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)> {
        let guards: Vec<_> = self.1.iter().map(Tensor::storage_and_layout).collect();
        let mut all = storages.to_vec();
        for (storage, layout) in &guards {
            match &**storage {
                Storage::Cuda(storage) => all.push((storage, layout)),
                _ => return Err(mixed(K::NAME)),
            }
        }
        crate::cuda::run(&self.0, &all)
    }
}

fn run_host<K: Op + Kernel<T>, T: Typed>(
    kernel: &K,
    storages: &[(&CpuStorage, &Layout)],
) -> Result<(CpuStorage, Shape)> {
    static DEVICE: OnceLock<ptx_launch::Device> = OnceLock::new();
    let device = DEVICE.get_or_init(|| ptx_launch::Device::cpu().watch(false));
    let layouts: Vec<&Layout> = storages.iter().map(|(_, layout)| *layout).collect();
    let shape = kernel.shape(&layouts)?;
    let copies = storages.iter().map(|(storage, layout)| HostMemory::upload(device, storage, layout.start_offset()));
    let copies: Vec<HostMemory> = copies.collect::<Result<_>>()?;
    let inputs = copies.iter().zip(&layouts).map(|(memory, layout)| Input { memory: memory.view(), layout });
    let inputs: Vec<Input<'_>> = inputs.collect();
    let mut out = device.zeros::<T>(shape.elem_count()).map_err(Error::wrap)?;
    kernel.launch(&device.stream(), &inputs, out.view_mut()).map_err(|error| launched::<K>(&error))?;
    Ok((T::to_cpu_storage_owned(out.download().map_err(Error::wrap)?), shape))
}

/// An error of a launch, with the name of the operation.
pub(crate) fn launched<K: Op>(error: &ptx_launch::Error) -> Error {
    Error::Msg(format!("{}: {error}", K::NAME))
}

/// The error of an input that a launch was not made for.
pub(crate) fn missing(inputs: &[Input<'_>]) -> ptx_launch::Error {
    ptx_launch::Error::new(ErrorKind::Unsupported, format!("a launch with {} inputs", inputs.len()))
}

fn mixed(name: &str) -> Error {
    Error::Msg(format!("{name}: all tensors lie on one device"))
}

/// The tensor of a vector's part.
pub(crate) fn part(of: &Tensor, start: usize, like: &Tensor) -> Result<Tensor> {
    of.narrow(0, start, like.elem_count())?.reshape(like.shape())
}

impl<K: Op> CustomOp1 for Custom<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.run_host(&[(storage, layout)])
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.run_cuda(&[(storage, layout)])
    }

    fn bwd(&self, arg: &Tensor, result: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(self.gradients(&[arg], result, grad)?.next())
    }
}

impl<K: Op> CustomOp2 for Custom<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        self.run_host(&[(s1, l1), (s2, l2)])
    }

    fn cuda_fwd(&self, s1: &CudaStorage, l1: &Layout, s2: &CudaStorage, l2: &Layout) -> Result<(CudaStorage, Shape)> {
        self.run_cuda(&[(s1, l1), (s2, l2)])
    }

    fn bwd(&self, a: &Tensor, b: &Tensor, result: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let mut gradients = self.gradients(&[a, b], result, grad)?;
        Ok((gradients.next(), gradients.next()))
    }
}

impl<K: Op> CustomOp3 for Custom<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.run_host(&[(s1, l1), (s2, l2), (s3, l3)])
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
        s3: &CudaStorage,
        l3: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.run_cuda(&[(s1, l1), (s2, l2), (s3, l3)])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        result: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let mut gradients = self.gradients(&[a, b, c], result, grad)?;
        Ok((gradients.next(), gradients.next(), gradients.next()))
    }
}
