//! Addresses: elements, rows, fields, bytes, in global and shared memory.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod addresses {
    const STAGES: u32 = 3;
    const WIDTH: u32 = 64;

    struct Barrier {
        state: u64,
    }

    impl Shared<Barrier> {
        fn wait(self, phase: u32) {
            loop {
                let done: pred;
                ptx! { mbarrier.try_wait.parity.shared::cta.b64 done, [self], phase; }
                if done {
                    break;
                }
            }
        }
    }

    #[align(128)]
    struct Stage<const ROWS: u32> {
        a: [[u8; 128]; ROWS],
        b: [[bf16; 4]; 2],
    }

    struct Memory {
        #[align(1024)]
        stages: [Stage<2>; STAGES],
        full: [Barrier; STAGES],
        sum: f32,
    }

    fn first<T>(p: Global<T>) -> T {
        let v: T;
        ptx! { ld.global.{T} v, [p]; }
        v
    }

    fn put(p: GlobalMut<f32>, v: f32) {
        ptx! { st.global.f32 [p], v; }
    }

    fn bytes_of(p: u32) -> u32 {
        p + 1
    }

    /// A constant index costs nothing, a register one two instructions.
    #[ptx_kernel]
    pub fn global(x: &[f32], y: &mut [f32], n: u32, far: u64, back: i32) {
        let a: f32 = first(x.at(n));
        let b: f32 = first(x.at(3));
        put(y.at(n), a + b);
        put(y.at(2).at(n), a);
        put(y.at(far).at(back), b);
        let at = y.at(4);
        ptx! { st.global.v2.f32 [at + 8], {a, b}; }
        let mut p: Global<f32> = x;
        p = p + 16;
        p += wide(n) * 4;
        let behind: pred = p < x.at(100);
        let bytes: u64 = p - x;
        let words: Global<b16> = x.cast::<b16>().at(1);
        let half: b16;
        ptx! { @behind ld.global.b16 half, [words]; }
        let number: u64 = x;
        let again = Global::<f64>::from_addr(number).at(n);
        let d: f64 = first(again);
    }

    #[ptx_kernel]
    pub fn rows(a: Tile<f32, (M, N)>, b: Tile<u8, (M, WIDTH)>, r: u32, c: u32) {
        let x: f32 = first(a.at(r, c));
        let y: f32 = first(a.row(r).at(2));
        let z: u8;
        let from = b.at(r, 7);
        ptx! { ld.global.u8 z, [from]; }
    }

    #[ptx_kernel]
    pub fn shared(n: u32, r: u32) {
        #[shared]
        let tile: [[f32; 33]; 32];
        #[shared]
        let memory: Memory;
        let (mut v, at): (f32, Shared<f32>) = (0.0, tile.at(r, n));
        ptx! {
            st.shared.f32 [at], v;
            st.shared.f32 [tile + 4], v;
            st.shared.f32 [memory.sum], v;
        }
        let stage = memory.stages.at(n);
        let b = stage.b.at(1, 2);
        let half: b16;
        ptx! {
            ld.shared.b16 half, [b];
            ld.shared.b16 half, [stage.b + 2];
        }
        if tid.x == 0 {
            ptx! {
                mbarrier.init.shared::cta.b64 [memory.full], 1;
                mbarrier.init.shared::cta.b64 [memory.full + 8], 1;
                fence.mbarrier_init.release.cluster;
            }
        }
        block::sync();
        memory.full.at(n).wait(0);
        memory.full.at(1).wait(1);
        let number: u32 = bytes_of(memory.sum);
        let remote: SharedCluster<f32>;
        let own = memory.sum;
        ptx! {
            mapa.shared::cluster.u32 remote, own, 1;
            ld.shared::cluster.f32 v, [remote];
        }
        const BYTES: u32 = size_of::<Memory>();
        ptx! { st.shared.u32 [tile], BYTES; }
    }
}
