//! Kernels around reductions in memory (bulk, of tensors, remote, atomic) and what the lanes of a warp do together.

use crate::tensor_forms::{Scene, entry, kind};

/// Operations and the types that bulk reductions into global memory have.
const REDUCTIONS: [(&str, &[&str]); 9] = [
    ("add", &["u32", "s32", "u64", "f32", "f64"]),
    ("add.noftz", &["f16", "bf16"]),
    ("min", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("max", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
];

/// Bytes that a reduction works on.
const BYTES: usize = 512;

/// Shared memory filled from pool A, the output (or shared memory behind) from pool C.
fn filled(body: &str) -> String {
    format!(
        ".shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar; .reg .b32 %s, %m, %z; .reg .b32 %v_<2>; .reg .b64 %w_<2>; .reg .pred %q;\n\
         mov.u32 %s, sm; mov.u32 %m, bar; mul.wide.u32 %at, %t, 4; add.u64 %x, %a, %at; mad.lo.u32 %z, %t, 4, %s;\n\
         ld.global.b32 %v_0, [%x]; st.shared.b32 [%z], %v_0; add.u64 %x, %c, %at; ld.global.b32 %v_0, [%x+8192];\n\
         st.shared.b32 [%z+512], %v_0; add.u64 %x, %out, %at; st.global.b32 [%x], %v_0;\n\
         setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%m], 1;\n\
         fence.proxy.async; fence.mbarrier_init.release.cluster; membar.gl; bar.sync 0;\n{body}"
    )
}

fn scene(name: String, element: &str, threads: u32, out: usize, body: &str) -> Scene {
    let pools = [kind(element), "bits", kind(element), "bits"];
    // What goes to other blocks' memory requires a cluster.
    let alone = if name.contains("shared::cluster") { "out) .reqnctapercluster 1, 1, 1" } else { "out)" };
    Scene { name, entry: entry(out, body).replacen("out)", alone, 1), pools, threads, out, map: None, cluster: 1 }
}

/// `cp.reduce.async.bulk` into global memory, from the first thread.
fn to_global(op: &str, ty: &str) -> Scene {
    let name = format!("cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{ty}");
    let body = format!("@%p {name} [%out], [%s], {BYTES}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
    scene(name, ty, 128, BYTES, &filled(&body))
}

/// The second half of shared memory, written out.
const OUT: &str = "add.u64 %x, %out, %at; ld.shared.b32 %v_0, [%z+512]; st.global.b32 [%x], %v_0;";
const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%m], 0; @!%q bra WAIT;";

/// Into shared memory, counted by an mbarrier.
fn to_shared(op: &str, ty: &str) -> Scene {
    let name = format!("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{ty}");
    let body = format!(
        "add.u32 %v_1, %s, 512; @%p mbarrier.arrive.expect_tx.shared.b64 _, [%m], {BYTES};\n\
         @%p {name} [%v_1], [%s], {BYTES}, [%m]; {WAIT} {OUT}"
    );
    scene(name, ty, 128, BYTES, &filled(&body))
}

/// `red.async` and `st.async` of every thread, counted by an mbarrier.
fn remote(instruction: &str, ty: &str, bytes: usize) -> Scene {
    let wide = if bytes == 8 { "ld.shared.b64 %w_0, [%z+0]; " } else { "ld.shared.b32 %v_0, [%z]; " };
    let value = if bytes == 8 { "%w_0" } else { "%v_0" };
    let body = format!(
        "@%p mbarrier.arrive.expect_tx.shared.b64 _, [%m], {}; bar.sync 0;\n\
         mad.lo.u32 %z, %t, {bytes}, %s; {wide}\n{instruction} [%z+512], {value}, [%m]; {WAIT}\n\
         mad.lo.u32 %z, %t, 4, %s; bar.sync 0; {OUT}",
        64 * bytes
    );
    scene(instruction.to_string(), ty, 64, BYTES, &filled(&body))
}

/// A reduction into a tensor of rows of 64 bytes: eight of them.
fn to_tensor(op: &str, element: &'static str) -> Scene {
    let name = format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group");
    let body = format!(
        "mov.u32 %v_1, %ctaid.x; shl.b32 %v_1, %v_1, 3; mov.u32 %v_0, 0; mov.b64 %x, map; cvta.param.u64 %x, %x;\n\
         @%p {name} [%x, {{%v_0, %v_1}}], [%s]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    );
    let ty = if element == "f32ftz" { "f32" } else { element };
    let plain = scene(format!("{name} {element}"), ty, 128, BYTES, &filled(&body));
    let entry = plain.entry.replace(".param .u64 out)", ".param .u64 out, .param .align 128 .b8 map[128])");
    Scene { entry, map: Some(element), ..plain }
}

/// `atom` and `red` of every thread on a word of its own.
fn atomic(space: &str, op: &str, ty: &str) -> Scene {
    let bits: u32 = ty.trim_start_matches(char::is_alphabetic).trim_end_matches("x2").parse().unwrap();
    let bits = if ty.ends_with("x2") { 32 } else { bits };
    let noftz = if ["f16", "bf16", "f16x2", "bf16x2"].contains(&ty) && op == "add" { ".noftz" } else { "" };
    let address = if space == "shared" { "[%z]" } else { "[%x]" };
    let bytes = bits / 8;
    let third = if op == "cas" { ", %k_2" } else { "" };
    let body = format!(
        ".shared .align 16 .b8 sm[2048]; .reg .b32 %z; .reg .b{bits} %k_<4>; .reg .b64 %o;\n\
         mul.wide.u32 %at, %t, {bytes}; mov.u32 %z, sm; mad.lo.u32 %z, %t, {bytes}, %z;\n\
         add.u64 %x, %a, %at; ld.global.b{bits} %k_0, [%x]; st.shared.b{bits} [%z], %k_0;\n\
         add.u64 %x, %c, %at; ld.global.b{bits} %k_1, [%x+8192]; ld.global.b{bits} %k_2, [%x+16384];\n\
         add.u64 %o, %out, %at; mov.u64 %x, %o; st.global.b{bits} [%x], %k_0;\n\
         atom.{space}.{op}{noftz}.{ty} %k_3, {address}, %k_1{third}; st.global.b{bits} [%o+{}], %k_3;\n{}",
        128 * bytes,
        if space == "shared" {
            format!("ld.shared.b{bits} %k_3, [%z]; st.global.b{bits} [%o], %k_3;")
        } else {
            String::new()
        },
    );
    let element = ty.trim_end_matches("x2");
    scene(format!("atom.{space}.{op}{noftz}.{ty}"), element, 128, 256 * bytes as usize, &body)
}

/// Instructions of a warp on `%k_0` and `%k_1` (a small number), with `%d` and `%e` written.
fn warp(instruction: &str) -> Scene {
    let wide = if instruction.contains("64") { "b64" } else { "b32" };
    let body = format!(
        ".reg .{wide} %k_0; .reg .b32 %k_1, %d_0, %d_1; .reg .f32 %f; .reg .pred %o, %q;\n\
         mul.wide.u32 %at, %t, 8; add.u64 %x, %a, %at; ld.global.{wide} %k_0, [%x]; and.{wide} %k_0, %k_0, %ctaid_mask;\n\
         ld.global.b32 %k_1, [%x+4096]; and.b32 %w, %k_1, 1; setp.eq.u32 %p, %w, 1; and.b32 %k_1, %k_1, 31; mov.u32 %d_0, 0; setp.ne.u32 %o, 0, 0;\n\
         {instruction}\nselp.u32 %d_1, 1, 0, %o; mul.wide.u32 %at, %t, 8; add.u64 %x, %out, %at; st.global.v2.b32 [%x], {{%d_0, %d_1}};"
    );
    // Few different values in some blocks, so that some are the same.
    let masked = format!(
        ".reg .{wide} %ctaid_mask; .reg .pred %few; mov.u32 %w, %ctaid.x; setp.lt.u32 %few, %w, 3; selp.{wide} %ctaid_mask, 3, -1, %few;\n{body}"
    );
    scene(instruction.to_string(), "bits", 64, 512, &masked)
}

const WARP: [&str; 22] = [
    "shfl.sync.up.b32 %d_0|%o, %k_0, %k_1, 0, -1;",
    "shfl.sync.up.b32 %d_0|%o, %k_0, %k_1, 0x1804, -1;",
    "shfl.sync.down.b32 %d_0|%o, %k_0, %k_1, 31, -1;",
    "shfl.sync.down.b32 %d_0|%o, %k_0, %k_1, 0x181f, -1;",
    "shfl.sync.bfly.b32 %d_0|%o, %k_0, %k_1, 0x1c1f, -1;",
    "shfl.sync.idx.b32 %d_0|%o, %k_0, %k_1, 0x1007, -1;",
    "shfl.sync.idx.b32 %d_0|%o, %k_0, %k_1, %k_1, -1;",
    "vote.sync.ballot.b32 %d_0, %p, -1;",
    "vote.sync.all.pred %o, %p, -1;",
    "vote.sync.any.pred %o, %p, -1;",
    "vote.sync.uni.pred %o, !%p, -1;",
    "match.any.sync.b32 %d_0, %k_0, -1;",
    "match.any.sync.b64 %d_0, %k_0, -1;",
    "match.all.sync.b32 %d_0|%o, %k_0, -1;",
    "match.all.sync.b64 %d_0|%o, %k_0, -1;",
    "redux.sync.add.s32 %d_0, %k_0, -1;",
    "redux.sync.min.s32 %d_0, %k_0, -1;",
    "redux.sync.max.u32 %d_0, %k_0, -1;",
    "redux.sync.xor.b32 %d_0, %k_0, -1;",
    "redux.sync.and.b32 %d_0, %k_0, -1;",
    "elect.sync %d_0|%o, -1;",
    "@%p activemask.b32 %d_0;",
];

const ATOMICS: [(&str, &[&str]); 9] = [
    ("add", &["u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"]),
    ("min", &["u32", "s32", "u64", "s64"]),
    ("max", &["u32", "s32", "u64", "s64"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
    ("exch", &["b32", "b64"]),
    ("cas", &["b16", "b32", "b64"]),
];

const TENSORS: [(&str, &[&str]); 5] = [
    ("add", &["u32", "s32", "u64", "f16", "bf16", "f32", "f64", "f32ftz"]),
    ("min", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("max", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("inc", &["u32"]),
    ("xor", &["u32", "u64"]),
];

pub(crate) fn scenes() -> Vec<Scene> {
    fn all<'a>(list: &'a [(&'a str, &'static [&'static str])]) -> impl Iterator<Item = (&'a str, &'static str)> {
        list.iter().flat_map(|(op, types)| types.iter().map(move |ty| (*op, *ty)))
    }
    let mut found: Vec<Scene> = all(&REDUCTIONS).map(|(op, ty)| to_global(op, ty)).collect();
    let shared = ["u32", "s32", "b32"];
    found.extend(all(&REDUCTIONS).filter(|(_, ty)| shared.contains(ty)).map(|(op, ty)| to_shared(op, ty)));
    found.extend(all(&REDUCTIONS).filter(|(_, ty)| shared.contains(ty)).map(|(op, ty)| {
        remote(&format!("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{ty}"), ty, 4)
    }));
    found.push(remote("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32", "b32", 4));
    found.extend(all(&TENSORS).map(|(op, element)| to_tensor(op, element)));
    for space in ["global", "shared"] {
        found.extend(all(&ATOMICS).map(|(op, ty)| atomic(space, op, ty)));
    }
    found.extend(WARP.iter().map(|instruction| warp(instruction)));
    found
}
