//! Buffers, pinned memory, graphs and textures.

use super::kernels::{accumulate, paint, sample, sample_array};
use super::{Host, Memory, N, Step, World, accumulated, same};
use ptx_launch::prelude::*;
use ptx_launch::{Extent, TexelArray, Texture};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl World<'_> {
    pub(super) fn new_memory(&mut self) {
        let (id, device, value) = (self.values.len(), self.random.below(8) / 6, self.number());
        let values = if self.random.below(2) == 0 { vec![0.0; N] } else { vec![value; N] };
        let made = &self.ground.devices[device];
        let buffer = if values[0] == 0.0 { made.zeros(N) } else { made.upload(&values) };
        self.memories.push(Memory { id, device, buffer: buffer.unwrap() });
        self.values.push(Some(values));
    }

    pub(super) fn drop_memory(&mut self) {
        if !self.memories.is_empty() {
            let at = self.random.below(self.memories.len());
            let memory = self.memories.swap_remove(at);
            self.drop_anywhere(memory.buffer);
        }
    }

    /// All that is in a buffer, or nothing.
    pub(super) fn set(&mut self, id: usize, values: Option<Vec<f32>>) {
        self.values[id] = values;
    }

    pub(super) fn accumulate(&mut self) {
        let (stream, alpha) = (self.queue(), self.number() / 1024.0);
        let Some((mut y, x)) = self.pair() else { return };
        let (pause, from) = (self.ground.pause, self.memories[x].id);
        let x = &self.memories[x].buffer;
        match self.random.below(4) {
            0 => accumulate(&stream, pause, alpha, &x.view(), &mut y.buffer.view_mut(), N as u32),
            1 if self.ground.stub => crate::expansion::saxpy(&stream, alpha, x, &mut y.buffer, N as u32),
            _ => accumulate(&stream, pause, alpha, x, &mut y.buffer, N as u32),
        }
        .unwrap();
        let sum = self.values[from].as_ref().zip(self.values[y.id].as_ref()).map(|(x, y)| accumulated(alpha, x, y));
        self.set(y.id, sum);
        self.memories.push(y);
    }

    pub(super) fn fill(&mut self) {
        let (stream, value, start) = (self.stream(), self.number(), self.random.below(N));
        let Some((mut y, _)) = self.pair() else { return };
        self.delay(&stream);
        let start = if self.values[y.id].is_none() { 0 } else { start };
        stream.fill(&mut y.buffer.slice_mut(start..).unwrap(), value).unwrap();
        let mut values = self.values[y.id].take().unwrap_or_else(|| vec![0.0; N]);
        values[start..].fill(value);
        self.set(y.id, Some(values));
        self.memories.push(y);
    }

    pub(super) fn copy(&mut self) {
        let (stream, start) = (self.stream(), self.random.below(N));
        let Some((mut y, x)) = self.pair() else { return };
        self.delay(&stream);
        let (from, x) = (self.memories[x].id, self.memories[x].buffer.slice(start..).unwrap());
        stream.copy(&x, &mut y.buffer.slice_mut(start..).unwrap()).unwrap();
        let copied = self.values[from].clone().zip(self.values[y.id].clone()).map(|(x, mut y)| {
            y[start..].copy_from_slice(&x[start..]);
            y
        });
        self.set(y.id, copied);
        self.memories.push(y);
    }

    pub(super) fn download(&mut self) {
        if self.memories.is_empty() {
            return;
        }
        let at = self.random.below(self.memories.len());
        let memory = &self.memories[at];
        let found = memory.buffer.download().unwrap();
        if let Some(expected) = &self.values[memory.id] {
            same(&found, expected, "a download");
        }
        self.values[memory.id] = Some(found);
    }

    /// On a thread that never called CUDA.
    pub(super) fn download_on_a_thread(&mut self) {
        if let Some(memory) = self.memories.last() {
            let found = std::thread::scope(|scope| scope.spawn(|| memory.buffer.download().unwrap()).join()).unwrap();
            same(&found, self.values[memory.id].as_ref().unwrap_or(&found), "a download on a thread");
        }
    }

    pub(super) fn write(&mut self) {
        let value = self.number();
        let Some((mut y, _)) = self.pair() else { return };
        if self.random.below(2) == 0 {
            y.buffer.write(&[value; N]).unwrap();
        } else {
            y.buffer.clear().unwrap();
        }
        let value = y.buffer.slice(..1).unwrap().download().unwrap()[0];
        self.set(y.id, Some(vec![value; N]));
        self.memories.push(y);
    }

    pub(super) fn new_host(&mut self) {
        let device = self.random.below(8) / 6;
        let pinned = self.ground.devices[device].pinned(N).unwrap();
        self.hosts.push(Host { device, pinned, values: vec![0.0; N] });
    }

    pub(super) fn drop_host(&mut self) {
        if !self.hosts.is_empty() {
            let at = self.random.below(self.hosts.len());
            let host = self.hosts.swap_remove(at);
            self.drop_anywhere(host.pinned);
        }
    }

    pub(super) fn copy_pinned(&mut self) {
        if self.hosts.is_empty() {
            return;
        }
        let (stream, at) = (self.stream(), self.random.below(self.hosts.len()));
        let Some((mut y, _)) = self.pair() else { return };
        self.delay(&stream);
        let host = &mut self.hosts[at];
        match self.values[y.id].clone() {
            Some(values) if self.random.below(2) == 0 => {
                stream.download(&y.buffer, &mut host.pinned).unwrap();
                host.values = values;
            }
            _ => {
                stream.upload(&host.pinned, &mut y.buffer).unwrap();
                let values = host.values.clone();
                self.set(y.id, Some(values));
            }
        }
        self.memories.push(y);
    }

    pub(super) fn look_at_pinned(&mut self) {
        if self.hosts.is_empty() {
            return;
        }
        let (at, value) = (self.random.below(self.hosts.len()), self.number());
        let (host, writes) = (&mut self.hosts[at], self.random.below(2) == 0);
        let look = self.ground.look;
        if writes {
            let slice = host.pinned.as_mut_slice().unwrap();
            look(slice.as_ptr().cast(), true);
            same(slice, &host.values, "pinned memory");
            slice.fill(value);
            host.values.fill(value);
        } else {
            let slice = host.pinned.as_slice().unwrap();
            look(slice.as_ptr().cast(), false);
            same(slice, &host.values, "pinned memory");
        }
    }

    pub(super) fn capture(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let at = self.random.below(self.streams.len());
        let stream = self.streams[at].1.clone();
        let (pause, value) = (self.ground.pause, self.number());
        let Some((mut y, x)) = self.pair() else { return };
        let (from, to, x) = (self.memories[x].id, y.id, &self.memories[x].buffer);
        let first = match self.random.below(5) {
            0 => None,
            1 => Some(Step::Fill(to, value)),
            2 => Some(Step::Copy(from, to)),
            3 => Some(Step::Sample(from, to)),
            _ => Some(Step::SampleArray(to, value)),
        };
        let steps: Vec<Step> = first.into_iter().chain([Step::Accumulate(from, to)]).collect();
        // A kernel is loaded before it is captured.
        self.load_kernels();
        // Both textures and the array are gone before the graph is launched.
        let array = TexelArray::upload(&self.ground.devices[y.device], &Extent::of(&[N]), &[value; N]).unwrap();
        let images = (Texture::of(x.view(), &[N]).build().unwrap(), array.texture().build().unwrap());
        // A reference from before the capture is one to the same stream.
        let before = &stream;
        let (stale, is_stale) = (before.as_stream(), self.random.below(2) == 0);
        let mut submit = |stream: &Stream| {
            steps.iter().try_for_each(|step| match step {
                Step::Accumulate(..) if is_stale => accumulate(stale, pause, 0.5, x, &mut y.buffer, N as u32),
                Step::Accumulate(..) => accumulate(stream, pause, 0.5, x, &mut y.buffer, N as u32),
                Step::Unknown(_) => Ok(()),
                Step::Fill(_, value) => stream.fill(&mut y.buffer, *value),
                Step::Copy(..) => stream.copy(x, &mut y.buffer),
                Step::Sample(..) => sample(stream, pause, &images.0, &mut y.buffer, N as u32),
                Step::SampleArray(..) => sample_array(stream, pause, &images.1, &mut y.buffer, N as u32),
            })
        };
        if self.random.below(6) == 0 {
            // A panic ends the capture, and nothing of it runs.
            let panics = |stream: &Stream| submit(stream).and_then(|()| resume_unwind(Box::new("in a capture")));
            assert!(catch_unwind(AssertUnwindSafe(|| stream.capture(panics))).is_err());
            stream.synchronize().unwrap();
        } else {
            self.graphs.push((stream.capture(submit).unwrap(), steps));
        }
        self.memories.push(y);
    }

    /// Applies a graph to the values.
    pub(super) fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            let (to, values) = match *step {
                Step::Fill(to, value) | Step::SampleArray(to, value) => (to, Some(vec![value; N])),
                Step::Unknown(to) => (to, None),
                Step::Copy(from, to) | Step::Sample(from, to) => (to, self.values[from].clone()),
                Step::Accumulate(from, to) => {
                    let both = self.values[from].as_ref().zip(self.values[to].as_ref());
                    (to, both.map(|(x, y)| accumulated(0.5, x, y)))
                }
            };
            self.set(to, values);
        }
    }

    pub(super) fn launch_graph(&mut self) {
        if self.graphs.is_empty() {
            return;
        }
        let at = self.random.below(self.graphs.len());
        self.graphs[at].0.launch().unwrap();
        let steps = self.graphs[at].1.clone();
        self.follow(&steps);
    }

    pub(super) fn drop_graph(&mut self) {
        if !self.graphs.is_empty() {
            let at = self.random.below(self.graphs.len());
            let (graph, _) = self.graphs.swap_remove(at);
            self.drop_anywhere(graph);
        }
    }

    pub(super) fn texture(&mut self) {
        let (one, other, value) = (self.stream(), self.stream(), self.number());
        let Some((mut y, x)) = self.pair() else { return };
        let pause = self.ground.pause;
        match self.random.below(3) {
            0 => {
                let (from, x) = (self.memories[x].id, &self.memories[x].buffer);
                let texture = Texture::of(x.view(), &[N]).build().unwrap();
                sample(&one, pause, &texture, &mut y.buffer, N as u32).unwrap();
                let values = self.values[from].clone();
                self.set(y.id, values);
            }
            1 if self.ground.stub => {
                // A tensor map is made of the tile by the launch.
                let (from, x) = (self.memories[x].id, &self.memories[x].buffer);
                crate::expansion::scale(&one, x.tile([2, 32]).unwrap(), y.buffer.tile_mut([2, 32]).unwrap()).unwrap();
                let values = self.values[from].as_ref().map(|x| x.iter().map(|x| 2.0 * x).collect());
                self.set(y.id, values);
            }
            _ => {
                let device = &self.ground.devices[y.device];
                let mut array = TexelArray::<f32>::zeros(device, &Extent::of(&[N])).unwrap();
                paint(&one, pause, value, &mut array.surface().unwrap(), N as u32).unwrap();
                sample_array(&other, pause, &array.texture().build().unwrap(), &mut y.buffer, N as u32).unwrap();
                same(&array.download().unwrap(), &[value; N], "an array");
                self.set(y.id, Some(vec![value; N]));
            }
        }
        self.memories.push(y);
    }
}
