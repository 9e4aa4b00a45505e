//! Textures and surfaces (9.7.11–12): the CPU device has none, since no launch can give it one. Each says so.

use super::{Op, op};
use crate::interp::site::{Decoded, Site};

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("tex", "", none), op("tld4", "", none), op("txq", "", none), op("istypep", "", none),
    op("suld", "", none), op("sust", "", none), op("sured", "", none), op("suq", "", none),
];

fn none(site: &Site) -> Decoded {
    let name = site.row.name;
    Err(format!(
        "`{name}` needs a texture or a surface, and launches on the CPU device have none; read the memory with `ld`"
    ))
}
