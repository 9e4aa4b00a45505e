//! The thirteen `tcgen05` instructions one by one: each kernel shows one of them, and the host checks what it did.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs them; nobody has measured them here.

use ptx_examples::blackwell::{self, NO_FIGURE};
use ptx_examples::{Report, timer};
use ptx_launch::prelude::*;

/// The kernels: one block of 128 threads each, which reach all 128 lanes of tensor memory. Each thread writes eight words.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// Rows of A and of D, columns of B and of D.
    const M: u32 = 128;
    const N: u32 = 8;

    /// What a product of `f16` is told: types, M and N. A constant.
    fn sizes() -> u32 {
        tcgen05::idesc(tcgen05::F16, tcgen05::F16, tcgen05::SUM_F32, M, N)
    }

    /// A warp allocates 32 columns; all threads get the address.
    fn begin() -> u32 {
        #[shared]
        let slot: u32;
        if tid.x < 32 {
            tcgen05::alloc::<1, 32>(slot);
        }
        block::sync();
        tcgen05::address(slot)
    }

    /// The same warp gives them back, when all are done.
    fn end(taddr: u32) {
        block::sync();
        if tid.x < 32 {
            tcgen05::dealloc::<1, 32>(taddr);
        }
    }

    /// A thread's eight words.
    fn write<T>(out: u64, words: [T; 8]) {
        let to: u64 = out + wide(tid.x) * 32;
        ptx! {
            st.global.v4.b32 [to], {words[0..4]};
            st.global.v4.b32 [to + 16], {words[4..8]};
        }
    }

    /// A thread's lane, eight columns: 8 · thread + column.
    fn numbers() -> [u32; 8] {
        let words: [u32; 8];
        for i in 0..8 {
            words[i] = tid.x * 8 + i;
        }
        words
    }

    /// Writes `numbers` to the first eight columns.
    fn fill(taddr: u32) {
        let words: [u32; 8] = numbers();
        tcgen05::store(tcgen05::quarter(taddr), words);
        tcgen05::wait_store();
    }

    /// Reads the first eight columns and writes them out.
    fn show(taddr: u32, out: u64) {
        let words: [b32; 8] = tcgen05::load::<b32, 8>(tcgen05::quarter(taddr));
        write(out, words);
    }

    /// A row of 16 `f16` without swizzle: two chunks of 16 bytes, 128 bytes apart; element k is (row · `factor` + k) % 4.
    fn row(matrix: u32, row: u32, factor: u32) {
        let at: u32 = matrix + (row >> 3) * 256 + (row & 7) * 16;
        for chunk in 0..2 {
            let halves: [f16; 8];
            let pairs: [b32; 4];
            for i in 0..8 {
                let value: u32 = (row * factor + (8 * chunk + i)) & 3;
                ptx! { cvt.rn.f16.u32 halves[i], value; }
            }
            for i in 0..4 {
                ptx! { mov.b32 pairs[i], {halves[2 * i], halves[2 * i + 1]}; }
            }
            ptx! { st.shared.v4.b32 [at + 128 * chunk], {pairs[..]}; }
        }
    }

    /// A (128 × 16) and B (8 × 16) in shared memory, visible to the tensor cores, and a barrier for one arrival.
    fn factors(a: u32, b: u32, bar: u32) {
        row(a, tid.x, 1);
        if tid.x < N {
            row(b, tid.x, 3);
        }
        if tid.x == 0 {
            mbarrier::init(bar, 1);
        }
        tma::fence();
        block::sync();
    }

    /// The descriptor of such a matrix.
    fn described(matrix: u32) -> u64 {
        tcgen05::descriptor::<128, 256, 0>(matrix)
    }

    /// 1. `tcgen05.alloc`: two allocations stand side by side.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn alloc(#[align(16)] out: &mut [u32]) {
        #[shared]
        let slots: [u32; 2];
        if tid.x < 32 {
            ptx! {
                tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots], 64;
                tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots + 4], 32;
            }
            let (first, second): (u32, u32) = (tcgen05::address(slots), tcgen05::address(slots + 4));
            if tid.x == 0 {
                ptx! { st.global.v2.u32 [out], {first, second}; }
            }
            warp::sync();
            tcgen05::dealloc::<1, 32>(second);
            tcgen05::dealloc::<1, 64>(first);
        }
    }

    /// 2. `tcgen05.dealloc`: all 512 columns, sixteen times; without it, the second allocation would wait for ever.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn dealloc(#[align(16)] out: &mut [u32]) {
        #[shared]
        let slot: u32;
        if tid.x < 32 {
            let mut times: u32 = 0;
            while times < 16 {
                tcgen05::alloc::<1, 512>(slot);
                let taddr: u32 = tcgen05::address(slot);
                ptx! { tcgen05.dealloc.cta_group::1.sync.aligned.b32 taddr, 512; }
                times += 1;
            }
            if tid.x == 0 {
                ptx! { st.global.u32 [out], times; }
            }
        }
    }

    /// 3. `tcgen05.relinquish_alloc_permit`: what is allocated stays; another block may now allocate.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn relinquish_alloc_permit(#[align(16)] out: &mut [u32]) {
        let taddr: u32 = begin();
        if tid.x < 32 {
            ptx! { tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; }
        }
        fill(taddr);
        show(taddr, out);
        end(taddr);
    }

    /// 4. `tcgen05.st`: a warp writes 16 lanes of 256 bits, four registers a thread; then the other 16 lanes.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn st(#[align(16)] out: &mut [u32]) {
        let taddr: u32 = begin();
        let lanes: u32 = tcgen05::quarter(taddr);
        let words: [u32; 8] = numbers();
        ptx! {
            tcgen05.st.sync.aligned.16x256b.x1.b32 [lanes], {words[0..4]};
            tcgen05.st.sync.aligned.16x256b.x1.b32 [lanes + 0x100000], {words[4..8]};
        }
        tcgen05::wait_store();
        show(taddr, out);
        end(taddr);
    }

    /// 5. `tcgen05.ld`: the same shape, read; what a thread gets is what it wrote above.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn ld(#[align(16)] out: &mut [u32]) {
        let taddr: u32 = begin();
        let lanes: u32 = tcgen05::quarter(taddr);
        fill(taddr);
        let words: [u32; 8];
        ptx! {
            tcgen05.ld.sync.aligned.16x256b.x1.b32 {words[0..4]}, [lanes];
            tcgen05.ld.sync.aligned.16x256b.x1.b32 {words[4..8]}, [lanes + 0x100000];
        }
        tcgen05::wait_load();
        write(out, words);
        end(taddr);
    }

    /// 6. `tcgen05.wait::st`: eight stores on their way, one wait, and they can be read.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn wait_st(#[align(16)] out: &mut [u32]) {
        let taddr: u32 = begin();
        let lanes: u32 = tcgen05::quarter(taddr);
        let words: [u32; 8] = numbers();
        for i in 0..8 {
            ptx! { tcgen05.st.sync.aligned.32x32b.x1.b32 [lanes + i], {words[7 - i]}; }
        }
        ptx! { tcgen05.wait::st.sync.aligned; }
        show(taddr, out);
        end(taddr);
    }

    /// 7. `tcgen05.wait::ld`: eight loads on their way, one wait, and their registers can be read.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn wait_ld(#[align(16)] out: &mut [u32]) {
        let taddr: u32 = begin();
        let lanes: u32 = tcgen05::quarter(taddr);
        fill(taddr);
        let words: [u32; 8];
        for i in 0..8 {
            ptx! { tcgen05.ld.sync.aligned.32x32b.x1.b32 {words[7 - i]}, [lanes + i]; }
        }
        ptx! { tcgen05.wait::ld.sync.aligned; }
        write(out, words);
        end(taddr);
    }

    /// 8. `tcgen05.cp`: 128 rows of 32 bytes from shared memory, by one thread.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn cp(#[align(16)] out: &mut [u32]) {
        #[shared(align = 128)]
        let rows: [u32; 1024];
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        let words: [u32; 8] = numbers();
        let at: u32 = rows + (tid.x >> 3) * 256 + (tid.x & 7) * 16;
        ptx! {
            st.shared.v4.b32 [at], {words[0..4]};
            st.shared.v4.b32 [at + 128], {words[4..8]};
        }
        if tid.x == 0 {
            mbarrier::init(bar, 1);
        }
        tma::fence();
        block::sync();
        if tid.x == 0 {
            let from: u64 = described(rows);
            ptx! { tcgen05.cp.cta_group::1.128x256b [taddr], from; }
            tcgen05::commit::<1>(bar);
        }
        mbarrier::wait(bar, 0);
        tcgen05::fence_after();
        show(taddr, out);
        end(taddr);
    }

    /// 9. `tcgen05.shift`: in the first 32 lanes, each gets what the next one has.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn shift(#[align(16)] out: &mut [u32]) {
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        fill(taddr);
        if tid.x == 0 {
            mbarrier::init(bar, 1);
        }
        tcgen05::fence_before();
        block::sync();
        if tid.x == 0 {
            tcgen05::fence_after();
            ptx! { tcgen05.shift.cta_group::1.down [taddr]; }
            tcgen05::commit::<1>(bar);
        }
        mbarrier::wait(bar, 0);
        tcgen05::fence_after();
        show(taddr, out);
        end(taddr);
    }

    /// 10. `tcgen05.mma`: one thread multiplies 128 × 16 by 16 × 8.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn mma(#[align(16)] out: &mut [u32]) {
        #[shared(align = 128)]
        let a: [f16; 2048];
        #[shared(align = 128)]
        let b: [f16; 128];
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        factors(a, b, bar);
        if tid.x == 0 {
            let (left, right): (u64, u64) = (described(a), described(b));
            let (sums, sizes): (b32, u32) = (taddr as b32, sizes());
            let accumulate: pred = false;
            ptx! { tcgen05.mma.cta_group::1.kind::f16 [sums], left, right, sizes, accumulate; }
            tcgen05::commit::<1>(bar);
        }
        mbarrier::wait(bar, 0);
        tcgen05::fence_after();
        show(taddr, out);
        end(taddr);
    }

    /// 11. `tcgen05.commit`: two products, one commit; the barrier's phase ends when both are complete.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn commit(#[align(16)] out: &mut [u32]) {
        #[shared(align = 128)]
        let a: [f16; 2048];
        #[shared(align = 128)]
        let b: [f16; 128];
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        factors(a, b, bar);
        if tid.x == 0 {
            let (left, right): (u64, u64) = (described(a), described(b));
            tcgen05::mma::<1, "kind::f16">(taddr, left, right, sizes(), false);
            tcgen05::mma::<1, "kind::f16">(taddr, left, right, sizes(), true);
            ptx! { tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]; }
        }
        mbarrier::wait(bar, 0);
        tcgen05::fence_after();
        show(taddr, out);
        end(taddr);
    }

    /// 12. `tcgen05.fence::before_thread_sync`: what four warps stored is there before the product of a fifth party adds to it.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn fence_before(#[align(16)] out: &mut [u32]) {
        #[shared(align = 128)]
        let a: [f16; 2048];
        #[shared(align = 128)]
        let b: [f16; 128];
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        let start: [f32; 8];
        for i in 0..8 {
            start[i] = tid.x as f32;
        }
        tcgen05::store(tcgen05::quarter(taddr), start);
        tcgen05::wait_store();
        ptx! { tcgen05.fence::before_thread_sync; }
        factors(a, b, bar);
        if tid.x == 0 {
            tcgen05::fence_after();
            tcgen05::mma::<1, "kind::f16">(taddr, described(a), described(b), sizes(), true);
            tcgen05::commit::<1>(bar);
        }
        mbarrier::wait(bar, 0);
        tcgen05::fence_after();
        show(taddr, out);
        end(taddr);
    }

    /// 13. `tcgen05.fence::after_thread_sync`: warps read what another thread multiplied, when they have seen its barrier.
    #[ptx_kernel(block = 128, grid = 1, unsafe(requires(out.len() >= 1024)))]
    pub fn fence_after(#[align(16)] out: &mut [u32]) {
        #[shared(align = 128)]
        let a: [f16; 2048];
        #[shared(align = 128)]
        let b: [f16; 128];
        #[shared]
        let bar: u64;
        let taddr: u32 = begin();
        factors(a, b, bar);
        if tid.x == 96 {
            tcgen05::mma::<1, "kind::f16">(taddr, described(a), described(b), sizes() | tcgen05::NEGATE_A, false);
            tcgen05::commit::<1>(bar);
        }
        mbarrier::wait(bar, 0);
        ptx! { tcgen05.fence::after_thread_sync; }
        show(taddr, out);
        end(taddr);
    }
}

use kernels::mma;

/// A kernel with one output.
type Launch = fn(&Stream, &mut Buffer<u32>) -> ptx_launch::Result<()>;
/// What the words of thread `t` are; nothing where a kernel writes less.
type Words = fn(usize) -> [u32; 8];

/// Word `i` of thread `t` where they are numbered.
fn number(t: usize, i: usize) -> u32 {
    (8 * t + i) as u32
}

/// Where register `i` of thread `t` stands in the lanes of its warp, for two shapes of `.16x256b`: lane and column.
fn fragment(t: usize, i: usize) -> (usize, usize) {
    (t / 32 * 32 + i / 4 * 16 + i % 4 / 2 * 8 + t % 32 / 4, t % 4 * 2 + i % 2)
}

/// The element of A · B that the kernels multiply.
fn product(m: usize, n: usize) -> f32 {
    (0..16).map(|k| ((m + k) % 4 * ((3 * n + k) % 4)) as f32).sum()
}

fn bits(value: impl Fn(usize) -> f32) -> [u32; 8] {
    std::array::from_fn(|n| value(n).to_bits())
}

/// What each kernel leaves, in the order of their numbers.
#[rustfmt::skip]
const KERNELS: [(Launch, Words); 13] = [
    (|s, out| kernels::alloc(s, out), |t| if t == 0 { [0, 64, 0, 0, 0, 0, 0, 0] } else { [0; 8] }),
    (|s, out| kernels::dealloc(s, out), |t| if t == 0 { [16, 0, 0, 0, 0, 0, 0, 0] } else { [0; 8] }),
    (|s, out| kernels::relinquish_alloc_permit(s, out), |t| std::array::from_fn(|i| number(t, i))),
    (|s, out| kernels::st(s, out), |lane| std::array::from_fn(|column| {
        let all = (0..128).flat_map(|t| (0..8).map(move |i| (t, i)));
        all.into_iter().find(|(t, i)| fragment(*t, *i) == (lane, column)).map_or(0, |(t, i)| number(t, i))
    })),
    (|s, out| kernels::ld(s, out), |t| std::array::from_fn(|i| { let (lane, column) = fragment(t, i); number(lane, column) })),
    (|s, out| kernels::wait_st(s, out), |t| std::array::from_fn(|i| number(t, 7 - i))),
    (|s, out| kernels::wait_ld(s, out), |t| std::array::from_fn(|i| number(t, 7 - i))),
    (|s, out| kernels::cp(s, out), |t| std::array::from_fn(|i| number(t, i))),
    (|s, out| kernels::shift(s, out), |t| std::array::from_fn(|i| number(if t < 31 { t + 1 } else { t }, i))),
    (|s, out| mma(s, out), |t| bits(|n| product(t, n))),
    (|s, out| kernels::commit(s, out), |t| bits(|n| 2.0 * product(t, n))),
    (|s, out| kernels::fence_before(s, out), |t| bits(|n| t as f32 + product(t, n))),
    (|s, out| kernels::fence_after(s, out), |t| bits(|n| -product(t, n))),
];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let stream = device.stream();
    let mut wrong = 0;
    for (launch, expected) in KERNELS {
        let mut out = device.zeros::<u32>(1024)?;
        launch(&stream, &mut out)?;
        let expected = (0..128).flat_map(expected);
        wrong += out.download()?.into_iter().zip(expected).filter(|(found, word)| found != word).count();
    }
    let mut out = device.zeros::<u32>(1024)?;
    let time = timer(device).measure(&stream, || mma(&stream, &mut out))?.median();
    Ok(Report {
        name: "blackwell_primitives",
        device: device.name().to_owned(),
        size: "13 instructions".into(),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: NO_FIGURE.into(),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
