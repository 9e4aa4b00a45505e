//! Kernels around what the threads of a warp, a block and a cluster do together, with any member mask that is allowed.

use crate::tensor_forms::{Scene, entry};

const THREADS: u32 = 64;

/// Loads `%k` (`b32` or `b64`), `%n` and `%q`; threads whose lane is in `mask` do the instruction on `%d` and `%o`.
fn masked(mask: u32, class: &str, instruction: &str) -> Scene {
    let few = if instruction.starts_with("match") { 3 } else { -1 };
    let body = format!(
        ".reg .{class} %k; .reg .b32 %n, %d, %lane; .reg .pred %o, %q, %in;\n\
         mul.wide.u32 %at, %t, 8; add.u64 %x, %a, %at; ld.global.{class} %k, [%x]; and.{class} %k, %k, {few}; ld.global.b32 %n, [%x+4096];\n\
         and.b32 %w, %n, 0x80; setp.ne.u32 %q, %w, 0; mov.u32 %d, 0x5a5a; setp.ne.u32 %o, %t, %t; mov.u32 %lane, %laneid;\n\
         shr.u32 %w, {mask}, %lane; and.b32 %w, %w, 1; setp.ne.u32 %in, %w, 0; @!%in bra DONE;\n\
         {instruction}\nDONE: selp.u32 %w, 1, 0, %o; add.u64 %x, %out, %at; st.global.v2.b32 [%x], {{%d, %w}};"
    );
    scene(format!("{instruction} of {mask:#x}"), 1, 512, &body)
}

fn scene(name: String, cluster: u32, out: usize, body: &str) -> Scene {
    let mut text = entry(out, body);
    if cluster != 1 {
        text = text.replacen("out)", &format!("out) .reqnctapercluster {cluster}, 1, 1"), 1);
    }
    Scene { name, entry: text, pools: ["bits"; 4], threads: THREADS, out, map: None, cluster }
}

const MASKS: [u32; 8] =
    [u32::MAX, 0xffff, 0x0f0f_0f0f, 0x8000_0001, 0x0001_0000, 0xfffe_ffff, 0x1234_5678, 0xaaaa_aaaa];

/// `shfl`: whole warps with any segments; halves with segments of their own.
fn shuffles() -> Vec<Scene> {
    let mut found = Vec::new();
    for mode in ["up", "down", "bfly", "idx"] {
        let last = if mode == "up" { 0 } else { 31 };
        for segment in [0u32, 16, 24, 28, 30, 31] {
            let c = segment << 8 | if mode == "up" { 0 } else { 31 };
            for b in ["%n", "0", "1", "5", "16", "31", "33"] {
                found.push(masked(u32::MAX, "b32", &format!("shfl.sync.{mode}.b32 %d|%o, %k, {b}, {c}, -1;")));
            }
        }
        for c in [0x0207u32, 0x1003, 0x180b, 0x1e1f, 0x0005, 0x1f00, 0x0010] {
            found.push(masked(u32::MAX, "b32", &format!("shfl.sync.{mode}.b32 %d|%o, %k, %n, {c}, 0xffffffff;")));
        }
        for b in ["%n", "3", "9"] {
            for (mask, segment) in [(0xffffu32, 16u32), (0xff00_ff00, 24), (0x0f00_00f0, 28), (0x3000_0003, 30)] {
                let c = segment << 8 | last;
                found.push(masked(mask, "b32", &format!("shfl.sync.{mode}.b32 %d|%o, %k, {b}, {c}, {mask:#x};")));
            }
            found.push(masked(u32::MAX, "b32", &format!("shfl.sync.{mode}.b32 %d, 0x1234567, {b}, {last}, -1;")));
        }
        found.push(masked(u32::MAX, "b32", &format!("shfl.sync.{mode}.b32 %d|%o, %k, %n, %n, -1;")));
    }
    found
}

fn votes() -> Vec<Scene> {
    let mut found = Vec::new();
    for mask in MASKS {
        let m = format!("{mask:#x}");
        for predicate in ["%q", "!%q"] {
            found.push(masked(mask, "b32", &format!("vote.sync.ballot.b32 %d, {predicate}, {m};")));
            found.extend(
                ["all", "any", "uni"]
                    .map(|v| masked(mask, "b32", &format!("vote.sync.{v}.pred %o, {predicate}, {m};"))),
            );
        }
        for class in ["b32", "b64"] {
            found.push(masked(mask, class, &format!("match.any.sync.{class} %d, %k, {m};")));
            found.push(masked(mask, class, &format!("match.all.sync.{class} %d|%o, %k, {m};")));
            found.push(masked(mask, class, &format!("match.all.sync.{class} %d|%o, 77, {m};")));
        }
        for op in ["add", "min", "max"] {
            found.extend(["u32", "s32"].map(|ty| masked(mask, "b32", &format!("redux.sync.{op}.{ty} %d, %k, {m};"))));
        }
        found.extend(["and", "or", "xor"].map(|op| masked(mask, "b32", &format!("redux.sync.{op}.b32 %d, %k, {m};"))));
        found.push(masked(mask, "b32", &format!("redux.sync.add.s32 %d, 7, {m};")));
        found.push(masked(mask, "b32", &format!("elect.sync %d|%o, {m};")));
        found.push(masked(mask, "b32", &format!("elect.sync _|%o, {m};")));
        found.push(masked(mask, "b32", &format!("bar.warp.sync {m}; mov.u32 %d, 1;")));
        found.push(masked(mask, "b32", "activemask.b32 %d;"));
    }
    found
}

/// Reductions at barriers: a number, the threads, and what is asked.
fn barriers() -> Vec<Scene> {
    let mut found = Vec::new();
    for name in ["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"] {
        for (what, to) in [("popc.u32", "%d"), ("and.pred", "%o"), ("or.pred", "%o")] {
            for operands in ["0, %q", "1, !%q", "15, 64, %q", "3, 64, !%q", "%three, %all, %q"] {
                let (op, ty) = what.split_once('.').unwrap();
                let aligned = if name.starts_with("barrier") && operands.starts_with('1') { ".aligned" } else { "" };
                let instruction = format!("{name}.{op}{aligned}.{ty} {to}, {operands};");
                found.push(masked(
                    u32::MAX,
                    "b32",
                    &format!(".reg .b32 %three, %all; mov.u32 %three, 3; mov.u32 %all, 64; {instruction}"),
                ));
            }
        }
    }
    // Those of one warp only.
    found.push(masked(u32::MAX, "b32", "setp.ge.u32 %in, %t, 32; @%in bra DONE; bar.red.popc.u32 %d, 2, 32, %q;"));
    found
}

/// Names of shared memory in a cluster of two: `mapa`, `getctarank`, and stores into the other block.
fn clusters() -> Vec<Scene> {
    let around = |instruction: &str| {
        format!(
            ".shared .align 16 .b8 sm[1024]; .reg .b32 %s, %r, %d, %f; .reg .b64 %y;\n\
             mov.u32 %s, sm; mad.lo.u32 %s, %t, 4, %s; mul.wide.u32 %at, %t, 8; add.u64 %x, %a, %at; ld.global.b32 %d, [%x];\n\
             st.shared.b32 [%s], %d; mov.u32 %r, %cluster_ctarank; xor.b32 %r, %r, 1; barrier.cluster.arrive; barrier.cluster.wait;\n\
             {instruction}\nbarrier.cluster.arrive; barrier.cluster.wait; add.u64 %x, %out, %at; ld.shared.b32 %f, [%s]; st.global.v2.b32 [%x], {{%d, %f}};"
        )
    };
    let bodies = [
        "mapa.shared::cluster.u32 %w, %s, %r; ld.shared::cluster.u32 %d, [%w];",
        "mapa.shared::cluster.u32 %w, %s, %r; st.shared::cluster.u32 [%w], %t;",
        "mapa.shared::cluster.u32 %w, %s, %r; getctarank.shared::cluster.u32 %d, %w;",
        "mapa.shared::cluster.u32 %w, %s, 1; getctarank.shared::cluster.u32 %d, %w;",
        "mapa.shared::cluster.u32 %w, sm, %r; ld.shared::cluster.u32 %d, [%w+8];",
        "cvt.u64.u32 %y, %s; cvta.shared.u64 %y, %y; mapa.u64 %y, %y, %r; ld.u32 %d, [%y];",
        "cvt.u64.u32 %y, %s; cvta.shared.u64 %y, %y; mapa.u64 %y, %y, %r; getctarank.u64 %d, %y;",
        "cvt.u64.u32 %y, %s; cvta.shared.u64 %y, %y; getctarank.u64 %d, %y;",
        "getctarank.shared::cluster.u32 %d, %s;",
        "getctarank.shared::cluster.u32 %d, sm;",
        "cvt.u64.u32 %y, %s; cvta.shared::cluster.u64 %y, %y; mapa.u64 %y, %y, %r; isspacep.shared::cluster %p, %y; selp.u32 %d, 1, 0, %p;",
        "cvt.u64.u32 %y, %s; cvta.shared::cluster.u64 %y, %y; mapa.u64 %y, %y, %r; isspacep.shared::cta %p, %y; selp.u32 %d, 1, 0, %p;",
        "cvt.u64.u32 %y, %s; cvta.shared::cluster.u64 %y, %y; mapa.u64 %y, %y, %r; isspacep.shared %p, %y; selp.u32 %d, 1, 0, %p;",
        "mapa.shared::cluster.u32 %w, %s, %r; atom.shared::cluster.add.u32 %d, [%w], %t;",
        "mapa.shared::cluster.u32 %w, sm, %r; red.shared::cluster.add.u32 [%w], %t;",
        "mapa.shared::cluster.u32 %w, %s, %r; atom.relaxed.cluster.shared::cluster.cas.b32 %d, [%w], %t, %r;",
    ];
    let specials = [
        "cluster_ctarank",
        "cluster_nctarank",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "clusterid.x",
        "nclusterid.x",
        "cluster_ctaid.y",
        "nctaid.x",
        "ctaid.x",
        "ntid.x",
        "tid.x",
        "laneid",
        "lanemask_eq",
        "lanemask_le",
        "lanemask_lt",
        "lanemask_ge",
        "lanemask_gt",
        "total_smem_size",
        "dynamic_smem_size",
        "aggr_smem_size",
        "reserved_smem_offset_0",
        "reserved_smem_offset_begin",
        "reserved_smem_offset_end",
        "reserved_smem_offset_cap",
    ];
    let read = |name: &&str| format!("mov.u32 %d, %{name};");
    let mut found: Vec<Scene> = bodies.iter().map(|b| scene((*b).to_string(), 2, 512, &around(b))).collect();
    found.extend(specials.iter().map(|s| scene(read(s), 2, 512, &around(&read(s)))));
    found.push(scene(
        "is_explicit_cluster".into(),
        2,
        512,
        &around("mov.pred %p, %is_explicit_cluster; selp.u32 %d, 1, 0, %p;"),
    ));
    found
}

/// Instructions that ptxas takes for any divergence: guards, branches within a warp, calls.
fn divergence() -> Vec<Scene> {
    let bodies = [
        "and.b32 %w, %n, 3; mov.u32 %d, 0; LOOP: add.u32 %d, %d, %k; sub.u32 %w, %w, 1; setp.ge.s32 %in, %w, 0; @%in bra LOOP;",
        "@%q bra ONE; mul.lo.u32 %d, %k, 3; bra.uni TWO; ONE: sub.u32 %d, %k, %n; TWO: vote.sync.ballot.b32 %w, %q, -1; add.u32 %d, %d, %w;",
        "setp.lt.u32 %o|%in, %k, %n; @%o mov.u32 %d, 1; @%in mov.u32 %d, 2;",
        "setp.lt.and.u32 %o|%in, %k, %n, !%q; selp.u32 %d, 3, 4, %in;",
        "and.b32 %w, %n, 3; T: .branchtargets A, B, C, D; brx.idx %w, T; A: mov.u32 %d, 1; bra E; B: mov.u32 %d, 2; bra E; C: mov.u32 %d, 3; bra E; D: mov.u32 %d, 4; E: add.u32 %d, %d, %k;",
    ];
    bodies.iter().map(|b| masked(u32::MAX, "b32", b)).collect()
}

pub(crate) fn scenes() -> Vec<Scene> {
    [shuffles(), votes(), barriers(), clusters(), divergence()].concat()
}
