//! Fetches and surfaces against a GPU: every geometry, format, filter and address mode, at coordinates inside, outside and between.
//!
//! `PTX_RECORD_TEXTURES=dir cargo test … texture_forms` writes what a GPU needs: `textures.ptx`, `cases.txt` (an entry, the object in the driver's
//! numbers, and where its texels begin in `texels.bin`) and `coords.bin` (the coordinates of [`THREADS`] threads for each case). A GPU gives
//! `out.bin`: for each case four words a thread, then the first [`MEMORY`] bytes of the object as they are afterwards. Where it is there, the same
//! command compares with it and makes `textures_sm_90a.txt`: a line a case, with a hash of both.

use crate::forms::random;
use crate::harness::{launch, one_in, program};
use crate::recordings::TEXTURES;
use ptx_interp::texture::{Channel, Filter, Outside, Texture};
use ptx_interp::{Machine, Options, Program};
use std::collections::BTreeMap;
use std::fmt::Write;

const THREADS: usize = 256;
const MEMORY: usize = 4096;
const PART: usize = THREADS * 16 + MEMORY;
const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// Storage of texels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Linear,
    Pitched,
    Array,
}

/// `1d` … `acube`: coordinates within a layer, whether the layer's number stands before them, whether it is a cube, and the object's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Geometry {
    name: &'static str,
    dims: usize,
    layered: bool,
    cube: bool,
    size: [u32; 3],
    layers: u32,
}

const fn geometry(name: &'static str, dims: usize, size: [u32; 3], layers: u32) -> Geometry {
    let cube = matches!(name.as_bytes(), [.., b'b', b'e']);
    let layered = matches!(name.as_bytes(), [b'a', ..]);
    Geometry { name, dims, layered, cube, size, layers }
}

const D1: Geometry = geometry("1d", 1, [37, 1, 1], 0);
const D2: Geometry = geometry("2d", 2, [13, 7, 1], 0);
const D3: Geometry = geometry("3d", 3, [6, 5, 4], 0);
const A1: Geometry = geometry("a1d", 1, [19, 1, 1], 5);
const A2: Geometry = geometry("a2d", 2, [7, 6, 1], 4);
const CUBE: Geometry = geometry("cube", 3, [5, 5, 1], 6);
const CUBES: Geometry = geometry("acube", 3, [4, 4, 1], 12);
const ALL: [Geometry; 7] = [D1, D2, D3, A1, A2, CUBE, CUBES];

/// A format with the driver's number, and whether it is read as floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Format {
    channel: Channel,
    number: u32,
    float: bool,
}

const fn format(channel: Channel, number: u32, float: bool) -> Format {
    Format { channel, number, float }
}

impl Format {
    /// Integers that are read as floats, which no surface has.
    fn is_normalized(self) -> bool {
        self.float && !matches!(self.channel, Channel::F16 | Channel::F32)
    }
}

const F32: Format = format(Channel::F32, 0x20, true);
const U32: Format = format(Channel::U32, 3, false);
const FORMATS: [Format; 12] = [
    format(Channel::U8, 1, false),
    format(Channel::U16, 2, false),
    U32,
    format(Channel::S8, 8, false),
    format(Channel::S16, 9, false),
    format(Channel::S32, 10, false),
    format(Channel::Unorm8, 1, true),
    format(Channel::Unorm16, 2, true),
    format(Channel::Snorm8, 8, true),
    format(Channel::Snorm16, 9, true),
    format(Channel::F16, 0x10, true),
    F32,
];

const WRAP: Outside = Outside::Wrap;
const CLAMP: Outside = Outside::Clamp;
const MIRROR: Outside = Outside::Mirror;
const BORDER: Outside = Outside::Border;

/// An instruction and its object.
#[derive(Clone, Debug)]
struct Case {
    /// The instruction, with `{c}` for coordinates and `{d}` for registers.
    instruction: String,
    /// Unit of its first coordinate: texels as floats, as integers, or bytes of so many.
    coordinates: Coordinates,
    kind: Kind,
    geometry: Geometry,
    format: Format,
    channels: u32,
    filter: Filter,
    outside: [Outside; 3],
    normalized: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coordinates {
    Float,
    Texels,
    /// Bytes, in steps of so many; the others as texels.
    Bytes(u32),
    /// As above, each of them once.
    Once(u32),
}

impl Case {
    fn tex(kind: Kind, geometry: Geometry, format: Format, channels: u32) -> Case {
        let ty = if format.float { "f32" } else { "u32" };
        Case {
            instruction: format!("tex.{}.v4.{ty}.f32 {{d}}, [%h, {{c}}];", geometry.name),
            coordinates: Coordinates::Float,
            kind,
            geometry,
            format,
            channels,
            filter: Filter::Nearest,
            outside: [CLAMP; 3],
            normalized: false,
        }
    }

    /// By whole coordinates.
    fn whole(self) -> Case {
        Case { instruction: self.instruction.replace("32.f32", "32.s32"), coordinates: Coordinates::Texels, ..self }
    }

    fn filter(self, filter: Filter) -> Case {
        Case { filter, ..self }
    }

    fn outside(self, outside: [Outside; 3]) -> Case {
        Case { outside, ..self }
    }

    fn normalized(self, normalized: bool) -> Case {
        Case { normalized, ..self }
    }

    fn instruction(self, instruction: &str) -> Case {
        let instruction = instruction.replace("{g}", self.geometry.name);
        Case { instruction, ..self }
    }

    fn coordinates(self, coordinates: Coordinates) -> Case {
        Case { coordinates, ..self }
    }

    /// Name of the case in the recording.
    fn name(&self) -> String {
        let outside = self.outside.map(|o| (o as usize).to_string()).concat();
        let filter = self.filter as usize;
        let Case { kind, channels, normalized, .. } = self;
        let normalized = u8::from(*normalized);
        let channel = self.format.channel;
        format!(
            "{} {kind:?} {channel:?}x{channels} filter {filter} outside {outside} normalized {normalized}",
            self.instruction
        )
    }

    fn entry(&self, name: &str) -> String {
        let coordinates = match (self.geometry.name, self.coordinates) {
            ("1d", _) => "%c0",
            ("2d" | "a1d", _) => "{%c0, %c1}",
            _ => "{%c0, %c1, %c2, %c3}",
        };
        let instruction = self.instruction.replace("{c}", coordinates).replace("{d}", "{%d0, %d1, %d2, %d3}");
        format!(
            ".visible .entry {name}(.param .u64 object, .param .u64 coords, .param .u64 out) {{\n\
             .reg .b64 %h, %c, %o, %x0, %x1; .reg .b32 %t, %c<4>, %d<4>, %e<4>; .reg .b16 %s<4>; .reg .pred %p;\n\
             ld.param.u64 %h, [object]; ld.param.u64 %c, [coords]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;\n\
             mad.wide.u32 %c, %t, 16, %c; mad.wide.u32 %o, %t, 16, %o; ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%c];\n\
             mov.b32 %d0, %c0; mov.b32 %d1, %c1; mov.b32 %d2, %c2; mov.b32 %d3, %c3; mov.b32 %e0, 1; mov.b32 %e1, -2; mov.b32 %e2, 3; mov.b32 %e3, 0;\n\
             {instruction}\n\
             st.global.v4.b32 [%o], {{%d0, %d1, %d2, %d3}}; ret; }}\n"
        )
    }

    /// The object, with its first texel at an address.
    fn texture(&self, address: u64) -> Texture {
        Texture {
            address,
            channel: self.format.channel,
            channels: self.channels,
            size: self.geometry.size,
            layers: self.geometry.layers,
            array: false,
            pitch: 0,
            outside: self.outside,
            filter: self.filter,
            normalized: self.normalized,
        }
    }

    /// A coordinate of a dimension.
    fn float(&self, dim: usize, state: &mut u64) -> u32 {
        let size = self.geometry.size[dim] as f32;
        let unit = if self.normalized { size } else { 1.0 };
        let mut below = |n: u64| ((random(state) >> 33) % n) as f32;
        let texels = match below(16) as u32 {
            0 => below(size as u64 * 3) - size,
            1 => below(size as u64 * 6) * 0.5 - size,
            // Around where a weight of 8 bits is rounded, and a texel begins.
            2 | 3 => below(size as u64 * 512) / 512.0 + 0.5,
            4 => below(size as u64 * 1024) / 1024.0 + 0.5 + (below(3) - 1.0) * 1e-6,
            5 => f32::from_bits((below(size as u64) + 1.0).to_bits().wrapping_add(below(3) as u32).wrapping_sub(1)),
            6 => {
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40, -1e-40, 3e9, -3e9, 1e30, -1e30, 2e5, -70000.3]
                    [below(12) as usize]
            }
            7 => below(1 << 24) / (1 << 20) as f32 * size - 8.0 * size,
            _ => below(1 << 24) / (1 << 24) as f32 * size * 1.5 - size * 0.25,
        };
        (texels / unit).to_bits()
    }

    /// Components of a direction.
    fn direction(state: &mut u64) -> [u32; 3] {
        std::array::from_fn(|_| {
            let r = random(state) >> 20;
            match r & 15 {
                0 => 0f32,
                1 => 1.0,
                2 => -1.0,
                _ => ((r >> 4) % (1 << 24)) as f32 / (1 << 23) as f32 - 1.0,
            }
            .to_bits()
        })
    }

    /// The coordinates of a thread.
    fn place(&self, thread: usize, state: &mut u64) -> [u32; 4] {
        let g = &self.geometry;
        let mut within: [u32; 3] = match self.coordinates {
            Coordinates::Float if g.cube => Case::direction(state),
            Coordinates::Float => std::array::from_fn(|dim| self.float(dim, state)),
            Coordinates::Texels | Coordinates::Bytes(_) => std::array::from_fn(|dim| {
                let r = random(state) >> 20;
                let size = u64::from(g.size[dim]);
                let whole = if r & 7 == 0 { (r >> 8) % (3 * size + 9) } else { size + (r >> 8) % size };
                (whole as u32).wrapping_sub(size as u32)
            }),
            Coordinates::Once(_) => {
                let [w, h, _] = g.size.map(|n| n as usize);
                [thread % w, thread / w % h, thread / w / h].map(|at| at as u32)
            }
        };
        if let Coordinates::Bytes(bytes) | Coordinates::Once(bytes) = self.coordinates {
            within[0] = within[0].wrapping_mul(bytes);
        }
        let layers = if g.cube { g.layers / 6 } else { g.layers };
        let layer = match self.coordinates {
            _ if !g.layered => 0,
            Coordinates::Once(_) => within[2],
            _ => match random(state) >> 40 & 15 {
                0 => u32::MAX,
                1 => layers + 3,
                r => (r as u32) % layers,
            },
        };
        if g.layered { [layer, within[0], within[1], within[2]] } else { [within[0], within[1], within[2], 0] }
    }

    fn coords(&self, at: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(at as u64 + 1);
        (0..THREADS).flat_map(|thread| self.place(thread, &mut state)).flat_map(u32::to_le_bytes).collect()
    }

    /// Which of the texels' pools: any bits, or numbers that can be added.
    fn pool(&self) -> usize {
        match self.format.channel {
            Channel::F32 if self.filter == Filter::Linear => 1,
            Channel::F16 if self.filter == Filter::Linear => 2,
            _ => 0,
        }
    }

    fn is_surface(&self) -> bool {
        ["suld.", "sust.", "sured.", "suq."].iter().any(|opcode| self.instruction.contains(opcode))
    }

    fn line(&self, name: &str) -> String {
        let g = &self.geometry;
        let outside = self.outside.map(|o| [0, 2, 1, 3][o as usize]);
        let flags = u32::from(!self.format.float) | u32::from(self.normalized) << 1;
        format!(
            "{name} {} {} {} {flags} {} {} {} {} {} {} {} {} {} {} {} {}\n",
            self.kind as usize,
            self.format.number,
            self.channels,
            g.size[0],
            g.size[1],
            g.size[2],
            g.layers,
            u8::from(g.cube),
            g.dims,
            self.filter as usize,
            outside[0],
            outside[1],
            outside[2],
            self.pool() * POOL,
            u8::from(self.is_surface()),
        )
    }
}

/// Bytes of a pool of texels.
const POOL: usize = 16384;

fn texels() -> Vec<u8> {
    let mut state = 1;
    let mut bytes: Vec<u8> = (0..POOL / 8).flat_map(|_| random(&mut state).to_le_bytes()).collect();
    let mut moderate = || (random(&mut state) >> 40) as f32 / (1 << 20) as f32 - 8.0;
    bytes.extend((0..POOL / 4).flat_map(|_| moderate().to_le_bytes()));
    // Halves between 2^-7 and 2^8.
    bytes.extend((0..POOL / 2).flat_map(|_| {
        let r = random(&mut state) >> 30;
        ((r & 0x83ff) as u16 | (8 + (r >> 16 & 15) as u16) << 10).to_le_bytes()
    }));
    bytes
}

/// The modes of three dimensions.
const OUTSIDES: [[Outside; 3]; 8] = [
    [WRAP; 3],
    [CLAMP; 3],
    [MIRROR; 3],
    [BORDER; 3],
    [WRAP, MIRROR, CLAMP],
    [BORDER, CLAMP, WRAP],
    [CLAMP, BORDER, MIRROR],
    [MIRROR, WRAP, BORDER],
];

fn fetches() -> Vec<Case> {
    use Filter::{Linear, Nearest};
    use Kind::{Array, Linear as Row, Pitched};
    let mut all = Vec::new();
    for format in FORMATS {
        for channels in [1, 2, 4] {
            all.push(Case::tex(Row, D1, format, channels).whole());
            all.push(Case::tex(Pitched, D2, format, channels));
            for geometry in ALL {
                all.push(Case::tex(Array, geometry, format, channels));
            }
        }
    }
    for format in FORMATS.into_iter().filter(|f| f.float) {
        for (channels, normalized) in [(1, false), (1, true), (2, true), (4, false), (4, true)] {
            all.push(Case::tex(Pitched, D2, format, channels).filter(Linear).normalized(normalized));
            for geometry in ALL {
                all.push(Case::tex(Array, geometry, format, channels).filter(Linear).normalized(normalized));
            }
        }
    }
    for outside in OUTSIDES {
        for (filter, normalized) in [(Nearest, false), (Nearest, true), (Linear, false), (Linear, true)] {
            let with = |case: Case| case.filter(filter).normalized(normalized).outside(outside);
            all.push(with(Case::tex(Pitched, D2, F32, 1)));
            all.extend(ALL.into_iter().map(|geometry| with(Case::tex(Array, geometry, F32, 1))));
            let plain = ALL.into_iter().filter(|g| !g.cube);
            all.extend(plain.map(|geometry| with(Case::tex(Array, geometry, F32, 1)).whole()));
            for component in ["r", "g", "b", "a"] {
                for geometry in [D2, A2, CUBE, CUBES] {
                    let gather = format!("tld4.{component}.{{g}}.v4.f32.f32 {{d}}, [%h, {{c}}];");
                    all.push(with(Case::tex(Array, geometry, F32, 4).instruction(&gather)));
                }
            }
        }
    }
    all.extend(fetches_of_other_types());
    all
}

/// Halves, offsets, questions.
fn fetches_of_other_types() -> Vec<Case> {
    use Filter::{Linear, Nearest};
    use Kind::{Array, Linear as Row, Pitched};
    let mut all = Vec::new();
    let halves =
        "tex.{g}.v4.f16.f32 {%s0, %s1, %s2, %s3}, [%h, {c}]; mov.b32 %d0, {%s0, %s1}; mov.b32 %d1, {%s2, %s3};";
    let pairs = "tex.{g}.v2.f16x2.f32 {%d0, %d1}, [%h, {c}];";
    for format in FORMATS.into_iter().filter(|f| f.float) {
        for (filter, instruction) in [(Nearest, halves), (Linear, halves), (Nearest, pairs), (Linear, pairs)] {
            all.push(Case::tex(Array, D2, format, 4).filter(filter).instruction(instruction));
        }
    }
    for format in FORMATS {
        let ty = if format.float { "f32" } else { "s32" };
        let gather = format!("tld4.g.2d.v4.{ty}.f32 {{d}}, [%h, {{c}}];");
        all.push(Case::tex(Array, D2, format, 2).instruction(&gather));
        all.push(Case::tex(Pitched, D2, format, 4).instruction(&gather));
    }
    for (geometry, offset) in
        [(D1, "%e1"), (D2, "{%e0, %e1}"), (D3, "{%e0, %e1, %e2, %e3}"), (A1, "%e1"), (A2, "{%e0, %e1}")]
    {
        for (filter, outside) in
            [(Nearest, [CLAMP; 3]), (Linear, [BORDER; 3]), (Nearest, [WRAP; 3]), (Linear, [MIRROR; 3])]
        {
            let with = format!("tex.{}.v4.f32.f32 {{d}}, [%h, {{c}}], {offset};", geometry.name);
            let case = Case::tex(Array, geometry, F32, 1).filter(filter).outside(outside).instruction(&with);
            all.push(case.clone());
            all.push(case.normalized(true));
        }
    }
    let gather = Case::tex(Array, D2, F32, 1).instruction("tld4.r.2d.v4.f32.f32 {d}, [%h, {c}], {%e0, %e1};");
    all.extend([gather.clone(), gather.normalized(true)]);
    let texture =
        "txq.width.b32 %d0, [%h]; txq.height.b32 %d1, [%h]; txq.depth.b32 %d2, [%h]; txq.array_size.b32 %d3, [%h];";
    let channel = "txq.channel_data_type.b32 %d0, [%h]; txq.channel_order.b32 %d1, [%h]; txq.normalized_coords.b32 %d2, [%h]; txq.num_mipmap_levels.b32 %d3, [%h];";
    let sampler = "txq.filter_mode.b32 %d0, [%h]; txq.addr_mode_0.b32 %d1, [%h]; txq.addr_mode_1.b32 %d2, [%h]; txq.addr_mode_2.b32 %d3, [%h];";
    for question in [texture, channel, sampler] {
        all.push(Case::tex(Row, D1, U32, 1).instruction(question));
        all.push(
            Case::tex(Pitched, D2, F32, 4).filter(Linear).normalized(true).outside(OUTSIDES[4]).instruction(question),
        );
        all.extend(ALL.into_iter().map(|g| Case::tex(Array, g, F32, 2).outside(OUTSIDES[7]).instruction(question)));
    }
    all
}

fn surfaces() -> Vec<Case> {
    let mut all = Vec::new();
    let object = |geometry: Geometry, format: Format, channels: u32| Case::tex(Kind::Array, geometry, format, channels);
    for geometry in [D1, D2, D3, A1, A2] {
        for clamp in ["trap", "clamp", "zero"] {
            for (vec, ty, bytes, registers) in [
                ("", "b8", 1, "{%s0}"),
                ("", "b16", 2, "{%s0}"),
                ("", "b32", 4, "{%d0}"),
                ("", "b64", 8, "{%x0}"),
                (".v2", "b8", 2, "{%s0, %s1}"),
                (".v4", "b8", 4, "{%s0, %s1, %s2, %s3}"),
                (".v2", "b16", 4, "{%s0, %s1}"),
                (".v4", "b16", 8, "{%s0, %s1, %s2, %s3}"),
                (".v2", "b32", 8, "{%d0, %d1}"),
                (".v4", "b32", 16, "{%d0, %d1, %d2, %d3}"),
                (".v2", "b64", 16, "{%x0, %x1}"),
            ] {
                let (format, channels) = match bytes {
                    1 => (FORMATS[0], 1),
                    2 => (FORMATS[1], 1),
                    4 => (U32, 1),
                    8 => (U32, 2),
                    _ => (U32, 4),
                };
                let before = "mov.b32 {%s0, %s1}, %d0; mov.b32 {%s2, %s3}, %d1; mov.b64 %x0, {%d0, %d1}; mov.b64 %x1, {%d2, %d3};";
                let after = match ty {
                    "b8" | "b16" => "mov.b32 %d0, {%s0, %s1}; mov.b32 %d1, {%s2, %s3};",
                    "b64" => "mov.b64 {%d0, %d1}, %x0; mov.b64 {%d2, %d3}, %x1;",
                    _ => "",
                };
                let bytes_at = if clamp == "trap" { Coordinates::Once(bytes) } else { Coordinates::Bytes(bytes) };
                let guard = if clamp == "trap" { "@%p " } else { "" };
                let limit = geometry.size.iter().product::<u32>() * geometry.layers.max(1);
                let within = format!("setp.lt.u32 %p, %t, {limit};");
                let load = format!(
                    "{before} {within} {guard}suld.b.{{g}}{vec}.{ty}.{clamp} {registers}, [%h, {{c}}]; {after}"
                );
                all.push(object(geometry, format, channels).instruction(&load).coordinates(bytes_at));
                let store = format!("{before} {within} @%p sust.b.{{g}}{vec}.{ty}.{clamp} [%h, {{c}}], {registers};");
                all.push(object(geometry, format, channels).instruction(&store).coordinates(Coordinates::Once(bytes)));
            }
        }
    }
    for geometry in [D1, D2, D3] {
        for (operation, ty) in [
            ("add", "u32"),
            ("add", "s32"),
            ("add", "u64"),
            ("min", "u32"),
            ("min", "s32"),
            ("max", "u32"),
            ("max", "s32"),
            ("min", "u64"),
            ("max", "s64"),
            ("and", "b32"),
            ("or", "b32"),
        ] {
            for clamp in ["clamp", "zero"] {
                let (bytes, register) = if ty.ends_with("64") { (8, "%x0") } else { (4, "%d0") };
                let reduce = format!(
                    "mov.b64 %x0, {{%d0, %d1}}; sured.b.{operation}.{{g}}.{ty}.{clamp} [%h, {{c}}], {register};"
                );
                all.push(object(geometry, U32, bytes / 4).instruction(&reduce).coordinates(Coordinates::Bytes(bytes)));
            }
        }
        for (operation, word, register) in [
            ("add", "b32", "%d0"),
            ("min", "b32", "%d0"),
            ("max", "b32", "%d0"),
            ("and", "b32", "%d0"),
            ("or", "b32", "%d0"),
            ("min", "b64", "%x0"),
            ("max", "b64", "%x0"),
        ] {
            let reduce =
                format!("mov.b64 %x0, {{%d0, %d1}}; sured.p.{operation}.{{g}}.{word}.zero [%h, {{c}}], {register};");
            for format in [U32, FORMATS[5]] {
                let channels = if word == "b64" { 2 } else { 1 };
                all.push(object(geometry, format, channels).instruction(&reduce).coordinates(Coordinates::Texels));
            }
        }
        for format in FORMATS {
            for channels in [1, 2, 4] {
                let store = "setp.lt.u32 %p, %t, 37; @%p sust.p.{g}.v4.b32.zero [%h, {c}], {d};";
                all.push(object(geometry, format, channels).instruction(store).coordinates(Coordinates::Once(1)));
            }
        }
    }
    let question =
        "suq.width.b32 %d0, [%h]; suq.height.b32 %d1, [%h]; suq.depth.b32 %d2, [%h]; suq.array_size.b32 %d3, [%h];";
    let channel =
        "suq.channel_data_type.b32 %d0, [%h]; suq.channel_order.b32 %d1, [%h]; suq.memory_layout.b32 %d2, [%h];";
    for geometry in [D1, D2, D3, A1, A2] {
        all.push(object(geometry, U32, 2).instruction(question));
        all.push(object(geometry, U32, 2).instruction(channel));
    }
    all
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

impl Case {
    /// Results of the engine: the outputs, and the object's bytes afterwards if it is a surface.
    fn run(&self, programs: &mut BTreeMap<String, Program>, at: usize) -> Result<Vec<u8>, String> {
        let mut machine = Machine::new();
        let texture = self.texture(0);
        let size = texture.bytes() as usize;
        let [object, coords, out] =
            [size, THREADS * 16, THREADS * 16].map(|bytes| machine.alloc(bytes as u64).unwrap());
        let from = self.pool() * POOL;
        machine.write(object, &texels()[from..from + size]).unwrap();
        machine.write(coords, &self.coords(at)).unwrap();
        machine.write(out, &[0xee; THREADS * 16]).unwrap();
        let handle = machine.texture(self.texture(object)).map_err(|fault| fault.to_string())?;
        let text = format!("{HEADER}{}", self.entry("k"));
        let program = programs.entry(text.clone()).or_insert_with(|| program(&text));
        let params: Vec<u8> = [handle, coords, out].into_iter().flat_map(u64::to_le_bytes).collect();
        let options = Options { watch: false, ..Options::default() };
        launch(&mut machine, program, 1, THREADS as u32, &params, options).map_err(|fault| fault.to_string())?;
        let mut bytes = vec![0; THREADS * 16];
        machine.read(out, &mut bytes).unwrap();
        if self.is_surface() {
            let mut memory = vec![0; size];
            machine.read(object, &mut memory).unwrap();
            bytes.extend(memory);
        }
        Ok(bytes)
    }

    /// The same of a GPU's.
    fn split<'a>(&self, part: &'a [u8]) -> &'a [u8] {
        let memory = if self.is_surface() { self.texture(0).bytes() as usize } else { 0 };
        &part[..THREADS * 16 + memory]
    }

    /// Differences of two runs.
    fn differences(&self, at: usize, ours: &[u8], theirs: &[u8]) -> String {
        let (coords, ours, theirs) = (words(&self.coords(at)), words(ours), words(theirs));
        let wrong: Vec<usize> = (0..ours.len()).filter(|i| ours[*i] != theirs[*i]).collect();
        let mut text = format!("{}: {} of {} words", self.name(), wrong.len(), ours.len());
        for i in wrong.into_iter().take(4) {
            let place: Vec<String> =
                coords.iter().skip(i / 4 * 4).take(4).map(|c| format!("{c:#x} {}", f32::from_bits(*c))).collect();
            write!(
                text,
                "\n    word {i} at ({}): {:#x} {}, a GPU {:#x} {}",
                place.join(", "),
                ours[i],
                f32::from_bits(ours[i]),
                theirs[i],
                f32::from_bits(theirs[i])
            )
            .unwrap();
        }
        text
    }
}

/// Writes what a GPU needs.
fn write_for_gpu(dir: &str, cases: &[Case]) {
    let mut entries: BTreeMap<String, String> = BTreeMap::new();
    let (mut list, mut coords, mut text) = (String::new(), Vec::new(), String::new());
    for (at, case) in cases.iter().enumerate() {
        let next = format!("k{}", entries.len());
        let name = entries.entry(case.entry("k")).or_insert_with(|| {
            text += &case.entry(&next);
            next
        });
        list += &case.line(name);
        coords.extend(case.coords(at));
    }
    std::fs::write(format!("{dir}/textures.ptx"), format!("{HEADER}{text}")).unwrap();
    std::fs::write(format!("{dir}/cases.txt"), list).unwrap();
    std::fs::write(format!("{dir}/coords.bin"), coords).unwrap();
    std::fs::write(format!("{dir}/texels.bin"), texels()).unwrap();
}

/// Cases whose arithmetic is only close to a GPU's: filters in three dimensions and on cubes, filters and gathers of
/// halves and of `Snorm8`.
fn is_near(case: &Case) -> bool {
    let rough = matches!(case.format.channel, Channel::F16 | Channel::Snorm8);
    let fetch = case.instruction.starts_with("tex.") && case.coordinates == Coordinates::Float;
    let filtered = fetch && case.filter == Filter::Linear;
    filtered && (rough || case.geometry.dims == 3) || case.instruction.starts_with("tld4.") && rough
}

/// Cases that are not compared: an array of one row by whole coordinates, of which a GPU reads nothing; offsets in
/// one dimension, which it ignores; and surfaces whose texels would be floats made of integers.
fn is_compared(case: &Case) -> bool {
    let row = case.kind == Kind::Array && case.geometry.dims == 1 && case.instruction.starts_with("tex.");
    let odd = case.coordinates == Coordinates::Texels || case.instruction.contains("], %e1");
    !(row && odd || case.is_surface() && case.format.is_normalized())
}

/// Makes the recording: a hash of a case, and of what a GPU gave for it.
fn record(dir: &str, cases: &[Case]) -> String {
    write_for_gpu(dir, cases);
    let Ok(raw) = std::fs::read(format!("{dir}/out.bin")) else { return TEXTURES.clone() };
    let status = std::fs::read_to_string(format!("{dir}/status.txt")).unwrap();
    let (mut lines, mut programs) = (String::new(), BTreeMap::new());
    let all = cases.iter().enumerate().zip(raw.chunks(PART)).zip(status.lines());
    for (((at, case), part), _) in
        all.filter(|((pair, _), status)| is_compared(pair.1) && status.split(' ').nth(2) == Some("0"))
    {
        let theirs = case.split(part);
        writeln!(lines, "{:08x} {:016x}", case.key(at), hash(theirs)).unwrap();
        match case.run(&mut programs, at) {
            Ok(ours) if ours == theirs => {}
            Ok(ours) if is_near(case) => {
                println!("near: {}, {}", case.distance(&ours, theirs), case.differences(at, &ours, theirs))
            }
            Ok(ours) => println!("{}", case.differences(at, &ours, theirs)),
            Err(why) => println!("{}: {why}", case.name()),
        }
    }
    std::fs::write(format!("{dir}/textures_sm_90a.txt"), &lines).unwrap();
    lines
}

impl Case {
    /// Key of a case in the recording.
    fn key(&self, at: usize) -> u32 {
        hash(format!("{at} {} {}", self.line(""), self.name()).as_bytes()) as u32
    }

    /// The largest difference of numbers.
    fn distance(&self, ours: &[u8], theirs: &[u8]) -> f32 {
        let pairs = words(ours).into_iter().zip(words(theirs));
        pairs.map(|(a, b)| (f32::from_bits(a) - f32::from_bits(b)).abs()).filter(|d| d.is_finite()).fold(0.0, f32::max)
    }
}

#[test]
fn textures_as_a_gpu_reads_them() {
    let cases: Vec<Case> = fetches().into_iter().chain(surfaces()).collect();
    let recorded = std::env::var("PTX_RECORD_TEXTURES").map_or_else(|_| TEXTURES.clone(), |dir| record(&dir, &cases));
    let of = |line: &str| line.split_once(' ').map(|(key, hash)| (key.to_owned(), hash.to_owned()));
    let recorded: BTreeMap<String, String> = recorded.lines().filter_map(of).collect();
    let (mut programs, mut wrong, mut compared) = (BTreeMap::new(), Vec::new(), 0);
    let exact = cases.iter().enumerate().filter(|(_, case)| is_compared(case) && !is_near(case));
    for (at, case) in exact.step_by(one_in(8)) {
        let Some(theirs) = recorded.get(&format!("{:08x}", case.key(at))) else { continue };
        compared += 1;
        let ours = case.run(&mut programs, at).map(|ours| format!("{:016x}", hash(&ours)));
        wrong.extend((ours.as_ref() != Ok(theirs)).then(|| format!("{}: {ours:?}", case.name())));
    }
    println!("{compared} cases compared with a GPU, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 1500 / one_in(8) || recorded.is_empty(), "only {compared}");
}
