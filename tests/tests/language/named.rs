//! Instances with names, and struct constants.
use libtest_mimic::Trial;
use ptx_launch::ErrorKind;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(each_name_is_a_launch),
        super::passes!(an_instance_is_picked_at_run_time),
        super::passes!(names_and_values_are_listed),
        super::passes!(a_kernel_alone_has_names),
        super::assembles("tiles::PTX", tiles::PTX),
    ]
}

/// Kernels with a configuration.
#[ptx_module(arch = "sm_80")]
pub mod tiles {
    /// The extents of a tile.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config {
        /// Rows.
        pub block_m: u32,
        /// Columns.
        pub block_n: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// True if the last word is one more.
        pub marked: bool,
    }

    impl Config {
        /// Elements of a tile.
        pub const fn area(self) -> u32 {
            self.block_m * self.block_n
        }

        /// Rows for each stage beyond two. A condition reads it where there is one.
        pub const fn ahead(&self) -> u32 {
            self.block_m / (self.stages - 2)
        }

        /// Elements of each thread.
        const fn each(&self) -> u32 {
            self.area() / 32
        }
    }

    pub const SQUARE: Config = Config { block_m: 16, block_n: 16, stages: 2, marked: true };

    const TALL: Config = Config { block_m: 64, block_n: 8, stages: 3, marked: false };
    const LOW: Config = Config { block_m: 8, block_n: 64, ..TALL };

    /// A helper with the same parameter.
    fn last<const C: Config>() -> u32 {
        C.block_m * 1000 + C.each() + if C.marked { 1 } else { 0 }
    }

    /// Fills the tile of each block with `value`; the last word is the number of the configuration.
    #[ptx_kernel(
        block = 32,
        grid = n.div_ceil(C.area()),
        shared = 4 * C.stages,
        instances = [
            tall = (u32, TALL),
            tall = (f32, TALL),
            low = (f32, LOW),
            square = (f32, SQUARE),
        ],
        unsafe(requires(n % C.area() == 0, C.stages == 2 || C.ahead() >= 1, out.len() > n))
    )]
    pub fn fill<T, const C: Config>(value: T, out: &mut [T], n: u32) {
        #[shared(dynamic)]
        let stages: [u32];
        let mine: [T; C.each()];
        for at in 0..C.each() {
            ptx! { mov.b32 mine[at], value; }
        }
        let to: u64 = out + wide(ctaid.x * C.area() + tid.x) * 4;
        for at in 0..C.each() {
            ptx! { st.global.b32 [to + 128 * at], mine[at]; }
        }
        if ctaid.x + tid.x == 0 {
            let number: u32 = last::<C>();
            let end: u64 = out + wide(n) * 4;
            ptx! {
                st.shared.u32  [stages + 4 * (C.stages - 1)], C.block_m;
                st.global.u32  [end], number;
            }
        }
    }
}

fn each_name_is_a_launch() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1025).unwrap();
    tiles::fill::tall(&device, 7u32, &mut out, 1024).unwrap();
    let found = out.download().unwrap();
    assert!(found[..1024] == [7; 1024] && found[1024] == 64016);
    let mut out = device.zeros::<f32>(513).unwrap();
    tiles::fill::square(&device, 0.5f32, &mut out, 512).unwrap();
    let found = out.download().unwrap();
    assert!(found[..512] == [0.5; 512] && found[512].to_bits() == 16009);
    let error = tiles::fill::tall(&device, 0.5f32, &mut out, 256).unwrap_err();
    assert!(error.to_string().contains("n % C.area() == 0"), "{error}");
}

fn an_instance_is_picked_at_run_time() {
    use tiles::fill::{Instance, launch};
    let device = Device::cpu();
    let mut out = device.zeros::<f32>(1025).unwrap();
    for (instance, last) in [(Instance::tall, 64016), (Instance::square, 16009)] {
        launch(instance, &device, 2.0f32, &mut out, 1024).unwrap();
        assert_eq!(out.download().unwrap()[1024].to_bits(), last);
    }
    // The conditions of the picked instance, with the text that its own function reports.
    for (instance, n) in [(Instance::tall, 256), (Instance::square, 128)] {
        let error = launch(instance, &device, 2.0f32, &mut out, n).unwrap_err();
        assert!(error.to_string().contains("n % C.area() == 0"), "{error}");
    }
    let own = tiles::fill::tall(&device, 2.0f32, &mut out, 256).unwrap_err();
    let picked = launch(Instance::tall, &device, 2.0f32, &mut out, 256).unwrap_err();
    assert_eq!(picked.to_string(), own.to_string());
    let mut words = device.zeros::<u32>(1025).unwrap();
    launch(Instance::tall, &device, 2u32, &mut words, 1024).unwrap();
    let error = launch(Instance::square, &device, 2u32, &mut words, 1024).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    let text = error.to_string();
    assert!(text.starts_with("the instance `square` of `fill` does not exist for these types"), "{text}");
    assert!(Instance::square.kernel::<f32>().unwrap().load(&device).is_ok());
}

fn names_and_values_are_listed() {
    use tiles::fill::{INSTANCES, Instance};
    let tall = tiles::Config { block_m: 64, block_n: 8, stages: 3, marked: false };
    let low = tiles::Config { block_m: 8, block_n: 64, ..tall };
    assert_eq!(INSTANCES, [(Instance::tall, tall), (Instance::low, low), (Instance::square, tiles::SQUARE)]);
    assert_eq!(format!("{:?}", INSTANCES[2].0), "square");
    let entries: Vec<&str> = tiles::PTX.lines().filter(|line| line.contains(".entry")).collect();
    assert!(entries[0].contains("fill_tall_u32(") && entries[3].contains("fill_square_f32("), "{entries:?}");
}

/// The fields of its struct stand in the attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    pub threads: u32,
    pub twice: u32,
}

#[ptx_kernel(
    arch = "sm_80",
    block = E.threads,
    params(Extent { threads: u32, twice: u32 }),
    instances = [
        narrow = (Extent { threads: 32, twice: 64 }, 1),
        wide = (Extent { threads: 128, twice: 256 }, 2)
    ]
)]
pub fn number<const E: Extent, const N: u32>(out: &mut [u32]) {
    let at: u64 = out + wide(tid.x) * 4;
    let value: u32 = E.twice + N;
    ptx! { st.global.u32 [at], value; }
}

fn a_kernel_alone_has_names() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(128).unwrap();
    // SAFETY: there is an element for each thread.
    unsafe { number::narrow(&device, Config::grid(1), &mut out) }.unwrap();
    assert_eq!((out.download().unwrap()[31], out.download().unwrap()[32]), (65, 0));
    // SAFETY: as above.
    unsafe { number::launch(number::Instance::wide, &device, Config::grid(1), &mut out) }.unwrap();
    assert_eq!(out.download().unwrap(), [258; 128]);
    assert_eq!(number::INSTANCES[0].1, (Extent { threads: 32, twice: 64 }, 1));
}
