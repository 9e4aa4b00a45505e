//! `warp` and `block`: reductions, scans, votes.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Number of values that `warps` writes for every lane.
const OF_WARPS: usize = 14;

#[ptx_kernel(arch = "sm_90", block = 32, grid = 1, unsafe(requires(x.len() >= 32, out.len() >= 32 * 14)))]
pub fn warps(x: &[u32], out: &mut [u32]) {
    let (mut v, from, to): (u32, u64, u64) = (0, x + wide(tid.x) * 4, out + wide(tid.x) * 4);
    ptx! { ld.global.u32 v, [from]; }
    let odd: pred = (v & 1) == 1;
    put::<0>(to, warp::reduce_sum(v));
    put::<1>(to, warp::reduce_max(v));
    put::<2>(to, warp::reduce_min(v));
    put::<3>(to, warp::scan_sum(v));
    put::<4>(to, warp::scan_max(v));
    put::<5>(to, warp::scan_sum_before(v));
    put::<6>(to, warp::redux::<"add", u32>(v));
    put::<7>(to, warp::redux::<"xor", b32>(v));
    put::<8>(to, warp::broadcast(v, 7));
    put::<9>(to, warp::ballot(odd));
    truth::<10>(to, warp::any(odd));
    truth::<11>(to, warp::all(odd));
    truth::<12>(to, warp::elect());
    warp::sync();
    put::<13>(to, warp::LANES);

    fn put<const AT: u32>(to: u64, value: u32) {
        ptx! { st.global.u32 [to + 128 * AT], value; }
    }

    fn truth<const AT: u32>(to: u64, value: pred) {
        let one: u32;
        ptx! {
            selp.u32 one, 1, 0, value;
            st.global.u32 [to + 128 * AT], one;
        }
    }
}

#[ptx_test]
fn a_warp_reduces_scans_and_votes(device: &Device) -> Result<()> {
    let x: Vec<u32> = (0..32).map(|i| (i * 37 + 11) % 61).collect();
    let mut out = device.zeros::<u32>(32 * OF_WARPS)?;
    warps(device, &device.upload(&x)?, &mut out)?;
    let out = out.download()?;
    let rows: Vec<&[u32]> = out.chunks(32).collect();
    let all = |value: u32| vec![value; 32];
    let scan = |step: fn(u32, u32) -> u32| -> Vec<u32> {
        x.iter().scan(0, |so_far, x| (*so_far = step(*so_far, *x), Some(*so_far)).1).collect()
    };
    let (sum, sums) = (x.iter().sum(), scan(|a, b| a + b));
    assert_eq!(rows[0], all(sum));
    assert_eq!(rows[1], all(x.iter().copied().max().unwrap()));
    assert_eq!(rows[2], all(x.iter().copied().min().unwrap()));
    assert_eq!(rows[3], sums);
    assert_eq!(rows[4], scan(u32::max));
    assert_eq!(rows[5], sums.iter().zip(&x).map(|(sum, x)| sum - x).collect::<Vec<_>>());
    assert_eq!(rows[6], all(sum));
    assert_eq!(rows[7], all(x.iter().fold(0, |a, b| a ^ b)));
    assert_eq!(rows[8], all(x[7]));
    assert_eq!(rows[9], all(x.iter().rev().fold(0, |mask, x| mask << 1 | x & 1)));
    assert_eq!((rows[10], rows[11]), (&*all(1), &*all(0)));
    assert_eq!(rows[12].iter().sum::<u32>(), 1);
    assert_eq!(rows[13], all(32));
    Ok(())
}

#[ptx_kernel(arch = "sm_80", block = 128, grid = 1, unsafe(requires(x.len() >= 128, out.len() >= 128 * 5)))]
pub fn blocks(x: &[i32], out: &mut [i32]) {
    let (mut v, from, to): (i32, u64, u64) = (0, x + wide(tid.x) * 4, out + wide(tid.x) * 4);
    ptx! { ld.global.s32 v, [from]; }
    let (sum, most, least): (i32, i32, i32) =
        (block::reduce_sum::<4, i32>(v), block::reduce_max::<4, i32>(v), block::reduce_min::<4, i32>(v));
    let (sums, tops): (i32, i32) = (block::scan_sum::<4, i32>(v), block::scan_max::<4, i32>(v));
    ptx! {
        st.global.s32 [to], sum;
        st.global.s32 [to + 512], most;
        st.global.s32 [to + 1024], least;
        st.global.s32 [to + 1536], sums;
        st.global.s32 [to + 2048], tops;
    }
}

#[ptx_test]
fn a_block_reduces_and_scans(device: &Device) -> Result<()> {
    let x: Vec<i32> = (0..128).map(|i| (i * 73 + 5) % 199 - 100).collect();
    let mut out = device.zeros::<i32>(128 * 5)?;
    blocks(device, &device.upload(&x)?, &mut out)?;
    let out = out.download()?;
    let rows: Vec<&[i32]> = out.chunks(128).collect();
    let scan = |step: fn(i32, i32) -> i32, first: i32| -> Vec<i32> {
        x.iter().scan(first, |so_far, x| (*so_far = step(*so_far, *x), Some(*so_far)).1).collect()
    };
    assert_eq!(rows[0], vec![x.iter().sum::<i32>(); 128]);
    assert_eq!(rows[1], vec![x.iter().copied().max().unwrap(); 128]);
    assert_eq!(rows[2], vec![x.iter().copied().min().unwrap(); 128]);
    assert_eq!(rows[3], scan(|a, b| a + b, 0));
    assert_eq!(rows[4], scan(i32::max, i32::MIN));
    Ok(())
}

/// 64 bits: sums and scans of a warp and of a block, and values of other lanes.
#[ptx_kernel(
    arch = "sm_80",
    block = 128,
    grid = 1,
    instances = [f64, u64, i64],
    unsafe(requires(x.len() >= 128, out.len() >= 128 * 9))
)]
pub fn of_64_bits<T>(x: &[T], out: &mut [T]) {
    let (from, to) = (x.at(tid.x), out.at(tid.x));
    let v: T;
    ptx! { ld.global.{T} v, [from]; }
    put::<0, T>(to, warp::reduce_sum(v));
    put::<1, T>(to, warp::reduce_max(v));
    put::<2, T>(to, warp::scan_sum(v));
    put::<3, T>(to, warp::shuffle_xor(v, 5));
    put::<4, T>(to, warp::shuffle_up(v, 3));
    put::<5, T>(to, warp::shuffle_down(v, 4));
    put::<6, T>(to, warp::broadcast(v, 31 - laneid));
    put::<7, T>(to, block::reduce_min::<4, T>(v));
    put::<8, T>(to, block::scan_sum::<4, T>(v));

    fn put<const AT: u32, T>(to: GlobalMut<T>, value: T) {
        ptx! { st.global.{T} [to + 1024 * AT], value; }
    }
}

/// A value of 64 bits, from a small number whose upper half it fills too.
trait Wide: ptx_launch::Element + Default + Copy + PartialOrd + std::fmt::Debug + std::iter::Sum {
    fn of(number: i64) -> Self;
}

impl Wide for f64 {
    fn of(number: i64) -> f64 {
        number as f64 * 1.125
    }
}

impl Wide for u64 {
    fn of(number: i64) -> u64 {
        (number + 200) as u64 * 0x1_0000_0003
    }
}

impl Wide for i64 {
    fn of(number: i64) -> i64 {
        number * 0x1_0000_0003
    }
}

fn check_64_bits<T: Wide>(
    device: &Device,
    launch: impl FnOnce(&Device, &Buffer<T>, &mut Buffer<T>) -> Result<()>,
) -> Result<()> {
    let x: Vec<T> = (0..128).map(|i| T::of((i * 73 + 5) % 199 - 100)).collect();
    let mut out = device.zeros::<T>(128 * 9)?;
    launch(device, &device.upload(&x)?, &mut out)?;
    let out = out.download()?;
    let rows: Vec<&[T]> = out.chunks(128).collect();
    let least = |values: &[T]| values.iter().copied().reduce(|a, b| if b < a { b } else { a }).unwrap();
    let most = |values: &[T]| values.iter().copied().reduce(|a, b| if b > a { b } else { a }).unwrap();
    for (i, warp) in (0..128).map(|i| (i, &x[i / 32 * 32..i / 32 * 32 + 32])) {
        let lane = i % 32;
        assert_eq!(rows[0][i], warp.iter().copied().sum::<T>());
        assert_eq!(rows[1][i], most(warp));
        assert_eq!(rows[2][i], warp[..=lane].iter().copied().sum::<T>());
        assert_eq!(rows[3][i], warp[lane ^ 5]);
        assert_eq!(rows[4][i], warp[if lane < 3 { lane } else { lane - 3 }]);
        assert_eq!(rows[5][i], warp[if lane > 27 { lane } else { lane + 4 }]);
        assert_eq!(rows[6][i], warp[31 - lane]);
        assert_eq!(rows[7][i], least(&x));
        assert_eq!(rows[8][i], x[..=i].iter().copied().sum::<T>());
    }
    Ok(())
}

#[ptx_test]
fn values_of_64_bits_travel_in_halves(device: &Device) -> Result<()> {
    check_64_bits::<f64>(device, |d, x, out| of_64_bits(d, x, out))?;
    check_64_bits::<u64>(device, |d, x, out| of_64_bits(d, x, out))?;
    check_64_bits::<i64>(device, |d, x, out| of_64_bits(d, x, out))
}
