//! Structs and arrays by value, raw kernels, instructions that the table does not know, source lines.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(a_struct_is_one_parameter),
        super::passes!(structs_of_other_modules_are_named_once),
        super::passes!(a_struct_in_a_body_is_a_parameter_of_a_kernel_beside_it),
        super::passes!(the_fields_of_a_struct_of_arguments_are_parameters),
        super::passes!(conditions_read_the_fields_of_a_struct_of_arguments),
        super::passes!(an_array_is_one_parameter_and_its_elements_are_registers),
        super::passes!(a_raw_kernel_has_no_prologue),
        super::passes!(what_is_unchecked_is_emitted_as_it_is),
        super::passes!(line_information_names_this_file),
        super::passes!(the_line_map_leads_back_here),
        super::passes!(the_type_of_dynamic_memory_is_its_size),
        super::assembles("by_value::PTX", by_value::PTX),
        super::assembles("arrays::PTX", arrays::PTX),
        super::assembles("arguments::PTX", arguments::PTX),
        super::assembles("raw::PTX", raw::PTX),
        super::assembles("lines::PTX", lines::PTX),
    ]
}

#[ptx_module(arch = "sm_80")]
pub mod dynamic {
    struct Memory<const STAGES: u32> {
        #[align(128)]
        stages: [[f32; 1024]; STAGES],
        last: f32,
    }

    #[ptx_kernel(block = 1, grid = 1, instances = [2, 4], unsafe(requires(out.len() >= 1)))]
    pub fn same<const N: u32>(out: &mut [f32]) {
        #[shared(dynamic)]
        let memory: Memory<{ 4 * N }>;
        let mut v: f32 = N as f32;
        ptx! {
            st.shared.f32   [memory.last], v;
            ld.shared.f32   v, [memory.last];
            st.global.f32   [out], v;
        }
    }
}

fn the_type_of_dynamic_memory_is_its_size() {
    let device = Device::cpu();
    let mut out = device.zeros::<f32>(1).unwrap();
    dynamic::same::<4>(&device, &mut out).unwrap();
    assert_eq!(out.download().unwrap(), [4.0]);
    // Each instance has the bytes of its own type.
    use dynamic::same::{Exists, Instance};
    let kernels = [<Instance<2> as Exists>::kernel(), <Instance<4> as Exists>::kernel()];
    assert_eq!(kernels.map(Kernel::dynamic_shared), [8 * 4096 + 128, 16 * 4096 + 128]);
}

/// Two factors.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Factors {
    pub a: f32,
    pub b: f32,
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, params(Factors), unsafe(requires()))]
pub fn by_value(factors: Factors, out: &mut [f32]) {
    let product: f32 = factors.a * factors.b;
    ptx! { st.global.f32 [out], product; }
}

/// Structs of another module, one inside the other.
pub mod shapes {
    use ptx_launch::KernelParam;

    /// A factor and two offsets.
    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Affine {
        pub factor: u32,
        pub offset: [u32; 2],
    }

    /// A struct of the same name.
    pub mod inner {
        /// One with a number.
        #[derive(Clone, Copy, ptx_launch::KernelParam)]
        #[repr(C)]
        pub struct Outer {
            pub affine: super::Affine,
            pub last: u32,
        }

        #[derive(Clone, Copy, ptx_launch::KernelParam)]
        #[repr(C)]
        pub struct Affine {
            pub other: f32,
        }
    }
}

#[ptx_module(arch = "sm_80", params(self::shapes::{Affine, inner::Outer}, Factors { a: f32, b: f32 }))]
mod of_paths {
    use super::Factors;
    use super::shapes::Affine;
    use super::shapes::inner::Outer;

    #[ptx_kernel(block = 1, grid = 1, unsafe(requires(out.len() >= 1)))]
    pub fn evaluate(outer: Outer, affine: Affine, factors: Factors, out: &mut [u32]) {
        let factor: u32 = factors.a as u32;
        let sum: u32 = outer.affine.factor * outer.last + affine.offset[0] + affine.offset[1] * factor;
        ptx! { st.global.u32 [out], sum; }
    }
}

fn structs_of_other_modules_are_named_once() {
    use shapes::{Affine, inner};
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    let outer = inner::Outer { affine: Affine { factor: 3, offset: [0; 2] }, last: 5 };
    let affine = Affine { factor: 0, offset: [10, 100] };
    of_paths::evaluate(&device, outer, affine, Factors { a: 2.0, b: 0.0 }, &mut out).unwrap();
    assert_eq!(out.download().unwrap(), [225]);
}

#[ptx_module(arch = "sm_80", params(Factors))]
pub mod arguments {
    use super::Factors;

    /// The inputs of a sum.
    struct Inputs<E, const LEN: u32> {
        /// Its terms.
        x: &[E],
        y: &[E],
        /// The factor of the terms.
        factors: Factors,
        n: u32,
        weights: [E; LEN],
    }

    struct Output<E> {
        sums: &mut [E],
    }

    impl<E, const LEN: u32> Inputs<E, LEN> {
        fn term(&self, i: u32) -> E {
            let at = self.y.at(i);
            let mut y: E;
            ptx! { ld.global.{E} y, [at]; }
            y * scale(&self.factors)
        }
    }

    fn scale(factors: &Factors) -> f32 {
        factors.a
    }

    fn add<E>(inputs: &Inputs<E, 2>, i: u32, to: GlobalMut<E>) {
        let (from, mut sum): (Global<E>, E) = (inputs.x.at(i), inputs.term(i));
        let x: E;
        ptx! {
            ld.global.{E} x, [from];
            fma.rn.{E} sum, x, inputs.factors.b, sum;
            add.{E} sum, sum, inputs.weights[1];
            st.global.{E} [to], sum;
        }
    }

    #[ptx_kernel(
        block = 32,
        grid = inputs.n.div_ceil(32),
        instances = [plain = (f32, 1), twice = (f32, 2)],
        unsafe(requires(inputs.x.len() >= inputs.n, inputs.y.len() >= inputs.n, output.sums.len() >= inputs.n))
    )]
    pub fn sum<T, const TIMES: u32>(inputs: Inputs<T, 2>, output: Output<T>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < inputs.n {
            for _ in 0..TIMES {
                add(&inputs, i, output.sums.at(i));
            }
        }
    }

    #[ptx_kernel(block = 1, grid = 1, unsafe(requires(inputs.x.len() > 0, output.sums.len() > 0)))]
    pub fn first(inputs: Inputs<f32, 1>, output: Output<f32>) {
        let x: f32;
        ptx! {
            ld.global.f32 x, [inputs.x];
            st.global.f32 [output.sums], x;
        }
    }
}

fn the_fields_of_a_struct_of_arguments_are_parameters() {
    use arguments::{Inputs, Output, first, sum};
    let device = Device::cpu();
    let x = device.upload(&[1.0f32, 2.0, 3.0]).unwrap();
    let y = device.upload(&[10.0f32, 20.0, 30.0]).unwrap();
    let mut sums = device.zeros::<f32>(3).unwrap();
    let factors = Factors { a: 2.0, b: 3.0 };
    let inputs = Inputs { x: &x, y: &y, factors, n: 3u32, weights: [0.0, 0.5] };
    sum::twice(&device, inputs, Output { sums: &mut sums }).unwrap();
    assert_eq!(sums.download().unwrap(), [23.5, 46.5, 69.5]);
    let rest = x.slice(1..).unwrap();
    let inputs = Inputs { x: &rest, y: &y, factors, n: 0u32, weights: [0.0] };
    first(&device, inputs, Output { sums: &mut sums }).unwrap();
    assert_eq!(sums.download().unwrap(), [2.0, 46.5, 69.5]);
    sum::launch(
        sum::Instance::plain,
        &device,
        Inputs { x: &x, weights: [0.0; 2], n: 3, y: &y, factors },
        Output { sums: &mut sums },
    )
    .unwrap();
    // Each field is a parameter of the entry, and one that is not used is not loaded.
    let (_, entry) = arguments::PTX.split_once(".entry first").unwrap();
    assert!(entry.contains(".param .u64 .ptr .global .align 4 x,") && entry.contains(".param .u32 n,"), "{entry}");
    assert_eq!(entry.matches("ld.param").count(), 2, "{entry}");
    let names: Vec<_> = first::KERNEL.params.iter().map(|p| p.name).collect();
    assert_eq!(names, ["inputs.x", "inputs.y", "inputs.factors", "inputs.n", "inputs.weights", "output.sums"]);
}

fn conditions_read_the_fields_of_a_struct_of_arguments() {
    use arguments::{Inputs, Output, sum};
    let device = Device::cpu();
    let (x, mut sums) = (device.zeros::<f32>(3).unwrap(), device.zeros::<f32>(3).unwrap());
    let inputs = Inputs { x: &x, y: &x, factors: Factors { a: 2.0, b: 3.0 }, n: 4u32, weights: [0.0; 2] };
    let error = sum::plain(&device, inputs, Output { sums: &mut sums }).unwrap_err().to_string();
    assert!(error.contains("inputs.x.len() >= inputs.n"), "{error}");
    assert!(error.contains("inputs.x.len() = 3") && error.contains("inputs.n = 4"), "{error}");
}

fn a_struct_in_a_body_is_a_parameter_of_a_kernel_beside_it() {
    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    struct Local {
        n: u32,
    }
    #[ptx_kernel(arch = "sm_80", block = 1, grid = 1, params(Local), unsafe(requires(out.len() >= 1)))]
    fn store(local: Local, out: &mut [u32]) {
        let n: u32 = local.n;
        ptx! { st.global.u32 [out], n; }
    }
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    store(&device, Local { n: 7 }, &mut out).unwrap();
    assert_eq!(out.download().unwrap(), [7]);
}

fn a_struct_is_one_parameter() {
    assert_eq!(by_value::KERNEL.params.first().map(|p| (p.name, p.size, p.align)), Some(("factors", 8, 4)));
}

#[ptx_kernel(arch = "sm_80", block = 1, grid = 1, unsafe(requires(out.len() >= 4)))]
pub fn arrays(factors: [f32; 3], bytes: [u8; 4], pairs: [[u32; 2]; 2], out: &mut [u32]) {
    let mut sum: f32 = 0.0;
    for factor in factors {
        sum += factor;
    }
    let byte: u32 = bytes[3] as u32;
    ptx! {
        st.global.f32 [out], sum;
        st.global.u32 [out + 4], byte;
        st.global.v2.u32 [out + 8], {pairs[0][1], pairs[1][0]};
    }
}

fn an_array_is_one_parameter_and_its_elements_are_registers() {
    let params: Vec<_> = arrays::KERNEL.params.iter().map(|p| (p.name, p.size, p.align)).collect();
    assert_eq!(params[..3], [("factors", 12, 4), ("bytes", 4, 1), ("pairs", 16, 4)]);
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(4).expect("memory");
    arrays(&device, [1.0, 2.0, 4.0], [5, 6, 7, 8], [[1, 2], [3, 4]], &mut out).expect("a launch");
    assert_eq!(out.download().expect("a copy"), [7.0f32.to_bits(), 8, 2, 3]);
}

#[ptx_kernel(arch = "sm_80", raw)]
fn raw(out: &mut [u32], n: u32) {
    ptx! {
        .reg .b64 %rd;
        .reg .b32 %r;
        ld.param.u64 %rd, [out];
        ld.param.u32 %r, [n];
        st.global.u32 [%rd], %r;
    }
}

fn a_raw_kernel_has_no_prologue() {
    assert_eq!(raw::PTX.matches("ld.param").count(), 2, "{}", raw::PTX);
    assert!(!raw::PTX.contains("cvta"), "{}", raw::PTX);
}

#[ptx_kernel(arch = "sm_80", version = "8.0")]
fn unknown(out: &mut [u32]) {
    let mut x: u32 = 1;
    ptx! {
        unchecked { new.op.b32 x, x; }
        st.global.u32 [out], x;
    }
}

fn what_is_unchecked_is_emitted_as_it_is() {
    assert!(unknown::PTX.contains("new.op.b32 %x, %x;"), "{}", unknown::PTX);
}

#[ptx_kernel(arch = "sm_80", lineinfo)]
fn lines(out: &mut [u32]) {
    ptx! { st.global.u32 [out], 1; }
}

fn line_information_names_this_file() {
    assert!(lines::PTX.contains("parameters.rs\""), "{}", lines::PTX);
    assert!(lines::PTX.contains(".loc"), "{}", lines::PTX);
}

fn the_line_map_leads_back_here() {
    let at = by_value::PTX.lines().position(|l| l.contains("st.global")).expect("the store");
    let source = by_value::MODULE.line_maps().unwrap()[0].source(at as u32 + 1).map(|(_, line)| line as usize);
    let here = include_str!("parameters.rs").lines().position(|l| l.contains("[out], product")).map(|l| l + 1);
    assert_eq!(source, here);
}
