//! Neighbouring elements of global memory that one thread reads or writes at once, and their values as `f32`.
//!
//! `EACH` elements of `T` (`f32` or `bf16`) travel in one access: four `f32` or eight `bf16` are the 16 bytes that a
//! thread can move at most, and one is for rows whose start is not a multiple of 16 bytes.

/// How many elements are 16 bytes.
fn widest<T>() -> u32 {
    16 / size_of::<T>()
}

/// How many registers of 32 bits hold `EACH` elements.
fn words<T, const EACH: u32>() -> u32 {
    (EACH * size_of::<T>()).div_ceil(4)
}

/// `EACH` elements at `from`; where `inside` is false, `fill` in every register: `mov`, `@inside ld.global`.
fn load<T, const EACH: u32>(from: u64, inside: pred, fill: b32) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        ptx! { mov.b32 packed[i], fill; }
    }
    if WORDS == 4 {
        ptx! { @inside ld.global.v4.b32 {packed[..]}, [from]; }
    } else if size_of::<T>() == 2 {
        ptx! { @inside ld.global.b16 packed[0], [from]; }
    } else {
        ptx! { @inside ld.global.b32 packed[0], [from]; }
    }
    packed
}

/// The same for what is read by one thread alone: `ld.global.L1::no_allocate`.
fn load_once<T, const EACH: u32>(from: u64, inside: pred, fill: b32) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        ptx! { mov.b32 packed[i], fill; }
    }
    if WORDS == 4 {
        ptx! { @inside ld.global.L1::no_allocate.v4.b32 {packed[..]}, [from]; }
    } else if size_of::<T>() == 2 {
        ptx! { @inside ld.global.b16 packed[0], [from]; }
    } else {
        ptx! { @inside ld.global.b32 packed[0], [from]; }
    }
    packed
}

/// The same for what all blocks read and none writes: `ld.global.nc`, and it stays in the first-level cache.
fn load_shared<T, const EACH: u32>(from: u64, inside: pred) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        ptx! { mov.b32 packed[i], 0; }
    }
    if WORDS == 4 {
        ptx! { @inside ld.global.nc.L1::evict_last.v4.b32 {packed[..]}, [from]; }
    } else if size_of::<T>() == 2 {
        ptx! { @inside ld.global.nc.b16 packed[0], [from]; }
    } else {
        ptx! { @inside ld.global.nc.b32 packed[0], [from]; }
    }
    packed
}

/// Writes what `load` gives, where `inside` holds: `@inside st.global.cs`, which the caches give up first. Rows that are
/// written once leave the second-level cache to those that are read.
fn store<T, const EACH: u32>(to: u64, packed: [b32; words::<T, EACH>()], inside: pred) {
    if EACH * size_of::<T>() == 16 {
        ptx! { @inside st.global.cs.v4.b32 [to], {packed[..]}; }
    } else if size_of::<T>() == 2 {
        ptx! { @inside st.global.cs.b16 [to], packed[0]; }
    } else {
        ptx! { @inside st.global.cs.b32 [to], packed[0]; }
    }
}

/// The same for what is read again soon: `@inside st.global`.
fn store_kept<T, const EACH: u32>(to: u64, packed: [b32; words::<T, EACH>()], inside: pred) {
    if EACH * size_of::<T>() == 16 {
        ptx! { @inside st.global.v4.b32 [to], {packed[..]}; }
    } else if size_of::<T>() == 2 {
        ptx! { @inside st.global.b16 [to], packed[0]; }
    } else {
        ptx! { @inside st.global.b32 [to], packed[0]; }
    }
}

/// The values: `mov` for `f32`; `shl` and `and` for `bf16`, which is the upper half of an `f32`.
fn unpack<T, const EACH: u32>(packed: [b32; words::<T, EACH>()]) -> [f32; EACH] {
    let values: [f32; EACH];
    for i in 0..EACH {
        if size_of::<T>() == 4 {
            ptx! { mov.b32 values[i], packed[i]; }
        } else if i % 2 == 0 {
            ptx! { shl.b32 values[i], packed[i / 2], 16; }
        } else {
            ptx! { and.b32 values[i], packed[i / 2], 0xffff0000; }
        }
    }
    values
}

/// The elements, rounded to nearest: `mov` for `f32`; `cvt.rn.bf16x2.f32` for `bf16`.
fn pack<T, const EACH: u32>(values: [f32; EACH]) -> [b32; words::<T, EACH>()] {
    const WORDS: u32 = words::<T, EACH>();
    let packed: [b32; WORDS];
    for i in 0..WORDS {
        if size_of::<T>() == 4 {
            ptx! { mov.b32 packed[i], values[i]; }
        } else if EACH == 1 {
            ptx! { cvt.rn.bf16x2.f32 packed[i], 0.0, values[i]; }
        } else {
            ptx! { cvt.rn.bf16x2.f32 packed[i], values[2 * i + 1], values[2 * i]; }
        }
    }
    packed
}

/// What `unpack` gives, by other instructions: `prmt` for each half, another one for each `TURN` below 3. Where registers are
/// short, packed values can wait in half as many; ptxas would keep what it has unpacked once.
fn unpack_again<T, const EACH: u32, const TURN: u32>(packed: [b32; words::<T, EACH>()]) -> [f32; EACH] {
    if size_of::<T>() == 4 {
        return unpack::<T, EACH>(packed);
    }
    let values: [f32; EACH];
    for i in 0..EACH {
        const HALF: u32 = 0x1044 + 0x2200 * (i % 2) + 0x11 * TURN;
        ptx! { prmt.b32 values[i], packed[i / 2], 0, HALF; }
    }
    values
}
