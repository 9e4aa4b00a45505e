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

/// Arrives, and makes writes visible to those who wait: `barrier.cluster.arrive`.
fn arrive() {
    ptx! { barrier.cluster.arrive.aligned; }
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

/// The number of this thread's warp group in its block, which is the same in a warp for the compiler: `shr` and
/// `shfl.sync.idx`.
fn warp_group() -> u32 {
    let mut group: u32 = tid.x >> 7;
    ptx! { shfl.sync.idx.b32 group, group, 0, 31, 0xffffffff; }
    group
}

/// The number of blocks of the cluster: `mov` from `%cluster_nctarank`.
fn blocks() -> u32 {
    cluster_nctarank
}

/// A value of 32 bits in the shared memory of the cluster's block `block`, at the place that is `address` here: `mapa` and
/// `ld.shared::cluster`.
fn load<T>(address: u32, block: u32) -> T {
    let (remote, mut value): (u32, T) = (map(address, block), 0);
    ptx! { ld.shared::cluster.{T} value, [remote]; }
    value
}

/// Writes a value of 32 bits there: `mapa` and `st.shared::cluster`.
fn store<T>(address: u32, value: T, block: u32) {
    let remote: u32 = map(address, block);
    ptx! { st.shared::cluster.{T} [remote], value; }
}

/// Writes it without waiting, and counts its 4 bytes at the barrier `bar` there: two `mapa` and `st.async`.
fn send(address: u32, value: b32, bar: u32, block: u32) {
    let (remote, signal): (u32, u32) = (map(address, block), map(bar, block));
    ptx! { st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [remote], value, [signal]; }
}

/// Adds to a value of 32 bits there: `mapa` and `red.shared::cluster.add`.
fn add<T>(address: u32, value: T, block: u32) {
    let remote: u32 = map(address, block);
    ptx! { red.relaxed.cluster.shared::cluster.add.{T} [remote], value; }
}
