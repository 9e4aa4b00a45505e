//! Variables of a module: every launch of its kernels uses them, without an argument.

use super::World;
use super::kernels::sums::{STEPS, TOTAL, tally};

impl World<'_> {
    pub(super) fn write_sums(&mut self, device: usize) {
        let (stream, total, step) = (self.stream_of(device), self.number() as u32, self.number() as u32);
        TOTAL.write(&stream, total).unwrap();
        STEPS.write(&stream, [step, 2 * step]).unwrap();
        self.sums[device] = (total, [step, 2 * step]);
    }

    pub(super) fn read_sums(&mut self, device: usize) {
        let stream = self.stream_of(device);
        let (total, steps) = self.sums[device];
        assert_eq!(TOTAL.read(&stream).unwrap(), total, "a variable that kernels write");
        assert_eq!(STEPS.read(&stream).unwrap(), steps, "a constant variable");
    }

    pub(super) fn read_or_write_sums(&mut self) {
        let device = self.random.below(2);
        if self.random.below(2) == 0 { self.write_sums(device) } else { self.read_sums(device) }
    }

    pub(super) fn tally(&mut self) {
        let device = self.random.below(2);
        let stream = self.stream_of(device);
        match self.random.below(4) {
            0 => {
                let own = self.ground.devices[device].as_cuda().unwrap().per_thread_stream();
                tally(&own, self.ground.pause).unwrap();
            }
            _ => tally(&stream, self.ground.pause).unwrap(),
        }
        self.added(device, 1);
    }

    /// Two threads launch at the same time.
    pub(super) fn tally_on_threads(&mut self) {
        let (device, rounds) = (self.random.below(2), 1 + self.random.below(3));
        let (streams, pause) = ([self.stream_of(device), self.stream_of(device)], self.ground.pause);
        std::thread::scope(|scope| {
            for stream in &streams {
                scope.spawn(move || (0..rounds).for_each(|_| tally(stream, pause).unwrap()));
            }
        });
        self.added(device, 2 * rounds);
    }

    fn added(&mut self, device: usize, times: usize) {
        let (total, steps) = &mut self.sums[device];
        *total += times as u32 * steps.iter().sum::<u32>();
    }
}
