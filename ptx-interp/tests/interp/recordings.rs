//! A GPU's results, as text that `gzip -9n` compressed. The tests that compare with them write new ones.

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

/// Bytes of the head that `gzip -n` writes, which has no name (RFC 1952).
const HEAD: usize = 10;

fn decode(bytes: &[u8]) -> String {
    let text = miniz_oxide::inflate::decompress_to_vec(&bytes[HEAD..]).expect("a recording that gzip compressed");
    String::from_utf8(text).expect("a recording is text")
}
