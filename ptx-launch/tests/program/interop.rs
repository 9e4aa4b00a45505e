//! cudarc's own calls on lent memory, beside ours. They keep to what cudarc orders: streams of the slice's own context, and one read at a
//! time, since it has one event for all reads of a view.

use super::{N, World, same};
use ptx_launch::prelude::*;

impl World<'_> {
    pub(super) fn read_as_cudarc(&mut self) {
        if self.memories.is_empty() {
            return;
        }
        let at = self.random.below(self.memories.len());
        let device = self.memories[at].device;
        let stream = self.stream_of(device);
        let memory = &self.memories[at];
        let view = memory.buffer.as_cuda().unwrap();
        // A graph is launched while the view is alive.
        let graph = (0..self.graphs.len()).find(|_| self.random.below(2) == 0);
        let theirs = stream.as_cuda().unwrap();
        let found = theirs.clone_dtoh(&view).unwrap();
        theirs.synchronize().unwrap();
        let expected = self.values[memory.id].clone();
        same(&found, expected.as_ref().unwrap_or(&found), "a view of cudarc's");
        let copied = theirs.clone_dtod(&view).unwrap();
        if let Some(graph) = graph {
            self.graphs[graph].0.launch().unwrap();
            let found = theirs.clone_dtoh(&view).unwrap();
            theirs.synchronize().unwrap();
            let steps = self.graphs[graph].1.clone();
            let id = memory.id;
            self.follow(&steps);
            same(&found, self.values[id].as_ref().unwrap_or(&found), "a view of cudarc's, after a graph");
        }
        let copied = theirs.clone_dtoh(&copied).unwrap();
        theirs.synchronize().unwrap();
        same(&copied, &found, "a copy of cudarc's");
    }

    pub(super) fn write_as_cudarc(&mut self) {
        let value = self.number();
        let Some((mut y, _)) = self.pair() else { return };
        let stream = self.stream_of(y.device);
        self.delay(&stream);
        if let Some(mut view) = y.buffer.as_cuda_mut() {
            stream.as_cuda().unwrap().memcpy_htod(&[value; N], &mut view).unwrap();
            self.set(y.id, Some(vec![value; N]));
        }
        self.memories.push(y);
    }

    pub(super) fn change_hands(&mut self) {
        let value = self.number();
        let Some((mut y, _)) = self.pair() else { return };
        // A graph may hold it, and the buffer would be gone.
        if y.buffer.as_cuda_mut().is_some() {
            let stream = self.stream_of(y.device);
            let mut theirs = y.buffer.into_cuda().unwrap();
            if self.random.below(2) == 0 {
                self.delay(&stream);
                stream.as_cuda().unwrap().memcpy_htod(&[value; N], &mut theirs).unwrap();
                self.set(y.id, Some(vec![value; N]));
            }
            drop(stream);
            if self.random.below(2) == 0 {
                self.drop_stream();
            }
            y.buffer = Buffer::from_cuda(theirs).unwrap();
        }
        self.memories.push(y);
    }
}
