//! Neighboring elements of global memory that one thread reads or writes at once, and their values as `f32`.
//!
//! `EACH` elements of `T` (`f32`, `bf16`, `f16`) travel in one access: four `f32` or eight `bf16` are the 16 bytes that a
//! thread can move at most, and one is for rows whose start is not a multiple of 16 bytes; 2, 4 and 8 bytes are accesses too.

/// The elements in 16 bytes.
fn widest<T>() -> u32 {
    16 / size_of::<T>()
}

/// The 32-bit registers that hold `EACH` elements.
fn words<T, const EACH: u32>() -> u32 {
    (EACH * size_of::<T>()).div_ceil(4)
}

/// The suffixes of accesses of 2, 4, 8 and 16 bytes.
const ACCESSES: [&str; 4] = ["b16", "b32", "v2.b32", "v4.b32"];

/// The access that moves `EACH` elements. Numbers of bytes that are none do not compile.
fn access<T, const EACH: u32>() -> &str {
    ACCESSES[(EACH * size_of::<T>()).ilog2() - 1]
}

/// A register with one in each of its elements: the `fill` of weights that are not there.
fn ones<T>() -> u32 {
    if type_name::<T>() == "f32" {
        0x3f800000
    } else if type_name::<T>() == "f16" {
        0x3c003c00
    } else {
        0x3f803f80
    }
}

/// `EACH` elements at `from`; where `inside` is false, `fill` in every register: `mov`, `@inside ld.global`.
fn load<T, const EACH: u32>(from: u64, inside: pred, fill: b32) -> [b32; words::<T, EACH>()] {
    load_by::<"global", T, EACH>(from, inside, fill)
}

/// The same for what is read by one thread alone: `ld.global.L1::no_allocate`. An H200 that another process uses, too, is 5 %
/// slower with it than with `load_first` (docs/benchmarks/tried.md).
fn load_once<T, const EACH: u32>(from: u64, inside: pred, fill: b32) -> [b32; words::<T, EACH>()] {
    load_by::<"global.L1::no_allocate", T, EACH>(from, inside, fill)
}

/// The same for what all blocks read and none writes: `ld.global.nc`, and it stays in the first-level cache; where `inside`
/// is false, zeros.
fn load_shared<T, const EACH: u32>(from: u64, inside: pred) -> [b32; words::<T, EACH>()] {
    load_by::<"global.nc.L1::evict_last", T, EACH>(from, inside, 0)
}

/// The same for rows that a block reads in one go: `ld.global.L1::evict_last` with a policy of the second-level cache,
/// `cache::evict_last`, so that what is written meanwhile goes to memory first, in longer runs.
fn load_first<T, const EACH: u32>(from: u64, inside: pred, fill: b32, policy: u64) -> [b32; words::<T, EACH>()] {
    load_with::<"global.L1::evict_last", T, EACH>(from, inside, fill, policy)
}

/// The last time that such a row is read: `ld.global.L1::evict_first` with `cache::evict_first`.
fn load_again<T, const EACH: u32>(from: u64, inside: pred, fill: b32, policy: u64) -> [b32; words::<T, EACH>()] {
    load_with::<"global.L1::evict_first", T, EACH>(from, inside, fill, policy)
}

/// The same by the load of this name, `ld` left out, with a policy of the second-level cache: `mov`, and `@inside ld` with
/// `.L2::cache_hint`.
fn load_with<const NAME: &str, T, const EACH: u32>(
    from: u64,
    inside: pred,
    fill: b32,
    policy: u64,
) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    const ACCESS: &str = access::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        ptx! { mov.b32 packed[i], fill; }
    }
    ptx! { @inside ld.{NAME}.L2::cache_hint.{ACCESS} {packed[..]}, [from], policy; }
    packed
}

/// The same by the load of this name, `ld` left out: `mov`, `@inside ld`.
fn load_by<const NAME: &str, T, const EACH: u32>(from: u64, inside: pred, fill: b32) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    const ACCESS: &str = access::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        ptx! { mov.b32 packed[i], fill; }
    }
    ptx! { @inside ld.{NAME}.{ACCESS} {packed[..]}, [from]; }
    packed
}

/// Writes what `load` gives, where `inside` holds: `@inside st.global.cs`, which the caches give up first. Rows that are
/// written once leave the second-level cache to those that are read.
fn store<T, const EACH: u32>(to: u64, packed: [b32; words::<T, EACH>()], inside: pred) {
    const ACCESS: &str = access::<T, EACH>();
    ptx! { @inside st.global.cs.{ACCESS} [to], {packed[..]}; }
}

/// The same for what is read again soon: `@inside st.global`.
fn store_kept<T, const EACH: u32>(to: u64, packed: [b32; words::<T, EACH>()], inside: pred) {
    const ACCESS: &str = access::<T, EACH>();
    ptx! { @inside st.global.{ACCESS} [to], {packed[..]}; }
}

/// The values of `EACH` elements: `ld.global` and `unpack`.
fn read<T, const EACH: u32>(from: Global<T>) -> [f32; EACH] {
    const ACCESS: &str = access::<T, EACH>();
    let packed: [b32; words::<T, EACH>()];
    ptx! { ld.global.{ACCESS} {packed[..]}, [from]; }
    unpack::<T, EACH>(packed)
}

/// Writes values as `EACH` elements: `pack` and `st.global`.
fn write<T, const EACH: u32>(to: GlobalMut<T>, values: [f32; EACH]) {
    const ACCESS: &str = access::<T, EACH>();
    let packed: [b32; words::<T, EACH>()] = pack::<T, EACH>(values);
    ptx! { st.global.{ACCESS} [to], {packed[..]}; }
}

/// `N` pairs of neighboring elements, for arithmetic on both at once: `ld.global` of 4, 8 or 16 bytes. `P` is `f16x2` or `bf16x2`.
fn read_pairs<P, const N: u32>(from: u64) -> [P; N] {
    const ACCESS: &str = access::<P, N>();
    let pairs: [P; N];
    ptx! { ld.global.{ACCESS} {pairs[..]}, [from]; }
    pairs
}

/// Writes `N` pairs of neighboring elements: `st.global`.
fn write_pairs<P, const N: u32>(to: u64, pairs: [P; N]) {
    const ACCESS: &str = access::<P, N>();
    ptx! { st.global.{ACCESS} [to], {pairs[..]}; }
}

/// Two values as a pair, rounded to nearest: `cvt.rn.f16x2.f32` or `cvt.rn.bf16x2.f32`. For `sm_80` and later.
fn pair<P>(low: f32, high: f32) -> P {
    let both: P;
    ptx! { cvt.rn.{P}.f32 both, high, low; }
    both
}

/// Both values of a pair, exactly: a `mov` and two `cvt.f32.f16` for `f16x2`; `shl` and `and` for `bf16x2`.
fn split<P>(both: P) -> (f32, f32) {
    let (low, high): f32;
    if type_name::<P>() == "f16x2" {
        let (a, b): f16;
        ptx! {
            mov.b32         {a, b}, both;
            cvt.f32.f16     low, a;
            cvt.f32.f16     high, b;
        }
    } else {
        ptx! {
            shl.b32     low, both, 16;
            and.b32     high, both, 0xffff0000;
        }
    }
    (low, high)
}

/// The values: `mov` for `f32`; `shl` and `and` for `bf16`, which is the upper half of an `f32`; `mov` and `cvt.f32.f16` for `f16`.
fn unpack<T, const EACH: u32>(packed: [b32; words::<T, EACH>()]) -> [f32; EACH] {
    assert!(size_of::<T>() == 4 || size_of::<T>() == 2, "elements are `f32`, `f16` or `bf16`, not `{T}`");
    const TYPE: &str = type_name::<T>();
    let values: [f32; EACH];
    for i in 0..EACH {
        if size_of::<T>() == 4 {
            ptx! { mov.b32 values[i], packed[i]; }
        } else if TYPE == "f16" {
            let (low, high): f16;
            ptx! { mov.b32 {low, high}, packed[i / 2]; }
            if i % 2 == 0 {
                ptx! { cvt.f32.f16 values[i], low; }
            } else {
                ptx! { cvt.f32.f16 values[i], high; }
            }
        } else if i % 2 == 0 {
            ptx! { shl.b32 values[i], packed[i / 2], 16; }
        } else {
            ptx! { and.b32 values[i], packed[i / 2], 0xffff0000; }
        }
    }
    values
}

/// The elements, rounded to nearest: `mov` for `f32`; `cvt.rn.bf16x2.f32` for `bf16`, `cvt.rn.f16x2.f32` for `f16`. Before `sm_80` two `cvt.rn.f16.f32`
/// and a `mov` for `f16`, and `round_to_bf16` for `bf16`.
fn pack<T, const EACH: u32>(values: [f32; EACH]) -> [b32; words::<T, EACH>()] {
    assert!(size_of::<T>() == 4 || size_of::<T>() == 2, "elements are `f32`, `f16` or `bf16`, not `{T}`");
    const WORDS: u32 = words::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        if size_of::<T>() == 4 {
            ptx! { mov.b32 packed[i], values[i]; }
        } else if EACH == 1 {
            packed[i] = pack_pair::<T>(values[i], 0.0);
        } else {
            packed[i] = pack_pair::<T>(values[2 * i], values[2 * i + 1]);
        }
    }
    packed
}

/// Two elements of 16 bits in a register, rounded to nearest: `cvt.rn.bf16x2.f32` or `cvt.rn.f16x2.f32`, before `sm_80` as in `pack`.
fn pack_pair<T>(low: f32, high: f32) -> b32 {
    const TYPE: &str = type_name::<T>();
    let packed: b32;
    if arch >= sm_80 {
        ptx! { cvt.rn.{TYPE}x2.f32 packed, high, low; }
    } else if TYPE == "f16" {
        let (a, b): f16;
        ptx! {
            cvt.rn.f16.f32 a, low;
            cvt.rn.f16.f32 b, high;
            mov.b32 packed, {a, b};
        }
    } else {
        let (a, b): (b32, b32) = (round_to_bf16(low), round_to_bf16(high));
        ptx! { prmt.b32 packed, a, b, 0x7632; }
    }
    packed
}

/// The nearest `bf16` as an `f32` whose lower half is to be dropped, for chips before `sm_80`: `shr`, `and`, two `add`, `setp`, `selp`.
fn round_to_bf16(x: f32) -> b32 {
    let (mut bits, odd): (b32, b32);
    let number: pred;
    ptx! {
        mov.b32         bits, x;
        shr.u32         odd, bits, 16;
        and.b32         odd, odd, 1;
        add.u32         bits, bits, odd;
        add.u32         bits, bits, 0x7fff;
        setp.num.f32    number, x, x;
        selp.b32        bits, bits, 0x7fffffff, number;
    }
    bits
}

/// The values of `unpack`, by other instructions: `prmt` for each half, another one for each `TURN` below 3, and behind it `cvt.f32.f16` for `f16`. Where
/// registers are short, packed values can wait in half as many; ptxas would keep what it has unpacked once.
fn unpack_again<T, const EACH: u32, const TURN: u32>(packed: [b32; words::<T, EACH>()]) -> [f32; EACH] {
    if size_of::<T>() == 4 {
        return unpack::<T, EACH>(packed);
    }
    let values: [f32; EACH];
    for i in 0..EACH {
        if type_name::<T>() == "f16" {
            const HALF: u32 = 0x4410 + 0x22 * (i % 2) + 0x1100 * TURN;
            let half: b32;
            let (low, high): f16;
            ptx! {
                prmt.b32        half, packed[i / 2], 0, HALF;
                mov.b32         {low, high}, half;
                cvt.f32.f16     values[i], low;
            }
        } else {
            const HALF: u32 = 0x1044 + 0x2200 * (i % 2) + 0x11 * TURN;
            ptx! { prmt.b32 values[i], packed[i / 2], 0, HALF; }
        }
    }
    values
}
