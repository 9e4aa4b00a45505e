//! Kernels that load tiles by `cp.async.bulk.tensor`: element types, ranks, steps, swizzles, fills, and boxes that reach out of the
//! tensor. Stores and interleaved channels are in `tma_maps`.

use crate::tensor_forms::{POOL, Scene, VARIANTS, entry};
use ptx_interp::Swizzle;
use ptx_interp::tensor_map::{ElementType, Fill, Interleave, Mode, RANK, TensorMap};

/// A map and how it is loaded from.
#[derive(Clone, Copy)]
struct Form {
    map: TensorMap,
    /// `.tile` written out.
    tile: bool,
}

const SHARED: usize = 16 << 10;

impl Form {
    /// Bytes that one instruction moves in shared memory.
    fn bytes(&self) -> usize {
        let rank = self.map.rank as usize;
        let inner = self.map.row_bytes() as usize;
        match self.map.mode {
            Mode::Tiled { tile } => {
                let steps = self.map.steps;
                let first = match self.map.interleave {
                    Interleave::None => inner.div_ceil(steps[0] as usize),
                    Interleave::B16 => 16 * tile[0] as usize,
                    Interleave::B32 => 32 * tile[0] as usize,
                };
                (1..rank).map(|d| tile[d].div_ceil(steps[d]) as usize).product::<usize>() * first
            }
            Mode::Im2col { pixels, .. } | Mode::Im2colW { pixels, .. } => inner * pixels as usize,
        }
    }

    /// Spelling that `run.py` and [`map`] read.
    fn spelled(&self) -> String {
        let m = &self.map;
        let rank = m.rank as usize;
        let list = |all: Vec<String>| all.join(",");
        let words = |all: &[u32]| list(all.iter().map(u32::to_string).collect());
        let mode = match m.mode {
            Mode::Tiled { tile } => format!("tile:{}", words(&tile[..rank])),
            Mode::Im2col { lower, upper, channels, pixels } => {
                // Turned round: width, height and depth are what the driver reads, so that some begin outside of the box.
                let corner = |c: [i16; 3]| list(c[..rank - 2].iter().rev().map(i16::to_string).collect());
                format!("im2col:{}:{}:{channels}:{pixels}", corner(lower), corner(upper))
            }
            Mode::Im2colW { .. } => String::new(),
        };
        format!(
            "tma:{}:{}:{}:{}:{}:{}:{}:{}:{mode}",
            "a",
            m.element as u8,
            list(m.dims[..rank].iter().map(u64::to_string).collect()),
            list(m.strides[..rank - 1].iter().map(u64::to_string).collect()),
            words(&m.steps[..rank]),
            m.interleave as u8,
            m.swizzle as u8,
            m.fill as u8,
        )
    }

    /// Ranges of the coordinates, and their starts.
    fn ranges(&self) -> Vec<(u64, i64)> {
        let m = &self.map;
        let rank = m.rank as usize;
        let of = |d: usize| match m.mode {
            Mode::Tiled { tile } => {
                let reach = u64::from(tile[d]);
                (m.dims[d] + 2 * reach, -(reach as i64))
            }
            Mode::Im2col { .. } | Mode::Im2colW { .. } if d == 0 => (m.dims[0], 0),
            Mode::Im2col { .. } | Mode::Im2colW { .. } if d == rank - 1 => (m.dims[d], 0),
            Mode::Im2col { lower, upper, .. } => {
                let (lo, hi) = (i64::from(lower[d - 1]), m.dims[d] as i64 + i64::from(upper[d - 1]));
                ((hi - lo).max(1) as u64, lo)
            }
            Mode::Im2colW { .. } => (1, 0),
        };
        (0..rank).map(of).collect()
    }

    fn scene(self) -> Option<Scene> {
        self.map.check().ok()?;
        let (rank, bytes) = (self.map.rank as usize, self.bytes());
        if bytes > SHARED || self.span() > POOL * VARIANTS {
            return None;
        }
        let mut coordinates = String::new();
        // Few begin between multiples of 16 bytes.
        let element = self.map.element.global_bytes();
        let align = if rank == 2 && element == 2 { 1 } else { 16 / element };
        for (d, (range, first)) in self.ranges().into_iter().enumerate() {
            let (range, scale) = if d == 0 { ((range / align).max(1), align) } else { (range, 1) };
            coordinates += &format!(
                "ld.global.u32 %k_{d}, [%e+{}]; rem.u32 %k_{d}, %k_{d}, {range}; mul.lo.u32 %k_{d}, %k_{d}, {scale}; add.s32 %k_{d}, %k_{d}, {first}; ",
                64 + d * 4
            );
        }
        let names = |n: usize, p: &str| (0..n).map(|d| format!("%{p}_{d}")).collect::<Vec<_>>().join(", ");
        let im2col = matches!(self.map.mode, Mode::Im2col { .. });
        let mode = if im2col {
            ".im2col"
        } else if self.tile {
            ".tile"
        } else {
            ""
        };
        let offsets = if im2col { format!(", {{{}}}", names(rank - 2, "h")) } else { String::new() };
        let coords = format!("[%y, {{{}}}]", names(rank, "k"));
        let body = format!(
            "@%p mbarrier.arrive.expect_tx.shared.b64 _, [%m], {bytes};\n\
             @%p cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%s], {coords}, [%m]{offsets};\n\
             mov.u32 %w, 0; WAIT: add.u32 %w, %w, 1; mbarrier.test_wait.parity.shared.b64 %q, [%m], 0; setp.gt.or.u32 %q, %w, 100000, %q; @!%q bra WAIT;\n\
             mad.wide.u32 %x, %t, 4, %out; mad.lo.u32 %z, %t, 4, %s; mov.u32 %w, %t;\n\
             COPY: ld.shared.u32 %v, [%z]; st.global.u32 [%x], %v; add.u32 %z, %z, 512; add.u64 %x, %x, 512; add.u32 %w, %w, 128;\n\
             setp.lt.u32 %q, %w, {}; @%q bra COPY;",
            SHARED / 4
        );
        let fill = format!(
            "mad.wide.u32 %x, %t, 4, %c; mad.lo.u32 %z, %t, 4, %s; mov.u32 %w, %t;\n\
             FILL: ld.global.u32 %v, [%x]; st.shared.u32 [%z], %v; add.u32 %z, %z, 512; add.u64 %x, %x, 512; add.u32 %w, %w, 128;\n\
             setp.lt.u32 %q, %w, {}; @%q bra FILL;",
            SHARED / 4
        );
        let text = entry(
            SHARED,
            &format!(
                ".shared .align 1024 .b8 sm[{SHARED}]; .shared .align 8 .b64 bar; .reg .b32 %s, %m, %z, %v, %k_<5>; .reg .b16 %h_<3>; .reg .b64 %y; .reg .pred %q;\n\
                 mov.u32 %s, sm; mov.u32 %m, bar; {fill}\n{coordinates}\n\
                 ld.global.u16 %h_0, [%e+128]; and.b16 %h_0, %h_0, 1; ld.global.u16 %h_1, [%e+130]; and.b16 %h_1, %h_1, 1; mov.b16 %h_2, 0;\n\
                 mov.b64 %y, map; cvta.param.u64 %y, %y; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%m], 1; fence.proxy.async; bar.sync 0;\n{body}"
            ),
        );
        let spelled = self.spelled();
        Some(Scene {
            name: format!("cp.async.bulk.tensor{mode} {spelled}"),
            entry: text.replace("out)", "out, .param .align 128 .b8 map[128])"),
            pools: ["bits", "bits", "bits", "bits"],
            threads: 128,
            out: SHARED,
            map: Some(spelled.leak()),
            cluster: 1,
        })
    }

    /// Bytes that the tensor spans.
    fn span(&self) -> usize {
        let rank = self.map.rank as usize;
        let last = if rank == 1 { self.map.element.global_bytes() } else { self.map.strides[rank - 2] };
        (last * self.map.dims[rank - 1]) as usize
    }
}

/// The map that a text of [`Form::spelled`] means, at an address.
pub(crate) fn map(text: &str, address: u64) -> TensorMap {
    let fields: Vec<&str> = text.split(':').collect();
    fn list<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<T> {
        text.split(',').filter(|w| !w.is_empty()).map(|w| w.parse().unwrap()).collect()
    }
    let fixed = |all: Vec<u32>| std::array::from_fn(|d| all.get(d).copied().unwrap_or(1));
    let dims: Vec<u64> = list(fields[3]);
    let strides: Vec<u64> = list(fields[4]);
    let corner = |text: &str| {
        let all: Vec<i16> = list(text);
        std::array::from_fn(|d| all.get(d).copied().unwrap_or(0))
    };
    let number = |at: usize| fields[at].parse::<usize>().unwrap();
    TensorMap {
        address,
        rank: dims.len() as u32,
        dims: std::array::from_fn(|d| dims.get(d).copied().unwrap_or(1)),
        strides: std::array::from_fn(|d| strides.get(d).copied().unwrap_or(0)),
        steps: fixed(list(fields[5])),
        mode: match fields[9] {
            "tile" => Mode::Tiled { tile: fixed(list(fields[10])) },
            _ => Mode::Im2col {
                lower: corner(fields[10]),
                upper: corner(fields[11]),
                channels: number(12) as u32,
                pixels: number(13) as u32,
            },
        },
        element: ElementType::ALL[number(2)],
        interleave: Interleave::ALL[number(6)],
        swizzle: [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][number(7)],
        promotion: Default::default(),
        fill: Fill::ALL[number(8)],
    }
}

fn fixed<T: Copy, const N: usize>(all: &[T], rest: T) -> [T; N] {
    std::array::from_fn(|d| all.get(d).copied().unwrap_or(rest))
}

/// A map with rows of `bytes` in shared memory, and strides that leave gaps.
fn tiled(element: ElementType, rank: usize, bytes: u64, swizzle: Swizzle) -> TensorMap {
    let size = element.global_bytes();
    let row = bytes / size;
    let dims = [row + 5, 11, 7, 3, 3];
    let pitch = (dims[0] * size).next_multiple_of(16) + 32;
    let strides = [pitch, pitch * 11, pitch * 77 + 16, pitch * 77 * 3 + 64];
    let tile = [row as u32, [1, 8, 6, 4, 3][rank - 1], [1, 1, 3, 2, 2][rank - 1], 2, 2];
    TensorMap {
        address: 0,
        rank: rank as u32,
        dims: fixed(&dims[..rank], 1),
        strides: fixed(&strides[..rank - 1], 0),
        steps: [1; RANK],
        mode: Mode::Tiled { tile: fixed(&tile[..rank], 1) },
        element,
        interleave: Interleave::None,
        swizzle,
        promotion: Default::default(),
        fill: Fill::Zero,
    }
}

const SWIZZLES: [(Swizzle, u64); 4] =
    [(Swizzle::None, 256), (Swizzle::B32, 32), (Swizzle::B64, 64), (Swizzle::B128, 128)];

fn loads() -> Vec<Form> {
    let mut found = Vec::new();
    for (at, element) in ElementType::ALL.into_iter().take(13).enumerate() {
        for (swizzle, most) in SWIZZLES {
            for rank in 1..=RANK {
                for bytes in [most, most / 2].into_iter().filter(|b| *b >= 16) {
                    let map = tiled(element, rank, bytes, swizzle);
                    let form = Form { map, tile: (at + rank) % 2 == 0 };
                    found.push(form);
                    if rank > 1 && bytes == most {
                        let mut steps = [1; RANK];
                        steps[rank - 1] = 2;
                        steps[1] = 3;
                        found.push(Form { map: TensorMap { steps, ..map }, ..form });
                    }
                    if element.nan().is_some() && bytes == most {
                        found.push(Form { map: TensorMap { fill: Fill::Nan, ..map }, ..form });
                    }
                }
            }
        }
    }
    found
}

fn im2col() -> Vec<Form> {
    let mut found = Vec::new();
    for element in [ElementType::U8, ElementType::F16, ElementType::F32, ElementType::Bf16, ElementType::Tf32] {
        for (swizzle, most) in SWIZZLES {
            for rank in 3..=RANK {
                for (lower, upper, pixels) in
                    [([-1, -1, -1], [-1, -1, -1], 20), ([0, 0, 0], [0, 0, 0], 33), ([-2, 0, -1], [1, -2, 0], 16)]
                {
                    let bytes = most.min(128);
                    let mut map = tiled(element, rank, bytes, swizzle);
                    map.mode = Mode::Im2col { lower, upper, channels: (bytes / element.global_bytes()) as u32, pixels };
                    let form = Form { map, tile: false };
                    found.push(form);
                    found.push(Form { map: TensorMap { steps: [1, 2, 1, 1, 1], ..map }, ..form });
                }
            }
        }
    }
    found
}

pub(crate) fn scenes() -> Vec<Scene> {
    let all = [loads(), im2col()].concat();
    all.into_iter().filter_map(Form::scene).collect()
}
