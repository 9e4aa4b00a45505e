//! Decode against `f64`: contiguous and paged caches whose unused places are NaN.

use crate::case::{CANARY, Case, Data, Field, Float, Random};
use crate::reference;
use ptx_kernels::attention::{Attention, Cached, KvCache, LatentCache, Results};
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Element, Result, TensorRef};

/// An element of a cache.
pub trait Stored: Element {
    /// True if a cache of these has factors.
    const SCALED: bool;
    fn store(x: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! stored {
    ($($ty:ty: $scaled:literal, $from:expr, $to:expr;)*) => { $(
        impl Stored for $ty {
            const SCALED: bool = $scaled;
            fn store(x: f64) -> Self {
                $from(x)
            }
            fn value(self) -> f64 {
                $to(self)
            }
        }
    )* };
}
stored! {
    bf16: false, bf16::from_f64, bf16::to_f64;
    f16: false, f16::from_f64, f16::to_f64;
    E4m3: true, |x: f64| E4m3::from_f32(x as f32), |x: E4m3| f64::from(x.to_f32());
}

/// The factor of a head of a cache: a power of 2, so that it rounds nothing.
fn factor<K: Stored>(head: usize) -> f64 {
    if K::SCALED { 2f64.powi(head as i32 % 3 - 1) } else { 1.0 }
}

/// Rounds a field as a cache does.
fn round<K: Stored>(field: &mut Field, lengths: &[usize], heads: usize, dim: usize) {
    for (sequence, len) in lengths.iter().enumerate() {
        for token in 0..*len {
            for head in 0..heads {
                for element in 0..dim {
                    let (x, by) = (field.element(sequence, token, head, element), factor::<K>(head));
                    *x = K::store(*x / by).value() * by;
                }
            }
        }
    }
}

/// Queries, lengths and options of a call; `case.keys` are the lengths.
#[derive(Clone, Debug)]
pub struct Decode {
    pub case: Case,
    pub capacity: usize,
    /// The cache has elements of 8 bits.
    pub bytes: bool,
    /// Tokens of a page, or 0 without pages.
    pub page_size: usize,
}

/// The places of the tokens of a cache.
struct Places {
    shape: [usize; 2],
    table: Vec<i32>,
    pages: usize,
}

impl Decode {
    /// Shuffled pages, each of one sequence; entries of the table that no token needs lead nowhere.
    fn places(&self, random: &mut Random) -> Places {
        let Decode { case, capacity, page_size, .. } = self;
        let batch = case.keys.len();
        if *page_size == 0 {
            return Places { shape: [batch, *capacity], table: Vec::new(), pages: 0 };
        }
        let pages = capacity.div_ceil(*page_size);
        let count = case.keys.iter().map(|len| len.div_ceil(*page_size)).sum::<usize>() + 2;
        let mut free: Vec<i32> = (0..count as i32).collect();
        let mut table = vec![i32::MAX; batch * pages];
        for (sequence, len) in case.keys.iter().enumerate() {
            for page in 0..len.div_ceil(*page_size) {
                table[sequence * pages + page] = free.swap_remove(random.below(free.len()));
            }
        }
        Places { shape: [count, *page_size], table, pages }
    }

    /// Elements from row to row of a cache: in two of three cases more than a row has.
    fn pitch(&self, dim: usize) -> usize {
        dim + 16 * (self.case.seed as usize % 3)
    }

    /// Rows of a cache of `places` as a tensor.
    fn tensor<'a, K: Element>(
        &self,
        memory: &'a Buffer<K>,
        places: &Places,
        heads: usize,
        dim: usize,
    ) -> Result<TensorRef<'a, K, 4>> {
        let ([first, second], pitch) = (places.shape, self.pitch(dim));
        TensorRef::strided(memory, [first, second, heads, dim], [second * heads * pitch, heads * pitch, pitch, 1])
    }

    /// The cache of a field, in order of page, place, head and element.
    fn cache<K: Stored>(&self, device: &Device, places: &Places, field: &Field, dim: usize) -> Result<Buffer<K>> {
        let heads = self.case.heads / self.case.group;
        let [first, second] = places.shape;
        let pitch = self.pitch(dim);
        let mut memory = vec![K::store(f64::NAN); first * second * heads * pitch];
        for (sequence, len) in self.case.keys.iter().enumerate() {
            for head in 0..heads {
                for (token, row) in field.rows(sequence, head, *len).iter().enumerate() {
                    let (page, slot) = match self.page_size {
                        0 => (sequence, token),
                        size => (places.table[sequence * places.pages + token / size] as usize, token % size),
                    };
                    let at = ((page * second + slot) * heads + head) * pitch;
                    memory[at..at + dim].iter_mut().zip(row).for_each(|(to, x)| *to = K::store(*x / factor::<K>(head)));
                }
            }
        }
        device.upload(&memory)
    }

    /// Runs the call twice by either kernel, as scratch memory must come back as it was, and compares.
    pub fn run<T: Float, K: Stored + Cached<T>>(&self, device: &Device, portable: bool) -> Result<f64> {
        let case = &self.case;
        let mut random = Random(case.seed);
        let heads_k = case.heads / case.group;
        let (packed, batch) = (Case { packed: true, ..case.clone() }, case.keys.len());
        let q = Field::new::<T>(case, &case.queries, case.heads, case.dim, &mut random);
        let mut k = Field::new::<T>(&packed, &case.keys, heads_k, case.dim, &mut random);
        let mut v = Field::new::<T>(&packed, &case.keys, heads_k, case.dim_v, &mut random);
        round::<K>(&mut k, &case.keys, heads_k, case.dim);
        round::<K>(&mut v, &case.keys, heads_k, case.dim_v);
        let out = Field::new::<T>(case, &case.queries, case.heads, case.dim_v, &mut random);
        let data = Data { q, k, v, grad: out, bias: Vec::new(), bias_shape: [0; 4], bias_strides: [0; 4] };
        let places = self.places(&mut random);
        let k_cache = self.cache::<K>(device, &places, &data.k, case.dim)?;
        let v_cache = self.cache::<K>(device, &places, &data.v, case.dim_v)?;
        let lengths = device.upload(&case.keys.iter().map(|len| *len as i32).collect::<Vec<_>>())?;
        let table = device.upload(&places.table)?;
        let mut cache = KvCache::new(
            self.tensor(&k_cache, &places, heads_k, case.dim)?,
            self.tensor(&v_cache, &places, heads_k, case.dim_v)?,
            lengths.tile([batch])?,
        );
        if self.page_size > 0 {
            cache = cache.paged(table.tile([batch, places.pages])?);
        }
        let factors = device.upload(&(0..heads_k).map(|head| factor::<K>(head) as f32).collect::<Vec<_>>())?;
        if K::SCALED {
            cache = cache.scales(factors.tile([heads_k])?, factors.tile([heads_k])?);
        }
        let mut options = Attention::<T>::new().window(case.left, case.right).soft_cap(case.cap);
        if let Some(scale) = case.scale {
            options = options.scale(scale);
        }
        if portable {
            options = options.portable();
        }
        let queries = data.q.upload::<T>(device)?;
        let mut out = device.upload(&vec![T::from(CANARY); data.grad.len()])?;
        let shape = [batch, case.heads, case.queries[0]];
        let mut lse = device.zeros::<f32>(shape.iter().product())?;
        for _ in 0..2 {
            let results = Results { out: data.grad.tensor_mut(&mut out)?, lse: Some(lse.tile_mut(shape)?.into()) };
            options.decode(device, data.q.tensor(&queries)?, &cache, results, None)?;
        }
        self.compare(&data, &mut out.download()?, &lse.download()?)
    }

    /// The same by `prefill`, for any number of queries.
    pub fn run_prefill<T: Float + Stored>(&self, device: &Device) -> Result<f64> {
        let case = &self.case;
        let mut random = Random(case.seed);
        let heads_k = case.heads / case.group;
        let (packed, batch) = (Case { packed: true, ..case.clone() }, case.keys.len());
        let q = Field::new::<T>(case, &case.queries, case.heads, case.dim, &mut random);
        let k = Field::new::<T>(&packed, &case.keys, heads_k, case.dim, &mut random);
        let v = Field::new::<T>(&packed, &case.keys, heads_k, case.dim_v, &mut random);
        let out = Field::new::<T>(case, &case.queries, case.heads, case.dim_v, &mut random);
        let data = Data { q, k, v, grad: out, bias: Vec::new(), bias_shape: [0; 4], bias_strides: [0; 4] };
        let places = self.places(&mut random);
        let k_cache = self.cache::<T>(device, &places, &data.k, case.dim)?;
        let v_cache = self.cache::<T>(device, &places, &data.v, case.dim_v)?;
        let lengths = device.upload(&case.keys.iter().map(|len| *len as i32).collect::<Vec<_>>())?;
        let table = device.upload(&places.table)?;
        let [k, v] = [(&k_cache, case.dim), (&v_cache, case.dim_v)]
            .map(|(memory, dim)| self.tensor(memory, &places, heads_k, dim));
        let mut cache = KvCache::new(k?, v?, lengths.tile([batch])?);
        if self.page_size > 0 {
            cache = cache.paged(table.tile([batch, places.pages])?);
        }
        let options = Attention::<T>::new().window(case.left, case.right).soft_cap(case.cap);
        let options = case.scale.map_or(options, |scale| options.scale(scale));
        let queries = data.q.upload::<T>(device)?;
        let mut out = device.upload(&vec![<T as Float>::from(CANARY); data.grad.len()])?;
        let shape = [batch, case.heads, case.queries[0]];
        let mut lse = device.zeros::<f32>(shape.iter().product())?;
        let results = Results { out: data.grad.tensor_mut(&mut out)?, lse: Some(lse.tile_mut(shape)?.into()) };
        options.prefill(device, data.q.tensor(&queries)?, &cache, results)?;
        self.compare(&data, &mut out.download()?, &lse.download()?)
    }

    /// The same for latent attention, by either kernel: all heads share a cache whose rows are K, and V their first elements.
    pub fn run_latent<T: Float + Stored>(&self, device: &Device, portable: bool) -> Result<f64> {
        let case = &self.case;
        let mut random = Random(case.seed);
        let (packed, batch) = (Case { packed: true, ..case.clone() }, case.keys.len());
        let q = Field::new::<T>(case, &case.queries, case.heads, case.dim, &mut random);
        let mut k = Field::new::<T>(&packed, &case.keys, 1, case.dim, &mut random);
        let mut v = Field::new::<T>(&packed, &case.keys, 1, case.dim_v, &mut random);
        for (sequence, len) in case.keys.iter().enumerate() {
            for (token, element) in (0..*len).flat_map(|token| (0..case.dim_v).map(move |element| (token, element))) {
                *v.element(sequence, token, 0, element) = *k.element(sequence, token, 0, element);
            }
        }
        let out = Field::new::<T>(case, &case.queries, case.heads, case.dim_v, &mut random);
        let data = Data { q, k, v, grad: out, bias: Vec::new(), bias_shape: [0; 4], bias_strides: [0; 4] };
        let places = self.places(&mut random);
        let rows = self.cache::<T>(device, &places, &data.k, case.dim)?;
        let lengths = device.upload(&case.keys.iter().map(|len| *len as i32).collect::<Vec<_>>())?;
        let table = device.upload(&places.table)?;
        let mut cache = LatentCache::new(self.tensor(&rows, &places, 1, case.dim)?, lengths.tile([batch])?);
        if self.page_size > 0 {
            cache = cache.paged(table.tile([batch, places.pages])?);
        }
        let options = Attention::<T>::new().window(case.left, case.right).soft_cap(case.cap);
        let options = case.scale.map_or(options, |scale| options.scale(scale));
        let options = if portable { options.portable() } else { options };
        let queries = data.q.upload::<T>(device)?;
        let mut out = device.upload(&vec![<T as Float>::from(CANARY); data.grad.len()])?;
        let shape = [batch, case.heads, case.queries[0]];
        let mut lse = device.zeros::<f32>(shape.iter().product())?;
        for _ in 0..2 {
            let results = Results { out: data.grad.tensor_mut(&mut out)?, lse: Some(lse.tile_mut(shape)?.into()) };
            options.decode_latent(device, data.q.tensor(&queries)?, &cache, results, None)?;
        }
        self.compare(&data, &mut out.download()?, &lse.download()?)
    }

    fn compare<T: Float>(&self, data: &Data, out: &mut [T], lse: &[f32]) -> Result<f64> {
        let (case, mut worst) = (&self.case, 0.0f64);
        for sequence in 0..case.keys.len() {
            for head in 0..case.heads {
                let mut exact = reference::forward(case, data, sequence, head);
                exact.round(case.unit());
                let extents = [sequence, head, case.queries[0], case.dim_v];
                worst = worst.max(crate::compare("decode", case, &data.grad, out, extents, &exact.out));
                for (token, log) in exact.lse.iter().enumerate() {
                    let found = f64::from(lse[(sequence * case.heads + head) * case.queries[0] + token]);
                    let close = found == log.value || (found - log.value).abs() <= log.error;
                    assert!(close, "logarithm {sequence}, {head}, {token}: {found}, not {log:?} in {self:?}");
                }
            }
        }
        assert!(out.iter().all(|x| x.to() == CANARY), "something else is written: {self:?}");
        Ok(worst)
    }
}

/// A random call with lengths up to `longest`.
pub fn random_decode(seed: u64, longest: usize) -> Decode {
    let mut random = Random(seed ^ 0xdec0de);
    let r = &mut random;
    let (batch, group) = (1 + r.below(3), [1, 2, 4, 5, 8][r.below(5)]);
    let bytes = r.chance(40);
    let each = if bytes { 16 } else { 8 };
    let mapped = r.chance(60);
    let dim = if mapped { [64, 128, 256][r.below(3)] } else { each * (1 + r.below(256 / each)) };
    let keys: Vec<usize> = (0..batch).map(|_| if r.chance(10) { 0 } else { 1 + r.below(longest) }).collect();
    let case = Case {
        queries: vec![if r.chance(50) { 1 } else { 1 + r.below(16) }; batch],
        keys,
        heads: group * (1 + r.below(2)),
        group,
        dim,
        dim_v: if mapped || r.chance(70) { dim } else { each * (1 + r.below(256 / each)) },
        left: r.chance(30).then(|| r.below(longest) as u32),
        right: r.chance(70).then_some(0),
        scale: r.chance(30).then_some(0.25),
        cap: if r.chance(30) { 4.0 } else { 0.0 },
        half: r.chance(50),
        seed,
        ..Case::default()
    };
    let capacity = longest + r.below(longest);
    Decode {
        case,
        capacity,
        bytes,
        page_size: if r.chance(60) { [1, 2, 3, 12, 16, 24, 64, 256][r.below(8)] } else { 0 },
    }
}

/// A random call of latent attention.
pub fn random_latent(seed: u64, longest: usize) -> Decode {
    let decode = random_decode(seed, longest);
    let mut random = Random(seed ^ 0x1a7e);
    let heads = [1, 3, 16, 40, 128][random.below(5)];
    let wide = random.chance(50);
    let case = Case {
        heads,
        group: heads,
        queries: vec![1 + random.below(3); decode.case.keys.len()],
        dim: if wide { 576 } else { 8 * (1 + random.below(72)) },
        dim_v: if wide { 512 } else { 8 },
        scale: Some(0.1),
        ..decode.case
    };
    Decode {
        bytes: false,
        case: Case { dim_v: case.dim_v.max(8 * (1 + random.below(case.dim.min(512) / 8))), ..case },
        ..decode
    }
}

/// A random chunk of queries.
pub fn random_prefill(seed: u64, longest: usize) -> Decode {
    let decode = random_decode(seed, longest);
    let mut random = Random(seed ^ 0x9f11);
    let queries = vec![1 + random.below(longest); decode.case.keys.len()];
    Decode { bytes: false, case: Case { queries, ..decode.case }, ..decode }
}
