//! The random programs of `program`, on a GPU: kernels wait before they write, and every value is compared. Ignored without a GPU.
//!
//! `PTX_PROGRAM_SIZE=20000 cargo test -p ptx-launch --test gpu_order`: so many operations, from the seed `PTX_PROGRAM_SEED` on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, reason = "tests")]

mod expansion;
mod program;

use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Failed, Trial};
use program::kernels::accumulate;
use program::{Ground, N};
use ptx_launch::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

const TESTS: &[(&str, fn())] = &[
    ("whatever_programs_do_values_are_right", whatever_programs_do_values_are_right),
    ("a_dropped_streams_work_is_waited_for", a_dropped_streams_work_is_waited_for),
    ("a_dropped_stream_of_another_device_of_the_same_gpu", a_dropped_stream_of_another_device_of_the_same_gpu),
    ("a_dropped_graph_and_its_stream", a_dropped_graph_and_its_stream),
    ("dropped_streams_that_used_views_copied_and_joined", dropped_streams_that_used_views_copied_and_joined),
    ("a_dropped_stream_of_a_thread", a_dropped_stream_of_a_thread),
    ("pinned_memory_waits_for_its_copies", pinned_memory_waits_for_its_copies),
    ("a_graph_is_launched_against_a_view_of_cudarcs", a_graph_is_launched_against_a_view_of_cudarcs),
    ("halves_on_two_threads", halves_on_two_threads),
    ("a_stream_of_a_thread_is_another_one_on_each", a_stream_of_a_thread_is_another_one_on_each),
    ("a_panic_ends_its_capture", a_panic_ends_its_capture),
    ("streams_and_waits_beside_a_capture", streams_and_waits_beside_a_capture),
];

fn main() -> ExitCode {
    let missing = Device::cuda(0).is_err();
    let trials = TESTS.iter().map(|(name, test)| {
        let run = || std::panic::catch_unwind(*test).map_err(|_| Failed::without_message());
        Trial::test(*name, run).with_ignored_flag(missing).with_kind(if missing { "needs a GPU" } else { "" })
    });
    let mut arguments = Arguments::from_args();
    // The programs make the context's streams come and go, on which the other tests look.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn own() -> Device {
    Device::from_cuda(&CudaContext::new(0).unwrap()).unwrap()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn whatever_programs_do_values_are_right() {
    let (size, first) = (number("PTX_PROGRAM_SIZE").unwrap_or(4000), number("PTX_PROGRAM_SEED").unwrap_or(1));
    const OPERATIONS: u64 = 40;
    let peer = Device::cuda(1).ok();
    let ground = Ground { devices: [own(), own()], peer, pause: 30, look: &|_, _| (), stub: false };
    let start = Instant::now();
    for seed in first..first + size.div_ceil(OPERATIONS) {
        let run = std::panic::AssertUnwindSafe(|| program::run(&ground, seed, OPERATIONS as usize));
        assert!(std::panic::catch_unwind(run).is_ok(), "the program of seed {seed} failed");
    }
    println!("{size} operations in {:?}", start.elapsed());
    ground.devices[0].synchronize().unwrap();
}

/// About 30 ms.
const LONG: u32 = 20_000;

fn vectors(device: &Device) -> (Buffer<f32>, Buffer<f32>) {
    accumulate::KERNEL.load(device).unwrap();
    (device.upload(&[1.0; N]).unwrap(), device.upload(&[2.0; N]).unwrap())
}

/// A download, a launch on the default stream, and a copy by cudarc see the effect of `work` on `y`.
fn is_seen(work: impl Fn(&Device, &Buffer<f32>, &mut Buffer<f32>)) {
    for look in 0..3 {
        let device = own();
        let (x, mut y) = vectors(&device);
        device.synchronize().unwrap();
        work(&device, &x, &mut y);
        let found = match look {
            0 => y.download().unwrap(),
            1 => {
                let mut z = device.zeros::<f32>(N).unwrap();
                accumulate(&device, 0, 1.0, &y, &mut z, N as u32).unwrap();
                z.download().unwrap()
            }
            _ => device.stream().as_cuda().unwrap().clone_dtoh(&y.into_cuda().unwrap()).unwrap(),
        };
        device.synchronize().unwrap();
        assert_eq!(found, [3.0; N], "look {look}");
    }
}

fn add(stream: impl AsStream, x: &Buffer<f32>, y: &mut Buffer<f32>) {
    accumulate(stream, LONG, 1.0, x, y, N as u32).unwrap();
}

fn a_dropped_streams_work_is_waited_for() {
    is_seen(|device, x, y| add(&device.new_stream().unwrap(), x, y));
}

fn a_dropped_stream_of_another_device_of_the_same_gpu() {
    is_seen(|_, x, y| {
        let other = own();
        accumulate::KERNEL.load(&other).unwrap();
        add(&other.new_stream().unwrap(), x, y);
    });
}

fn a_dropped_graph_and_its_stream() {
    is_seen(|device, x, y| {
        let stream = device.new_stream().unwrap();
        let graph = stream.capture(|stream| accumulate(stream, LONG, 1.0, x, &mut *y, N as u32)).unwrap();
        drop(stream);
        graph.launch().unwrap();
    });
}

fn dropped_streams_that_used_views_copied_and_joined() {
    is_seen(|device, x, y| {
        let stream = device.new_stream().unwrap();
        let (low, high) = (x.slice(..8).unwrap(), x.slice(8..).unwrap());
        accumulate(&stream, LONG, 1.0, &low, &mut y.slice_mut(..8).unwrap(), 8).unwrap();
        accumulate(&stream, LONG, 1.0, &high, &mut y.slice_mut(8..).unwrap(), N as u32 - 8).unwrap();
    });
    is_seen(|device, x, y| {
        let (stream, mut sum) = (device.new_stream().unwrap(), device.upload(&[2.0; N]).unwrap());
        add(&stream, x, &mut sum);
        stream.copy(&sum, y).unwrap();
    });
    is_seen(|device, x, y| {
        let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        add(&one, x, &mut *y);
        other.join(&one).unwrap();
        accumulate(&other, LONG, 0.0, x, y, N as u32).unwrap();
    });
}

fn a_dropped_stream_of_a_thread() {
    is_seen(|device, x, y| {
        std::thread::scope(|scope| drop(scope.spawn(|| add(&device.new_stream().unwrap(), x, y))));
    });
}

fn pinned_memory_waits_for_its_copies() {
    let device = own();
    let stream = device.stream();
    let (x, mut y) = vectors(&device);
    let mut back = device.pinned::<f32>(N).unwrap();
    add(&device, &x, &mut y);
    stream.download(&y, &mut back).unwrap();
    assert_eq!(back.as_slice().unwrap(), [3.0; N]);
    let mut host = device.pinned::<f32>(N).unwrap();
    host.as_mut_slice().unwrap().fill(7.0);
    add(&device, &x, &mut y);
    stream.upload(&host, &mut y).unwrap();
    host.as_mut_slice().unwrap().fill(9.0);
    assert_eq!(y.download().unwrap(), [7.0; N]);
    // One long copy.
    let (large, mut back) = (device.zeros::<u8>(1 << 30).unwrap(), device.pinned::<u8>(1 << 30).unwrap());
    back.as_mut_slice().unwrap().fill(1);
    stream.download(&large, &mut back).unwrap();
    assert!(back.as_slice().unwrap().iter().all(|byte| *byte == 0));
}

fn a_graph_is_launched_against_a_view_of_cudarcs() {
    let device = own();
    let (stream, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let (x, mut y) = vectors(&device);
    let graph = stream.capture(|stream| accumulate(stream, LONG, 1.0, &x, &mut y, N as u32)).unwrap();
    let (view, other) = (y.as_cuda().unwrap(), other.as_cuda().unwrap());
    for round in 1..=3u8 {
        graph.launch().unwrap();
        let copy = other.clone_dtod(&view).unwrap();
        graph.launch().unwrap();
        assert_eq!(other.clone_dtoh(&copy).unwrap(), [1.0 + 2.0 * f32::from(round); N]);
    }
    assert_eq!(y.download().unwrap(), [8.0; N]);
}

fn halves_on_two_threads() {
    let device = own();
    let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    for round in 0..200 {
        let (x, mut y) = vectors(&device);
        let (low, high) = y.split_at_mut(N / 2).unwrap();
        std::thread::scope(|scope| {
            for (stream, mut half) in [(&one, low), (&other, high)] {
                let x = &x;
                scope.spawn(move || accumulate(stream, 200, 1.0, x, &mut half, N as u32 / 2).unwrap());
            }
        });
        assert_eq!(y.download().unwrap(), [3.0; N], "round {round}");
    }
}

fn a_stream_of_a_thread_is_another_one_on_each() {
    let device = own();
    let stream = device.as_cuda().unwrap().per_thread_stream();
    let (x, mut y) = vectors(&device);
    for _ in 0..2 {
        add(&stream, &x, &mut y);
        std::thread::scope(|scope| drop(scope.spawn(|| add(&stream, &x, &mut y))));
    }
    assert_eq!(y.download().unwrap(), [6.0; N]);
}

fn a_panic_ends_its_capture() {
    let device = own();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|stream| {
            accumulate(stream, 0, 1.0, &x, &mut y, N as u32)?;
            panic!("in the capture")
        })
    }));
    assert!(panicked.is_err());
    add(&stream, &x, &mut y);
    stream.synchronize().unwrap();
    assert_eq!(y.download().unwrap(), [3.0; N]);
}

/// Other threads make the first stream of a context, and wait for the device, while a capture goes on.
fn streams_and_waits_beside_a_capture() {
    let (device, other) = (own(), own());
    let (stream, (x, mut y)) = (device.new_stream().unwrap(), vectors(&device));
    let (z, mut sum) = vectors(&other);
    for round in 1..=3u8 {
        let graph = stream.capture(|stream| {
            std::thread::scope(|scope| {
                let made = scope.spawn(|| add(&other.new_stream().unwrap(), &z, &mut sum));
                let waited = scope.spawn(|| (device.synchronize().is_err(), other.synchronize().is_err()));
                made.join().unwrap();
                assert_eq!(waited.join().unwrap(), (true, true), "waits in a capture are errors");
            });
            add(stream, &x, &mut y);
            Ok(())
        });
        graph.unwrap().launch().unwrap();
        device.synchronize().unwrap();
        assert_eq!(sum.download().unwrap(), [2.0 + f32::from(round); N], "round {round}");
        assert_eq!(y.download().unwrap(), [2.0 + f32::from(round); N], "round {round}");
    }
}
