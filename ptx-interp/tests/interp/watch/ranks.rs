//! Launches of several ranks, which run beside each other: signals between them, deadlocks, variables, and the order of later launches.

use crate::harness::{kernel, program, words_at};
use ptx_interp::{Fault, Launch, Machine, Options, Program, Stats, Turn};
use std::sync::Arc;

/// Each rank has a header: its number, the number of ranks, and the address that all share.
struct Node {
    machine: Machine,
    headers: Vec<u64>,
    shared: u64,
    seed: u64,
}

/// The start of a body: the rank in `%r1`, the ranks in `%r2`, the shared address in `%d1`, its own word there in `%d2`.
const HEAD: &str = "ld.global.u32 %r1, [%out]; ld.global.u32 %r2, [%out+4]; ld.global.u64 %d1, [%out+8];
  mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2;";

/// The rank behind this one in `%r3`, and its word in `%d3`.
const NEXT: &str = "add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d1, %d3;";

impl Node {
    fn new(ranks: u32, seed: u64) -> Node {
        let mut machine = Machine::new();
        let shared = machine.alloc(1024).unwrap();
        machine.write(shared, &[0; 1024]).unwrap();
        let header = |rank: u32| {
            let at = machine.alloc(16).unwrap();
            let words = [u64::from(rank) | u64::from(ranks) << 32, shared].map(u64::to_le_bytes).concat();
            machine.write(at, &words).unwrap();
            at
        };
        let headers = (0..ranks).map(header).collect();
        Node { machine, headers, shared, seed }
    }

    fn submit(&mut self, rank: usize, program: &Arc<Program>, (grid, block): (u32, u32)) {
        let launch = Launch {
            entry: "k",
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            params: &self.headers[rank].to_le_bytes(),
            options: Options { seed: self.seed, step_limit: Some(50_000_000), ..Options::default() },
        };
        self.machine.submit(rank as u32, program, &launch).unwrap();
    }

    fn run(&mut self) -> Result<Vec<(u32, Stats)>, Fault> {
        let mut ended = Vec::new();
        loop {
            match self.machine.run_ranks() {
                Turn::Ran | Turn::Looked => {}
                Turn::Ended(rank, result) => ended.push((rank, result?)),
                Turn::Stuck(fault) => return Err(*fault),
                Turn::Idle => return Ok(ended),
            }
        }
    }
}

/// The same body on every rank, one thread each.
fn run(ranks: u32, seed: u64, body: &str) -> Result<Vec<u32>, Fault> {
    let mut node = Node::new(ranks, seed);
    let program = Arc::new(program(&kernel(&format!("{HEAD} {NEXT} {body} ret;"))));
    (0..ranks as usize).for_each(|rank| node.submit(rank, &program, (1, 1)));
    let ended = node.run()?;
    assert_eq!(ended.len(), ranks as usize);
    Ok(words_at(&node.machine, node.shared, 256))
}

fn code(result: Result<Vec<u32>, Fault>) -> Option<&'static str> {
    result.err().and_then(|fault| fault.finding()).map(|code| code.id)
}

/// Each rank writes a value, signals to the next rank by its word, and waits for its own signal.
fn ring(release: &str, acquire: &str) -> String {
    format!(
        "add.u32 %r5, %r1, 100; st.global.u32 [%d2+512], %r5; {release} [%d3], 1;
         WAIT: {acquire} %r4, [%d2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT;
         add.u32 %r6, %r1, %r2; sub.u32 %r6, %r6, 1; rem.u32 %r6, %r6, %r2; mul.wide.u32 %d4, %r6, 4; add.u64 %d4, %d1, %d4;
         ld.global.u32 %r7, [%d4+512]; st.global.u32 [%d2+256], %r7;"
    )
}

#[test]
fn ranks_pass_data_by_signals_of_the_system() {
    for (ranks, seed) in [(2, 0), (3, 1), (4, 7)] {
        let words = run(ranks, seed, &ring("st.release.sys.global.u32", "ld.acquire.sys.global.u32")).unwrap();
        let want: Vec<u32> = (0..ranks).map(|rank| 100 + (rank + ranks - 1) % ranks).collect();
        assert_eq!(words[64..64 + ranks as usize], want, "{ranks} ranks");
    }
    for (release, acquire, found) in [
        ("st.release.gpu.global.u32", "ld.acquire.sys.global.u32", "W0203"),
        ("st.release.sys.global.u32", "ld.acquire.gpu.global.u32", "W0203"),
        ("st.relaxed.sys.global.u32", "ld.acquire.sys.global.u32", "W0202"),
        ("st.release.sys.global.u32", "ld.relaxed.sys.global.u32", "W0202"),
        ("st.global.u32", "ld.acquire.sys.global.u32", "W0202"),
    ] {
        assert_eq!(code(run(2, 0, &ring(release, acquire))), Some(found), "{release} {acquire}");
    }
}

#[test]
fn a_race_names_the_ranks() {
    let fault = run(2, 0, "st.global.u32 [%d1], %r1;").unwrap_err();
    assert_eq!(fault.finding().unwrap().id, "W0202");
    assert!(fault.to_string().contains("between two ranks") && fault.to_string().contains("of rank 1"), "{fault}");
    assert!(fault.parties()[0].text.contains("of rank 0 wrote them here"), "{:?}", fault.parties());
    // Atomics of one GPU's scope.
    let fault = run(2, 0, "red.relaxed.gpu.global.add.u32 [%d1], 1;").unwrap_err();
    assert_eq!(fault.finding().unwrap().id, "W0203");
    assert!(fault.advice()[0].contains("`.sys`"), "{:?}", fault.advice());
    assert_eq!(run(3, 5, "red.relaxed.sys.global.add.u32 [%d1], 1;").unwrap()[0], 3);
}

#[test]
fn a_signal_that_never_comes_is_a_deadlock_of_all() {
    // Each waits for a value that nobody writes.
    let body = "st.release.sys.global.u32 [%d3], 1;
        WAIT: ld.acquire.sys.global.u32 %r4, [%d2]; setp.ne.u32 %p1, %r4, 2; @%p1 bra WAIT;";
    let fault = run(3, 0, body).unwrap_err();
    assert_eq!(fault.finding().unwrap().id, "W0303");
    assert!(fault.message.contains("on rank 1: ") && fault.message.contains("on rank 2: "), "{fault}");
}

#[test]
fn launches_of_a_rank_are_in_order_and_know_what_those_before_knew() {
    // The first launch writes without a signal, the second one signals, and the other rank reads what the first one wrote.
    let write = Arc::new(program(&kernel(&format!("{HEAD} {NEXT} st.global.u32 [%d2+512], 7; ret;"))));
    let signal = Arc::new(program(&kernel(&format!(
        "{HEAD} {NEXT} st.release.sys.global.u32 [%d3], 1; WAIT: ld.acquire.sys.global.u32 %r4, [%d2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT; ret;"
    ))));
    let read = Arc::new(program(&kernel(&format!("{HEAD} {NEXT} ld.global.u32 %r5, [%d3+512]; ret;"))));
    // The async proxy reads it, too: the end of a launch is a fence of all proxies.
    let copy = Arc::new(program(&kernel(&format!(
        "{HEAD} .shared .align 16 .b8 bytes[16]; .shared .align 8 .b64 bar; mov.u32 %r3, bytes; mov.u32 %r4, bar;
         mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
         mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d1+512], 16, [%r4];
         WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 0; @!%p1 bra WAIT; ld.shared.u32 %r5, [%r3]; ret;"
    ))));
    for seed in [0, 3, 4] {
        let mut node = Node::new(2, seed);
        for rank in 0..2 {
            [&write, &signal, &read, &copy].into_iter().for_each(|program| node.submit(rank, program, (1, 1)));
        }
        assert_eq!(node.run().map(|ended| ended.len()), Ok(8));
        // Without the signal between.
        let mut node = Node::new(2, seed);
        for rank in 0..2 {
            [&write, &read].into_iter().for_each(|program| node.submit(rank, program, (1, 1)));
        }
        let fault = node.run().unwrap_err();
        assert_eq!(fault.finding().unwrap().id, "W0202");
        // After the host has waited for both ranks, the order is the host's.
        let mut node = Node::new(2, seed);
        for program in [&write, &read] {
            (0..2).for_each(|rank| node.submit(rank, program, (1, 1)));
            node.run().unwrap();
            (0..2).for_each(|rank| node.machine.meet_host(rank));
        }
    }
}

#[test]
fn a_fault_leaves_the_others_to_whoever_runs_them() {
    let mut node = Node::new(2, 0);
    let wait = Arc::new(program(&kernel(&format!(
        "{HEAD} WAIT: ld.acquire.sys.global.u32 %r4, [%d2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT; ret;"
    ))));
    let trap = Arc::new(program(&kernel("trap; ret;")));
    node.submit(0, &wait, (1, 1));
    node.submit(1, &trap, (1, 1));
    let fault = node.run().unwrap_err();
    assert_eq!((fault.rank(), node.machine.has_launches(0), node.machine.has_launches(1)), (Some(1), true, false));
    node.machine.abandon(0);
    assert!(!node.machine.has_launches(0));
    assert!(matches!(node.machine.run_ranks(), Turn::Idle));
}

#[test]
fn each_rank_has_variables_of_its_own() {
    let text = kernel("atom.global.add.u32 %r1, [count], 1; st.global.u32 [%out], %r1; ret;")
        .replace(".visible .entry", ".visible .global .u32 count;\n.visible .entry");
    let mut node = Node::new(2, 0);
    let program = Arc::new(program(&text));
    for rank in [0, 1, 1] {
        node.submit(rank, &program, (1, 1));
    }
    node.run().unwrap();
    let count = |node: &mut Node, rank| node.machine.variable_of_rank(rank, &program, "count").unwrap().unwrap()[0];
    assert_eq!((count(&mut node, 0), count(&mut node, 1)), (1, 2));
}
