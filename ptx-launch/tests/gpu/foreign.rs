//! A program of the plain driver API, with its own context, stream and memory: launches on them, and text that it compiles itself.

use cudarc::driver::{CudaContext, result, sys};
use cudarc::nvrtc::compile_ptx;
use ptx_launch::prelude::*;
use ptx_launch::{Config, ErrorKind, RuntimeModule, TensorMut, TensorRef};
use std::sync::Arc;

/// A stream and memory as the driver gives them, and the context that they belong to.
struct Program {
    context: Arc<CudaContext>,
    stream: sys::CUstream,
    memory: u64,
}

/// Numbers in the memory.
const LEN: usize = 1000;

impl Program {
    fn new() -> Program {
        let context = CudaContext::new(0).unwrap();
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        // SAFETY: a new allocation, which is written at once.
        let memory = unsafe {
            let memory = result::malloc_sync(LEN * size_of::<f32>()).unwrap();
            result::memcpy_htod_sync(memory, &[1.0f32; LEN]).unwrap();
            memory
        };
        Program { context, stream, memory }
    }

    fn read(&self) -> Vec<f32> {
        let mut values = vec![0.0f32; LEN];
        // SAFETY: the stream and the memory live, and the memory has as many numbers.
        unsafe {
            result::stream::synchronize(self.stream).unwrap();
            result::memcpy_dtoh_sync(&mut values, self.memory).unwrap();
        }
        values
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: `read` has waited for all work; nothing uses them any more.
        unsafe {
            let _ = (result::free_sync(self.memory), result::stream::destroy(self.stream));
        }
    }
}

pub(crate) fn a_driver_program_launches_on_its_own_memory() {
    let program = Program::new();
    let device = Device::from_cuda(&program.context).unwrap();
    // SAFETY: the stream belongs to the context, and lives to the end of the test.
    let stream = unsafe { Stream::borrowed(&device, program.stream.cast()) }.unwrap();
    let half = LEN / 2;
    let middle = program.memory + (half * size_of::<f32>()) as u64;
    // SAFETY: each half of the memory, initialized, which nothing else uses until the stream has ended its work.
    let (x, y) =
        unsafe { (View::<f32>::from_raw(&stream, program.memory, half), ViewMut::from_raw(&stream, middle, half)) };
    let (x, mut y) = (TensorRef::strided(x, [half], [1]).unwrap(), TensorMut::strided(y, [half], [1]).unwrap());
    for _ in 0..3 {
        crate::saxpy(&stream, 2.0, &x, &mut y, half as u32).unwrap();
    }
    let values = program.read();
    assert!(values[..half].iter().all(|value| *value == 1.0) && values[half..].iter().all(|value| *value == 7.0));
}

/// The output of NVRTC, on memory of the program's own, in a context where it is loaded and unloaded again and again.
pub(crate) fn text_is_loaded_launched_and_unloaded() {
    let source = r#"extern "C" __global__ void add(float *x, float by, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] += by;
    }"#;
    let Ok(ptx) = compile_ptx(source) else { panic!("NVRTC is not installed") };
    let program = Program::new();
    let device = Device::from_cuda(&program.context).unwrap();
    // SAFETY: as above.
    let stream = unsafe { Stream::borrowed(&device, program.stream.cast()) }.unwrap();
    let mut free = Vec::new();
    for _ in 0..100 {
        let module = RuntimeModule::load(&device, "add.cu", &ptx.to_src()).unwrap();
        assert_eq!(module.entries().collect::<Vec<_>>(), ["add"]);
        let kernel = module.kernel("add").unwrap();
        assert_eq!(kernel.params().iter().map(|param| param.size).collect::<Vec<_>>(), [8, 4, 4]);
        let launch = || kernel.launch(Config::grid(8).block(128));
        assert_eq!(launch().value(1u16).unwrap_err().kind(), ErrorKind::BadOption);
        // SAFETY: the memory of the program, which this launch alone writes.
        let memory = unsafe { ViewMut::<f32>::from_raw(&stream, program.memory, LEN) };
        let mut memory = TensorMut::strided(memory, [LEN], [1]).unwrap();
        let ready = launch().write(&mut memory).unwrap().value(0.5f32).unwrap().value(LEN as i32).unwrap();
        // SAFETY: the kernel writes the first `LEN` elements.
        unsafe { ready.submit(&stream) }.unwrap();
        // SAFETY: nothing uses the module after this.
        unsafe { module.unload() }.unwrap();
        free.push(result::mem_get_info().unwrap().0);
    }
    assert!(program.read().iter().all(|value| *value == 51.0));
    assert!(free[free.len() - 1] >= free[9], "no memory of the GPU is lost: {free:?}");
}
