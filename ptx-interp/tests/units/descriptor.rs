//! Addresses against the tables and examples of the manual.

use ptx_target::descriptor::{Descriptor, Major};
use ptx_target::tensor::Swizzle;

/// The piece that stands at `column` of line `line`, as the tables of the manual print it.
fn at(swizzle: Swizzle, line: u64, column: u64) -> u64 {
    (swizzle.apply(line * 128 + column * 16) & 127) / 16
}

fn lines(swizzle: Swizzle, count: u64) -> Vec<Vec<u64>> {
    (0..count).map(|line| (0..8).map(|column| at(swizzle, line, column)).collect()).collect()
}

#[test]
fn the_patterns_of_the_manual() {
    assert_eq!(lines(Swizzle::None, 2)[1], [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(lines(Swizzle::B32, 3)[1..], [[1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(lines(Swizzle::B96, 3)[1..], [[1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(lines(Swizzle::B64, 4)[2..], [[2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]]);
    assert_eq!(
        lines(Swizzle::B128, 8)[5..],
        [[5, 4, 7, 6, 1, 0, 3, 2], [6, 7, 4, 5, 2, 3, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0]]
    );
    assert_eq!(
        lines(Swizzle::B128Atom32, 4)[1..],
        [[2, 3, 0, 1, 6, 7, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3], [6, 7, 4, 5, 2, 3, 0, 1]]
    );
    assert_eq!(lines(Swizzle::B128Atom64, 2)[1], [4, 5, 6, 7, 0, 1, 2, 3]);
    assert_eq!(Swizzle::B128Atom32Flip8.apply(128), 128 + 32 + 8);
    assert_eq!(Swizzle::B128Atom32Flip8.apply(256), 256 + 64);
}

#[test]
fn every_swizzle_is_its_own_inverse() {
    for swizzle in Swizzle::ALL {
        for address in 0..2048 {
            assert_eq!(swizzle.apply(swizzle.apply(address)), address, "{swizzle:?}");
        }
        assert_eq!(swizzle.apply(swizzle.repeat() * 3), swizzle.repeat() * 3);
    }
}

/// The examples of 9.7.15.5.1.2.1.3, in elements of their canonical layouts.
#[test]
fn the_layouts_of_the_manual() {
    let descriptor = |mode: u64, leading: u64, stride: u64| {
        Descriptor::wgmma(mode << 62 | (stride >> 4) << 32 | (leading >> 4) << 16 | 1024 >> 4).unwrap()
    };
    let flat = |d: Descriptor, major, line, piece| {
        let unswizzled = d.piece(major, line, piece);
        d.swizzle.apply(unswizzled) - 1024
    };
    // K-major, tf32: ((8,2),(4,4)):((4,32),(1,64)) and ((8,2),(4,4)):((8,64),(1,4)).
    let plain = descriptor(0, 256, 128);
    let narrow = descriptor(3, 16, 256);
    for (row, piece) in (0..16).flat_map(|row| (0..2).map(move |piece| (row, piece))) {
        assert_eq!(flat(plain, Major::K, row, piece), (row % 8 * 4 + row / 8 * 32 + piece * 64) * 4);
        assert_eq!(flat(narrow, Major::K, row, piece), (row % 8 * 8 + row / 8 * 64 + piece * 4) * 4);
    }
    // MN-major, bf16: ((8,1,2),(8,2)):((1,8,64),(8,128)), ((8,2,2),(8,2)):((1,8,128),(16,256)), ((8,4,2),(8,2)):((1,8,256),(32,512)).
    let (plain, narrow, middle) = (descriptor(0, 256, 128), descriptor(3, 256, 512), descriptor(2, 512, 1024));
    for (k, piece) in (0..16).flat_map(|k| (0..2).map(move |piece| (k, piece))) {
        assert_eq!(flat(plain, Major::Mn, k, piece), (piece * 64 + k % 8 * 8 + k / 8 * 128) * 2);
        let (low, high) = (piece % 2, piece / 2);
        assert_eq!(flat(narrow, Major::Mn, k, piece), (low * 8 + high * 128 + k % 8 * 16 + k / 8 * 256) * 2);
        let (low, high) = (piece % 4, piece / 4);
        assert_eq!(flat(middle, Major::Mn, k, piece), (low * 8 + high * 256 + k % 8 * 32 + k / 8 * 512) * 2);
    }
}

#[test]
fn descriptors_of_tcgen05() {
    let modes: Vec<_> =
        (0..8u64).map(|mode| Descriptor::tcgen05(mode << 61 | 1 << 46).ok().map(|d| d.swizzle)).collect();
    let expected = [
        Some(Swizzle::None),
        Some(Swizzle::B128Atom32),
        Some(Swizzle::B128),
        None,
        Some(Swizzle::B64),
        None,
        Some(Swizzle::B32),
        None,
    ];
    assert_eq!(modes, expected);
    let all = Descriptor::tcgen05(0x1234 << 32 | 0x0567 << 16 | 0x0089 | 1 << 46 | 5 << 49).unwrap();
    assert_eq!((all.start, all.leading, all.stride, all.base), (0x890, 0x5670, 0x12340, 5));
}

#[test]
fn every_bit_without_a_field_has_one_value() {
    type Read = fn(u64) -> Result<Descriptor, String>;
    for (read, fixed, reserved) in [
        (Descriptor::wgmma as Read, 0, [14..16, 30..32, 46..49, 52..62]),
        (Descriptor::tcgen05, 1 << 46, [14..16, 30..32, 46..49, 53..61]),
    ] {
        let right = 2 << 62 | 0x3fff << 32 | 0x3fff << 16 | 0x3fff | 7 << 49 | fixed;
        assert!(read(right).is_ok());
        for bit in 0..64 {
            let refused = reserved.iter().any(|range| range.contains(&bit));
            assert!(read(right ^ 1 << bit).is_err() == refused || bit > 60, "{bit}");
        }
    }
}

/// Every piece is between the ends, and some piece is at each.
#[test]
fn the_extent_of_a_matrix_has_all_its_pieces() {
    for (mode, swizzle) in [(0, 16), (1, 128), (2, 64), (3, 32)] {
        for (start, major, size) in
            [(1024u64, Major::K, [64, 2]), (1024 + 32, Major::K, [16, 2]), (4096, Major::Mn, [16, 8])]
        {
            let bits = mode << 62 | (swizzle >> 1) << 32 | (2048 >> 4) << 16 | start >> 4;
            let matrix = Descriptor::wgmma(bits).unwrap();
            let pieces = (0..size[0]).flat_map(|line| (0..size[1]).map(move |piece| matrix.piece(major, line, piece)));
            let ends = pieces.map(|at| (i128::from(at), i128::from(at + 16)));
            let (first, end) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap();
            let within = |(least, most): (i128, i128)| {
                assert!(least + i128::from(start) <= first && end <= most + i128::from(start), "{mode} {start}");
                most - least
            };
            let known = within(matrix.extent(major, size, Some(start % matrix.swizzle.span())));
            let unknown = within(matrix.extent(major, size, None));
            assert!(known <= unknown && known < end - first + 128, "{mode} {start}");
        }
    }
}
