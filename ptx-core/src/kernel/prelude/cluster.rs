//! Clusters of blocks and their distributed shared memory. For `sm_90` and later.

/// This block's number in its cluster: `mov` from `%cluster_ctarank`.
fn rank() -> u32 {
    cluster_ctarank
}

/// Waits for all threads of the cluster: `barrier.cluster.arrive` and `barrier.cluster.wait`.
fn sync() {
    ptx! {
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
    }
}

/// Arrives without making writes visible: `barrier.cluster.arrive.relaxed`.
fn arrive_relaxed() {
    ptx! { barrier.cluster.arrive.relaxed.aligned; }
}

/// Waits for those who have arrived: `barrier.cluster.wait`.
fn wait() {
    ptx! { barrier.cluster.wait.aligned; }
}

/// The address of `address` in the shared memory of the cluster's block `block`: `mapa.shared::cluster.u32`.
fn map(address: u32, block: u32) -> u32 {
    let remote: u32;
    ptx! { mapa.shared::cluster.u32 remote, address, block; }
    remote
}

/// The number of this thread's warp group in its block, which the compiler knows to be one for the warp: `shr` and
/// `shfl.sync.idx`.
fn warp_group() -> u32 {
    let group: u32 = tid.x >> 7;
    ptx! { shfl.sync.idx.b32 group, group, 0, 31, 0xffffffff; }
    group
}
