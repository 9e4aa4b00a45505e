//! Code that a device or its driver cannot run: one error that names the device, its target, what the program has, and what to do. The
//! texts are written out, because people read them.

use crate::stub::Stub;
use crate::{device, kernel, launch, rt};
use ptx_launch::{Config, ErrorKind, Kernel};

/// A device of the stub: compute capability, bytes of shared memory, and the driver's version of CUDA.
type Machine = (i32, i32, i32);

const TURING: Machine = (75, 65_536, 12_080);
const AMPERE: Machine = (80, 166_912, 12_080);
const ADA: Machine = (89, 101_376, 12_080);
const HOPPER: Machine = (90, 232_448, 12_080);
const BLACKWELL: Machine = (100, 232_448, 13_000);

/// What is said when a kernel is launched on a machine.
fn refused((capability, shared, driver): Machine, kernel: &Kernel, config: Config) -> (ErrorKind, String) {
    let stub = Stub::lock();
    stub.become_device(capability, shared, driver);
    let error = launch(kernel, &device(), config).unwrap_err();
    println!("{error}\n");
    (error.kind(), error.to_string())
}

fn plain(arch: &'static str, ptx: &'static str) -> &'static Kernel {
    kernel("k", arch, ptx, rt::LineMap::default())
}

fn one_block() -> Config {
    Config::grid(1).block(32)
}

#[test]
fn code_for_another_chip() {
    let text = "`test` has no code for Stub GPU (sm_90): it has sm_100a (PTX)\n  \
                possible: on sm_90: code for sm_90, sm_90a, or for an earlier target without a suffix\n  \
                help: add the target to the kernel's attribute, `arch(\"sm_100a\", \"sm_90\")`, and build again, or use another device";
    let hopper = refused(HOPPER, plain("sm_100a", ".version 8.7"), one_block());
    assert_eq!(hopper, (ErrorKind::NoVariant, text.to_owned()));
    let blackwell = refused(BLACKWELL, plain("sm_90a", ".version 8.0"), one_block());
    assert!(
        blackwell.1.starts_with("`test` has no code for Stub GPU (sm_100): it has sm_90a (PTX)\n"),
        "{blackwell:?}"
    );
    assert!(blackwell.1.contains("code for sm_100, sm_100f, sm_100a, or for an earlier"), "{blackwell:?}");
}

#[test]
fn code_for_later_chips() {
    let (kind, text) = refused(TURING, plain("sm_80", ".version 7.0"), one_block());
    assert_eq!(kind, ErrorKind::NoVariant);
    assert!(text.starts_with("`test` has no code for Stub GPU (sm_75): it has sm_80 (PTX)\n"), "{text}");
    assert!(text.contains("on sm_75: code for sm_75, or for an earlier target without a suffix\n"), "{text}");
}

#[test]
fn a_driver_that_does_not_read_the_version() {
    let text = "`test` is too new for the driver of Stub GPU (sm_90): it is PTX 9.0 for sm_90, which needs CUDA 13.0 \
                (driver 580.65.06) or newer\n  \
                possible: the driver is of CUDA 12.8 and reads PTX up to 8.7\n  \
                help: install a newer driver, or write `version = \"8.7\"` in the kernel's attribute, if its instructions allow it";
    let told = refused(HOPPER, plain("sm_90", ".version 9.0"), one_block());
    assert_eq!(told, (ErrorKind::DriverTooOld, text.to_owned()));
    // Machine code of CUDA 12.9 is loaded by every driver of CUDA 12.
    let (_, text) = refused(HOPPER, plain("sm_90", ".version 8.8"), one_block());
    assert!(
        text.ends_with("if its instructions allow it, or build machine code in with `cubin`, which this driver loads"),
        "{text}"
    );
}

/// CUDA 13 writes machine code that no driver of CUDA 12 loads.
#[test]
fn machine_code_that_the_driver_refuses() {
    let code = Box::leak(Box::new([rt::Cubin::new("sm_90a", b"\x7fELF", "")]));
    let variant = rt::Variant::new("sm_90", ".version 9.0", rt::LineMap::default()).with_cubins(code);
    let module = Box::leak(Box::new(rt::Module::new("test", Box::leak(Box::new([variant])))));
    let kernel = Box::leak(Box::new(Kernel::new(module, "k", &[])));
    let (kind, text) = refused(HOPPER, kernel, one_block());
    assert_eq!(kind, ErrorKind::DriverTooOld);
    assert!(
        text.starts_with("`test` is too new for the driver of Stub GPU (sm_90): it is PTX 9.0 for sm_90"),
        "{text}"
    );
    assert!(
        text.contains("CUDA 12.8 and reads PTX up to 8.7; the driver refused the machine code for sm_90a: "),
        "{text}"
    );
    assert!(!text.contains("`cubin`"), "{text}");
}

#[test]
fn a_device_without_the_shared_memory() {
    let text = "`k` is launched with 131072 bytes of dynamic shared memory on Stub GPU (sm_89)\n  \
                possible: 100352 bytes: 101376 of a block, less 1024 static ones\n  \
                help: use fewer pipeline stages, smaller tiles, or a device with more shared memory";
    let told = refused(ADA, plain("sm_80", ".version 7.0"), one_block().shared(128 * 1024));
    assert_eq!(told, (ErrorKind::Limits, text.to_owned()));
}

#[test]
fn a_device_without_clusters() {
    let text = "`k` is launched with clusters of 2×1×1 blocks on Stub GPU (sm_80), which has no clusters\n  \
                possible: clusters on devices of sm_90 and later\n  \
                help: launch a kernel without clusters on this device";
    let told = refused(AMPERE, plain("sm_80", ".version 7.0"), Config::grid(4).block(32).cluster(2));
    assert_eq!(told, (ErrorKind::Unsupported, text.to_owned()));
}

#[test]
fn machine_code_of_another_generation() {
    let cubin: &[u8] = b"\x7fELF";
    let code = Box::leak(Box::new([rt::Cubin::new("sm_90a", cubin, "")]));
    let variant = rt::Variant::new("sm_90a", ".version 8.0", rt::LineMap::default()).with_cubins(code);
    let module = Box::leak(Box::new(rt::Module::new("test", Box::leak(Box::new([variant])))));
    let kernel = Box::leak(Box::new(Kernel::new(module, "k", &[])));
    let (kind, text) = refused(BLACKWELL, kernel, one_block());
    assert_eq!(kind, ErrorKind::NoVariant);
    assert!(text.contains("for Stub GPU (sm_100): it has sm_90a (PTX, and machine code for sm_90a)\n"), "{text}");
}
