//! Every text comes back, and bytes that are no packed text are refused.
#![cfg(feature = "pack")]
#![allow(clippy::unwrap_used, reason = "tests")]

use ptx_pack::{pack, unpack};

/// Numbers that look random.
fn random() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

/// Lines of a few kinds, in runs that come again.
fn text(lines: usize, kinds: usize) -> String {
    let mut random = random();
    let mut all: Vec<String> = Vec::new();
    while all.len() < lines {
        if random(3) == 0 && !all.is_empty() {
            let from = random(all.len());
            let run = all[from..].iter().take(1 + random(40)).cloned().collect::<Vec<_>>();
            all.extend(run);
        } else {
            all.push(format!("add.u32 %v{}, %v{}, {};\n", random(kinds), random(kinds), random(1000)));
        }
    }
    all.concat()
}

#[test]
fn every_text_comes_back() {
    let one_line = "x".repeat(500_000);
    let texts = ["", "a", "\n", "\n\n\n\n", "a\na\na\na", "a\r\nb\0c\u{e4}\u{1f600}\nd", &one_line];
    for text in texts {
        assert_eq!(unpack(&pack(text)).as_deref(), Some(text));
    }
    for (lines, kinds) in [(1, 1), (50, 1), (500, 3), (5000, 40), (20_000, 1000)] {
        let text = text(lines, kinds);
        assert_eq!(unpack(&pack(&text)), Some(text));
    }
}

/// A line map: places that ascend, some with columns, and what looks like them.
#[test]
fn places_come_back() {
    let mut random = random();
    let places: Vec<_> = (0..5000).map(|_| (1 + random(3), random(2), 1 + random(400), random(80))).collect();
    let (mut text, mut ptx) = (text(300, 20) + "src/kernels.rs\nsrc/device.rs", 0);
    // Three instances of a kernel.
    for (more, file, line, column) in [&places, &places, &places].into_iter().flatten() {
        ptx += more;
        text += &if *column < 40 { format!("{ptx}:{file}:{line} ") } else { format!("{ptx}:{file}:{line}:{column} ") };
    }
    let packed = pack(&text);
    assert!(packed.len() < text.len() / 4, "{} of {}", packed.len(), text.len());
    assert_eq!(unpack(&packed), Some(text));
    for text in [
        "a 1:2:3 4:5:6:7 8:9:10",
        "x 01:2:3 1:02:3 ",
        "x 1:2 3:4:5:6:7 ",
        "x 1:2:3\u{1} 4:5:6 ",
        "x 9999999999:1:1 999999999:0:0 0:0:999999999 ",
        "x 1:2:3 1:2:3 1:2:3\n4:5:6 ",
        " 1:2:3 ",
        "1:2:3 4:5:6",
        "x -1:2:3 ::: 1::2 ",
    ] {
        assert_eq!(unpack(&pack(text)).as_deref(), Some(text));
    }
}

#[test]
fn other_bytes_are_refused() {
    let packed = pack(&text(300, 5));
    for at in 0..packed.len() {
        assert_eq!(unpack(&packed[..at]), None, "{at} bytes");
    }
    let mut random = random();
    for _ in 0..3000 {
        let mut damaged = packed.clone();
        damaged[random(packed.len().min(40))] ^= 1 << random(8);
        // It answers, whatever the sizes say.
        let _ = unpack(&damaged);
    }
    assert_eq!(unpack(b""), None);
}
