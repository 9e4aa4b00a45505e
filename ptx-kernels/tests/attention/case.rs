//! One problem: its extents and options, its data on the host and on the device.

use ptx_kernels::attention::{Attention, Layout};
use ptx_launch::prelude::*;
use ptx_launch::{Element, Result, TensorMut, TensorRef};

/// Extents and options. With `packed`, sequences have different lengths and lie behind each other in tensors of batch 1.
#[derive(Clone, Debug)]
pub struct Case {
    pub queries: Vec<usize>,
    pub keys: Vec<usize>,
    pub packed: bool,
    pub heads: usize,
    pub group: usize,
    pub dim: usize,
    pub dim_v: usize,
    pub left: Option<u32>,
    pub right: Option<u32>,
    pub top_left: bool,
    pub scale: Option<f32>,
    pub cap: f32,
    /// 0: none, 1: full, 2: one row for all queries and heads, with hidden keys.
    pub bias: u32,
    pub layout: Layout,
    pub half: bool,
    /// Products of `e4m3` by `wgmma`.
    pub narrow: bool,
    /// The kernels for every chip.
    pub portable: bool,
    /// Gradients that are the same each time.
    pub deterministic: bool,
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            queries: vec![5],
            keys: vec![9],
            packed: false,
            heads: 1,
            group: 1,
            dim: 64,
            dim_v: 64,
            left: None,
            right: None,
            top_left: false,
            scale: None,
            cap: 0.0,
            bias: 0,
            layout: Layout::Bshd,
            half: false,
            narrow: false,
            portable: false,
            deterministic: false,
            seed: 1,
        }
    }
}

impl Case {
    /// Packed sequences of different lengths, one without queries, with a window, a cap and a bias.
    pub fn with_every_option() -> Case {
        Case {
            queries: vec![3, 0, 7],
            keys: vec![9, 4, 2],
            packed: true,
            heads: 2,
            dim: 96,
            dim_v: 40,
            left: Some(3),
            right: Some(0),
            scale: Some(0.3),
            cap: 5.0,
            bias: 1,
            layout: Layout::Bhsd,
            ..Case::default()
        }
    }
}

impl Case {
    /// The unit roundoff of the elements.
    pub fn unit(&self) -> f64 {
        if self.half { 2f64.powi(-11) } else { 2f64.powi(-8) }
    }

    /// The first token of each sequence, and the end of the last one.
    pub fn starts(lengths: &[usize]) -> Vec<i32> {
        let mut at = 0;
        std::iter::once(0)
            .chain(lengths.iter().map(|length| {
                at += *length as i32;
                at
            }))
            .collect()
    }
}

/// Numbers from -1 to 1 with few bits, by SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn unit(&mut self) -> f64 {
        (self.next() % 255) as f64 / 127.0 - 1.0
    }
}

/// An element of a tensor.
pub trait Float: Element + ptx_kernels::attention::Element {
    fn from(x: f64) -> Self;
    fn to(self) -> f64;
}

impl Float for bf16 {
    fn from(x: f64) -> Self {
        bf16::from_f64(x)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl Float for f16 {
    fn from(x: f64) -> Self {
        f16::from_f64(x)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

/// Rows of a tensor (batch, tokens, heads, elements) on the host, with gaps between its rows on the device.
#[derive(Clone)]
pub struct Field {
    starts: Vec<i32>,
    batch: usize,
    tokens: usize,
    heads: usize,
    dim: usize,
    layout: Layout,
    values: Vec<f64>,
}

/// Elements between rows.
const GAP: usize = 16;

/// The value of the gaps.
pub const CANARY: f64 = -77.0;

impl Field {
    pub fn new<T: Float>(case: &Case, lengths: &[usize], heads: usize, dim: usize, random: &mut Random) -> Field {
        let (batch, tokens) = if case.packed { (1, lengths.iter().sum()) } else { (lengths.len(), lengths[0]) };
        let values = (0..batch * tokens * heads * dim).map(|_| T::from(1.5 * random.unit()).to()).collect();
        Field { starts: Case::starts(lengths), batch, tokens, heads, dim, layout: case.layout, values }
    }

    fn index(&self, sequence: usize, token: usize, head: usize) -> usize {
        ((self.starts[sequence] as usize + token) * self.heads + head) * self.dim
    }

    /// The first rows of a head of a sequence.
    pub fn rows(&self, sequence: usize, head: usize, count: usize) -> Vec<Vec<f64>> {
        (0..count).map(|token| self.values[self.index(sequence, token, head)..][..self.dim].to_vec()).collect()
    }

    pub fn element(&mut self, sequence: usize, token: usize, head: usize, element: usize) -> &mut f64 {
        let at = self.index(sequence, token, head) + element;
        &mut self.values[at]
    }

    pub fn shape(&self) -> [usize; 4] {
        match self.layout {
            Layout::Bshd => [self.batch, self.tokens, self.heads, self.dim],
            Layout::Bhsd => [self.batch, self.heads, self.tokens, self.dim],
        }
    }

    pub fn strides(&self) -> [usize; 4] {
        let row = self.dim + GAP;
        let [_, second, third, _] = self.shape();
        [second * third * row, third * row, row, 1]
    }

    pub fn batch(&self) -> usize {
        self.batch
    }

    pub fn len(&self) -> usize {
        self.batch * self.tokens * self.heads * (self.dim + GAP)
    }

    /// The place of an element on the device.
    pub fn place(&self, sequence: usize, token: usize, head: usize, element: usize) -> usize {
        let token = self.starts[sequence] as usize + token;
        let [batch, second, third, _] = self.strides();
        let (b, t) = (token / self.tokens, token % self.tokens);
        let (second_at, third_at) = match self.layout {
            Layout::Bshd => (t, head),
            Layout::Bhsd => (head, t),
        };
        b * batch + second_at * second + third_at * third + element
    }

    pub fn upload<T: Float>(&self, device: &Device) -> Result<Buffer<T>> {
        self.upload_as(device, |_, _, x| T::from(x))
    }

    /// Elements of any type, made of sequence, head and value.
    pub fn upload_as<U: Element>(
        &self,
        device: &Device,
        element_of: impl Fn(usize, usize, f64) -> U,
    ) -> Result<Buffer<U>> {
        let mut memory = vec![element_of(0, 0, CANARY); self.len()];
        for sequence in 0..self.starts.len() - 1 {
            for token in 0..(self.starts[sequence + 1] - self.starts[sequence]) as usize {
                for head in 0..self.heads {
                    for element in 0..self.dim {
                        let value = self.values[self.index(sequence, token, head) + element];
                        memory[self.place(sequence, token, head, element)] = element_of(sequence, head, value);
                    }
                }
            }
        }
        device.upload(&memory)
    }

    pub fn tensor<'a, T>(&self, memory: &'a Buffer<T>) -> Result<TensorRef<'a, T, 4>> {
        TensorRef::strided(memory, self.shape(), self.strides())
    }

    pub fn tensor_mut<'a, T>(&self, memory: &'a mut Buffer<T>) -> Result<TensorMut<'a, T, 4>> {
        TensorMut::strided(memory, self.shape(), self.strides())
    }
}

/// The inputs of a case.
pub struct Data {
    pub q: Field,
    pub k: Field,
    pub v: Field,
    pub grad: Field,
    pub bias: Vec<f64>,
    pub bias_shape: [usize; 4],
    pub bias_strides: [usize; 4],
}

impl Data {
    pub fn new<T: Float>(case: &Case) -> Data {
        let mut random = Random(case.seed);
        let heads_k = case.heads / case.group;
        let q = Field::new::<T>(case, &case.queries, case.heads, case.dim, &mut random);
        let k = Field::new::<T>(case, &case.keys, heads_k, case.dim, &mut random);
        let v = Field::new::<T>(case, &case.keys, heads_k, case.dim_v, &mut random);
        let grad = Field::new::<T>(case, &case.queries, case.heads, case.dim_v, &mut random);
        let longest = |lengths: &[usize]| lengths.iter().copied().max().unwrap_or(0);
        let (m, n) = (longest(&case.queries), longest(&case.keys));
        let bias_shape = [case.queries.len(), case.heads, m, n];
        let (len, bias_strides) = match case.bias {
            0 => (0, [0; 4]),
            1 => (bias_shape.iter().product(), [case.heads * m * n, m * n, n, 1]),
            _ => (n, [0, 0, 0, 1]),
        };
        let element = |random: &mut Random| {
            let hidden = case.bias == 2 && random.chance(20);
            if hidden { f64::NEG_INFINITY } else { T::from(2.0 * random.unit()).to() }
        };
        let bias = (0..len).map(|_| element(&mut random)).collect();
        Data { q, k, v, grad, bias, bias_shape, bias_strides }
    }

    /// The bias of a score, or 0.
    pub fn bias_at(&self, sequence: usize, head: usize, i: usize, j: usize) -> f64 {
        let [b, h, m, n] = self.bias_strides;
        if self.bias.is_empty() { 0.0 } else { self.bias[sequence * b + head * h + i * m + j * n] }
    }
}

/// Cumulative lengths and bias on the device.
pub struct Extras<T> {
    starts: Option<(Buffer<i32>, Buffer<i32>)>,
    bias: Option<Buffer<T>>,
}

impl<T: Float> Extras<T> {
    pub fn new(device: &Device, case: &Case, data: &Data) -> Result<Extras<T>> {
        let starts = |lengths: &[usize]| device.upload(&Case::starts(lengths));
        let starts =
            case.packed.then(|| -> Result<_> { Ok((starts(&case.queries)?, starts(&case.keys)?)) }).transpose()?;
        let elements: Vec<T> = data.bias.iter().map(|x| T::from(*x)).collect();
        let bias = (!elements.is_empty()).then(|| device.upload(&elements)).transpose()?;
        Ok(Extras { starts, bias })
    }

    /// The options of a case.
    pub fn options<'a>(&'a self, case: &Case, data: &Data) -> Result<Attention<'a, T>> {
        let mut options = Attention::new().layout(case.layout).window(case.left, case.right).soft_cap(case.cap);
        if case.top_left {
            options = options.top_left();
        }
        if case.portable {
            options = options.portable();
        }
        if case.deterministic {
            options = options.deterministic();
        }
        if let Some(scale) = case.scale {
            options = options.scale(scale);
        }
        if let Some(bias) = &self.bias {
            options = options.bias(TensorRef::strided(bias, data.bias_shape, data.bias_strides)?);
        }
        if let Some((q, k)) = &self.starts {
            let [longest_q, longest_k] = [&case.queries, &case.keys].map(|l| l.iter().max().map_or(0, |l| *l as u32));
            options = options.lengths(q.tile([q.len()])?, k.tile([k.len()])?, longest_q, longest_k);
        }
        Ok(options)
    }
}
