//! Loops that are executed as drafts at first, with what an inner loop leaves, and registers that hold a value from turn to turn; each mutant is proved
//! no more.

use super::assert_proved_or;

/// Bodies of kernels in which a register is read in one way alone, and a mutant of each: another turn leaves a value there that is too large.
const READ: [(&str, &str, &str); 6] = [
    // By an address.
    ("let mut to: u64 = x + 0; while turn < m { ptx! { st.global.f32 [to], sum; } to += 4; turn += 1; }", "to += 4", "to += 8"),
    // By a list, as its first and as its second part.
    (
        "let (mut low, high): (u32, u32) = (0, 0); while turn < m { let offset: u64; ptx! { mov.b64 offset, {low, high}; }
         let to: u64 = x + offset; ptx! { st.global.f32 [to], sum; } low += 4; turn += 1; }",
        "low += 4",
        "low += 8",
    ),
    (
        "let (low, mut high): (u32, u32) = (0, 0); invariant!(high == 0); while turn < m { let offset: u64; ptx! { mov.b64 offset, {low, high}; }
         let to: u64 = x + offset; ptx! { st.global.f32 [to], sum; } high = turn / 1000; turn += 1; }",
        "/ 1000",
        "/ 900",
    ),
    // Where a write under a guard leaves the value before.
    (
        "let (mut own, mut has): (u32, pred) = (0, tid.x < 3); invariant!(own < m); while turn < m { ptx! { @has mov.u32 own, 0; } let to = x.at(own);
         ptx! { st.global.f32 [to], sum; } has = tid.x < 4; own = turn; turn += 1; }",
        "own = turn;",
        "own = turn + 2;",
    ),
    // Behind the loop alone.
    (
        "let mut own: u32 = 0; invariant!(own < m); while turn < m { own = turn; turn += 1; } let to = x.at(own); ptx! { st.global.f32 [to], sum; }",
        "own = turn;",
        "own = turn + 1;",
    ),
    // By a cut and what follows from it.
    (
        "let (mut own, mut limit): (u32, u32) = (0, 1); invariant!(own < limit && limit <= m);
         while turn < m { cut!(own < limit && limit <= m); let to = x.at(own); ptx! { st.global.f32 [to], sum; } own = turn; limit = turn + 1; turn += 1; }",
        "own = turn;",
        "own = turn + 1;",
    ),
];

/// The same of predicates, whose values at the start of a turn are not described.
const GUARDS: [&str; 2] = [
    "let mut has: pred = tid.x < 3; let to = x.at(tid.x);
     while turn < m { ptx! { @has st.global.f32 [to], sum; } has = tid.x < 4; turn += 1; }",
    "let mut has: pred = tid.x > 2; let to = x.at(tid.x);
     while turn < m { if has { sum += 1.0; } else { ptx! { st.global.f32 [to], sum; } } has = tid.x > 3; turn += 1; }",
];

/// Loops in a loop, the inner one of which leaves nothing but a float, and the beginning of the error; none for kernels whose bounds are proved.
const QUIET: [(&str, &str); 14] = [
    // What it accesses counts, and so does a stage that the outer loop turns.
    (
        "while turn < m { let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage += 1; if stage == 3 { stage = 0; } turn += 1; }",
        "",
    ),
    (
        "while turn < m { let mut at: u32 = turn; while at <= n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage += 1; if stage == 3 { stage = 0; } turn += 1; }",
        "thread",
    ),
    (
        "while turn < m { let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage += 1; if stage == 4 { stage = 0; } turn += 1; }",
        "bounds are not decided",
    ),
    // It leaves an integer, too.
    (
        "while turn < m { let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; stage += 1; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage = 0; turn += 1; }",
        "bounds are not decided",
    ),
    // A write that not every turn makes leaves the value before.
    (
        "while turn < m { let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         if turn < 7 { stage = turn; } let to = x.at(stage); ptx! { st.global.f32 [to], sum; } turn += 1; }",
        "bounds are not decided",
    ),
    // A number of memory is the same one behind an inner loop that does not write it, and another one behind a loop that does.
    (
        "while turn < m { let own = y.at(0); ptx! { ld.global.u32 stage, [own]; } if stage < 3 { let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let mut again: u32; ptx! { ld.global.u32 again, [own]; } let to = x.at(again); ptx! { st.global.f32 [to], sum; } } turn += 1; }",
        "",
    ),
    (
        "while turn < m { let own = y.at(0); ptx! { ld.global.u32 stage, [own]; } if stage < 3 { let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; st.global.f32 [own], v; } sum += v; at += m; }
         let mut again: u32; ptx! { ld.global.u32 again, [own]; } let to = x.at(again); ptx! { st.global.f32 [to], sum; } } turn += 1; }",
        "bounds are not decided",
    ),
    // A stage that an inner loop leaves in memory, and that the outer loop reads there.
    (
        "while turn < m { let mut at: u32 = turn; let own = y.at(0);
         while at < n { ptx! { st.global.u32 [own], at; } sum += 1.0; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; ld.global.u32 stage, [own]; } turn += 1; }",
        "bounds are not decided",
    ),
    // A register that nothing but an invariant reads has its value there.
    (
        "let mut limit: u32 = 3; invariant!(stage < limit && limit <= 3); while turn < m { let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage = turn % 3; turn += 1; }",
        "",
    ),
    (
        "let mut limit: u32 = 3; invariant!(stage < limit && limit <= 3); while turn < m { let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } stage = turn % 3; limit += 1; turn += 1; }",
        "bounds are not decided: the invariant is not proved",
    ),
    // By the bits of a float that the inner loop leaves.
    (
        "while turn < m { let own: u32; ptx! { mov.b32 own, sum; } let mut at: u32 = turn;
         while at < n { let from = given.at(at); ptx! { ld.global.f32 sum, [from]; } at += m; }
         if own < 4 { let to = x.at(own); ptx! { st.global.f32 [to], sum; } } turn += 1; }",
        "bounds are not decided",
    ),
    // Lanes leave the inner loop, or the outer one, each for itself; it lends a number to another lane.
    (
        "while turn < m { let from = y.at(0); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, 2; } stage = warp::broadcast(v, 31);
         let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += tid.x + 1; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } turn += 1; }",
        "",
    ),
    (
        "while turn < m { let from = y.at(0); let mut v: u32; ptx! { ld.global.u32 v, [from]; min.u32 v, v, 2; } stage = warp::broadcast(v, 31);
         let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += tid.x + 1; }
         let to = x.at(stage); ptx! { st.global.f32 [to], sum; } turn += 1 + tid.x; }",
        "bounds are not decided",
    ),
    // It ends threads, or the outer loop.
    (
        "while turn < m { let mut at: u32 = turn; while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; if sum > 9.0 { return; } }
         if turn > 2 { let to = x.at(turn); ptx! { st.global.f32 [to], sum; } } turn += 1; }",
        "bounds are not decided",
    ),
];

/// Such loops whose inner one has a barrier, and the beginning of the error: of what threads leave each other in shared memory.
const QUIET_BARRIERS: [(&str, &str); 2] = [
    (
        "while turn < m { ptx! { st.shared.f32 [own], sum; bar.sync 0; } let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; } sum += v; at += m; }
         let mut v: f32; ptx! { ld.shared.f32 v, [other]; bar.sync 0; } sum += v; turn += 1; }",
        "",
    ),
    // An inner loop may have no turn, and then no barrier.
    (
        "while turn < m { ptx! { st.shared.f32 [own], sum; } let mut at: u32 = turn;
         while at < n { let from = given.at(at); let mut v: f32; ptx! { ld.global.f32 v, [from]; bar.sync 0; } sum += v; at += m; }
         let mut v: f32; ptx! { ld.shared.f32 v, [other]; bar.sync 0; } sum += v; turn += 1; }",
        "thread",
    ),
];

#[test]
fn loops_that_leave_floats_count() {
    for (body, expected) in QUIET {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = 1, requires(x.len() >= 3, y.len() > 0, given.len() >= n, m > 0, m < 1000), proved(bounds))]
             pub fn k(x: &mut [f32], y: &mut [u32], given: &[f32], n: u32, m: u32) {{ let (mut turn, mut stage, mut sum): (u32, u32, f32) = (0, 0, 0.0); {body} }}"
        );
        assert_proved_or(&text, expected);
    }
    for (body, expected) in QUIET_BARRIERS {
        let text = format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 64, grid = 1, requires(x.len() >= 64, given.len() >= n, m > 0, m < 1000), proved)]
             pub fn k(x: &mut [f32], given: &[f32], n: u32, m: u32) {{ #[shared] let slots: [f32; 64]; let slots_at: u32 = slots;
             let (mut turn, mut sum, own, other): (u32, f32, u32, u32) = (0, 0.0, slots_at + tid.x * 4, slots_at + (tid.x ^ 1) * 4); {body}
             let to = x.at(tid.x); ptx! {{ st.global.f32 [to], sum; }} }}"
        );
        assert_proved_or(&text, expected);
    }
}

#[test]
fn registers_hold_values_from_turn_to_turn() {
    let kernel = |body: &str| {
        format!(
            "#[ptx_kernel(arch = \"sm_80\", block = 32, grid = 1, requires(x.len() >= m, m > 3, m < 1000), proved(bounds))]
             pub fn k(x: &mut [f32], m: u32) {{ let (mut turn, mut sum): (u32, f32) = (0, 0.0); {body} }}"
        )
    };
    GUARDS.iter().for_each(|body| assert_proved_or(&kernel(body), "[P09"));
    for (body, old, new) in READ {
        let text = kernel(body);
        assert_proved_or(&text, "");
        let mutant = text.replacen(old, new, 1);
        assert!(mutant != text, "{old}");
        assert_proved_or(&mutant, "[P09");
    }
}
