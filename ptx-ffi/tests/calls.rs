//! Calls by the conventions of TVM-FFI and XLA, on the CPU device, without either of them.
#![cfg(feature = "cpu")]
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "tests of C interfaces"
)]

mod frames;

use frames::{__xla_ffi_ptx_ffi_jit_cpu, Arg, ask, call_tvm, call_xla, functions};
use ptx_ffi::prelude::*;

/// Adds one.
#[ptx_ffi::export]
#[ptx_kernel(arch = "sm_80", block = 32, grid = N.div_ceil(32), unsafe(requires(N > 0)))]
fn add_one(x: Tile<f32, (N,)>, out: TileMut<f32, (N,)>) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < N {
        let value: f32;
        let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(i), out.at(i));
        ptx! { ld.global.f32 value, [from]; add.rn.f32 value, value, 1.0; st.global.f32 [to], value; }
    }
}

/// Copies, or fails in the way of `how`.
#[ptx_ffi::export(shapes(x = [.., 2], out = [.., 2]), types = [f32, i32], defaults(times = 1, how = "well"))]
fn copy<T: KernelParam>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    mut out: TensorMut<'_, T, 2>,
    extra: Option<TensorRef<'_, f32, 1>>,
    times: u8,
    how: &str,
) -> Result<()> {
    match (how, extra) {
        ("well", None) => (0..times).try_for_each(|_| stream.copy(&x, &mut out)),
        ("well", Some(extra)) => Err(Error::new(ErrorKind::Condition, format!("extra has {:?}", extra.shape()))),
        ("memory", _) => Err(Error::new(ErrorKind::OutOfMemory, "none left")),
        _ => panic!("how is {how}"),
    }
}

/// Does nothing with tensors whose extents have nothing in common.
#[ptx_ffi::export(shapes(x = [n, 2], out = [m]))]
fn ignore(_stream: &Stream, x: TensorRef<'_, f32, 2>, out: TensorMut<'_, f32, 1>) -> Result<()> {
    let _ = (x, out);
    Ok(())
}

/// A matrix, and a factor that may be left out.
#[derive(ptx_ffi::Args)]
struct Scaled<'a, U, const R: usize> {
    values: TensorRef<'a, U, R>,
    factor: Option<f32>,
}

/// A struct in a struct, whose type parameters have another order than those of the function.
#[derive(ptx_ffi::Args)]
struct Work<'a, U, I> {
    scaled: Scaled<'a, U, 2>,
    order: TensorRef<'a, I, 1>,
    limit: f32,
    count: u8,
    name: &'a str,
}

/// Scalars alone.
#[derive(ptx_ffi::Args)]
struct Place {
    is_last: bool,
}

/// Returns an error that shows the arguments.
#[ptx_ffi::export(
    types = [(i32, i32), (i32, f32)],
    shapes(values = [m, n], order = [n], out = [m]),
    defaults(limit = 3, name = "none", is_last = true),
    align(values = 4)
)]
fn combine<I, T>(_stream: &Stream, work: Work<'_, T, I>, out: TensorMut<'_, T, 1>, place: Place) -> Result<()> {
    let Work { scaled: Scaled { values, factor }, order, limit, count, name } = work;
    let (shapes, ty) = ((values.shape(), order.shape(), out.shape()), std::any::type_name::<T>());
    let message = format!("{shapes:?} {factor:?} {limit} {count} {name} {} {ty}", place.is_last);
    Err(Error::new(ErrorKind::Condition, message))
}

#[test]
fn fields_of_structs_are_parameters() {
    let (values, order, mut out) = ([1.0f32; 6], [0i32; 3], [0.0f32; 2]);
    let mut call = |columns: &[i64], attributes: &[(&str, Arg)]| {
        let read = [Arg::read(&values, columns), Arg::read(&order, &[3])];
        call_xla(__ptx_ffi_combine::XLA_CPU, &read, &[Arg::write(&mut out, &[2])], attributes).unwrap().1
    };
    let message = call(&[2, 3], &[("count", Arg::Int(7))]);
    assert!(message.contains("([2, 3], [3], [2]) None 3 7 none true f32"), "{message}");
    let message = call(&[2, 3], &[("count", Arg::Int(7)), ("factor", Arg::Float(0.5)), ("name", Arg::Text("other"))]);
    assert!(message.contains("Some(0.5) 3 7 other true f32"), "{message}");
    let message = call(&[3, 2], &[("count", Arg::Int(7))]);
    assert!(message.contains("combine: order: dimension 0 (n) has 3 elements"), "{message}");
    let message = call(&[2, 3], &[("count", Arg::Int(700))]);
    assert!(message.contains("combine: count: 700 is outside of 0 to 255"), "{message}");
}

#[test]
fn a_kernel_is_called_by_both_conventions() {
    let (x, mut out) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
    assert_eq!(call_tvm(__ptx_ffi_add_one::TVM, &[Arg::read(&x, &[3]), Arg::write(&mut out, &[3])]), 0);
    assert_eq!(out, [2.0, 3.0, 4.0]);
    let mut out = [0.0f32; 3];
    let result = call_xla(__ptx_ffi_add_one::XLA_CPU, &[Arg::read(&x, &[3])], &[Arg::write(&mut out, &[3])], &[]);
    assert_eq!((result, out), (None, [2.0, 3.0, 4.0]));
}

#[test]
fn memory_that_does_not_suffice_is_an_error() {
    let mut all = [0.0f32; 4];
    let (out, x) = all.split_at_mut(2);
    let huge = Arg::at(x.as_mut_ptr(), &[1 << 45, 2]);
    let result = call_xla(__ptx_ffi_ignore::XLA_CPU, &[huge], &[Arg::write(out, &[2])], &[]);
    let (_, message) = result.unwrap();
    assert!(message.contains("ignore: x: a copy of its 281474976710656 bytes"), "{message}");
}

#[cfg(unix)]
unsafe extern "C" {
    fn fork() -> i32;
    fn alarm(seconds: u32) -> u32;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// A child has no thread that would release a lock: none may be taken while a process forks.
#[cfg(unix)]
#[test]
fn a_process_is_forked_while_threads_call() {
    let call = || {
        let (x, mut out) = ([1.0f32; 96], [0.0f32; 96]);
        let code = call_tvm(__ptx_ffi_add_one::TVM, &[Arg::read(&x, &[96]), Arg::write(&mut out, &[96])]);
        code == 0 && out == [2.0; 96]
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) && call() {
                    std::hint::spin_loop();
                }
            });
        }
        let statuses: Vec<i32> = (0..30)
            .map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                let child = unsafe { fork() };
                if child == 0 {
                    unsafe { alarm(30) };
                    let code = if call() { 0 } else { 1 };
                    unsafe { _exit(code) }
                }
                let mut status = -1;
                unsafe { waitpid(child, &raw mut status, 0) };
                status
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(statuses, [0; 30]);
    });
}

#[test]
fn the_type_chooses_the_instance() {
    let (x, mut out) = ([1i32, 2, 3, 4], [0i32; 4]);
    assert_eq!(call_tvm(__ptx_ffi_copy::TVM, &[Arg::read(&x, &[2, 2]), Arg::write(&mut out, &[2, 2])]), 0);
    assert_eq!(out, [1, 2, 3, 4]);
}

#[test]
fn errors_name_the_argument_and_write_nothing() {
    let (x, y) = ([1.0f32; 4], [1i32; 4]);
    let mut out = [7.0f32; 4];
    let mut fails = |x: Arg, shape: &[i64], attributes: &[(&str, Arg)], expected: &str| {
        let error = call_xla(__ptx_ffi_copy::XLA_CPU, &[x], &[Arg::write(&mut out, shape)], attributes);
        let (code, message) = error.unwrap();
        assert!(message.starts_with(expected), "{code}: {message}");
        assert_eq!(out, [7.0; 4]);
        code
    };
    let absent = ("absent", Arg::Int(1 << 2));
    fails(Arg::read(&y, &[2, 2]), &[2, 2], &[absent], "copy: out: expected a tensor of int32, found float32");
    fails(Arg::read(&x, &[4]), &[2, 2], &[absent], "copy: x: expected 2 elements in dimension 1, found shape [1, 4]");
    fails(
        Arg::read(&x, &[1, 2]),
        &[2, 2],
        &[absent],
        "copy: out: dimension 0 (..) has 2 elements, and dimension 0 of x has 1",
    );
    let nowhere = Arg::at(std::ptr::null_mut::<f32>(), &[2, 2]);
    fails(nowhere, &[2, 2], &[absent], "copy: x: a tensor of shape [2, 2] without memory");
    fails(Arg::read(&x, &[2, 2]), &[2, 2], &[], "copy: takes 2 inputs and 1 outputs; 1 and 1 are given");
    let mut fails = |name, value, expected| fails(Arg::read(&x, &[2, 2]), &[2, 2], &[absent, (name, value)], expected);
    assert_eq!(fails("times", Arg::Int(256), "copy: times: 256 is outside of 0 to 255"), 3);
    assert_eq!(fails("times", Arg::Float(1.0), "copy: times: expected an int, found a float"), 3);
    assert_eq!(fails("how", Arg::Text("memory"), "copy: none left"), 8);
    assert_eq!(fails("how", Arg::Text("badly"), "copy: panicked: how is badly"), 13);
}

#[test]
fn wrong_calls_of_tvm_fail() {
    let mut memory = [1.0f32; 8];
    let address = memory.as_mut_ptr();
    let call = |args: &[Arg]| call_tvm(__ptx_ffi_copy::TVM, args);
    let part = |from: usize, shape: &'static [i64]| Arg::at(unsafe { address.add(from) }, shape);
    assert_eq!(call(&[part(0, &[2, 2]), part(4, &[2, 2])]), 0);
    assert_eq!(call(&[part(0, &[2, 2]), part(3, &[2, 2])]), -1, "shared memory");
    assert_eq!(call(&[part(0, &[2, 2])]), -1, "too few");
    assert_eq!(call(&[]), -1, "none");
    assert_eq!(call(&[part(0, &[2, 2]), Arg::Int(3)]), -1, "no tensor");
    let misaligned = Arg::at(address.wrapping_byte_add(2), &[1, 2]);
    assert_eq!(call(&[misaligned, part(4, &[1, 2])]), -1, "misaligned");
    let nowhere = |shape: &'static [i64]| Arg::at(std::ptr::null_mut::<f32>(), shape);
    assert_eq!(call(&[nowhere(&[1, 2]), part(4, &[1, 2])]), -1, "no memory");
    assert_eq!(call(&[nowhere(&[0, 2]), nowhere(&[0, 2])]), 0, "no elements");
    let many: Vec<Arg> = (0..40).map(|_| Arg::Int(1)).collect();
    assert_eq!(call(&many), -1, "too many");
}

/// C programs pass null pointers by mistake.
#[test]
fn null_pointers_are_refused() {
    let call = |args: *const [u64; 2], count| unsafe {
        __ptx_ffi_copy::TVM(std::ptr::null_mut(), args.cast(), count, std::ptr::null_mut())
    };
    assert_eq!([0, 2, -1].map(|count| call(std::ptr::null(), count)), [-1; 3]);
    for tag in [7, 8, 65, 70, 1000] {
        assert_eq!(call([[tag, 0], [tag, 0]].as_ptr(), 2), -1, "tag {tag}");
    }
    // A float32 tensor of two dimensions on the host, without a shape.
    let tensor: [u64; 7] = [4096, 1, 2 | 2 << 32 | 32 << 40 | 1 << 48, 0, 0, 0, 0];
    assert_eq!(call([[7, tensor.as_ptr() as u64]; 2].as_ptr(), 2), -1);
}

/// A kernel from text is called as an exported one: the same checks, the same messages.
#[test]
fn a_kernel_from_text_is_a_function() {
    const TEXT: &str =
        "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = N.div_ceil(32), unsafe(requires(N > 0, times <= 9)))]
        fn repeat(x: Tile<f32, (N,)>, times: u32, out: TileMut<f32, (N,)>) {
            let i: u32 = ctaid.x * ntid.x + tid.x;
            if i < N {
                let (from, to, mut value): (Global<f32>, GlobalMut<f32>, f32) = (x.at(i), out.at(i), 0.0);
                ptx! { ld.global.f32 value, [from]; }
                value *= times as f32;
                ptx! { st.global.f32 [to], value; }
            }
        }";
    let request = |text: &str| ask(&["compile", "65536", "k.rs", text, "", ""]);
    let answer = request(TEXT);
    let expected =
        r#"{"kernels":[{"key":65536,"name":"repeat","entry":"repeat","refused":"","function":{"name":"repeat""#;
    assert!(answer.starts_with(expected), "{answer}");
    assert_eq!(request(TEXT), answer, "the same kernel");
    let (x, mut out) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
    let key = ("__function", Arg::Int(65536));
    let call =
        |x: Arg, out: Arg, times| call_xla(__xla_ffi_ptx_ffi_jit_cpu, &[x], &[out], &[key, ("times", Arg::Int(times))]);
    assert_eq!(call(Arg::read(&x, &[3]), Arg::write(&mut out, &[3]), 2), None);
    assert_eq!(out, [2.0, 4.0, 6.0]);
    let mut fails = |x: Arg, times, expected: &str| {
        let (_, message) = call(x, Arg::write(&mut out, &[3]), times).unwrap();
        assert!(message.starts_with(expected), "{message}");
    };
    fails(Arg::read(&x[..2], &[2]), 2, "repeat: out: dimension 0 (N) has 3 elements, and dimension 0 of x has 2");
    fails(Arg::read(&[1i32; 3], &[3]), 2, "repeat: x: expected a tensor of float32, found int32");
    fails(Arg::read(&x, &[3]), -1, "repeat: times: -1 is outside of 0 to 4294967295");
    fails(Arg::read(&x, &[3]), 10, "repeat: `repeat` is launched with times = 10");
    let nobody = call_xla(__xla_ffi_ptx_ffi_jit_cpu, &[], &[], &[("__function", Arg::Int(7))]).unwrap();
    assert!(nobody.1.contains("this process has not compiled the kernel"), "{nobody:?}");
    let wrong = request(&TEXT.replace("st.global.f32", "sd.global.f32"));
    assert!(wrong.starts_with(r#"{"error":"error: [P0201]"#) && wrong.contains(r#""line":8,"column":24,"#), "{wrong}");
    assert!(ask(&["explain", "P0201"]).contains("P0201: unknown instruction"));
    assert!(ask(&["nothing"]).contains("error") && ask(&[]).contains("error"));
}

#[test]
fn the_description_lists_the_functions() {
    let text = functions();
    assert!(text.starts_with(
        r#"[{"name":"add_one","label":"add_one","doc":"Adds one.","backward":null,"parallel":[],"types":[[]],"params":[{"name":"x","kind":"tensor","#
    ));
    assert!(
        text.contains(r#""dims":["..",2]"#)
            && text.contains(r#"{"name":"how","kind":"str","optional":false,"default":"well"}"#)
    );
}
