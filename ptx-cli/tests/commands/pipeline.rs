//! Pipelines of `mbarrier`s: a ring whose automata are explored whole, and mutants of it that are harmful and never proved.

use super::{file, one_in, said};
use ptx_core::check::check;
use ptx_interp::{Launch, Machine, Options, Program};

/// A ring of two stages of 128 bytes: lane 0 of the first warp fills them, the second warp adds their words.
const RING: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 out, .param .u32 n)
{
    .shared .align 128 .b8 stages[256];
    .shared .align 8 .b8 bars[32];
    .reg .pred %p, %q;
    .reg .b32 %n, %t, %k, %s, %phase, %parity, %b, %o, %f, %a, %v, %sum;
    .reg .b64 %x, %out, %w;
    ld.param.u64 %x, [x];
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x;
    mov.u32 %b, bars;
    setp.ne.u32 %p, %t, 0;
    @%p bra READY;
    mbarrier.init.shared.b64 [%b], 1;
    mbarrier.init.shared.b64 [%b+8], 1;
    mbarrier.init.shared.b64 [%b+16], 32;
    mbarrier.init.shared.b64 [%b+24], 32;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 %k, 0;
    mov.u32 %s, 0;
    mov.u32 %phase, 0;
    mov.u32 %sum, 0;
    setp.ge.u32 %p, %t, 32;
    @%p bra CONSUME;
    setp.ne.u32 %p, %t, 0;
    @%p bra DONE;
PRODUCE:
    setp.ge.u32 %p, %k, %n;
    @%p bra DONE;
    shl.b32 %o, %s, 3;
    add.u32 %f, %b, %o;
    xor.b32 %parity, %phase, 1;
EMPTY:
    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;
    @!%q bra EMPTY;
    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 128;
    shl.b32 %o, %s, 7;
    mov.u32 %a, stages;
    add.u32 %a, %a, %o;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%a], [%x], 128, [%f];
    add.u64 %x, %x, 128;
    add.u32 %k, %k, 1;
    add.u32 %s, %s, 1;
    setp.eq.u32 %q, %s, 2;
    @%q xor.b32 %phase, %phase, 1;
    @%q mov.u32 %s, 0;
    bra PRODUCE;
CONSUME:
    setp.ge.u32 %p, %k, %n;
    @%p bra STORE;
    shl.b32 %o, %s, 3;
    add.u32 %f, %b, %o;
FULL:
    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;
    @!%q bra FULL;
    shl.b32 %o, %s, 7;
    mad.lo.u32 %o, %t, 4, %o;
    mov.u32 %a, stages;
    add.u32 %a, %a, %o;
    ld.shared.u32 %v, [%a+-128];
    mbarrier.arrive.shared.b64 _, [%f+16];
    add.u32 %sum, %sum, %v;
    add.u32 %k, %k, 1;
    add.u32 %s, %s, 1;
    setp.eq.u32 %q, %s, 2;
    @%q xor.b32 %phase, %phase, 1;
    @%q mov.u32 %s, 0;
    bra CONSUME;
STORE:
    mul.wide.u32 %w, %t, 4;
    add.u64 %out, %out, %w;
    st.global.u32 [%out+-128], %sum;
DONE:
    ret;
}
";

/// Changes that make the ring harmful: what is replaced, and by what.
const MUTANTS: [Mutant; 18] = [
    ("a phase early", "xor.b32 %parity, %phase, 1", "mov.u32 %parity, %phase"),
    ("the consumer's phase", "%q, [%f], %phase", "%q, [%f], 0"),
    ("more bytes are expected", "_, [%f], 128", "_, [%f], 256"),
    ("fewer bytes are expected", "_, [%f], 128", "_, [%f], 64"),
    ("a shorter copy", "[%x], 128, [%f]", "[%x], 112, [%f]"),
    ("too many consumers", "[%b+24], 32", "[%b+24], 33"),
    ("too few consumers", "[%b+24], 32", "[%b+24], 31"),
    ("too many producers", "[%b], 1;", "[%b], 2;"),
    ("no wait for a full stage", "    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;\n    @!%q bra FULL;\n", ""),
    (
        "no wait for an empty stage",
        "    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;\n    @!%q bra EMPTY;\n",
        "",
    ),
    ("no release", "    mbarrier.arrive.shared.b64 _, [%f+16];\n", ""),
    (
        "one stage for two",
        "shl.b32 %o, %s, 7;\n    mov.u32 %a, stages;\n    add.u32 %a, %a, %o;\n    cp",
        "mov.u32 %a, stages;\n    cp",
    ),
    (
        "a stage is released early",
        "    ld.shared.u32 %v, [%a+-128];\n    mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    mbarrier.arrive.shared.b64 _, [%f+16];\n    ld.shared.u32 %v, [%a+-128];\n",
    ),
    (
        "no release where there are five stages",
        "    mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    setp.eq.u32 %q, %n, 5;\n    @!%q mbarrier.arrive.shared.b64 _, [%f+16];\n",
    ),
    (
        "a branch around the release where there are five stages",
        "    mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    setp.eq.u32 %q, %n, 5;\n    @%q bra KEPT;\n    mbarrier.arrive.shared.b64 _, [%f+16];\nKEPT:\n",
    ),
    (
        "a release that depends on where shared memory starts",
        "    mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    setp.gt.u32 %q, %b, 512;\n    @%q mbarrier.arrive.shared.b64 _, [%f+16];\n",
    ),
    (
        "a parity that depends on where shared memory starts",
        "xor.b32 %parity, %phase, 1;",
        "shr.u32 %parity, %b, 10;\n    xor.b32 %parity, %phase, %parity;",
    ),
    ("the consumer reads one stage more", "CONSUME:\n    setp.ge.u32", "CONSUME:\n    setp.gt.u32"),
];

/// Two warps that take stages from a ring, store them to a buffer and copy that to global memory.
const RELAY: &str = include_str!("pipeline/relay.ptx");

/// Two blocks that get each stage by one multicast, and release it to each other.
const PAIR: &str = include_str!("pipeline/pair.ptx");

/// A thread sends a word with each stage: there is one more. A warp reads the stage if a number in memory is not zero.
const MAIL: &str = include_str!("pipeline/mail.ptx");

const MAIL_MUTANTS: [Mutant; 11] = [
    (
        "a word is sent before its slot is empty",
        "EMPTY:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;\n    @!%q bra EMPTY;\n",
        "",
    ),
    ("the parity of an empty slot", "    xor.b32 %parity, %parity, 1;\n", ""),
    (
        "a word is sent behind the arrival",
        "    @!%p bra LAST;\n    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 128;\n",
        "    @!%p bra LAST;\n    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 128;\n    st.shared.v2.u32 [%m], {%k, %more};\n",
    ),
    (
        "a last word is sent behind the arrival",
        "[%f];\n    bra DONE;",
        "[%f];\n    st.shared.v2.u32 [%m], {%k, %more};\n    bra DONE;",
    ),
    (
        "a word is read before it is there",
        "FULL:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f], %parity;\n    @!%q bra FULL;\n",
        "",
    ),
    ("the elements of a word", "{%k, %more}", "{%more, %k}"),
    ("no last word", "LAST:\n    mbarrier.arrive.shared.b64 _, [%f];\n", "LAST:\n"),
    (
        "a lane releases what others read on a side of a branch",
        "    add.u32 %sum, %sum, %v;\n    bar.warp.sync 0xffffffff;\n",
        "    add.u32 %sum, %sum, %v;\n",
    ),
    (
        "a stage is released before it is read",
        "    setp.ne.u32 %q, %d, 0;\n",
        "    @%leader mbarrier.arrive.shared.b64 _, [%f+16];\n    setp.ne.u32 %q, %d, 0;\n",
    ),
    (
        "bits of a counter that are read once",
        "KEPT:\n    @%leader mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "KEPT:\n    setp.ne.and.u32 %q, %turn, 3, %leader;\n    @%q mbarrier.arrive.shared.b64 _, [%f+16];\n",
    ),
    ("one slot for two", "RECEIVE:\n", "RECEIVE:\n    xor.b32 %turn, %turn, 1;\n"),
];

/// Changes of the mail that no run with the same data in all lanes shows.
const MAIL_UNKNOWN: [Mutant; 5] = [
    ("halves of words", "st.shared.v2.u32 [%m], {%k, %more}", "st.shared.v2.u16 [%m], {%h, %h}"),
    (
        "one side synchronizes, and the other one does not",
        "    @!%q bra KEPT;\n",
        "    @!%q bra PLAIN;\n    bra BOTH;\nPLAIN:\n    shl.b32 %from, %lane, 2;\n    mov.u32 %a, stages;\n    add.u32 %a, %a, %from;\n    shl.b32 %from, %slot, 7;\n    add.u32 %a, %a, %from;\n    ld.shared.u32 %v, [%a];\n    bra KEPT;\nBOTH:\n",
    ),
    ("lanes take different sides", "    vote.sync.any.pred %q, %q, 0xffffffff;\n", ""),
    ("a part of the warp votes", "vote.sync.any.pred %q, %q, 0xffffffff", "vote.sync.any.pred %q, %q, 0xffff"),
    (
        "a side releases the stage",
        "    bar.warp.sync 0xffffffff;\nKEPT:\n    @%leader mbarrier.arrive.shared.b64 _, [%f+16];\n",
        "    bar.warp.sync 0xffffffff;\n    @%leader mbarrier.arrive.shared.b64 _, [%f+16];\nKEPT:\n",
    ),
];

const WAIT_FULL: &str = "FULL:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;\n    @!%q bra FULL;\n";
const LEADER_WAITS: &str = "    @!%leader bra FREE;\nFULL:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;\n    @!%q bra FULL;\nFREE:\n";
const FLIP: &str = "    @%q xor.b32 %phase, %phase, 1;\n";

const RELAY_MUTANTS: [Mutant; 27] = [
    ("a lane releases what others read", "    bar.warp.sync 0xffffffff;\n", ""),
    ("a lane waits for all", WAIT_FULL, LEADER_WAITS),
    (
        "a release that orders nothing",
        "mbarrier.arrive.shared.b64 _, [%f+16]",
        "mbarrier.arrive.relaxed.cta.shared.b64 _, [%f+16]",
    ),
    (
        "a wait that orders nothing",
        "try_wait.parity.shared.b64 %q, [%f], %phase",
        "try_wait.parity.relaxed.cta.shared.b64 %q, [%f], %phase",
    ),
    ("no proxy fence", "    fence.proxy.async.shared::cta;\n", ""),
    ("a proxy fence of one thread", "    fence.proxy.async", "    @%first fence.proxy.async"),
    (
        "a proxy fence too late",
        "    fence.proxy.async.shared::cta;\n    bar.sync 1, 64;\n",
        "    bar.sync 1, 64;\n    @!%first fence.proxy.async.shared::cta;\n",
    ),
    ("no barrier before the store", "cta;\n    bar.sync 1, 64;\n", "cta;\n"),
    ("the buffer is not drained", "    @%first cp.async.bulk.wait_group.read 0;\n", ""),
    ("the buffer is drained later", "wait_group.read 0", "wait_group.read 1"),
    (
        "another thread drains",
        "    @%first cp.async.bulk.wait_group.read",
        "    @!%first cp.async.bulk.wait_group.read",
    ),
    ("no barrier behind the drain", "read 0;\n    bar.sync 1, 64;\n", "read 0;\n"),
    ("the block ends before its copies", "    @%first cp.async.bulk.wait_group 0;\n", ""),
    ("no commit", "    @%first cp.async.bulk.commit_group;\n", ""),
    ("one warp releases for both", "    @%leader mbarrier.arrive", "    @%first mbarrier.arrive"),
    ("one release is enough", "[%b+16], 2", "[%b+16], 1"),
    ("one release too many", "[%b+24], 2", "[%b+24], 3"),
    ("the producer's phase does not flip", "FIRST FLIP", ""),
    ("the consumer's phase does not flip", "LAST FLIP", ""),
    ("two producers", "setp.gt.u32 %p, %t, 0", "setp.gt.u32 %p, %t, 1"),
    (
        "another thread arrives",
        "    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 256;\n",
        "    mbarrier.expect_tx.relaxed.cta.shared.b64 [%f], 256;\n",
    ),
    ("no fence behind the initialization", "    fence.mbarrier_init.release.cluster;\n", ""),
    ("no barrier behind the initialization", "READY:\n    bar.sync 0;\n", "READY:\n"),
    ("the buffer is a stage", "mov.u32 %a, buffer;", "mov.u32 %a, stages;"),
    ("a stage is copied out", "[%out], [buffer], 256", "[%out], [stages], 256"),
    ("a stage is read behind its release", "READ", ""),
    ("the copy is larger than its stage", "[%x], 256, [%f]", "[%x], 272, [%f]"),
];

const PAIR_MUTANTS: [Mutant; 11] = [
    ("a block ends before it is released", "LAST:\n", "LAST:\n    bra DONE;\n"),
    (
        "no barrier of the cluster",
        "    barrier.cluster.arrive.relaxed.aligned;\n    barrier.cluster.wait.aligned;\n",
        "    bar.sync 0;\n",
    ),
    ("no fence behind the initialization", "    fence.mbarrier_init.release.cluster;\n", ""),
    ("the peer is not told", "setp.gt.u32 %q, %t, 33", "setp.gt.u32 %q, %t, 32"),
    ("the peer's release is not waited for", "[%b+8], 2", "[%b+8], 1"),
    ("a release too many", "setp.gt.u32 %q, %t, 33", "setp.gt.u32 %q, %t, 34"),
    ("the peer gets no bytes", "[%b], 3;", "[%b], 1;"),
    ("both blocks send to one half", "add.u32 %a, %a, %v;", "mov.u32 %a, %v;"),
    ("half of the bytes are expected", "_, [%b], 256", "_, [%b], 128"),
    ("a lane releases what others read", "    bar.warp.sync 0xffffffff;\n    setp.gt", "    setp.gt"),
    ("a release that orders nothing", "arrive.release.cluster", "arrive.relaxed.cluster"),
];

/// A ring whose stages the products of `tcgen05` read and release.
const ISSUE: &str = include_str!("pipeline/issue.ptx");

const ISSUE_MUTANTS: [Mutant; 8] = [
    ("nothing reads the stage", "    tcgen05.mma.cta_group::1.kind::f16 [%sums], %da, %db, 134481040, %adds;\n", ""),
    (
        "one stage is read for two",
        "mul.lo.u32 %o, %s, 18432;\n    mov.u32 %a, stages;\n    add.u32 %a, %a, %o;\n    and.b32",
        "mov.u32 %a, stages;\n    and.b32",
    ),
    (
        "the stage is not waited for",
        "FULL:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f], %phase;\n    @!%q bra FULL;\n",
        "",
    ),
    (
        "the producer does not wait",
        "EMPTY:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f+16], %parity;\n    @!%q bra EMPTY;\n",
        "",
    ),
    (
        "the stage is released at once",
        "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%f];\n    add.u32 %k",
        "    mbarrier.arrive.shared.b64 _, [%f];\n    add.u32 %k",
    ),
    (
        "the other stage is released",
        "    add.u32 %f, %f, 16;\n",
        "    xor.b32 %o, %o, 8;\n    add.u32 %f, %b, 16;\n    add.u32 %f, %f, %o;\n",
    ),
    ("half of the bytes are expected", "_, [%f], 18432", "_, [%f], 16384"),
    (
        "the sums are not waited for",
        "LAST:\n    mbarrier.try_wait.parity.shared.b64 %q, [%f], 0;\n    @!%q bra LAST;\n",
        "",
    ),
];

/// A change: its name, what is replaced, and by what.
type Mutant = (&'static str, &'static str, &'static str);

/// The text with a change; some changes have names.
fn changed(text: &str, from: &str, to: &str) -> String {
    let (read, release) =
        ("    ld.shared.u32 %v, [%a+-128];\n", "    @%leader mbarrier.arrive.shared.b64 _, [%f+16];\n");
    match from {
        "FIRST FLIP" => text.replacen(FLIP, "", 1),
        "LAST FLIP" => text.rsplit_once(FLIP).map_or(String::new(), |(before, behind)| format!("{before}{behind}")),
        "READ" => text.replacen(read, "", 1).replacen(release, &format!("{release}{read}"), 1),
        "    mbarrier.arrive.expect_tx.shared.b64 _, [%f], 256;\n" => {
            let arrives = "NEXT:\n    setp.ge.u32 %p, %k, %n;\n    @%p bra DRAIN;\n    shl.b32 %o, %s, 3;\n    add.u32 %f, %b, %o;\n";
            text.replacen(from, to, 1).replacen(
                arrives,
                &format!("{arrives}    @%first mbarrier.arrive.shared.b64 _, [%f];\n"),
                1,
            )
        }
        _ => text.replacen(from, to, 1),
    }
}

fn explored(text: &str, block: [u32; 3], cluster: [u32; 3]) -> ptx_prove::pipeline::Pipeline {
    let (tree, found) = ptx_core::parse::parse_text(text);
    let (checked, found) = check(tree, found, &Default::default());
    let checked = checked.unwrap_or_else(|| panic!("{found:?}"));
    let entry = checked.module().functions.iter().find(|function| function.entry).unwrap().name.clone();
    let contract = ptx_prove::Contract { block, cluster, ..Default::default() };
    ptx_prove::pipeline::explore(&checked, &entry, &contract, &[]).unwrap()
}

fn verdict(text: &str) -> (String, String) {
    let file = file(text);
    let options = ["--block", "64", "--grid", "1", "--assume", "len(x) >= 128 * n", "--assume", "len(out) >= 128"];
    let (_, out, err) = said(&[&["prove", file.name()], &options[..]].concat());
    let line = out.lines().find(|line| line.starts_with("pipeline: ")).unwrap_or_default().to_owned();
    (line, format!("{out}{err}"))
}

/// A launch for the watcher: the entry, threads of a block, blocks of a cluster, and bytes of a stage.
type Shape = (&'static str, u32, u32, u64);

/// The finding of the watcher in a run with so many stages.
fn fault(text: &str, (entry, threads, blocks, bytes): Shape, stages: u32, seed: u64) -> Option<String> {
    let (tree, found) = ptx_core::parse::parse_text(text);
    let (checked, found) = check(tree, found, &Default::default());
    let program = Program::new(&checked.unwrap_or_else(|| panic!("{found:?}"))).unwrap();
    let mut machine = Machine::new();
    let size = bytes * u64::from(stages);
    let (x, out) = (machine.alloc(size).unwrap(), machine.alloc(size).unwrap());
    machine.write(x, &vec![1; size as usize]).unwrap();
    let params: Vec<u8> = [&x.to_le_bytes()[..], &out.to_le_bytes(), &stages.to_le_bytes()].concat();
    let options = Options { watch: true, seed, step_limit: Some(100_000) };
    let (grid, block, cluster) = ([blocks, 1, 1], [threads, 1, 1], [blocks, 1, 1]);
    let launch =
        Launch { entry, grid, block, cluster, dynamic_shared: 0, cooperative: false, params: &params, options };
    machine.launch(&program, &launch).err().map(|fault| fault.message)
}

#[test]
fn a_ring_is_proved_and_its_harmful_mutants_are_not() {
    let (line, all) = verdict(RING);
    assert!(line.starts_with("pipeline: proved (2 warps, 4 barriers, "), "{all}");
    let shape = ("ring", 64, 1, 128);
    assert_eq!(fault(RING, shape, 5, 0), None);
    let mut wrong = Vec::new();
    for (name, from, to) in one_in(3, MUTANTS) {
        let text = RING.replacen(from, to, 1);
        assert_ne!(text, RING, "{name}");
        let (line, all) = verdict(&text);
        if line.is_empty() || line.contains("proved") {
            wrong.push(format!("{name}: {all}"));
        }
        if [1, 2, 5].into_iter().all(|stages| fault(&text, shape, stages, 0).is_none()) {
            wrong.push(format!("{name} is not harmful"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Branches that nothing at barriers depends on are passed by: the states are those without them.
#[test]
fn branches_around_sums_alone_have_no_states() {
    let sum = "    add.u32 %sum, %sum, %v;\n";
    let around = format!("    setp.gt.u32 %q, %n, 7;\n    @%q bra KEPT;\n{sum}KEPT:\n");
    let [plain, branches] = [RING.to_owned(), RING.replacen(sum, &around, 1)].map(|text| {
        let found = explored(&text, [64, 1, 1], [1; 3]);
        assert_eq!(found.outcome, ptx_prove::pipeline::Outcome::Proved);
        (found.states, found.barriers)
    });
    assert_eq!(plain, branches);
}

#[test]
fn relays_and_pairs_are_proved_and_their_harmful_mutants_are_not() {
    let mut wrong = Vec::new();
    let all: [(&str, Shape, &[Mutant]); 3] = [
        (RELAY, ("relay", 96, 1, 256), &RELAY_MUTANTS),
        (PAIR, ("pair", 64, 2, 256), &PAIR_MUTANTS),
        (MAIL, ("mail", 64, 1, 128), &MAIL_MUTANTS),
    ];
    for (text, shape, mutants) in all {
        let explore = |text: &str| explored(text, [shape.1, 1, 1], [shape.2, 1, 1]);
        let is_harmful = |text: &str| {
            let mut runs = (0..6).flat_map(|seed| [1, 2, 5].map(|stages| (stages, seed)));
            runs.find_map(|(stages, seed)| fault(text, shape, stages, seed))
        };
        let whole = explore(text);
        assert_eq!((&whole.outcome, is_harmful(text)), (&ptx_prove::pipeline::Outcome::Proved, None), "{whole:?}");
        println!("{}: {} states", shape.0, whole.states);
        for (name, from, to) in one_in(3, mutants) {
            let mutant = changed(text, from, to);
            assert_ne!(mutant, text, "{name}");
            let (found, fault) = (explore(&mutant), is_harmful(&mutant));
            println!("{}, {name}: {:?}; {fault:?}", shape.0, found.outcome);
            if found.outcome == ptx_prove::pipeline::Outcome::Proved {
                wrong.push(format!("{}, {name} is proved", shape.0));
            }
            if fault.is_none() {
                wrong.push(format!("{}, {name} is not harmful", shape.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A fence behind another one takes nothing of what that one shows. Alone, it is too late.
#[test]
fn the_first_fence_shows_stores() {
    let fence = "    fence.proxy.async.shared::cta;\n    bar.sync 1, 64;\n";
    let later = "    @!%first fence.proxy.async.shared::cta;\n";
    for (fences, is_proved) in [(format!("{fence}{later}"), true), (format!("    bar.sync 1, 64;\n{later}"), false)] {
        let found = explored(&RELAY.replacen(fence, &fences, 1), [96, 1, 1], [1; 3]);
        assert_eq!(found.outcome == ptx_prove::pipeline::Outcome::Proved, is_proved, "{found:?}");
    }
}

/// Products of `tcgen05` release stages when they are complete: a copy that is behind them is behind the copy before it, too.
#[test]
fn products_release_what_they_have_read() {
    let explore = |text: &str| explored(text, [64, 1, 1], [1; 3]).outcome;
    assert_eq!(explore(ISSUE), ptx_prove::pipeline::Outcome::Proved);
    for (name, from, to) in ISSUE_MUTANTS {
        let mutant = ISSUE.replacen(from, to, 1);
        assert_ne!(mutant, ISSUE, "{name}");
        assert_ne!(explore(&mutant), ptx_prove::pipeline::Outcome::Proved, "{name}");
    }
}

#[test]
fn sides_of_a_branch_are_those_of_all_lanes() {
    for (name, from, to) in MAIL_UNKNOWN {
        let mutant = MAIL.replacen(from, to, 1);
        assert_ne!(mutant, MAIL, "{name}");
        let found = explored(&mutant, [64, 1, 1], [1; 3]);
        assert_ne!(found.outcome, ptx_prove::pipeline::Outcome::Proved, "{name}");
    }
}

/// The ring with a launch that has a number of blocks, and more operands of its loops.
fn shared_ring(changes: &[(&str, &str)]) -> String {
    let params =
        ("x, .param .u64 out, .param .u32 n)", "x, .param .u64 out, .param .u32 n, .param .u32 h, .param .u32 g)");
    let more = ("%v, %sum;", "%v, %sum, %h, %g;");
    let loads = (
        "    mov.u32 %t, %tid.x;\n",
        "    ld.param.u32 %h, [h];\n    ld.param.u32 %g, [g];\n    mov.u32 %t, %tid.x;\n",
    );
    [params, more, loads].iter().chain(changes).fold(RING.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// The line of a proof of the pipeline for `g` blocks.
fn verdict_of_grid(text: &str, assume: &str) -> (String, String) {
    let file = file(text);
    let (_, out, err) = said(&["prove", file.name(), "--block", "64", "--grid", "g", "--assume", assume]);
    let line = out.lines().find(|line| line.starts_with("pipeline: ")).unwrap_or_default().to_owned();
    (line, format!("{out}{err}"))
}

/// A block whose number divided by `h` is below `n` has a stage, and the consumer waits for it in any case.
#[test]
fn quotients_of_places_are_bounded_by_the_grid() {
    let owns = "    div.u32 %g, %ctaid.x, %h;\n    setp.lt.u32 %q, %g, %n;\n    selp.u32 %n, 1, 0, %q;\n    mov.u32 %b, bars;\n";
    let waits = "CONSUME:\n    setp.eq.u32 %p, %k, 1;\n    @%p bra STORE;\n";
    let text = shared_ring(&[
        ("    mov.u32 %b, bars;\n", owns),
        ("CONSUME:\n    setp.ge.u32 %p, %k, %n;\n    @%p bra STORE;\n", waits),
    ])
    .replace("%g, %ctaid.x, %h", "%g, %g, %h")
    .replace("    div.u32", "    mov.u32 %g, %ctaid.x;\n    div.u32");
    for (assume, is_proved) in [
        ("h >= 1 && g <= n * h", true),
        ("h >= 1 && g <= n * h + 1", false),
        ("h >= 1 && g <= n * n", false),
        ("h >= 1 && g * n % h == 0 && g <= n * h", true),
    ] {
        let (line, all) = verdict_of_grid(&text, assume);
        assert_eq!(line.starts_with("pipeline: proved"), is_proved, "{assume}: {all}");
    }
}

/// Instructions that decide in `%q` if a block has a stage, and conditions of its launch: the consumer waits for the stage in any case.
const OWNERS: [(&str, &str, &str, bool); 22] = [
    // A quotient is not less than one of a smaller number by the same one.
    ("quotients by one number", GREATER, "h >= 1 && g >= n", true),
    ("the smaller number is greater", GREATER, "h >= 1 && n >= g + 1", false),
    ("one more", GREATER, "h >= 1 && g + 1 >= n", false),
    (
        "divisors that differ",
        "    div.u32 %o, %g, %h;\n    div.u32 %v, %n, %n;\n    setp.ge.u32 %q, %o, %v;\n",
        "h >= 1 && n >= 1 && g >= n",
        false,
    ),
    (
        "other divisors that differ",
        "    div.u32 %o, %g, %n;\n    div.u32 %v, %n, %h;\n    setp.ge.u32 %q, %o, %v;\n",
        "h >= 1 && n >= 1 && g >= n",
        false,
    ),
    (
        "one quotient is greater",
        "    div.u32 %o, %g, %h;\n    div.u32 %v, %n, %h;\n    setp.gt.u32 %q, %o, %v;\n",
        "h >= 1 && g >= n + 1",
        false,
    ),
    // A maximum that is more than one of two is the other one, and a minimum that is less.
    (
        "a maximum is the other number",
        "    max.u32 %v, %n, %h;\n    setp.le.u32 %q, %v, %h;\n    setp.le.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        true,
    ),
    (
        "a maximum may be both",
        "    max.u32 %v, %n, %h;\n    setp.lt.u32 %q, %v, %h;\n    setp.lt.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        false,
    ),
    (
        "a maximum that is not less than one",
        "    max.u32 %v, %n, %h;\n    setp.lt.u32 %q, %v, %h;\n    setp.le.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        false,
    ),
    (
        "a minimum is the other number",
        "    min.u32 %v, %n, %h;\n    setp.ge.u32 %q, %v, %h;\n    setp.ge.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        true,
    ),
    (
        "a minimum that is not more than one",
        "    min.u32 %v, %n, %h;\n    setp.gt.u32 %q, %v, %h;\n    setp.ge.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        false,
    ),
    (
        "a minimum of others",
        "    min.u32 %v, %n, %g;\n    setp.ge.u32 %q, %v, %h;\n    setp.ge.or.u32 %q, %v, %n, %q;\n",
        "h >= 0",
        false,
    ),
    // The factors of a product that is not zero are not.
    ("a factor", POSITIVE, "n * h >= 1", true),
    ("a factor of a product that is not less than a positive number", POSITIVE, "g >= 1 && n * h >= g", true),
    ("a factor of a product that may be zero", POSITIVE, "n * h >= 0", false),
    ("a number that is added", POSITIVE, "n + h >= 1", false),
    ("a factor of one of two products", POSITIVE, "n * h + g >= 1", false),
    ("a factor of a product that is less by one at most", POSITIVE, "n * h + 1 >= g", false),
    (
        "a product of positive numbers",
        "    mul.lo.u32 %v, %n, %h;\n    setp.ge.u32 %q, %v, 1;\n",
        "n >= 1 && h >= 1",
        true,
    ),
    (
        "a product of positive numbers and more",
        "    mul.lo.u32 %v, %n, %h;\n    setp.ge.u32 %q, %v, 2;\n",
        "n >= 1 && h >= 1",
        false,
    ),
    (
        "a product of a number and one that may be zero",
        "    mul.lo.u32 %v, %n, %h;\n    setp.ge.u32 %q, %v, 1;\n",
        "n >= 1",
        false,
    ),
    (
        "a product that is less than a factor",
        "    mul.lo.u32 %v, %n, %h;\n    setp.ge.u32 %q, %v, %h;\n",
        "h >= 1",
        false,
    ),
];
const GREATER: &str = "    div.u32 %o, %g, %h;\n    div.u32 %v, %n, %h;\n    setp.ge.u32 %q, %o, %v;\n";
const POSITIVE: &str = "    setp.ge.u32 %q, %n, 1;\n";

#[test]
fn conditions_follow_from_those_of_the_launch() {
    let waits = "CONSUME:\n    setp.eq.u32 %p, %k, 1;\n    @%p bra STORE;\n";
    for (name, owns, assume, is_proved) in OWNERS {
        let owns = format!("{owns}    selp.u32 %n, 1, 0, %q;\n    mov.u32 %b, bars;\n");
        let text = shared_ring(&[
            ("    mov.u32 %b, bars;\n", &owns),
            ("CONSUME:\n    setp.ge.u32 %p, %k, %n;\n    @%p bra STORE;\n", waits),
        ]);
        let (line, all) = verdict_of_grid(&text, assume);
        assert_eq!(line.starts_with("pipeline: proved"), is_proved, "{name}: {all}");
    }
}

/// Both sides go through the same recursion, and no other one.
#[test]
fn recursions_of_both_sides_are_the_same() {
    let next = "    sub.u32 %k, %k, 1;\n    div.u32 %k, %k, %h;\n    mul.lo.u32 %k, %k, %h;\n    max.u32 %k, %k, %g;\n";
    let text = shared_ring(&[
        ("    mov.u32 %k, 0;\n", "    mov.u32 %k, %n;\n"),
        ("    setp.ge.u32 %p, %k, %n;\n", "    setp.le.u32 %p, %k, %g;\n"),
        ("    add.u32 %k, %k, 1;\n", next),
    ]);
    let explore = |text: &str| explored(text, [64, 1, 1], [1; 3]).outcome == ptx_prove::pipeline::Outcome::Proved;
    assert!(explore(&text));
    let (before, behind) = text.rsplit_once(next).unwrap();
    for (from, to) in [("%k, %k, 1", "%k, %k, 2"), ("%k, %k, %g", "%k, %k, %h"), ("    div.u32 %k, %k, %h;\n", "")] {
        assert!(!explore(&format!("{before}{}{behind}", next.replacen(from, to, 1))), "{to}");
    }
    let (before, behind) = text.rsplit_once("%p, %k, %g").unwrap();
    assert!(!explore(&format!("{before}%p, %k, %h{behind}")));
}

/// A loop that waits for a flag in memory has no turns; what it reads decides nothing else.
#[test]
fn loops_that_wait_for_memory_have_no_states() {
    let spin = |what: &str| {
        let wait = "SPIN:\n    ld.acquire.gpu.global.u32 %v, [%x];\n    setp.eq.u32 %q, %v, 0;\n    @%q bra SPIN;\n";
        RING.replacen("PRODUCE:\n", &format!("{wait}{what}PRODUCE:\n"), 1)
    };
    let [plain, waits] = [RING.to_owned(), spin("")].map(|text| explored(&text, [64, 1, 1], [1; 3]));
    assert_eq!(plain.outcome, ptx_prove::pipeline::Outcome::Proved);
    assert_eq!((&plain.outcome, plain.states), (&waits.outcome, waits.states));
    let counts = explored(&spin("    mov.u32 %n, %v;\n"), [64, 1, 1], [1; 3]);
    assert_ne!(counts.outcome, ptx_prove::pipeline::Outcome::Proved);
}

#[test]
fn a_product_with_tensor_maps_is_proved() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hopper/wgmma_tile.rs");
    let (_, out, err) = said(&["prove", path, "--entry", "tile"]);
    assert!(out.contains("pipeline: proved (4 warps, 1 barriers, "), "{out}{err}");
}

#[test]
fn conditions_are_joined() {
    let ends = "    setp.eq.u32 %p, %more, 0;\n";
    for (join, is_proved) in [("and", true), ("or", false)] {
        let joined = format!("{ends}    setp.ge.u32 %q, %n, 0;\n    {join}.pred %p, %p, %q;\n");
        let found = explored(&MAIL.replacen(ends, &joined, 1), [64, 1, 1], [1; 3]);
        assert_eq!(found.outcome == ptx_prove::pipeline::Outcome::Proved, is_proved, "{join}: {found:?}");
    }
}

#[test]
fn sums_of_a_product_are_used_behind_its_wait() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hopper/wgmma_tile.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let waits = "wgmma::wait::<0>();";
    let early = text.replace(waits, &format!("ptx! {{ add.f32 acc[0], acc[0], 0.0; }} {waits}"));
    assert_ne!(early, text);
    let folder = file("");
    let path = folder.beside("tile.rs");
    std::fs::write(&path, early).unwrap();
    let (_, out, err) = said(&["prove", path.to_str().unwrap(), "--entry", "tile"]);
    assert!(out.contains("a register is used that `wgmma.mma_async` may still write or read"), "{out}{err}");
}

#[test]
fn boxes_of_tensor_maps_are_said() {
    let (code, _, err) = said(&["prove", "x.ptx", "--box", "a"]);
    assert!(code == 2 && err.contains("write a parameter and its bytes, such as `a=16384`"), "{err}");
}
