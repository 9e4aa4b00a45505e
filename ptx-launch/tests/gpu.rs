//! The launch runtime on a real driver. On a machine without a GPU these tests show as ignored, with the reason; those
//! that need a machine without a driver are ignored where there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, reason = "tests")]

mod expansion;

use expansion::saxpy;
use libtest_mimic::{Arguments, Failed, Trial};
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;
use ptx_launch::{Error, ErrorKind};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// What the machine must have for a test to run.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Gpu,
    TwoGpus,
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
    (Needs::TwoGpus, "buffers_stay_with_their_gpu", buffers_stay_with_their_gpu),
    (Needs::NoDriver, "no_driver_is_an_error_and_best_is_the_cpu", no_driver_is_an_error_and_best_is_the_cpu),
    (Needs::Nothing, "the_environment_chooses", the_environment_chooses),
];

/// Set in child processes: what to do instead of testing.
const CHILD: &str = "PTX_LAUNCH_TEST_CHILD";

fn main() -> ExitCode {
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
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run(test: fn()) -> Result<(), Failed> {
    std::panic::catch_unwind(test).map_err(|_| Failed::without_message())
}

/// Why a test cannot run on this machine.
fn missing(needs: Needs) -> Option<&'static str> {
    match (needs, Device::cuda(0).is_ok()) {
        (Needs::Gpu, false) => Some("needs a GPU"),
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

/// What a child process prints.
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

fn kernel(entry: &'static str, ptx: &'static str, params: &'static [rt::Param], lines: rt::LineMap) -> &'static Kernel {
    let variants = Box::leak(Box::new([rt::Variant::new("sm_80", ptx, lines)]));
    let module = Box::leak(Box::new(rt::Module::new(entry, variants)));
    Box::leak(Box::new(Kernel::new(module, entry, params)))
}

fn no_driver_is_an_error_and_best_is_the_cpu() {
    let error = Device::cuda(0).unwrap_err();
    assert!(error.to_string().contains("there is no CUDA driver on this machine"), "{error}");
    assert!(error.to_string().contains("help: install the NVIDIA driver"), "{error}");
    assert_eq!(child("best", None), "CPU (interpreter)");
    assert_eq!(child("best", Some("cuda")), "NoDriver");
}

fn the_environment_chooses() {
    assert_eq!(child("best", Some("cpu")), "CPU (interpreter)");
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
    for config in [Config::grid(1).block(2048), Config::grid((1, 70_000)), Config::grid(1).shared(1 << 20)] {
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
    let kernel = kernel("wrong", WRONG, &[], rt::LineMap::new(&["src/wrong.rs"], &[(1, 0, 1), (8, 0, 77)]));
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
    for _ in 0..3 {
        // SAFETY: `x` and `y` are alive, and nobody else uses them.
        unsafe { graph.launch() }.unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(y.download().unwrap(), [3000.0; 512]);
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

/// Eight threads with streams of their own, for as many seconds as `PTX_SOAK_SECONDS` says, buffers created and dropped
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
        let device = Device::from_cuda(&cudarc::driver::CudaContext::new(0).unwrap()).unwrap();
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
    unsafe { rt::launch(kernel, (&device).as_stream(), &Config::grid(1), &[rt::Arg::new(&64u64)]) }.unwrap();
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
