//! `ptx run --device cuda`: the same launch on a GPU. The driver is looked for when the command runs, not when it is built.

use super::Arguments;
use crate::launch::argument::Argument;
use crate::launch::declared;
use crate::output::{Failure, Outcome};
use crate::source::{Source, read_bytes};
use crate::write;
use ptx_core::check::Checked;
use ptx_runtime::{Config, Device, ErrorKind, RuntimeKernel, RuntimeModule};
use std::io::Write;

/// Sound if the kernel ends; what goes wrong on the GPU is the driver's message.
pub(super) fn launch(arguments: &Arguments, source: &Source, checked: &Checked, out: &mut dyn Write) -> Outcome {
    of_the_cpu(arguments)?;
    let module = checked.module();
    let names = module.functions.iter().filter(|f| f.entry && f.defined).map(|f| f.name.as_str()).collect();
    let kernel = &arguments.kernel;
    let entry = kernel.entry_of(names)?;
    let declared = declared(module, entry);
    kernel.check_arguments(&declared)?;
    let mut values = arguments.kernel.args.iter().map(value).collect::<Result<Vec<_>, _>>()?;
    let ptx = String::from_utf8_lossy(&source.bytes);
    let name = kernel.file.display().to_string();
    let (block, cluster) = (kernel.block_of(module, entry), kernel.cluster_of(module, entry));
    let config = Config::grid(kernel.grid).block(block).cluster(cluster).shared(kernel.shared);
    let config = config.cooperative(kernel.cooperative);
    let result = Device::cuda(0).and_then(|device| {
        let kernel = RuntimeModule::load(&device, &name, &ptx)?.kernel(entry)?;
        run(&device, kernel, config, &mut values)
    });
    match result {
        Ok(()) => save(arguments, &values),
        Err(error) if matches!(error.kind(), ErrorKind::Driver | ErrorKind::Fault) => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
        Err(error) => Err(Failure::usage(error.to_string())),
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

/// The value of an argument.
enum Value {
    Plain(Vec<u8>),
    /// The contents of a buffer; after the launch what the kernel has left there.
    Memory(Vec<u8>),
}

/// Launches the kernel once, and waits for its end.
#[allow(unsafe_code, reason = "whoever runs the command vouches for the kernel")]
fn run(device: &Device, kernel: RuntimeKernel, config: Config, values: &mut [Value]) -> ptx_runtime::Result<()> {
    let upload = |value: &Value| match value {
        Value::Plain(_) => Ok(None),
        Value::Memory(bytes) => device.upload(bytes).map(Some),
    };
    let mut buffers = values.iter().map(upload).collect::<ptx_runtime::Result<Vec<_>>>()?;
    let mut launch = kernel.launch(config);
    for (value, buffer) in values.iter().zip(&mut buffers) {
        launch = match (value, buffer) {
            (_, Some(buffer)) => launch.write(buffer)?,
            (Value::Plain(bytes) | Value::Memory(bytes), None) => launch.bytes(bytes)?,
        };
    }
    // SAFETY: the kernel is what the user asked to run. It gets the addresses of these buffers alone, and one that writes astray
    // spoils what this process has on the device, which is nothing else.
    unsafe { launch.submit(device)? };
    device.synchronize()?;
    for (value, buffer) in values.iter_mut().zip(&buffers) {
        if let (Value::Memory(bytes), Some(buffer)) = (value, buffer) {
            *bytes = buffer.download()?;
        }
    }
    Ok(())
}

fn value(argument: &Argument) -> Result<Value, Failure> {
    Ok(match argument {
        Argument::Scalar(_, bytes) => Value::Plain(bytes.clone()),
        Argument::Struct(path) => Value::Plain(read_bytes(path, "an argument has at most 32764 bytes")?),
        Argument::Texture(_) => {
            let text =
                "`--arg tex:` is the CPU device's: on a GPU give the texture to a typed launch (`ptx_launch::Texture`)";
            return Err(Failure::usage(text.to_owned()));
        }
        Argument::Input(path) => Value::Memory(read_bytes(path, "a buffer from a file has at most 1 GiB")?),
        Argument::Output(path, bytes) => {
            let bytes = usize::try_from(*bytes).ok().filter(|bytes| *bytes <= 1 << 36);
            let bytes = bytes.ok_or_else(|| Failure::usage(format!("{}: more than 64 GiB", path.display())))?;
            Value::Memory(vec![0; bytes])
        }
    })
}

fn save(arguments: &Arguments, values: &[Value]) -> Outcome {
    for (argument, value) in arguments.kernel.args.iter().zip(values) {
        if let (Argument::Output(path, _), Value::Memory(bytes)) = (argument, value) {
            write::replace(path, bytes)?;
        }
    }
    Ok(true)
}
