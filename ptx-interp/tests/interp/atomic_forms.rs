//! Kernels around `atom` and `red`: every operation, type, space, order, scope and vector.

use crate::tensor_forms::{Scene, entry, kind};

const THREADS: u32 = 64;
const SPACES: [&str; 5] = [".global", ".shared", ".shared::cta", ".shared::cluster", ""];
const ORDERS: [&str; 12] = [
    "",
    ".relaxed.cta",
    ".acquire.gpu",
    ".release.sys",
    ".acq_rel.cluster",
    ".relaxed.gpu",
    ".cta",
    ".gpu",
    ".sys",
    ".cluster",
    ".relaxed.cluster",
    ".acq_rel.sys",
];
const OPERATIONS: [(&str, &[&str]); 10] = [
    ("add", &["u32", "s32", "u64", "f32", "f64"]),
    ("add.noftz", &["f16", "bf16", "f16x2", "bf16x2"]),
    ("min", &["u32", "s32", "u64", "s64"]),
    ("max", &["u32", "s32", "u64", "s64"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
    ("exch", &["b32", "b64", "b128"]),
];
const VECTORS: [(&str, &str, &[usize]); 7] = [
    ("add", "f32", &[2, 4]),
    ("add.noftz", "f16", &[2, 4, 8]),
    ("add.noftz", "bf16", &[2, 4, 8]),
    ("min.noftz", "f16", &[2, 4, 8]),
    ("max.noftz", "bf16", &[2, 4, 8]),
    ("add.noftz", "f16x2", &[2, 4]),
    ("max.noftz", "bf16x2", &[2, 4]),
];

fn bits(ty: &str) -> usize {
    let number = ty.trim_start_matches(char::is_alphabetic);
    if ty.ends_with("x2") { 32 } else { number.parse().unwrap() }
}

/// Spelling of an instruction.
struct Form<'a> {
    opcode: &'a str,
    order: &'a str,
    space: &'a str,
    op: &'a str,
    ty: &'a str,
    count: usize,
    /// One address for all threads; `red` only, or the result would be that of one order.
    together: bool,
    /// Literal instead of a register operand.
    literal: Option<&'a str>,
}

impl Form<'_> {
    fn instruction(&self) -> String {
        let vector = if self.count == 1 { String::new() } else { format!(".v{}", self.count) };
        let list = |name: &str| {
            let all: Vec<String> = (0..self.count).map(|i| format!("%{name}_{i}")).collect();
            if self.count == 1 { all.concat() } else { format!("{{{}}}", all.join(", ")) }
        };
        let (to, third) = (format!("{}, ", list("d")), if self.op == "cas" { ", %third" } else { "" });
        let source = self.literal.map_or_else(|| list("s"), str::to_owned);
        format!(
            "{}{}{}.{}{vector}.{} {}[%p_at], {source}{third};",
            self.opcode,
            self.order,
            self.space,
            self.op,
            self.ty,
            if self.opcode == "red" { String::new() } else { to },
        )
    }

    fn scene(&self) -> Scene {
        let (bits, count) = (bits(self.ty), self.count);
        let (bytes, own) = (bits / 8, bits / 8 * count);
        let each = |f: &dyn Fn(usize) -> String| (0..count).map(f).collect::<String>();
        let shared = self.space.contains("shared") || self.space.is_empty();
        // A generic address means shared memory here: `.global` has all of its own.
        let to = match (self.space, self.together) {
            ("", _) => "cvt.u64.u32 %p_at, %sh; cvta.shared.u64 %p_at, %p_at;",
            (".global", _) => "mov.u64 %p_at, %o;",
            _ => "cvt.u64.u32 %p_at, %sh;",
        };
        let scale = if self.together { 0 } else { own };
        let class = format!("b{bits}");
        let body = format!(
            ".shared .align 16 .b8 sm[2048]; .reg .b32 %sh; .reg .{class} %s_<8>, %d_<8>, %third; .reg .b64 %o, %p_at, %y;\n\
             mul.wide.u32 %at, %t, {own}; add.u64 %x, %a, %at; mov.u32 %sh, sm; mad.lo.u32 %sh, %t, {own}, %sh; add.u64 %o, %out, %at; add.u64 %y, %c, %at;\n\
             {} ld.global.{class} %third, [%y+16384]; bar.sync 0;\n\
             mul.wide.u32 %at, %t, {scale}; add.u64 %o, %out, %at; mov.u32 %sh, sm; mad.lo.u32 %sh, %t, {scale}, %sh; {to}\n\
             {}\nbar.sync 0; mul.wide.u32 %at, %t, {own}; add.u64 %o, %out, %at; mov.u32 %sh, sm; mad.lo.u32 %sh, %t, {own}, %sh;\n{}{}",
            each(&|i| format!(
                "ld.global.{class} %s_{i}, [%x+{at}]; st.shared.{class} [%sh+{at}], %s_{i}; st.global.{class} [%o+{at}], %s_{i}; \
                 ld.global.{class} %s_{i}, [%y+{}]; ld.global.{class} %d_{i}, [%y+{}]; ",
                8192 + i * bytes,
                8192 + i * bytes,
                at = i * bytes
            )),
            self.instruction(),
            if self.opcode == "red" {
                String::new()
            } else {
                each(&|i| format!("st.global.{class} [%o+{}], %d_{i}; ", THREADS as usize * own + i * bytes))
            },
            if shared {
                each(&|i| {
                    format!(
                        "ld.shared.{class} %d_{i}, [%sh+{at}]; st.global.{class} [%o+{at}], %d_{i}; ",
                        at = i * bytes
                    )
                })
            } else {
                String::new()
            },
        );
        let element = self.ty.trim_end_matches("x2");
        let out = 2 * THREADS as usize * own;
        let together = if self.together { " of one address" } else { "" };
        Scene {
            name: format!("{}{together}", self.instruction()),
            entry: entry(out, &body),
            pools: [kind(element), "bits", kind(element), "bits"],
            threads: THREADS,
            out,
            map: None,
            cluster: 1,
        }
    }
}

pub(crate) fn scenes() -> Vec<Scene> {
    let (mut found, mut turn) = (Vec::new(), 0);
    for space in SPACES {
        for opcode in ["atom", "red"] {
            for (op, types) in OPERATIONS.iter().filter(|(op, _)| opcode == "atom" || *op != "exch") {
                for ty in *types {
                    turn += 1;
                    let form = Form { opcode, order: "", space, op, ty, count: 1, together: false, literal: None };
                    found.push(form.scene());
                    found.push(Form { order: ORDERS[turn % ORDERS.len()], ..form }.scene());
                    if !ty.contains('f') && *ty != "b128" {
                        found
                            .push(Form { order: ORDERS[turn * 5 % ORDERS.len()], literal: Some("13"), ..form }.scene());
                    }
                    let one = opcode == "red" && !ty.contains('f');
                    if one && !["inc", "dec"].contains(op) {
                        found.push(Form { together: true, ..form }.scene());
                    }
                    if one {
                        found.push(Form { together: true, literal: Some("1000000000"), ..form }.scene());
                    }
                }
            }
        }
        for ty in ["b16", "b32", "b64", "b128"] {
            for order in ORDERS {
                found.push(
                    Form { opcode: "atom", order, space, op: "cas", ty, count: 1, together: false, literal: None }
                        .scene(),
                );
            }
        }
        for order in ORDERS {
            for (opcode, op, ty) in
                [("atom", "add", "u32"), ("red", "max", "s64"), ("atom", "exch", "b64"), ("red", "add.noftz", "f16x2")]
            {
                found.push(Form { opcode, order, space, op, ty, count: 1, together: false, literal: None }.scene());
            }
        }
    }
    for opcode in ["atom", "red"] {
        for (op, ty, counts) in VECTORS {
            for count in counts {
                for order in ["", ".relaxed.gpu", ".release.sys"] {
                    found.push(
                        Form { opcode, order, space: ".global", op, ty, count: *count, together: false, literal: None }
                            .scene(),
                    );
                }
            }
        }
    }
    found
}
