//! `ptx run --device cuda`: the same launch on a GPU. The driver is looked for when the command runs, not when it is built.

use super::Arguments;
use crate::gpu;
use crate::launch::argument::{Argument, Contents, Memory};
use crate::launch::tensor::Tensor;
use crate::launch::{LaunchArguments, declared};
use crate::output::{Failure, Outcome};
use crate::source::{Source, read_bytes};
use crate::write;
use ptx_core::check::Checked;
use ptx_runtime::{Buffer, Config, Device, Error, ErrorKind, RuntimeKernel, RuntimeModule, TensorMap};
use std::io::Write;
use std::path::Path;

/// Sound if the kernel ends; what goes wrong on the GPU is the driver's message.
pub(super) fn launch(arguments: &Arguments, source: &Source, checked: &Checked, out: &mut dyn Write) -> Outcome {
    of_the_cpu(arguments)?;
    let launch = OnGpu::new(&arguments.kernel, source, checked)?;
    match launch.and_then(OnGpu::run) {
        Ok(launch) => launch.save().map(|()| true),
        Err(error) => failed(&gpu::without(error, "the CPU device: leave out `--device cuda`"), out),
    }
}

/// An error of the GPU is the kernel's; any other one is of the call.
pub(crate) fn failed(error: &Error, out: &mut dyn Write) -> Outcome {
    match error.kind() {
        ErrorKind::Driver | ErrorKind::Fault => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
        _ => Err(Failure::usage(error.to_string())),
    }
}

/// Refuses what only the interpreter can do.
fn of_the_cpu(arguments: &Arguments) -> Result<(), Failure> {
    let options = [
        ("--trace", !arguments.trace.is_empty(), "a GPU shows no single instruction"),
        ("--seed", arguments.kernel.seed != 0, "a GPU orders its threads as it likes"),
        ("--seeds", arguments.seeds != 1, "a GPU orders its threads as it likes"),
        ("--steps", arguments.kernel.steps.is_some(), "a GPU counts no steps"),
    ];
    match options.iter().find(|(_, given, _)| *given) {
        Some((name, _, why)) => {
            Err(Failure::usage(format!("`{name}` is the CPU device's: {why}; leave out `{name}` or `--device cuda`")))
        }
        None => Ok(()),
    }
}

/// A launch with its arguments on the first GPU.
pub(crate) struct OnGpu<'a> {
    pub(crate) device: Device,
    kernel: RuntimeKernel,
    config: Config,
    values: Vec<Value<'a>>,
}

/// The value of an argument.
enum Value<'a> {
    Plain(Vec<u8>),
    Memory(Buffer<u8>, Option<&'a Path>),
    /// The bytes of a map, and its memory.
    Map(Vec<u8>, Buffer<u8>, Option<&'a Path>),
}

impl<'a> OnGpu<'a> {
    /// Loads the kernel and its arguments. The outer error is of the call, the inner one of the driver.
    pub(crate) fn new(
        kernel: &'a LaunchArguments,
        source: &Source,
        checked: &Checked,
    ) -> Result<ptx_runtime::Result<OnGpu<'a>>, Failure> {
        let module = checked.module();
        let names = module.functions.iter().filter(|f| f.entry && f.defined).map(|f| f.name.as_str()).collect();
        let entry = kernel.entry_of(source, names)?;
        kernel.check_arguments(&declared(module, entry))?;
        let plain = kernel.args.iter().map(Plain::read).collect::<Result<Vec<_>, _>>()?;
        let ptx = String::from_utf8_lossy(&source.bytes);
        let name = kernel.file.display().to_string();
        let size = kernel.size_of(source, module, entry)?;
        let config = Config::grid(size.grid).block(size.block).cluster(size.cluster).shared(size.shared);
        let config = config.cooperative(size.cooperative);
        let load = || {
            let device = Device::cuda(0)?;
            let kernel = RuntimeModule::load(&device, &name, &ptx)?.kernel(entry)?;
            let values = plain.into_iter().map(|plain| plain.upload(&device)).collect::<ptx_runtime::Result<_>>()?;
            Ok(OnGpu { device, kernel, config, values })
        };
        Ok(load())
    }

    /// Launches the kernel once, and waits for its end.
    fn run(mut self) -> ptx_runtime::Result<OnGpu<'a>> {
        self.submit()?;
        self.device.synchronize()?;
        Ok(self)
    }

    /// Submits the kernel once.
    #[allow(unsafe_code, reason = "whoever runs the command vouches for the kernel")]
    pub(crate) fn submit(&mut self) -> ptx_runtime::Result<()> {
        let mut launch = self.kernel.launch(self.config);
        for value in &mut self.values {
            launch = match value {
                Value::Plain(bytes) | Value::Map(bytes, ..) => launch.bytes(bytes)?,
                Value::Memory(buffer, _) => launch.write(buffer)?,
            };
        }
        // SAFETY: the kernel is what the user asked to run. It gets the addresses of these buffers alone, and one that writes astray
        // spoils what this process has on the device, which is nothing else.
        unsafe { launch.submit(&self.device) }
    }

    /// The name of the kernel.
    pub(crate) fn entry(&self) -> &'static str {
        self.kernel.kernel().entry
    }

    /// Writes the buffers that become files.
    fn save(self) -> Result<(), Failure> {
        for value in &self.values {
            if let Value::Memory(buffer, Some(path)) | Value::Map(_, buffer, Some(path)) = value {
                let bytes = buffer.download().map_err(|error| Failure::usage(error.to_string()))?;
                write::replace(path, &bytes)?;
            }
        }
        Ok(())
    }
}

/// An argument before it is on a device.
enum Plain<'a> {
    Value(Vec<u8>),
    Memory(Vec<u8>, Option<&'a Path>),
    Map(&'a Tensor, Vec<u8>),
}

impl<'a> Plain<'a> {
    fn read(argument: &'a Argument) -> Result<Plain<'a>, Failure> {
        Ok(match argument {
            Argument::Scalar(_, bytes) | Argument::Struct(bytes) => Plain::Value(bytes.clone()),
            Argument::Bytes(path) => Plain::Value(read_bytes(path, "an argument has at most 32764 bytes")?),
            Argument::Texture(_) => {
                let text = "`--arg tex:` is the CPU device's: on a GPU give the texture to a typed launch (`ptx_launch::Texture`)";
                return Err(Failure::usage(text.to_owned()));
            }
            Argument::Memory(memory) => Plain::Memory(contents(memory)?, memory.to.as_deref()),
            Argument::Tensor(tensor) => {
                let bytes = contents(&tensor.memory)?;
                tensor.fits(bytes.len() as u64).map_err(Failure::usage)?;
                Plain::Map(tensor, bytes)
            }
        })
    }

    fn upload(self, device: &Device) -> ptx_runtime::Result<Value<'a>> {
        Ok(match self {
            Plain::Value(bytes) => Value::Plain(bytes),
            Plain::Memory(bytes, to) => Value::Memory(device.upload(&bytes)?, to),
            Plain::Map(tensor, bytes) => {
                let buffer = device.upload(&bytes)?;
                let map = tensor.finish(TensorMap::of::<u8>(device, &buffer, tensor.shape())?)?;
                Value::Map(map, buffer, tensor.memory.to.as_deref())
            }
        })
    }
}

fn contents(memory: &Memory) -> Result<Vec<u8>, Failure> {
    match &memory.from {
        Contents::File(path) => read_bytes(path, "a buffer from a file has at most 1 GiB"),
        Contents::Filled(bytes, value) => {
            let bytes = usize::try_from(*bytes).ok().filter(|bytes| *bytes <= 1 << 36);
            Ok(vec![*value; bytes.ok_or_else(|| Failure::usage("a buffer has at most 64 GiB"))?])
        }
    }
}
