use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    pub struct Config {
        pub rows: u32,
    }

    #[ptx_kernel(block = 32, grid = 1, instances = [launch = (Config { rows: 1 })])]
    pub fn reserved<const C: Config>() {}

    #[ptx_kernel(block = 32, grid = 1, instances = [tall = (Config { rows: 1 }), tall = (Config { rows: 1 })])]
    pub fn twice<const C: Config>() {}

    #[ptx_kernel(
        block = 32,
        grid = 1,
        instances = [tall = (u32, Config { rows: 1 }), tall = (f32, Config { rows: 2 })]
    )]
    pub fn other_constants<T, const C: Config>() {}

    #[ptx_kernel(block = 32, grid = 1, instances = [tall = (Config { rows: 1 }), Config { rows: 2 }])]
    pub fn some<const C: Config>() {}

    #[ptx_kernel(block = 32, grid = 1, instances = [tall = ([f32, u32], [f32], Config { rows: 1 })])]
    pub fn out_of_step<T, O, const C: Config>() {}

    #[ptx_kernel(block = 32, grid = 1, instances = [(Config { rows: 1 })])]
    pub fn nameless<const C: Config>() {}
}

fn main() {}
