//! Threads without a context, several devices, captures that begin and end anywhere, and errors that belong to no later call.

use super::order::ordered;
use super::vectors;
use crate::expansion::{saxpy, scale};
use crate::program::kernels::sums;
use crate::stub::Stub;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use ptx_launch::prelude::*;
use ptx_launch::{Error, ErrorKind, Extent, TexelArray, Texture, Timer};
use std::thread;

const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

/// On a thread that never called CUDA.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join()).unwrap()
}

/// Everything that a thread without a context, or one of another device, can do to what others made.
#[test]
fn every_call_binds_its_context() {
    ordered(|_, device| {
        let other = Device::cuda(1).unwrap();
        for is_bound in [false, true] {
            let stream = device.new_stream().unwrap();
            let (x, mut y) = vectors(device, 16);
            let (mut host, image) = (device.pinned::<f32>(16).unwrap(), device.upload(&[1.0f32; 32]).unwrap());
            let (wide, mut out) = vectors(device, 128);
            let texture = Texture::of(image.view(), &[1, 32]).build().unwrap();
            let mut array = TexelArray::<f32>::zeros(device, &Extent::of(&[16])).unwrap();
            let mut graph = stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
            let leave = || is_bound.then(|| other.as_cuda().unwrap().bind_to_thread().unwrap());
            elsewhere(|| {
                leave();
                let launched = &mut graph;
                launched.launch().unwrap();
                stream.download(&y, &mut host).unwrap();
                host.as_slice().unwrap();
                leave();
                saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
                leave();
                y.download().unwrap();
                leave();
                y.write(&[1.0; 16]).unwrap();
                leave();
                y.clear().unwrap();
                leave();
                stream.fill(&mut y, 3.0).unwrap();
                leave();
                stream.copy(&x, &mut y).unwrap();
                leave();
                stream.upload(&host, &mut y).unwrap();
                leave();
                stream.join(&device.stream()).unwrap();
                leave();
                Timer::new().runs(1).measure(&stream, || saxpy(&stream, 1.0, &x, &mut y, 16)).unwrap();
                leave();
                scale(device, wide.tile([4, 32]).unwrap(), out.tile_mut([4, 32]).unwrap()).unwrap();
                leave();
                array.write(&[1.0; 16]).unwrap();
                leave();
                drop(array.surface().unwrap());
                leave();
                array.download().unwrap();
                leave();
                drop(device.pinned::<u8>(1).unwrap());
                leave();
                drop(device.new_stream().unwrap());
                leave();
                assert!(x.as_cuda().is_some());
                leave();
                assert!(y.as_cuda_mut().is_none(), "the graph holds it");
                leave();
                sums::TOTAL.write(&stream, 1).unwrap();
                leave();
                sums::tally(&stream, 0).unwrap();
                leave();
                assert_eq!(sums::TOTAL.read(&stream).unwrap(), 12);
                leave();
                stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
                leave();
                device.synchronize().unwrap();
                stream.synchronize().unwrap();
                saxpy::KERNEL.figures(device).unwrap();
                (&stream).as_stream().properties().unwrap();
            });
            // Each is dropped where nothing, or something else, is current.
            elsewhere(|| (leave(), drop(texture)));
            elsewhere(|| (leave(), drop(array)));
            elsewhere(|| (leave(), drop(graph)));
            elsewhere(|| (leave(), drop(y)));
            elsewhere(|| (leave(), drop(host)));
            elsewhere(|| (leave(), drop(stream)));
            elsewhere(|| (leave(), drop(Buffer::from_cuda(x.into_cuda().unwrap()).unwrap())));
        }
        // The variables forget the streams that used them.
        sums::STEPS.read(device).unwrap();
        assert!(device.take_late_errors().is_empty());
    });
}

#[test]
fn a_drop_leaves_the_current_context() {
    let stub = Stub::lock();
    let (zero, one) = (super::device(), Device::cuda(1).unwrap());
    let (x, y) = vectors(&zero, 16);
    let z = one.zeros::<f32>(16).unwrap();
    drop((x, zero.new_stream().unwrap(), zero.pinned::<f32>(1).unwrap()));
    z.download().unwrap();
    let before = stub.calls("cuCtxSetCurrent");
    drop(y);
    assert_eq!(stub.calls("cuCtxSetCurrent") - before, 2, "there and back");
    drop(z);
    assert_eq!(stub.calls("cuCtxSetCurrent") - before, 2);
}

/// 1 MiB a thousand times is more than the stub has.
#[test]
fn memory_dropped_by_other_threads_is_free() {
    ordered(|stub, device| {
        let before = stub.allocations();
        for _ in 0..1100 {
            let large = device.zeros::<u8>(1 << 20).unwrap();
            elsewhere(move || drop(large));
        }
        assert_eq!(stub.allocations(), before);
    });
}

#[test]
fn a_reference_from_before_a_capture_is_recorded() {
    ordered(|_, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let before = &stream;
        let stale = before.as_stream();
        let graph = stream.capture(|_| saxpy(stale, 1.0, &x, &mut y, 16)).unwrap();
        drop((x, y));
        // The memory would be somebody else's now.
        let others: Vec<_> = (0..8).map(|_| device.upload(&[7.0f32; 16]).unwrap()).collect();
        graph.launch().unwrap();
        others.iter().for_each(|other| assert_eq!(other.download().unwrap(), [7.0; 16]));
    });
}

#[test]
fn a_reference_from_a_capture_runs_after_it() {
    ordered(|_, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let (mut kept, before) = (None, &stream);
        let captured = stream.capture(|_| {
            kept = Some(before.as_stream());
            Ok(())
        });
        drop(captured.unwrap());
        saxpy(kept.unwrap(), 1.0, &x, &mut y, 16).unwrap();
        assert_eq!(y.download().unwrap(), [3.0; 16]);
    });
}

/// A launch of another thread has run, or is in the graph, which then holds its memory.
#[test]
fn launches_race_with_the_beginning_of_a_capture() {
    for _ in 0..100 {
        ordered(|stub, device| {
            let stream = device.new_stream().unwrap();
            let ((x, mut y), (a, mut b)) = (vectors(device, 16), vectors(device, 16));
            stub.jitter(4);
            let graph = thread::scope(|scope| {
                scope.spawn(|| (0..3).for_each(|_| saxpy(&stream, 1.0, &a, &mut b, 16).unwrap()));
                stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap()
            });
            stub.jitter(0);
            drop((a, b));
            graph.launch().unwrap();
        });
    }
}

#[test]
fn a_graph_of_cudarcs_holds_our_memory() {
    ordered(|stub, device| {
        let (stream, allocations) = (device.new_stream().unwrap(), stub.allocations());
        let (x, mut y) = vectors(device, 16);
        let queue = stream.as_cuda().unwrap();
        queue.begin_capture(THREAD_LOCAL).unwrap();
        assert!((&stream).as_stream().is_captured_elsewhere() && !(&stream).as_stream().is_captured());
        let waits = stub.calls("cuStreamWaitEvent");
        (0..3).for_each(|_| saxpy(&stream, 1.0, &x, &mut y, 16).unwrap());
        assert_eq!(stub.calls("cuStreamWaitEvent"), waits);
        assert_eq!(stub.calls("cuGraphRetainUserObject"), 2, "one for each buffer");
        assert_eq!(sums::TOTAL.read(&stream).unwrap_err().kind(), ErrorKind::Unsupported);
        let graph = queue.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
        drop((x, y));
        assert_eq!(stub.allocations(), allocations + 2);
        device.synchronize().unwrap();
        graph.launch().unwrap();
        drop(graph);
        device.synchronize().unwrap();
        assert_eq!(stub.allocations(), allocations);
    });
}

/// A graph that is launched on its stream while the stream is captured is a part of the new one.
#[test]
fn a_graph_in_a_capture() {
    ordered(|_, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let inner = stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
        let outer = stream.capture(|_| (0..2).try_for_each(|_| inner.launch())).unwrap();
        drop(inner);
        outer.launch().unwrap();
        assert_eq!(y.download().unwrap(), [4.0; 16]);
        drop((x, y));
        outer.launch().unwrap();
    });
}

#[test]
fn a_stream_of_an_unknown_state_is_not_used() {
    ordered(|stub, device| {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = vectors(device, 16);
        let launches = stub.calls("cuLaunchKernel");
        stub.refuse("cuStreamIsCapturing", 999);
        assert_eq!(saxpy(&stream, 1.0, &x, &mut y, 16).unwrap_err().driver_code(), Some(999));
        stub.refuse("cuStreamIsCapturing", 999);
        assert!((&stream).as_stream().is_captured(), "nothing may be allocated or waited for");
        assert_eq!(stub.calls("cuLaunchKernel"), launches);
        saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
    });
}

/// A buffer is dropped while cudarc captures the stream that frees it.
#[test]
fn memory_of_a_captured_stream_is_freed_after_the_capture() {
    ordered(|stub, device| {
        let queue = device.new_stream().unwrap().as_cuda().unwrap().clone();
        let buffer = Buffer::from_cuda(queue.clone_htod(&[1.0f32; 16]).unwrap()).unwrap();
        let before = stub.allocations();
        queue.begin_capture(THREAD_LOCAL).unwrap();
        elsewhere(|| drop(buffer));
        assert_eq!(stub.allocations(), before, "the capture goes on");
        drop(queue.end_capture(CUgraphInstantiate_flags(0)).unwrap());
        device.synchronize().unwrap();
        assert_eq!(stub.allocations(), before - 1);
        assert!(device.take_late_errors().is_empty());
    });
}

#[test]
fn peer_copies_run_on_the_stream_that_they_are_given() {
    ordered(|stub, device| {
        let other = Device::cuda(1).unwrap();
        let (mut x, mut y) = vectors(device, 16);
        let (mut z, sum) = (other.upload(&[5.0f32; 16]).unwrap(), other.upload(&[1.0f32; 16]).unwrap());
        // In both directions, onto default streams and others, and either side is used at once.
        for (ours, theirs) in [
            (device.stream(), other.stream()),
            (device.new_stream().unwrap(), other.new_stream().unwrap()),
            (device.stream(), other.new_stream().unwrap()),
            (device.new_stream().unwrap(), other.stream()),
        ] {
            theirs.copy(&x, &mut z).unwrap();
            x.write(&[2.0; 16]).unwrap();
            saxpy(&theirs, 1.0, &sum, &mut z, 16).unwrap();
            ours.copy(&z, &mut y).unwrap();
            z.clear().unwrap();
            saxpy(&ours, 1.0, &x, &mut y, 16).unwrap();
            assert_eq!(z.download().unwrap(), [0.0; 16]);
            ours.copy(&z, &mut y.slice_mut(..16).unwrap()).unwrap();
        }
        let source = other.upload(&[9.0f32; 16]).unwrap();
        device.stream().copy(&source, &mut y).unwrap();
        drop(source);
        assert_eq!(y.download().unwrap(), [9.0; 16]);
        let stream = device.new_stream().unwrap();
        let events = stub.calls("cuEventRecord");
        let refused = stream.capture(|stream| stream.copy(&z, &mut y)).unwrap_err();
        assert_eq!((refused.kind(), stub.calls("cuEventRecord")), (ErrorKind::Unsupported, events + 1));
        drop((z, sum));
        other.synchronize().unwrap();
    });
}

/// Each of the calls that a drop makes fails once; no call that follows reports it.
#[test]
fn errors_of_drops_are_nobody_elses() {
    let stub = Stub::lock();
    let device = super::device();
    let calls = ["cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync", "cuMemFreeHost", "cuEventDestroy_v2"];
    for call in calls.into_iter().chain(["cuStreamDestroy_v2", "cuEventSynchronize", "cuGraphDestroy"]) {
        let (stream, (x, mut y)) = (device.new_stream().unwrap(), vectors(&device, 16));
        let mut host = device.pinned::<f32>(16).unwrap();
        saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
        stream.download(&y, &mut host).unwrap();
        let graph = stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
        stub.refuse(call, 999);
        drop((host, graph, stream, x, y));
        stub.refuse(call, 0);
        let mut z = device.upload(&[1.0f32; 16]).unwrap();
        z.write(&[2.0; 16]).unwrap();
        assert_eq!(z.download().unwrap(), [2.0; 16], "{call}");
        device.synchronize().unwrap();
        drop(device.new_stream().unwrap());
        let late = device.take_late_errors();
        assert!(late.iter().all(|error| error.driver_code() == Some(999)), "{call}: {late:?}");
    }
    let codes = |late: Vec<Error>| late.iter().filter_map(Error::driver_code).collect::<Vec<_>>();
    // What cudarc parks for a later call, none of ours returns.
    device
        .as_cuda()
        .unwrap()
        .record_err(Err::<(), _>(cudarc::driver::DriverError(cudarc::driver::sys::CUresult::CUDA_ERROR_INVALID_VALUE)));
    let (x, mut y) = vectors(&device, 16);
    saxpy(&device, 1.0, &x, &mut y, 16).unwrap();
    assert_eq!(codes(device.take_late_errors()), [1]);
}
