//! The launch attributes of `cuLaunchKernelEx`, in the layout of `cuda.h`, on the stack. The layout is written down
//! here, since it is the same in every CUDA version, while bindings of it differ.

use super::fit::Shape;
use crate::config::{Config, Spread};
use cudarc::driver::sys::CUstream;
use std::marker::PhantomData;

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig<'a> {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    attributes: *const Attribute,
    count: u32,
    borrow: PhantomData<&'a Attributes>,
}

/// `CUlaunchAttribute`: a number, and a union of 64 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

const _: () = assert!(size_of::<Attribute>() == 72 && size_of::<LaunchConfig<'_>>() == 56);

/// `CUlaunchAttributeID`.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const CLUSTER_SCHEDULING: u32 = 5;
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
const PRIORITY: u32 = 8;

/// The attributes of one launch.
pub(super) struct Attributes {
    list: [Attribute; 5],
    count: u32,
}

/// Returns true if plain `cuLaunchKernel` cannot say it.
#[inline]
pub(super) fn needed(config: &Config) -> bool {
    config.cluster.is_some() || config.cooperative || config.pdl || config.priority.is_some() || config.spread.is_some()
}

impl Attributes {
    pub(super) fn new(config: &Config, shape: &Shape) -> Attributes {
        let mut all = Attributes { list: [Attribute { id: 0, pad: 0, value: [0; 16] }; 5], count: 0 };
        if let Some([x, y, z]) = shape.cluster {
            all.push(CLUSTER, &[x, y, z]);
        }
        if let Some(spread) = config.spread {
            all.push(CLUSTER_SCHEDULING, &[if spread == Spread::Even { 1 } else { 2 }]);
        }
        if config.cooperative {
            all.push(COOPERATIVE, &[1]);
        }
        if config.pdl {
            all.push(PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        }
        if let Some(priority) = config.priority {
            all.push(PRIORITY, &[priority.cast_unsigned()]);
        }
        all
    }

    fn push(&mut self, id: u32, words: &[u32]) {
        if let Some(attribute) = self.list.get_mut(self.count as usize) {
            attribute.id = id;
            attribute.value.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
            self.count += 1;
        }
    }

    pub(super) fn launch_config(&self, shape: &Shape, stream: CUstream) -> LaunchConfig<'_> {
        LaunchConfig {
            grid: shape.grid,
            block: shape.block,
            shared: shape.shared,
            stream,
            attributes: self.list.as_ptr(),
            count: self.count,
            borrow: PhantomData,
        }
    }
}
