//! Textures of buffers and of arrays, and surfaces, on the CPU device and, where there is one, on a GPU: filters, what lies outside,
//! integers as floats, dimensions, layers and cubes, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Completion, Trial};
use ptx_launch::prelude::*;
use ptx_launch::{AddressMode, ErrorKind, Extent, FilterMode, TexelArray, Texture};
use std::process::ExitCode;

/// Texel `tid.x - 2` of one row.
#[ptx_kernel(arch = "sm_80", block = 16, grid = 1, unsafe(requires(out.len() >= 64)))]
fn row(texels: Texture, out: &mut [u32]) {
    let at: i32 = tid.x as i32 - 2;
    let color: [u32; 4];
    ptx! { tex.1d.v4.u32.s32 {color[..]}, [texels, {at}]; }
    let to: u64 = out + wide(tid.x) * 16;
    ptx! { st.global.v4.u32 [to], {color[..]}; }
}

/// The texels at coordinates.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(places.len() >= 64, out.len() >= 32)))]
fn sample(image: Texture, places: &[f32], out: &mut [f32]) {
    let (from, to): (u64, u64) = (places + wide(tid.x) * 8, out + wide(tid.x) * 4);
    let (x, y): (f32, f32);
    ptx! { ld.global.v2.f32 {x, y}, [from]; }
    let color: [f32; 4];
    ptx! { tex.2d.v4.f32.f32 {color[..]}, [image, {x, y}]; }
    ptx! { st.global.f32 [to], color[0]; }
}

/// One texel a thread of five images: at (x, y, z) of a box, of two cubes in the direction of x, y and z, and of layer z.
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(places.len() >= 256, out.len() >= 320)))]
fn shapes(
    line: Texture,
    cuboid: Texture,
    cubes: Texture,
    lines: Texture,
    layers: Texture,
    places: &[f32],
    out: &mut [f32],
) {
    let (from, to): (u64, u64) = (places + wide(tid.x) * 16, out + wide(tid.x) * 20);
    let (x, y, z, w): (f32, f32, f32, f32);
    ptx! { ld.global.v4.f32 {x, y, z, w}, [from]; }
    let (layer, cube): (u32, u32) = (z as u32, w as u32);
    let color: [f32; 4];
    ptx! { tex.1d.v4.f32.f32 {color[..]}, [line, {x}]; st.global.f32 [to], color[0]; }
    ptx! { tex.3d.v4.f32.f32 {color[..]}, [cuboid, {x, y, z, z}]; st.global.f32 [to + 4], color[0]; }
    ptx! { tex.acube.v4.f32.f32 {color[..]}, [cubes, {cube, x, y, z}]; st.global.f32 [to + 8], color[0]; }
    ptx! { tex.a1d.v4.f32.f32 {color[..]}, [lines, {layer, x}]; st.global.f32 [to + 12], color[0]; }
    ptx! { tex.a2d.v4.f32.f32 {color[..]}, [layers, {layer, x, y, y}]; st.global.f32 [to + 16], color[0]; }
}

/// Each texel twice as large, and added to the first of its row.
#[ptx_kernel(arch = "sm_80", block = (8, 4, 2), grid = 1, unsafe(requires(twice == 2)))]
fn double(from: Surface, to: Surface, sums: Surface, twice: u32) {
    let (x, row, layer): (u32, u32, u32) = (tid.x * 4, tid.y, tid.z);
    let texel: u32;
    ptx! { suld.b.a2d.b32.trap texel, [from, {layer, x, row, row}]; }
    let more: u32 = texel * twice;
    ptx! { sust.b.a2d.b32.trap [to, {layer, x, row, row}], more; }
    let none: u32 = 0;
    ptx! { sured.b.add.3d.u32.trap [sums, {none, row, layer, layer}], texel; }
    // Outside: nothing is written, and zero is read.
    let outside: u32 = 9;
    ptx! { sust.b.a2d.b32.zero [to, {layer, x, outside, outside}], more; }
}

/// One texel a thread at integer coordinates: of a plane, a box and a layer.
#[ptx_kernel(arch = "sm_80", block = 8, grid = 1, unsafe(requires(out.len() >= 24)))]
fn at_integers(plane: Texture, cuboid: Texture, layers: Texture, out: &mut [f32]) {
    let to: u64 = out + wide(tid.x) * 12;
    let (x, one): (i32, i32) = (tid.x as i32, 1);
    let layer: u32 = 2;
    let color: [f32; 4];
    ptx! { tex.2d.v4.f32.s32 {color[..]}, [plane, {x, one}]; st.global.f32 [to], color[0]; }
    ptx! { tex.3d.v4.f32.s32 {color[..]}, [cuboid, {x, one, one, one}]; st.global.f32 [to + 4], color[0]; }
    ptx! { tex.a2d.v4.f32.s32 {color[..]}, [layers, {layer, x, one, one}]; st.global.f32 [to + 8], color[0]; }
}

type Test = fn(&Device);
const TESTS: [(&str, Test); 9] = [
    ("one row of four bytes each", one_row),
    ("filters and what lies outside", filters_and_outside),
    ("integers are read as floats", integers_as_floats),
    ("what does not go together is refused", refused),
    ("arrays keep what is written", arrays_are_copied),
    ("dimensions, layers and cubes", dimensions_layers_and_cubes),
    ("integer coordinates of arrays", integer_coordinates),
    ("surfaces are read, written and added to", surfaces),
    ("arrays and surfaces that do not exist", refused_arrays),
];

fn main() -> ExitCode {
    #[cfg(feature = "cpu")]
    let on_cpu = TESTS.map(|(name, test)| {
        Trial::test(format!("{name}, CPU device"), move || {
            test(&Device::cpu());
            Ok(())
        })
    });
    #[cfg(not(feature = "cpu"))]
    let on_cpu = [];
    let on_cuda = TESTS.map(|(name, test)| {
        Trial::ignorable_test(format!("{name}, CUDA device"), move || match Device::cuda(0) {
            Err(_) => Ok(Completion::ignored_with("no CUDA device")),
            Ok(device) => {
                test(&device);
                Ok(Completion::Completed)
            }
        })
    });
    libtest_mimic::run(&Arguments::from_args(), on_cpu.into_iter().chain(on_cuda).collect()).exit_code()
}

fn one_row(device: &Device) {
    let texels: Vec<[u8; 4]> = (0..12).map(|i| [i, 10 * i, 255 - i, 7]).collect();
    let memory = device.upload(&texels).unwrap();
    let texture = Texture::of(memory.view(), &[12]).build().unwrap();
    let mut out = device.zeros::<u32>(64).unwrap();
    row(device, &texture, &mut out).unwrap();
    let found = out.download().unwrap();
    for (at, color) in found.chunks(4).enumerate() {
        let texel = (at as i32 - 2 >= 0).then(|| texels.get(at - 2)).flatten();
        assert_eq!(color, texel.map_or([0; 4], |texel| texel.map(u32::from)), "texel {}", at as i32 - 2);
    }
}

/// Texel (x, y) of the image of 8 × 4 that these tests read.
fn texel(x: i64, y: i64) -> f32 {
    (10 * y + x) as f32
}

/// The index that a coordinate outside means.
fn inside(at: i64, size: i64, mode: AddressMode, normalized: bool) -> Option<i64> {
    match mode {
        AddressMode::Border => (0..size).contains(&at).then_some(at),
        AddressMode::Wrap if normalized => Some(at.rem_euclid(size)),
        AddressMode::Mirror if normalized => Some(at.rem_euclid(2 * size).min(2 * size - 1 - at.rem_euclid(2 * size))),
        _ => Some(at.clamp(0, size - 1)),
    }
}

fn expected([x, y]: [f32; 2], filter: FilterMode, mode: AddressMode, normalized: bool) -> f32 {
    let read = |x: i64, y: i64| {
        inside(x, 8, mode, normalized).zip(inside(y, 4, mode, normalized)).map_or(0.0, |(x, y)| texel(x, y))
    };
    if filter == FilterMode::Point {
        return read(x.floor() as i64, y.floor() as i64);
    }
    let (x, y) = (x - 0.5, y - 0.5);
    let ([fx, fy], [ix, iy]) = ([x - x.floor(), y - y.floor()], [x.floor() as i64, y.floor() as i64]);
    let along = |row: i64| read(ix, row) * (1.0 - fx) + read(ix + 1, row) * fx;
    along(iy) * (1.0 - fy) + along(iy + 1) * fy
}

fn filters_and_outside(device: &Device) {
    // Eight texels of a row, and eight that belong to none.
    let image: Vec<f32> =
        (0..4).flat_map(|y| (0..16).map(move |x| if x < 8 { texel(x, y) } else { f32::NAN })).collect();
    let memory = device.upload(&image).unwrap();
    // In quarters of a texel, which filters weigh exactly.
    let places: Vec<[f32; 2]> =
        (0..32).map(|i| [(i * 7 % 53) as f32 / 4.0 - 3.0, (i * 5 % 37) as f32 / 4.0 - 3.0]).collect();
    for mode in [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border] {
        for (filter, normalized) in
            [FilterMode::Point, FilterMode::Linear].into_iter().flat_map(|filter| [(filter, false), (filter, true)])
        {
            let builder = Texture::of(memory.view(), &[4, 8]).pitch(16).address_mode(mode).filter_mode(filter);
            let builder = if normalized { builder.normalized_coordinates() } else { builder };
            let texture = builder.build().unwrap();
            let (width, height) = if normalized { (8.0, 4.0) } else { (1.0, 1.0) };
            let scaled: Vec<f32> = places.iter().flat_map(|[x, y]| [x / width, y / height]).collect();
            let (scaled, mut out) = (device.upload(&scaled).unwrap(), device.zeros::<f32>(32).unwrap());
            sample(device, &texture, &scaled, &mut out).unwrap();
            for (place, found) in places.iter().zip(out.download().unwrap()) {
                let expected = expected(*place, filter, mode, normalized);
                assert_eq!(found, expected, "{place:?} {mode:?} {filter:?} normalized: {normalized}");
            }
        }
    }
}

fn integers_as_floats(device: &Device) {
    let memory = device.upload(&(0..64).map(|i| 4 * i as u8).collect::<Vec<_>>()).unwrap();
    let texture = Texture::of(memory.view(), &[2, 32]).as_floats().build().unwrap();
    let places: Vec<f32> = (0..32).flat_map(|i| [i as f32 + 0.5, 1.5]).collect();
    let (places, mut out) = (device.upload(&places).unwrap(), device.zeros::<f32>(32).unwrap());
    sample(device, &texture, &places, &mut out).unwrap();
    for (at, found) in out.download().unwrap().into_iter().enumerate() {
        let expected = (128 + 4 * at) as f32 / 255.0;
        assert!((found - expected).abs() < 1e-6, "texel {at}: {found}, not {expected}");
    }
}

fn refused(device: &Device) {
    let memory = device.upload(&[0u8; 256]).unwrap();
    let of = |shape: &[usize]| Texture::of(memory.view(), shape);
    let words = device.upload(&[0u32; 64]).unwrap();
    for (builder, says) in [
        (of(&[4, 20]), "multiples of 32 bytes"),
        (Texture::of(words.view(), &[1, 4]).pitch(usize::MAX / 2), "multiples of 32 bytes"),
        (of(&[16, 32]), "rows that lie in the buffer"),
        (of(&[2, 2, 2]), "`[width]` or `[height, width]`"),
        (of(&[0, 32]), "`[width]` or `[height, width]`"),
        (of(&[64]).normalized_coordinates(), "`[1, width]`"),
        (of(&[4, 32]).filter_mode(FilterMode::Linear), "integers `as_floats`"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    #[cfg(feature = "cpu")]
    {
        let (texture, other) = (of(&[64]).build().unwrap(), Device::cpu());
        let mut out = other.zeros::<u32>(64).unwrap();
        let error = row(&other, &texture, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongDevice, "{error}");
    }
}

fn numbered(device: &Device, extent: &Extent) -> TexelArray<f32> {
    let texels: Vec<f32> = (0..extent.texels()).map(|i| i as f32).collect();
    TexelArray::upload(device, extent, &texels).unwrap()
}

fn arrays_are_copied(device: &Device) {
    for extent in [
        Extent::of(&[33]),
        Extent::of(&[5, 7]),
        Extent::of(&[2, 3, 9]),
        Extent::layers(4, &[10]),
        Extent::layers(1, &[6, 5]),
        Extent::cube(3),
        Extent::cubes(2, 4),
    ] {
        let texels: Vec<[u16; 2]> = (0..extent.texels()).map(|i| [i as u16, 7 * i as u16]).collect();
        let mut array = TexelArray::<[u16; 2]>::zeros(device, &extent).unwrap();
        assert_eq!(array.download().unwrap(), vec![[0; 2]; texels.len()], "{extent:?}");
        array.write(&texels).unwrap();
        assert_eq!(array.download().unwrap(), texels, "{extent:?}");
        assert_eq!(array.extent(), &extent);
    }
}

/// The face of a cube in a direction, and the texel there, of four in a row.
fn face([x, y, z]: [f32; 3]) -> (usize, usize, usize) {
    let (face, major, s, t) = match () {
        () if x.abs() >= y.abs() && x.abs() >= z.abs() => [(0, x, -z, -y), (1, -x, z, -y)][usize::from(x < 0.0)],
        () if y.abs() >= z.abs() => [(2, y, x, z), (3, -y, x, -z)][usize::from(y < 0.0)],
        () => [(4, z, x, -y), (5, -z, -x, -y)][usize::from(z < 0.0)],
    };
    let texel = |at: f32| (((at / major + 1.0) * 2.0) as usize).min(3);
    (face, texel(t), texel(s))
}

fn dimensions_layers_and_cubes(device: &Device) {
    let [line, cuboid, cubes, lines, layers] = [
        Extent::of(&[8]),
        Extent::of(&[4, 5, 8]),
        Extent::cubes(2, 4),
        Extent::layers(4, &[8]),
        Extent::layers(4, &[5, 8]),
    ]
    .map(|extent| numbered(device, &extent));
    let places: Vec<[f32; 4]> = (0..64)
        .map(|i| [(i * 5 % 8) as f32 + 0.25, (i * 3 % 5) as f32 + 0.5, (i / 7 % 4) as f32 + 0.125, (i % 2) as f32])
        .collect();
    let flat: Vec<f32> = places.iter().flatten().copied().collect();
    let (places_there, mut out) = (device.upload(&flat).unwrap(), device.zeros::<f32>(320).unwrap());
    let [line, cuboid, cubes, lines, layers] =
        [&line, &cuboid, &cubes, &lines, &layers].map(|array| array.texture().build().unwrap());
    shapes(device, &line, &cuboid, &cubes, &lines, &layers, &places_there, &mut out).unwrap();
    for (place, found) in places.iter().zip(out.download().unwrap().chunks(5)) {
        let [x, y, z, cube] = place.map(|at| at as usize);
        let (face, row, column) = face([place[0], place[1], place[2]]);
        let expected =
            [x, (z * 5 + y) * 8 + x, ((6 * cube + face) * 4 + row) * 4 + column, z * 8 + x, (z * 5 + y) * 8 + x];
        assert_eq!(found, expected.map(|at| at as f32), "{place:?}");
    }
}

fn integer_coordinates(device: &Device) {
    let extents = [Extent::of(&[2, 8]), Extent::of(&[2, 3, 8]), Extent::layers(4, &[5, 8])];
    let arrays = extents.map(|extent| numbered(device, &extent));
    let [plane, cuboid, layers] = arrays.each_ref().map(|array| array.texture().build().unwrap());
    let mut out = device.zeros::<f32>(24).unwrap();
    at_integers(device, &plane, &cuboid, &layers, &mut out).unwrap();
    let found = out.download().unwrap();
    for (x, found) in found.chunks(3).enumerate() {
        let expected = [8 + x, 24 + 8 + x, 2 * 40 + 8 + x];
        assert_eq!(found, expected.map(|at| at as f32), "x = {x}");
    }
}

fn surfaces(device: &Device) {
    let extent = Extent::layers(2, &[4, 8]);
    let texels: Vec<u32> = (0..64).map(|i| i * i).collect();
    let mut from = TexelArray::upload(device, &extent, &texels).unwrap();
    let mut to = TexelArray::<u32>::zeros(device, &extent).unwrap();
    let mut sums = TexelArray::<u32>::zeros(device, &Extent::of(&[2, 4, 1])).unwrap();
    let [mut source, mut target, mut summed] = [&mut from, &mut to, &mut sums].map(|array| array.surface().unwrap());
    double(device, &mut source, &mut target, &mut summed, 2).unwrap();
    drop((source, target, summed));
    assert_eq!(to.download().unwrap(), texels.iter().map(|texel| 2 * texel).collect::<Vec<_>>());
    assert_eq!(sums.download().unwrap(), texels.chunks(8).map(|row| row.iter().sum()).collect::<Vec<u32>>());
}

fn refused_arrays(device: &Device) {
    for extent in [
        Extent::of(&[]),
        Extent::of(&[0]),
        Extent::of(&[1, 2, 3, 4]),
        Extent::layers(2, &[3, 4, 5]),
        Extent::cube(0),
        Extent::cubes(0, 4),
        Extent::layers(0, &[4, 4]),
        Extent::of(&[usize::MAX]),
    ] {
        let error = TexelArray::<f32>::zeros(device, &extent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
    }
    let mut array = TexelArray::<u32>::zeros(device, &Extent::of(&[4, 8])).unwrap();
    assert_eq!(array.write(&[0; 31]).unwrap_err().kind(), ErrorKind::Condition);
    let error = array.texture().filter_mode(FilterMode::Linear).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
    #[cfg(feature = "cpu")]
    on_another_device(&mut array);
}

#[cfg(feature = "cpu")]
fn on_another_device(array: &mut TexelArray<u32>) {
    let other = Device::cpu();
    let mut sums = TexelArray::<u32>::zeros(&other, &Extent::of(&[2, 4, 1])).unwrap();
    let mut image = TexelArray::<u32>::zeros(&other, &Extent::layers(2, &[4, 8])).unwrap();
    let (mut a, mut b) = (sums.surface().unwrap(), image.surface().unwrap());
    let error = double(&other, &mut array.surface().unwrap(), &mut b, &mut a, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongDevice, "{error}");
}
