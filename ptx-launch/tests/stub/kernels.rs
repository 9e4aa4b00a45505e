//! The kernels that the stub runs, by their names. Of any other it runs nothing.

use crate::*;

/// The arguments, by their bytes.
struct Args<'a>(&'a [[u8; 128]]);

impl Args<'_> {
    fn float(&self, at: usize) -> f32 {
        f32::from_bits(self.word(at) as u32)
    }

    fn int(&self, at: usize) -> usize {
        self.word(at) as u32 as usize
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at][..8].try_into().unwrap())
    }
}

/// The sizes of a kernel's arguments.
pub fn arguments(name: &str) -> &'static [usize] {
    match name {
        "saxpy" => &[4, 8, 8, 4],
        "scale" => &[8, 8, 4, 4, 128],
        "accumulate" => &[4, 4, 8, 8, 4],
        "sample" | "sample_array" => &[4, 8, 8, 4],
        "paint" => &[4, 4, 8, 4],
        "tally" => &[4],
        _ => &[],
    }
}

/// The variables that a kernel names; their addresses follow its arguments.
pub fn named(name: &str) -> &'static [&'static str] {
    if name == "tally" { &["TOTAL", "STEPS"] } else { &[] }
}

/// The first value of a variable.
pub fn variable(name: &str) -> Option<&'static [u32]> {
    match name {
        "TOTAL" => Some(&[0]),
        "STEPS" => Some(&[1, 10]),
        _ => None,
    }
}

pub unsafe fn run(name: &str, args: &[[u8; 128]], stream: u64) {
    let args = Args(args);
    match name {
        "saxpy" => unsafe { saxpy(stream, args.float(0), args.word(1), args.word(2), args.int(3)) },
        // The first argument of those below is for how long they wait on a GPU.
        "accumulate" => unsafe { saxpy(stream, args.float(1), args.word(2), args.word(3), args.int(4)) },
        "tally" => {
            let (total, steps) = (args.word(1), args.word(2));
            if touch(stream, total, 4, true) & touch(stream, steps, 8, false) {
                let (total, steps) = (total as *mut u32, steps as *const [u32; 2]);
                unsafe { total.write(total.read() + steps.read().iter().sum::<u32>()) };
            }
        }
        "scale" => unsafe { each(stream, args.word(4), args.word(1), args.int(2) * args.int(3), |x, _| 2.0 * x) },
        "sample" | "sample_array" => {
            if let Some(texels) = resolve(stream, args.word(1)) {
                unsafe { each(stream, texels, args.word(2), args.int(3), |x, _| x) };
            }
        }
        "paint" => {
            if let Some(texels) = resolve(stream, args.word(2)) {
                let (bytes, value) = (4 * args.int(3), args.float(1));
                if touch(stream, texels, bytes, true) {
                    (0..args.int(3)).for_each(|i| unsafe { (texels as *mut f32).add(i).write(value) });
                }
            }
        }
        _ => {}
    }
}

/// `y = alpha * x + y`
unsafe fn saxpy(stream: u64, alpha: f32, x: u64, y: u64, n: usize) {
    unsafe { each(stream, x, y, n, |x, y| alpha.mul_add(x, y)) };
}

unsafe fn each(stream: u64, from: u64, to: u64, n: usize, value: impl Fn(f32, f32) -> f32) {
    if touch(stream, from, 4 * n, false) & touch(stream, to, 4 * n, true) {
        let (from, to) = (from as *const f32, to as *mut f32);
        (0..n).for_each(|i| unsafe { to.add(i).write(value(from.add(i).read(), to.add(i).read())) });
    }
}

/// The memory of a texture or surface, which is used, too.
fn resolve(stream: u64, object: u64) -> Option<u64> {
    with(|state| {
        let memory = state.objects.get(&object).copied();
        match memory {
            Some(_) => state.order.work(queue(stream), object, 0..1, false),
            None => state.order.misuses += 1,
        }
        memory
    })
}
