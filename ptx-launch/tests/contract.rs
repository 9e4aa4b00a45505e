//! The hand-written expansion, used on the CPU device: what a typed launch promises on every device.
#![allow(clippy::unwrap_used, unsafe_code, reason = "tests")]

mod expansion;

use expansion::{Shape, saxpy, tiles};
use ptx_launch::ErrorKind;
use ptx_launch::expansion as rt;
use ptx_launch::prelude::*;

#[test]
fn conditions_are_checked_on_the_host() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    let error = saxpy(&device.stream(), 3.0, &x, &mut y, 11).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Condition);
    let text = error.to_string();
    assert!(text.contains("`saxpy` is launched with x.len() = 10, y.len() = 10, n = 11"), "{text}");
    assert!(text.contains("its condition must hold: x.len() >= n"), "{text}");
}

#[test]
fn an_empty_grid_runs_nothing_and_views_can_be_passed() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 10]).unwrap(), device.zeros::<f32>(10).unwrap());
    saxpy(&device, 3.0, &x.slice(2..4).unwrap(), &mut y.slice_mut(..2).unwrap(), 0).unwrap();
    assert_eq!(y.download().unwrap(), [0.0; 10]);
}

#[test]
fn the_attribute_and_the_call_must_agree() {
    let device = Device::cpu();
    let mut out = device.zeros::<u32>(1).unwrap();
    let config = Config::grid(2).block(32).cluster(4);
    // SAFETY: it does not get as far as a launch.
    let error = unsafe { tiles::<3>(&device, config, &TensorMap::from_raw([0; 16]), Shape { m: 1, n: 1 }, &mut out) }
        .unwrap_err();
    assert!(error.to_string().contains("the kernel's attribute sets it to 2×1×1"), "{error}");
}

#[test]
fn buffers_stay_with_their_device() {
    let (device, other) = (Device::cpu(), Device::cpu());
    let (x, mut y) = (device.upload(&[1.0f32; 4]).unwrap(), other.zeros::<f32>(4).unwrap());
    let error = saxpy(&device, 3.0, &x, &mut y, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongDevice);
}

#[test]
fn the_numbers_are_right_on_the_cpu() {
    let device = Device::cpu();
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (x, mut y) = (device.upload(&values).unwrap(), device.upload(&values).unwrap());
    saxpy(&device.stream(), 2.0, &x, &mut y, 999).unwrap();
    let y = y.download().unwrap();
    assert!(y.iter().zip(&values).take(999).all(|(y, x)| *y == 3.0 * x));
    assert_eq!(y[999], 999.0);
}

#[test]
fn faults_on_the_cpu_name_the_rust_line() {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.0f32; 8]).unwrap(), device.zeros::<f32>(4).unwrap());
    let (on, read, mut write) = (&device, &x, &mut y);
    let stream = on.as_stream();
    let (a, b) = (ReadSlice::bind(&read, stream).unwrap(), WriteSlice::bind(&mut write, stream).unwrap());
    let args = [rt::Arg::new(&1.0f32), a.arg(), b.arg(), rt::Arg::new(&8u32)];
    // SAFETY: `y` is too short, which the CPU device finds.
    let error = unsafe { rt::launch(&saxpy::KERNEL, stream, &Config::grid(1).block(32), &args) }.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Fault);
    assert!(text.starts_with("`saxpy` failed on the CPU device: "), "{text}");
    assert!(text.contains("mod.rs:12\n       | ld.global.f32 vy, [py];"), "{text}");
    drop((a, b));
    assert_eq!(y.download().unwrap(), [0.0; 4], "a later use of the device works");
}

#[test]
fn ptx_that_is_wrong_is_told_on_the_cpu() {
    static VARIANTS: [rt::Variant; 1] = [rt::Variant::new("sm_80", WRONG, rt::LineMap::new(&["a.rs"], &[(6, 0, 60)]))];
    const WRONG: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  add.x9 1;\n}\n";
    static MODULE: rt::Module = rt::Module::new("k", &VARIANTS);
    static KERNEL: Kernel = Kernel::new(&MODULE, "k", &[]);
    // SAFETY: the kernel takes nothing.
    let error = unsafe { rt::launch(&KERNEL, (&Device::cpu()).as_stream(), &Config::grid(1), &[]) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Load);
    assert!(error.to_string().contains("--> a.rs:60\n       | add.x9 1;"), "{error}");
}

#[test]
fn threads_share_a_cpu_device() {
    let device = Device::cpu();
    std::thread::scope(|scope| {
        for seed in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                let (x, mut y) = (device.upload(&[f32::from(seed); 64]).unwrap(), device.zeros::<f32>(64).unwrap());
                (0..10).for_each(|_| saxpy(device, 1.0, &x, &mut y, 64).unwrap());
                assert_eq!(y.download().unwrap(), [10.0 * f32::from(seed); 64]);
            });
        }
    });
}
