//! Matrices whose descriptor and tensor map must agree on the swizzle.

use crate::harness::{kernel, launch, program};
use ptx_interp::tensor_map::{ElementType, TensorMap};
use ptx_interp::{Fault, Machine, Options, Swizzle};

/// A tile of 64 rows of 128 bytes comes by TMA with one swizzle, and is read by `wgmma` with the mode of a descriptor.
fn multiplied(swizzle: Swizzle, mode: u64, between: &str) -> Result<(), Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(16_384)?;
    machine.write(out, &[0; 16_384])?;
    let mut map = TensorMap::tiled(out, ElementType::F16, &[64, 64], &[64, 64]).unwrap();
    map.swizzle = swizzle;
    machine.write(out + 8192, &map.encode())?;
    let descriptor = mode << 62 | 64 << 32 | 1 << 16;
    let text = kernel(&format!(
        ".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar; add.u64 %d9, %out, 8192;
         setp.eq.u32 %p1, %t, 0; mov.u32 %r3, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0; @!%p1 bra WAIT;
         mbarrier.arrive.expect_tx.shared.b64 _, [bar], 8192;
         cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d9, {{%r3, %r3}}], [%r2];
         WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; mov.u64 %d1, {descriptor}; setp.eq.u32 %p2, %t, %t; {between}
         mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d1, %p2, 1, 1, 0, 0;
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret;"
    ));
    let program = program(&text.replace("sm_100a", "sm_90a"));
    launch(&mut machine, &program, 1, 128, &out.to_le_bytes(), Options::default()).map(|_| ())
}

#[test]
fn both_have_one_swizzle() {
    multiplied(Swizzle::B128, 1, "").unwrap();
    let fault = multiplied(Swizzle::B128, 2, "").unwrap_err();
    assert_eq!(fault.finding().map(|code| code.id), Some("W0409"), "{fault}");
    assert!(fault.message.contains("read with 64-byte swizzle, but was copied there with 128-byte swizzle"), "{fault}");
    assert_eq!((fault.parties().len(), fault.named()), (1, Some("`tile`")));
}

/// Whoever writes a tile anew decides how it stands there.
#[test]
fn what_threads_write_has_no_swizzle() {
    let anew = "mov.u32 %r5, 0; mad.lo.u32 %r4, %t, 16, %r1; st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r4+2048], {%r5, %r5, %r5, %r5};
        st.shared.v4.u32 [%r4+4096], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r4+6144], {%r5, %r5, %r5, %r5}; fence.proxy.async; bar.sync 0;";
    multiplied(Swizzle::B128, 2, anew).unwrap();
}
