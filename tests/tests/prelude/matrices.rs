//! `matrix`, `wgmma`, `epilogue` and `vector`: fragments, descriptors of every layout, converted rows.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Twice 16 × 16 times 16 × 8, with B by columns and by rows; then A through registers and back.
#[ptx_kernel(
    arch = "sm_90",
    block = 32,
    grid = 1,
    unsafe(requires(a.len() >= 256, b.len() >= 128, b_turned.len() >= 128, sums.len() >= 128, copy.len() >= 256))
)]
pub fn fragments(a: &[bf16], b: &[bf16], b_turned: &[bf16], sums: &mut [f32], copy: &mut [bf16]) {
    #[shared(align = 16)]
    let tile: [bf16; 256];
    #[shared(align = 16)]
    let other: [bf16; 128];
    #[shared(align = 16)]
    let turned_other: [bf16; 128];
    #[shared(align = 16)]
    let back: [bf16; 256];
    let piece: u32 = tid.x * 16;
    cp_async::copy16(tile + piece, a + piece as u64);
    if tid.x < 16 {
        cp_async::copy16(other + piece, b + piece as u64);
        cp_async::copy16(turned_other + piece, b_turned + piece as u64);
    }
    cp_async::commit();
    cp_async::wait::<0>();
    warp::sync();
    let row: u32 = (tid.x & 15) * 32 + (tid.x >> 4) * 16;
    let left: [b32; 4] = matrix::load_x4(tile + row);
    let right: [b32; 2] = matrix::load_x2(other + ((tid.x & 7) * 32 + ((tid.x >> 3) & 1) * 16));
    let mut sum: [f32; 4] = [0.0; 4];
    matrix::multiply::<bf16>(&mut sum, left, right);
    // The same again, of B by rows.
    matrix::multiply::<bf16>(&mut sum, left, matrix::load_x2_transposed(turned_other + (tid.x & 15) * 16));
    let to: u64 = sums + (wide(tid.x >> 2) * 32 + wide(tid.x & 3) * 8);
    ptx! {
        st.global.v2.f32 [to], {sum[0], sum[1]};
        st.global.v2.f32 [to + 256], {sum[2], sum[3]};
    }
    // To shared memory, and there and back once more by way of the transpose.
    matrix::store_x4(back + row, left);
    warp::sync();
    let turned: [b32; 4] = matrix::load_x4_transposed(back + row);
    warp::sync();
    matrix::store_x4_transposed(back + row, turned);
    warp::sync();
    let (mut word, from, at): ([b32; 4], u32, u64) = ([0; 4], back + piece, copy + piece as u64);
    ptx! {
        ld.shared.v4.b32 {word[..]}, [from];
        st.global.v4.b32 [at], {word[..]};
    }
}

fn numbers(count: usize, seed: usize) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32(((i * 37 + seed) % 17) as f32 - 8.0)).collect()
}

#[ptx_test(seeds = 2)]
fn fragments_are_multiplied_and_come_back(device: &Device) -> Result<()> {
    let (a, b) = (numbers(256, 3), numbers(128, 5));
    let (mut sums, mut copy) = (device.zeros::<f32>(128)?, device.zeros::<bf16>(256)?);
    let turned: Vec<bf16> = (0..128).map(|at| b[at % 8 * 16 + at / 8]).collect();
    let [x, y, z] = [&a, &b, &turned].map(|matrix| device.upload(matrix));
    fragments(device, &x?, &y?, &z?, &mut sums, &mut copy)?;
    assert_eq!(sums.download()?, products(&a, &b, 16, 8, 16).into_iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    assert_eq!(copy.download()?, a);
    Ok(())
}

/// A (M × K) times B (N × K) transposed.
fn products(a: &[bf16], b: &[bf16], m: usize, n: usize, k: usize) -> Vec<f32> {
    let dot = |i: usize, j: usize| (0..k).map(|at| a[i * k + at].to_f32() * b[j * k + at].to_f32()).sum();
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| dot(i, j)).collect()
}

/// 64 × 16 times 16 × 64 with operands that lie in shared memory as `MN` and `SWIZZLE` say.
#[ptx_kernel(
    arch = "sm_90a",
    block = 128,
    grid = 1,
    instances = [(0, 0), (0, 32), (0, 64), (0, 128), (1, 0), (1, 32), (1, 64), (1, 128)],
    unsafe(requires(a.len() >= 8192, b.len() >= 8192, sums.len() >= 4096))
)]
pub fn layouts<const MN: u32, const SWIZZLE: u32>(a: &[u8], b: &[u8], sums: &mut [f32]) {
    #[shared(align = 1024)]
    let left: [u8; 8192];
    #[shared(align = 1024)]
    let right: [u8; 8192];
    #[shared]
    let bar: u64;
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        mbarrier::arrive_expect(bar, 16384);
        bulk::load(left, a, 8192, bar);
        bulk::load(right, b, 8192, bar);
    }
    block::sync();
    mbarrier::wait(bar, 0);
    let mut acc: [f32; 32] = [0.0; 32];
    let never: pred = false;
    let (x, y): (u64, u64) = (describe(left), describe(right));
    wgmma::fence();
    wgmma::multiply16::<bf16, 64, 0, MN, MN>(&mut acc, x, y, never);
    wgmma::commit();
    wgmma::wait::<0>();
    epilogue::store_pairs(&acc, tid.x, sums, 256, 64, 64);

    fn describe(tile: u32) -> u64 {
        if SWIZZLE == 0 {
            // Core matrices of 128 bytes: two along K, eight along M and N.
            if MN == 0 {
                wgmma::descriptor_plain::<0, 128, 256>(tile)
            } else {
                wgmma::descriptor_plain::<1, 128, 1024>(tile)
            }
        } else if MN == 0 {
            wgmma::descriptor_k::<SWIZZLE>(tile)
        } else {
            wgmma::descriptor_mn::<SWIZZLE, { 16 * SWIZZLE }>(tile)
        }
    }
}

/// Offset of element (`mn`, `k`) of a 64 × 16 tile, in bytes.
fn place(by_mn: bool, swizzle: usize, mn: usize, k: usize) -> usize {
    let swizzled = |at: usize| at ^ (at >> 3 & (swizzle - 1) & 0x70);
    match (by_mn, swizzle) {
        (false, 0) => mn / 8 * 256 + k / 8 * 128 + mn % 8 * 16 + k % 8 * 2,
        (true, 0) => mn / 8 * 128 + k / 8 * 1024 + k % 8 * 16 + mn % 8 * 2,
        (false, _) => swizzled(mn * swizzle + 2 * k),
        (true, _) => swizzled(2 * mn / swizzle * 16 * swizzle + k * swizzle + 2 * mn % swizzle),
    }
}

fn image(matrix: &[bf16], by_mn: bool, swizzle: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    for (at, x) in matrix.iter().enumerate() {
        let to = place(by_mn, swizzle, at / 16, at % 16);
        bytes[to..to + 2].copy_from_slice(&x.to_bits().to_le_bytes());
    }
    bytes
}

type Layout = fn(&Device, &Buffer<u8>, &Buffer<u8>, &mut Buffer<f32>) -> Result<()>;

#[ptx_test(seeds = 1)]
fn descriptors_say_every_layout(device: &Device) -> Result<()> {
    const LAYOUTS: [(bool, usize, Layout); 8] = [
        (false, 0, |d, a, b, c| layouts::<0, 0>(d, a, b, c)),
        (false, 32, |d, a, b, c| layouts::<0, 32>(d, a, b, c)),
        (false, 64, |d, a, b, c| layouts::<0, 64>(d, a, b, c)),
        (false, 128, |d, a, b, c| layouts::<0, 128>(d, a, b, c)),
        (true, 0, |d, a, b, c| layouts::<1, 0>(d, a, b, c)),
        (true, 32, |d, a, b, c| layouts::<1, 32>(d, a, b, c)),
        (true, 64, |d, a, b, c| layouts::<1, 64>(d, a, b, c)),
        (true, 128, |d, a, b, c| layouts::<1, 128>(d, a, b, c)),
    ];
    let (a, b) = (numbers(1024, 2), numbers(1024, 9));
    let expected = products(&a, &b, 64, 64, 16);
    for (by_mn, swizzle, launch) in LAYOUTS {
        let mut sums = device.zeros::<f32>(4096)?;
        let [x, y] = [&a, &b].map(|matrix| device.upload(&image(matrix, by_mn, swizzle)));
        launch(device, &x?, &y?, &mut sums)?;
        assert_eq!(sums.download()?, expected, "MN-major: {by_mn}, swizzle {swizzle}");
    }
    Ok(())
}

/// 64 × 64 times 64 × 64, K-major in rows of 128 swizzled bytes; A goes through registers.
#[ptx_kernel(arch = "sm_90a", block = 128, grid = 1, unsafe(requires(a.len() >= 8192, b.len() >= 8192, sums.len() >= 4096)))]
pub fn by_registers(a: &[u8], b: &[u8], sums: &mut [f32]) {
    #[shared(align = 1024)]
    let left: [u8; 8192];
    #[shared(align = 1024)]
    let right: [u8; 8192];
    #[shared]
    let bar: u64;
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        mbarrier::arrive_expect(bar, 16384);
        bulk::load(left, a, 8192, bar);
        bulk::load(right, b, 8192, bar);
    }
    block::sync();
    mbarrier::wait(bar, 0);
    let mut acc: [f32; 32] = [0.0; 32];
    let row: u32 = (tid.x >> 5) * 16 + (tid.x & 15);
    let fragments: [[b32; 4]; 4];
    for step in 0..4 {
        let piece: u32 = (2 * step + ((tid.x >> 4) & 1)) ^ (row & 7);
        fragments[step] = matrix::load_x4(left + row * 128 + piece * 16);
    }
    let (mut from, always): (u64, pred) = (wgmma::descriptor_k128(right), true);
    wgmma::fence();
    for step in 0..4 {
        wgmma::multiply16_registers::<bf16, 64, 0, 0>(&mut acc, fragments[step], from, always);
        from = wgmma::advance::<32>(from);
    }
    wgmma::commit();
    wgmma::wait::<0>();
    epilogue::store_pairs(&acc, tid.x, sums, 256, 64, 64);
}

#[ptx_test(seeds = 1)]
fn an_operand_may_come_from_registers(device: &Device) -> Result<()> {
    let (a, b) = (numbers(4096, 4), numbers(4096, 6));
    let image = |matrix: &[bf16]| {
        let mut bytes = vec![0; 8192];
        for (at, x) in matrix.iter().enumerate() {
            let to = place(false, 128, at / 64, at % 64);
            bytes[to..to + 2].copy_from_slice(&x.to_bits().to_le_bytes());
        }
        device.upload(&bytes)
    };
    let mut sums = device.zeros::<f32>(4096)?;
    by_registers(device, &image(&a)?, &image(&b)?, &mut sums)?;
    assert_eq!(sums.download()?, products(&a, &b, 64, 64, 64));
    Ok(())
}

/// Rows as they come, and rows as `bf16` of twice the value.
#[ptx_kernel(
    arch = "sm_80",
    block = 32,
    grid = 1,
    instances = [(f32, 1), (f32, 2), (f32, 4), (bf16, 1), (bf16, 2), (bf16, 4), (bf16, 8)],
    unsafe(requires(x.len() >= 32 * EACH, out.len() >= 32 * EACH))
)]
pub fn rows<T, const EACH: u32>(x: &[T], out: &mut [T], count: u32) {
    const BYTES: u32 = EACH * size_of::<T>();
    let inside: pred = tid.x < count;
    let (from, to): (u64, u64) = (x + wide(tid.x) * BYTES, out + wide(tid.x) * BYTES);
    let mut plain: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(from, inside, 0));
    let once: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(vector::load_once::<T, EACH>(from, inside, 0));
    let shared: [f32; EACH] = vector::unpack_again::<T, EACH, 2>(vector::load_shared::<T, EACH>(from, inside));
    for i in 0..EACH {
        plain[i] = plain[i] + once[i] + shared[i];
    }
    vector::store_kept::<T, EACH>(to, vector::pack::<T, EACH>(once), inside);
    vector::store::<T, EACH>(to, vector::pack::<T, EACH>(plain), inside);
}

#[ptx_test(seeds = 1)]
fn rows_are_read_and_written_by_vectors(device: &Device) -> Result<()> {
    let x: Vec<f32> = (0..256).map(|i| (i % 19) as f32 - 9.0).collect();
    let tripled = |count: usize| (0..256).map(|i| if i < count { 3.0 * x[i] } else { 0.0 }).collect::<Vec<f32>>();
    let singles = device.upload(&x)?;
    let halves = device.upload(&x.iter().copied().map(bf16::from_f32).collect::<Vec<_>>())?;
    assert_eq!(written(device, |out| rows::<f32, 1>(device, &singles, out, 30))?, tripled(30));
    assert_eq!(written(device, |out| rows::<f32, 2>(device, &singles, out, 30))?, tripled(60));
    assert_eq!(written(device, |out| rows::<f32, 4>(device, &singles, out, 30))?, tripled(120));
    let exact = |count| tripled(count).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    assert_eq!(written(device, |out| rows::<bf16, 1>(device, &halves, out, 31))?, exact(31));
    assert_eq!(written(device, |out| rows::<bf16, 2>(device, &halves, out, 31))?, exact(62));
    assert_eq!(written(device, |out| rows::<bf16, 4>(device, &halves, out, 31))?, exact(124));
    assert_eq!(written(device, |out| rows::<bf16, 8>(device, &halves, out, 31))?, exact(248));
    Ok(())
}

/// The 256 values after a launch on zeros.
fn written<T: KernelParam + Default>(
    device: &Device,
    launch: impl FnOnce(&mut Buffer<T>) -> Result<()>,
) -> Result<Vec<T>> {
    let mut out = device.zeros::<T>(256)?;
    launch(&mut out)?;
    out.download()
}
