use ptx_launch::prelude::*;

fn main() -> ptx_launch::Result<()> {
    Device::cpu().upload(&["text"])?;
    Ok(())
}
