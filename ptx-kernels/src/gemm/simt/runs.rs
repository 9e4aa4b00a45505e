//! Kernels for few rows of C whose operands both lie along K, in aligned runs: threads read 16 bytes of each line at a time. Elements of 8 bits are
//! integers: to convert floats takes longer than to load them one by one.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod runs {
    /// The sums of a block, and the epilogue. The elements after the last whole run follow one by one.
    fn multiply_runs<T, const C: Rows>(
        a: &Source,
        b: &Source,
        out: &Output,
        p: &Problem,
        memory: Shared<[b32; C.words()]>,
    ) {
        let place: Place = place_of_rows::<C>(p);
        let sums: [[b32; 4]; 4];
        clear(&mut sums);
        add_runs::<T, C>(&mut sums, a, b, &place, p);
        add_elements::<T, C>(&mut sums, a, b, &place, p);
        add_lanes::<T, C>(&sums, memory, &place, out, p);
    }

    /// Adds the products of a thread's runs of K: of four rows and four columns.
    fn add_runs<T, const C: Rows>(sums: &mut [[b32; 4]; 4], a: &Source, b: &Source, place: &Place, p: &Problem) {
        const RUN: u32 = 16 / size_of::<T>();
        const BYTES: u64 = (C.threads * 16) as u64;
        // A part of K begins with a run.
        let whole: u32 = end_of_part(place, p) / RUN * RUN;
        let mut k: u32 = place.split * p.k_split + tid.x * RUN;
        let (mut from_a, mut from_b): (u64, u64) = (element_at(a, place.row, k), element_at(b, place.column, k));
        while k < whole {
            let (rows, columns): ([[b32; 4]; 4], [[b32; 4]; 4]);
            load_runs(&mut columns, from_b, b.line, p.n - place.column, has(p.flags, B_WIDE));
            load_runs(&mut rows, from_a, a.line, p.m - place.row, has(p.flags, A_WIDE));
            for word in 0..4 {
                if type_name::<T>() == "i8" {
                    for i in 0..4 {
                        for j in 0..4 {
                            ptx! { dp4a.s32.s32 sums[i][j], rows[i][word], columns[j][word], sums[i][j]; }
                        }
                    }
                } else {
                    for element in 0..RUN / 4 {
                        let (row, column): ([b32; 4], [b32; 4]);
                        for i in 0..4 {
                            row[i] = element_of::<T, element>(rows[i][word]);
                            column[i] = element_of::<T, element>(columns[i][word]);
                        }
                        add_products::<T, 4>(sums, &row, &column);
                    }
                }
            }
            k += C.threads * RUN;
            from_a += BYTES;
            from_b += BYTES;
        }
    }

    /// Adds the products of the rest of K, less than a run: an element for each of the first threads.
    fn add_elements<T, const C: Rows>(sums: &mut [[b32; 4]; 4], a: &Source, b: &Source, place: &Place, p: &Problem) {
        const RUN: u32 = 16 / size_of::<T>();
        let end: u32 = end_of_part(place, p);
        let k: u32 = end / RUN * RUN + tid.x;
        if k < end {
            let (row, column): ([b32; 4], [b32; 4]);
            load_lines::<T>(&mut row, element_at(a, place.row, k), a.line, place.row, p.m, true);
            load_lines::<T>(&mut column, element_at(b, place.column, k), b.line, place.column, p.n, true);
            add_products::<T, 4>(sums, &row, &column);
        }
    }

    /// The runs of four lines at `from`, `line` bytes apart, zeros from line `count` on: in 16 bytes at a time, or in words.
    fn load_runs(words: &mut [[b32; 4]; 4], from: u64, line: u64, count: u32, wide_runs: pred) {
        for i in 0..4 {
            for j in 0..4 {
                ptx! { mov.b32 words[i][j], 0; }
            }
        }
        let mut at: u64 = from;
        if wide_runs {
            for i in 0..4 {
                let there: pred = count > i;
                ptx! { @there ld.global.v4.b32 {words[i][..]}, [at]; }
                at += line;
            }
        } else {
            for i in 0..4 {
                let there: pred = count > i;
                for j in 0..4 {
                    ptx! { @there ld.global.b32 words[i][j], [at + 4 * j]; }
                }
                at += line;
            }
        }
    }

    /// An element of a word as the `f32` that it is.
    fn element_of<T, const AT: u32>(word: b32) -> b32 {
        let mut bits: b32 = word;
        if type_name::<T>() == "bf16" {
            if AT == 0 {
                ptx! { shl.b32 bits, word, 16; }
            } else {
                ptx! { and.b32 bits, word, 0xffff0000; }
            }
        } else if type_name::<T>() == "f16" {
            let h: b16;
            ptx! { shr.u32 bits, word, 16 * AT; cvt.u16.u32 h, bits; cvt.f32.f16 bits, h; }
        }
        bits
    }
}
