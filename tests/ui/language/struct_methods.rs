use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Ring {
        stage: u32,
    }

    impl Ring {
        fn new() -> Ring {
            Ring { stage: 0 }
        }

        fn advance(&mut self) {
            self.stage += 1;
        }
    }

    impl Rung {
        fn other() {}
    }

    #[ptx_kernel]
    pub fn kernel() {
        let mut ring = Ring::new();
        ring.advence();
        ring.stage();
        ring.new();
        ring.advance(1);
        ring.stage.advance();
        Ring::advence(ring);
    }
}

fn main() {}
