//! Cases of tensors and matrices outside of the recordings: forms of Blackwell, against values computed by hand, and
//! misuse.

use crate::harness::{kernel, launch, program, run_words, words_at};
use ptx_interp::tensor_map::{ElementType, TensorMap};
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options};

/// Runs one warp; each thread stores `%r1`.
fn warp(body: &str) -> Vec<u32> {
    run_words(&format!("{body} mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], %r1; ret;"), 1, 32, 32).unwrap()
}

fn kind(body: &str, threads: u32) -> FaultKind {
    run_words(&format!("{body} ret;"), 1, threads, 64).unwrap_err().kind
}

/// 16 rows of 16 bytes: byte b of row r is 16·r + b.
const TABLE: &str = ".shared .align 128 .b8 m[512]; mov.u32 %r2, m; mad.lo.u32 %r3, %t, 16, %r2; mul.lo.u32 %r4, %t, 0x10101010;
  add.u32 %r5, %r4, 0x03020100; add.u32 %r6, %r4, 0x07060504; add.u32 %r7, %r4, 0x0b0a0908; add.u32 %r8, %r4, 0x0f0e0d0c;
  st.shared.v4.b32 [%r3], {%r5, %r6, %r7, %r8}; bar.warp.sync -1;";

#[test]
fn matrices_of_bytes_and_less() {
    let rows = warp(&format!("{TABLE} ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {{%r9, %r1}}, [%r3];"));
    // Register 1: row 8 + t/4 of the transposed matrix, columns 4·(t%4) on.
    let at = |t: u32, i: u32| 16 * (t % 4 * 4 + i) + 8 + t / 4;
    let expected: Vec<u32> = (0..32).map(|t| (0..4).fold(0, |w, i| w | (at(t, i) & 0xff) << (8 * i))).collect();
    assert_eq!(rows, expected);
    let nibbles = warp(&format!("{TABLE} ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {{%r1}}, [%r3];"));
    // Row g begins with the bytes 16·g, 16·g + 1 …; two nibbles each.
    let byte = |t: u32, i: u32| (16 * (t / 4) + (t % 4 * 4 + i) / 2) >> (4 * (i % 2)) & 15;
    let expected: Vec<u32> = (0..32).map(|t| (0..4).fold(0, |w, i| w | byte(t, i) << (8 * i))).collect();
    assert_eq!(nibbles, expected);
}

#[test]
fn random_bits_round() {
    // 1 + 2^-11: half a unit of f16 above 1; 13 bits are cut off, 0x1000 of them set.
    let round = |bits: u32| {
        let body = format!("mov.b32 %f1, 0x3f801000; mov.b32 %r2, {bits}; cvt.rs.f16x2.f32 %r1, %f1, %f1, %r2;");
        warp(&body)[0]
    };
    assert_eq!(round(0x0fff_1000), 0x3c00_3c01);
    assert_eq!(round(0x1000_0fff), 0x3c01_3c00);
}

/// Runs `body` with a map in `%d9` of a tensor of 8 × 16 words that follows 64 bytes of output.
fn mapped(body: &str, change: impl Fn(&mut TensorMap)) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(4096).unwrap();
    let bytes: Vec<u8> = (0..128u32).flat_map(u32::to_le_bytes).collect();
    machine.write(out + 1024, &bytes).unwrap();
    let mut map = TensorMap::tiled(out + 1024, ElementType::U32, &[16, 8], &[4, 1]).unwrap();
    change(&mut map);
    machine.write(out + 2048, &map.encode()).unwrap();
    let text = kernel(&format!(
        ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar; .shared .align 128 .b8 copy[128];
         mov.u32 %r1, s; mov.u32 %r2, bar; add.u64 %d9, %out, 2048; mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; {body}
         ld.shared.v4.u32 {{%r3, %r4, %r5, %r6}}, [%r1]; st.global.v4.u32 [%out], {{%r3, %r4, %r5, %r6}};
         ld.shared.v4.u32 {{%r3, %r4, %r5, %r6}}, [%r1+16]; st.global.v4.u32 [%out+16], {{%r3, %r4, %r5, %r6}}; ret;"
    ));
    let options = Options { watch: false, ..Options::default() };
    launch(&mut machine, &program(&text), 1, 1, &out.to_le_bytes(), options)?;
    Ok(words_at(&machine, out, 8))
}

const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra WAIT;";

fn load(form: &str, coordinates: &str, bytes: u32) -> String {
    format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {bytes};
         cp.async.bulk.tensor.2d.shared::cta.global.{form}mbarrier::complete_tx::bytes [%r1], [%d9, {{{coordinates}}}], [%r2]; {WAIT}"
    )
}

#[test]
fn four_rows_are_gathered() {
    let got = mapped(&load("tile::gather4.", "8, 3, 0, 9, 5", 64), |_| ()).unwrap();
    assert_eq!(got, [56, 57, 58, 59, 8, 9, 10, 11]);
}

#[test]
fn maps_are_changed_by_kernels() {
    let body = "tensormap.replace.tile.global_dim.global.b1024.b32 [%d9], 0, 10; tensormap.replace.tile.box_dim.global.b1024.b32 [%d9], 1, 2;
      fence.proxy.tensormap::generic.acquire.gpu [%d9], 128;";
    let got = mapped(&format!("{body} {}", load("", "8, 1", 32)), |_| ()).unwrap();
    assert_eq!(got, [24, 25, 0, 0, 40, 41, 0, 0]);
}

#[test]
fn bad_maps_are_faults() {
    let load = load("", "0, 0", 16);
    let fault = |change: &dyn Fn(&mut TensorMap)| mapped(&load, change).unwrap_err().kind;
    assert_eq!(fault(&|map| map.rank = 0), FaultKind::BadAccess);
    assert_eq!(fault(&|map| map.rank = 3), FaultKind::Undefined);
    assert_eq!(fault(&|map| map.address = 16), FaultKind::OutOfBounds);
    assert_eq!(fault(&|map| map.strides = [8; 4]), FaultKind::BadAccess);
    let garbage = format!("mov.u64 %d2, -1; st.global.u64 [%d9], %d2; {load}");
    assert_eq!(mapped(&garbage, |_| ()).unwrap_err().kind, FaultKind::BadAccess);
    let odd = mapped(&self::load("", "1, 0", 16), |_| ()).unwrap_err();
    assert_eq!(odd.kind, FaultKind::Undefined, "{odd}");
}

const WGMMA: &str =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1, 0, 0;";

/// `wgmma` on sm_90a in a block of so many threads.
fn wgmma(body: &str, threads: u32) -> Result<(), Fault> {
    let text = kernel(&format!(
        ".shared .align 1024 .b8 s[4096]; setp.eq.u32 %p1, %t, %t; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
         {body} ret;"
    ));
    let text = text.replace("sm_100a", "sm_90a").replace(".version 8.8", ".version 8.0");
    let mut machine = Machine::new();
    let out = machine.alloc(64).unwrap();
    let options = Options { watch: false, ..Options::default() };
    let launch = Launch {
        entry: "k",
        grid: [1; 3],
        block: [threads, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &out.to_le_bytes(),
        options,
    };
    machine.launch(&program(&text), &launch).map(drop)
}

#[test]
fn misused_warpgroups_are_faults() {
    let body = |descriptor: &str| {
        format!(
            "mov.u64 %d1, 0; mov.u64 %d2, {descriptor}; wgmma.fence.sync.aligned; {WGMMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        )
    };
    wgmma(&body("0"), 128).unwrap();
    assert_eq!(wgmma(&body("0"), 64).unwrap_err().kind, FaultKind::Sync);
    // Far behind the shared memory that there is.
    assert_eq!(wgmma(&body("0x3fff"), 128).unwrap_err().kind, FaultKind::OutOfBounds);
    let different = format!("mov.u64 %d1, 0; shr.u32 %r1, %t, 5; cvt.u64.u32 %d2, %r1; {WGMMA}");
    assert_eq!(wgmma(&different, 128).unwrap_err().kind, FaultKind::Sync);
}

#[test]
fn refusals_and_faults_have_reasons() {
    let meaningless = "mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;
      mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}, %r1, 0;";
    assert_eq!(kind(meaningless, 32), FaultKind::Undefined);
    let strides = "mov.u32 %r9, %t; wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%out], %r9;";
    assert_eq!(kind(strides, 32), FaultKind::Undefined);
}

#[test]
fn no_cluster_is_canceled() {
    let body = ".shared .align 16 .b8 s[16]; .shared .align 8 .b64 bar; .reg .b128 %q; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
      mov.u32 %r2, s; mov.u32 %r3, bar; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
      clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r3];
      WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT; ld.shared.b128 %q, [%r2];
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q; selp.u32 %r1, 7, 3, %p2; st.global.u32 [%out], %r1; ret;";
    assert_eq!(run_words(body, 1, 1, 1).unwrap(), [3]);
}
