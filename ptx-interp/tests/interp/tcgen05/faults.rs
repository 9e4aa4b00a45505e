//! Misuse: each ends in a fault with what is wrong.

use super::run::{Start, run, run_all};
use crate::harness::{one_in, run_words};
use ptx_interp::{Fault, FaultKind};

fn one(body: &str) -> Fault {
    run("sm_100a", false, &[Start::new()], body).unwrap_err()
}

fn all(body: &str) -> Fault {
    run_all("sm_100a", false, &[Start::new()], body).unwrap_err()
}

/// A kernel without the frame of `run`.
fn bare(body: &str, threads: u32) -> Fault {
    run_words(&format!(".shared .align 4 .b32 slot; {body} ret;"), 1, threads, 1).unwrap_err()
}

fn says(fault: &Fault, kind: FaultKind, words: &str) {
    assert!(fault.kind == kind && fault.message.contains(words), "{:?}: {fault}\nexpected: {words}", fault.kind);
}

#[test]
fn allocation() {
    let alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot],";
    let free = "tcgen05.dealloc.cta_group::1.sync.aligned.b32";
    says(
        &bare(&format!("mov.u32 %r1, 48; {alloc} %r1;"), 32),
        FaultKind::Undefined,
        "48 columns of tensor memory; it must be a power of two",
    );
    says(
        &bare(&format!("{alloc} %t;"), 32),
        FaultKind::Sync,
        "the number of columns is 0x0 in lane 0 and 0x1 in lane 1",
    );
    says(&bare(&format!("{alloc} 32;"), 16), FaultKind::Sync, "some lanes do not exist");
    says(
        &bare(&format!("mov.u32 %r1, 0; {free} %r1, 32;"), 32),
        FaultKind::OutOfBounds,
        "32 columns of tensor memory from column 0 on are given back; allocated are nothing",
    );
    says(
        &bare(&format!("{alloc} 64; ld.shared.u32 %r1, [slot]; {free} %r1, 32;"), 32),
        FaultKind::OutOfBounds,
        "allocated are 64 columns from column 0 on",
    );
    says(
        &bare(&format!("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {alloc} 32;"), 32),
        FaultKind::Sync,
        "after `tcgen05.relinquish_alloc_permit`",
    );
    says(
        &bare("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;", 32),
        FaultKind::Sync,
        "has no block 1",
    );
    says(
        &bare(
            "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%out], 32; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+512], 32;",
            32,
        ),
        FaultKind::OutOfBounds,
        "shared memory",
    );
}

#[test]
fn transfers() {
    let load = |at: &str| all(&format!("{at} tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r2, %r3}}, [%r1];"));
    says(&load("mov.u32 %r1, %tm;"), FaultKind::BadAccess, "from lane 0 on; warp");
    says(&load("add.u32 %r1, %lane, 0x100000;"), FaultKind::BadAccess, "begin at multiples of 32");
    says(&load("add.u32 %r1, %lane, 511;"), FaultKind::OutOfBounds, "of tensor memory: it is column 512");
    says(&load("add.u32 %r1, %lane, %t;"), FaultKind::Sync, "the address in tensor memory is");
    let store = "mov.u32 %r1, 0; tcgen05.st.sync.aligned.16x64b.x1.b32 [%r1], {%r2};";
    says(&bare(&format!("mov.u32 %r2, 0; {store}"), 32), FaultKind::OutOfBounds, "which nobody allocated");
    says(&one("add.u32 %r1, %tm, 0x50000; tcgen05.shift.cta_group::1.down [%r1];"), FaultKind::Misaligned, "lane 5");
    says(
        &one("mov.u64 %d1, 0x6000000000000000; tcgen05.cp.cta_group::1.128x128b [%tm], %d1;"),
        FaultKind::Undefined,
        "swizzle mode 3",
    );
    says(
        &one("mov.u64 %d1, 0x4000004000000000; tcgen05.cp.cta_group::1.128x128b [%tm], %d1;"),
        FaultKind::Undefined,
        "whose bits 46 to 48 are 0b000",
    );
    says(
        &one("mov.u64 %d1, 0x400000003fff; tcgen05.cp.cta_group::1.128x128b [%tm], %d1;"),
        FaultKind::OutOfBounds,
        "a matrix in shared memory that goes beyond",
    );
    says(
        &one("mov.u64 %d1, 0x400000000000; add.u32 %r1, %tm, 0x10000; tcgen05.cp.cta_group::1.128x128b [%r1], %d1;"),
        FaultKind::OutOfBounds,
        "lane 128 of tensor memory",
    );
}

/// A product of 128×16 by 16×16 in f16, with something changed.
fn product(idesc: u32, a: u64, b: u64, d: u32) -> Fault {
    one(&format!(
        "mov.u64 %d1, {a:#x}; mov.u64 %d2, {b:#x}; mov.u32 %r1, {idesc:#x}; setp.eq.u32 %p1, %t, 0; add.u32 %r2, %tm, {d:#x};
         tcgen05.mma.cta_group::1.kind::f16 [%r2], %d1, %d2, %r1, %p1;"
    ))
}

const IDESC: u32 = 8 << 24 | 2 << 17 | 1 << 4;
const FIXED: u64 = 1 << 46;
const K_MAJOR: u64 = 2 << 61 | 64 << 32 | FIXED;

#[test]
fn products() {
    says(&product(4 << 24 | 1 << 4, K_MAJOR, K_MAJOR, 0), FaultKind::Undefined, "N = 0");
    says(&product(0, K_MAJOR, K_MAJOR, 0), FaultKind::Undefined, "M = 0; this instruction takes [64, 128]");
    says(&product(u32::MAX, K_MAJOR, K_MAJOR, 0), FaultKind::Undefined, "which must be 0");
    says(&product(IDESC, 7 << 61, K_MAJOR, 0), FaultKind::Undefined, "swizzle mode 7");
    says(&product(IDESC, K_MAJOR, K_MAJOR ^ FIXED, 0), FaultKind::Undefined, "`tcgen05` needs 0b001 there");
    says(&product(IDESC, K_MAJOR | 1 << 15, K_MAJOR, 0), FaultKind::Undefined, "with bit 15 set, which must be 0");
    says(&product(IDESC, K_MAJOR, K_MAJOR | 1 << 52, 0), FaultKind::Undefined, "it exists on sm_103a");
    says(&product(IDESC | 1 << 15, 1 << 61 | FIXED, K_MAJOR, 0), FaultKind::Undefined, "a transposed matrix of f16");
    says(
        &product(IDESC, 6 << 61 | 1 | FIXED, K_MAJOR, 0),
        FaultKind::Undefined,
        "rows of 32 bytes at 0x10, where B32 swizzle leaves 16",
    );
    says(
        &product(IDESC, K_MAJOR, 2 << 61 | 0x3fff << 32 | FIXED, 0),
        FaultKind::OutOfBounds,
        "a matrix in shared memory",
    );
    says(&product(IDESC, K_MAJOR, K_MAJOR, 500), FaultKind::OutOfBounds, "column 512");
    says(&product(IDESC, K_MAJOR, K_MAJOR, 16 << 16), FaultKind::Misaligned, "D in tensor memory from lane 16 on");
    let metadata = "mov.u64 %d1, 0x400000000000; mov.u32 %r1, 0x08040014; setp.eq.u32 %p1, %t, 0; add.u32 %r3, %tm, 64;
        tcgen05.mma.sp.cta_group::1.kind::f16 [%tm], %d1, %d1, [%r3], %r1, %p1;";
    says(&one(metadata), FaultKind::Undefined, "sparsity metadata of 0000");
    let apart =
        "mov.u64 %d1, 0x400000000000; mov.u32 %r1, 0x04040010; setp.eq.u32 %p1, %t, 0; add.u32 %r3, %tm, 0x100000;
        tcgen05.mma.cta_group::1.kind::f16 [%tm], [%r3], %d1, %r1, %p1;";
    says(&one(apart), FaultKind::Misaligned, "A in tensor memory from lane 16 on, D from lane 0");
    let scales = "mov.u64 %d1, 0x400000000000; mov.u32 %r1, 0x28880480; setp.eq.u32 %p1, %t, 0;
        tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%tm], %d1, %d1, %r1, [%tm], [%tm], %p1;";
    says(&one(scales), FaultKind::Undefined, "scale factor ID 1 with 2 factors in a row");
}

/// Whatever the registers hold, there is a result or a fault.
#[test]
fn hostile_operands() {
    let mut random = super::run::Random(99);
    let mut word =
        || (random.below(1 << 31) as u64) << 33 ^ (random.below(1 << 31) as u64) << 11 ^ random.below(1 << 11) as u64;
    for _ in 0..60 / one_in(4) {
        let (a, b, i, at) = (word(), word(), word() as u32, word() as u32);
        let texts = [
            "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r2], %d1, %d2, %r1, %p1;",
            "tcgen05.mma.ws.sp.cta_group::1.kind::tf32 [%r2], [%r2], %d2, [%r2], %r1, %p1, %d1;",
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r2], %d1, %d2, %r1, [%r2], [%r2], %p1;",
            "tcgen05.cp.cta_group::1.4x256b [%r2], %d1;",
            "tcgen05.shift.cta_group::1.down [%r2];",
        ];
        for (small, text) in [0x8_0000u32, u32::MAX]
            .into_iter()
            .zip(["", "or.b32 %r1, %r1, 0x8000010;"])
            .flat_map(|s| texts.iter().map(move |t| (s, t)))
        {
            let _ = run(
                "sm_100a",
                false,
                &[Start::new()],
                &format!(
                    "mov.u64 %d1, {a:#x}; mov.u64 %d2, {b:#x}; mov.u32 %r1, {i:#x}; {} mov.u32 %r2, {:#x}; setp.eq.u32 %p1, %t, 0; {text}",
                    small.1,
                    at & small.0
                ),
            );
        }
    }
}
