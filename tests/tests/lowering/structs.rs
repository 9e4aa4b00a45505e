//! Structs: a value is the registers of its fields; methods are written where they are called.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod structs {
    /// A place in a ring.
    struct Ring<const STAGES: u32> {
        bars: u32,
        stage: u32,
        phase: u32,
    }

    impl<const STAGES: u32> Ring<STAGES> {
        const BYTES: u32 = 16 * STAGES;

        fn new(bars: u32) -> Self {
            Ring { bars, stage: 0, phase: 0 }
        }

        fn full(&self) -> u32 {
            self.bars + (self.stage << 3)
        }

        fn wait_full(&self) {
            let bar: u32 = self.full();
            ptx! { mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], self.phase; }
        }

        fn advance(&mut self) {
            self.stage += 1;
            if self.stage == STAGES {
                self.stage = 0;
                self.phase = self.phase ^ 1;
            }
        }
    }

    struct Pair<T> {
        first: T,
        second: T,
    }

    impl<T> Pair<T> {
        fn swapped(&self) -> Pair<T> {
            Pair { first: self.second, second: self.first }
        }

        fn map<const BY: u32>(&self) -> Pair<T> {
            Pair { first: self.first * BY, second: self.second * BY }
        }
    }

    struct Walk {
        ring: Ring<4>,
        span: Pair<u32>,
        sums: [f32; 2],
    }

    struct Shape {
        rows: u32,
        columns: u32,
    }

    impl Shape {
        const SMALL: Shape = Shape { rows: 8, columns: 4 };

        const fn area(&self) -> u32 {
            self.rows * self.columns
        }
    }

    fn last<const N: u32>(ring: &Ring<N>) -> u32 {
        ring.full() + Ring::<N>::BYTES
    }

    #[ptx_kernel]
    pub fn values(bars: u32, n: u32, out: &mut [u32]) {
        ptx! { .reg .pred %p1; }
        let mut ring = Ring::<4>::new(bars);
        ring.wait_full();
        ring.advance();
        let end: u32 = last(&ring);
        let pair = Pair { first: n, second: end };
        let swapped: Pair<u32> = pair.swapped();
        let Pair { first, second: other } = swapped.map::<3>();
        let sum: u32 = Pair { first: n, second: other }.swapped().first + first;
        ptx! { st.global.v2.u32 [out], {pair.first, pair.second}; }
    }

    #[ptx_kernel]
    pub fn nested(bars: u32, n: u32, out: &mut [u32]) {
        let mut walk = Walk { ring: Ring::new(bars), span: Pair { first: 0, second: n }, sums: [0.0; 2] };
        walk.ring.advance();
        walk.sums[1] += 2.0;
        let span: Pair<u32> = walk.span;
        walk.ring = Ring { stage: 2, ..walk.ring };
        let other = Walk { sums: walk.sums, ..walk };
        const TALL: Shape = Shape { rows: 32, ..Shape::SMALL };
        walk.span = Pair { second: other.span.second + TALL.area(), ..span };
        let mut pairs: [Pair<u32>; 2];
        pairs[0] = span;
        pairs[1] = pairs[0].swapped();
        pairs[1] = pairs[1].swapped();
        for pair in pairs {
            ptx! { st.global.u32 [out], pair.first; }
        }
        const SHAPE: Shape = Shape::SMALL;
        let area: u32 = SHAPE.area() + Shape { rows: 3, columns: 5 }.area();
        #[shared]
        let tile: [f32; SHAPE.area()];
        ptx! {
            st.shared.f32 [tile + SHAPE.rows], walk.sums[1];
            st.global.v2.u32 [out + (4 * SHAPE.columns)], {walk.span.first, walk.ring.stage};
        }
    }

    #[ptx_kernel]
    pub fn local(n: u32) {
        struct Counter {
            count: u32,
        }
        impl Counter {
            fn next(&mut self) -> u32 {
                self.count += 1;
                self.count
            }
        }
        let mut counter = Counter { count: n };
        let once: u32 = counter.next();
        let twice: u32 = counter.next() + once;
    }
}
