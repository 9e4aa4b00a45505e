//! A launch on candle's memory and stream: one kernel, nothing copied.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, unsafe_code, reason = "tests of the driver's objects")]

use candle_core::{DType, Device, Result, Tensor};
use cudarc::driver::sys;
use std::ptr::null_mut;

/// The kinds of the operations that `work` submits to candle's stream.
fn submitted(device: &Device, work: impl Fn() -> Result<Tensor>) -> Vec<sys::CUgraphNodeType> {
    let stream = device.as_cuda_device().unwrap().cuda_stream();
    // The first call loads the kernel.
    work().unwrap();
    device.synchronize().unwrap();
    let mut graph = null_mut();
    let result;
    // SAFETY: a stream of candle's, which this thread alone uses; the graph is destroyed below.
    unsafe {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        sys::cuStreamBeginCapture_v2(stream.cu_stream(), mode).result().unwrap();
        result = work().map(drop);
        sys::cuStreamEndCapture(stream.cu_stream(), &raw mut graph).result().unwrap();
    }
    result.unwrap();
    // SAFETY: the graph that the capture made, and room for as many nodes as it has.
    unsafe {
        let mut count = 0;
        sys::cuGraphGetNodes(graph, null_mut(), &raw mut count).result().unwrap();
        let mut nodes = vec![null_mut(); count];
        sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count).result().unwrap();
        let kinds = nodes.iter().map(|node| {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            sys::cuGraphNodeGetType(*node, &raw mut kind).result().unwrap();
            kind
        });
        let kinds = kinds.collect();
        sys::cuGraphDestroy(graph).result().unwrap();
        kinds
    }
}

#[test]
#[ignore = "needs a GPU"]
fn an_operation_is_one_kernel_on_candles_stream() {
    use sys::CUgraphNodeType::{
        CU_GRAPH_NODE_TYPE_KERNEL as KERNEL, CU_GRAPH_NODE_TYPE_MEM_ALLOC as ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE as FREE,
    };
    let device = Device::new_cuda_with_stream(0).unwrap();
    let x = Tensor::randn(0f32, 1.0, (8, 128, 512), &device).unwrap().to_dtype(DType::BF16).unwrap();
    let weight = Tensor::ones(512, DType::BF16, &device).unwrap();
    // A part of a tensor: rows with gaps, which a copy would remove.
    let part = x.narrow(2, 256, 256).unwrap();
    let [q, k, v] =
        [x.reshape((8, 128, 8, 64)).unwrap(), x.reshape((8, 128, 8, 64)).unwrap(), x.reshape((8, 128, 8, 64)).unwrap()];
    let works: [(&str, &dyn Fn() -> Result<Tensor>); 4] = [
        ("rms_norm", &|| ptx_candle::rms_norm(&x, &weight, 1e-6)),
        ("swiglu", &|| ptx_candle::swiglu(&part, &part)),
        ("softmax", &|| ptx_candle::softmax(&part)),
        ("flash_attn", &|| ptx_candle::flash_attn(&q, &k, &v, 0.125, true)),
    ];
    for (name, work) in works {
        let kinds = submitted(&device, work);
        assert_eq!(kinds.iter().filter(|kind| **kind == KERNEL).count(), 1, "{name}: {kinds:?}");
        assert!(kinds.iter().all(|kind| [KERNEL, ALLOC, FREE].contains(kind)), "{name}: {kinds:?}");
    }
}
