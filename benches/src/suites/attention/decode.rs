//! Decode: one new query of each sequence against its cache, GQA with 32 heads of Q and 8 of the cache, 128 elements a row. The rate
//! counts the keys and values that are read.

use super::exact::exact_row;
use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::cudnn::{self, Dnn};
use ptx_examples::relative_error;
use ptx_kernels::attention::{Attention, KvCache};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// Sequences, keys of each, and tokens of a page, or 0 for a contiguous cache.
const SIZES: &[(usize, usize, usize)] = &[
    (64, 4096, 0),
    (16, 16384, 0),
    (1, 131_072, 0),
    (64, 4096, 16),
    (16, 16384, 16),
    (1, 131_072, 16),
    (64, 4096, 64),
    (64, 4096, 1),
];
/// For a rehearsal.
const SMALL: &[(usize, usize, usize)] = &[(2, 150, 0), (2, 96, 16)];
/// The kernel's name.
const KERNEL: &str = "decode bf16";
/// Heads of Q and of the cache, and elements of a row.
const HEADS: usize = 32;
const HEADS_K: usize = 8;
const DIM: usize = 128;
/// Number of rows that are compared with the reference.
const COMPARED: usize = 16;
/// Error bound: the rounding of P and O.
const LIMIT: f64 = 6e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for (batch, keys, page) in bench.sizes(SIZES, SMALL) {
        let pages = if *page == 0 { String::new() } else { format!(" page {page}") };
        let size = format!("b{batch} n{keys} h{HEADS} kv{HEADS_K} d{DIM}{pages}");
        if bench.wants(KERNEL, &size) {
            one(bench, size, [*batch, *keys, *page])?;
        }
    }
    Ok(())
}

/// Pages of all sequences in an order that jumps.
pub fn table(batch: usize, keys: usize, page: usize) -> Vec<i32> {
    let count = keys.checked_div(page).unwrap_or(0) * batch;
    (0..count).map(|at| (at * 7919 % count) as i32).collect()
}

fn one(bench: &mut Bench, size: String, [batch, keys, page]: [usize; 3]) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let (shape, len) = ([batch, 1, HEADS, DIM], batch * keys * HEADS_K * DIM);
    let mut normal = |len: usize| data::normal::<bf16>(&device, &stream, len, bench.seed());
    let operands = [normal(batch * HEADS * DIM)?, normal(len)?, normal(len)?];
    let [q, k, v] = &operands;
    let pages = table(batch, keys, page);
    let (table, lengths) = (device.upload(&pages)?, device.upload(&vec![keys as i32; batch])?);
    let paged = if page == 0 { [batch, keys, HEADS_K, DIM] } else { [pages.len(), page, HEADS_K, DIM] };
    let mut cache = KvCache::new(k.tile(paged)?, v.tile(paged)?, lengths.tile([batch])?);
    if let Some(pages) = keys.checked_div(page) {
        cache = cache.paged(table.tile([batch, pages])?);
    }
    let out = RefCell::new(device.zeros::<bf16>(q.len())?);
    let mut case = Case {
        kernel: KERNEL,
        size,
        work: Work::Bytes(4.0 * len as f64),
        poison: Box::new(|stream| data::poison(stream, &mut out.borrow_mut())),
        check: Box::new(|stream| error(stream, &operands, &out.borrow(), &pages, [batch, keys, page])),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    let options = Attention::new().causal();
    let query = q.tile(shape)?;
    let portable = options.portable();
    case.ours("ours", |stream| options.decode(stream, query, &cache, out.borrow_mut().tile_mut(shape)?, None));
    case.ours("portable", |stream| portable.decode(stream, query, &cache, out.borrow_mut().tile_mut(shape)?, None));
    if !bench.options.alone && page == 0 {
        let attention = cudnn::Attention {
            sequences: batch,
            heads: [HEADS, HEADS_K],
            tokens: [1, keys],
            width: DIM,
            causal: false,
        };
        let addresses = [q.address(), k.address(), v.address(), out.borrow().address()];
        let plan = Dnn::open(&device, &stream).and_then(|dnn| dnn.plan(attention.graphs(), &addresses, &stream));
        case.rival_if("cuDNN", plan.map(|plan| move |_: &Stream| plan.launch()));
    }
    bench.contest(case)
}

/// Error of some rows against the reference; NaN if any element is NaN.
fn error(
    stream: &Stream,
    [q, k, v]: &[Buffer<bf16>; 3],
    out: &Buffer<bf16>,
    pages: &[i32],
    [batch, keys, page]: [usize; 3],
) -> Result<f64> {
    if data::error(stream, out, out)?.is_nan() {
        return Ok(f64::NAN);
    }
    let (q, k, v, out) = (q.download()?, k.download()?, v.download()?, out.download()?);
    let mut worst: f64 = 0.0;
    for at in 0..COMPARED {
        let row = (batch * HEADS - 1) * at / (COMPARED - 1);
        let (sequence, head) = (row / HEADS, row % HEADS / (HEADS / HEADS_K));
        let place = |token: usize| {
            let at = sequence * keys + token;
            let token = at.checked_div(page).map_or(at, |number| pages[number] as usize * page + at % page);
            (token * HEADS_K + head) * DIM
        };
        let query = &q[row * DIM..][..DIM];
        let scale = (DIM as f64).sqrt().recip();
        let expected =
            exact_row(query, keys, scale, |token| &k[place(token)..][..DIM], |token| &v[place(token)..][..DIM]);
        let found: Vec<f32> = out[row * DIM..][..DIM].iter().map(|x| x.to_f32()).collect();
        worst = worst.max(relative_error(&found, expected));
    }
    Ok(worst)
}
