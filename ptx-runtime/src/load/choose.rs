//! Which variant of a module runs best on a device and is understood by its driver.

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Cubin, Module, Variant};
use ptx_target::{Arch, Suffix, Toolkit, Version};

/// A version of CUDA.
type Cuda = (u32, u32);

/// The best variant for a device with this target and a driver of this CUDA version.
///
/// # Errors
/// [`ErrorKind::NoVariant`] if none runs there, [`ErrorKind::DriverTooOld`] if those that do are too new.
pub(super) fn best(module: &Module, device: Arch, cuda: Cuda, name: &str) -> Result<&'static Variant> {
    let fitting = || module.variants.iter().filter(|variant| runs_on(target(variant), device));
    let readable = fitting().filter(|variant| reads(cuda, variant.version()) || cubin(variant, device).is_some());
    match (readable.max_by_key(|variant| rank(target(variant))), fitting().next()) {
        (Some(best), _) => Ok(best),
        (None, Some(too_new)) => Err(newer_than_driver((module, too_new), (device, name), cuda, None)),
        (None, None) => Err(no_variant(module, device, name)),
    }
}

fn target(variant: &Variant) -> Option<Arch> {
    variant.arch.parse().ok()
}

/// A device has all features of its chip.
fn runs_on(target: Option<Arch>, device: Arch) -> bool {
    target.is_some_and(|target| target.assembles_for(Arch { suffix: Suffix::Arch, ..device }))
}

/// The machine code of a variant that a device runs: that of the chip itself, else the nearest one without a suffix of its generation and
/// an earlier number.
pub(super) fn cubin(variant: &Variant, device: Arch) -> Option<&'static Cubin> {
    let runs = |cubin: &&Cubin| {
        let arch = cubin.arch.parse::<Arch>().ok();
        arch.filter(|arch| arch.family() == device.family()).is_some() && runs_on(arch, device)
    };
    variant.cubins.iter().filter(runs).max_by_key(|cubin| rank(cubin.arch.parse().ok()))
}

/// The nearer to the device, the better; then the more it may use.
fn rank(target: Option<Arch>) -> Option<(u16, Suffix)> {
    target.map(|target| (target.number, target.suffix))
}

/// Returns true if a driver of this version assembles PTX of that version.
pub(super) fn reads(cuda: Cuda, ptx: Option<Version>) -> bool {
    match (Toolkit::newest_ptx(cuda), ptx) {
        (Some(newest), Some(ptx)) => ptx <= newest,
        _ => true,
    }
}

/// `sm_80 (PTX), sm_90a (PTX, and machine code for sm_90a)`
fn contents(module: &Module) -> String {
    let one = |variant: &Variant| {
        let code: Vec<&str> = variant.cubins.iter().map(|cubin| cubin.arch).collect();
        match code.is_empty() {
            true => format!("{} (PTX)", variant.arch),
            false => format!("{} (PTX, and machine code for {})", variant.arch, code.join(" and ")),
        }
    };
    module.variants.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cold]
fn no_variant(module: &Module, device: Arch, name: &str) -> Error {
    let has = contents(module);
    let targets: Vec<String> = module.variants.iter().map(|variant| format!("\"{}\"", variant.arch)).collect();
    let own = Suffix::ALL.into_iter().filter(|suffix| suffix.exists_for(device.number));
    let own: Vec<String> = own.map(|suffix| Arch { suffix, ..device }.to_string()).collect();
    Error::new(ErrorKind::NoVariant, format!("`{}` has no code for {name} ({device}): it has {has}", module.name))
        .possible(format!("on {device}: code for {}, or for an earlier target without a suffix", own.join(", ")))
        .help(format!(
            "add the target to the kernel's attribute, `arch({}, \"{device}\")`, and build again, or use another device",
            targets.join(", ")
        ))
}

/// The error for PTX that a driver does not assemble; with the reason why machine code beside it was not taken.
#[cold]
pub(super) fn newer_than_driver(
    (module, variant): (&Module, &Variant),
    (device, name): (Arch, &str),
    (major, minor): Cuda,
    without_cubin: Option<&str>,
) -> Error {
    let shown = |version: Option<Version>| version.map_or_else(String::new, |version| version.to_string());
    let (ptx, newest) = (shown(variant.version()), shown(Toolkit::newest_ptx((major, minor))));
    let needed = variant.version().and_then(Toolkit::first_with);
    // Drivers load the machine code of every toolkit of their own major version, and of no later one.
    let embeds = without_cubin.is_none() && needed.is_some_and(|toolkit| toolkit.cuda.0 == major);
    let without_cubin = without_cubin.map_or_else(String::new, |reason| format!("; {reason}"));
    let needed = needed.map_or_else(|| "a newer driver".to_owned(), |toolkit| format!("{toolkit} or newer"));
    let asked = format!(
        "`{}` is too new for the driver of {name} ({device}): it is PTX {ptx} for {}, which needs {needed}",
        module.name, variant.arch
    );
    Error::new(ErrorKind::DriverTooOld, asked)
        .possible(format!("the driver is of CUDA {major}.{minor} and reads PTX up to {newest}{without_cubin}"))
        .help(format!(
            "install a newer driver, or write `version = \"{newest}\"` in the kernel's attribute, if its instructions allow it{}",
            if embeds { ", or build machine code in with `cubin`, which this driver loads" } else { "" }
        ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::kernel::LineMap;

    const fn variant(arch: &'static str, ptx: &'static str) -> Variant {
        Variant::new(arch, ptx, LineMap::new("", ""))
    }

    const fn code(arch: &'static str) -> Cubin {
        Cubin::new(arch, b"elf", "")
    }

    static ALL: [Variant; 6] = [
        variant("sm_80", ".version 7.0\n"),
        variant("sm_90a", "// made\n.version 8.0\n"),
        variant("sm_100f", ".version 8.8\n"),
        variant("sm_100a", ".version 8.7\n"),
        variant("sm_90", ".version 7.8\n"),
        variant("sm_120", ".version 9.0\n"),
    ];
    static MODULE: Module = Module::new("k", &ALL);

    fn chosen(device: u16, cuda: Cuda) -> &'static str {
        best(&MODULE, Arch::base(device), cuda, "GPU").unwrap().arch
    }

    #[test]
    fn the_nearest_target_wins() {
        let newest = (13, 5);
        assert_eq!(
            [80, 86, 90, 100, 103, 110, 120, 121].map(|n| chosen(n, newest)),
            ["sm_80", "sm_80", "sm_90a", "sm_100a", "sm_100f", "sm_90", "sm_120", "sm_120"]
        );
    }

    #[test]
    fn the_driver_must_read_it() {
        assert_eq!(chosen(90, (11, 8)), "sm_90");
        assert_eq!(chosen(100, (12, 6)), "sm_90");
        assert_eq!(chosen(120, (12, 9)), "sm_90");
    }

    #[test]
    fn machine_code_needs_no_reader() {
        static CODE: [Cubin; 1] = [Cubin::new("sm_86", b"elf", "")];
        static CUBIN: [Variant; 2] =
            [variant("sm_80", ".version 7.0"), variant("sm_86", ".version 9.4").with_cubins(&CODE)];
        static EMBEDDED: Module = Module::new("k", &CUBIN);
        let chosen = |device, cuda| best(&EMBEDDED, Arch::base(device), cuda, "GPU").unwrap().arch;
        assert_eq!((chosen(86, (12, 0)), chosen(89, (12, 0)), chosen(90, (12, 0))), ("sm_86", "sm_86", "sm_80"));
        assert_eq!(chosen(90, (13, 4)), "sm_86");
    }

    #[test]
    fn machine_code_of_the_chip_wins_over_that_of_its_family() {
        static CODE: [Cubin; 5] = [code("sm_80"), code("sm_86"), code("sm_90a"), code("sm_100f"), code("sm_100a")];
        static ALL: Variant = variant("sm_80", ".version 7.0").with_cubins(&CODE);
        let taken = |device| cubin(&ALL, Arch::base(device)).map(|cubin| cubin.arch);
        let devices = [75, 80, 86, 87, 89, 90, 100, 103, 120].map(taken);
        let expected = ["", "sm_80", "sm_86", "sm_86", "sm_86", "sm_90a", "sm_100a", "sm_100f", ""];
        assert_eq!(devices.map(Option::unwrap_or_default), expected);
    }

    #[test]
    fn nothing_fits() {
        let error = best(&MODULE, Arch::base(75), (13, 0), "Tesla T4").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoVariant);
        assert!(error.to_string().contains("Tesla T4 (sm_75)"), "{error}");
        static NEW: [Variant; 1] = [variant("sm_80", ".version 9.0")];
        static TOO_NEW: Module = Module::new("k", &NEW);
        let error = best(&TOO_NEW, Arch::base(90), (12, 4), "H100").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DriverTooOld);
        assert!(error.to_string().contains("reads PTX up to 8.4"), "{error}");
        assert!(error.to_string().contains("needs CUDA 13.0 (driver 580.65.06) or newer"), "{error}");
    }
}
