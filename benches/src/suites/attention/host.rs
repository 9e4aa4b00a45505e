//! The host's time for a call of each operation, up to its submission: checks, choice, tensor maps, launches. Problems are small, so that no call waits
//! for the device.

use super::backward::{grads, saved};
use super::row::Row;
use crate::bench::{Bench, quickest_call};
use ptx_kernels::attention::{Attention, KvCache, LatentCache, Results};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The name of the suite.
const NAME: &str = "attention host";

pub fn host(bench: &mut Bench) -> Result<()> {
    if !bench.device.is_cuda() || !bench.wants(NAME, "small") {
        return Ok(());
    }
    passes(bench)?;
    decode(bench)
}

/// The forward pass, with and without a chain of options, and the backward pass.
fn passes(bench: &mut Bench) -> Result<()> {
    let (device, stream) = (&bench.device.clone(), &bench.stream.clone());
    for row in [Row::new(1, 1, 64, 64), Row { window: Some(32), ..Row::new(1, 1, 64, 128).causal() }] {
        let (shape, len) = (row.shape(), row.shape().iter().product());
        let zeros = || device.zeros::<bf16>(len);
        let (q, k, v, out_grad, mut out) = (zeros()?, zeros()?, zeros()?, zeros()?, zeros()?);
        let (mut lse, mut gradients) = (device.zeros::<f32>(64)?, [zeros()?, zeros()?, zeros()?]);
        let starts = device.upload(&[0, 64])?;
        let options = row.options(&starts)?;
        let [tq, tk, tv] = [q.tile(shape)?, k.tile(shape)?, v.tile(shape)?];
        let forward = quickest_call(stream, || {
            let lse = Some(lse.tile_mut(row.shape_lse())?.into());
            options.forward(stream, tq, tk, tv, Results { out: out.tile_mut(shape)?.into(), lse })
        })?;
        let saved = saved(&row, [&q, &k, &v, &out_grad], &out, &lse)?;
        let backward = quickest_call(stream, || options.backward(stream, &saved, grads(&row, &mut gradients)?, None))?;
        bench.note(format!("{NAME} {row}: forward {forward:?} a call, backward {backward:?}"));
    }
    Ok(())
}

/// Decode from pages, and latent decode.
fn decode(bench: &mut Bench) -> Result<()> {
    let (device, stream, options) = (&bench.device.clone(), &bench.stream.clone(), Attention::<bf16>::new().causal());
    let (cache, q, mut out) = (device.zeros::<bf16>(64 * 576)?, device.zeros(576)?, device.zeros::<bf16>(512)?);
    let (lengths, table) = (device.upload(&[64])?, device.upload(&[0])?);
    let (lengths, table) = (lengths.tile([1])?, table.tile([1, 1])?);
    let rows = cache.tile([1, 64, 1, 128])?;
    let (plain, query) = (KvCache::new(rows, rows, lengths).paged(table), q.tile([1, 1, 1, 128])?);
    let time = quickest_call(stream, || options.decode(stream, query, &plain, out.tile_mut([1, 1, 1, 128])?, None))?;
    let (latent, query) =
        (LatentCache::new(cache.tile([1, 64, 1, 576])?, lengths).paged(table), q.tile([1, 1, 1, 576])?);
    let latent_time =
        quickest_call(stream, || options.decode_latent(stream, query, &latent, out.tile_mut([1, 1, 1, 512])?, None))?;
    bench.note(format!("{NAME} of one page: decode {time:?} a call, latent decode {latent_time:?}"));
    Ok(())
}
