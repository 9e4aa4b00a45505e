//! Tensor copies by explicit maps and coordinates, against a GPU: stores into tensors, what lies outside of them, steps, and
//! interleaved channels.
//!
//! A line of the recording is `kernel map coordinates`, and what came of it: a hash of the tensor after a store, of shared memory after a
//! load; or why the chip stopped. `PTX_RECORD_MAPS=dir cargo test … tma_maps` makes `dir/tensor_maps_sm_90a.txt` of `cases.txt` (the same
//! lines, with a status and the bytes of the output) and `data.bin`; `dir/probe.ptx` is what a GPU runs.

use crate::harness::{one_in, program};
use crate::recordings::TENSOR_MAPS;
use crate::tma_forms::map;
use ptx_interp::tensor_map::TensorMap;
use ptx_interp::{Launch, Machine, Options, Program};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of shared memory, and of global memory for the tensor.
const SHARED: usize = 16 << 10;
const TENSOR: usize = 256 << 10;
/// Bytes of the tensor that a store can have changed, if its map does not say.
const MOST: usize = 128 << 10;

/// An entry with a map, coordinates and offsets from memory, shared memory full of `src`, and one instruction by one thread.
fn entry(name: &str, copy: &str, waits: bool) -> String {
    let loop_of = |label: &str, body: &str| {
        format!(
            "{label}: {body} add.u32 %z,%z,512; add.u64 %x,%x,512; add.u32 %w,%w,128; setp.lt.u32 %q,%w,{}; @%q bra {label};",
            SHARED / 4
        )
    };
    let fill = loop_of("FILL", "ld.global.u32 %v,[%x]; st.shared.u32 [%z],%v;");
    let dump = loop_of("COPY", "ld.shared.u32 %v,[%z]; st.global.u32 [%x],%v;");
    // How many bytes come is not known: the thread waits for some time.
    let wait = format!(
        "@!%p bra OVER; mov.u64 %t0,%globaltimer; SPIN: mov.u64 %t1,%globaltimer; sub.u64 %t1,%t1,%t0; setp.lt.u64 %q,%t1,30000; @%q bra SPIN;\n\
         OVER: bar.sync 0; mad.wide.u32 %x,%t,4,%o; mad.lo.u32 %z,%t,4,%sm; mov.u32 %w,%t; {dump}"
    );
    let end = if waits { wait.as_str() } else { "@%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;" };
    format!(
        ".visible .entry {name}(.param .u64 coords, .param .u64 src, .param .u64 out, .param .align 128 .b8 map[128]) {{\n\
         .shared .align 1024 .b8 sm[{SHARED}]; .shared .align 8 .b64 bar;\n\
         .reg .b64 %c,%s,%o,%y,%x; .reg .b32 %t,%w,%z,%v,%m,%sm,%k_<5>; .reg .b16 %h_<3>; .reg .pred %p,%q; .reg .b64 %t0,%t1;\n\
         ld.param.u64 %c,[coords]; ld.param.u64 %s,[src]; ld.param.u64 %o,[out]; mov.u32 %t,%tid.x; mov.u32 %sm,sm; mov.u32 %m,bar; mov.b64 %y,map; cvta.param.u64 %y,%y;\n\
         mad.wide.u32 %x,%t,4,%s; mad.lo.u32 %z,%t,4,%sm; mov.u32 %w,%t; {fill}\n\
         ld.global.u32 %k_0,[%c]; ld.global.u32 %k_1,[%c+4]; ld.global.u32 %k_2,[%c+8]; ld.global.u32 %k_3,[%c+12]; ld.global.u32 %k_4,[%c+16];\n\
         mov.b16 %h_0,0; mov.b16 %h_1,0; mov.b16 %h_2,0;\n\
         setp.eq.u32 %p,%t,0; @%p mbarrier.init.shared.b64 [%m],1; fence.proxy.async; bar.sync 0;\n{copy}\n{end} ret; }}\n"
    )
}

fn list(register: &str, count: usize) -> String {
    (0..count).map(|i| format!("%{register}_{i}")).collect::<Vec<_>>().join(",")
}

/// The entry of a name: `ld2`, `im3` (im2col), `st2`, `si3` (into im2col tensors).
fn text(name: &str) -> String {
    let (kind, rank) = name.split_at(2);
    let rank: usize = rank.parse().unwrap();
    let (at, offsets) = (format!("[%y,{{{}}}]", list("k", rank)), list("h", rank.saturating_sub(2)));
    let expect = "@%p mbarrier.arrive.expect_tx.shared.b64 _,[%m],262144; @%p";
    let load = format!("{expect} cp.async.bulk.tensor.{rank}d.shared::cluster.global");
    let store = format!("@%p cp.async.bulk.tensor.{rank}d.global.shared::cta");
    let copy = match kind {
        "ld" => format!("{load}.tile.mbarrier::complete_tx::bytes [%sm],{at},[%m];"),
        "im" => format!("{load}.im2col.mbarrier::complete_tx::bytes [%sm],{at},[%m],{{{offsets}}};"),
        "st" => format!("{store}.tile.bulk_group {at},[%sm];"),
        _ => format!("{store}.im2col_no_offs.bulk_group {at},[%sm];"),
    };
    entry(name, &copy, matches!(kind, "ld" | "im"))
}

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

fn is_load(kernel: &str) -> bool {
    matches!(&kernel[..2], "ld" | "im")
}

/// Bytes of a case's output.
fn size(kernel: &str, map: &TensorMap) -> usize {
    let rank = map.rank as usize;
    let last = if rank == 1 { map.element.global_bytes() } else { map.strides[rank - 2] };
    let span = (map.dims[rank - 1] * last) as usize;
    match () {
        () if is_load(kernel) => SHARED,
        () if map.interleave != Default::default() || span > MOST => MOST,
        () => span,
    }
}

/// Results of the engine.
fn run(
    programs: &mut BTreeMap<String, Program>,
    kernel: &str,
    spelled: &str,
    coordinates: &str,
) -> Result<Vec<u8>, String> {
    let mut machine = Machine::new();
    let [tensor, src, dst, coords] = [TENSOR, SHARED, SHARED, 64].map(|bytes| machine.alloc(bytes as u64).unwrap());
    let words = |count: usize, word: &dyn Fn(u32) -> u32| -> Vec<u8> {
        (0..count as u32).flat_map(|i| word(i).to_le_bytes()).collect()
    };
    let before = if is_load(kernel) { words(TENSOR / 4, &|i| i) } else { vec![0x5a; TENSOR] };
    machine.write(tensor, &before).unwrap();
    machine.write(src, &words(SHARED / 4, &|i| i.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15))).unwrap();
    let at: Vec<i32> = coordinates.split(',').map(|c| c.parse().unwrap()).chain([0; 8]).take(8).collect();
    machine.write(coords, &at.iter().flat_map(|c| c.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let map = map(&format!("tma:a:{spelled}"), tensor);
    map.check().map_err(|why| why.to_string())?;
    let mut params: Vec<u8> = [coords, src, dst].into_iter().flat_map(u64::to_le_bytes).collect();
    params.resize(128, 0);
    params.extend(map.encode());
    let program = programs.entry(kernel.to_string()).or_insert_with(|| program(&format!("{HEADER}{}", text(kernel))));
    let launch = Launch {
        entry: kernel,
        grid: [1; 3],
        block: [128, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        options: Options { watch: false, ..Options::default() },
    };
    machine.launch(program, &launch).map_err(|fault| fault.to_string())?;
    let mut bytes = vec![0; size(kernel, &map)];
    machine.read(if is_load(kernel) { dst } else { tensor }, &mut bytes).unwrap();
    Ok(bytes)
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Recorded outcome of a GPU: its status, and its output.
fn verdict(status: &str, output: &[u8]) -> Option<String> {
    match status {
        "ok" => Some(format!("{:016x}", hash(output))),
        "cuda715" => Some("illegal instruction".into()),
        "cuda700" => Some("illegal address".into()),
        _ => None,
    }
}

/// Makes the recording.
fn record(dir: &str) -> String {
    let names = ["ld", "st"].into_iter().flat_map(|k| (1..=5).map(move |r| format!("{k}{r}")));
    let names = names.chain(["im", "si"].into_iter().flat_map(|k| (3..=5).map(move |r| format!("{k}{r}"))));
    std::fs::write(
        format!("{dir}/probe.ptx"),
        format!("{HEADER}{}", names.map(|name| text(&name)).collect::<String>()),
    )
    .unwrap();
    let Ok(cases) = std::fs::read_to_string(format!("{dir}/cases.txt")) else { return TENSOR_MAPS.clone() };
    let data = std::fs::read(format!("{dir}/data.bin")).unwrap();
    let (mut rest, mut lines) = (data.as_slice(), String::new());
    for case in cases.lines() {
        let [kernel, spelled, coordinates, status, bytes] = case.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{case}")
        };
        let (own, more) = rest.split_at(bytes.parse().unwrap());
        rest = more;
        // Behind shared memory stands the mbarrier, as the chip has it.
        let own = if is_load(kernel) && !own.is_empty() { &own[..SHARED] } else { own };
        // A box beyond shared memory writes whatever is behind it.
        if let Some(found) = verdict(status, own).filter(|found| found != "illegal address") {
            writeln!(lines, "{kernel} {spelled} {coordinates}\t{found}").unwrap();
        }
    }
    std::fs::write(format!("{dir}/tensor_maps_sm_90a.txt"), &lines).unwrap();
    lines
}

#[test]
fn maps_as_a_gpu_takes_them() {
    let recorded = std::env::var("PTX_RECORD_MAPS").map_or_else(|_| TENSOR_MAPS.clone(), |dir| record(&dir));
    let (mut programs, mut wrong, mut compared) = (BTreeMap::new(), Vec::new(), 0);
    for (case, theirs) in recorded.lines().filter_map(|line| line.split_once('\t')).step_by(one_in(16)) {
        let [kernel, spelled, coordinates] = case.split(' ').collect::<Vec<_>>()[..] else { panic!("{case}") };
        let ours = run(&mut programs, kernel, spelled, coordinates);
        let same = match &ours {
            Ok(bytes) => verdict("ok", bytes).as_deref() == Some(theirs),
            Err(_) => theirs.starts_with("illegal"),
        };
        compared += 1;
        wrong.extend((!same).then(|| format!("{case}\t{theirs}: {}", ours.err().unwrap_or_default())));
    }
    println!("{compared} copies compared with a GPU, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
