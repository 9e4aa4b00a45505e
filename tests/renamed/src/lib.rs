//! Kernels in a package in which `ptx-launch` is called `gpu`: the macros find that name in the manifest, or are told a path.

/// As a library does that passes the runtime on.
pub mod facade {
    pub use gpu as runtime;
}

/// The name is found.
pub mod found {
    use gpu::prelude::*;

    /// Two numbers.
    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Line {
        /// The slope.
        pub a: f32,
        /// The intercept.
        pub b: f32,
    }

    /// `y[i] = a * i + b`
    #[ptx_kernel(arch = "sm_80", block = 32, grid = n.div_ceil(32), params(Line), unsafe(requires(y.len() >= n)))]
    pub fn line(of: Line, y: &mut [f32], n: u32) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < n {
            let to: u64 = y + wide(i) * 4;
            let v: f32 = (i as f32) * of.a + of.b;
            ptx! { st.global.f32 [to], v; }
        }
    }

    #[cfg(test)]
    #[ptx_test(seeds = 2)]
    fn lines(device: &Device) -> gpu::Result<()> {
        let mut y = device.zeros::<f32>(40)?;
        line(device, Line { a: 2.0, b: 1.0 }, &mut y, 40)?;
        assert_eq!(y.download()?[39], 79.0);
        Ok(())
    }
}

/// The path is given, in every way in which a path can be.
pub mod given {
    use super::facade::{self, runtime::prelude::*};

    /// Passed by value.
    #[derive(Clone, Copy, KernelParam)]
    #[kernel_param(crate = crate::facade::runtime)]
    #[repr(C)]
    pub struct One {
        /// Its number.
        pub n: u32,
    }

    /// By a name in scope.
    #[ptx_kernel(arch = "sm_80", block = N, grid = 1, instances = [32], crate = facade::runtime, params(One), unsafe(requires(y.len() >= 32)))]
    pub fn fill<const N: u32>(one: One, y: &mut [u32]) {
        let to: u64 = y + wide(tid.x) * 4;
        ptx! { st.global.u32 [to], one.n; }
    }

    /// By a path that starts here.
    #[ptx_module(arch = "sm_80", crate = self::facade::runtime)]
    pub mod several {
        /// Numbers the lanes.
        #[ptx_kernel(block = 32, grid = 1, unsafe(requires(y.len() >= 32)))]
        pub fn number(y: &mut [u32]) {
            let to: u64 = y + wide(tid.x) * 4;
            let v: u32 = tid.x;
            ptx! { st.global.u32 [to], v; }
        }
    }

    ptx! {
        crate = super::facade::runtime;
        #[ptx_kernel(block = 1, grid = 1, unsafe(requires(y.len() >= 1)))]
        pub fn seven(y: &mut [u32]);

        .version 7.0
        .target sm_80
        .address_size 64
        .visible .entry seven(.param .u64 y)
        {
            .reg .u64 %at;
            ld.param.u64        %at, [y];
            st.global.u32       [%at], 7;
            ret;
        }
    }

    /// From a file.
    pub mod file {
        crate::facade::runtime::ptx_file!("src/nothing.ptx", crate = crate::facade::runtime);
    }

    #[cfg(test)]
    #[ptx_test(seeds = 2, crate = crate::facade::runtime)]
    fn all_of_them(device: &Device) -> facade::runtime::Result<()> {
        let mut y = device.zeros::<u32>(32)?;
        fill::<32>(device, One { n: 5 }, &mut y)?;
        assert_eq!(y.download()?, [5; 32]);
        several::number(device, &mut y)?;
        assert_eq!(y.download()?[31], 31);
        seven(device, &mut y)?;
        assert_eq!(y.download()?[0], 7);
        assert!(file::nothing::PTX.contains(".entry nothing"));
        Ok(())
    }
}
