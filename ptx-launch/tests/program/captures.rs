//! Captures that begin and end anywhere: by other threads, beside launches on the same stream, and by cudarc's own calls.

use super::kernels::{accumulate, sample, sample_array};
use super::{N, Step, World};
use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use ptx_launch::prelude::*;

/// A graph that cudarc captured, and the buffer that it writes.
pub(super) struct Theirs {
    graph: CudaGraph,
    written: usize,
    stream: Stream,
}

impl World<'_> {
    pub(super) fn load_kernels(&self) {
        for kernel in [&accumulate::KERNEL, &sample::KERNEL, &sample_array::KERNEL] {
            self.ground.devices.iter().for_each(|device| kernel.load(device).unwrap());
        }
    }

    /// One thread captures a stream while another one launches on it, and drops what it used.
    pub(super) fn capture_beside_launches(&mut self) {
        if self.streams.is_empty() || self.memories.len() < 4 || self.graphs.len() > 3 {
            return;
        }
        self.load_kernels();
        let at = self.random.below(self.streams.len());
        let (stream, pause, rounds) = (self.streams[at].1.clone(), self.ground.pause, 1 + self.random.below(4));
        let mut taken: Vec<_> = (0..4).map(|_| self.memories.pop().unwrap()).collect();
        let (theirs, ours) = taken.split_at_mut(2);
        let ([x, y], [a, b]) = (theirs.first_chunk_mut().unwrap(), ours.first_chunk_mut().unwrap());
        let (from, to, other) = (x.id, y.id, b.id);
        let graph = std::thread::scope(|scope| {
            let captured = scope.spawn(|| {
                stream.capture(|stream| accumulate(stream, pause, 0.5, &x.buffer, &mut y.buffer, N as u32)).unwrap()
            });
            for _ in 0..rounds {
                accumulate(&stream, pause, 0.5, &a.buffer, &mut b.buffer, N as u32).unwrap();
            }
            captured.join().unwrap()
        });
        // Each launch has run, or is in the graph.
        self.set(other, None);
        self.graphs.push((graph, vec![Step::Accumulate(from, to), Step::Unknown(other)]));
        let dropped = self.random.below(2) == 0;
        for memory in taken {
            if memory.id == other && dropped {
                self.drop_anywhere(memory.buffer);
            } else {
                self.memories.push(memory);
            }
        }
    }

    /// cudarc captures a stream: its graph holds our memory, and nobody orders its launches.
    pub(super) fn capture_as_cudarc(&mut self) {
        if self.streams.is_empty() || self.theirs.len() > 2 {
            return;
        }
        self.load_kernels();
        let at = self.random.below(self.streams.len());
        let stream = self.streams[at].1.clone();
        let Some((mut y, x)) = self.pair() else { return };
        let (queue, pause, x) = (stream.as_cuda().unwrap(), self.ground.pause, &self.memories[x].buffer);
        let before = &stream;
        let stale = before.as_stream();
        queue.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        let used = accumulate(stale, pause, 0.5, x, &mut y.buffer, N as u32);
        let filled = stream.fill(&mut y.buffer, 1.0);
        let graph = queue.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
        used.and(filled).unwrap();
        self.theirs.push(Theirs { graph, written: y.id, stream });
        match self.random.below(2) {
            0 => self.drop_anywhere(y.buffer),
            _ => self.memories.push(y),
        }
    }

    /// Launches a graph of cudarc's, beside which nothing else may run, or drops one.
    pub(super) fn use_theirs(&mut self) {
        if self.theirs.is_empty() {
            return;
        }
        let at = self.random.below(self.theirs.len());
        if self.random.below(3) == 0 {
            drop(self.theirs.swap_remove(at));
            return;
        }
        self.ground.devices[0].synchronize().unwrap();
        let Theirs { graph, written, stream } = &self.theirs[at];
        graph.launch().unwrap();
        stream.synchronize().unwrap();
        self.values[*written] = Some(vec![1.0; N]);
    }

    /// Drops something here, on a thread that never called CUDA, or on one whose current context is the other GPU's.
    pub(super) fn drop_anywhere<T: Send>(&mut self, it: T) {
        let other = self.ground.peer.as_ref();
        match self.random.below(3) {
            0 => drop(it),
            1 => std::thread::scope(|scope| drop(scope.spawn(move || drop(it)))),
            _ => std::thread::scope(|scope| {
                scope.spawn(move || {
                    other.into_iter().for_each(|other| other.as_cuda().unwrap().bind_to_thread().unwrap());
                    drop(it);
                });
            }),
        }
    }
}
