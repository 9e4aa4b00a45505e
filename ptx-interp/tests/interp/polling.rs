//! Threads that look at memory until another one has changed it let the others run: a token that goes round costs as many turns
//! as there are threads, however it is waited for.

use crate::harness::{kernel, launch, program, words_at};
use ptx_interp::{Machine, Options};

/// Ways to look at the token.
const LOOKS: [&str; 4] = [
    "ld.acquire.gpu.global.u32 %r9, [%out];",
    "ld.volatile.global.u32 %r9, [%out];",
    "atom.global.cas.b32 %r9, [%out], 4294967295, 0;",
    "atom.acquire.gpu.global.or.b32 %r9, [%out], 0;",
];

/// Whoever has the number that the token has makes it one more, and waits for its next turn, eight times: the instructions of
/// warps that it takes, and where the token ends. `%r1` is the number of a thread, `%r2` how many there are.
fn rounds(number: &str, look: &str, (grid, block): (u32, u32), options: Options) -> (u64, u32) {
    let body = format!(
        "{number} mov.u32 %r3, 0;
ROUND:
  {look} setp.ne.u32 %p1, %r9, %r1; @%p1 bra ROUND;
  add.u32 %r4, %r1, 1; st.release.gpu.global.u32 [%out], %r4;
  add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 8; @%p1 bra ROUND; ret;"
    );
    let program = program(&kernel(&body));
    let mut machine = Machine::new();
    let out = machine.alloc(4).unwrap();
    machine.write(out, &[0; 4]).unwrap();
    let stats = launch(&mut machine, &program, grid, block, &out.to_le_bytes(), options).unwrap();
    (stats.warp_instructions, words_at(&machine, out, 1)[0])
}

fn ways() -> impl Iterator<Item = (&'static str, Options)> {
    let options = [(true, 0), (false, 0), (true, 1), (true, 2)];
    let options = options.map(|(watch, seed)| Options { watch, seed, ..Options::default() });
    LOOKS.into_iter().flat_map(move |look| options.map(|options| (look, options)))
}

#[test]
fn a_token_goes_round_among_blocks() {
    let number = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;";
    for (look, options) in ways() {
        let (instructions, token) = rounds(number, look, (64, 1), options);
        assert_eq!(token, 512);
        assert!(instructions < 1 << 20, "{look} {options:?}: {instructions} instructions");
    }
}

#[test]
fn a_token_goes_round_among_warps_and_their_lanes() {
    let number = "mov.u32 %r1, %t; mov.u32 %r2, %ntid.x;";
    for (look, options) in ways() {
        let (instructions, token) = rounds(number, look, (1, 128), options);
        assert_eq!(token, 1024);
        assert!(instructions < 1 << 20, "{look} {options:?}: {instructions} instructions");
    }
}
