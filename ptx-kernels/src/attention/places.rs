//! Places of the tokens in a cache.

use super::problem::{MOST_TOKENS, refuse};
use ptx_launch::{Result, TensorRef};

/// Pages of a cache, and entries of a table, must be fewer, so that the kernels count them in 32 bits.
const MOST_PAGES: usize = 1 << 31;

/// The places of a cache's tokens: the keys of each sequence, pages, and factors of the heads of K and V.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub(super) lengths: TensorRef<'a, i32, 1>,
    pub(super) table: Option<TensorRef<'a, i32, 2>>,
    pub(super) scales: Option<[TensorRef<'a, f32, 1>; 2]>,
}

impl<'a> Places<'a> {
    /// A row of the cache for each sequence.
    pub(super) fn new(lengths: TensorRef<'a, i32, 1>) -> Self {
        Places { lengths, table: None, scales: None }
    }

    /// The same with pages.
    pub(super) fn paged(self, table: TensorRef<'a, i32, 2>) -> Self {
        Places { table: Some(table), ..self }
    }

    /// Pages of a sequence in the table, or 0 without one.
    pub(super) fn table_pages(&self) -> u32 {
        self.table.map_or(0, |table| table.shape()[1] as u32)
    }

    /// Checks everything for `batch` sequences and a cache of a shape: pages, tokens of a page, heads, elements. Returns the most keys of a
    /// sequence.
    pub(super) fn check(&self, batch: usize, [pages, page_size, heads, _]: [usize; 4]) -> Result<u32> {
        let (lengths, table) = (&self.lengths, self.table.map(|table| table.shape()));
        if lengths.shape() != [batch] || !lengths.is_contiguous() {
            let found = format!("{batch} sequences, lengths of shape {:?}", lengths.shape());
            return Err(refuse(found, "contiguous lengths of all sequences"));
        }
        let fits = match table {
            Some([rows, _]) => {
                rows == batch && pages > 0 && page_size > 0 && self.table.is_some_and(|table| table.is_contiguous())
            }
            None => pages == batch,
        };
        if !fits {
            let found = format!("{batch} sequences, a table {table:?}, {pages} pages of {page_size} tokens");
            return Err(refuse(found, "a row of each sequence in a contiguous table, or in the cache"));
        }
        if let Some([k, v]) = &self.scales
            && (k.shape() != [heads] || v.shape() != [heads] || !k.is_contiguous() || !v.is_contiguous())
        {
            let found = format!("factors of shapes {:?} and {:?}", k.shape(), v.shape());
            return Err(refuse(found, format!("contiguous factors of {heads} heads of the cache")));
        }
        let [rows, count] = table.unwrap_or([0, 1]);
        // A stride of 0 makes a cache of any extents.
        let capacity = count.saturating_mul(page_size);
        if capacity.max(page_size) >= MOST_TOKENS || pages.max(rows.saturating_mul(count)) >= MOST_PAGES {
            let found = format!("a table {table:?}, {pages} pages of {page_size} tokens");
            return Err(refuse(
                found,
                "fewer than 2^29 tokens of a sequence, and than 2^31 pages and entries of the table",
            ));
        }
        Ok(capacity as u32)
    }
}
