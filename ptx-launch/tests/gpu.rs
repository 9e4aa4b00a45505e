//! The launch runtime on a real driver. On a machine without a GPU these tests show as ignored, with the reason; those
//! that need a machine without a driver are ignored where there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, reason = "tests")]

mod expansion;
#[path = "gpu/foreign.rs"]
mod foreign;

use cudarc::driver::CudaContext;
use expansion::saxpy;
use libtest_mimic::{Arguments, Failed, Trial};
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;
use ptx_launch::{Error, ErrorKind, JitOptions, Optimization, Source};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Requirements of a test on the machine.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Gpu,
    TwoGpus,
    /// This program was built with `PTX_EMBED=always`.
    Embedded,
    NoDriver,
    Nothing,
}

const TESTS: &[(Needs, &str, fn())] = &[
    (Needs::Gpu, "saxpy_is_right", saxpy_is_right),
    (Needs::Gpu, "views_and_own_slices", views_and_own_slices),
    (Needs::Gpu, "limits_are_told", limits_are_told),
    (Needs::Gpu, "assembler_errors_name_the_rust_line", assembler_errors_name_the_rust_line),
    (Needs::Gpu, "figures_and_occupancy", figures_and_occupancy),
    (Needs::Gpu, "large_shared_memory", large_shared_memory),
    (Needs::Gpu, "a_graph_of_1000_launches_replays", a_graph_of_1000_launches_replays),
    (Needs::Gpu, "eight_threads_eight_streams_no_leak", eight_threads_eight_streams_no_leak),
    (Needs::Gpu, "soak", soak),
    (Needs::Gpu, "devices_come_and_go", devices_come_and_go),
    (Needs::Gpu, "too_much_memory", too_much_memory),
    (Needs::Gpu, "a_fault_is_told_and_sticks", a_fault_is_told_and_sticks),
    (Needs::Gpu, "options_of_the_assembler", options_of_the_assembler),
    (Needs::Gpu, "copies_fills_and_pinned_memory", copies_fills_and_pinned_memory),
    (Needs::Gpu, "streams_wait_for_each_other", streams_wait_for_each_other),
    (Needs::Gpu, "the_users_own_context_stream_and_slices", the_users_own_context_stream_and_slices),
    (Needs::Gpu, "dropping_in_any_order", dropping_in_any_order),
    (Needs::Gpu, "a_driver_program_launches_on_its_own_memory", foreign::a_driver_program_launches_on_its_own_memory),
    (Needs::Gpu, "text_is_loaded_launched_and_unloaded", foreign::text_is_loaded_launched_and_unloaded),
    (Needs::Embedded, "embedded_machine_code_is_taken", embedded_machine_code_is_taken),
    (Needs::TwoGpus, "buffers_stay_with_their_gpu", buffers_stay_with_their_gpu),
    (Needs::TwoGpus, "one_kernel_on_two_gpus", one_kernel_on_two_gpus),
    (Needs::TwoGpus, "copies_between_gpus", copies_between_gpus),
    (Needs::NoDriver, "no_driver_is_an_error_and_best_is_the_cpu", no_driver_is_an_error_and_best_is_the_cpu),
    (Needs::Nothing, "the_environment_chooses", the_environment_chooses),
];

/// Set in child processes: what to do instead of testing.
const CHILD: &str = "PTX_LAUNCH_TEST_CHILD";

fn main() -> ExitCode {
    // Out of the driver's own cache, machine code comes without a log.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("CUDA_CACHE_DISABLE", "1") };
    match std::env::var(CHILD).as_deref() {
        Ok("best") => return tell(Device::best()),
        Ok("fault") => return fault(),
        _ => {}
    }
    let trials = TESTS.iter().map(|(needs, name, test)| {
        let missing = missing(*needs);
        let trial = Trial::test(*name, move || run(*test)).with_ignored_flag(missing.is_some());
        trial.with_kind(missing.unwrap_or_default())
    });
    let mut arguments = Arguments::from_args();
    // A wait for the whole GPU, as in many of them, breaks the capture of another one.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn run(test: fn()) -> Result<(), Failed> {
    std::panic::catch_unwind(test).map_err(|_| Failed::without_message())
}

/// Why a test cannot run on this machine.
fn missing(needs: Needs) -> Option<&'static str> {
    match (needs, Device::cuda(0).is_ok()) {
        (Needs::Gpu, false) => Some("needs a GPU"),
        (Needs::Embedded, false) => Some("needs a GPU"),
        (Needs::Embedded, true) if halve::VARIANTS[1].cubins.is_empty() => Some("needs a build with PTX_EMBED=always"),
        (Needs::TwoGpus, _) if Device::cuda(1).is_err() => Some("needs two GPUs"),
        (Needs::NoDriver, _) if Device::cuda(0).map_or_else(|e| e.kind() != ErrorKind::NoDriver, |_| true) => {
            Some("needs a machine without a driver")
        }
        _ => None,
    }
}

fn tell(device: Result<Device, Error>) -> ExitCode {
    match device {
        Ok(device) => println!("{device}"),
        Err(error) => println!("{:?}", error.kind()),
    }
    ExitCode::SUCCESS
}

/// Output of a child process.
fn child(task: &str, choice: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, task).env_remove("PTX_DEVICE");
    choice.map(|choice| command.env("PTX_DEVICE", choice));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn gpu() -> Device {
    Device::cuda(0).unwrap()
}

fn kernel(
    entry: &'static str,
    ptx: &'static str,
    params: &'static [rt::Param],
    lines: rt::LineMap<'static>,
) -> &'static Kernel {
    let variants = Box::leak(Box::new([rt::Variant::new("sm_80", ptx, lines)]));
    let module = Box::leak(Box::new(rt::Module::new(entry, variants)));
    Box::leak(Box::new(Kernel::new(module, entry, params)))
}

fn no_driver_is_an_error_and_best_is_the_cpu() {
    let error = Device::cuda(0).unwrap_err();
    assert!(error.to_string().contains("there is no CUDA driver on this machine"), "{error}");
    assert!(error.to_string().contains("help: install the NVIDIA driver"), "{error}");
    assert_eq!(child("best", None), if cfg!(feature = "cpu") { "CPU (interpreter)" } else { "NoDriver" });
    assert_eq!(child("best", Some("cuda")), "NoDriver");
}

fn the_environment_chooses() {
    assert_eq!(child("best", Some("cpu")), if cfg!(feature = "cpu") { "CPU (interpreter)" } else { "Unsupported" });
    assert_eq!(child("best", Some("quantum")), "BadOption");
    assert_ne!(child("best", Some("cuda:99")), "CPU (interpreter)");
}

fn saxpy_is_right() {
    let device = gpu();
    println!("{device}");
    let x: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let (a, mut b) = (device.upload(&x).unwrap(), device.upload(&x).unwrap());
    saxpy(&device.stream(), 2.0, &a, &mut b, (1 << 20) - 1).unwrap();
    let y = b.download().unwrap();
    assert!(y.iter().zip(&x).take(x.len() - 1).all(|(y, x)| *y == 3.0 * x));
    assert_eq!(y.last(), x.last());
}

fn views_and_own_slices() {
    let device = gpu();
    let stream = device.as_cuda().unwrap().new_stream().unwrap();
    let x = stream.clone_htod(&[1.0f32; 8]).unwrap();
    let mut y = device.zeros::<f32>(8).unwrap();
    saxpy(&stream, 2.0, &x.slice(2..), &mut y.slice_mut(1..7).unwrap(), 6).unwrap();
    // The download runs on another stream, and waits for the launch by cudarc's events.
    assert_eq!(y.download().unwrap(), [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0]);
}

fn limits_are_told() {
    let device = gpu();
    let kernel = kernel("nothing", NOTHING, &[], rt::LineMap::default());
    for config in
        [Config::grid(1).block(2048), Config::grid((1, 70_000)).block(32), Config::grid(1).block(32).shared(1 << 20)]
    {
        // SAFETY: the kernel does nothing.
        let error = unsafe { rt::launch(kernel, (&device).as_stream(), &config, &[]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limits, "{error}");
    }
    device.synchronize().unwrap();
}

const NOTHING: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";

const WRONG: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry wrong()
{
	.reg .f32 a;
	.reg .u32 b;
	add.f32 a, a, b;
	ret;
}
";

fn assembler_errors_name_the_rust_line() {
    let kernel = kernel("wrong", WRONG, &[], rt::LineMap::new("src/wrong.rs", "1:0:1 8:0:77"));
    let error = kernel.load(&gpu()).unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Load);
    assert!(error.to_string().contains("--> src/wrong.rs:77\n       | add.f32 a, a, b;"), "{error}");
}

fn figures_and_occupancy() {
    let device = gpu();
    let figures = saxpy::KERNEL.figures(&device).unwrap();
    println!("{figures:?}");
    assert!((1..=255).contains(&figures.registers) && figures.local == 0 && figures.max_threads == 1024);
    let occupancy = saxpy::KERNEL.occupancy(&device, &Config::grid(1).block(256)).unwrap();
    println!("{occupancy:?}");
    assert!(occupancy.blocks >= 4 && occupancy.multiprocessors > 0);
}

fn large_shared_memory() {
    let device = gpu();
    let kernel = kernel("nothing", NOTHING, &[], rt::LineMap::default());
    // SAFETY: the kernel does nothing.
    unsafe { rt::launch(kernel, (&device).as_stream(), &Config::grid(1).block(32).shared(96 * 1024), &[]) }.unwrap();
    device.synchronize().unwrap();
}

fn a_graph_of_1000_launches_replays() {
    let device = gpu();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = (device.upload(&[1.0f32; 512]).unwrap(), device.zeros::<f32>(512).unwrap());
    saxpy::KERNEL.load(&device).unwrap();
    device.synchronize().unwrap();
    let graph = stream.capture(|stream| (0..1000).try_for_each(|_| saxpy(stream, 1.0, &x, &mut y, 512))).unwrap();
    (0..3).for_each(|_| graph.launch().unwrap());
    // The download waits for the graph, and the graph for the launch on another stream.
    assert_eq!(y.download().unwrap(), [3000.0; 512]);
    let other = device.new_stream().unwrap();
    other.fill(&mut y, 1.0).unwrap();
    drop(x);
    graph.launch().unwrap();
    assert_eq!(y.download().unwrap(), [1001.0; 512]);
    graph.launch().unwrap();
    drop(y);
    graph.launch().unwrap();
    drop(graph);
    device.synchronize().unwrap();
}

fn eight_threads_eight_streams_no_leak() {
    let device = gpu();
    let context = device.as_cuda().unwrap();
    let work = || {
        std::thread::scope(|scope| {
            (0..8).for_each(|seed: u8| drop(scope.spawn(move || hammer(&gpu(), seed.into()))));
        });
        device.synchronize().unwrap();
    };
    work();
    let (before, _) = context.mem_get_info().unwrap();
    (0..5).for_each(|_| work());
    let (after, _) = context.mem_get_info().unwrap();
    assert!(after + (32 << 20) >= before, "{} bytes are gone", before - after);
}

fn hammer(device: &Device, seed: f32) {
    let stream = device.new_stream().unwrap();
    for n in (1..200).map(|i| i * 517) {
        let (x, mut y) = (device.upload(&vec![seed; n]).unwrap(), device.zeros::<f32>(n).unwrap());
        (0..4).for_each(|_| saxpy(&stream, 0.5, &x, &mut y, n as u32).unwrap());
        assert!(y.download().unwrap().iter().all(|y| *y == 2.0 * seed));
    }
}

/// Eight threads with streams of their own, for `PTX_SOAK_SECONDS` seconds, buffers created and dropped
/// all along.
fn soak() {
    let seconds = std::env::var("PTX_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let (device, end) = (gpu(), Instant::now() + Duration::from_secs(seconds));
    let context = device.as_cuda().unwrap();
    (0..8).for_each(|_| hammer(&device, 1.0));
    let (before, _) = context.mem_get_info().unwrap();
    let until_the_end = |seed: u8| {
        let rounds = std::iter::from_fn(|| (Instant::now() < end).then(|| hammer(&gpu(), seed.into())));
        rounds.count()
    };
    let rounds: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || until_the_end(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    device.synchronize().unwrap();
    let (after, _) = context.mem_get_info().unwrap();
    println!("{} launches in {seconds} s; free before {before}, after {after} bytes", rounds * 199 * 4);
    assert!(after + (32 << 20) >= before, "{} bytes are gone", before - after);
}

fn devices_come_and_go() {
    for _ in 0..3 {
        let device = own_context();
        let (x, mut y) = (device.upload(&[1.0f32; 4]).unwrap(), device.zeros::<f32>(4).unwrap());
        saxpy(&device, 1.0, &x, &mut y, 4).unwrap();
        drop((device, x));
        assert_eq!(y.download().unwrap(), [1.0; 4]);
    }
}

fn too_much_memory() {
    let device = gpu();
    assert_eq!(device.zeros::<u8>(1 << 46).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(device.zeros::<u8>(4).unwrap().download().unwrap(), [0; 4]);
}

/// Reads and writes outside of everything: in a process of its own, since the context does not survive it.
fn fault() -> ExitCode {
    const POKE: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry poke(.param .u64 at)\n{\n\
                        \t.reg .u64 a;\n\tld.param.u64 a, [at];\n\tst.global.u32 [a], 1;\n\tret;\n}\n";
    static PARAMS: [rt::Param; 1] = [rt::Param::value::<u64>("at")];
    let device = gpu();
    let kernel = kernel("poke", POKE, &PARAMS, rt::LineMap::default());
    // SAFETY: it is meant to fail, and its context is not used afterwards.
    unsafe { rt::launch(kernel, (&device).as_stream(), &Config::grid(1).block(1), &[rt::Arg::new(&64u64)]) }.unwrap();
    let first = device.synchronize().unwrap_err();
    let second = device.zeros::<f32>(4).unwrap_err();
    println!("{:?} {:?}\n{first}", first.kind(), second.kind());
    ExitCode::SUCCESS
}

fn a_fault_is_told_and_sticks() {
    let text = child("fault", None);
    assert!(text.starts_with("Fault Fault\n"), "{text}");
    assert!(text.contains("run it on the CPU device"), "{text}");
}

fn buffers_stay_with_their_gpu() {
    let (zero, one) = (gpu(), Device::cuda(1).unwrap());
    let (x, mut y) = (zero.upload(&[1.0f32; 4]).unwrap(), one.upload(&[1.0f32; 4]).unwrap());
    assert_eq!(saxpy(&one, 1.0, &x, &mut y, 4).unwrap_err().kind(), ErrorKind::WrongDevice);
    let x = one.upload(&x.download().unwrap()).unwrap();
    saxpy(&one, 1.0, &x, &mut y, 4).unwrap();
    assert_eq!(y.download().unwrap(), [2.0; 4]);
}

/// 64 values that live at once: nothing is stored before the sum of all.
#[ptx_kernel(arch("sm_80", "sm_90"), block = 32, grid = 1, unsafe(requires(x.len() >= 64 * 32)))]
pub fn halve(x: &mut [f32]) {
    let at: u64 = x + wide(tid.x) * 4;
    let v: [f32; 64];
    for i in 0..64 {
        let p: u64 = at + i * 128;
        ptx! { ld.global.f32 v[i], [p]; }
    }
    let mut sum: f32 = 0.0;
    for i in 0..64 {
        ptx! { add.rn.f32 sum, sum, v[i]; }
    }
    for i in 0..64 {
        let p: u64 = at + i * 128;
        ptx! {
            mul.rn.f32 v[i], v[i], 0.5;
            fma.rn.f32 v[i], sum, 0.0, v[i];
            st.global.f32 [p], v[i];
        }
    }
}

fn own_context() -> Device {
    Device::from_cuda(&CudaContext::new(0).unwrap()).unwrap()
}

fn options_of_the_assembler() {
    let (plain, tight) = (own_context(), own_context());
    let options = JitOptions::new().max_registers(24).over_directives(true).optimization(Optimization::O3);
    halve::KERNEL.load_with(&tight, &options).unwrap();
    assert_eq!(halve::KERNEL.load_with(&tight, &JitOptions::new()).unwrap_err().kind(), ErrorKind::BadOption);
    let (wide, narrow) = (halve::KERNEL.figures(&plain).unwrap(), halve::KERNEL.figures(&tight).unwrap());
    println!("{wide:?}\n{narrow:?}\n{:?}", halve::KERNEL.loaded(&tight).unwrap());
    assert!(wide.registers > 64 && narrow.registers <= 24, "{} {}", wide.registers, narrow.registers);
    assert!(narrow.local > 0 && narrow.spill_stores > Some(0) && narrow.spill_loads > Some(0));
    assert_eq!(wide.spill_stores, Some(0));
    for device in [plain, tight] {
        let mut x = device.upload(&vec![3.0f32; 64 * 32]).unwrap();
        halve(&device, &mut x).unwrap();
        assert!(x.download().unwrap().iter().all(|x| *x == 1.5));
    }
}

fn embedded_machine_code_is_taken() {
    let device = own_context();
    let loaded = halve::KERNEL.loaded(&device).unwrap();
    println!("{loaded:?}");
    assert_eq!(loaded.source, Source::Embedded);
    assert_eq!(halve::KERNEL.figures(&device).unwrap().spill_stores, Some(0));
    let mut x = device.upload(&vec![3.0f32; 64 * 32]).unwrap();
    halve(&device, &mut x).unwrap();
    assert!(x.download().unwrap().iter().all(|x| *x == 1.5));
}

fn copies_fills_and_pinned_memory() {
    let device = own_context();
    let stream = device.new_stream().unwrap();
    let n = 1 << 20;
    let (mut host, mut back) = (device.pinned::<f32>(n).unwrap(), device.pinned::<f32>(n).unwrap());
    host.as_mut_slice().unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
    let (mut x, mut y) = (device.zeros::<f32>(n).unwrap(), device.zeros::<f32>(n).unwrap());
    stream.upload(&host, &mut x).unwrap();
    stream.copy(&x.slice(..n / 2).unwrap(), &mut y.slice_mut(n / 2..).unwrap()).unwrap();
    stream.fill(&mut y.slice_mut(..n / 2).unwrap(), 7.0).unwrap();
    saxpy(&stream, 2.0, &x, &mut y, n as u32).unwrap();
    stream.download(&y, &mut back).unwrap();
    let wanted = |i: usize| 2.0 * i as f32 + if i < n / 2 { 7.0 } else { (i - n / 2) as f32 };
    assert!(back.as_slice().unwrap().iter().enumerate().all(|(i, y)| *y == wanted(i)));
    let mut wide = device.zeros::<[u32; 3]>(1000).unwrap();
    stream.fill(&mut wide, [1, 2, 3]).unwrap();
    assert!(wide.download().unwrap().iter().all(|x| *x == [1, 2, 3]));
    assert_eq!(device.pinned::<u8>(1 << 50).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

/// Long work on one stream, whose results another one uses at once, and whose inputs it overwrites.
fn streams_wait_for_each_other() {
    let device = own_context();
    let streams: Vec<Stream> = (0..4).map(|_| device.new_stream().unwrap()).collect();
    let n = 1 << 22;
    for round in 0..50 {
        let (mut x, mut sums) = (device.zeros::<f32>(n).unwrap(), Vec::new());
        streams[round % 4].fill(&mut x, 1.0).unwrap();
        sums.resize_with(3, || device.zeros::<f32>(n).unwrap());
        for (stream, sum) in streams.iter().zip(&mut sums) {
            (0..4).for_each(|_| saxpy(stream, 1.0, &x, &mut *sum, n as u32).unwrap());
        }
        // Three streams still read it.
        streams[3].fill(&mut x, -1.0).unwrap();
        let (first, rest) = sums.split_first_mut().unwrap();
        rest.iter().for_each(|sum| saxpy(&streams[3], 1.0, sum, &mut *first, n as u32).unwrap());
        assert!(first.download().unwrap().iter().all(|sum| *sum == 12.0), "round {round}");
    }
}

fn the_users_own_context_stream_and_slices() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let (x, mut y) = (stream.clone_htod(&[1.0f32; 512]).unwrap(), stream.alloc_zeros::<f32>(512).unwrap());
    saxpy(&stream, 2.0, &x, &mut y, 512).unwrap();
    saxpy(&stream, 2.0, &x.slice(256..), &mut y.slice_mut(..256), 256).unwrap();
    let mut y = Buffer::from_cuda(y).unwrap();
    saxpy(&Device::from_cuda(&context).unwrap(), 1.0, &x, &mut y, 512).unwrap();
    stream.memcpy_htod(&[9.0f32], &mut y.slice_mut(511..).unwrap().into_cuda().unwrap()).unwrap();
    let y = stream.clone_dtoh(&y.into_cuda().unwrap()).unwrap();
    assert!(y[..256].iter().all(|y| *y == 5.0) && y[256..511].iter().all(|y| *y == 3.0) && y[511] == 9.0);
}

fn dropping_in_any_order() {
    for order in 0..6 {
        let device = own_context();
        let stream = device.new_stream().unwrap();
        let (x, mut y) = (device.upload(&[1.0f32; 4096]).unwrap(), device.zeros::<f32>(4096).unwrap());
        (0..100).for_each(|_| saxpy(&stream, 1.0, &x, &mut y, 4096).unwrap());
        match order {
            0 => drop((device, stream, x)),
            1 => drop((stream, x, device)),
            2 => drop((x, device, stream)),
            3 => drop((x, stream, device)),
            4 => drop((device, x, stream)),
            _ => drop((stream, device, x)),
        }
        assert_eq!(y.download().unwrap(), [100.0; 4096]);
    }
}

fn one_kernel_on_two_gpus() {
    let devices = [gpu(), Device::cuda(1).unwrap()];
    std::thread::scope(|scope| {
        for device in &devices {
            scope.spawn(|| (1..5u8).for_each(|seed| hammer(device, seed.into())));
        }
    });
    let figures = devices.each_ref().map(|device| saxpy::KERNEL.figures(device).unwrap());
    assert_eq!(figures[0], figures[1]);
}

fn copies_between_gpus() {
    let (zero, one) = (gpu(), Device::cuda(1).unwrap());
    let (from, to) = (zero.new_stream().unwrap(), one.new_stream().unwrap());
    let n = 1 << 24;
    let (x, mut y, mut z) = (zero.upload(&vec![1.0f32; n]).unwrap(), zero.zeros(n).unwrap(), one.zeros(n).unwrap());
    for round in 1..=10u8 {
        saxpy(&from, 1.0, &x, &mut y, n as u32).unwrap();
        to.copy(&y, &mut z).unwrap();
        saxpy(&to, 0.0, &one.zeros::<f32>(n).unwrap(), &mut z, n as u32).unwrap();
        assert!(z.slice(n - 100..).unwrap().download().unwrap().iter().all(|z| *z == f32::from(round)));
    }
    assert!(z.download().unwrap().iter().all(|z| *z == 10.0));
    assert_eq!(from.copy(&y, &mut z).unwrap_err().kind(), ErrorKind::WrongDevice);
    assert_eq!(to.upload(&zero.pinned::<f32>(n).unwrap(), &mut z).unwrap_err().kind(), ErrorKind::WrongDevice);
}
