//! One event for all memory of a launch, which changes no order: the stub counts the events, and uses without an order.

use super::order::ordered;
use super::{device, vectors};
use crate::expansion::saxpy;
use crate::stub::Stub;
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;

/// Records of events by `work`.
fn records(stub: &Stub, work: impl FnOnce()) -> u64 {
    let before = stub.calls("cuEventRecord");
    work();
    stub.calls("cuEventRecord") - before
}

#[test]
fn a_launch_and_a_copy_record_one_event() {
    ordered(|stub, device| {
        let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let (x, mut y) = vectors(device, 16);
        let mut back = device.pinned::<f32>(16).unwrap();
        for stream in [&one, &two, &one] {
            saxpy(stream, 1.0, &x, &mut y, 16).unwrap();
            assert_eq!(records(stub, || saxpy(stream, 1.0, &x, &mut y, 16).unwrap()), 1);
            assert_eq!(records(stub, || stream.copy(&x, &mut y).unwrap()), 1);
            assert_eq!(records(stub, || stream.download(&y, &mut back).unwrap()), 1);
            assert_eq!(records(stub, || stream.upload(&back, &mut y).unwrap()), 1);
        }
        let graph = one.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
        assert_eq!(records(stub, || graph.launch().unwrap()), 1);
    });
}

#[test]
fn events_are_used_again() {
    ordered(|stub, device| {
        let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let (x, mut ys) = (device.upload(&[1.0f32; 16]).unwrap(), [0; 8].map(|_| device.zeros::<f32>(16).unwrap()));
        let mut round = || {
            for (at, y) in ys.iter_mut().enumerate() {
                saxpy([&one, &two][at % 2], 1.0, &x, y, 16).unwrap();
            }
        };
        (0..3).for_each(|_| round());
        let alive = stub.alive();
        (0..20).for_each(|_| round());
        assert_eq!(stub.alive(), alive);
    });
}

/// Work that another stream waits for is not waited for later, although it shares memory with later work.
#[test]
fn nothing_waits_for_later_launches() {
    let stub = Stub::lock();
    let device = device();
    let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let (x, mut y) = vectors(&device, 16);
    let (mut z, mut back) = (device.zeros::<f32>(16).unwrap(), device.pinned::<f32>(16).unwrap());
    for _ in 0..3 {
        saxpy(&one, 1.0, &x, &mut y, 16).unwrap();
        saxpy(&one, 1.0, &x, &mut z, 16).unwrap();
        two.download(&y, &mut back).unwrap();
        back.as_slice().unwrap();
        let seen = |memory: &Buffer<f32>| {
            let races = stub.races();
            stub.host(memory.address() as *const u8, false);
            stub.races() == races
        };
        assert!(seen(&y), "the host has waited for the download");
        assert!(!seen(&z), "and not for the launch behind that");
    }
}

/// Two launches that read the same buffer are bound before either is submitted, as it happens with threads.
#[test]
fn launches_that_are_bound_at_once() {
    for order in [[0, 1], [1, 0]] {
        ordered(|_, device| {
            let (stream, other) = (&device.new_stream().unwrap(), device.new_stream().unwrap());
            let (mut x, mut ys) = (device.upload(&[1.0f32; 16]).unwrap(), [16; 2].map(|n| vectors(device, n).1));
            let at = stream.as_stream();
            let submissions = [rt::Submission::on(at), rt::Submission::on(at)];
            let source = &x;
            let mut results = ys.each_mut();
            let bind = |(y, submission)| {
                let submission: &rt::Submission<'_> = submission;
                let x = ReadSlice::bind(&source, submission.stream()).unwrap();
                Some((x, WriteSlice::bind(y, submission.stream()).unwrap()))
            };
            let mut bound: Vec<_> = results.iter_mut().zip(&submissions).map(bind).collect();
            for launch in order {
                let (x, y) = bound[launch].take().unwrap();
                let args = [rt::Arg::new(&1.0f32), x.arg(), y.arg(), rt::Arg::new(&16u32)];
                // SAFETY: the arguments are those of the kernel, and the memory is bound.
                unsafe { rt::launch(&saxpy::KERNEL, at, &Config::grid(1).block(256), &args) }.unwrap();
            }
            drop(bound);
            other.fill(&mut x, 2.0).unwrap();
            ys.iter_mut().for_each(|y| other.fill(y, 2.0).unwrap());
        });
    }
}

/// Memory that is bound when the work of a submission has been recorded gets an event of its own.
#[test]
fn a_submission_is_over_when_its_event_is_recorded() {
    ordered(|_, device| {
        let (stream, other) = (&device.new_stream().unwrap(), device.new_stream().unwrap());
        let (x, mut y) = vectors(device, 16);
        let submission = rt::Submission::on(stream.as_stream());
        for _ in 0..2 {
            let mut y = &mut y;
            let bound = WriteSlice::bind(&mut y, submission.stream()).unwrap();
            let source = &x;
            let read = ReadSlice::bind(&source, submission.stream()).unwrap();
            let args = [rt::Arg::new(&1.0f32), read.arg(), bound.arg(), rt::Arg::new(&16u32)];
            // SAFETY: the arguments are those of the kernel, and the memory is bound.
            unsafe { rt::launch(&saxpy::KERNEL, stream.as_stream(), &Config::grid(1).block(256), &args) }.unwrap();
        }
        other.fill(&mut y, 1.0).unwrap();
    });
}
