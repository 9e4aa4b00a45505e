//! Memory and streams that somebody else owns.

use crate::expansion::saxpy;
use crate::stub::Stub;
use crate::{device, vectors};
use ptx_launch::prelude::*;
use ptx_launch::{Device, ErrorKind, RuntimeModule, Stream, TensorMut, TensorRef};

#[test]
fn a_kernel_runs_on_a_borrowed_stream_and_memory_at_raw_addresses() {
    let stub = Stub::lock();
    let device = device();
    let owner = device.as_cuda().unwrap().new_stream().unwrap();
    let (theirs, yours) = (owner.clone_htod(&[1.0f32; 8]).unwrap(), owner.clone_htod(&[2.0f32; 8]).unwrap());
    let [x, y] = [&theirs, &yours].map(|slice| cudarc::driver::DevicePtr::device_ptr(slice, &owner).0);
    // SAFETY: `owner` lives to the end of the test.
    let stream = unsafe { Stream::borrowed(&device, owner.cu_stream().cast()) }.unwrap();
    let waits = (stub.calls("cuStreamWaitEvent"), stub.calls("cuEventRecord"));
    // SAFETY: both slices live to the end of the test, and nothing else uses them.
    let (x, mut y) = unsafe { (View::<f32>::from_raw(&stream, x, 8), ViewMut::<f32>::from_raw(&stream, y, 8)) };
    saxpy(&stream, 3.0, &x, &mut y, 8).unwrap();
    assert_eq!((stub.calls("cuStreamWaitEvent"), stub.calls("cuEventRecord")), waits, "nothing is ordered");
    let mut low = y.slice_mut(..2).unwrap();
    low.write(&[7.0, 8.0]).unwrap();
    low.write(&[7.0]).unwrap_err();
    let (_, mut high) = y.split_at_mut(6).unwrap();
    saxpy(&stream, 1.0, &x.slice(6..).unwrap(), &mut high, 2).unwrap();
    assert_eq!(y.download().unwrap(), [7.0, 8.0, 5.0, 5.0, 5.0, 5.0, 6.0, 6.0]);
    assert!(x.into_cuda().is_none() && y.into_cuda().is_none());
}

#[test]
fn tensors_of_raw_memory_keep_their_device() {
    let _stub = Stub::lock();
    let (ours, other) = (device().stream(), Device::cuda(1).unwrap().stream());
    let (x, y) = vectors(&ours.device(), 16);
    // SAFETY: the buffers live to the end of the test, and only these views use them.
    let (read, written) =
        unsafe { (View::<f32>::from_raw(&ours, x.address(), 16), ViewMut::<f32>::from_raw(&ours, y.address(), 16)) };
    let read = TensorRef::strided(read, [2, 4], [8, 1]).unwrap();
    let mut written = TensorMut::strided(written, [2, 4], [8, 1]).unwrap();
    saxpy(&ours, 1.0, &read, &mut written, 16).unwrap();
    assert_eq!(saxpy(&other, 1.0, &read, &mut written, 16).unwrap_err().kind(), ErrorKind::WrongDevice);
}

#[test]
fn a_graph_of_raw_memory_is_launched_by_those_who_vouch_for_it() {
    let _stub = Stub::lock();
    let device = device();
    let stream = device.new_stream().unwrap();
    let (x, mut y) = vectors(&device, 16);
    // SAFETY: `x` lives to the end of the test, and nothing writes it.
    let theirs = unsafe { View::<f32>::from_raw(&stream, x.address(), 16) };
    let graph = stream.capture(|stream| saxpy(stream, 1.0, &theirs, &mut y, 16)).unwrap();
    assert_eq!(graph.launch().unwrap_err().kind(), ErrorKind::Unsupported);
    let copied = stream.capture(|_| theirs.download().map(drop)).unwrap_err();
    assert_eq!(copied.kind(), ErrorKind::Unsupported);
}

#[test]
#[cfg(feature = "cpu")]
fn the_cpu_device_has_no_raw_streams() {
    // SAFETY: nothing is borrowed.
    let error = unsafe { Stream::borrowed(&Device::cpu(), std::ptr::null_mut()) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn zeros_that_the_host_has_waited_for_are_waited_for_by_nobody() {
    let stub = Stub::lock();
    let device = device();
    let mut zeros = device.zeros_beside_captures::<f32>(16).unwrap();
    assert_eq!(zeros.download().unwrap(), [0.0; 16]);
    let x = device.upload(&[1.0f32; 16]).unwrap();
    device.synchronize().unwrap();
    let mut zeros_again = device.zeros_beside_captures::<f32>(16).unwrap();
    // SAFETY: the stream is the device's own, and lives to the end of the test.
    let stream = unsafe { Stream::borrowed(&device, std::ptr::null_mut()) }.unwrap();
    let waits = stub.calls("cuStreamWaitEvent");
    saxpy(&stream, 1.0, &x, &mut zeros_again, 16).unwrap();
    saxpy(&stream, 1.0, &x, &mut zeros, 16).unwrap();
    assert_eq!(stub.calls("cuStreamWaitEvent"), waits);
    assert!(!(&stream).as_stream().is_captured_elsewhere());
}

#[test]
fn a_module_is_unloaded_after_the_work_of_its_device() {
    let stub = Stub::lock();
    let device = device();
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
    let module = RuntimeModule::load(&device, "nothing.ptx", ptx).unwrap();
    let before = ["cuCtxSynchronize", "cuModuleUnload"].map(|name| stub.calls(name));
    // SAFETY: nothing uses the module after this.
    unsafe { module.unload() }.unwrap();
    let after = ["cuCtxSynchronize", "cuModuleUnload"].map(|name| stub.calls(name));
    assert_eq!(after, before.map(|calls| calls + 1));
}
