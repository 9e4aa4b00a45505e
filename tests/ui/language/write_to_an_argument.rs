use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Ring {
        stage: u32,
    }

    impl Ring {
        fn advance(&self) {
            self.stage += 1;
        }
    }

    fn clamp(x: u32, most: u32) -> u32 {
        ptx! { min.u32 x, x, most; }
        x
    }

    fn clear(values: &[u32; 4]) {
        values[0] = 0;
    }

    #[ptx_kernel]
    pub fn kernel(out: &mut [u32], n: u32) {
        let ring = Ring { stage: n };
        ring.advance();
        let values: [u32; 4];
        clear(&values);
        let x: u32 = clamp(n, 7);
    }
}

fn main() {}
