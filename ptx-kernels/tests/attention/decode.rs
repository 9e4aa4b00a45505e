//! Decode against `f64`: contiguous and paged caches whose unused places are NaN.

use crate::case::{CANARY, Case, Data, Field, Float, Random};
use crate::reference;
use ptx_kernels::attention::{Attention, KvCache};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut};

/// Queries, lengths and options of a call; `case.keys` are the lengths.
#[derive(Clone, Debug)]
pub struct Decode {
    pub case: Case,
    pub capacity: usize,
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
        let Decode { case, capacity, page_size } = self;
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

    /// The cache of a field, in order of page, place, head and element.
    fn cache<T: Float>(&self, device: &Device, places: &Places, field: &Field, dim: usize) -> Result<Buffer<T>> {
        let heads = self.case.heads / self.case.group;
        let [first, second] = places.shape;
        let mut memory = vec![T::from(f64::NAN); first * second * heads * dim];
        for (sequence, len) in self.case.keys.iter().enumerate() {
            for head in 0..heads {
                for (token, row) in field.rows(sequence, head, *len).iter().enumerate() {
                    let (page, slot) = match self.page_size {
                        0 => (sequence, token),
                        size => (places.table[sequence * places.pages + token / size] as usize, token % size),
                    };
                    let at = ((page * second + slot) * heads + head) * dim;
                    memory[at..at + dim].iter_mut().zip(row).for_each(|(to, x)| *to = T::from(*x));
                }
            }
        }
        device.upload(&memory)
    }

    /// Runs the call twice, as scratch memory must come back as it was, and compares.
    pub fn run<T: Float>(&self, device: &Device) -> Result<f64> {
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
        let [first, second] = places.shape;
        let k_cache = self.cache::<T>(device, &places, &data.k, case.dim)?;
        let v_cache = self.cache::<T>(device, &places, &data.v, case.dim_v)?;
        let lengths = device.upload(&case.keys.iter().map(|len| *len as i32).collect::<Vec<_>>())?;
        let table = device.upload(&places.table)?;
        let mut cache = KvCache::new(
            k_cache.tile([first, second, heads_k, case.dim])?,
            v_cache.tile([first, second, heads_k, case.dim_v])?,
            lengths.tile([batch])?,
        );
        if self.page_size > 0 {
            cache = cache.paged(table.tile([batch, places.pages])?);
        }
        let mut options = Attention::<T>::new().window(case.left, case.right).soft_cap(case.cap);
        if let Some(scale) = case.scale {
            options = options.scale(scale);
        }
        let queries = data.q.upload::<T>(device)?;
        let mut out = device.upload(&vec![T::from(CANARY); data.grad.len()])?;
        let shape = [batch, case.heads, case.queries[0]];
        let mut lse = device.zeros::<f32>(shape.iter().product())?;
        for _ in 0..2 {
            let logs: TensorMut<'_, f32, 3> = lse.tile_mut(shape)?.into();
            options.decode(
                device,
                data.q.tensor(&queries)?,
                &cache,
                data.grad.tensor_mut(&mut out)?,
                Some(logs),
                None,
            )?;
        }
        self.compare(&data, &mut out.download()?, &lse.download()?)
    }

    fn compare<T: Float>(&self, data: &Data, out: &mut [T], lse: &[f32]) -> Result<f64> {
        let (case, mut worst) = (&self.case, 0.0f64);
        for sequence in 0..case.keys.len() {
            for head in 0..case.heads {
                let mut exact = reference::head(case, data, sequence, head);
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
    let dim = 8 * (1 + r.below(32));
    let keys: Vec<usize> = (0..batch).map(|_| if r.chance(10) { 0 } else { 1 + r.below(longest) }).collect();
    let case = Case {
        queries: vec![if r.chance(50) { 1 } else { 1 + r.below(16) }; batch],
        keys,
        heads: group * (1 + r.below(2)),
        group,
        dim,
        dim_v: if r.chance(70) { dim } else { 8 * (1 + r.below(32)) },
        left: r.chance(30).then(|| r.below(longest) as u32),
        right: r.chance(70).then_some(0),
        scale: r.chance(30).then_some(0.25),
        cap: if r.chance(30) { 4.0 } else { 0.0 },
        half: r.chance(50),
        seed,
        ..Case::default()
    };
    let capacity = longest + r.below(longest);
    Decode { case, capacity, page_size: if r.chance(60) { [1, 3, 16, 64, 256][r.below(5)] } else { 0 } }
}
