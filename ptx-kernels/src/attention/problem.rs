//! Shapes and options of a call, checked, in the form that the kernels take.

use super::options::{Attention, Layout};
use ptx_launch::{Error, ErrorKind, KernelParam, Result, TensorMut, TensorRef, ptx_contract};

/// Strides, extents and options: a parameter of the kernels, by value. Strides count bytes. Its constructor is the only one,
/// so that every offset that a kernel computes from it lies inside the `reach` of its tensor.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct Problem {
    /// Strides of batch, token and head.
    pub(super) q: [u64; 3],
    pub(super) k: [u64; 3],
    pub(super) v: [u64; 3],
    pub(super) out: [u64; 3],
    pub(super) lse: [u64; 3],
    /// Strides of batch, head, query and key.
    pub(super) bias: [u64; 4],
    /// Elements from the first to the last one of Q, K, V, the output, the logarithms and the bias.
    pub(super) reach: [u64; 6],
    /// Sequences and heads of Q.
    pub(super) batch: u32,
    pub(super) heads: u32,
    /// Tokens of Q and of K, and of the longest sequence of each.
    pub(super) tokens_q: u32,
    pub(super) tokens_k: u32,
    pub(super) queries: u32,
    pub(super) keys: u32,
    /// Heads of Q that share one of K and V.
    pub(super) kv_group: u32,
    /// Elements of a row of Q and K, and of V.
    pub(super) dim: u32,
    pub(super) dim_v: u32,
    /// 1 if there are cumulative lengths, a bias, or logarithms.
    pub(super) variable: u32,
    pub(super) biased: u32,
    pub(super) logged: u32,
    /// 1 if query 0 is aligned with key 0, else the last query is aligned with the last key.
    pub(super) top_left: u32,
    /// Keys that a query sees to either side of its own.
    pub(super) left: i32,
    pub(super) right: i32,
    /// Factor of the scores before the soft cap and the bias.
    pub(super) scale: f32,
    /// The soft cap, or 0.
    pub(super) soft_cap: f32,
    /// log2(e) times the factor of the scores that is left for the softmax.
    pub(super) exponent: f32,
}

/// A window that hides nothing.
const UNLIMITED: u32 = 1 << 30;

/// Tokens must be fewer, so that positions plus windows are `i32`.
pub(super) const MOST_TOKENS: usize = 1 << 29;

/// The most heads of Q, and the most sequences.
pub(super) const MOST_HEADS: usize = 65535;

/// The most elements of a row.
pub(super) const MOST_ELEMENTS: usize = 256;

/// Shape and strides of an operand: batch, token, head, element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    name: &'static str,
    /// Bytes of an element.
    size: usize,
    pub(super) shape: [usize; 4],
    strides: [usize; 4],
    address: u64,
}

impl Rows {
    /// A tensor that is read.
    pub(super) fn of<T>(name: &'static str, tensor: &TensorRef<'_, T, 4>, layout: Layout) -> Rows {
        let (shape, strides) = (layout.order(tensor.shape()), layout.order(tensor.strides()));
        Rows { name, size: size_of::<T>(), shape, strides, address: tensor.address() }
    }

    /// A tensor that is written.
    pub(super) fn of_mut<T>(name: &'static str, tensor: &TensorMut<'_, T, 4>, layout: Layout) -> Rows {
        let (shape, strides) = (layout.order(tensor.shape()), layout.order(tensor.strides()));
        Rows { name, size: size_of::<T>(), shape, strides, address: tensor.address() }
    }

    /// The rows of a cache as those of `batch` sequences of `tokens` tokens; the strides remain those of page, place in a page, and head.
    pub(super) fn of_sequences(&self, batch: usize, tokens: usize) -> Rows {
        let [.., heads, dim] = self.shape;
        Rows { shape: [batch, tokens, heads, dim], ..*self }
    }

    /// The same rows, of which only the first `dim` elements count.
    pub(super) fn first(&self, dim: usize) -> Rows {
        let [batch, token, head, _] = self.shape;
        Rows { shape: [batch, token, head, dim.min(self.shape[3])], ..*self }
    }

    /// Checks what the copies of 16 bytes want, and that rows have at most `most` elements.
    pub(super) fn check_rows(&self, most: usize) -> Result<()> {
        let Rows { name, size, shape: [.., dim], strides: [batch, token, head, element], address } = *self;
        let each = 16 / size;
        let mut steps = [batch, token, head].into_iter().zip(self.shape);
        let whole = steps.all(|(stride, extent)| extent <= 1 || stride % each == 0);
        if dim == 0 || dim % each != 0 || dim > most {
            return Err(refuse(
                format!("rows of {name} have {dim} elements"),
                format!("multiples of {each} up to {most}"),
            ));
        }
        if element != 1 || !whole || address % 16 != 0 {
            let found = format!(
                "{name} has strides {:?} (batch, token, head, element) from address {address:#x} on",
                self.strides
            );
            return Err(refuse(found, "elements of a row side by side, and rows that begin at multiples of 16 bytes"));
        }
        Ok(())
    }

    pub(super) fn check_shape(&self, expected: [usize; 4]) -> Result<()> {
        if self.shape == expected {
            return Ok(());
        }
        let found = format!("{} has the shape {:?} (batch, tokens, heads, elements)", self.name, self.shape);
        Err(refuse(found, format!("{expected:?}, which follows from the other tensors")))
    }

    /// Strides of batch, token and head in bytes.
    pub(super) fn bytes(&self) -> [u64; 3] {
        let [batch, token, head, _] = self.strides;
        [batch, token, head].map(|stride| (self.size * stride) as u64)
    }

    /// The same. That of a single row has no meaning, may be any number, and is 0.
    pub(super) fn steps(&self) -> [u64; 3] {
        let strides = self.bytes();
        std::array::from_fn(|at| if self.shape[at] > 1 { strides[at] } else { 0 })
    }

    /// The same of an output: that of a single row is as large as all that lies inside, so that no other one is in it.
    pub(super) fn steps_apart(&self) -> [u64; 3] {
        let [batch, token, head, dim] = self.shape;
        apart([batch, token, head], self.bytes(), (self.size * dim) as u64)
    }

    /// Elements from the first to the last one.
    pub(super) fn reach(&self) -> u64 {
        reach(&self.shape, &self.strides)
    }
}

impl Problem {
    /// Checks shapes and options. With cumulative lengths the tensors have a batch of 1, which holds all sequences.
    pub(super) fn new<T>(options: &Attention<'_, T>, q: &Rows, k: &Rows, v: &Rows) -> Result<Problem> {
        let ([batch, tokens_q, heads, dim], [_, tokens_k, heads_k, dim_v]) = (q.shape, v.shape);
        k.check_shape([batch, tokens_k, heads_k, dim])?;
        v.check_shape([batch, tokens_k, heads_k, dim_v])?;
        for rows in [q, k, v] {
            rows.check_rows(MOST_ELEMENTS)?;
        }
        let kv_group = kv_group(heads, heads_k)?;
        if tokens_q >= MOST_TOKENS || tokens_k >= MOST_TOKENS || batch > MOST_HEADS {
            let found = format!("Q has the shape {:?}, K {:?}", q.shape, k.shape);
            return Err(refuse(found, "fewer than 2^29 tokens, and at most 65535 sequences"));
        }
        let (scale, soft_cap, exponent) = options.factors(dim)?;
        let mut problem = Problem {
            q: q.steps(),
            k: k.steps(),
            v: v.steps(),
            reach: [q.reach(), k.reach(), v.reach(), 0, 0, 0],
            batch: batch as u32,
            heads: heads as u32,
            tokens_q: tokens_q as u32,
            tokens_k: tokens_k as u32,
            queries: tokens_q as u32,
            keys: tokens_k as u32,
            kv_group,
            dim: dim as u32,
            dim_v: dim_v as u32,
            top_left: u32::from(options.top_left),
            left: options.left.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            right: options.right.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            biased: u32::from(options.bias.is_some()),
            scale,
            soft_cap,
            exponent,
            ..Problem::default()
        };
        problem.set_lengths(options)?;
        // Those of logarithms that nobody takes.
        let queries = 4 * tokens_q as u64;
        problem.lse = problem.packed([queries * heads as u64, 4, queries]);
        problem.set_bias(options)?;
        Ok(problem)
    }

    /// Cumulative lengths make one sequence of each pair of neighbors.
    fn set_lengths<T>(&mut self, options: &Attention<'_, T>) -> Result<()> {
        let Some(lengths) = &options.lengths else { return Ok(()) };
        let [count_q, count_k] = [lengths.starts_q.shape()[0], lengths.starts_k.shape()[0]];
        if count_q == 0 || count_q != count_k || self.batch != 1 || count_q > 65536 {
            let found = format!("{count_q} and {count_k} cumulative lengths, with tensors of batch {}", self.batch);
            return Err(refuse(found, "one more than there are sequences, for Q and K alike, and tensors of batch 1"));
        }
        if !(lengths.starts_q.is_contiguous() && lengths.starts_k.is_contiguous()) {
            return Err(refuse("cumulative lengths have gaps".into(), "contiguous lengths"));
        }
        self.variable = 1;
        self.batch = count_q as u32 - 1;
        self.queries = lengths.longest_q.min(self.tokens_q);
        self.keys = lengths.longest_k.min(self.tokens_k);
        [self.q[0], self.k[0], self.v[0]] = [0; 3];
        Ok(())
    }

    fn set_bias<T>(&mut self, options: &Attention<'_, T>) -> Result<()> {
        let Some(bias) = &options.bias else { return Ok(()) };
        let expected = [self.batch, self.heads, self.queries, self.keys].map(|extent| extent as usize);
        if bias.shape() != expected {
            let found = format!("the bias has the shape {:?}", bias.shape());
            let possible = format!("{expected:?} (batch, heads, queries, keys)");
            return Err(refuse(found, possible).help("a stride of 0 repeats a bias: `TensorRef::strided`"));
        }
        self.bias = bias.strides().map(|stride| 2 * stride as u64);
        self.reach[5] = reach(&bias.shape(), &bias.strides());
        Ok(())
    }

    /// The keys lie in a cache of these rows of K and V.
    pub(super) fn set_cache(&mut self, k: &Rows, v: &Rows) {
        (self.k, self.v) = (k.steps(), v.steps());
        (self.reach[1], self.reach[2]) = (k.reach(), v.reach());
    }

    /// Checks the output, which has a row of V's elements for each row of Q.
    pub(super) fn set_out(&mut self, q: &Rows, out: &Rows) -> Result<()> {
        let [batch, tokens, heads, _] = q.shape;
        out.check_shape([batch, tokens, heads, self.dim_v as usize])?;
        out.check_rows(MOST_ELEMENTS)?;
        self.out = self.packed(out.steps_apart());
        self.reach[3] = out.reach();
        Ok(())
    }

    /// Checks the logarithms, of shape (batch, heads, queries).
    pub(super) fn set_lse(&mut self, q: &Rows, shape: [usize; 3], strides: [usize; 3]) -> Result<()> {
        let [batch, tokens, heads, _] = q.shape;
        if shape != [batch, heads, tokens] {
            let found = format!("the logarithms of the sums have the shape {shape:?}");
            return Err(refuse(found, format!("{:?} (batch, heads, queries)", [batch, heads, tokens])));
        }
        let [lse_batch, lse_head, lse_token] = strides.map(|stride| 4 * stride as u64);
        self.lse = self.packed(apart([batch, tokens, heads], [lse_batch, lse_token, lse_head], 4));
        self.reach[4] = reach(&shape, &strides);
        self.logged = 1;
        Ok(())
    }

    /// Sequences of one tensor of batch 1 have no stride of their own.
    fn packed(&self, [batch, token, head]: [u64; 3]) -> [u64; 3] {
        [if self.variable == 1 { 0 } else { batch }, token, head]
    }

    /// Most elements of a row.
    pub(super) fn dims(&self) -> (u32, u32) {
        (self.dim, self.dim_v)
    }

    /// Tiles of `block_m` queries of all heads and sequences, or more; of packed sequences not more than they can have. None without queries.
    pub(super) fn tiles(&self, block_m: u32) -> u64 {
        let (queries, heads, batch) = self.grid(block_m);
        let all = u64::from(queries) * u64::from(batch);
        let packed = u64::from(self.tokens_q / block_m) + u64::from(batch);
        u64::from(heads) * if self.variable == 1 { all.min(packed) } else { all }
    }
}

#[ptx_contract]
impl Problem {
    /// Extents of the grid: blocks of `block_m` queries, heads, sequences.
    pub(super) fn grid(&self, block_m: u32) -> (u32, u32, u32) {
        (self.queries.div_ceil(block_m), self.heads, self.batch)
    }

    /// Returns true if the extents are those that the constructor admits. The kernels count in 32 bits.
    pub(super) fn is_counted(&self) -> bool {
        self.heads > 0
            && self.heads <= 65535
            && self.batch <= 65535
            && self.tokens_q < 1 << 29
            && self.tokens_k < 1 << 29
            && self.queries <= self.tokens_q
            && self.keys <= self.tokens_k
            && self.variable <= 1
            && [self.dim, self.dim_v].iter().all(|dim| *dim > 0 && *dim <= 256 && *dim % 8 == 0)
    }

    /// Returns true if each of so many blocks has a tile of `rows` queries to begin with, of fewer than 2^31. Those of packed sequences depend on
    /// the cumulative lengths.
    pub(super) fn has_tiles(&self, rows: u32, blocks: u32) -> bool {
        let tiles = u64::from(self.queries.div_ceil(rows)) * u64::from(self.heads) * u64::from(self.batch);
        self.variable == 1 || self.queries == self.tokens_q && tiles < 1 << 31 && u64::from(blocks) <= tiles
    }

    /// Returns true if `heads_k` heads of K and V divide those of Q.
    pub(super) fn shares(&self, heads_k: u32) -> bool {
        heads_k > 0 && self.kv_group > 0 && self.heads == heads_k * self.kv_group
    }

    /// Returns true if rows of elements of `size` bytes are whole vectors.
    pub(super) fn has_vectors(&self, size: u64) -> bool {
        [self.dim, self.dim_v].iter().all(|dim| (u64::from(*dim) * size).is_multiple_of(16))
    }

    /// Returns true if so many bytes hold the rows of all heads of the queries, `dim` elements of `size` bytes, which are read as vectors.
    pub(super) fn holds_queries(&self, bytes: u64, strides: [u64; 3], dim: u32, size: u64) -> bool {
        self.holds_rows(bytes, strides, [self.batch, self.tokens_q, self.heads], u64::from(dim) * size)
    }

    /// The same for the keys, which have `heads_k` heads.
    pub(super) fn holds_keys(&self, bytes: u64, strides: [u64; 3], [heads_k, dim]: [u32; 2], size: u64) -> bool {
        self.holds_rows(bytes, strides, [self.batch, self.tokens_k, heads_k], u64::from(dim) * size)
    }

    /// The same for sequences or pages, their tokens, and heads, with rows of `row` bytes.
    fn holds_rows(&self, bytes: u64, strides: [u64; 3], extents: [u32; 3], row: u64) -> bool {
        let [sequences, tokens, _] = extents;
        strides.iter().all(|stride| *stride % 16 == 0)
            && (sequences == 0 || tokens == 0 || bytes >= Self::last(strides, extents) + row)
    }

    /// Returns true if the rows of all heads of the queries, `dim` elements of `size` bytes, are apart, as those of an output are.
    pub(super) fn parts_queries(&self, strides: [u64; 3], dim: u32, size: u64) -> bool {
        self.parts_rows(strides, [self.tokens_q, self.heads], u64::from(dim) * size)
    }

    /// The same for the keys, which have `heads_k` heads.
    pub(super) fn parts_keys(&self, strides: [u64; 3], [heads_k, dim]: [u32; 2], size: u64) -> bool {
        self.parts_rows(strides, [self.tokens_k, heads_k], u64::from(dim) * size)
    }

    /// The same for tokens of heads, with rows of `row` bytes: sequences, tokens and heads lie in each other in some order.
    fn parts_rows(&self, [batch, token, head]: [u64; 3], [tokens, heads]: [u32; 2], row: u64) -> bool {
        if self.variable == 1 {
            batch == 0
                && (head >= row && token >= head * u64::from(heads)
                    || token >= row && head >= token * u64::from(tokens))
        } else {
            Self::nests(row, [head, token, batch], [heads, tokens])
                || Self::nests(row, [token, head, batch], [tokens, heads])
                || Self::nests(row, [head, batch, token], [heads, self.batch])
                || Self::nests(row, [batch, head, token], [self.batch, heads])
                || Self::nests(row, [token, batch, head], [tokens, self.batch])
                || Self::nests(row, [batch, token, head], [self.batch, tokens])
        }
    }

    /// Returns true if so many rows lie in each `middle`, and so many of these in each `outer`.
    fn nests(row: u64, [inner, middle, outer]: [u64; 3], [rows, groups]: [u32; 2]) -> bool {
        inner >= row && middle >= inner * u64::from(rows) && outer >= middle * u64::from(groups)
    }

    /// Returns true if so many bytes hold the bias, if there is one.
    pub(super) fn holds_bias(&self, bytes: u64) -> bool {
        let [batch, head, query, key] = self.bias;
        self.bias.iter().all(|stride| *stride % 2 == 0)
            && (self.biased == 0
                || self.batch == 0
                || self.queries == 0
                || self.keys == 0
                || bytes
                    >= Self::last([batch, query, head], [self.batch, self.queries, self.heads])
                        + u64::from(self.keys - 1) * key
                        + 2)
    }

    /// Returns true if so many bytes hold the logarithms, if there are any.
    pub(super) fn holds_logarithms(&self, bytes: u64) -> bool {
        self.lse.iter().all(|stride| *stride % 4 == 0)
            && (self.logged == 0
                || self.batch == 0
                || self.tokens_q == 0
                || bytes >= Self::last(self.lse, [self.batch, self.tokens_q, self.heads]) + 4)
    }

    /// The offset of the last row.
    fn last([batch, token, head]: [u64; 3], [sequences, tokens, heads]: [u32; 3]) -> u64 {
        u64::from(sequences - 1) * batch + u64::from(tokens - 1) * token + u64::from(heads - 1) * head
    }

    /// Returns true if Q, K, V, the output, the logarithms and the bias have so many elements that they hold all offsets.
    pub(super) fn covers(&self, lengths: [u64; 6]) -> bool {
        lengths.iter().zip(self.reach).all(|(len, reach)| *len >= reach)
    }

    /// Returns true if Q, K, V and the bias have so many elements that they hold all offsets.
    pub(super) fn covers_inputs(&self, [q, k, v, bias]: [u64; 4]) -> bool {
        let [q_reach, k_reach, v_reach, _, _, bias_reach] = self.reach;
        q >= q_reach && k >= k_reach && v >= v_reach && bias >= bias_reach
    }

    /// Returns true if so many cumulative lengths separate all sequences.
    pub(super) fn separates(&self, starts_q: u64, starts_k: u64) -> bool {
        self.variable == 0 || (starts_q > u64::from(self.batch) && starts_k > u64::from(self.batch))
    }
}

/// The heads of the keys of a call, and the pages of the cache if they lie in one: a second parameter of the forward kernel, by value.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct Paging {
    /// 1 if the keys lie in a cache.
    pub(super) cached: u32,
    /// Tokens of a page and pages of the cache, which has some, and pages of a sequence in the table or 0 without one.
    pub(super) page_size: u32,
    pub(super) pages: u32,
    pub(super) table_pages: u32,
    /// Heads of K and V.
    pub(super) heads_k: u32,
}

impl Paging {
    /// The keys lie in tensors.
    pub(super) fn none(problem: &Problem) -> Paging {
        Paging { page_size: 1, pages: 1, heads_k: problem.heads / problem.kv_group, ..Paging::default() }
    }
}

#[ptx_contract]
impl Paging {
    /// Returns true if so many bytes hold the rows of all heads of the keys, `dim` elements of `size` bytes: those of the tensor, or of all pages.
    pub(super) fn holds_keys(&self, problem: Problem, bytes: u64, strides: [u64; 3], dim: u32, size: u64) -> bool {
        let [sequences, tokens] =
            if self.cached == 0 { [problem.batch, problem.tokens_k] } else { [self.pages, self.page_size] };
        problem.holds_rows(bytes, strides, [sequences, tokens, self.heads_k], u64::from(dim) * size)
    }

    /// Returns true if the sequences of a cache have places for their keys, and there are so many lengths and entries of the table.
    pub(super) fn has_places(&self, problem: Problem, lengths: u64, table: u64) -> bool {
        let entries = u64::from(problem.batch) * u64::from(self.table_pages);
        let capacity = u64::from(self.table_pages) * u64::from(self.page_size);
        let is_paged = entries < 1 << 31
            && table >= entries
            && (self.table_pages == 0 || table > 0)
            && if self.table_pages == 0 { problem.keys <= self.page_size } else { u64::from(problem.keys) <= capacity };
        self.cached <= 1
            && self.pages > 0
            && self.page_size > 0
            && (self.cached == 0 || problem.variable == 0 && lengths >= u64::from(problem.batch) && is_paged)
    }
}

/// The gradients of a call: a second parameter of the backward kernels, by value. Strides count bytes.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct Gradients {
    /// Strides of batch, token and head: of the output's gradient, which is read, and of those of Q, K and V.
    pub(super) out: [u64; 3],
    pub(super) q: [u64; 3],
    pub(super) k: [u64; 3],
    pub(super) v: [u64; 3],
    /// Elements from the first to the last one of each, in this order.
    pub(super) reach: [u64; 4],
    /// The factor of the products of Q and K.
    pub(super) slope: f32,
    /// Heads of K and V.
    pub(super) heads_k: u32,
    /// Bytes of the pairs of numbers.
    pub(super) scratch: u64,
    /// The number of heads of Q over all sequences. Packed sequences count as one.
    pub(super) lines: u64,
}

impl Gradients {
    /// Checks the shapes: gradients are shaped like their tensors.
    pub(super) fn new(problem: &Problem, inputs: [&Rows; 3], grads: [&Rows; 4], scale: f32) -> Result<Gradients> {
        let [q, k, v] = inputs;
        let [batch, tokens, heads, _] = q.shape;
        let expected = [[batch, tokens, heads, v.shape[3]], q.shape, k.shape, v.shape];
        for (rows, expected) in grads.iter().zip(expected) {
            rows.check_shape(expected)?;
            rows.check_rows(MOST_ELEMENTS)?;
        }
        let [out, q, k, v] = grads.map(|rows| problem.packed(rows.steps_apart()));
        let [.., heads_k, _] = inputs[1].shape;
        let reach = grads.map(Rows::reach);
        let scratch = 8 * (batch * tokens * heads) as u64;
        let lines = (batch * heads) as u64;
        Ok(Gradients { out, q, k, v, reach, slope: scale, heads_k: heads_k as u32, scratch, lines })
    }
}

#[ptx_contract]
impl Gradients {
    /// Extents of the grid of the kernel that owns keys.
    pub(super) fn grid(&self, problem: Problem, owned: u32) -> (u32, u32, u32) {
        (problem.keys.div_ceil(owned), self.heads_k, problem.batch)
    }

    /// Returns true if so many bytes hold a pair of numbers for each query of each head. Packed sequences are one.
    pub(super) fn holds_pairs(&self, problem: Problem, bytes: u64) -> bool {
        let each = 8 * u64::from(problem.heads) * u64::from(problem.tokens_q);
        let all = u64::from(problem.batch) * u64::from(problem.heads);
        (problem.variable == 0 || bytes >= each && self.lines >= u64::from(problem.heads))
            && (problem.variable == 1 || bytes >= u64::from(problem.batch) * each && self.lines >= all)
            && bytes >= 8 * self.lines * u64::from(problem.tokens_q)
            && self.lines < 1 << 32
    }

    /// Returns true if there are heads of K and V, and so many bytes hold what the passes on Hopper leave for each other: for each query of each
    /// head, in whole tiles of `queries`, two numbers and a row of `head` sums, for each tile two numbers more, and for each head of K and V one, behind
    /// four counters. Packed sequences begin at whole tiles.
    pub(super) fn holds_sums(&self, problem: Problem, bytes: u64, [queries, head]: [u32; 2]) -> bool {
        let (tokens, batch) = (u64::from(problem.tokens_q), u64::from(problem.batch));
        let (tile, sums) = (u64::from(queries), u64::from(head));
        let tiles = if problem.variable == 1 { tokens / tile + batch } else { tokens.div_ceil(tile) * batch };
        let ended = 4 * u64::from(self.heads_k) * batch;
        self.heads_k > 0
            && self.heads_k <= problem.heads
            && bytes >= tiles * u64::from(problem.heads) * (tile * (8 + 4 * sums) + 8) + 16 + ended
    }

    /// Returns true if the gradient of Q and the scratch memory have so many elements that they hold all offsets.
    pub(super) fn covers_q(&self, q: u64, scratch: u64) -> bool {
        let [_, q_reach, ..] = self.reach;
        q >= q_reach && scratch >= self.scratch
    }

    /// Returns true if the gradients of the output, of K and of V, and the scratch memory have so many elements that they hold
    /// all offsets.
    pub(super) fn covers_keys(&self, lengths: [u64; 4]) -> bool {
        let [out, _, k, v] = self.reach;
        lengths.iter().zip([out, k, v, self.scratch]).all(|(len, reach)| *len >= reach)
    }
}

/// Heads of Q that share one of K and V.
pub(super) fn kv_group(heads: usize, heads_k: usize) -> Result<u32> {
    if heads == 0 || heads > MOST_HEADS || heads_k == 0 || !heads.is_multiple_of(heads_k) {
        let found = format!("{heads} heads of Q share {heads_k} of K and V");
        return Err(refuse(found, "1 to 65535 heads of Q, a multiple of the heads of K and V"));
    }
    Ok((heads / heads_k) as u32)
}

/// Strides with those of single ones as large as all that lies inside: so many rows, of so many bytes.
pub(super) fn apart(extents: [usize; 3], strides: [u64; 3], row: u64) -> [u64; 3] {
    let several = strides.iter().zip(extents).filter(|(_, extent)| *extent > 1);
    let most = several.map(|(stride, extent)| stride * extent as u64).fold(row, u64::max);
    std::array::from_fn(|at| if extents[at] > 1 { strides[at] } else { most })
}

/// Elements from the first to the last one.
pub(super) fn reach(shape: &[usize], strides: &[usize]) -> u64 {
    if shape.contains(&0) {
        return 0;
    }
    let steps = shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) as u64 * *stride as u64);
    1 + steps.sum::<u64>()
}

/// An error about a shape.
#[cold]
pub(super) fn refuse(found: String, possible: impl Into<String>) -> Error {
    Error::new(ErrorKind::Condition, found).possible(possible)
}
