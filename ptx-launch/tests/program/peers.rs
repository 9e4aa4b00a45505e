//! Memory of another GPU, which is copied to and from ours.

use super::kernels::accumulate;
use super::{N, World, accumulated, same};
use ptx_launch::prelude::*;

/// A buffer of the other GPU, and what it holds.
pub(super) struct Peer {
    buffer: Buffer<f32>,
    values: Option<Vec<f32>>,
}

impl World<'_> {
    /// Something with the other GPU, if there is one.
    pub(super) fn peer(&mut self) {
        let Some(device) = self.ground.peer.clone() else { return };
        match self.random.below(8) {
            _ if self.peers.len() < 2 => self.new_peer(&device),
            0 => self.drop_peer(),
            1 => self.download_peer(),
            2 => self.accumulate_peer(&device),
            3 => self.peer_stream(&device),
            4 => self.device_in_turn(&device),
            5 | 6 => self.copy_from_peer(),
            _ => self.copy_to_peer(&device),
        }
    }

    fn new_peer(&mut self, device: &Device) {
        let value = self.number();
        self.peers.push(Peer { buffer: device.upload(&[value; N]).unwrap(), values: Some(vec![value; N]) });
    }

    pub(super) fn drop_peer(&mut self) {
        if !self.peers.is_empty() {
            let at = self.random.below(self.peers.len());
            let peer = self.peers.swap_remove(at);
            self.drop_anywhere(peer.buffer);
        }
    }

    pub(super) fn drop_peer_stream(&mut self) {
        if let Some(stream) = self.peer_streams.pop() {
            self.drop_anywhere(stream);
        }
    }

    fn peer_stream(&mut self, device: &Device) {
        if self.random.below(2) == 0 && self.peer_streams.len() < 2 {
            self.peer_streams.push(device.new_stream().unwrap());
        } else {
            self.drop_peer_stream();
        }
    }

    /// A stream of the other GPU.
    fn stream_of_peer(&mut self, device: &Device) -> Stream {
        match self.random.below(self.peer_streams.len() + 1) {
            0 => device.stream(),
            at => self.peer_streams[at - 1].clone(),
        }
    }

    fn download_peer(&mut self) {
        let at = self.random.below(self.peers.len());
        let peer = &mut self.peers[at];
        let found = peer.buffer.download().unwrap();
        same(&found, peer.values.as_ref().unwrap_or(&found), "a download from the other GPU");
        peer.values = Some(found);
    }

    fn accumulate_peer(&mut self, device: &Device) {
        let (stream, alpha) = (self.stream_of_peer(device), self.number() / 1024.0);
        let Some([y, x]) = self.peers.first_chunk_mut() else { return };
        accumulate(&stream, self.ground.pause, alpha, &x.buffer, &mut y.buffer, N as u32).unwrap();
        y.values = x.values.as_ref().zip(y.values.as_ref()).map(|(x, y)| accumulated(alpha, x, y));
        self.peers.rotate_left(1);
    }

    /// Launches on both GPUs, one after the other, so that each finds the other's context current.
    fn device_in_turn(&mut self, device: &Device) {
        for _ in 0..2 {
            self.accumulate();
            self.accumulate_peer(device);
        }
    }

    fn copy_from_peer(&mut self) {
        let (stream, at, start) = (self.stream(), self.random.below(self.peers.len()), self.random.below(N));
        let Some((mut y, _)) = self.pair() else { return };
        self.delay(&stream);
        let peer = &self.peers[at];
        stream.copy(&peer.buffer.slice(start..).unwrap(), &mut y.buffer.slice_mut(start..).unwrap()).unwrap();
        let copied = peer.values.clone().zip(self.values[y.id].clone()).map(|(x, mut y)| {
            y[start..].copy_from_slice(&x[start..]);
            y
        });
        self.set(y.id, copied);
        self.memories.push(y);
        // The source changes at once, or is gone.
        match self.random.below(3) {
            0 => {
                let value = self.number();
                self.peers[at].buffer.write(&[value; N]).unwrap();
                self.peers[at].values = Some(vec![value; N]);
            }
            1 => drop(self.peers.swap_remove(at)),
            _ => {}
        }
    }

    fn copy_to_peer(&mut self, device: &Device) {
        let (stream, at) = (self.stream_of_peer(device), self.random.below(self.peers.len()));
        let Some((x, _)) = self.pair() else { return };
        stream.copy(&x.buffer, &mut self.peers[at].buffer).unwrap();
        self.peers[at].values.clone_from(&self.values[x.id]);
        if self.random.below(3) > 0 {
            self.memories.push(x);
        }
    }
}
