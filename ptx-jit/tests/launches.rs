//! Launches of kernels from text: instances, conditions, wrong arguments, and what is wrong with a text.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "launches/attributes.rs"]
mod attributes;
#[path = "launches/conditions.rs"]
mod conditions;

use ptx_expand::temp_dir::TempDir;
use ptx_jit::{JitModule, Live, Source};
use ptx_runtime::{Buffer, Config, Device, ErrorKind, Result};

const SOURCE: &str = r#"
#[ptx_module(arch = "sm_80")]
mod kernels {
    const EACH: u32 = 2;

    struct Shape { threads: u32, blocks: u32 }

    impl Shape {
        const fn work(&self) -> u32 {
            let threads = self.threads * self.blocks;
            if threads > 64 { threads * EACH } else { threads }
        }
    }

    /// Adds a number.
    #[ptx_kernel(
        block = S.threads,
        grid = S.blocks,
        unsafe(requires(x.len() >= S.work(), N > 0 || x.is_empty(), N * 3 / N == 3, N.div_ceil(4) <= 1 << 20))
    )]
    fn add<T, const S: Shape>(x: &mut [T], y: Tile<T, (N,)>, by: T) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (to, from) = (x.at(i), y.at(i));
            let mut value: T;
            ptx! { ld.global.{T} value, [from]; }
            value += by;
            ptx! { st.global.{T} [to], value; }
        }
    }
}
"#;

fn source() -> Source {
    Source::text("add.rs", SOURCE).with("T", "u32").with("S", "Shape { threads: 32, blocks: 2 }")
}

fn add(device: &Device, len: usize, tile: usize, by: u32) -> Result<Vec<u32>> {
    let module = JitModule::load(device, &source())?;
    let (mut x, y) = (device.zeros::<u32>(len)?, device.upload(&vec![5u32; tile])?);
    module.kernel("add")?.launch().write(&mut x)?.read_tile(y.tile([tile])?)?.value(by)?.run(device)?;
    x.download()
}

#[test]
fn any_instance_runs() {
    let device = Device::cpu();
    assert_eq!(add(&device, 64, 60, 3).unwrap(), [vec![8; 60], vec![0; 4]].concat());
    let other = Source::text("add.rs", SOURCE).with("T", "f32").with("S", "Shape { threads: 64, blocks: 1 }");
    let module = JitModule::load(&device, &other).unwrap();
    assert!(module.kernel("add").unwrap().description().entry.starts_with("add_"));
    assert_eq!(module.kernel("add").unwrap().description().doc, "Adds a number.");
}

#[test]
fn conditions_are_checked_with_their_values() {
    let device = Device::cpu();
    let error = add(&device, 63, 1, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    assert!(error.to_string().contains("x.len() = 63") && error.to_string().contains("x.len() >= S.work()"), "{error}");
    let divided = add(&device, 64, 0, 0).unwrap_err().to_string();
    assert!(divided.contains("N = 0"), "{divided}");
}

#[test]
fn arguments_must_fit() {
    let device = Device::cpu();
    let module = JitModule::load(&device, &source()).unwrap();
    let kernel = module.kernel("add").unwrap();
    let (mut x, mut f) = (device.zeros::<u32>(64).unwrap(), device.zeros::<f32>(64).unwrap());
    let message = |result: Result<_>| result.err().map_or(String::new(), |error| error.to_string());
    let wrong = message(kernel.launch().write(&mut f).map(drop));
    assert!(wrong.contains("&mut [f32] for its parameter `x`") && wrong.contains("`x: &mut [u32]`"), "{wrong}");
    assert!(message(kernel.launch().read(&x).map(drop)).contains("&[u32]"));
    assert!(message(kernel.launch().value(3u32).map(drop)).contains("`x: &mut [u32]`"));
    let square = x.tile([8, 8]).unwrap();
    assert!(message(kernel.launch().read_tile(square).map(drop)).contains("of 2 dimensions"));
    let few = message(kernel.launch().write(&mut x).unwrap().run(&device));
    assert!(few.contains("1 argument") && few.contains("`y: Tile<u32, (N,)>`"), "{few}");
}

#[test]
fn mistakes_have_a_place_and_a_mark() {
    let wrong = SOURCE.replace("value += by;", "value += bi;");
    let error = Source::text("add.rs", wrong).with("T", "u32").with("S", "Shape { threads: 1, blocks: 1 }").compile();
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("add.rs:27:22") && text.contains("|             value += bi;\n") && text.contains("^^"),
        "{text}"
    );
    for broken in ["fn", "#[ptx_kernel(arch = \"sm_80\")] fn k() { let x: u32 = ; }", "#[ptx_kernel] fn k() {}"] {
        let text = Source::text("k.rs", broken).compile().unwrap_err().to_string();
        assert!(text.contains("--> k.rs:1:"), "{text}");
    }
    let missing = Source::text("add.rs", SOURCE).with("T", "u32").compile().unwrap_err().to_string();
    assert!(missing.contains("the generic parameters S have no argument"), "{missing}");
}

#[test]
fn what_needs_a_compiler_of_rust_is_an_error_of_the_launch() {
    let text = "use host::blocks;
        #[ptx_kernel(arch = \"sm_80\", block = 32, grid = blocks(n), requires())] fn k(n: u32) { let i: u32 = tid.x; }";
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
    let error = module.kernel("k").unwrap().launch().value(1u32).unwrap().run(&device).unwrap_err().to_string();
    assert!(error.contains("`blocks(n)` cannot be evaluated without a compiler of Rust"), "{error}");
}

#[test]
fn host_expressions_call_functions_and_name_the_structs_of_the_file() {
    let text = r#"
        const fn blocks(n: u32, each: u32) -> u32 { let more = n.div_ceil(each); more.max(1) }

        mod host {
            #[derive(Clone, Copy, KernelParam)] #[repr(C)]
            struct By { factor: u32, term: u32 }
        }
        use host::By as Affine;

        #[ptx_kernel(arch = "sm_80", block = 32, grid = blocks(n, 32), params(Affine), instances = [(u32)],
            unsafe(requires(x.len() >= n, n % (16 / size_of::<T>()) == 0)))]
        fn affine<T>(x: &mut [T], by: Affine, n: u32) {
            let i: u32 = ctaid.x * ntid.x + tid.x;
            if i < n {
                let at = x.at(i);
                let mut value: T;
                ptx! { ld.global.{T} value, [at]; }
                value = value * by.factor + by.term;
                ptx! { st.global.{T} [at], value; }
            }
        }
    "#;
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
    let mut x = device.upload(&[1u32; 40]).unwrap();
    let launch = |x: &mut Buffer<u32>, n: u32| {
        module.kernels()[0].launch().write(x)?.bytes(&[3, 0, 0, 0, 4, 0, 0, 0])?.value(n)?.run(&device)
    };
    launch(&mut x, 36).unwrap();
    assert_eq!(x.download().unwrap(), [vec![7; 36], vec![1; 4]].concat());
    assert!(launch(&mut x, 35).unwrap_err().to_string().contains("n % (16 / size_of::<T>()) == 0"));
    let missing = text.replace("derive(Clone, Copy, KernelParam)", "derive(Clone)");
    let error = Source::text("k.rs", missing).compile().unwrap_err().to_string();
    assert!(error.contains("the struct of parameters `Affine` is not in this text") && error.contains("help: put it"));
    // A chain of functions that would double at every step.
    let doubled = format!("grid = {}n{}, block = 32, params(Affine)", "twice(".repeat(40), ")".repeat(40));
    let chain = text.replace("block = 32, grid = blocks(n, 32), params(Affine)", &doubled);
    let chain = chain.replace("const fn blocks", "const fn twice(n: u32) -> u32 { n + n } const fn blocks");
    let program = Source::text("k.rs", chain).compile().unwrap();
    assert!(program.kernels().all(|kernel| kernel.launch.is_err()));
}

#[test]
fn host_expressions_name_fields_of_struct_parameters() {
    let text = r#"
        #[ptx_kernel(arch = "sm_80", block = p.size.threads, grid = p.blocks, params(Size { threads: u32, step: i16 }, Work { size: Size, blocks: u32, bytes: u64, scale: f32 }),
            requires(x.len() >= p.size.threads * p.blocks, p.size.step < 0, p.scale > 0.5, p.bytes.div_ceil(4) <= x.len()))]
        fn count(x: &mut [u32], p: Work) {
            let i: u32 = ctaid.x * ntid.x + tid.x;
            let to = x.at(i);
            ptx! { st.global.u32 [to], 7; }
        }
    "#;
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
    let launch = |threads: u32, step: i16, blocks: u32, bytes: u64, scale: f32| {
        let mut x = device.zeros::<u32>(64)?;
        let words = [&threads.to_le_bytes()[..], &step.to_le_bytes(), &[0, 0], &blocks.to_le_bytes(), &[0; 4]];
        let bytes = [&words.concat()[..], &bytes.to_le_bytes(), &scale.to_le_bytes(), &[0; 4]].concat();
        module.kernels()[0].launch().write(&mut x)?.bytes(&bytes)?.run(&device)?;
        x.download()
    };
    assert_eq!(launch(16, -1, 3, 256, 1.0).unwrap(), [vec![7; 48], vec![0; 16]].concat());
    let refused = |result: Result<Vec<u32>>| result.unwrap_err().to_string();
    let short = refused(launch(32, -1, 3, 0, 1.0));
    assert!(short.contains("x.len() = 64") && short.contains("p.size.threads = 32"), "{short}");
    assert!(refused(launch(16, 1, 3, 0, 1.0)).contains("p.size.step < 0"));
    assert!(refused(launch(16, -1, 3, 0, 0.25)).contains("p.scale = 0.25"));
    assert!(refused(launch(16, -1, 3, 257, 1.0)).contains("p.bytes.div_ceil(4)"));
    // As in Rust's launch functions, integers of one type have results of that type.
    let large = refused(launch(1 << 31, -1, 2, 0, 1.0));
    assert!(large.contains("`p.size.threads * p.blocks` divides by zero or overflows"), "{large}");
}

#[test]
fn a_launch_says_what_the_attribute_leaves_open() {
    let text = "#[ptx_kernel(arch = \"sm_80\")] fn k(x: &mut [u32]) { ptx! { st.global.u32 [x], 7; } }";
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
    let mut x = device.zeros::<u32>(1).unwrap();
    let launch = module.kernel("k").unwrap().launch().write(&mut x).unwrap();
    launch.config(Config::grid(1).block(1)).run(&device).unwrap();
    assert_eq!(x.download().unwrap(), [7]);
}

#[test]
fn a_list_of_parts_takes_names_in_braces() {
    let text = |parts: &str| {
        format!(
            "mod helpers {{ #[ptx_part] mod one {{ const ONE: u32 = 1; }} #[ptx_part] mod two {{ const TWO: u32 = ONE + 1; }} }}
            #[ptx_module(arch = \"sm_80\", parts({parts}))] mod kernels {{
                #[ptx_kernel(block = 1, grid = 1, unsafe(requires(x.len() >= 1)))]
                fn k(x: &mut [u32]) {{ ptx! {{ st.global.u32 [x], TWO; }} }}
            }}"
        )
    };
    let ptx = |parts: &str| {
        let program = Source::text("k.rs", text(parts)).compile().map_err(|error| error.to_string());
        program.map(|program| program.modules()[0].texts[0].ptx.clone())
    };
    let braced = ptx("helpers::{one, two}");
    assert!(braced.as_ref().is_ok_and(|ptx| ptx.contains("st.global.u32 [%x], 2;")), "{braced:?}");
    assert_eq!(braced, ptx("helpers::one, helpers::two,"));
    assert_eq!(braced, ptx("helpers::{one}, helpers::two"));
    let missing = ptx("helpers::{one, three}").unwrap_err();
    assert!(missing.contains("the part `three` is not in this text"), "{missing}");
    // As in the macros, whatever is no path is an error.
    let wrong = ptx("helpers::{one, two}, 3").unwrap_err();
    assert!(wrong.contains("only modules have parts"), "{wrong}");
}

#[test]
fn a_part_may_be_a_module_of_helpers() {
    let text = |named: &str| {
        format!(
            "#[ptx_part] mod one {{ const fn twice(x: u32) -> u32 {{ 2 * x }} }}
            #[ptx_module(arch = \"sm_80\", modules({named}))] mod kernels {{
                mod two {{ const FOUR: u32 = one::twice(2); }}
                #[ptx_kernel(block = 1, grid = 1, unsafe(requires(x.len() >= 1)))]
                fn k(x: &mut [u32]) {{ const EIGHT: u32 = one::twice(two::FOUR); ptx! {{ st.global.u32 [x], EIGHT; }} }}
            }}"
        )
    };
    let ptx = |named: &str| {
        let program = Source::text("k.rs", text(named)).compile().map_err(|error| error.to_string());
        program.map(|program| program.modules()[0].texts[0].ptx.clone())
    };
    assert!(ptx("one").unwrap().contains(", 8;"), "{:?}", ptx("one"));
    let missing = ptx("").unwrap_err();
    assert!(missing.contains("one::twice"), "{missing}");
}

#[test]
fn threads_compile_and_launch_at_the_same_time() {
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            scope.spawn(move || {
                let device = Device::cpu();
                for turn in 0..4 {
                    assert_eq!(add(&device, 64, 1, thread + turn).unwrap()[0], 5 + thread + turn);
                }
            });
        }
    });
}

#[test]
fn an_edit_is_the_next_launch() {
    let folder = TempDir::new("ptx-jit").unwrap();
    let path = folder.path().join("k.rs");
    let save = |value: &str| {
        let text = "#[ptx_kernel(arch = \"sm_80\", block = 1, grid = 1, unsafe(requires(x.len() >= 1)))]
            fn k<const ADD: u32>(x: &mut [u32]) { let value: u32 = VALUE + ADD; ptx! { st.global.u32 [x], value; } }";
        std::fs::write(&path, text.replace("VALUE", value)).unwrap();
    };
    save("7");
    let device = Device::cpu();
    let (sender, said) = std::sync::mpsc::channel();
    let live = Live::load(&device, &path, |source| source.with("ADD", 100)).unwrap();
    let live = live.on_error(move |error| sender.send(error.to_string()).unwrap());
    let mut x = device.zeros::<u32>(1).unwrap();
    let mut run = || {
        live.kernel("k").unwrap().launch().write(&mut x).unwrap().run(&device).unwrap();
        x.download().unwrap()[0]
    };
    assert_eq!(run(), 107);
    save("8");
    assert_eq!(run(), 108);
    save("wrong");
    assert_eq!((run(), run()), (108, 108));
    let error = said.try_iter().collect::<Vec<_>>();
    assert!(error.len() == 1 && error[0].contains("k.rs:2:") && error[0].contains("the text before stay"), "{error:?}");
    assert!(live.error().is_some());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run(), 108);
    save("9");
    assert!(run() == 109 && live.error().is_none());
    // Bytes that are no text are a wrong edit, too.
    std::fs::write(&path, b"\xff\xfe").unwrap();
    assert_eq!((run(), run()), (109, 109));
    let error = said.try_iter().collect::<Vec<_>>();
    assert!(error.len() == 1 && error[0].contains("k.rs` cannot be read"), "{error:?}");
    save("10");
    assert!(run() == 110 && live.error().is_none());
}

#[test]
fn whoever_hears_of_an_error_may_ask_for_the_kernels() {
    let folder = TempDir::new("ptx-jit").unwrap();
    let path = folder.path().join("k.rs");
    std::fs::write(&path, "#[ptx_kernel(arch = \"sm_80\", block = 1)] fn k() {}").unwrap();
    let own: std::sync::Arc<std::sync::OnceLock<Live>> = std::sync::Arc::default();
    let (told, known) = (std::sync::mpsc::channel(), own.clone());
    let live = Live::load(&Device::cpu(), &path, |source| source).unwrap().on_error(move |_| {
        let live = known.get().unwrap();
        told.0.send(live.kernel("k").is_ok() && live.error().is_some()).unwrap();
    });
    let live = own.get_or_init(|| live);
    std::fs::write(&path, "wrong").unwrap();
    assert!(live.kernel("k").is_ok());
    assert_eq!(told.1.try_iter().collect::<Vec<_>>(), [true]);
}

#[test]
fn ptx_becomes_a_text_with_the_same_ptx() {
    let ptx = source().only("add").compile().unwrap().ptx("add").unwrap().to_owned();
    let made = ptx_jit::transpile("add.ptx", &ptx).unwrap();
    assert!(made.rust.contains("#[ptx_kernel") && made.rust.contains("mod add"), "{}", made.rust);
    assert_eq!(Source::text("again.rs", &made.rust).compile().unwrap().modules()[0].texts[0].ptx, made.ptx);
    let wrong = ptx_jit::transpile("add.ptx", &ptx.replace("ld.global", "ld.globle")).unwrap_err();
    assert!(wrong.to_string().contains("--> add.ptx:"), "{wrong}");
}

#[test]
fn occupancy_follows_from_the_attribute() {
    let program = source().compile().unwrap();
    let (chip, of) = program.occupancy("add", 32, 0).unwrap();
    assert_eq!((chip.target, of.blocks, of.limits[0].0), (80, 32, "blocks"));
    assert_eq!(program.occupancy("add", 32, 60 << 10).unwrap().1.limits[0].0, "shared memory");
}

#[test]
fn a_tensor_map_that_cannot_be_made_names_its_parameter() {
    let text = "#[ptx_kernel(arch = \"sm_90\", block = 1, grid = 1, unsafe(requires()))]
        fn k(#[tma(box = [8, 8])] a: Tile<f32, (M, K)>) { let i: u32 = tid.x; }";
    let device = Device::cpu();
    let module = JitModule::load(&device, &Source::text("k.rs", text)).unwrap();
    let x = device.zeros::<f32>(12).unwrap();
    let launch = module.kernel("k").unwrap().launch().read_tile(x.tile([4, 3]).unwrap()).unwrap();
    let error = launch.run(&device).unwrap_err().to_string();
    assert!(error.contains("`k` is launched with `a` as "), "{error}");
}

/// A condition function, the text of the mistake, the message, and the help.
const REFUSED: [(&str, &str, &str, &str); 14] = [
    ("fn f(&self, x: &[u64]) -> bool { true }", "&[u64]", "a slice has no fixed length", "`[u64; 3]`"),
    ("fn f(&self, x: f32) -> bool { true }", "f32", "a condition has no `f32`", "write an integer"),
    ("fn f(&mut self) -> bool { true }", "&mut self", "a condition changes nothing", "write `&self`"),
    ("fn f(&self) { }", "fn f(&self)", "a condition function without a result", "write `-> bool`"),
    ("fn f(&self) -> bool { self.n as u8 > 1 }", "self.n as u8", "a condition has no cast: `as u8`", "`u64::from(x)`"),
    ("fn f(&self) -> bool { let mut n = 1; n > 0 }", "mut n", "a condition has no such pattern", "write a name"),
    (
        "fn f(&self) -> bool { while self.n > 1 {} true }",
        "while self.n > 1 {}",
        "cannot be evaluated by a launch",
        "`all` and `any`",
    ),
    (
        "fn f(&self) -> bool { self.n.dif_ceil(4) > 1 }",
        "dif_ceil",
        "a condition has no method `dif_ceil`",
        "did you mean `div_ceil`?",
    ),
    (
        "fn f(&self) -> bool { self.cover() }\n fn covers(&self) -> bool { true }",
        "cover",
        "`cover` is no condition function of `P`",
        "did you mean `covers`?",
    ),
    ("fn f(&self) -> bool { g(self.n) }", "g", "`g` is no condition function", "`self.name(…)`"),
    (
        "fn f(&self) -> bool { !self.g() }\n fn g(&self) -> bool { self.f() }",
        "f",
        "`f` calls itself",
        "over an array or a range",
    ),
    (
        "fn f(&self, x: [u32; 2]) -> bool { x[self.n] > 0 }",
        "self.n",
        "the index `self.n` is no constant",
        "the variable of a range",
    ),
    (
        "fn f(&self) -> bool { (0..self.n).all(|at| at > 1) }",
        "0..self.n",
        "the ends of a range are constants",
        "(0..3)",
    ),
    ("fn f(&self) -> bool { return self.n > 1; }", "return self.n > 1;", "a condition has no such statement", "`let`s"),
];

#[test]
fn condition_functions_that_no_launch_evaluates_are_refused() {
    for (function, guilty, message, help) in REFUSED {
        let text = format!(
            "#[derive(KernelParam)] #[repr(C)] struct P {{ n: u32 }}\n#[ptx_contract]\nimpl P {{ {function} }}\n"
        );
        let error = Source::text("k.rs", text).compile().unwrap_err().to_string();
        let marks = "^".repeat(guilty.chars().count());
        for part in ["error: [P0919]", message, help, "k.rs:", &marks] {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }
}

#[test]
fn an_outline_compiles_a_lone_kernel_in_the_same_reading() {
    let text = "#[ptx_kernel(arch = \"sm_80\", block = 32)] fn lone(x: &mut [f32]) { ptx! { bar.sync 0; } }";
    let source = Source::text("lone.rs", text);
    assert_eq!(source.outline().unwrap()[0].name, "lone");
    let other = source.clone().target("sm_90").only("lone").compile().unwrap();
    assert!(other.ptx("lone").unwrap().contains(".target sm_90"));
    let ahead = source.clone().only("lone").compile().unwrap();
    assert_eq!(ahead.ptx("lone"), source.compile().unwrap().ptx("lone"));

    let wrong = Source::text("lone.rs", text.replace("bar.sync 0", "bar.sink 0"));
    assert_eq!(wrong.outline().unwrap().len(), 1);
    assert!(wrong.only("lone").compile().unwrap_err().to_string().contains("bar.sink"));
}
