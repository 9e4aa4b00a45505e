//! The hand-written expansion, used on the CPU device: what a typed launch promises on every device.
#![allow(clippy::unwrap_used, unsafe_code, reason = "tests")]

mod expansion;

use expansion::{Shape, saxpy, tiles};
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, RuntimeModule};

#[test]
fn conditions_are_checked_on_the_host() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    let error = saxpy(&device.stream(), 3.0, &x, &mut y, 11).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    let text = error.to_string();
    assert!(text.contains("`saxpy` is launched with x.len() = 10, y.len() = 10, n = 11"), "{text}");
    assert!(text.contains("its condition must hold: x.len() >= n"), "{text}");
}

#[test]
fn an_empty_grid_runs_nothing_and_views_can_be_passed() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    saxpy(&device, 3.0, &x.slice(2..4).unwrap(), &mut y.slice_mut(..2).unwrap(), 0).unwrap();
    assert_eq!(y.download().unwrap(), [0.0; 10]);
}

#[test]
fn the_attribute_and_the_call_must_agree() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    let config = Config::grid(2).block(32).cluster(4);
    // SAFETY: it does not get as far as a launch.
    let error = unsafe { tiles::<3>(&device, config, &TensorMap::from_raw([0; 16]), Shape { m: 1, n: 1 }, &mut out) }
        .unwrap_err();
    assert!(error.to_string().contains("the kernel's attribute sets it to 2×1×1"), "{error}");
}

#[test]
fn what_the_attribute_fixes_the_call_cannot_change() {
    let attribute = Config::grid(2).block(64).shared(4096);
    for (config, text) in [
        (
            Config::new().shared(0),
            "sets the dynamic shared memory to 0 bytes\n  possible: the kernel's attribute sets it to 4096",
        ),
        (Config::grid(3), "sets the grid to 3×1×1\n  possible: the kernel's attribute sets it to 2×1×1"),
    ] {
        for error in [config.over(attribute).unwrap_err(), config.safely_over(attribute).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Limits);
            assert!(error.to_string().contains(text), "{error}\nlacks: {text}");
        }
    }
    assert_eq!(Config::new().shared(4096).safely_over(attribute).unwrap(), attribute);
    let error = Config::new().pdl(true).safely_over(attribute).unwrap_err();
    assert!(error.to_string().contains("a safe kernel is launched with `.pdl(true)`"), "{error}");
    assert!(Config::new().pdl(true).over(attribute).is_ok());
    assert!(Config::new().pdl(true).safely_over(attribute.pdl(true)).is_ok());
}

/// Of conditions and sizes that divide.
#[ptx_kernel(arch = "sm_80", block = 32, grid = (m / n, 1), shared = 4 * (m % n), unsafe(requires(m / n >= 1 || x.len() >= m, bytes(m / n) == 4)))]
fn divides(x: &[u32], m: u32, n: u32) {}

/// A function for conditions.
fn bytes(count: rt::Int) -> rt::Int {
    count.min(4)
}

#[test]
fn a_division_by_zero_is_an_error() {
    let device = Device::cpu();
    let x = device.zeros::<u32>(64).unwrap();
    divides(&device, &x, 8, 2).unwrap();
    for m in [0, 8] {
        let error = divides(&device, &x, m, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Condition);
        assert!(
            error.to_string().contains("`divides` is launched with values for which `m / n` divides by zero"),
            "{error}"
        );
    }
}

/// Prints a line.
const TALKS: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .func (.param .b32 n) vprintf(.param .b64 f, .param .b64 a);\n\
    .global .align 1 .b8 format[4] = {104, 105, 10, 0};\n\
    .visible .entry talks() {\n\
    .reg .b64 %d<3>;\n.local .align 8 .b8 args[8];\n\
    { .param .b64 f; .param .b64 a; .param .b32 n;\n\
    mov.u64 %d1, format; cvta.global.u64 %d1, %d1; mov.u64 %d2, args; cvta.local.u64 %d2, %d2;\n\
    st.param.b64 [f], %d1; st.param.b64 [a], %d2; call.uni (n), vprintf, (f, a); }\nret;\n}\n";

/// A process whose standard output is closed while a kernel prints: first it prints that it is there, then it waits.
#[test]
fn printf_needs_no_reader() {
    use std::io::{BufRead, BufReader, Read, stdin};
    use std::process::{Command, Stdio};
    if std::env::var_os("PTX_TALKS").is_some() {
        stdin().read_to_end(&mut Vec::new()).unwrap();
        let device = Device::cpu();
        let kernel = RuntimeModule::load(&device, "talks.ptx", TALKS).unwrap().kernel("talks").unwrap();
        // SAFETY: the kernel only prints.
        (0..100).for_each(|_| unsafe { kernel.launch(Config::grid(1).block(1)).submit(&device) }.unwrap());
        std::process::exit(0);
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "printf_needs_no_reader", "--nocapture"])
        .env("PTX_TALKS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("running") {
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
    }
    drop(out);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "the launch panicked");
}

#[test]
fn buffers_stay_with_their_device() {
    let (device, other) = (Device::cpu(), Device::cpu());
    let (x, mut y) = (device.upload(&[1.0f32; 4]).unwrap(), other.zeros::<f32>(4).unwrap());
    let error = saxpy(&device, 3.0, &x, &mut y, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongDevice);
}

#[test]
fn the_numbers_are_right_on_the_cpu() {
    let device = Device::cpu();
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (x, mut y) = (device.upload(&values).unwrap(), device.upload(&values).unwrap());
    saxpy(&device.stream(), 2.0, &x, &mut y, 999).unwrap();
    let y = y.download().unwrap();
    assert!(y.iter().zip(&values).take(999).all(|(y, x)| *y == 3.0 * x));
    assert_eq!(y[999], 999.0);
}

#[test]
fn faults_on_the_cpu_name_the_rust_line() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 8]).unwrap(), device.zeros::<f32>(4).unwrap());
    let (on, read, mut write) = (&device, &x, &mut y);
    let stream = on.as_stream();
    let (a, b) = (ReadSlice::bind(&read, stream).unwrap(), WriteSlice::bind(&mut write, stream).unwrap());
    let args = [rt::Arg::new(&1.0f32), a.arg(), b.arg(), rt::Arg::new(&8u32)];
    // SAFETY: `y` is too short, which the CPU device finds.
    let error = unsafe { rt::launch(&saxpy::KERNEL, stream, &Config::grid(1).block(32), &args) }.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Fault);
    assert!(text.starts_with("`saxpy` failed on the CPU device: "), "{text}");
    assert!(text.contains("mod.rs:12\n       | ld.global.f32 vy, [py];"), "{text}");
    drop((a, b));
    assert_eq!(y.download().unwrap(), [0.0; 4], "a later use of the device works");
}

#[test]
fn ptx_that_is_wrong_is_told_on_the_cpu() {
    static VARIANTS: [rt::Variant; 1] = [rt::Variant::new("sm_80", WRONG, rt::LineMap::new("a.rs", "6:0:60"))];
    const WRONG: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  add.x9 1;\n}\n";
    static MODULE: rt::Module = rt::Module::new("k", &VARIANTS);
    static KERNEL: Kernel = Kernel::new(&MODULE, "k", &[]);
    // SAFETY: the kernel takes nothing.
    let error =
        unsafe { rt::launch(&KERNEL, (&Device::cpu()).as_stream(), &Config::grid(1).block(1), &[]) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Load);
    assert!(error.to_string().contains("--> a.rs:60\n       | add.x9 1;"), "{error}");
}

#[test]
fn a_launch_without_a_block_size_is_an_error() {
    static MODULE: rt::Module = rt::Module::new("k", &[]);
    static KERNEL: Kernel = Kernel::new(&MODULE, "k", &[]);
    // SAFETY: the kernel takes nothing.
    let error = unsafe { rt::launch(&KERNEL, (&Device::cpu()).as_stream(), &Config::grid(1), &[]) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limits);
    assert!(
        error.to_string().starts_with("`k` is launched, and nothing says with how many threads a block"),
        "{error}"
    );
}

#[test]
fn threads_share_a_cpu_device() {
    let device = Device::cpu();
    std::thread::scope(|scope| {
        for seed in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                let (x, mut y) = (device.upload(&[f32::from(seed); 64]).unwrap(), device.zeros::<f32>(64).unwrap());
                (0..10).for_each(|_| saxpy(device, 1.0, &x, &mut y, 64).unwrap());
                assert_eq!(y.download().unwrap(), [10.0 * f32::from(seed); 64]);
            });
        }
    });
}

/// Adds a bias, if there is one.
#[ptx_kernel(arch = "sm_80", block = 1, grid = 1, unsafe(requires(bias.len() == 0 || bias.len() >= 1, sums.len() <= 1)))]
fn add_bias(bias: &[f32], sums: &mut [f32]) {
    let mut v: f32 = 1.0;
    let (from, to): (u64, u64) = (bias, sums);
    if from != 0 {
        let b: f32;
        ptx! { ld.global.f32 b, [from]; }
        v += b;
    }
    if to != 0 {
        ptx! { st.global.f32 [to], v; }
    }
}

#[test]
fn absent_memory_is_the_address_zero() {
    let device = Device::cpu();
    let (bias, mut sums) = (device.upload(&[2.0f32]).unwrap(), device.zeros::<f32>(1).unwrap());
    add_bias(&device, Some(&bias), Some(&mut sums)).unwrap();
    assert_eq!(sums.download().unwrap(), [3.0]);
    add_bias(&device, None::<&Buffer<f32>>, Some(&mut sums)).unwrap();
    assert_eq!(sums.download().unwrap(), [1.0]);
    add_bias(&device, Some(&bias), None::<&mut Buffer<f32>>).unwrap();
    assert_eq!(device.stream().copy(None::<&Buffer<f32>>, &mut sums).unwrap_err().kind(), ErrorKind::Condition);
}

/// Extents by value.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
struct Extents {
    rows: u32,
    columns: u32,
}

/// A parameter that has no text.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
struct Silent {
    scale: f32,
    count: u32,
}

impl Silent {
    fn fits(self, len: rt::Int) -> bool {
        len >= self.count
    }
}

/// Conditions on everything that they can name.
#[ptx_kernel(arch = "sm_80", params(Extents, Silent), block = 32, grid = 1, unsafe(requires(M % 4 == 0 && N < 8, extents.rows * 2 <= extents.columns, silent.scale > 0.5, silent.fits(x.len()), x.is_empty() || n.min(3) == 3)))]
fn conditions(_a: Tile<f32, (M, N)>, x: &[f32], extents: Extents, silent: Silent, n: i64) {}

#[test]
fn a_condition_that_fails_shows_the_value_of_all_that_it_names() {
    let device = Device::cpu();
    let (a, x) = (device.zeros::<f32>(64).unwrap(), device.zeros::<f32>(5).unwrap());
    let call = |shape, rows, scale, count, n| {
        let (extents, silent) = (Extents { rows, columns: 7 }, Silent { scale, count });
        conditions(&device, a.tile(shape).unwrap(), &x, extents, silent, n)
    };
    call([4, 7], 3, 1.0, 5, 3).unwrap();
    let wrong = [
        (
            call([6, 7], 3, 1.0, 5, 3),
            "launched with M = 6, N = 7\n  possible: its condition must hold: M % 4 == 0 && N < 8",
        ),
        (call([4, 7], 4, 1.0, 5, 3), "launched with extents.rows = 4, extents.columns = 7\n"),
        (call([4, 7], 3, 0.25, 5, 3), "launched with silent.scale = 0.25\n"),
        (call([4, 7], 3, 1.0, 6, 3), "launched with silent = a value without `Debug`, x.len() = 5\n"),
        (call([4, 7], 3, 1.0, 5, -2), "launched with x.len() = 5, n = -2\n"),
    ];
    for (result, text) in wrong {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}\nlacks: {text}");
    }
}

/// A tile that TMA moves.
#[ptx_kernel(arch = "sm_90", block = 32, grid = 1, unsafe(requires(M > 0)))]
fn mapped(#[tma(box = [4, 4])] _a: Tile<f32, (M, N)>) {}

#[test]
fn an_error_of_a_tensor_map_names_its_parameter() {
    let device = Device::cpu();
    let a = device.zeros::<f32>(64).unwrap();
    mapped(&device, a.tile([4, 8]).unwrap()).unwrap();
    let error = mapped(&device, a.tile([4, 7]).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TensorMap);
    assert!(error.to_string().contains("`mapped` is launched with `_a` as a tensor map with strides of"), "{error}");
}
