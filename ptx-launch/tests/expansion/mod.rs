//! The expansion of `#[ptx_kernel]`, written by hand: the contract between the macros and the runtime.
//!
//! The macros write the texts compressed, with `Variant::packed`; here they are plain, so that they can be read. The macros' own tests compare with this shape; a change of either side shows here first.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part")]
#![allow(
    unsafe_code,
    unused_qualifications,
    clippy::nonminimal_bool,
    reason = "as in an expansion, where no lint looks"
)]

// The source:
//
// #[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, y.len() >= n)))]
// pub fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) { … }

/// The PTX of [`saxpy()`], and what it is made of.
pub mod saxpy {
    use ::ptx_launch::expansion as rt;

    /// The PTX, made at compile time. With several targets: that of the first one in the attribute.
    pub const PTX: &str = r"
.version 7.0
.target sm_80
.address_size 64

.visible .entry saxpy(
	.param .f32 alpha_param,
	.param .u64 x_param,
	.param .u64 y_param,
	.param .u32 n_param
)
{
	.reg .f32 alpha, vx, vy;
	.reg .u64 x, y, px, py, off;
	.reg .u32 n, i, c, b, t;
	.reg .pred p;
	ld.param.f32 alpha, [alpha_param];
	ld.param.u64 x, [x_param];
	cvta.to.global.u64 x, x;
	ld.param.u64 y, [y_param];
	cvta.to.global.u64 y, y;
	ld.param.u32 n, [n_param];
	mov.u32 c, %ctaid.x;
	mov.u32 b, %ntid.x;
	mul.lo.u32 i, c, b;
	mov.u32 t, %tid.x;
	add.u32 i, i, t;
	setp.lt.u32 p, i, n;
	@!p bra $L_end;
	mul.wide.u32 off, i, 4;
	add.u64 px, x, off;
	add.u64 py, y, off;
	ld.global.f32 vx, [px];
	ld.global.f32 vy, [py];
	fma.rn.f32 vy, alpha, vx, vy;
	st.global.f32 [py], vy;
$L_end:
	ret;
}
";
    /// The entry's name in the PTX.
    pub const ENTRY: &str = "saxpy";
    const VARIANTS: &[rt::Variant] = &[rt::Variant::new("sm_80", PTX, rt::LineMap::new(file!(), "15:0:11 33:0:12"))];
    /// The module; `#[ptx_module]` makes one for all its kernels.
    pub static MODULE: rt::Module = rt::Module::new("saxpy", VARIANTS);
    /// The kernel: its figures, its occupancy, loading it ahead of the first launch.
    pub static KERNEL: rt::Kernel = rt::Kernel::new(
        &MODULE,
        ENTRY,
        &[
            rt::Param::value::<f32>("alpha"),
            rt::Param::pointer("x"),
            rt::Param::pointer("y"),
            rt::Param::value::<u32>("n"),
        ],
    );
}

/// The doc comments of the kernel stand here.
///
/// # Errors
/// Those of [`ptx_launch::Error`].
pub fn saxpy(
    stream: impl ::ptx_launch::expansion::AsStream,
    alpha: f32,
    x: impl ::ptx_launch::expansion::ReadSlice<f32>,
    mut y: impl ::ptx_launch::expansion::WriteSlice<f32>,
    n: u32,
) -> ::ptx_launch::Result<()> {
    use ::ptx_launch::expansion as rt;
    let __config = {
        // Host expressions: integers of the signature become `Int`, slices `Len`, literals `int(…)`; casts are dropped.
        let x = rt::Len::new(rt::ReadSlice::len(&x));
        let y = rt::Len::new(rt::WriteSlice::len(&y));
        let n = rt::int(n);
        let __unmet = 'conditions: {
            if !(x.len() >= n) {
                break 'conditions Some(rt::Unmet("x.len() >= n", b"\x00\x01\x02"));
            }
            if !(y.len() >= n) {
                break 'conditions Some(rt::Unmet("y.len() >= n", b"\x00\x01\x02"));
            }
            None
        };
        if let Some(__unmet) = __unmet {
            let values: &[(&str, &dyn std::fmt::Display)] = &[("x.len()", &x.len()), ("y.len()", &y.len()), ("n", &n)];
            return Err(rt::unmet(&saxpy::KERNEL, __unmet, values));
        }
        rt::Config::grid(match rt::IntegerArithmetic::div_ceil(n, rt::int(256)) {
            Some(value) => value,
            None => return rt::without_value(&saxpy::KERNEL, "n.div_ceil(256)"),
        })
        .block(rt::int(256))
    };
    let __submission = rt::Submission::on(rt::AsStream::as_stream(&stream));
    let __stream = __submission.stream();
    let __x = rt::ReadSlice::bind(&x, __stream)?;
    let __y = rt::WriteSlice::bind(&mut y, __stream)?;
    // SAFETY: the arguments are those of the entry, by the same signature; the author vouches for the body.
    unsafe {
        rt::launch(
            &saxpy::KERNEL,
            __stream,
            &__config,
            &[rt::Arg::new(&alpha), rt::Bound::arg(&__x), rt::Bound::arg(&__y), rt::Arg::new(&n)],
        )
    }
}

// The source: no conditions, no `block`, no `grid`, two instances, a struct by value, a tensor map.
//
// #[ptx_kernel(arch("sm_90a"), cluster = 2, instances = [(3), (4)])]
// pub fn tiles<const STAGES: u32>(a: TensorMap, shape: Shape, out: &mut [u32]) { … }

/// A struct that travels by value. `#[derive(KernelParam)]` writes the `impl` and the assertion.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Shape {
    pub m: u32,
    pub n: u32,
}
// SAFETY: every field is a `KernelParam`, and the assertion below shows that there is no padding.
unsafe impl ::ptx_launch::expansion::KernelParam for Shape {}
const _: () = assert!(
    size_of::<Shape>() == size_of::<u32>() + size_of::<u32>(),
    "`Shape` has padding: add fields for it, so that every byte that the kernel sees is initialized"
);

/// The instances of [`tiles()`].
pub mod tiles {
    use ::ptx_launch::expansion as rt;

    /// The PTX of all instances.
    pub const PTX: &str = "…";
    const VARIANTS: &[rt::Variant] = &[rt::Variant::new("sm_90a", PTX, rt::LineMap::new("", ""))];
    const PARAMS: &[rt::Param] = &[
        rt::Param::value::<::ptx_launch::TensorMap>("a"),
        rt::Param::value::<super::Shape>("shape"),
        rt::Param::pointer("out"),
    ];
    /// The module.
    pub static MODULE: rt::Module = rt::Module::new("tiles", VARIANTS);

    /// The instance with these arguments.
    pub struct Instance<const STAGES: u32>;
    /// The kernel of an instance that exists: `<tiles::Instance<3> as tiles::Exists>::kernel()`.
    #[diagnostic::on_unimplemented(
        message = "`tiles` has no such instance",
        label = "the instances are `<3>` and `<4>`",
        note = "add it to `instances` in the kernel's attribute"
    )]
    pub trait Exists: sealed::Sealed {
        /// Its kernel.
        fn kernel() -> &'static rt::Kernel;
    }
    mod sealed {
        pub trait Sealed {}
    }
    static KERNEL_0: rt::Kernel = rt::Kernel::new(&MODULE, "tiles_3", PARAMS);
    impl sealed::Sealed for Instance<3> {}
    impl Exists for Instance<3> {
        fn kernel() -> &'static rt::Kernel {
            &KERNEL_0
        }
    }
    static KERNEL_1: rt::Kernel = rt::Kernel::new(&MODULE, "tiles_4", PARAMS);
    impl sealed::Sealed for Instance<4> {}
    impl Exists for Instance<4> {
        fn kernel() -> &'static rt::Kernel {
            &KERNEL_1
        }
    }
}

/// The doc comments of the kernel stand here.
///
/// # Safety
/// The kernel reads and writes device memory through its arguments: they must be as large as its body assumes, and
/// nothing else may use what it writes until it has ended.
///
/// # Errors
/// Those of [`ptx_launch::Error`].
pub unsafe fn tiles<const STAGES: u32>(
    stream: impl ::ptx_launch::expansion::AsStream,
    config: ::ptx_launch::expansion::Config,
    a: &::ptx_launch::TensorMap,
    shape: Shape,
    mut out: impl ::ptx_launch::expansion::WriteSlice<u32>,
) -> ::ptx_launch::Result<()>
where
    tiles::Instance<STAGES>: tiles::Exists,
{
    use ::ptx_launch::expansion as rt;
    // With `unsafe(requires(…))`: `safely_over`.
    let __config = config.over(rt::Config::new().cluster(rt::int(2)))?;
    let __submission = rt::Submission::on(rt::AsStream::as_stream(&stream));
    let __stream = __submission.stream();
    let __out = rt::WriteSlice::bind(&mut out, __stream)?;
    // SAFETY: the arguments are those of the entry, by the same signature; the caller vouches for the rest.
    unsafe {
        rt::launch(
            <tiles::Instance<STAGES> as tiles::Exists>::kernel(),
            __stream,
            &__config,
            &[rt::Arg::new(a), rt::Arg::new(&shape), rt::Bound::arg(&__out)],
        )
    }
}

// The source: dimensions that the tiles name, a tensor map made at the launch.
//
// #[ptx_kernel(arch = "sm_90a", block = 128, grid = (N.div_ceil(64), M.div_ceil(64)), unsafe(requires()))]
// pub fn scale(#[tma(box = [64, 32], swizzle = 128)] a: Tile<f32, (M, N)>, c: TileMut<f32, (M, N)>) { … }

/// The PTX of [`scale()`], and what it is made of.
pub mod scale {
    use ::ptx_launch::expansion as rt;

    /// The PTX.
    pub const PTX: &str = ".version 8.0";
    const VARIANTS: &[rt::Variant] = &[rt::Variant::new("sm_90a", PTX, rt::LineMap::new("", ""))];
    /// The module.
    pub static MODULE: rt::Module = rt::Module::new("scale", VARIANTS);
    /// The kernel: the parameters of the signature, then the dimensions, then the tensor maps.
    pub static KERNEL: rt::Kernel = rt::Kernel::new(
        &MODULE,
        "scale",
        &[
            rt::Param::pointer("a"),
            rt::Param::pointer("c"),
            rt::Param::value::<u32>("M"),
            rt::Param::value::<u32>("N"),
            rt::Param::value::<rt::TensorMap>("a_map"),
        ],
    );
}

/// The doc comments of the kernel stand here.
///
/// # Errors
/// Those of [`ptx_launch::Error`].
pub fn scale(
    stream: impl ::ptx_launch::expansion::AsStream,
    a: impl ::ptx_launch::expansion::ReadTile<f32, 2>,
    mut c: impl ::ptx_launch::expansion::WriteTile<f32, 2>,
) -> ::ptx_launch::Result<()> {
    use ::ptx_launch::expansion as rt;
    let (__a_shape, __c_shape) = (rt::ReadTile::shape(&a), rt::WriteTile::shape(&c));
    let __m = rt::dim(&scale::KERNEL, "M", &[("a", __a_shape[0]), ("c", __c_shape[0])])?;
    let __n = rt::dim(&scale::KERNEL, "N", &[("a", __a_shape[1]), ("c", __c_shape[1])])?;
    let __config = {
        #[allow(non_snake_case, reason = "the user's names")]
        let (M, N) = (rt::int(__m), rt::int(__n));
        rt::Config::grid((
            match rt::IntegerArithmetic::div_ceil(N, rt::int(64)) {
                Some(value) => value,
                None => return rt::without_value(&scale::KERNEL, "N.div_ceil(64)"),
            },
            match rt::IntegerArithmetic::div_ceil(M, rt::int(64)) {
                Some(value) => value,
                None => return rt::without_value(&scale::KERNEL, "M.div_ceil(64)"),
            },
        ))
        .block(rt::int(128))
    };
    let __submission = rt::Submission::on(rt::AsStream::as_stream(&stream));
    let __stream = __submission.stream();
    let __a = rt::ReadSlice::bind(&a, __stream)?;
    let __c = rt::WriteSlice::bind(&mut c, __stream)?;
    let __a_map = rt::TensorMap::of_bound::<f32>(&__a, __stream, rt::ReadSlice::len(&a), &__a_shape)
        .tile(&[64, 32])
        .swizzle(rt::Swizzle::B128);
    let __a_map = rt::build_map(&__a_map, &scale::KERNEL, "a")?;
    // SAFETY: the arguments are those of the entry, by the same signature; the author vouches for the body.
    unsafe {
        rt::launch(
            &scale::KERNEL,
            __stream,
            &__config,
            &[
                rt::Bound::arg(&__a),
                rt::Bound::arg(&__c),
                rt::Arg::new(&__m),
                rt::Arg::new(&__n),
                rt::Arg::new(&__a_map),
            ],
        )
    }
}
