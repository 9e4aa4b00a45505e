//! TFLOP/s and GB/s on a GPU, of random numbers.

use ptx_kernels::attention::{Attention, Grads, KvCache, LatentCache, Results, Saved};
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};

/// One problem of the tables of FlashAttention: 16384 tokens in all, 2048 elements of all heads.
struct Task {
    batch: usize,
    tokens: usize,
    heads: usize,
    heads_k: usize,
    dim: usize,
    causal: bool,
}

impl Task {
    fn shape(&self, heads: usize) -> [usize; 4] {
        [self.batch, self.tokens, heads, self.dim]
    }

    /// Floating-point operations of the two products of the forward pass.
    fn work(&self) -> f64 {
        let pairs = (self.batch * self.heads) as f64 * (self.tokens as f64).powi(2);
        4.0 * pairs * self.dim as f64 * if self.causal { 0.5 } else { 1.0 }
    }
}

/// Random elements between 0.5 and 1 or their negatives.
#[ptx_kernel(arch = "sm_80", block = 256, grid = 1024, unsafe(requires(x.len() >= 2 * n)))]
fn fill(x: &mut [bf16], n: u64, seed: u32) {
    let mut i: u64 = (ctaid.x * 256 + tid.x) as u64;
    while i < n {
        let mut hash: u32 = (i as u32 ^ seed) * 0x9e37_79b1;
        hash = (hash ^ (hash >> 15)) * 0x85eb_ca77;
        let to: u64 = x + i * 4;
        ptx! {
            and.b32 hash, hash, 0x807f807f;
            or.b32 hash, hash, 0x3f003f00;
            st.global.u32 [to], hash;
        }
        i += 256 * 1024;
    }
}

fn random(device: &Device, shape: [usize; 4], seed: u32) -> Result<Buffer<bf16>> {
    let mut x = device.zeros(shape.iter().product())?;
    let n = x.len() as u64 / 2;
    fill(device, &mut x, n, seed)?;
    Ok(x)
}

fn measure(device: &Device, task: &Task) -> Result<[f64; 2]> {
    let (shape, shape_k) = (task.shape(task.heads), task.shape(task.heads_k));
    let [q, grad] = [1, 2].map(|seed| random(device, shape, seed).unwrap());
    let [k, v] = [3, 4].map(|seed| random(device, shape_k, seed).unwrap());
    let (mut out, mut q_grad) = (device.zeros::<bf16>(q.len())?, device.zeros::<bf16>(q.len())?);
    let (mut k_grad, mut v_grad) = (device.zeros::<bf16>(k.len())?, device.zeros::<bf16>(k.len())?);
    let logs = [task.batch, task.heads, task.tokens];
    let mut lse = device.zeros::<f32>(logs.iter().product())?;
    let mut options = Attention::new();
    if task.causal {
        options = options.causal();
    }
    let stream = device.stream();
    let timer = Timer::new();
    let (tq, tk, tv) = (q.tile(shape)?, k.tile(shape_k)?, v.tile(shape_k)?);
    let forward = timer.measure(&stream, || {
        let lse = Some(lse.tile_mut(logs)?.into());
        options.forward(&stream, tq, tk, tv, Results { out: out.tile_mut(shape)?.into(), lse })
    })?;
    let saved = Saved {
        q: q.tile(shape)?.into(),
        k: k.tile(shape_k)?.into(),
        v: v.tile(shape_k)?.into(),
        out: out.tile(shape)?.into(),
        lse: TensorRef::from(lse.tile(logs)?),
        out_grad: grad.tile(shape)?.into(),
    };
    let backward = timer.measure(&stream, || {
        let grads = Grads {
            q: q_grad.tile_mut(shape)?.into(),
            k: k_grad.tile_mut(shape_k)?.into(),
            v: v_grad.tile_mut(shape_k)?.into(),
        };
        options.backward(&stream, &saved, grads, None)
    })?;
    let rate = |work: f64, time: std::time::Duration| work / time.as_secs_f64() / 1e12;
    Ok([rate(task.work(), forward.median()), rate(2.5 * task.work(), backward.median())])
}

/// Prints forward and backward rates of each task.
pub fn print_rates(device: &Device) -> Result<()> {
    for (heads, heads_k, dim) in [(32, 32, 64), (16, 16, 128), (16, 4, 128), (8, 8, 256)] {
        for causal in [false, true] {
            let task = Task { batch: 4, tokens: 4096, heads, heads_k, dim, causal };
            let [forward, backward] = measure(device, &task)?;
            let causal = if causal { " causal" } else { "" };
            println!(
                "b4 n4096 h{heads}/{heads_k} d{dim}{causal}: forward {forward:.0}, backward {backward:.0} TFLOP/s"
            );
        }
    }
    Ok(())
}

/// GB/s of keys and values that decode reads: 32 heads of Q, 8 of the cache, 128 elements.
pub fn print_decode(device: &Device) -> Result<()> {
    const HEADS: [usize; 2] = [32, 8];
    for (batch, tokens, page) in [(64, 4096, 0), (16, 16384, 0), (1, 131_072, 0), (64, 4096, 16), (64, 4096, 64)] {
        let (shape, shape_k) = ([batch, 1, HEADS[0], 128], [batch, tokens, HEADS[1], 128]);
        let q = random(device, shape, 1)?;
        let [k, v] = [2, 3].map(|seed| random(device, shape_k, seed).unwrap());
        let lengths = device.upload(&vec![tokens as i32; batch])?;
        let mut out = device.zeros::<bf16>(q.len())?;
        let (timer, stream) = (Timer::new(), device.stream());
        let pages = tokens.checked_div(page).unwrap_or(0);
        // Pages in an order that jumps.
        let count = batch * pages;
        let table: Vec<i32> = (0..count).map(|at| (at * 7919 % count.max(1)) as i32).collect();
        let table = device.upload(&table)?;
        let paged = if page == 0 { shape_k } else { [count, page, HEADS[1], 128] };
        let mut cache = KvCache::new(k.tile(paged)?, v.tile(paged)?, lengths.tile([batch])?);
        if page > 0 {
            cache = cache.paged(table.tile([batch, pages])?);
        }
        let options = Attention::new().causal();
        let time =
            timer.measure(&stream, || options.decode(&stream, q.tile(shape)?, &cache, out.tile_mut(shape)?, None))?;
        let bytes = 4.0 * k.len() as f64;
        println!("decode b{batch} n{tokens} page {page}: {:.0} GB/s", bytes / time.median().as_secs_f64() / 1e9);
    }
    Ok(())
}

/// GB/s of decode from a cache of e4m3 and from a latent cache, and TFLOP/s of that and of a chunk of queries.
pub fn print_caches(device: &Device) -> Result<()> {
    let (timer, stream, options) = (Timer::new(), device.stream(), Attention::new().causal());
    let (batch, tokens, heads) = (64, 4096, [32, 8]);
    let lengths = device.upload(&vec![tokens as i32; batch])?;
    let rate = |work: f64, time: std::time::Duration| work / time.as_secs_f64();

    let (shape, shape_k) = ([batch, 1, heads[0], 128], [batch, tokens, heads[1], 128]);
    let q = random(device, shape, 1)?;
    let zeros = device.zeros::<E4m3>(shape_k.iter().product())?;
    let mut out = device.zeros::<bf16>(q.len())?;
    let cache = KvCache::new(zeros.tile(shape_k)?, zeros.tile(shape_k)?, lengths.tile([batch])?);
    let time =
        timer.measure(&stream, || options.decode(&stream, q.tile(shape)?, &cache, out.tile_mut(shape)?, None))?;
    let bytes = rate(2.0 * zeros.len() as f64, time.median()) / 1e9;
    println!("decode e4m3 b{batch} n{tokens}: {bytes:.0} GB/s (K and V are the same zeros)");

    for heads in [16, 128] {
        let (shape, to) = ([batch, 1, heads, 576], [batch, 1, heads, 512]);
        let (q, rows) = (random(device, shape, 2)?, random(device, [batch, tokens, 1, 576], 3)?);
        let mut out = device.zeros::<bf16>(batch * heads * 512)?;
        let cache = LatentCache::new(rows.tile([batch, tokens, 1, 576])?, lengths.tile([batch])?);
        let time = timer
            .measure(&stream, || options.decode_latent(&stream, q.tile(shape)?, &cache, out.tile_mut(to)?, None))?;
        let flops = 2.0 * (batch * tokens * heads) as f64 * (576.0 + 512.0);
        let (bytes, flops) = (rate(2.0 * rows.len() as f64, time.median()) / 1e9, rate(flops, time.median()) / 1e12);
        println!("latent decode b{batch} n{tokens} h{heads}: {bytes:.0} GB/s, {flops:.0} TFLOP/s");
    }

    let (batch, chunk, tokens) = (4, 1024, 8192);
    let (shape, shape_k) = ([batch, chunk, 32, 128], [batch * tokens / 16, 16, 8, 128]);
    let q = random(device, shape, 4)?;
    let [k, v] = [5, 6].map(|seed| random(device, shape_k, seed).unwrap());
    let mut out = device.zeros::<bf16>(q.len())?;
    let pages = batch * tokens / 16;
    let table = device.upload(&(0..pages).map(|at| (at * 7919 % pages) as i32).collect::<Vec<_>>())?;
    let lengths = device.upload(&vec![tokens as i32; batch])?;
    let cache = KvCache::new(k.tile(shape_k)?, v.tile(shape_k)?, lengths.tile([batch])?);
    let cache = cache.paged(table.tile([batch, tokens / 16])?);
    let time = timer.measure(&stream, || options.prefill(&stream, q.tile(shape)?, &cache, out.tile_mut(shape)?))?;
    let flops = 4.0 * (batch * chunk * 32 * 128) as f64 * (tokens as f64 - chunk as f64 / 2.0);
    println!("prefill b{batch} {chunk} of {tokens}, page 16: {:.0} TFLOP/s", rate(flops, time.median()) / 1e12);
    Ok(())
}
