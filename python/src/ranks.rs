//! Collective operations and products over the ranks of a group of processes. `ptx_kernels/distributed.py` calls them; a number that Python chooses stands
//! for this process's rank of a group.
#![allow(unsafe_code, reason = "views of the caller's tensors")]

use ptx_ffi::prelude::*;
use ptx_kernels::comm::choice::{Means, Way, Work, choose};
use ptx_kernels::comm::{self, products};
use ptx_kernels::gemm::{self, Gemm};
use ptx_launch::{AsStream, Element, ProcessGroup, Rendezvous, Symmetric, SymmetricBuffer, View, ViewMut};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most allocations of symmetric memory that a rank keeps for later calls.
const KEPT: usize = 8;

/// Element types of the collective operations.
trait Summed: comm::Float + Send {}
impl<T: comm::Float + Send> Summed for T {}

/// Element types of products over the ranks.
trait Multiplied: Summed + products::Half + gemm::Operand + gemm::Output<Self> {}
impl<T: Summed + products::Half + gemm::Operand + gemm::Output<T>> Multiplied for T {}

/// A rank of a group.
struct Rank {
    group: ProcessGroup,
    collective: comm::Rank,
    /// For products of up to so many rows and columns.
    product: Option<([usize; 2], products::Rank)>,
    /// Symmetric memory of earlier calls, the latest last. All ranks have the same, since they make the same calls.
    kept: Vec<Box<dyn Any + Send>>,
}

/// The ranks of this process by their numbers.
static RANKS: Mutex<BTreeMap<i64, Arc<Mutex<Rank>>>> = Mutex::new(BTreeMap::new());

fn ranks() -> std::sync::MutexGuard<'static, BTreeMap<i64, Arc<Mutex<Rank>>>> {
    RANKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` with a rank, which no other thread uses meanwhile.
fn with<R>(number: i64, work: impl FnOnce(&mut Rank) -> Result<R>) -> Result<R> {
    let rank = ranks().get(&number).cloned().ok_or_else(|| {
        Error::new(ErrorKind::Condition, format!("rank: nothing has joined a group as number {number}"))
    })?;
    let result = work(&mut rank.lock().unwrap_or_else(PoisonError::into_inner));
    result
}

impl Rank {
    /// Calls `work` with symmetric memory of exactly `len` elements, which later calls find again.
    fn with_memory<T: Summed, R>(
        &mut self,
        len: usize,
        work: impl FnOnce(&mut Rank, &mut Symmetric<T>) -> Result<R>,
    ) -> Result<R> {
        let fits = |kept: &Box<dyn Any + Send>| kept.downcast_ref::<Symmetric<T>>().is_some_and(|x| x.len() == len);
        let found = self.kept.iter().position(fits).map(|at| self.kept.remove(at));
        let found = found.and_then(|kept| kept.downcast::<Symmetric<T>>().ok());
        let mut memory = match found {
            Some(memory) => memory,
            None => {
                self.kept.drain(..self.kept.len().saturating_sub(KEPT - 1));
                Box::new(SymmetricBuffer::join(&self.group, len)?)
            }
        };
        let result = work(self, &mut memory);
        self.kept.push(memory);
        result
    }

    /// A rank of products with up to so many rows and columns. All ranks make a larger one in the same call.
    fn product(&mut self, [m, n]: [usize; 2]) -> Result<&mut products::Rank> {
        let fits = |[rows, columns]: [usize; 2]| m <= rows && n <= columns;
        let made = match self.product.take().filter(|(most, _)| fits(*most)) {
            Some(made) => made,
            None => {
                let most = [m, n].map(usize::next_power_of_two);
                (most, products::Rank::join(&self.group, most)?)
            }
        };
        Ok(&mut self.product.insert(made).1)
    }

    /// Returns true if one kernel does this work.
    fn is_one_kernel(&self, stream: &Stream, work: Work) -> Result<bool> {
        let capability = stream.as_stream().properties()?.capability;
        let has_products = capability.is_none_or(|capability| (90..100).contains(&capability));
        let means = Means { ranks: self.group.ranks(), has_nccl: false, has_products };
        Ok(choose(work, means).is_some_and(|choice| choice.way == Way::Ours))
    }
}

/// Copies from a tensor whose elements lie side by side.
fn read<T: Element>(stream: &Stream, x: &TensorRef<'_, T, 1>, to: &mut Buffer<T>) -> Result<()> {
    check_line("x", x.is_contiguous())?;
    // SAFETY: the tensor has these elements, and outlives the copy.
    stream.copy(&unsafe { View::<T>::from_raw(stream, x.address(), x.shape()[0]) }, to)
}

/// Copies to a tensor whose elements lie side by side.
fn write<T: Element>(stream: &Stream, from: &Buffer<T>, out: &TensorMut<'_, T, 1>) -> Result<()> {
    check_line("out", out.is_contiguous())?;
    // SAFETY: as above, and it is the caller's to write.
    stream.copy(from, &mut unsafe { ViewMut::<T>::from_raw(stream, out.address(), out.shape()[0]) })
}

fn check_line(name: &str, is_line: bool) -> Result<()> {
    if is_line {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Condition, format!("{name}: expected a contiguous tensor")))
    }
}

/// The file where processes meet, this one's number among them, and the seconds that it waits for the others.
#[derive(ptx_ffi::Args)]
struct Meeting<'a> {
    path: &'a str,
    rank: i64,
    ranks: i64,
    patience: f64,
}

/// Joins a group of processes as a rank that later calls name by `number`. `place` is any tensor on the rank's device.
#[ptx_ffi::export]
fn ranks_join(
    stream: &Stream,
    place: TensorMut<'_, u8, 1>,
    number: i64,
    Meeting { path, rank, ranks, patience }: Meeting<'_>,
) -> Result<()> {
    let _ = place;
    let patience = Duration::try_from_secs_f64(patience)
        .map_err(|_| Error::new(ErrorKind::Condition, format!("timeout: {patience} is no number of seconds")))?;
    let of = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    let meeting = Rendezvous::at(path, of(rank), of(ranks)).patience(patience);
    let group = ProcessGroup::join(&stream.device(), &meeting)?;
    let collective = comm::Rank::join(&group)?;
    let made = Rank { group, collective, product: None, kept: Vec::new() };
    self::ranks().insert(number, Arc::new(Mutex::new(made)));
    Ok(())
}

/// Leaves a group.
#[ptx_ffi::export]
fn ranks_leave(_stream: &Stream, place: TensorMut<'_, u8, 1>, number: i64) -> Result<()> {
    let _ = place;
    drop(ranks().remove(&number));
    Ok(())
}

/// `out` = the sum of `x` over all ranks.
#[ptx_ffi::export(types = [f32, f16, bf16])]
fn ranks_all_reduce<T: Summed>(
    stream: &Stream,
    x: TensorRef<'_, T, 1>,
    out: TensorMut<'_, T, 1>,
    number: i64,
) -> Result<()> {
    with(number, |rank| {
        let len = x.shape()[0];
        rank.with_memory::<T, _>(len, |rank, memory| {
            read(stream, &x, memory)?;
            comm::all_reduce(stream, &mut rank.collective, memory)?;
            write(stream, memory, &out)
        })
    })
}

/// `out` = this rank's part of the sum of `x` over all ranks.
#[ptx_ffi::export(types = [f32, f16, bf16])]
fn ranks_reduce_scatter<T: Summed>(
    stream: &Stream,
    x: TensorRef<'_, T, 1>,
    out: TensorMut<'_, T, 1>,
    number: i64,
) -> Result<()> {
    with(number, |rank| {
        rank.with_memory::<T, _>(x.shape()[0], |rank, memory| {
            read(stream, &x, memory)?;
            comm::reduce_scatter(stream, &mut rank.collective, memory, out)
        })
    })
}

/// `out` = `x` of all ranks, in their order.
#[ptx_ffi::export(types = [f32, f16, bf16])]
fn ranks_all_gather<T: Summed>(
    stream: &Stream,
    x: TensorRef<'_, T, 1>,
    out: TensorMut<'_, T, 1>,
    number: i64,
) -> Result<()> {
    with(number, |rank| {
        rank.with_memory::<T, _>(out.shape()[0], |rank, memory| {
            comm::all_gather(stream, &mut rank.collective, x, memory)?;
            write(stream, memory, &out)
        })
    })
}

/// `out` = this rank's rows of the sum of `a · b` over all ranks.
#[ptx_ffi::export(types = [f16, bf16])]
fn ranks_matmul_reduce_scatter<T: Multiplied>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    mut out: TensorMut<'_, T, 2>,
    number: i64,
) -> Result<()> {
    let ([m, k], n) = (a.shape(), b.shape()[1]);
    with(number, |rank| {
        if is_along_k(&b) && rank.is_one_kernel(stream, Work::GemmReduceScatter([m, n, k]))? {
            return products::gemm_reduce_scatter(stream, rank.product([m, n])?, a, b, out);
        }
        rank.with_memory::<T, _>(m * n, |rank, memory| {
            Gemm::new().run(stream, a, b, memory.tile_mut([m, n])?)?;
            let out = line(&mut out, stream)?;
            let len = out.len();
            comm::reduce_scatter(stream, &mut rank.collective, memory, TensorMut::strided(out, [len], [1])?)
        })
    })
}

/// `out` = the sum of `a · b` over all ranks.
#[ptx_ffi::export(types = [f16, bf16])]
fn ranks_matmul_all_reduce<T: Multiplied>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    mut out: TensorMut<'_, T, 2>,
    number: i64,
) -> Result<()> {
    let ([m, k], n) = (a.shape(), b.shape()[1]);
    with(number, |rank| {
        let is_one_kernel = is_along_k(&b) && rank.is_one_kernel(stream, Work::GemmAllReduce([m, n, k]))?;
        rank.with_memory::<T, _>(m * n, |rank, memory| {
            if is_one_kernel {
                products::gemm_all_reduce(stream, rank.product([m, n])?, a, b, memory)?;
            } else {
                Gemm::new().run(stream, a, b, memory.tile_mut([m, n])?)?;
                comm::all_reduce(stream, &mut rank.collective, memory)?;
            }
            stream.copy(&**memory, &mut line(&mut out, stream)?)
        })
    })
}

/// `out` = the rows of all ranks times `b`. `x` has those of this rank.
#[ptx_ffi::export(types = [f16, bf16])]
fn ranks_all_gather_matmul<T: Multiplied>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    out: TensorMut<'_, T, 2>,
    number: i64,
) -> Result<()> {
    let ([rows, k], n) = (x.shape(), b.shape()[1]);
    with(number, |rank| {
        let m = rows * rank.group.ranks();
        let is_one_kernel = is_along_k(&b) && rank.is_one_kernel(stream, Work::AllGatherGemm([m, n, k]))?;
        check_line("x", x.is_contiguous())?;
        let start = rank.group.rank() * rows * k;
        rank.with_memory::<T, _>(m * k, |rank, memory| {
            // SAFETY: the tensor has these elements, and outlives the work.
            let own = || unsafe { View::<T>::from_raw(stream, x.address(), rows * k) };
            if is_one_kernel {
                stream.copy(&own(), &mut memory.slice_mut(start..start + rows * k)?)?;
                return products::all_gather_gemm(stream, rank.product([m, n])?, memory, b, out);
            }
            let own = TensorRef::strided(own(), [rows * k], [1])?;
            comm::all_gather(stream, &mut rank.collective, own, memory)?;
            Gemm::new().run(stream, memory.tile([m, k])?, b, out)
        })
    })
}

/// Returns true if the elements along K lie side by side, as the products that communicate take them.
fn is_along_k<T>(b: &TensorRef<'_, T, 2>) -> bool {
    b.strides()[0] == 1 && b.strides()[1] >= b.shape()[0]
}

/// The elements of a matrix as one line.
fn line<'s, T: Element>(out: &mut TensorMut<'_, T, 2>, stream: &'s Stream) -> Result<ViewMut<'s, T>> {
    check_line("out", out.is_contiguous())?;
    let [rows, columns] = out.shape();
    // SAFETY: the tensor has these elements, outlives the work, and is the caller's to write.
    Ok(unsafe { ViewMut::<T>::from_raw(stream, out.address(), rows * columns) })
}
