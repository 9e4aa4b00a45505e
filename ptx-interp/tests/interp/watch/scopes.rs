//! Flags that pass data from thread to thread, with every scope on either side: the watcher objects exactly where one of them does not
//! include the other thread.

use crate::harness::{kernel, one_in, program};
use ptx_interp::{Fault, Launch, Machine, Options, Program, Turn};
use std::sync::Arc;

const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

/// Positions of writer and reader, and the narrowest scope that has both.
const PLACES: [(&str, usize); 4] = [("a block", 0), ("a cluster", 1), ("a grid", 2), ("a node", 3)];

/// A way to release or acquire by a flag: the text, and the narrowest of its scopes.
type Way = (String, usize);

fn releases() -> Vec<Way> {
    let mut ways = Vec::new();
    for (s, scope) in SCOPES.iter().enumerate() {
        ways.push((format!("st.release.{scope}.global.u32 [%out+4], 1;"), s));
        ways.push((format!("red.release.{scope}.global.add.u32 [%out+4], 1;"), s));
        for (f, fence) in SCOPES.iter().enumerate() {
            ways.push((format!("fence.acq_rel.{fence}; st.relaxed.{scope}.global.u32 [%out+4], 1;"), s.min(f)));
        }
    }
    ways.push(("membar.gl; st.volatile.global.u32 [%out+4], 1;".into(), 2));
    ways.push(("membar.sys; st.volatile.global.u32 [%out+4], 1;".into(), 3));
    ways
}

fn acquires() -> Vec<Way> {
    const AGAIN: &str = "setp.eq.u32 %p2, %r2, 0; @%p2 bra READ;";
    let mut ways = Vec::new();
    for (s, scope) in SCOPES.iter().enumerate() {
        ways.push((format!("READ: ld.acquire.{scope}.global.u32 %r2, [%out+4]; {AGAIN}"), s));
        ways.push((format!("READ: atom.acquire.{scope}.global.or.b32 %r2, [%out+4], 0; {AGAIN}"), s));
        for (f, fence) in SCOPES.iter().enumerate() {
            ways.push((
                format!("READ: ld.relaxed.{scope}.global.u32 %r2, [%out+4]; {AGAIN} fence.acq_rel.{fence};"),
                s.min(f),
            ));
        }
    }
    ways.push((format!("READ: ld.volatile.global.u32 %r2, [%out+4]; {AGAIN} membar.gl;"), 2));
    ways
}

/// Writer and reader as threads of one launch, or of two ranks.
fn run(release: &str, acquire: &str, place: usize) -> Result<(), Fault> {
    let write = format!("st.global.u32 [%out], 7; {release} ret;");
    let read = format!("{acquire} ld.global.u32 %r3, [%out]; ret;");
    let mut machine = Machine::new();
    let out = machine.alloc(64)?;
    machine.write(out, &[0; 64])?;
    if place == 3 {
        return ranks(&mut machine, &[write, read].map(|body| Arc::new(program(&kernel(&body)))), out);
    }
    let number = if place == 0 { "shr.u32 %r1, %t, 5;" } else { "mov.u32 %r1, %ctaid.x;" };
    let body = format!(
        "{number} setp.eq.u32 %p1, %r1, 1; and.b32 %r4, %t, 31; setp.ne.u32 %p3, %r4, 0; @%p3 ret; @%p1 bra READ; {write} {read}"
    );
    let (grid, block) = if place == 0 { (1, 64) } else { (2, 32) };
    let (params, cluster) = (out.to_le_bytes(), [if place == 1 { 2 } else { 1 }, 1, 1]);
    let launch = Launch { cluster, ..launch(grid, block, &params) };
    machine.launch(&program(&kernel(&body)), &launch).map(drop)
}

fn launch(grid: u32, block: u32, params: &[u8]) -> Launch<'_> {
    Launch {
        entry: "k",
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params,
        options: Options { step_limit: Some(20_000_000), ..Options::default() },
    }
}

/// A launch of one thread on each rank, to their ends.
fn ranks(machine: &mut Machine, programs: &[Arc<Program>], out: u64) -> Result<(), Fault> {
    for (rank, program) in programs.iter().enumerate() {
        machine.submit(rank as u32, program, &launch(1, 1, &out.to_le_bytes()))?;
    }
    loop {
        match machine.run_ranks() {
            Turn::Ran | Turn::Looked | Turn::Ended(_, Ok(_)) => {}
            Turn::Ended(_, Err(fault)) => return Err(fault),
            Turn::Stuck(fault) => return Err(*fault),
            Turn::Idle => return Ok(()),
        }
    }
}

#[test]
fn a_scope_that_is_too_narrow_is_found() {
    let (releases, acquires, mut number) = (releases(), acquires(), 0);
    let mut mistakes = Vec::new();
    for (place, (name, needed)) in PLACES.iter().enumerate() {
        for (release, left) in &releases {
            for (acquire, right) in &acquires {
                number += 1;
                // Each side once with the widest scope of the other, and a part of the rest.
                let simple = acquire.starts_with("READ: ld.acquire.sys") || release.starts_with("st.release.sys");
                if number % one_in(11) != 0 && !simple {
                    continue;
                }
                let found = run(release, acquire, place).err().map(|fault| fault.finding().map(|code| code.id));
                let sound = left.min(right) >= needed;
                let right = if sound { found.is_none() } else { matches!(found, Some(Some("W0202" | "W0203"))) };
                if !right {
                    mistakes.push(format!("in {name}: {release} {acquire}\n=> {found:?}"));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "{} of {number}\n{}", mistakes.len(), mistakes.join("\n"));
}
