//! Kernels around a product: the sum of the parts of K, and copies of operands in the layout that the fast kernels read.

use super::epilogue::with_epilogue;

with_epilogue! {
    /// Portable to every target from `sm_75` on.
    mod kernels for "sm_75" {
        /// Types that a kernel is made for.
        #[derive(Clone, Copy, Debug)]
        pub struct Config {
            /// 1 if sums are `i32`.
            pub integer: u32,
        }

        /// Adds the sums of the parts of K up, in order, and finishes them: four neighbors of a row each thread. The grid is
        /// (runs of four of all rows / 256, 1, batches).
        #[ptx_kernel(block = 256, instances = [float = (Config { integer: 0 }), integer = (Config { integer: 1 })])]
        pub fn reduce<const C: Config>(out: Output, p: Problem) {
            let runs: u32 = p.pitch / 4;
            let index: u32 = ctaid.x * 256 + tid.x;
            let row: u32 = index / runs;
            let place = Place { row, column: (index - row * runs) * 4, batch: ctaid.z, split: 0 };
            if row >= p.m {
                return;
            }
            let matrix: u64 = wide(p.m) * p.pitch * 4;
            let step: u64 = matrix * (p.batches as u64);
            let mut from: u64 = p.partial + matrix * (place.batch as u64) + (wide(row) * p.pitch + place.column as u64) * 4;
            let sums: [b32; 4];
            ptx! { ld.global.v4.b32 {sums[..]}, [from]; }
            let mut left: u32 = p.splits - 1;
            while left > 0 {
                let more: [b32; 4];
                from += step;
                ptx! { ld.global.v4.b32 {more[..]}, [from]; }
                for i in 0..4 {
                    if C.integer == 1 {
                        ptx! { add.s32 sums[i], sums[i], more[i]; }
                    } else {
                        ptx! { add.rn.f32 sums[i], sums[i], more[i]; }
                    }
                }
                left -= 1;
            }
            if place.column < p.n {
                write_out::<{ C.integer }>(&sums, &place, &out, &p);
            }
        }

        /// Elements of an operand that is copied.
        #[derive(Clone, Copy, Debug)]
        pub struct Element {
            /// Bytes of an element.
            pub size: u32,
        }

        /// Copies an operand to lines that are dense along K, `pitch` bytes apart, through tiles of 64 x 64 in shared memory. The
        /// grid is (tiles, 1, batches); the tiles along K are neighbors.
        #[ptx_kernel(
            block = 256,
            instances = [bytes1 = (Element { size: 1 }), bytes2 = (Element { size: 2 }), bytes4 = (Element { size: 4 })]
        )]
        pub fn pack<const T: Element>(source: Source, to: u64, lines: u32, k: u32, pitch: u32, along_k: u32) {
            #[shared]
            let tile: [[b32; 65]; 64];

            let tiles_k: u32 = (k + 63) / 64;
            let tile_line: u32 = ctaid.x / tiles_k;
            let (line0, k0): (u32, u32) = (tile_line * 64, (ctaid.x - tile_line * tiles_k) * 64);
            let along: pred = along_k != 0;
            let (slow, fast): (u32, u32) = (tid.x / 64, tid.x % 64);
            let start: u64 = source.at + source.batch * (ctaid.z as u64);
            for i in 0..16 {
                let next: u32 = slow + i * 4;
                let (line, depth): (u32, u32) = (along.select(next, fast), along.select(fast, next));
                let from: u64 = start + source.line * ((line0 + line) as u64) + source.k * ((k0 + depth) as u64);
                let there: pred = (line0 + line < lines) & (k0 + depth < k);
                let put = tile.at(line, depth);
                let bits: b32;
                if T.size == 4 {
                    ptx! { mov.b32 bits, 0; @there ld.global.b32 bits, [from]; }
                } else if T.size == 2 {
                    ptx! { mov.b32 bits, 0; @there ld.global.u16 bits, [from]; }
                } else {
                    ptx! { mov.b32 bits, 0; @there ld.global.u8 bits, [from]; }
                }
                ptx! { st.shared.b32 [put], bits; }
            }
            block::sync();
            for i in 0..16 {
                let (line, depth): (u32, u32) = (slow + i * 4, fast);
                let get = tile.at(line, depth);
                let row: u64 = wide(ctaid.z) * lines + (line0 + line) as u64;
                let at: u64 = to + row * (pitch as u64) + wide(k0 + depth) * T.size;
                let there: pred = (line0 + line < lines) & (k0 + depth < k);
                let bits: b32;
                ptx! { ld.shared.b32 bits, [get]; }
                if T.size == 4 {
                    ptx! { @there st.global.b32 [at], bits; }
                } else if T.size == 2 {
                    ptx! { @there st.global.u16 [at], bits; }
                } else {
                    ptx! { @there st.global.u8 [at], bits; }
                }
            }
        }
    }
}
