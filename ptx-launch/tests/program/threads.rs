//! Several threads at a time.

use super::kernels::accumulate;
use super::{N, Step, World, accumulated};

impl World<'_> {
    /// Both halves of a buffer are written by a thread each, on streams that exist or that come and go.
    pub(super) fn halves_on_threads(&mut self) {
        let (streams, rounds) = ([self.stream(), self.stream()], 1 + self.random.below(3));
        let (split, kinds) = (1 + self.random.below(N - 1), [self.random.below(3), self.random.below(3)]);
        let Some((mut y, x)) = self.pair() else { return };
        let (pause, from, device) = (self.ground.pause, self.memories[x].id, &self.ground.devices[0]);
        let x = self.memories[x].buffer.view();
        let (low, high) = y.buffer.split_at_mut(split).unwrap();
        std::thread::scope(|scope| {
            for ((stream, kind), mut half) in streams.into_iter().zip(kinds).zip([low, high]) {
                scope.spawn(move || {
                    let own = || device.new_stream().unwrap();
                    let stream = if kind == 0 { own() } else { stream };
                    let queue = match kind {
                        1 => device.as_cuda().unwrap().per_thread_stream(),
                        _ => stream.as_cuda().unwrap().clone(),
                    };
                    let n = half.len();
                    for _ in 0..rounds {
                        accumulate(&queue, pause, 0.25, &x.slice(..n).unwrap(), &mut half, n as u32).unwrap();
                    }
                });
            }
        });
        let sum = self.values[from].as_ref().zip(self.values[y.id].as_ref()).map(|(x, y)| {
            let (mut low, mut high) = (y[..split].to_vec(), y[split..].to_vec());
            for _ in 0..rounds {
                (low, high) = (accumulated(0.25, x, &low), accumulated(0.25, x, &high));
            }
            [low, high].concat()
        });
        self.set(y.id, sum);
        self.memories.push(y);
    }

    /// Threads read a buffer at the same time, and copy it to buffers of their own; then it is written.
    pub(super) fn readers_on_threads(&mut self) {
        let (streams, last, value) = ([self.stream(), self.stream()], self.stream(), self.number());
        let Some((mut x, _)) = self.pair() else { return };
        let (expected, device, buffer) = (self.values[x.id].clone(), &self.ground.devices[0], &x.buffer);
        let own = self.random.below(2) == 0;
        std::thread::scope(|scope| {
            for stream in streams {
                let expected = &expected;
                scope.spawn(move || {
                    let stream = if own { device.new_stream().unwrap() } else { stream };
                    let mut copy = device.zeros::<f32>(N).unwrap();
                    stream.copy(buffer, &mut copy).unwrap();
                    let found = copy.download().unwrap();
                    super::same(&found, expected.as_ref().unwrap_or(&found), "a copy by a thread");
                });
            }
        });
        self.delay(&last);
        last.fill(&mut x.buffer, value).unwrap();
        self.set(x.id, Some(vec![value; N]));
        self.memories.push(x);
    }

    /// A graph is launched by one thread while another one uses the same buffers.
    pub(super) fn graph_beside_others(&mut self) {
        let (stream, value) = (self.stream(), self.number());
        let (Some((graph, steps)), Some((mut y, x))) = (self.graphs.pop(), self.pair()) else { return };
        let (pause, buffer) = (self.ground.pause, &self.memories[x].buffer);
        let graph = std::thread::scope(|scope| {
            let launched = scope.spawn(move || {
                graph.launch().unwrap();
                graph
            });
            scope.spawn(|| {
                accumulate(&stream, pause, 0.5, buffer, &mut y.buffer, N as u32).unwrap();
                stream.fill(&mut y.buffer.slice_mut(1..).unwrap(), value).unwrap();
            });
            launched.join().unwrap()
        });
        // The order in which they came is unknown.
        self.follow(&steps);
        let ids = [y.id, self.memories[x].id];
        let touched = steps.iter().flat_map(|step| match *step {
            Step::Accumulate(from, to) | Step::Copy(from, to) | Step::Sample(from, to) => [from, to],
            Step::Fill(to, _) | Step::SampleArray(to, _) | Step::Unknown(to) => [to, to],
        });
        let touched: Vec<usize> = touched.chain([ids[0]]).collect();
        touched.into_iter().for_each(|id| self.set(id, None));
        self.graphs.push((graph, steps));
        self.memories.push(y);
    }
}
