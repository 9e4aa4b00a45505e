use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 128, grid = 1)]
pub fn kernel(map: TensorMap) {
    #[shared] let (tile, full): ([bf16; 4096], u64);
    let acc: [f32; 8];
    ptx! {
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [map, {0, 0}], [full];
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {acc[..]}, 0, 0, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
    }
}

fn main() {}
