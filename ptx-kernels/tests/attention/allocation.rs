//! Calls that have run once on a stream allocate nothing on the host: tensor maps are kept, workspaces are there.

use crate::counting::allocations;
use half::bf16;
use ptx_kernels::attention::{Attention, Grads, KvCache, Results, Saved};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Two sizes in the same memory, in turns: a kept map is that of its own size.
#[test]
#[ignore = "needs a GPU of compute capability 9.0"]
fn calls_allocate_nothing() -> Result<()> {
    let device = Device::cuda(0)?;
    let ones = || device.upload(&vec![bf16::ONE; 2 * 256 * 64]);
    let (q, k, v, out_grad, mut out) = (ones()?, ones()?, ones()?, ones()?, ones()?);
    let (mut lse, mut grads) = (device.zeros::<f32>(2 * 256)?, [ones()?, ones()?, ones()?]);
    let (lengths, mut decoded) = (device.upload(&[100, 7])?, ones()?);
    let options = Attention::<bf16>::new();
    // The allocations of each pass.
    let mut call = |tokens: usize| -> Result<[u64; 3]> {
        let (shape, rows) = ([2, tokens, 1, 64], [2, 1, tokens]);
        let [tq, tk, tv] = [q.tile(shape)?, k.tile(shape)?, v.tile(shape)?];
        let start = allocations();
        let results = Results { out: out.tile_mut(shape)?.into(), lse: Some(lse.tile_mut(rows)?.into()) };
        options.forward(&device, tq, tk, tv, results)?;
        let forward = allocations();
        let saved = Saved {
            q: tq.into(),
            k: tk.into(),
            v: tv.into(),
            out: out.tile(shape)?.into(),
            lse: lse.tile(rows)?.into(),
            out_grad: out_grad.tile(shape)?.into(),
        };
        let [dq, dk, dv] = &mut grads;
        let to = Grads { q: dq.tile_mut(shape)?.into(), k: dk.tile_mut(shape)?.into(), v: dv.tile_mut(shape)?.into() };
        options.backward(&device, &saved, to, None)?;
        let backward = allocations();
        let (cache, one) = (KvCache::new(tk, tv, lengths.tile([2])?), [2, 1, 1, 64]);
        options.decode(&device, q.tile(one)?, &cache, decoded.tile_mut(one)?, None)?;
        Ok([forward - start, backward - forward, allocations() - backward])
    };
    for repeats in [false, true] {
        for tokens in [256, 128, 64] {
            let counts = call(tokens)?;
            assert!(!repeats || counts == [0; 3], "{tokens} tokens: {counts:?}");
        }
    }
    // The last call had 64 tokens, and all rows of V are ones.
    assert!(out.download()?.iter().chain(&decoded.download()?).all(|value| *value == bf16::ONE));
    Ok(())
}
