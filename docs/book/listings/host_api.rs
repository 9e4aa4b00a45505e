//! The host's side: buffers, streams, graphs, pinned memory, errors, several devices.

use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Graph, Result, Stream, Timer};

// ANCHOR: kernel
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n)))]
pub fn scale(factor: f32, x: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let at = x.at(i);
        let mut value: f32;
        ptx! { ld.global.f32 value, [at]; }
        value *= factor;
        ptx! { st.global.f32 [at], value; }
    }
}
// ANCHOR_END: kernel

// ANCHOR: buffers
fn buffers(device: &Device) -> Result<()> {
    let mut x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?; // host → device
    let stream = device.stream();
    scale(&stream, 2.0, &mut x.slice_mut(..2)?, 2)?; // a part of a buffer is an argument, too
    assert_eq!(x.download()?, [2.0, 4.0, 3.0, 4.0]); // waits for the launch
    x.clear()?; // zeros
    stream.fill(&mut x, 7.0)?; // any value, in the order of the stream
    assert_eq!(x.download()?, [7.0; 4]);
    Ok(())
}
// ANCHOR_END: buffers

// ANCHOR: streams
fn streams(device: &Device) -> Result<()> {
    let (copies, kernels) = (device.new_stream()?, device.new_stream()?);
    let mut input = device.pinned::<f32>(1 << 16)?;
    input.as_mut_slice()?.fill(3.0);
    let mut x = device.zeros::<f32>(1 << 16)?;
    copies.upload(&input, &mut x)?; // the host does not wait
    scale(&kernels, 2.0, &mut x, 1 << 16)?; // starts after the copy: the buffer remembers it
    let mut output = device.pinned::<f32>(1 << 16)?;
    copies.download(&x, &mut output)?; // starts after the kernel
    assert_eq!(output.as_slice()?[0], 6.0); // waits for the download
    Ok(())
}
// ANCHOR_END: streams

// ANCHOR: graph
fn record(stream: &Stream, x: &mut Buffer<f32>) -> Result<Graph> {
    scale(stream, 1.0, &mut *x, 1 << 16)?; // loads the kernel: recording cannot
    stream.capture(|stream| {
        for _ in 0..10 {
            scale(stream, 2.0, &mut *x, 1 << 16)?;
        }
        Ok(())
    })
}

fn graph(device: &Device) -> Result<()> {
    let stream = device.new_stream()?;
    let mut x = device.upload(&vec![1.0f32; 1 << 16])?;
    match record(&stream, &mut x) {
        Ok(graph) => {
            graph.launch()?; // ten kernels, one call
            assert_eq!(x.download()?[0], 1024.0);
            let time = Timer::new().measure(&stream, || graph.launch())?.median();
            println!("ten launches in a graph: {time:?}");
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => println!("{error}"), // the CPU device
        Err(error) => return Err(error),
    }
    Ok(())
}
// ANCHOR_END: graph

// ANCHOR: errors
fn errors(device: &Device) -> Result<()> {
    let mut x = device.zeros::<f32>(4)?;
    let error = scale(device, 2.0, &mut x, 5).unwrap_err(); // the condition of the kernel, checked before the launch
    assert_eq!(error.kind(), ErrorKind::Condition);
    println!("{error}");
    Ok(())
}
// ANCHOR_END: errors

// ANCHOR: devices
fn devices() -> Result<()> {
    let all: Vec<Device> = (0..).map_while(|ordinal| Device::cuda(ordinal).ok()).collect();
    for pair in all.windows(2) {
        let (from, mut to) = (pair[0].upload(&[1.0f32; 4])?, pair[1].zeros::<f32>(4)?);
        pair[1].stream().copy(&from, &mut to)?; // from GPU to GPU
        assert_eq!(to.download()?, [1.0; 4]);
    }
    println!("{} GPUs", all.len());
    Ok(())
}
// ANCHOR_END: devices

pub fn main() -> Result<()> {
    let device = Device::best()?;
    buffers(&device)?;
    streams(&device)?;
    graph(&device)?;
    errors(&device)?;
    devices()
}
