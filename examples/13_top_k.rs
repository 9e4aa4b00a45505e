//! Selection: the K largest values of each row and their columns. A warp holds a row in registers, as keys of 64 bits that the warp
//! compares whole: the value in the upper half, the column in the lower one.

use ptx_examples::{Report, elements, random, timer};
use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// The keys of a lane. A row has at most 32 times as many columns.
    const EACH: u32 = 16;

    /// A number that is as large among the `u32` as `x` is among the `f32`: positive values get the highest bit, negative ones are inverted.
    fn ordered(x: f32) -> u32 {
        let bits: u32 = x as b32 as u32;
        let flip: u32 = unsigned(signed(bits) >> 31) as u32;
        bits ^ (flip | 0x8000_0000)
    }

    /// The inverse of `ordered`.
    fn value_of(ordered: u32) -> f32 {
        let flip: u32 = unsigned(signed(ordered) >> 31) as u32;
        (ordered ^ (!flip | 0x8000_0000)) as b32 as f32
    }

    /// values\[r\] and columns\[r\] = the `K` largest of x\[r\], the first one first; of equal values the left one.
    #[ptx_kernel(block = 32, grid = R, unsafe(requires(C <= 32 * EACH, K <= C)))]
    pub fn top_k(x: Tile<f32, (R, C)>, values: TileMut<f32, (R, K)>, columns: TileMut<u32, (R, K)>) {
        let mut keys: [u64; EACH] = [0; EACH];
        for i in 0..EACH {
            let column: u32 = laneid + 32 * i;
            if column < C {
                let (from, value): (Global<f32>, f32);
                from = x.at(ctaid.x, column);
                ptx! { ld.global.f32 value, [from]; }
                let (high, low): (u32, u32) = (ordered(value), !column);
                ptx! { mov.b64 keys[i], {low, high}; }
            }
        }
        let mut k: u32 = 0;
        while k < K {
            let mut most: u64 = keys[0];
            for i in 1..EACH {
                most = most.max(keys[i]);
            }
            let top: u64 = warp::reduce_max(most);
            for i in 0..EACH {
                keys[i] = (keys[i] == top).select(0, keys[i]);
            }
            if laneid == 0 {
                let (low, high): u32;
                ptx! { mov.b64 {low, high}, top; }
                let (value, column): (f32, u32) = (value_of(high), !low);
                let (to_value, to_column) = (values.at(ctaid.x, k), columns.at(ctaid.x, k));
                ptx! {
                    st.global.f32   [to_value], value;
                    st.global.u32   [to_column], column;
                }
            }
            k += 1;
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    const K: usize = 8;
    let [rows, columns] = [elements(device, 1 << 14, 12) as usize, 500];
    // Few different values, so that some are equal.
    let x: Vec<f32> = random((rows * columns) as u32, 31).into_iter().map(|x| (x * 64.0).round() / 8.0).collect();
    let device_x = device.upload(&x)?;
    let (mut values, mut places) = (device.zeros::<f32>(rows * K)?, device.zeros::<u32>(rows * K)?);
    let stream = device.stream();
    let mut launch = || {
        let (values, places) = (values.tile_mut([rows, K])?, places.tile_mut([rows, K])?);
        kernels::top_k(&stream, device_x.tile([rows, columns])?, values, places)
    };
    let time = timer(device).measure(&stream, &mut launch)?.median();
    let (values, places) = (values.download()?, places.download()?);
    let mut wrong = 0;
    for (r, row) in x.chunks(columns).enumerate() {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        let found = values[r * K..][..K].iter().zip(&places[r * K..][..K]);
        wrong += found.zip(order).filter(|((value, place), at)| **value != row[*at] || **place as usize != *at).count();
    }
    Ok(Report {
        name: "top_k",
        device: device.name().to_owned(),
        size: format!("{K} of {columns}, {rows} rows"),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: format!("{:.2} Grows/s", rows as f64 / time.as_secs_f64().max(1e-12) / 1e9),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
