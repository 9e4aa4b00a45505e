//! Expansion time of a kernel of a thousand instructions, and of the files in `PTX_SPEED_FILES` (separated by blanks):
//! `cargo test -p ptx-expand speed -- --ignored --nocapture`.
#![allow(clippy::print_stdout, reason = "a measurement")]

use std::fmt::Write;
use std::time::{Duration, Instant};

/// A kernel with this many instructions, of ten kinds.
fn kernel(instructions: usize) -> String {
    let mut body = String::new();
    for at in 0..instructions / 10 {
        let _ = write!(
            body,
            "ld.global.v2.f32 {{a, b}}, [x + {offset}];
            fma.rn.f32 c, a, b, c;
            add.rn.f32 a, a, 0f3F800000;
            setp.lt.f32 p, a, b;
            @p bra L{at};
            mul.wide.u32 at, i, 4;
            add.u64 at, at, x;
            L{at}: cvt.rn.f16.f32 h, c;
            cvt.f32.f16 b, h;
            shl.b32 i, i, 1;
            st.global.f32 [x + {offset}], b;\n",
            offset = at * 8
        );
    }
    format!(
        "pub fn kernel(x: &mut [f32]) {{
            let (mut a, mut b, mut c): (f32, f32, f32) = (0.0, 0.0, 0.0);
            let h: f16;
            let mut i: u32 = tid.x;
            let at: u64;
            let p: pred;
            ptx! {{ {body} }}
        }}"
    )
}

/// CPU time of this thread, where the system reports it: a busy machine does not count.
fn cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    for instructions in [10, 1000, 1000, 1000] {
        let (options, item) = (r#"arch = "sm_80""#.parse(), kernel(instructions).parse());
        let (Ok(options), Ok(item)) = (options, item) else { return };
        let (start, cpu_start) = (Instant::now(), cpu());
        let expanded = crate::single::expand(options, item);
        let (time, cpu) = (start.elapsed(), cpu().zip(cpu_start).map(|(end, start)| end.saturating_sub(start)));
        let errors = expanded.to_string().matches("compile_error").count();
        println!("{instructions} instructions: {time:?}, on the processor {cpu:?}, {errors} errors");
    }
}

#[test]
#[ignore = "a measurement"]
fn speed_of_files() {
    let files = std::env::var("PTX_SPEED_FILES").unwrap_or_default();
    for turn in 0..3 {
        let before = cpu();
        for file in files.split_whitespace() {
            let Ok(text) = std::fs::read_to_string(file) else { continue };
            let before = cpu();
            let modules = super::modules(&text).map_err(|e| e.to_string());
            let bytes = modules.map(|all| all.iter().flat_map(|m| &m.ptx).map(String::len).sum::<usize>());
            println!("{turn} {file}: {:?}, {bytes:?} bytes of PTX", cpu().zip(before).map(|(end, start)| end - start));
        }
        println!("{turn} together: {:?}", cpu().zip(before).map(|(end, start)| end - start));
    }
}
