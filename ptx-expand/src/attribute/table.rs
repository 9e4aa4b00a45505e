//! Every option, one entry each: its name, how it is written, and what reads its value.

use super::{Arg, Attribute, Value};
use crate::kernel::Reader;

/// An option of the attribute.
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// Its form, for help.
    pub like: &'static str,
    /// Reads it; `false` where the value has not the option's shape.
    pub(super) read: fn(&mut Reader, &mut Attribute, &Arg) -> bool,
}

/// All of them, in the order of the documentation.
pub const OPTIONS: &[Choice] = &[
    Choice { name: "arch", like: r#"`arch = "sm_90a"`, or several: `arch("sm_80", "sm_90a")`"#, read: Reader::arch },
    Choice { name: "version", like: r#"`version = "8.7"`"#, read: Reader::version },
    Choice { name: "block", like: "`block = 256`, `block = (32, 8)`", read: Reader::block_size },
    Choice {
        name: "grid",
        like: "`grid = n.div_ceil(256)`, `grid = (n, m)`",
        read: |_, a, arg| keep(arg, &mut a.launch.grid),
    },
    Choice { name: "max_block", like: "`max_block = 256`, `max_block = (32, 8)`", read: Reader::max_block_size },
    Choice { name: "cluster", like: "`cluster = 2`, `cluster = (2, 1)`", read: Reader::cluster_size },
    Choice { name: "required_cluster", like: "`required_cluster = 2`", read: Reader::required_cluster_size },
    Choice {
        name: "explicit_cluster",
        like: "`explicit_cluster`",
        read: |_, a, arg| flag(arg, &mut a.options.explicit_cluster),
    },
    Choice {
        name: "max_cluster",
        like: "`max_cluster = 8`",
        read: |r, a, arg| r.constant_into(arg, &mut a.options.max_cluster),
    },
    Choice { name: "shared", like: "`shared = 4 * n`, in bytes", read: |_, a, arg| keep(arg, &mut a.launch.shared) },
    Choice {
        name: "max_regs",
        like: "`max_regs = 168`",
        read: |r, a, arg| r.constant_into(arg, &mut a.options.max_regs),
    },
    Choice {
        name: "min_blocks",
        like: "`min_blocks = 2`",
        read: |r, a, arg| r.constant_into(arg, &mut a.options.min_blocks),
    },
    Choice { name: "cooperative", like: "`cooperative`", read: |_, a, arg| flag(arg, &mut a.options.cooperative) },
    Choice {
        name: "no_local",
        like: "`no_local`",
        read: |r, a, arg| r.promise(a, arg, |contract| contract.no_local = true),
    },
    Choice {
        name: "no_spills",
        like: "`no_spills`",
        read: |r, a, arg| r.promise(a, arg, |contract| contract.no_spills = true),
    },
    Choice {
        name: "max_registers",
        like: "`max_registers = 128`",
        read: |r, a, arg| r.limit(a, arg, |contract, most| contract.max_registers = most),
    },
    Choice {
        name: "occupancy",
        like: "`occupancy = 2`, blocks of a multiprocessor",
        read: |r, a, arg| r.limit(a, arg, |contract, least| contract.occupancy = least),
    },
    Choice { name: "pdl", like: "`pdl`", read: |_, a, arg| flag(arg, &mut a.launch.pdl) },
    Choice {
        name: "instances",
        like: "`instances = [(128, f32), (256, f16)]`, `instances = [small = (128, f32), large = (256, [f32, f16])]`",
        read: Reader::instances,
    },
    Choice { name: "requires", like: "`requires(x.len() >= n)`", read: Reader::requires },
    Choice { name: "addresses", like: "`addresses(p.partial = [f32; n])`", read: Reader::addresses },
    Choice { name: "unsafe", like: "`unsafe(requires(x.len() >= n))`", read: Reader::vouched },
    Choice { name: "proved", like: "`proved`, `proved(bounds)`, `proved(races)`", read: Reader::proved },
    Choice { name: "params", like: "`params(Name)`", read: Reader::params_structs },
    Choice { name: "parts", like: "`parts(name)`", read: Reader::no_parts },
    Choice { name: "modules", like: "`modules(name)`", read: Reader::no_parts },
    Choice { name: "allow", like: "`allow(P0701)`, the codes of warnings", read: Reader::allowed },
    Choice { name: "lineinfo", like: "`lineinfo`", read: |_, a, arg| flag(arg, &mut a.options.lineinfo) },
    Choice { name: "cubin", like: r#"`cubin`, or for chips: `cubin("sm_80", "sm_90a")`"#, read: Reader::cubins },
    Choice {
        name: "crate",
        like: "`crate = path::to::ptx_launch`",
        read: |_, a, arg| {
            a.root = match &arg.value {
                Value::Equals(syn::Expr::Path(path)) if path.qself.is_none() => Some(path.path.clone()),
                _ => None,
            };
            a.root.is_some()
        },
    },
    Choice { name: "raw", like: "`raw`", read: |_, a, arg| flag(arg, &mut a.options.raw) },
];

/// Names that other languages have for an option.
pub const SYNONYMS: &[(&str, &str)] = &[
    ("threads", "block"),
    ("blockDim", "block"),
    ("blocks", "grid"),
    ("gridDim", "grid"),
    ("smem", "shared"),
    ("dynamic_shared", "shared"),
    ("target", "arch"),
    ("sm", "arch"),
    ("maxnreg", "max_regs"),
    ("launch_bounds", "min_blocks"),
];

fn flag(arg: &Arg, to: &mut bool) -> bool {
    *to = true;
    matches!(arg.value, Value::Nothing)
}

/// `name = expression`, kept as written for the launch function.
fn keep(arg: &Arg, to: &mut Option<syn::Expr>) -> bool {
    let Value::Equals(value) = &arg.value else { return false };
    *to = Some(value.clone());
    true
}
