use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
mod kernels {
    struct Config {
        bytes: u32,
    }

    impl Config {
        const fn half(&self) -> u32 {
            self.bytes / 2
        }
    }

    const C: Config = Config { bytes: 32 };

    #[ptx_kernel(block = 128)]
    pub fn kernel(a: u64, b: u64) {
        #[shared]
        let tile: [u8; 128];
        let place: u32 = tile as u32;
        let mut acc: [f32; 16] = [0.0; 16];
        ptx! {
            wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {acc[..]}, a, b, 1, 1, 1, 0, 0;
            st.shared.f32 [tile + C.half()], acc[0];
            st.shared.f32 [tile.at(3)], acc[0];
            add.u64 a, tile.at(2), b;
        }
    }
}

fn main() {}
