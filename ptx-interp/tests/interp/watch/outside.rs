//! Memory of the host's, which others may have, too: bounds and alignment are checked there, and nothing that others could explain.

use crate::harness::{kernel, launch, program, words_at};
use ptx_interp::{Machine, Options, OutsideMemory};

#[derive(Debug)]
struct Words(Vec<u8>);

impl OutsideMemory for Words {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The code of the finding, if there is one, of a body that has the address of 64 shared bytes in `%d1` and its block in `%r1`.
fn run(is_outside: bool, body: &str) -> Result<Vec<u32>, String> {
    let mut machine = Machine::new();
    let shared = match is_outside {
        true => machine.map(Box::new(Words(vec![0; 64]))),
        false => machine.alloc(64).unwrap(),
    };
    if !is_outside {
        machine.write(shared, &[0; 64]).unwrap();
    }
    let out = machine.alloc(64).unwrap();
    machine.write(out, &shared.to_le_bytes()).unwrap();
    machine.write(out + 8, &[0; 56]).unwrap();
    let program = program(&kernel(&format!("ld.global.u64 %d1, [%out]; mov.u32 %r1, %ctaid.x; {body} ret;")));
    match launch(&mut machine, &program, 2, 1, &out.to_le_bytes(), Options::default()) {
        Ok(_) => Ok(words_at(&machine, shared, 16)),
        Err(fault) => Err(fault.finding().map_or(format!("{:?}", fault.kind), |code| code.id.to_owned())),
    }
}

#[test]
fn races_there_are_no_findings() {
    let body =
        "add.u32 %r2, %r1, 5; st.global.u32 [%d1+8], %r2; ld.global.u32 %r3, [%d1+12]; st.global.u32 [%d1+12], %r2;";
    assert_eq!(run(false, body).unwrap_err(), "W0202");
    assert!(matches!(run(true, body).unwrap()[2], 5 | 6));
}

#[test]
fn bounds_and_alignment_are_checked() {
    assert_eq!(run(true, "st.global.u32 [%d1+64], 1;").unwrap_err(), "W0101");
    assert_eq!(run(true, "ld.global.u64 %d2, [%d1+60];").unwrap_err(), "W0102");
}

/// The first block writes memory of the machine's own, and then a signal; the second one acquires in `word` once the signal is there, and reads.
fn pass_on(word: u32) -> String {
    format!(
        "setp.eq.u32 %p1, %r1, 1; @%p1 bra SECOND;
         st.global.u32 [%out+32], 7; st.release.sys.global.u32 [%d1], 1; bra END;
         SECOND: ld.relaxed.sys.global.u32 %r2, [%d1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SECOND;
         ld.acquire.sys.global.u32 %r3, [%d1+{word}];
         ld.global.u32 %r4, [%out+32]; st.global.u32 [%d1+40], %r4; END:"
    )
}

#[test]
fn others_may_pass_on_what_a_signal_carries() {
    assert_eq!(run(false, &pass_on(0)).unwrap()[10], 7);
    assert_eq!(run(false, &pass_on(16)).unwrap_err(), "W0202");
    assert_eq!(run(true, &pass_on(0)).unwrap()[10], 7);
    assert_eq!(run(true, &pass_on(16)).unwrap()[10], 7);
    // Without an acquire it is a race, with and without others.
    let weak = pass_on(16).replace("ld.acquire.sys", "ld.relaxed.sys");
    assert_eq!(run(true, &weak).unwrap_err(), "W0202");
}
