//! Appending to a cache: every place of the cache is compared, those that keep their value too.

use crate::case::{Float, Random};
use crate::decode::Stored;
use ptx_kernels::attention::{Attention, Cached, KvCacheMut};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// New tokens of some sequences; `lengths` count them. Without pages, `page_size` is the capacity.
#[derive(Clone, Debug)]
pub struct Append {
    pub lengths: Vec<usize>,
    pub tokens: usize,
    pub heads: usize,
    pub dims: [usize; 2],
    pub page_size: usize,
    /// Pages of a sequence, or 0 without a table.
    pub pages: usize,
    pub seed: u64,
}

impl Append {
    /// The place of a token: page and slot.
    fn place(&self, table: &[i32], sequence: usize, token: usize) -> (usize, usize) {
        match self.pages {
            0 => (sequence, token),
            pages => (table[sequence * pages + token / self.page_size] as usize, token % self.page_size),
        }
    }

    pub fn run<T: Float, K: Stored + Cached<T>>(&self, device: &Device) -> Result<()> {
        let Append { lengths, tokens, heads, dims, page_size, pages, .. } = self;
        let (batch, mut random) = (lengths.len(), Random(self.seed));
        let count = if *pages == 0 { batch } else { batch * pages };
        // Pages in the opposite order.
        let table: Vec<i32> = (0..batch * pages).rev().map(|page| page as i32).collect();
        let factors: Vec<f32> = (0..*heads).map(|head| if K::SCALED { 0.5 + head as f32 } else { 1.0 }).collect();
        let old = dims.map(|dim| vec![K::store(-2.0); count * page_size * heads * dim]);
        let new = dims.map(|dim| -> Vec<T> {
            (0..batch * tokens * heads * dim).map(|_| T::from((random.below(4000) as f64 - 2000.0) / 7.0)).collect()
        });
        let mut expected = old.clone();
        for (part, dim) in dims.iter().enumerate() {
            for (row, values) in new[part].chunks(*dim).enumerate() {
                let (head, token, sequence) = (row % heads, row / heads % tokens, row / heads / tokens);
                let place =
                    (lengths[sequence] + token).checked_sub(*tokens).filter(|at| *at < page_size * pages.max(&1));
                let Some(place) = place else { continue };
                let (page, slot) = self.place(&table, sequence, place);
                let at = ((page * page_size + slot) * heads + head) * dim;
                for (to, x) in expected[part][at..at + dim].iter_mut().zip(values) {
                    *to = K::store(f64::from(x.to() as f32 / factors[head]));
                }
            }
        }
        let [mut k, mut v] = [device.upload(&old[0])?, device.upload(&old[1])?];
        let [k_new, v_new] = [device.upload(&new[0])?, device.upload(&new[1])?];
        let lens = device.upload(&lengths.iter().map(|len| *len as i32).collect::<Vec<_>>())?;
        let (table, factors) = (device.upload(&table)?, device.upload(&factors)?);
        let shape = |dim: usize| [count, *page_size, *heads, dim];
        let mut cache = KvCacheMut::new(k.tile_mut(shape(dims[0]))?, v.tile_mut(shape(dims[1]))?, lens.tile([batch])?);
        if *pages > 0 {
            cache = cache.paged(table.tile([batch, *pages])?);
        }
        if K::SCALED {
            cache = cache.scales(factors.tile([*heads])?, factors.tile([*heads])?);
        }
        let rows = |dim: usize| [batch, *tokens, *heads, dim];
        Attention::<T>::new().append(device, k_new.tile(rows(dims[0]))?, v_new.tile(rows(dims[1]))?, cache)?;
        for (found, expected) in [k.download()?, v.download()?].iter().zip(&expected) {
            let same = found.iter().zip(expected).all(|(found, expected)| found.value() == expected.value());
            assert!(same, "{self:?}");
        }
        Ok(())
    }
}

/// A random call; some sequences are too short or too long for their new tokens.
pub fn random_append(seed: u64) -> Append {
    let mut random = Random(seed ^ 0xadd);
    let r = &mut random;
    let (page_size, pages) = ([1, 3, 16, 64][r.below(4)], r.below(4));
    let capacity = page_size * pages.max(1);
    Append {
        lengths: (0..1 + r.below(3)).map(|_| r.below(capacity + 3)).collect(),
        tokens: 1 + r.below(5),
        heads: 1 + r.below(3),
        dims: [16 * (1 + r.below(16)), 16 * (1 + r.below(16))],
        page_size,
        pages,
        seed,
    }
}
