use ptx_launch::prelude::*;

#[ptx_part]
mod helpers {
    fn twice(x: u32) -> u32 {
        x + y
    }

    fn uncalled(x: u32) -> f32 {
        x
    }
}

#[ptx_module(arch = "sm_80", modules(helpers))]
pub mod kernels {
    mod warp {
        fn own() {}
    }

    mod others {
        static COUNT: u32 = 0;
    }

    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
    pub fn kernel(out: &mut [u32]) {
        let x: u32 = helpers::twice(tid.x) + helpers::twise(1) + helpurs::twice(2);
        let to = out.at(tid.x);
        ptx! { st.global.u32 [to], x; }
    }
}

fn main() {}
