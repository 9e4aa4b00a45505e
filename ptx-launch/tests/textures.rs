//! Textures of buffers, on the CPU device and, where there is one, on a GPU: one row and several, filters, what lies outside,
//! integers as floats, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Completion, Trial};
use ptx_launch::prelude::*;
use ptx_launch::{AddressMode, ErrorKind, FilterMode, Texture};
use std::process::ExitCode;

/// Texel `tid.x - 2` of one row.
#[ptx_kernel(arch = "sm_80", block = 16, grid = 1, safe(out.len() >= 64))]
fn row(texels: Texture, out: &mut [u32]) {
    let at: i32 = tid.x as i32 - 2;
    let color: [u32; 4];
    ptx! { tex.1d.v4.u32.s32 {color[..]}, [texels, {at}]; }
    let to: u64 = out + wide(tid.x) * 16;
    ptx! { st.global.v4.u32 [to], {color[..]}; }
}

/// What is at coordinates.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, safe(places.len() >= 64, out.len() >= 32))]
fn sample(image: Texture, places: &[f32], out: &mut [f32]) {
    let (from, to): (u64, u64) = (places + wide(tid.x) * 8, out + wide(tid.x) * 4);
    let (x, y): (f32, f32);
    ptx! { ld.global.v2.f32 {x, y}, [from]; }
    let color: [f32; 4];
    ptx! { tex.2d.v4.f32.f32 {color[..]}, [image, {x, y}]; }
    ptx! { st.global.f32 [to], color[0]; }
}

type Test = fn(&Device);
const TESTS: [(&str, Test); 4] = [
    ("one row of four bytes each", one_row),
    ("filters and what lies outside", filters_and_outside),
    ("integers are read as floats", integers_as_floats),
    ("what does not go together is refused", refused),
];

fn main() -> ExitCode {
    let on_cpu = TESTS.map(|(name, test)| {
        Trial::test(format!("{name}, CPU device"), move || {
            test(&Device::cpu());
            Ok(())
        })
    });
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
        (of(&[64]).normalized_coordinates(), "`[1, width]`"),
        (of(&[4, 32]).filter_mode(FilterMode::Linear), "integers `as_floats`"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let (texture, other) = (of(&[64]).build().unwrap(), Device::cpu());
    let mut out = other.zeros::<u32>(64).unwrap();
    let error = row(&other, &texture, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongDevice, "{error}");
}
