//! Programs of the safe API that ended with uses of memory without an order. The stub counts those.

use super::{device, random, vectors};
use crate::expansion::saxpy;
use crate::program::{self, Ground};
use crate::stub::Stub;
use cudarc::driver::CudaContext;
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Texture};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, after which no race may have happened, and nothing may be left.
pub(crate) fn ordered(work: impl FnOnce(&Stub, &Device)) {
    let stub = Stub::lock();
    let device = device();
    // Loads the kernel.
    let (x, mut y) = vectors(&device, 16);
    saxpy(&device, 1.0, &x, &mut y, 16).unwrap();
    drop((x, y));
    device.synchronize().unwrap();
    let counts = || [stub.races(), stub.misuses(), stub.strays(), stub.alive()];
    let before = counts();
    work(&stub, &device);
    assert_eq!(counts(), before, "races, misuses, strays, what is alive");
}

#[test]
fn pinned_memory_waits_for_the_default_stream() {
    ordered(|stub, device| {
        let (stream, x) = (device.stream(), device.upload(&[1.0f32; 16]).unwrap());
        let mut back = device.pinned::<f32>(16).unwrap();
        stream.download(&x, &mut back).unwrap();
        stub.host(back.as_slice().unwrap().as_ptr().cast(), false);
    });
    ordered(|stub, device| {
        let (stream, mut x) = (device.stream(), device.zeros::<f32>(16).unwrap());
        let mut host = device.pinned::<f32>(16).unwrap();
        stream.upload(&host, &mut x).unwrap();
        stub.host(host.as_mut_slice().unwrap().as_ptr().cast(), true);
        stream.upload(&host, &mut x).unwrap();
        drop(host);
    });
}

#[test]
fn pinned_memory_waits_for_all_streams_that_read_it() {
    ordered(|stub, device| {
        let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
        let mut host = device.pinned::<f32>(16).unwrap();
        let mut buffers = [device.zeros::<f32>(16).unwrap(), device.zeros::<f32>(16).unwrap()];
        streams.iter().zip(&mut buffers).for_each(|(stream, x)| stream.upload(&host, x).unwrap());
        drop(streams);
        stub.host(host.as_slice().unwrap().as_ptr().cast(), false);
        stub.host(host.as_mut_slice().unwrap().as_ptr().cast(), true);
    });
}

/// Uses that follow the launch on a stream that is gone.
fn after_the_stream(launch: impl Fn(&Device, &Buffer<f32>, &mut Buffer<f32>)) {
    ordered(|_, device| {
        let (x, mut y) = vectors(device, 16);
        launch(device, &x, &mut y);
        y.download().unwrap();
    });
    ordered(|_, device| {
        let (x, mut y) = vectors(device, 16);
        launch(device, &x, &mut y);
        drop(x);
        drop(y);
    });
    ordered(|_, device| {
        let (mut x, mut y) = vectors(device, 16);
        launch(device, &x, &mut y);
        x.clear().unwrap();
        saxpy(device, 1.0, &x, &mut y, 16).unwrap();
    });
    ordered(|_, device| {
        let (x, mut y) = vectors(device, 16);
        launch(device, &x, &mut y);
        let theirs = device.stream().as_cuda().unwrap().clone_dtod(&y.as_cuda().unwrap()).unwrap();
        drop((theirs, y.into_cuda().unwrap()));
    });
}

#[test]
fn a_dropped_streams_work_is_waited_for() {
    after_the_stream(|device, x, y| saxpy(&device.new_stream().unwrap(), 1.0, x, y, 16).unwrap());
}

#[test]
fn a_dropped_stream_of_another_device_of_the_same_gpu() {
    after_the_stream(|_, x, y| {
        let other = Device::from_cuda(&CudaContext::new(0).unwrap()).unwrap();
        saxpy(&other.new_stream().unwrap(), 1.0, x, &mut *y, 16).unwrap();
        saxpy(&other, 1.0, x, y, 16).unwrap();
    });
}

#[test]
fn a_dropped_graph_and_its_stream() {
    after_the_stream(|device, x, y| {
        let stream = device.new_stream().unwrap();
        let graph = stream.capture(|stream| saxpy(stream, 1.0, x, &mut *y, 16)).unwrap();
        drop(stream);
        graph.launch().unwrap();
    });
}

#[test]
fn a_dropped_stream_that_used_views() {
    after_the_stream(|device, x, y| {
        let stream = device.new_stream().unwrap();
        saxpy(&stream, 1.0, &x.slice(4..).unwrap(), &mut y.slice_mut(8..).unwrap(), 8).unwrap();
        stream.copy(&x.slice(..4).unwrap(), &mut y.slice_mut(..4).unwrap()).unwrap();
    });
}

#[test]
fn a_dropped_stream_of_a_thread() {
    after_the_stream(|device, x, y| {
        std::thread::scope(|scope| {
            scope.spawn(|| saxpy(&device.new_stream().unwrap(), 1.0, x, y, 16).unwrap());
        });
    });
}

#[test]
fn dropped_streams_that_were_joined() {
    after_the_stream(|device, x, y| {
        let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        saxpy(&one, 1.0, x, &mut *y, 16).unwrap();
        other.join(&one).unwrap();
        saxpy(&other, 1.0, x, y, 16).unwrap();
    });
}

#[test]
fn a_stream_of_a_thread_is_another_one_on_each() {
    after_the_stream(|device, x, y| {
        let stream = device.as_cuda().unwrap().per_thread_stream();
        saxpy(&stream, 1.0, x, &mut *y, 16).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| saxpy(&stream, 1.0, x, &mut *y, 16).unwrap());
        });
        saxpy(&stream, 1.0, x, y, 16).unwrap();
    });
}

/// Both halves are bound before work on either is submitted, as it happens with threads.
#[test]
fn halves_that_are_bound_at_once() {
    ordered(|_, device| {
        let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let (x, mut y) = vectors(device, 16);
        for order in [[0, 1], [1, 0]] {
            let (mut low, mut high) = y.split_at_mut(8).unwrap();
            let (x, mut low, mut high, streams) = (&x, &mut low, &mut high, (&one, &other));
            let streams = (streams.0.as_stream(), streams.1.as_stream());
            let source = ReadSlice::bind(&x, streams.0).unwrap();
            let beside = ReadSlice::bind(&x, streams.1).unwrap();
            let low = WriteSlice::bind(&mut low, streams.0).unwrap();
            let high = WriteSlice::bind(&mut high, streams.1).unwrap();
            for half in order {
                let (stream, x, y) = [(&one, &source, &low), (&other, &beside, &high)][half];
                let args = [rt::Arg::new(&1.0f32), x.arg(), y.arg(), rt::Arg::new(&8u32)];
                // SAFETY: the arguments are those of the kernel, and the memory is bound.
                unsafe { rt::launch(&saxpy::KERNEL, stream.as_stream(), &Config::grid(1).block(256), &args) }.unwrap();
            }
            drop((source, beside, high, low));
            assert_eq!(y.download().unwrap().len(), 16);
        }
    });
}

#[test]
fn halves_on_two_threads() {
    for seed in 0..200 {
        ordered(|stub, device| {
            let (one, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
            let (x, mut y) = vectors(device, 16);
            let (low, high) = y.split_at_mut(8).unwrap();
            stub.jitter(4);
            std::thread::scope(|scope| {
                for (stream, mut half) in [(&one, low), (&other, high)] {
                    let x = &x;
                    scope.spawn(move || saxpy(stream, 1.0, x, &mut half, 8).unwrap());
                }
            });
            stub.jitter(0);
            match seed % 2 {
                0 => drop(y.download().unwrap()),
                _ => drop(y),
            }
        });
    }
}

#[test]
fn a_graph_is_launched_against_a_view_of_cudarcs() {
    ordered(|_, device| {
        let (stream, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let (x, mut y) = vectors(device, 16);
        let graph = stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
        let (view, other) = (y.as_cuda().unwrap(), other.as_cuda().unwrap());
        for _ in 0..3 {
            let copy = other.clone_dtod(&view).unwrap();
            graph.launch().unwrap();
            drop(copy);
        }
        y.download().unwrap();
    });
}

#[test]
fn a_panic_ends_its_capture() {
    ordered(|stub, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let alive = stub.alive();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            stream.capture(|stream| {
                saxpy(stream, 1.0, &x, &mut y, 16)?;
                panic!("in the capture")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(stub.alive(), alive, "the graph is gone");
        saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(y.download().unwrap(), [3.0; 16]);
        stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap().launch().unwrap();
    });
}

/// The first stream of another context, while a capture goes on that a wait for the whole GPU would break.
#[test]
fn a_stream_is_made_beside_a_capture() {
    ordered(|_, device| {
        let (stream, other) = (device.new_stream().unwrap(), Device::from_cuda(&CudaContext::new(0).unwrap()).unwrap());
        let (x, mut y) = vectors(device, 16);
        let (mut slice, theirs) = (other.zeros::<f32>(16).unwrap().into_cuda().unwrap(), vectors(&other, 16));
        saxpy(&other, 1.0, &theirs.0, &mut slice, 16).unwrap();
        let graph = stream.capture(|stream| {
            let made = std::thread::scope(|scope| scope.spawn(|| other.new_stream()).join()).unwrap()?;
            saxpy(&made, 1.0, &theirs.0, &mut slice, 16)?;
            saxpy(stream, 1.0, &x, &mut y, 16)
        });
        graph.unwrap().launch().unwrap();
        assert_eq!(y.download().unwrap(), [3.0; 16]);
    });
}

/// A wait for the whole device would break the capture that goes on: it is an error without a call of the driver.
#[test]
fn a_wait_for_the_device_leaves_captures_alone() {
    ordered(|stub, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let before = stub.calls("cuCtxSynchronize");
        let graph = stream.capture(|stream| {
            let waited = std::thread::scope(|scope| scope.spawn(|| device.synchronize()).join()).unwrap();
            for waited in [waited, device.synchronize()] {
                let text = waited.unwrap_err().to_string();
                assert!(text.contains("while a stream of this process is captured"), "{text}");
            }
            saxpy(stream, 1.0, &x, &mut y, 16)
        });
        assert_eq!(stub.calls("cuCtxSynchronize"), before);
        graph.unwrap().launch().unwrap();
        device.synchronize().unwrap();
        assert_eq!(y.download().unwrap(), [3.0; 16]);
    });
}

/// Before a texture and an array go, the whole context is waited for: when the capture has ended.
#[test]
fn textures_go_after_the_captures() {
    ordered(|stub, device| {
        let stream = device.new_stream().unwrap();
        let (texels, other) = (device.upload(&[1.0f32; 32]).unwrap(), device.upload(&[2.0f32; 32]).unwrap());
        let images = [&texels, &other].map(|texels| Texture::of(texels.view(), &[1, 32]).build().unwrap());
        let (x, mut y) = vectors(device, 16);
        let before = stub.calls("cuTexObjectDestroy");
        let graph = stream.capture(|stream| {
            let [one, other] = images;
            std::thread::scope(|scope| scope.spawn(|| drop(one)).join()).unwrap();
            drop(other);
            assert_eq!(stub.calls("cuTexObjectDestroy"), before, "the capture goes on");
            saxpy(stream, 1.0, &x, &mut y, 16)
        });
        assert_eq!(stub.calls("cuTexObjectDestroy"), before + 2);
        graph.unwrap().launch().unwrap();
        assert_eq!(y.download().unwrap(), [3.0; 16]);
    });
}

/// Recorded work of a capture has no order with running work, and nothing outside may wait for an event of it.
#[test]
fn a_buffer_is_read_in_a_capture_of_its_last_stream() {
    ordered(|_, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
        let captured = stream.capture(|_| {
            assert_eq!(y.download()?, [3.0; 16]);
            Ok(())
        });
        drop(captured.unwrap());
    });
}

/// A capture records an event at its start, and other streams wait for the earlier work of the captured stream by it.
#[test]
fn a_stream_waits_for_what_a_captured_one_did_before() {
    let (stub, context) = (Stub::lock(), CudaContext::new(0).unwrap());
    // SAFETY: cudarc's own slices are not used.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cuda(&context).unwrap();
    let [captured, other] = [0; 2].map(|_| device.new_stream().unwrap());
    let (x, mut y) = vectors(&device, 16);
    saxpy(&captured, 1.0, &x, &mut y, 16).unwrap();
    let before = (stub.races(), stub.misuses());
    let graph = captured.capture(|_| saxpy(&other, 1.0, &x, &mut y, 16));
    graph.unwrap();
    assert_eq!(y.download().unwrap(), [4.0; 16]);
    assert_eq!((stub.races(), stub.misuses()), before, "races, misuses");
}

#[test]
fn memory_that_cannot_be_put_in_order_is_not_freed() {
    let stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device, 16);
    saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
    let before = (stub.allocations(), stub.races());
    stub.refuse("cuStreamWaitEvent", 999);
    drop(y);
    assert_eq!((stub.allocations(), stub.races()), (before.0 - 1, before.1), "the host waits instead");
    device.synchronize().unwrap();
    let late = device.take_late_errors();
    assert_eq!(late.iter().map(Error::driver_code).collect::<Vec<_>>(), [Some(999)], "and no other call has the error");
    assert!(device.take_late_errors().is_empty());
    let mut y = device.zeros::<f32>(16).unwrap();
    saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
    let before = stub.allocations();
    stub.refuse("cuStreamWaitEvent", 999);
    stub.refuse("cuCtxSynchronize", 999);
    drop(y);
    assert_eq!(stub.allocations(), before);
    drop(device.zeros::<f32>(16).unwrap());
    assert_eq!(stub.allocations(), before - 1, "it is freed when the driver is well again");
    assert_eq!(device.take_late_errors().len(), 1);
}

#[test]
fn streams_that_come_and_go_are_forgotten() {
    ordered(|stub, device| {
        let (x, alive) = (device.upload(&[1.0f32; 16]).unwrap(), stub.alive());
        for _ in 0..1000 {
            let (stream, mut y) = (device.new_stream().unwrap(), device.zeros::<f32>(16).unwrap());
            saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
        }
        assert!(stub.alive() - alive < 100, "{} streams and events", stub.alive() - alive);
    });
}

/// Random programs: `PTX_PROGRAM_SIZE` operations in all, from the seed `PTX_PROGRAM_SEED` on.
#[test]
fn whatever_programs_do_nothing_races() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (size, first) = (number("PTX_PROGRAM_SIZE").unwrap_or(40_000), number("PTX_PROGRAM_SEED").unwrap_or(1));
    const OPERATIONS: u64 = 40;
    let stub = Stub::lock();
    let devices = [device(), device()];
    let look = |at: *const u8, writes: bool| stub.host(at, writes);
    let peer = Some(Device::cuda(1).unwrap());
    let ground = Ground { devices, peer, pause: 0, look: &look, stub: true };
    let counts = || [stub.races(), stub.misuses(), stub.strays(), stub.alive()];
    let before = counts();
    program::run(&ground, 0, 2000);
    assert_eq!(counts(), before, "races, misuses, strays, what is alive, after a long program");
    let synchronize = || ground.devices.iter().chain(&ground.peer).for_each(|device| device.synchronize().unwrap());
    synchronize();
    for seed in first..first + size.div_ceil(OPERATIONS) {
        stub.jitter(random(&mut seed.wrapping_mul(77), 3) as u64);
        let run = catch_unwind(AssertUnwindSafe(|| program::run(&ground, seed, OPERATIONS as usize)));
        stub.jitter(0);
        assert!(run.is_ok(), "the program of seed {seed} failed");
        assert_eq!(counts(), before, "races, misuses, strays, what is alive, after the program of seed {seed}");
        synchronize();
    }
}
