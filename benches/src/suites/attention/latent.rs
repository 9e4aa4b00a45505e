//! Decode of latent attention (MLA) with the projections absorbed: one new query of each sequence against pages of 64 rows of 576 elements, the
//! first 512 of which are V. The rate counts the products of all heads.

use super::decode::table;
use super::exact::exact_row;
use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::flash_mla::{self, FlashMla};
use ptx_examples::relative_error;
use ptx_kernels::attention::{Attention, LatentCache};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// Sequences, keys of each, heads.
const SIZES: &[[usize; 3]] = &[[64, 4096, 128], [1, 131_072, 128], [64, 4096, 16], [1, 131_072, 16]];
/// For a rehearsal.
const SMALL: &[[usize; 3]] = &[[2, 128, 16]];
/// The kernel's name.
const KERNEL: &str = "decode latent bf16";
/// Elements of a row of the cache, and of its part that is V; tokens of a page.
const DIM: usize = 576;
const DIM_V: usize = 512;
const PAGE: usize = 64;
/// The scale of heads of 192 elements.
const SCALE: f32 = 0.072_168_78;
/// Number of rows that are compared with the reference.
const COMPARED: usize = 16;
/// Error bound: the rounding of P and O.
const LIMIT: f64 = 6e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for extents in bench.sizes(SIZES, SMALL) {
        let [batch, keys, heads] = *extents;
        let size = format!("b{batch} n{keys} h{heads} d{DIM} v{DIM_V} page {PAGE}");
        if bench.wants(KERNEL, &size) {
            one(bench, size, *extents)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, size: String, [batch, keys, heads]: [usize; 3]) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let pages = table(batch, keys, PAGE);
    let mut normal = |len: usize| data::normal::<bf16>(&device, &stream, len, bench.seed());
    let (q, rows) = (normal(batch * heads * DIM)?, normal(pages.len() * PAGE * DIM)?);
    let (table, lengths) = (device.upload(&pages)?, device.upload(&vec![keys as i32; batch])?);
    let cache = LatentCache::new(rows.tile([pages.len(), PAGE, 1, DIM])?, lengths.tile([batch])?)
        .paged(table.tile([batch, keys / PAGE])?);
    let out = RefCell::new(device.zeros::<bf16>(batch * heads * DIM_V)?);
    let lse = device.zeros::<f32>(batch * heads)?;
    let mut case = Case {
        kernel: KERNEL,
        size,
        work: Work::Flops((2 * batch * heads * keys * (DIM + DIM_V)) as f64),
        poison: Box::new(|stream| data::poison(stream, &mut out.borrow_mut())),
        check: Box::new(|stream| error(stream, [&q, &rows, &out.borrow()], &pages, [batch, keys, heads])),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    let (query, shape) = (q.tile([batch, 1, heads, DIM])?, [batch, 1, heads, DIM_V]);
    for (name, options) in [("ours", Attention::new()), ("portable", Attention::new().portable())] {
        let (options, cache, out) = (options.causal().scale(SCALE), &cache, &out);
        case.ours(name, move |stream| {
            options.decode_latent(stream, query, cache, out.borrow_mut().tile_mut(shape)?, None)
        });
    }
    if !bench.options.alone {
        let problem = flash_mla::Problem {
            dims: [DIM as i32, DIM_V as i32],
            counts: [batch as i32, 1, heads as i32, 1],
            pages: [pages.len() as i32, PAGE as i32, (keys / PAGE) as i32],
            causal: 1,
            scale: SCALE,
            tensors: [q.address(), rows.address(), out.borrow().address()],
            lse: lse.address(),
            table: table.address(),
            lengths: lengths.address(),
            ..flash_mla::Problem::default()
        };
        let plan = FlashMla::open(&device, &stream).and_then(|library| library.decode(problem));
        case.rival_if("FlashMLA", plan.map(|plan| move |_: &Stream| plan.launch()));
    }
    bench.contest(case)
}

/// Error of some rows of Q, the cache and the output against the reference; NaN if any element is NaN.
fn error(
    stream: &Stream,
    [q, rows, out]: [&Buffer<bf16>; 3],
    pages: &[i32],
    [batch, keys, heads]: [usize; 3],
) -> Result<f64> {
    if data::error(stream, out, out)?.is_nan() {
        return Ok(f64::NAN);
    }
    let (q, rows, out) = (q.download()?, rows.download()?, out.download()?);
    let mut worst: f64 = 0.0;
    for at in 0..COMPARED {
        let row = (batch * heads - 1) * at / (COMPARED - 1);
        let place = |token: usize| {
            let at = row / heads * keys + token;
            (pages[at / PAGE] as usize * PAGE + at % PAGE) * DIM
        };
        let key = |token: usize| &rows[place(token)..][..DIM];
        let value = |token: usize| &rows[place(token)..][..DIM_V];
        let expected = exact_row(&q[row * DIM..][..DIM], keys, f64::from(SCALE), key, value);
        let found: Vec<f32> = out[row * DIM_V..][..DIM_V].iter().map(|x| x.to_f32()).collect();
        worst = worst.max(relative_error(&found, expected));
    }
    Ok(worst)
}
