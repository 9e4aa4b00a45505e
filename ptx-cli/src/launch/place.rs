//! Arguments in the memory of the CPU device, and the buffers that become files.

use super::argument::{Argument, Contents, Memory};
use super::unusable;
use crate::output::Failure;
use crate::source::read_bytes;
use crate::write;
use ptx_core::ir::Variable;
use ptx_interp::Machine;
use ptx_runtime::{AsStream, Device, TensorMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a buffer copied at a time.
const PIECE: usize = 1 << 20;

/// A buffer that becomes a file after the run.
pub(super) struct Output<'a> {
    path: &'a Path,
    address: u64,
    bytes: u64,
}

impl Output<'_> {
    pub(super) fn bytes(&self, machine: &Machine) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; usize::try_from(self.bytes).unwrap_or(usize::MAX)];
        machine.read(self.address, &mut bytes).map_err(unusable)?;
        Ok(bytes)
    }

    pub(super) fn save(&self, machine: &Machine) -> Result<(), Failure> {
        write::replace_with(self.path, |out| {
            let mut piece = vec![0; PIECE];
            for at in (0..self.bytes).step_by(PIECE) {
                let length = PIECE.min(usize::try_from(self.bytes - at).unwrap_or(PIECE));
                machine.read(self.address + at, &mut piece[..length]).map_err(unusable)?;
                out.write_all(&piece[..length])?;
            }
            Ok(())
        })
    }
}

/// The bytes of the parameters, each at a multiple of its alignment, and the buffers to save.
pub(super) fn parameters<'a>(
    machine: &mut Machine,
    arguments: &'a [Argument],
    declared: &[&Variable],
) -> Result<(Vec<u8>, Vec<Output<'a>>), Failure> {
    let (mut params, mut outputs) = (Vec::new(), Vec::new());
    for (argument, variable) in arguments.iter().zip(declared) {
        let value = place(machine, argument, &mut outputs)?;
        if value.len() as u64 != variable.size {
            let (has, wants) = (value.len(), variable.size);
            let text = format!("the argument for `{}` has {has} bytes; the parameter has {wants}", variable.name);
            // An address is given for what is passed by value.
            let by_value = matches!(argument, Argument::Memory(_));
            let help = if by_value { "; `--arg bytes@in.bin` passes what a file holds by value" } else { "" };
            return Err(Failure::usage(text + help));
        }
        let align = usize::try_from(variable.align.max(1)).unwrap_or(1);
        params.resize(params.len().next_multiple_of(align), 0);
        params.extend(value);
    }
    Ok((params, outputs))
}

/// The bytes of one parameter: those of the scalar, or the address of its buffer.
fn place<'a>(machine: &mut Machine, argument: &'a Argument, outputs: &mut Vec<Output<'a>>) -> Result<Vec<u8>, Failure> {
    let address = match argument {
        Argument::Scalar(_, bytes) | Argument::Struct(bytes) => return Ok(bytes.clone()),
        Argument::Bytes(path) => return read_bytes(path, "an argument has at most 32764 bytes"),
        Argument::Memory(memory) => buffer(machine, memory, outputs, |_| Ok(()))?,
        Argument::Texture(texels) => {
            let address = upload(machine, &texels.path, |bytes| texels.fits(bytes).map_err(Failure::usage))?.0;
            machine.texture(texels.at(address)).map_err(unusable)?
        }
        Argument::Tensor(tensor) => {
            let fits = |bytes| tensor.fits(bytes).map_err(Failure::usage);
            let address = buffer(machine, &tensor.memory, outputs, fits)?;
            let device = Device::cpu();
            let map = TensorMap::of_address((&device).as_stream(), tensor.element(), address, tensor.shape());
            return tensor.finish(map).map_err(|error| Failure::usage(error.to_string()));
        }
    };
    Ok(address.to_le_bytes().to_vec())
}

/// The address of a buffer with its contents.
fn buffer<'a>(
    machine: &mut Machine,
    memory: &'a Memory,
    outputs: &mut Vec<Output<'a>>,
    fits: impl FnOnce(u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (address, bytes) = match &memory.from {
        Contents::File(path) => upload(machine, path, fits)?,
        Contents::Filled(bytes, value) => (filled(machine, *bytes, *value)?, *bytes),
    };
    outputs.extend(memory.to.as_deref().map(|path| Output { path, address, bytes }));
    Ok(address)
}

fn filled(machine: &mut Machine, bytes: u64, value: u8) -> Result<u64, Failure> {
    let address = machine.alloc(bytes).map_err(unusable)?;
    // They are the host's: a kernel may read them.
    let piece = vec![value; PIECE];
    for at in (0..bytes).step_by(PIECE) {
        let length = PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE));
        machine.write(address + at, &piece[..length]).map_err(unusable)?;
    }
    Ok(address)
}

/// A file's bytes in the machine's memory, if there are as many as are wanted: their address and number.
fn upload(
    machine: &mut Machine,
    path: &Path,
    wanted: impl FnOnce(u64) -> Result<(), Failure>,
) -> Result<(u64, u64), Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let described = file.metadata().map_err(failed)?;
    if !described.is_file() {
        // A pipe does not say how much it holds.
        let bytes = read_bytes(path, "a pipe may give 1 GiB; write a file")?;
        wanted(bytes.len() as u64)?;
        let address = machine.alloc(bytes.len() as u64).map_err(unusable)?;
        machine.write(address, &bytes).map_err(unusable)?;
        return Ok((address, bytes.len() as u64));
    }
    let bytes = described.len();
    wanted(bytes)?;
    let address = machine.alloc(bytes).map_err(unusable)?;
    let mut piece = vec![0; PIECE];
    for at in (0..bytes).step_by(PIECE) {
        let length = PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE));
        file.read_exact(&mut piece[..length]).map_err(failed)?;
        machine.write(address + at, &piece[..length]).map_err(unusable)?;
    }
    Ok((address, bytes))
}
