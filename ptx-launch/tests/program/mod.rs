//! Random programs over the whole safe API, which compare every value with what the program defines: buffers, views, halves on threads, pinned
//! memory, streams that come and go, two devices of one GPU, graphs, textures, surfaces, tensor maps, and cudarc's own calls.
//!
//! The stub of the driver finds every use of memory that nothing orders; on a GPU kernels are slow, so that values show it.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part")]

mod captures;
mod interop;
pub mod kernels;
mod memory;
mod peers;
mod threads;
mod variables;

use cudarc::driver::CudaStream;
use ptx_launch::prelude::*;
use ptx_launch::{Graph, Pinned};
use std::sync::Arc;

/// Elements of every buffer.
pub const N: usize = 64;

/// The device and memory that programs run on.
pub struct Ground<'a> {
    /// Two devices of the same GPU, each with a context of cudarc's.
    pub devices: [Device; 2],
    /// Another GPU, if there is one.
    pub peer: Option<Device>,
    /// For how long kernels wait.
    pub pause: u32,
    /// Called with pinned memory that the host reads or writes.
    pub look: &'a dyn Fn(*const u8, bool),
    /// True if the stub's own kernels can run.
    pub stub: bool,
}

/// A small generator of numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % n
    }
}

/// A buffer, and what it holds; nothing is known after work in no particular order.
struct Memory {
    id: usize,
    device: usize,
    buffer: Buffer<f32>,
}

struct Host {
    device: usize,
    pinned: Pinned<f32>,
    values: Vec<f32>,
}

/// A step of a graph, on buffers by their numbers.
#[derive(Clone, Copy)]
enum Step {
    Accumulate(usize, usize),
    Fill(usize, f32),
    Copy(usize, usize),
    /// Through a texture of the first one.
    Sample(usize, usize),
    /// Through a texture of an array of this number.
    SampleArray(usize, f32),
    /// Something that another thread may have launched.
    Unknown(usize),
}

struct World<'a> {
    ground: &'a Ground<'a>,
    random: Random,
    /// With the number of the device.
    streams: Vec<(usize, Stream)>,
    memories: Vec<Memory>,
    /// Content of the memory with this number.
    values: Vec<Option<Vec<f32>>>,
    hosts: Vec<Host>,
    graphs: Vec<(Graph, Vec<Step>)>,
    /// Graphs of cudarc's.
    theirs: Vec<captures::Theirs>,
    /// Memory and streams of the other GPU.
    peers: Vec<peers::Peer>,
    peer_streams: Vec<Stream>,
    /// Content of the variables of the module on each device: the sum, and what a kernel adds to it.
    sums: [(u32, [u32; 2]); 2],
}

/// Runs the program with this seed, of so many operations.
pub fn run(ground: &Ground<'_>, seed: u64, operations: usize) {
    let (streams, values) = (Vec::new(), Vec::new());
    let (memories, hosts, graphs) = (Vec::new(), Vec::new(), Vec::new());
    let (theirs, peers, peer_streams) = (Vec::new(), Vec::new(), Vec::new());
    let (random, sums) = (Random::new(seed), [(0, [0; 2]); 2]);
    let mut world =
        World { ground, random, streams, memories, values, hosts, graphs, theirs, peers, peer_streams, sums };
    (0..2).for_each(|device| world.write_sums(device));
    // Most programs have some streams from the beginning, some never get one.
    if world.random.below(4) > 0 {
        (0..2).for_each(|_| world.new_stream());
    }
    (0..2).for_each(|_| world.new_memory());
    (0..operations).for_each(|_| world.step());
    world.end();
}

impl<'a> World<'a> {
    fn step(&mut self) {
        let step = self.random.below(41);
        if std::env::var_os("PTX_PROGRAM_TRACE").is_some() {
            self.trace(step);
        }
        match step {
            0 if self.memories.len() < 5 => self.new_memory(),
            1 => self.drop_memory(),
            2 if self.streams.len() < 5 => self.new_stream(),
            3 | 4 => self.drop_stream(),
            5..=9 => self.accumulate(),
            10 => self.fill(),
            11 => self.copy(),
            12 => self.download(),
            13 => self.write(),
            14 if self.hosts.len() < 3 => self.new_host(),
            15 => self.drop_host(),
            16 | 17 => self.copy_pinned(),
            18 | 19 => self.look_at_pinned(),
            20 if self.graphs.len() < 3 => self.capture(),
            21 => self.launch_graph(),
            22 => self.drop_graph(),
            23 => self.read_as_cudarc(),
            24 => self.write_as_cudarc(),
            25 => self.change_hands(),
            26 => self.halves_on_threads(),
            27 => self.readers_on_threads(),
            28 => self.texture(),
            29 => self.graph_beside_others(),
            30 => self.tally(),
            31 => self.tally_on_threads(),
            32 => self.read_or_write_sums(),
            33..=35 => self.peer(),
            36 => self.capture_beside_launches(),
            37 => self.capture_as_cudarc(),
            38 => self.use_theirs(),
            39 => self.download_on_a_thread(),
            _ => self.wait(),
        }
    }

    /// Prints the operation that comes next, and what there is: `PTX_PROGRAM_TRACE=1`.
    fn trace(&self, step: usize) {
        let first = |memory: &Memory| self.values[memory.id].as_ref().map(|values| values[0]);
        let memories: Vec<_> = self.memories.iter().map(|memory| (memory.id, memory.device, first(memory))).collect();
        let (streams, graphs) = (self.streams.len(), self.graphs.len());
        eprintln!("operation {step}: {streams} streams, memories {memories:?}, {graphs} graphs");
    }

    /// Everything is dropped in some order, and what is left is compared.
    fn end(&mut self) {
        let left = |world: &Self| {
            let ours = world.memories.len() + world.hosts.len() + world.graphs.len() + world.streams.len();
            ours + world.theirs.len() + world.peers.len() + world.peer_streams.len()
        };
        while left(self) > 0 {
            match self.random.below(8) {
                0 => self.drop_memory(),
                1 => self.drop_host(),
                2 => self.drop_graph(),
                3 => self.drop_stream(),
                4 => self.use_theirs(),
                5 => self.drop_peer(),
                6 => self.drop_peer_stream(),
                _ => self.download(),
            }
        }
        // Nobody remembers their streams afterwards.
        (0..2).for_each(|device| self.read_sums(device));
        // Memory that graphs of cudarc's have held goes now, and what was dropped has left no error behind.
        let devices = self.ground.devices.iter().chain(&self.ground.peer);
        devices.clone().for_each(|device| device.synchronize().unwrap());
        let late: Vec<_> = devices.flat_map(Device::take_late_errors).collect();
        assert!(late.is_empty(), "{late:?}");
    }

    fn new_stream(&mut self) {
        let device = self.random.below(8) / 6;
        self.streams.push((device, self.ground.devices[device].new_stream().unwrap()));
    }

    fn drop_stream(&mut self) {
        if !self.streams.is_empty() {
            let at = self.random.below(self.streams.len());
            let (_, stream) = self.streams.swap_remove(at);
            self.drop_anywhere(stream);
        }
    }

    /// A stream, of either device.
    fn stream(&mut self) -> Stream {
        match self.random.below(self.streams.len() + 1) {
            0 => self.ground.devices[self.random.below(8) / 6].stream(),
            at => self.streams[at - 1].1.clone(),
        }
    }

    /// A stream of the device that something belongs to.
    fn stream_of(&mut self, device: usize) -> Stream {
        let own: Vec<Stream> = self.streams.iter().filter(|(at, _)| *at == device).map(|(_, s)| s.clone()).collect();
        match self.random.below(own.len() + 1) {
            0 => self.ground.devices[device].stream(),
            at => own[at - 1].clone(),
        }
    }

    /// Any stream for a kernel, also the one of this thread.
    fn queue(&mut self) -> Arc<CudaStream> {
        if self.random.below(8) == 0 {
            return self.ground.devices[0].as_cuda().unwrap().per_thread_stream();
        }
        self.stream().as_cuda().unwrap().clone()
    }

    /// Work on the stream starts late, on a GPU.
    fn delay(&self, stream: &Stream) {
        if self.ground.pause > 0 {
            kernels::idle(stream, self.ground.pause).unwrap();
        }
    }

    fn wait(&mut self) {
        let (one, other) = (self.stream(), self.stream());
        match self.random.below(6) {
            0 => one.synchronize().unwrap(),
            1 => self.ground.devices[0].synchronize().unwrap(),
            _ => one.join(&other).unwrap(),
        }
    }

    fn number(&mut self) -> f32 {
        self.random.below(1000) as f32
    }

    /// A memory out of two different ones, taken out, and the other's place.
    fn pair(&mut self) -> Option<(Memory, usize)> {
        if self.memories.len() < 2 {
            return None;
        }
        let at = self.random.below(self.memories.len());
        let memory = self.memories.swap_remove(at);
        Some((memory, self.random.below(self.memories.len())))
    }
}

/// `y = alpha * x + y`, as the kernels do it.
fn accumulated(alpha: f32, x: &[f32], y: &[f32]) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| alpha.mul_add(*x, *y)).collect()
}

fn same(found: &[f32], expected: &[f32], what: &str) {
    let differs = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    assert!(found.len() == expected.len() && differs.is_none(), "{what}: {found:?}, expected {expected:?}");
}
