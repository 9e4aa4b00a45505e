//! A GPU's results, as text that `gzip -9n` compressed. The tests that compare with them write new ones.

use flate2::read::GzDecoder;
use std::io::Read;
use std::sync::LazyLock;

/// A recording, decoded at its first use.
pub(crate) type Recorded = LazyLock<String>;

macro_rules! recordings {
    ($($name:ident $file:literal)*) => {
        $(pub(crate) static $name: Recorded =
            LazyLock::new(|| decode(include_bytes!(concat!("recorded/", $file, ".txt.gz"))));)*
    };
}
recordings! {
    FORMS "sm_90a"
    FORMS_IN_BLOCKS "sm_90a_1"
    TENSORS "tensor_sm_90a"
    MORE_TENSORS "tensor_sm_90a_1"
    TENSOR_MAPS "tensor_maps_sm_90a"
    TEXTURES "textures_sm_90a"
}

fn decode(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).expect("a recording is text that gzip compressed");
    text
}
