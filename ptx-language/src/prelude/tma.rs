//! Copies of tiles that a tensor map describes. One thread issues them. `map` is a `TensorMap` parameter, `to` and `from`
//! are addresses in shared memory, `bar` that of an `mbarrier`. Coordinates go from the innermost dimension out; three and
//! more are an array. For `sm_90` and later.

/// Fetches a tensor map: `prefetch.tensormap`.
fn prefetch(map: TensorMap) {
    ptx! { prefetch.tensormap [map]; }
}

/// A box of one dimension: `cp.async.bulk.tensor.1d`.
fn load_1d(to: u32, map: TensorMap, x: u32, bar: u32) {
    ptx! { cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [to], [map, {x}], [bar]; }
}

/// A box of two dimensions: `cp.async.bulk.tensor.2d`.
fn load_2d(to: u32, map: TensorMap, x: u32, y: u32, bar: u32) {
    ptx! { cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [to], [map, {x, y}], [bar]; }
}

/// A box of three dimensions: `cp.async.bulk.tensor.3d`.
fn load_3d(to: u32, map: TensorMap, at: [u32; 3], bar: u32) {
    ptx! { cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [to], [map, {at[..]}], [bar]; }
}

/// A box of four dimensions: `cp.async.bulk.tensor.4d`.
fn load_4d(to: u32, map: TensorMap, at: [u32; 4], bar: u32) {
    ptx! {
        cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [to], [map, {at[..]}], [bar];
    }
}

/// A box of five dimensions: `cp.async.bulk.tensor.5d`.
fn load_5d(to: u32, map: TensorMap, at: [u32; 5], bar: u32) {
    ptx! {
        cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [to], [map, {at[..]}], [bar];
    }
}

/// A box of one dimension to the same place in every block of `mask`, and its bytes to the barrier there:
/// `cp.async.bulk.tensor.1d … .multicast::cluster`.
fn load_1d_multicast(to: u32, map: TensorMap, x: u32, bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [to], [map, {x}], [bar], mask;
    }
}

/// A box of two dimensions to the same place in every block of `mask`, and its bytes to the barrier there:
/// `cp.async.bulk.tensor.2d … .multicast::cluster`.
fn load_2d_multicast(to: u32, map: TensorMap, x: u32, y: u32, bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [to], [map, {x, y}], [bar], mask;
    }
}

/// The same for three dimensions: `cp.async.bulk.tensor.3d … .multicast::cluster`.
fn load_3d_multicast(to: u32, map: TensorMap, at: [u32; 3], bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [to], [map, {at[..]}], [bar], mask;
    }
}

/// The same for four dimensions: `cp.async.bulk.tensor.4d … .multicast::cluster`.
fn load_4d_multicast(to: u32, map: TensorMap, at: [u32; 4], bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [to], [map, {at[..]}], [bar], mask;
    }
}

/// The same for five dimensions: `cp.async.bulk.tensor.5d … .multicast::cluster`.
fn load_5d_multicast(to: u32, map: TensorMap, at: [u32; 5], bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [to], [map, {at[..]}], [bar], mask;
    }
}

/// A box of two dimensions for `BLOCKS` blocks of the cluster, those of `mask`: `load_2d`, and `.multicast::cluster` for
/// more than one.
fn load_2d_shared<const BLOCKS: u32>(to: u32, map: TensorMap, x: u32, y: u32, bar: u32, mask: u16) {
    if BLOCKS == 1 {
        load_2d(to, map, x, y, bar);
    } else {
        load_2d_multicast(to, map, x, y, bar, mask);
    }
}

/// The same for a box of three dimensions.
fn load_3d_shared<const BLOCKS: u32>(to: u32, map: TensorMap, at: [u32; 3], bar: u32, mask: u16) {
    if BLOCKS == 1 {
        load_3d(to, map, at, bar);
    } else {
        load_3d_multicast(to, map, at, bar, mask);
    }
}

/// Pixels and channels of a convolution's input, as an `im2col` map defines them: from channel `at[0]`, pixel `at[1]` of image `at[2]` on,
/// `right` pixels from there: `cp.async.bulk.tensor.3d … .im2col`.
fn load_3d_im2col(to: u32, map: TensorMap, at: [u32; 3], right: u16, bar: u32) {
    ptx! {
        cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
            [to], [map, {at[..]}], [bar], {right};
    }
}

/// The same for images of two dimensions, with offsets to the right and down: `cp.async.bulk.tensor.4d … .im2col`.
fn load_4d_im2col(to: u32, map: TensorMap, at: [u32; 4], offsets: [u16; 2], bar: u32) {
    ptx! {
        cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
            [to], [map, {at[..]}], [bar], {offsets[..]};
    }
}

/// The same for images of three dimensions, with offsets to the right, down and into the depth: `cp.async.bulk.tensor.5d … .im2col`.
fn load_5d_im2col(to: u32, map: TensorMap, at: [u32; 5], offsets: [u16; 3], bar: u32) {
    ptx! {
        cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
            [to], [map, {at[..]}], [bar], {offsets[..]};
    }
}

/// A box of one dimension to the second-level cache: `cp.async.bulk.prefetch.tensor.1d`.
fn fetch_1d(map: TensorMap, x: u32) {
    ptx! { cp.async.bulk.prefetch.tensor.1d.L2.global [map, {x}]; }
}

/// A box of two dimensions to the second-level cache: `cp.async.bulk.prefetch.tensor.2d`.
fn fetch_2d(map: TensorMap, x: u32, y: u32) {
    ptx! { cp.async.bulk.prefetch.tensor.2d.L2.global [map, {x, y}]; }
}

/// A box of three dimensions to the second-level cache: `cp.async.bulk.prefetch.tensor.3d`.
fn fetch_3d(map: TensorMap, at: [u32; 3]) {
    ptx! { cp.async.bulk.prefetch.tensor.3d.L2.global [map, {at[..]}]; }
}

/// A box of four dimensions to the second-level cache: `cp.async.bulk.prefetch.tensor.4d`.
fn fetch_4d(map: TensorMap, at: [u32; 4]) {
    ptx! { cp.async.bulk.prefetch.tensor.4d.L2.global [map, {at[..]}]; }
}

/// A box of five dimensions to the second-level cache: `cp.async.bulk.prefetch.tensor.5d`.
fn fetch_5d(map: TensorMap, at: [u32; 5]) {
    ptx! { cp.async.bulk.prefetch.tensor.5d.L2.global [map, {at[..]}]; }
}

/// From shared memory to a box of one dimension: `cp.async.bulk.tensor.1d.global.shared::cta`.
fn store_1d(map: TensorMap, x: u32, from: u32) {
    ptx! { cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {x}], [from]; }
}

/// From shared memory to a box of two dimensions: `cp.async.bulk.tensor.2d.global.shared::cta`.
fn store_2d(map: TensorMap, x: u32, y: u32, from: u32) {
    ptx! { cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, y}], [from]; }
}

/// From shared memory to a box of three dimensions: `cp.async.bulk.tensor.3d.global.shared::cta`.
fn store_3d(map: TensorMap, at: [u32; 3], from: u32) {
    ptx! { cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [map, {at[..]}], [from]; }
}

/// From shared memory to a box of four dimensions: `cp.async.bulk.tensor.4d.global.shared::cta`.
fn store_4d(map: TensorMap, at: [u32; 4], from: u32) {
    ptx! { cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [map, {at[..]}], [from]; }
}

/// From shared memory to a box of five dimensions: `cp.async.bulk.tensor.5d.global.shared::cta`.
fn store_5d(map: TensorMap, at: [u32; 5], from: u32) {
    ptx! { cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [map, {at[..]}], [from]; }
}

/// From shared memory to the pixels of an `im2col` map of three dimensions: `cp.async.bulk.tensor.3d … .im2col_no_offs`.
fn store_3d_im2col(map: TensorMap, at: [u32; 3], from: u32) {
    ptx! { cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [map, {at[..]}], [from]; }
}

/// From shared memory to the pixels of an `im2col` map of four dimensions: `cp.async.bulk.tensor.4d … .im2col_no_offs`.
fn store_4d_im2col(map: TensorMap, at: [u32; 4], from: u32) {
    ptx! { cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [map, {at[..]}], [from]; }
}

/// From shared memory to the pixels of an `im2col` map of five dimensions: `cp.async.bulk.tensor.5d … .im2col_no_offs`.
fn store_5d_im2col(map: TensorMap, at: [u32; 5], from: u32) {
    ptx! { cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [map, {at[..]}], [from]; }
}

/// Brings shared memory to a box of one dimension by `OP`: `"add"`, `"min"`, `"max"`, `"inc"`, `"dec"`, `"and"`, `"or"` or
/// `"xor"`. `cp.reduce.async.bulk.tensor.1d`.
fn reduce_1d<const OP: &str>(map: TensorMap, x: u32, from: u32) {
    ptx! { cp.reduce.async.bulk.tensor.1d.global.shared::cta.{OP}.tile.bulk_group [map, {x}], [from]; }
}

/// The same for two dimensions: `cp.reduce.async.bulk.tensor.2d`.
fn reduce_2d<const OP: &str>(map: TensorMap, x: u32, y: u32, from: u32) {
    ptx! { cp.reduce.async.bulk.tensor.2d.global.shared::cta.{OP}.tile.bulk_group [map, {x, y}], [from]; }
}

/// The same for three dimensions: `cp.reduce.async.bulk.tensor.3d`.
fn reduce_3d<const OP: &str>(map: TensorMap, at: [u32; 3], from: u32) {
    ptx! { cp.reduce.async.bulk.tensor.3d.global.shared::cta.{OP}.tile.bulk_group [map, {at[..]}], [from]; }
}

/// The same for four dimensions: `cp.reduce.async.bulk.tensor.4d`.
fn reduce_4d<const OP: &str>(map: TensorMap, at: [u32; 4], from: u32) {
    ptx! { cp.reduce.async.bulk.tensor.4d.global.shared::cta.{OP}.tile.bulk_group [map, {at[..]}], [from]; }
}

/// The same for five dimensions: `cp.reduce.async.bulk.tensor.5d`.
fn reduce_5d<const OP: &str>(map: TensorMap, at: [u32; 5], from: u32) {
    ptx! { cp.reduce.async.bulk.tensor.5d.global.shared::cta.{OP}.tile.bulk_group [map, {at[..]}], [from]; }
}

/// Ends a group of stores: `cp.async.bulk.commit_group`.
fn commit() {
    ptx! { cp.async.bulk.commit_group; }
}

/// Waits until at most `PENDING` groups still read shared memory: `cp.async.bulk.wait_group.read`.
fn wait_read<const PENDING: u32>() {
    ptx! { cp.async.bulk.wait_group.read PENDING; }
}

/// Waits until at most `PENDING` groups are not done: `cp.async.bulk.wait_group`.
fn wait<const PENDING: u32>() {
    ptx! { cp.async.bulk.wait_group PENDING; }
}

/// Lets asynchronous copies see what this thread wrote to shared memory: `fence.proxy.async.shared::cta`.
fn fence() {
    ptx! { fence.proxy.async.shared::cta; }
}

/// A box of two dimensions to this block, whose bytes count at a barrier of either block of its pair, for
/// `tcgen05` of `cta_group::2`: `cp.async.bulk.tensor.2d … .cta_group::2`. For `sm_100a` and its family.
fn load_2d_pair(to: u32, map: TensorMap, x: u32, y: u32, bar: u32) {
    ptx! {
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [to], [map, {x, y}], [bar];
    }
}
