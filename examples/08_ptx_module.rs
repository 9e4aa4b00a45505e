//! A whole PTX module in the source: checked at compile time like any other, with a typed launch for its entry.
//!
//! The constant `clamp::PTX` is these bytes. The entry's parameters are those of the PTX: pointers as `u64`.

use ptx_examples::parallel::count;
use ptx_examples::{Report, bandwidth, elements, random, timer};
use ptx_launch::prelude::*;

ptx! {
    .version 7.0
    .target sm_80
    .address_size 64

    // x[i] = min(max(x[i], lo), hi)
    .visible .entry clamp(
        .param .u64 .ptr .global .align 4 x,
        .param .f32 lo,
        .param .f32 hi,
        .param .u32 n
    )
    .reqntid 128
    {
        .reg .pred %outside;
        .reg .b32 %i, %n, %block;
        .reg .f32 %v, %lo, %hi;
        .reg .b64 %x, %offset;

        ld.param.u32        %n, [n];
        mov.u32             %i, %tid.x;
        mov.u32             %block, %ctaid.x;
        mad.lo.u32          %i, %block, 128, %i;
        setp.ge.u32         %outside, %i, %n;
        @%outside bra       done;

        ld.param.u64        %x, [x];
        cvta.to.global.u64  %x, %x;
        mul.wide.u32        %offset, %i, 4;
        add.u64             %x, %x, %offset;
        ld.param.f32        %lo, [lo];
        ld.param.f32        %hi, [hi];
        ld.global.f32       %v, [%x];
        max.f32             %v, %v, %lo;
        min.f32             %v, %v, %hi;
        st.global.f32       [%x], %v;
    done:
        ret;
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 18);
    let (lo, hi) = (-0.25f32, 0.5f32);
    let data = random(n, 11);
    let x = device.upload(&data)?;
    let stream = device.stream();
    let config = Config::grid(n.div_ceil(128)).block(128);
    // SAFETY: `x` holds n elements, and nothing else uses it while the kernel runs.
    #[allow(unsafe_code, reason = "PTX text says nothing about what its pointers point to")]
    let launch = || unsafe { clamp(&stream, config, x.address(), lo, hi, n) };
    let time = timer(device).measure(&stream, launch)?.median();
    let result = x.download()?;
    let wrong = count(data.len(), |at| result[at] != data[at].clamp(lo, hi));
    Ok(Report {
        name: "ptx_module",
        device: device.name().to_owned(),
        size: format!("{n} f32"),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: bandwidth(8 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
