//! Everything above the CUDA driver, on a stub of the driver: numbers, number of driver calls, memory, errors.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, reason = "tests")]

#[path = "stub/contexts.rs"]
mod contexts;
mod expansion;
#[path = "stub/foreign.rs"]
mod foreign;
#[path = "stub/order.rs"]
mod order;
mod program;
#[path = "stub/refusals.rs"]
mod refusals;
mod stub;
#[path = "stub/submissions.rs"]
mod submissions;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use expansion::{Shape, saxpy, scale, tiles};
use program::kernels::sums;
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;
use ptx_launch::{CacheMode, Error, ErrorKind, JitOptions, Optimization, Promotion, Source, Spread, Swizzle, Texture};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use stub::Stub;

/// Counts the allocations of each thread.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// A device that is not shared with the other tests: on a context of its own.
fn device() -> Device {
    Device::from_cuda(&CudaContext::new(0).unwrap()).unwrap()
}

fn vectors(device: &Device, n: usize) -> (Buffer<f32>, Buffer<f32>) {
    (device.upload(&vec![1.0; n]).unwrap(), device.upload(&vec![2.0; n]).unwrap())
}

/// A kernel of one launch, from PTX text.
fn kernel(entry: &'static str, arch: &'static str, ptx: &'static str, lines: rt::LineMap<'static>) -> &'static Kernel {
    let variants = Box::leak(Box::new([rt::Variant::new(arch, ptx, lines)]));
    let module = Box::leak(Box::new(rt::Module::new("test", variants)));
    Box::leak(Box::new(Kernel::new(module, entry, &[])))
}

fn launch(kernel: &Kernel, device: &Device, config: Config) -> Result<(), Error> {
    // SAFETY: the stub runs nothing, and the kernel takes nothing.
    unsafe { rt::launch(kernel, device.as_stream(), &config, &[]) }
}

#[test]
fn the_numbers_are_right() {
    let stub = Stub::lock();
    let device = Device::cuda(0).unwrap();
    assert_eq!((device.name(), device.is_cuda()), ("Stub GPU", true));
    let (x, mut y) = vectors(&device, 1000);
    saxpy(&device.stream(), 3.0, &x, &mut y, 999).unwrap();
    let y = y.download().unwrap();
    assert_eq!((y[0], y[998], y[999]), (5.0, 5.0, 2.0));
    assert_eq!(stub.launch(0..9), [4, 1, 1, 256, 1, 1, 0, 0, 0]);
}

#[test]
fn views_and_the_users_own_slices() {
    let _stub = Stub::lock();
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let x = stream.clone_htod(&[1.0f32; 8]).unwrap();
    let mut y = stream.alloc_zeros::<f32>(8).unwrap();
    saxpy(&stream, 2.0, &x, &mut y, 8).unwrap();
    saxpy(&stream, 2.0, &x.slice(4..), &mut y.slice_mut(6..), 2).unwrap();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0]);
    let device = Device::from_cuda(&context).unwrap();
    let mut z = device.zeros::<f32>(8).unwrap();
    saxpy(&stream, 1.0, &x, &mut z.slice_mut(2..4).unwrap(), 2).unwrap();
    assert_eq!(z.as_cuda().unwrap().len(), 8);
    assert_eq!(z.download().unwrap(), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn halves_are_written_by_one_kernel_and_by_two() {
    let stub = Stub::lock();
    let (device, races) = (device(), stub.races());
    let mut memory = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let (low, mut high) = memory.split_at_mut(2).unwrap();
    assert_eq!((low.len(), high.len(), high.view().download().unwrap()), (2, 3, vec![3.0, 4.0, 5.0]));
    saxpy(&device, 2.0, &low.view(), &mut high.slice_mut(..2).unwrap(), 2).unwrap();
    let (mut third, mut last) = high.split_at_mut(1).unwrap();
    third.write(&[7.0]).unwrap();
    let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
    saxpy(&streams[0], 0.0, &low.view(), &mut third, 1).unwrap();
    saxpy(&streams[1], 0.0, &low.view(), &mut last, 1).unwrap();
    assert_eq!(stub.races(), races, "the order of uses is the whole buffer's");
    assert!(last.into_cuda().is_none(), "cudarc splits its own views");
    let error = memory.split_at_mut(6).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Condition);
    assert!(error.to_string().starts_with("the elements ..6 are asked for"), "{error}");
    let (a, b) = memory.view().split_at(1).unwrap();
    assert_eq!((a.len(), b.len()), (1, 4));
}

#[test]
fn one_launch_is_two_driver_calls_and_no_allocation() {
    let stub = Stub::lock();
    let device = device();
    let (x, mut y) = vectors(&device, 256);
    saxpy(&device, 1.0, &x, &mut y, 256).unwrap();
    let (all, launches) = (stub.calls(""), stub.calls("cuLaunchKernel"));
    let allocated = allocations(|| saxpy(&device, 1.0, &x, &mut y, 256).unwrap());
    assert_eq!(allocated, 0);
    assert_eq!(stub.calls("cuLaunchKernel") - launches, 1);
    // The other one reads which context is current.
    assert_eq!(stub.calls("") - all, 2);
}

/// A stream that can be captured: its state is one more call, and the binding before that another one.
#[test]
fn a_launch_on_another_stream_reads_its_state_once() {
    let stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device, 256);
    saxpy(&stream, 1.0, &x, &mut y, 256).unwrap();
    let names = ["cuStreamIsCapturing", "cuLaunchKernel", "cuEventRecord", "cuCtxGetCurrent", ""];
    let before = names.map(|name| stub.calls(name));
    assert_eq!(allocations(|| saxpy(&stream, 1.0, &x, &mut y, 256).unwrap()), 0);
    let after = names.map(|name| stub.calls(name));
    assert_eq!([0, 1, 2, 3, 4].map(|at| after[at] - before[at]), [1, 1, 1, 3, 6]);
}

#[test]
fn managed_streams_cost_no_more_than_in_cudarc() {
    let stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device, 256);
    saxpy(&stream, 1.0, &x, &mut y, 256).unwrap();
    let events = || stub.calls("cuStreamWaitEvent") + stub.calls("cuEventRecord");

    let before = events();
    assert_eq!(allocations(|| saxpy(&stream, 1.0, &x, &mut y, 256).unwrap()), 0);
    let ours = events() - before;

    let theirs = stream.as_cuda().unwrap();
    let function = theirs.context().load_module(saxpy::PTX.into()).unwrap().load_function("saxpy").unwrap();
    let (a, mut b) = (theirs.alloc_zeros::<f32>(256).unwrap(), theirs.alloc_zeros::<f32>(256).unwrap());
    let before = events();
    let mut builder = theirs.launch_builder(&function);
    builder.arg(&1.0f32).arg(&a).arg(&mut b).arg(&256u32);
    // SAFETY: the arguments are those of the kernel.
    unsafe { builder.launch(LaunchConfig::for_num_elems(256)) }.unwrap();
    assert!(ours <= events() - before, "{ours} events");
}

/// Waits and records of one launch, on a stream that has used both buffers before.
#[test]
fn a_stream_does_not_wait_for_itself() {
    let stub = Stub::lock();
    let device = device();
    let (one, two, races) = (device.new_stream().unwrap(), device.new_stream().unwrap(), stub.races());
    let (x, mut y) = vectors(&device, 256);
    let mut events = |stream: &Stream| {
        let calls = || [stub.calls("cuStreamWaitEvent"), stub.calls("cuEventRecord")];
        let before = calls();
        saxpy(stream, 1.0, &x, &mut y, 256).unwrap();
        [calls()[0] - before[0], calls()[1] - before[1]]
    };
    assert_eq!(events(&one), [2, 1], "for the two uploads");
    assert_eq!(events(&one), [0, 1]);
    assert_eq!(events(&two), [2, 1], "for the upload of `x` and for the launch");
    assert_eq!(events(&two), [0, 1]);
    assert_eq!(events(&one)[1], 1);
    drop((x, y));
    assert_eq!(stub.races(), races);
}

/// A small generator of numbers below `n`.
fn random(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % n
}

/// The stub records what comes before what, and counts uses of memory that nothing orders.
#[test]
fn whatever_streams_do_nothing_races() {
    let stub = Stub::lock();
    let device = device();
    let streams: Vec<Stream> = (0..3).map(|_| device.new_stream().unwrap()).chain([device.stream()]).collect();
    let (mut seed, races) = (1, stub.races());
    for _ in 0..200 {
        let (mut buffers, mut spare) = (Vec::new(), device.zeros::<f32>(16).unwrap());
        buffers.resize_with(3, || device.zeros::<f32>(16).unwrap());
        for _ in 0..random(&mut seed, 20) {
            let (stream, at) = (&streams[random(&mut seed, 4)], random(&mut seed, 3));
            std::mem::swap(&mut spare, &mut buffers[at]);
            let other = &buffers[(at + 1) % 3];
            match random(&mut seed, 8) {
                0 => spare = Buffer::from_cuda(spare.into_cuda().unwrap()).unwrap(),
                1 => stream.fill(&mut spare, 1.0).unwrap(),
                2 => stream.copy(other, &mut spare).unwrap(),
                3 => saxpy(stream, 1.0, &other.as_cuda().unwrap(), &mut spare, 16).unwrap(),
                4 => saxpy(stream, 1.0, other, &mut spare.as_cuda_mut().unwrap(), 16).unwrap(),
                5 => drop(other.download().unwrap()),
                _ => saxpy(stream, 1.0, other, &mut spare, 16).unwrap(),
            }
        }
    }
    assert_eq!(stub.races() - races, 0);
}

#[test]
fn copies_and_fills() {
    let stub = Stub::lock();
    let before = (stub.allocations(), stub.races());
    #[cfg(feature = "cpu")]
    let devices = [device(), Device::cpu()];
    #[cfg(not(feature = "cpu"))]
    let devices = [device()];
    for device in devices {
        let stream = device.new_stream().unwrap();
        let (x, mut y) = (device.upload(&[1u32, 2, 3, 4]).unwrap(), device.zeros::<u32>(6).unwrap());
        stream.copy(&x.slice(1..).unwrap(), &mut y.slice_mut(2..5).unwrap()).unwrap();
        stream.fill(&mut y.slice_mut(..1).unwrap(), 7).unwrap();
        assert_eq!(y.download().unwrap(), [7, 0, 2, 3, 4, 0]);
        assert_eq!(stream.copy(&x, &mut y).unwrap_err().kind(), ErrorKind::Condition);

        let mut wide = device.zeros::<[u32; 3]>(4).unwrap();
        stream.fill(&mut wide, [1, 2, 3]).unwrap();
        assert_eq!(wide.download().unwrap(), [[1, 2, 3]; 4]);
        let mut bytes = device.zeros::<[u8; 3]>(4).unwrap();
        stream.fill(&mut bytes, [1, 2, 3]).unwrap();
        assert_eq!(bytes.download().unwrap(), [[1, 2, 3]; 4]);
        let mut halves = device.zeros::<u16>(5).unwrap();
        stream.fill(&mut halves, 0x1234).unwrap();
        assert_eq!(halves.download().unwrap(), [0x1234; 5]);

        let (mut host, mut back) = (device.pinned::<u32>(4).unwrap(), device.pinned::<u32>(4).unwrap());
        assert_eq!(back.as_slice().unwrap(), [0; 4]);
        host.as_mut_slice().unwrap().copy_from_slice(&[5, 6, 7, 8]);
        let mut z = device.zeros::<u32>(4).unwrap();
        stream.upload(&host, &mut z).unwrap();
        stream.download(&z, &mut back).unwrap();
        assert_eq!(back.as_slice().unwrap(), [5, 6, 7, 8]);
        assert_eq!(stream.upload(&host, &mut y).unwrap_err().kind(), ErrorKind::Condition);
        for len in [usize::MAX, 1 << 58] {
            assert_eq!(device.pinned::<u64>(len).unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
    }
    assert_eq!((stub.allocations(), stub.races()), before);
}

#[test]
fn memory_goes_from_device_to_device() {
    let stub = Stub::lock();
    let (zero, one) = (Device::cuda(0).unwrap(), Device::cuda(1).unwrap());
    let (x, mut y) = (zero.upload(&[1.0f32, 2.0]).unwrap(), one.zeros::<f32>(2).unwrap());
    one.stream().copy(&x, &mut y).unwrap();
    assert_eq!((y.download().unwrap(), stub.calls("cuMemcpyPeerAsync")), (vec![1.0, 2.0], 1));
    assert_eq!(zero.stream().copy(&x, &mut y).unwrap_err().kind(), ErrorKind::WrongDevice);
    #[cfg(feature = "cpu")]
    assert_eq!(
        one.stream().copy(&Device::cpu().upload(&[1.0f32; 2]).unwrap(), &mut y).unwrap_err().kind(),
        ErrorKind::WrongDevice
    );
    assert_eq!(one.stream().upload(&zero.pinned(2).unwrap(), &mut y).unwrap_err().kind(), ErrorKind::WrongDevice);
}

#[test]
fn memory_changes_hands_with_cudarc() {
    let stub = Stub::lock();
    let before = (stub.allocations(), stub.races());
    let device = device();
    let stream = device.new_stream().unwrap();
    let theirs = stream.as_cuda().unwrap().clone_htod(&[1.0f32, 2.0, 3.0]).unwrap();
    let mut ours = Buffer::from_cuda(theirs).unwrap();
    stream.as_cuda().unwrap().memcpy_htod(&[9.0f32], &mut ours.slice_mut(1..2).unwrap().into_cuda().unwrap()).unwrap();
    assert_eq!(ours.download().unwrap(), [1.0, 9.0, 3.0]);
    assert_eq!(ours.as_cuda_mut().unwrap().len(), 3);
    let theirs = ours.into_cuda().unwrap();
    assert_eq!((theirs.len(), stream.as_cuda().unwrap().clone_dtoh(&theirs).unwrap()), (3, vec![1.0, 9.0, 3.0]));
    #[cfg(feature = "cpu")]
    assert_eq!(Device::cpu().zeros::<u8>(1).unwrap().into_cuda().unwrap_err().kind(), ErrorKind::Unsupported);
    drop(theirs);
    assert_eq!((stub.allocations(), stub.races()), before);
}

#[test]
fn threads_load_a_kernel_once() {
    let stub = Stub::lock();
    let device = device();
    let (loads, allocations) = (stub.calls("cuModuleLoadDataEx"), stub.allocations());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (x, mut y) = vectors(&device, 64);
                for _ in 0..50 {
                    saxpy(&device, 1.0, &x, &mut y, 64).unwrap();
                }
                assert_eq!(y.download().unwrap(), [52.0; 64]);
            });
        }
    });
    assert_eq!(stub.calls("cuModuleLoadDataEx") - loads, 1);
    assert_eq!(stub.allocations(), allocations);
}

#[test]
fn dropping_in_any_order() {
    let stub = Stub::lock();
    let before = stub.allocations();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device, 16);
    drop(device);
    saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
    drop(stream);
    assert_eq!(y.download().unwrap(), [3.0; 16]);
    drop((x, y));
    assert_eq!(stub.allocations(), before);
}

#[test]
fn a_new_context_loads_again() {
    let stub = Stub::lock();
    let loads = stub.calls("cuModuleLoadDataEx");
    for _ in 0..3 {
        let device = device();
        let (x, mut y) = vectors(&device, 16);
        saxpy(&device, 1.0, &x, &mut y, 16).unwrap();
    }
    assert_eq!(stub.calls("cuModuleLoadDataEx") - loads, 3);
}

#[test]
fn the_same_ordinal_is_the_same_device() {
    let _stub = Stub::lock();
    let (a, b) = (Device::cuda(1).unwrap(), Device::cuda(1).unwrap());
    assert!(std::sync::Arc::ptr_eq(a.as_cuda().unwrap(), b.as_cuda().unwrap()));
}

#[test]
fn devices_that_are_not_there() {
    let _stub = Stub::lock();
    let error = Device::cuda(7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.to_string().contains("CUDA device 7 is asked for\n  possible: 0 to 1"), "{error}");
}

#[test]
fn buffers_stay_with_their_device() {
    let _stub = Stub::lock();
    let (zero, one) = (Device::cuda(0).unwrap(), Device::cuda(1).unwrap());
    #[cfg(feature = "cpu")]
    let others = [zero, Device::cpu()];
    #[cfg(not(feature = "cpu"))]
    let others = [zero];
    let (_, mut y) = vectors(&one, 4);
    for other in others {
        let (x, _) = vectors(&other, 4);
        let error = saxpy(&one, 1.0, &x, &mut y, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongDevice);
        assert!(error.to_string().contains("to a launch on CUDA device 1"), "{error}");
    }
    assert_eq!(y.download().unwrap(), [2.0; 4]);
}

#[test]
fn attributes_reach_the_driver() {
    let stub = Stub::lock();
    let device = device();
    let mut out = device.zeros::<u32>(1).unwrap();
    let config = Config::grid(8).block(128).spread(Spread::LoadBalance).priority(-2).pdl(true).cooperative(true);
    // SAFETY: the stub runs nothing.
    unsafe {
        tiles::<4>(&device, config.shared(100 * 1024), &TensorMap::from_raw([0; 16]), Shape { m: 1, n: 1 }, &mut out)
    }
    .unwrap();
    assert_eq!(stub.launch(0..9), [8, 1, 1, 128, 1, 1, 102_400, 0, 5]);
    let attributes = stub.launch(9..29);
    let attributes: Vec<&[u64]> = attributes.chunks(4).collect();
    let priority = u64::from((-2_i32).cast_unsigned());
    assert_eq!(attributes, [[4, 2, 1, 1], [5, 2, 0, 0], [2, 1, 0, 0], [6, 1, 0, 0], [8, priority, 0, 0]]);
}

/// `cuLaunchKernelEx` has the attribute 6 where the loaded code waits for the grid before, and only there.
#[test]
fn kernels_that_wait_are_launched_early() {
    let stub = Stub::lock();
    let text = |arch, ptx| rt::Variant::new(arch, ptx, rt::LineMap::default());
    let (old, older) = (text("sm_80", ".version 7.0"), text("sm_75", ".version 7.0"));
    let new = text("sm_90", ".version 7.8\n// griddepcontrol.wait");
    let attribute = |variants: [rt::Variant; 2], waits, config: Config| {
        let module = Box::leak(Box::new(rt::Module::new("test", Box::leak(Box::new(variants)))));
        let kernel = Box::leak(Box::new(Kernel::new(module, "k", &[]).waiting(waits)));
        let extended = stub.calls("cuLaunchKernelEx");
        launch(kernel, &device(), config.block(32)).unwrap();
        let set = if stub.calls("cuLaunchKernelEx") > extended { stub.launch(8..10) } else { Vec::new() };
        set.get(1).copied()
    };
    let grid = || Config::grid(1);
    assert_eq!(attribute([old, new], 0b10, grid()), Some(6));
    assert_eq!(
        attribute([old, older], 0b10, grid().pdl(true)),
        None,
        "the code for sm_80 was taken, which does not wait"
    );
    assert_eq!(attribute([old, new], 0, grid()), None);
    assert_eq!(attribute([old, new], 0, grid().pdl(true)), Some(6), "the caller vouches for it");
    stub.become_device(80, 166_912, 12_080);
    assert_eq!(attribute([old, new], 0b10, grid()), None);
}

/// Every entry is loaded once, alone, and launches load nothing more.
#[test]
fn kernels_are_warmed() {
    let stub = Stub::lock();
    let entry = |name: &str| format!(".visible .entry {name}()\n{{\n    ret;\n}}\n");
    let text = [".version 7.0\n.target sm_80\n".to_owned(), entry("a"), entry("b"), entry("c")].concat();
    let variant = rt::Variant::new("sm_80", Box::leak(text.into_boxed_str()), rt::LineMap::default());
    let module = || &*Box::leak(Box::new(rt::Module::new("warm", Box::leak(Box::new([variant])))));
    let (one, other, device) = (module(), module(), device());
    let loads = || stub.calls("cuModuleLoadDataEx");
    let before = loads();
    one.warm(&device).unwrap();
    assert_eq!(loads() - before, 3);
    let kernel = |module, name| &*Box::leak(Box::new(Kernel::new(module, name, &[])));
    launch(kernel(one, "b"), &device, Config::grid(1).block(32)).unwrap();
    one.warm(&device).unwrap();
    assert_eq!(loads() - before, 3);
    let kernels = [kernel(other, "a"), kernel(other, "c")];
    ptx_launch::warm(&device, &kernels).unwrap();
    kernels.iter().for_each(|kernel| launch(kernel, &device, Config::grid(1).block(32)).unwrap());
    assert_eq!(loads() - before, 5);
    #[cfg(feature = "cpu")]
    ptx_launch::warm(&Device::cpu(), &kernels).unwrap();
}

#[test]
fn large_shared_memory_is_opted_in_once() {
    let stub = Stub::lock();
    let device = device();
    let kernel = kernel("big", "sm_80", ".version 7.0", rt::LineMap::default());
    let before = stub.calls("cuFuncSetAttribute");
    for kilobytes in [1, 47, 200, 100, 226] {
        launch(kernel, &device, Config::grid(1).block(32).shared(kilobytes * 1024)).unwrap();
    }
    assert_eq!(stub.calls("cuFuncSetAttribute") - before, 1);
    let error = launch(kernel, &device, Config::grid(1).block(32).shared(227 * 1024)).unwrap_err();
    assert!(error.to_string().contains("231424 bytes: 232448 of a block, less 1024 static ones"), "{error}");
}

#[test]
fn assembler_errors_name_the_rust_line() {
    let _stub = Stub::lock();
    let ptx = ".version 7.0\n.target sm_80\n  not.an.instruction %r1;\n";
    let kernel = kernel("k", "sm_80", ptx, rt::LineMap::new("src/kernels.rs", "1:0:40 3:0:42"));
    let error = kernel.load(&device()).unwrap_err();
    assert_eq!((error.kind(), error.driver_code()), (ErrorKind::Load, Some(218)));
    let text = error.to_string();
    assert!(text.contains("`test` (sm_80) does not load on Stub GPU (sm_90)"), "{text}");
    assert!(
        text.contains("line 3; error   : Not a name of any known instruction\n      --> src/kernels.rs:42"),
        "{text}"
    );
    assert!(text.contains("| not.an.instruction %r1;"), "{text}");
}

#[test]
fn variants_that_do_not_fit() {
    let _stub = Stub::lock();
    let device = device();
    let other_chip = kernel("k", "sm_100a", ".version 8.7", rt::LineMap::default()).load(&device).unwrap_err();
    assert_eq!(other_chip.kind(), ErrorKind::NoVariant);
    let too_new = kernel("k", "sm_90", ".version 9.1", rt::LineMap::default()).load(&device).unwrap_err();
    assert_eq!(too_new.kind(), ErrorKind::DriverTooOld);
    assert!(too_new.to_string().contains("the driver is of CUDA 12.8 and reads PTX up to 8.7"), "{too_new}");
}

#[test]
fn a_missing_entry_and_a_failed_load_can_be_tried_again() {
    let stub = Stub::lock();
    let device = device();
    let error = kernel("missing", "sm_80", ".version 7.0", rt::LineMap::default()).load(&device).unwrap_err();
    assert!(error.to_string().contains("the entry `missing` is looked up in module `test`"), "{error}");
    let kernel = kernel("k", "sm_80", ".version 7.0", rt::LineMap::default());
    stub.refuse("cuModuleLoadDataEx", 2);
    assert_eq!(kernel.load(&device).unwrap_err().kind(), ErrorKind::OutOfMemory);
    kernel.load(&device).unwrap();
}

#[test]
fn memory_that_is_not_there() {
    let stub = Stub::lock();
    let (device, before) = (device(), stub.allocations());
    let error = device.zeros::<u64>(1 << 28).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("2147483648 bytes are asked for on Stub GPU"), "{error}");
    assert_eq!(device.zeros::<u64>(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(stub.allocations(), before);
    assert!(device.zeros::<u64>(0).unwrap().download().unwrap().is_empty());
}

#[test]
fn a_failed_kernel_is_told_and_nothing_panics_afterwards() {
    let stub = Stub::lock();
    let device = device();
    let (x, mut y) = vectors(&device, 16);
    stub.refuse("cuLaunchKernel", 700);
    let error = saxpy(&device, 1.0, &x, &mut y, 16).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault);
    assert!(error.to_string().contains("`saxpy` is launched (grid [1, 1, 1], block [256, 1, 1], 0 bytes)"), "{error}");
    stub.refuse("cuCtxSynchronize", 700);
    assert_eq!(device.synchronize().unwrap_err().kind(), ErrorKind::Fault);
    stub.refuse("cuStreamSynchronize", 700);
    assert_eq!(y.download().unwrap_err().kind(), ErrorKind::Fault);
}

#[test]
fn a_capture_waits_for_nothing_outside() {
    let stub = Stub::lock();
    let device = device();
    let (x, mut y) = vectors(&device, 16);
    let stream = device.new_stream().unwrap();
    saxpy(&stream, 1.0, &x, &mut y, 16).unwrap();
    let launches = stub.calls("cuLaunchKernel");
    let graph = stream.capture(|stream| (0..10).try_for_each(|_| saxpy(stream, 1.0, &x, &mut y, 16))).unwrap();
    assert_eq!(stub.calls("cuLaunchKernel") - launches, 10);
    graph.launch().unwrap();
    stream.synchronize().unwrap();
    device.synchronize().unwrap();
    let (bad, destroyed) = (stream.capture(|_| saxpy(&stream, 1.0, &x, &mut y, 99)), stub.calls("cuGraphDestroy"));
    assert_eq!((bad.unwrap_err().kind(), destroyed), (ErrorKind::Condition, 1));
    assert_eq!(device.stream().capture(|_| Ok(())).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_graph_holds_its_buffers_and_keeps_their_order() {
    let stub = Stub::lock();
    let before = stub.allocations();
    let device = device();
    let (stream, other) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let (x, mut y) = vectors(&device, 16);
    let graph = stream.capture(|stream| saxpy(stream, 1.0, &x, &mut y, 16)).unwrap();
    graph.launch().unwrap();
    let (waits, records) = (stub.calls("cuStreamWaitEvent"), stub.calls("cuEventRecord"));
    graph.launch().unwrap();
    assert_eq!((stub.calls("cuStreamWaitEvent") - waits, stub.calls("cuEventRecord") - records), (0, 1));
    saxpy(&other, 1.0, &x, &mut y, 16).unwrap();
    let waits = stub.calls("cuStreamWaitEvent");
    graph.launch().unwrap();
    assert!(stub.calls("cuStreamWaitEvent") > waits, "for the launch on the other stream");
    assert!(y.as_cuda_mut().is_none());
    assert_eq!(x.into_cuda().unwrap_err().kind(), ErrorKind::Unsupported);
    drop(y);
    assert_eq!(stub.allocations(), before + 2);
    graph.launch().unwrap();
    drop(graph);
    assert_eq!(stub.allocations(), before);
}

/// One row of a picture.
#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
fn read_row(image: Texture, out: &mut [f32]) {
    let color: [f32; 4];
    let x: f32 = tid.x as f32;
    ptx! { tex.2d.v4.f32.f32 {color[..]}, [image, {x, 0.0}]; }
    let to: u64 = out + wide(tid.x) * 4;
    ptx! { st.global.f32 [to], color[0]; }
}

#[test]
fn a_graph_holds_its_textures() {
    let stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (texels, mut out) = vectors(&device, 32);
    let image = Texture::of(texels.view(), &[1, 32]).build().unwrap();
    let graph = stream.capture(|stream| (0..3).try_for_each(|_| read_row(stream, &image, &mut out))).unwrap();
    drop(image);
    drop(texels);
    graph.launch().unwrap();
    assert_eq!(stub.calls("cuTexObjectDestroy"), 0, "the graph has its handle");
    drop(graph);
    assert_eq!(stub.calls("cuTexObjectDestroy"), 1);
}

#[test]
fn cut_machine_code_does_not_reach_the_driver() {
    let stub = Stub::lock();
    let load = |cubin: &'static [u8]| {
        let code = Box::leak(Box::new([rt::Cubin::new("sm_90a", cubin, "")]));
        let variant = rt::Variant::new("sm_90a", ".version 7.0", rt::LineMap::default()).with_cubins(code);
        let module = Box::leak(Box::new(rt::Module::new("test", Box::leak(Box::new([variant])))));
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel::new(module, "k", &[])));
        let loads = stub.calls("cuModuleLoadDataEx");
        let source = kernel.loaded(&device()).unwrap().source;
        (source, stub.calls("cuModuleLoadDataEx") - loads)
    };
    assert_eq!(
        load(b"\x7fELF\x02\x01\x01\0"),
        (Source::Assembled, 1),
        "the driver reads an ELF file as far as its headers say"
    );
    assert_eq!(load(b"machine code"), (Source::Assembled, 1));
    let text = kernel("k", "sm_80", "\u{7f}ELF.version 7.0", rt::LineMap::default());
    assert_eq!(text.load(&device()).unwrap_err().kind(), ErrorKind::Load, "a text is no ELF file");
}

#[test]
fn a_graph_of_cudarcs_memory_is_launched_by_those_who_vouch_for_it() {
    let _stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let theirs = stream.as_cuda().unwrap().clone_htod(&[1.0f32; 16]).unwrap();
    let mut y = device.zeros::<f32>(16).unwrap();
    let graph = stream.capture(|stream| saxpy(stream, 1.0, &theirs, &mut y, 16)).unwrap();
    assert_eq!(graph.launch().unwrap_err().kind(), ErrorKind::Unsupported);
    // SAFETY: `theirs` and `y` are alive, and nobody else uses them.
    unsafe { graph.launch_untracked() }.unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn figures_and_occupancy() {
    let _stub = Stub::lock();
    let device = device();
    let figures = saxpy::KERNEL.figures(&device).unwrap();
    assert_eq!((figures.registers, figures.shared, figures.max_threads), (32, 1024, 1024));
    let config = Config::grid(8).block(256).cluster(2);
    let occupancy = saxpy::KERNEL.occupancy(&device, &config).unwrap();
    assert_eq!((occupancy.blocks, occupancy.threads, occupancy.clusters), (8, 2048, Some(66)));
    #[cfg(feature = "cpu")]
    assert_eq!(saxpy::KERNEL.figures(&Device::cpu()).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn options_reach_the_assembler_and_its_log_comes_back() {
    let stub = Stub::lock();
    let device = device();
    let options = JitOptions::new().max_registers(64).optimization(Optimization::O1).cache(CacheMode::L2);
    saxpy::KERNEL.load_with(&device, &options).unwrap();
    assert_eq!([0, 7, 12, 13, 14].map(|option| stub.jit(option)), [Some(64), Some(1), Some(1), None, Some(1)]);
    let loads = stub.calls("cuModuleLoadDataEx");
    saxpy::KERNEL.load_with(&device, &options).unwrap();
    let error = saxpy::KERNEL.load_with(&device, &JitOptions::new().debug(true)).unwrap_err();
    assert_eq!((error.kind(), stub.calls("cuModuleLoadDataEx") - loads), (ErrorKind::BadOption, 0));
    assert!(error.to_string().contains("already, with max_registers(64).optimization(O1).cache(L2)"), "{error}");

    let figures = saxpy::KERNEL.figures(&device).unwrap();
    assert_eq!((figures.spill_stores, figures.spill_loads), (Some(8), Some(12)));
    let loaded = saxpy::KERNEL.loaded(&device).unwrap();
    assert_eq!((loaded.arch, loaded.source), ("sm_80", Source::Assembled));
    assert!(loaded.log.contains("8 bytes spill stores"), "{}", loaded.log);
    #[cfg(feature = "cpu")]
    {
        saxpy::KERNEL.load_with(&Device::cpu(), &options).unwrap();
        assert_eq!(saxpy::KERNEL.loaded(&Device::cpu()).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn spills_without_a_log() {
    let _stub = Stub::lock();
    let silent = |entry| kernel(entry, "sm_80", ".version 7.0 // known to the driver", rt::LineMap::default());
    let stores = |entry| silent(entry).figures(&device()).unwrap().spill_stores;
    assert_eq!(stores("k"), Some(0), "who has no local memory spills nothing");
    assert_eq!(stores("spills"), None);
}

/// The stub's GPU is an `sm_90`.
#[test]
fn machine_code_is_taken_where_it_fits() {
    let stub = Stub::lock();
    let load = |arch, cubin: &'static [u8], options: JitOptions| {
        let code = Box::leak(Box::new([rt::Cubin::new(arch, cubin, "embedded log")]));
        let variant = rt::Variant::new(arch, ".version 7.0", rt::LineMap::default()).with_cubins(code);
        let module = Box::leak(Box::new(rt::Module::new("test", Box::leak(Box::new([variant])))));
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel::new(module, "k", &[])));
        let device = device();
        kernel.load_with(&device, &options).unwrap();
        kernel.loaded(&device).unwrap()
    };
    let fits = load("sm_90a", b"machine code\0", JitOptions::new());
    assert_eq!((fits.source, fits.log.trim(), fits.arch), (Source::Embedded, "embedded log", "sm_90a"));
    assert_eq!(fits.reason, "machine code for sm_90a");
    let other = load("sm_80", b"machine code\0", JitOptions::new());
    assert_eq!(other.source, Source::Assembled);
    assert_eq!(other.reason, "PTX for sm_80, because the program has machine code for sm_80 alone");
    let loads = stub.calls("cuModuleLoadDataEx");
    let old = load("sm_90a", b"old machine code\0", JitOptions::new());
    assert_eq!(old.source, Source::Assembled);
    assert!(
        old.reason.starts_with("PTX for sm_90a, because the driver refused the machine code for sm_90a: "),
        "{}",
        old.reason
    );
    assert_eq!(stub.calls("cuModuleLoadDataEx") - loads, 2, "the PTX, when the driver refuses the machine code");
    assert_eq!(load("sm_90a", b"machine code\0", JitOptions::new().max_registers(32)).source, Source::Assembled);
}

#[test]
fn time_is_taken_by_events() {
    let stub = Stub::lock();
    let device = device();
    let (x, mut y) = vectors(&device, 16);
    let launches = stub.calls("cuLaunchKernel");
    let timer = Timer::new().warm_up(2).runs(5).batch(10);
    let timing = timer.measure(&device, || saxpy(&device, 0.0, &x, &mut y, 16)).unwrap();
    assert_eq!((timing.runs(), timing.median().as_micros()), (5, 25));
    assert_eq!(stub.calls("cuLaunchKernel") - launches, 70);
}

#[test]
fn tensor_maps_are_encoded_innermost_first() {
    let _stub = Stub::lock();
    let device = device();
    let memory = device.zeros::<bf16>(4096).unwrap();
    let of = |shape: &[usize]| TensorMap::of(&device, &memory, shape).unwrap();
    let builder = of(&[32, 128]).tile(&[16, 64]).swizzle(Swizzle::B128).promotion(Promotion::B256);
    let map = builder.build().unwrap();
    let address = map.to_raw()[0];
    // Address, type, rank, shape, stride, tile, steps, interleave, swizzle, promotion, fill.
    assert_eq!(map.to_raw()[1..], [9, 2, 128, 32, 256, 64, 16, 1, 1, 0, 3, 3, 0, 0, 0]);
    let map = of(&[2, 4, 4, 64]).im2col(&[-1, -2], &[1, 2], 16, 32).build().unwrap();
    // Address, type, rank, shape, corners, channels, pixels.
    let corners = [-2i64, -1, 2, 1].map(i64::cast_unsigned);
    assert_eq!(map.to_raw()[1..7], [9, 4, 64, 4, 4, 2]);
    assert_eq!(map.to_raw()[7..13], [corners[0], corners[1], corners[2], corners[3], 16, 32]);
    let wide = || of(&[2, 4, 4, 64]).swizzle(Swizzle::B128);
    // Corners, channels, pixels, interleave, mode, swizzle.
    let (some, all) =
        (wide().im2col_wide(-1, 2, 16, 32).build().unwrap(), wide().im2col_wide_128(0, 0, 64).build().unwrap());
    assert_eq!(some.to_raw()[1..10], [9, 4, (-1i64).cast_unsigned(), 2, 16, 32, 0, 0, 3]);
    assert_eq!(all.to_raw()[3..10], [0, 0, 64, 128, 0, 1, 3]);
    let part = memory.slice(1024..).unwrap();
    let refused = builder.clone().moved_to(&device, &part).unwrap().build().unwrap_err();
    assert!(refused.to_string().contains("inside the 6144 bytes of its buffer"), "{refused}");
    let other = device.zeros::<bf16>(4096).unwrap();
    assert_eq!(builder.moved_to(&device, &other).unwrap().build().unwrap().to_raw()[0], other.address());
    assert_ne!(other.address(), address);
    let error = of(&[32, 128]).tile(&[16, 128]).swizzle(Swizzle::B128).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TensorMap);
}

#[test]
fn tiles_bind_their_dimensions() {
    let stub = Stub::lock();
    let device = device();
    let (a, mut c) = (device.zeros::<f32>(128 * 96).unwrap(), device.zeros::<f32>(128 * 96).unwrap());
    scale(&device, a.tile([128, 96]).unwrap(), c.tile_mut([128, 96]).unwrap()).unwrap();
    assert_eq!(stub.launch(0..6), [2, 2, 1, 128, 1, 1]);
    let error = scale(&device, a.tile([64, 96]).unwrap(), c.tile_mut([128, 96]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("`scale` is launched with M = 64 in `a`, 128 in `c`"), "{error}");
}

#[test]
fn cubins_are_kept_on_disk() {
    let stub = Stub::lock();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}", std::process::id()));
    // SAFETY: tests that read the environment hold the stub's lock.
    unsafe { std::env::set_var("PTX_CACHE", &folder) };
    let load = |ptx| kernel("k", "sm_80", ptx, rt::LineMap::default()).load(&device());
    let links = || (stub.calls("cuLinkCreate_v2"), stub.calls("cuLinkDestroy"));
    load(".version 7.0 // one").unwrap();
    load(".version 7.0 // one").unwrap();
    let again = device();
    let kept = kernel("k", "sm_80", ".version 7.0 // one", rt::LineMap::default());
    assert_eq!(kept.loaded(&again).unwrap().source, Source::Cached);
    assert!(kept.loaded(&again).unwrap().log.contains("spill stores"), "the log is kept, too");
    assert_eq!(links(), (1, 1), "the second start assembles nothing");
    let silent = kernel("saxpy", "sm_80", ".version 7.0 // known to the driver", rt::LineMap::default());
    assert_eq!(silent.figures(&device()).unwrap().spill_stores, Some(8), "the driver is asked again");
    assert_eq!(links(), (3, 3));
    load(".version 7.0 // two").unwrap();
    let error = load(".version 7.0\nnot.an.instruction;").unwrap_err();
    assert!(error.to_string().contains("line 2; error   : Not a name of any known instruction"), "{error}");
    assert_eq!(links(), (5, 5));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    // SAFETY: as above.
    unsafe { std::env::remove_var("PTX_CACHE") };
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn variables_of_modules_are_ordered() {
    let stub = Stub::lock();
    let (device, races) = (device(), stub.races());
    let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    assert_eq!(sums::TOTAL.read(&device).unwrap(), 0, "the value of the source");
    sums::TOTAL.write(&one, 5).unwrap();
    sums::tally(&two, 0).unwrap();
    sums::tally(&one, 0).unwrap();
    sums::STEPS.write(&two, [100, 200]).unwrap();
    sums::tally(&device, 0).unwrap();
    let thread = std::thread::scope(|scope| scope.spawn(|| sums::TOTAL.read(&one).unwrap()).join().unwrap());
    assert_eq!((thread, sums::STEPS.read(&device).unwrap()), (327, [100, 200]));
    assert_eq!(stub.races(), races);
}

#[test]
fn graphs_and_variables_of_modules_are_ordered() {
    let stub = Stub::lock();
    let (device, races) = (device(), stub.races());
    let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    sums::tally(&one, 0).unwrap();
    let graph = one.capture(|stream| (0..2).try_for_each(|_| sums::tally(stream, 0))).unwrap();
    sums::tally(&two, 0).unwrap();
    graph.launch().unwrap();
    sums::tally(&two, 0).unwrap();
    drop(graph);
    assert_eq!(sums::TOTAL.read(&two).unwrap(), 55);
    let refused = one.capture(|stream| sums::TOTAL.read(stream).map(drop)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert_eq!(stub.races(), races);
}

#[test]
fn a_variable_that_was_read_remembers_no_stream() {
    let stub = Stub::lock();
    let device = device();
    sums::tally(&device, 0).unwrap();
    sums::TOTAL.read(&device).unwrap();
    sums::STEPS.read(&device).unwrap();
    let alive = stub.alive();
    let stream = device.new_stream().unwrap();
    sums::tally(&stream, 0).unwrap();
    drop(stream);
    assert!(stub.alive() > alive, "the launch may still run");
    assert_eq!((sums::TOTAL.read(&device).unwrap(), sums::STEPS.read(&device).unwrap()), (22, [1, 10]));
    assert_eq!(stub.alive(), alive);
}

#[test]
fn a_missing_variable_is_an_error() {
    let _stub = Stub::lock();
    static MODULE: rt::Module =
        rt::Module::new("m", &[rt::Variant::new("sm_80", ".version 7.0", rt::LineMap::new("", ""))]);
    static GONE: rt::Static<u32> = rt::Static::new(&MODULE, "GONE", true);
    static SHORT: rt::Static<u64> = rt::Static::new(&MODULE, "TOTAL", true);
    let device = device();
    let error = GONE.read(&device).unwrap_err().to_string();
    assert!(error.contains("the variable `GONE` is looked up in module `m`"), "{error}");
    let error = SHORT.read(&device).unwrap_err().to_string();
    assert!(error.contains("`TOTAL` has 4 bytes in the loaded module `m`"), "{error}");
}
