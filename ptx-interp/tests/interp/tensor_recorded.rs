//! `mma`, `wgmma`, `wmma`, asynchronous reductions, atomics and what warps do together, against a GPU, bit for bit.
//!
//! `PTX_RECORD_TENSOR=dir PTX_RECORD_SEED=1 cargo test … tensor_forms` writes what has no line in the recording yet:
//! `dir/tensor0.ptx` …, the pools, and `dir/tensor.txt` (entry, pools, threads, bytes of output, variants and map of each scene).
//! Where a GPU's outputs, one after another, are `dir/tensor.bin`, it compares with them byte for byte and makes
//! `tensor_sm_90a.txt`: the lines that were, and those of the new scenes. Where the chip stopped at an illegal
//! instruction, the outputs are bytes of `0xee`.

use crate::harness::one_in;
use crate::recordings;
use crate::tensor_forms::{HEADER, POOL, Scene, VARIANTS, pool, scenes};
use ptx_core::check::check;
use ptx_core::lower;
use ptx_core::parse::parse_text;
use ptx_interp::tensor_map::{ElementType, TensorMap};
use ptx_interp::{Launch, Machine, Options, Program};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

fn accepted(entry: &str) -> bool {
    let (tree, errors) = parse_text(format!("{HEADER}{entry}").as_bytes());
    check(tree, errors, &lower::Options::default()).0.is_some()
}

fn decoded(scene: &Scene) -> Result<Program, String> {
    let (tree, errors) = parse_text(format!("{HEADER}{}", scene.entry).as_bytes());
    let checked = check(tree, errors, &lower::Options::default()).0.unwrap();
    Program::new(&checked).map_err(|errors| errors[0].message.clone())
}

/// The pools in a machine's memory.
fn upload(machine: &mut Machine, scenes: &[Scene], seed: u64) -> BTreeMap<&'static str, u64> {
    let mut at = BTreeMap::new();
    for kind in scenes.iter().flat_map(|s| s.pools) {
        at.entry(kind).or_insert_with(|| {
            let bytes = pool(kind, seed);
            let address = machine.alloc(bytes.len() as u64).unwrap();
            machine.write(address, &bytes).unwrap();
            address
        });
    }
    at
}

/// A map of rows of 64 bytes, moved eight at a time, as in [`Scene::map`].
fn map(element: &str, address: u64, bytes: usize) -> [u8; 128] {
    // PTX writes `s32` for Rust's `i32`.
    let element = element.strip_prefix('s').map_or(element.to_owned(), |bits| format!("i{bits}"));
    let element = ElementType::ALL.into_iter().find(|e| format!("{e:?}").eq_ignore_ascii_case(&element)).unwrap();
    let across = 64 / element.global_bytes();
    let map = TensorMap::tiled(address, element, &[across, bytes as u64 / 64], &[across as u32, 8]).unwrap();
    map.encode()
}

/// One in so many kernels is compared, unless all are asked for.
const STEP: usize = 20;

/// A parameter that means nothing.
const BLOB: [u8; 128] = {
    let (mut bytes, mut at) = ([0; 128], 0);
    while at < 128 {
        bytes[at] = (at * 37 + 0x81) as u8;
        at += 1;
    }
    bytes
};

/// Result of the engine, or the fault.
fn run(machine: &mut Machine, pools: &BTreeMap<&str, u64>, scene: &Scene) -> Result<Vec<u8>, String> {
    let program = decoded(scene)?;
    let out = machine.alloc((scene.out * VARIANTS) as u64).unwrap();
    let addresses = scene.pools.iter().map(|kind| pools[kind]).chain([out]);
    let mut params: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
    if let Some(element) = scene.map {
        params.resize(128, 0);
        params.extend(match element {
            "blob" => BLOB,
            text if text.starts_with("tma") => crate::tma_forms::map(text, pools[scene.pools[0]]).encode(),
            element => map(element, out, scene.out * VARIANTS),
        });
    }
    let name = program.entries().next().unwrap().to_string();
    let launch = Launch {
        entry: &name,
        grid: [VARIANTS as u32, 1, 1],
        block: [scene.threads, 1, 1],
        cluster: [scene.cluster, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        options: Options::default(),
    };
    // A GPU was asked what it gives for lanes that no member mask names, too; the watcher objects to that.
    let unwatched = Launch { options: Options { watch: false, ..launch.options }, ..launch };
    let ran = machine.launch(&program, &launch).or_else(|fault| match fault.finding() {
        Some(code) if code.id == "W0308" => machine.launch(&program, &unwatched),
        _ => Err(fault),
    });
    let ran = ran.map_err(|fault| fault.to_string());
    let mut bytes = vec![0; scene.out * VARIANTS];
    machine.read(out, &mut bytes).unwrap();
    machine.free(out);
    ran.map(|_| bytes)
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Recorded summary of the outputs: the first a hash of each variant, others one of all.
fn summary(scene: &Scene, seed: u64, outputs: &[u8]) -> String {
    if seed == 0 { hashes(scene, outputs) } else { format!("{:016x}", hash(outputs)) }
}

/// A hash of each variant's output.
fn hashes(scene: &Scene, bytes: &[u8]) -> String {
    bytes.chunks(scene.out).map(|part| format!("{:016x}", hash(part))).collect::<Vec<_>>().join(" ")
}

/// The name of its entry.
fn entry(scene: &Scene) -> &str {
    let after = scene.entry.split_once(".entry ").map_or("", |(_, after)| after);
    after.split('(').next().unwrap_or_default()
}

/// Writes what a GPU needs.
fn write(dir: &str, scenes: &[Scene], seed: u64) {
    for (at, part) in scenes.chunks(MODULE).enumerate() {
        let text: String = part.iter().map(|s| s.entry.as_str()).collect();
        std::fs::write(format!("{dir}/tensor{at}.ptx"), format!("{HEADER}{text}")).unwrap();
    }
    let mut list = String::new();
    for scene in scenes {
        writeln!(
            list,
            "{} {} {} {} {VARIANTS} {}",
            entry(scene),
            scene.pools.join(" "),
            scene.threads,
            scene.out,
            scene.map.unwrap_or("-")
        )
        .unwrap();
    }
    std::fs::write(format!("{dir}/tensor.txt"), list).unwrap();
    for kind in scenes.iter().flat_map(|s| s.pools) {
        std::fs::write(format!("{dir}/pool_{kind}.bin"), pool(kind, seed)).unwrap();
    }
    assert_eq!(pool("f16", seed).len(), POOL * VARIANTS);
}

/// Differences of two outputs: the number of words of each variant, and the first.
fn differences(scene: &Scene, ours: &[u8], theirs: &[u8]) -> String {
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
    let wrong = |at: usize| ours[at..at + 4] != theirs[at..at + 4];
    let at: Vec<usize> = (0..ours.len()).step_by(4).filter(|at| wrong(*at)).collect();
    let counts: Vec<usize> = (0..VARIANTS).map(|v| at.iter().filter(|at| *at / scene.out == v).count()).collect();
    let first = at.first().map(|at| (at % scene.out / 4, word(&ours[*at..at + 4]), word(&theirs[*at..at + 4])));
    format!("{counts:?} of {}, first {first:x?}", scene.out / 4)
}

/// Outputs of an illegal instruction.
const ILLEGAL: u8 = 0xee;

/// A GPU's outputs become lines after those that were.
fn record(dir: &str, scenes: &[Scene], seed: u64, was: &str, outputs: &[u8]) {
    let (mut rest, mut lines) = (outputs, was.to_string());
    for scene in scenes {
        let (own, more) = rest.split_at(scene.out * VARIANTS);
        rest = more;
        if let Some(found) = verdict(scene, seed, own) {
            writeln!(lines, "{}\t{found}", scene.name).unwrap();
        }
    }
    std::fs::write(format!("{dir}/tensor_sm_90a.txt"), lines).unwrap();
}

/// Entries of a module; ptxas needs time for each.
const MODULE: usize = 300;

/// Recordings: a seed of the pools, and what a GPU gave.
static RECORDINGS: [(u64, &recordings::Recorded); 2] = [(0, &recordings::TENSORS), (1, &recordings::MORE_TENSORS)];

/// Outputs of kernels that were not run.
const NOT_RUN: [u8; 2] = [0xcc, 0xdd];

/// Result of a GPU for a scene, as [`record`] writes it; nothing if it was not run.
fn verdict(scene: &Scene, seed: u64, outputs: &[u8]) -> Option<String> {
    let all = |byte: u8| outputs.iter().all(|b| *b == byte);
    match () {
        () if NOT_RUN.into_iter().any(all) => None,
        () if all(ILLEGAL) => Some("illegal".into()),
        () => Some(summary(scene, seed, outputs)),
    }
}

/// Compares a recording with what the engine gives: how many scenes, and which differ.
fn compare(scenes: &[Scene], seed: u64, text: &str) -> (usize, Vec<String>) {
    let asked = std::env::var("PTX_RECORD_SEED").is_ok_and(|s| s == seed.to_string());
    let dir = std::env::var("PTX_RECORD_TENSOR").ok().filter(|_| asked);
    let mut machine = Machine::new();
    let pools = upload(&mut machine, scenes, seed);
    let recorded: HashMap<&str, &str> = text.lines().filter_map(|l| l.split_once('\t')).collect();
    let is_new = |scene: &Scene| !recorded.contains_key(scene.name.as_str());
    let mut raw = Vec::new();
    if let Some(dir) = dir {
        let new: Vec<Scene> = scenes.iter().filter(|s| is_new(s)).cloned().collect();
        write(&dir, &new, seed);
        raw = std::fs::read(format!("{dir}/tensor.bin")).unwrap_or_default();
        if !raw.is_empty() {
            record(&dir, &new, seed, text, &raw);
        }
    }
    let (mut wrong, mut compared, mut at) = (Vec::new(), 0, 0);
    for scene in scenes {
        let size = if is_new(scene) { scene.out * VARIANTS } else { 0 };
        let own = raw.get(at..at + size).filter(|own| !own.is_empty());
        at += size;
        let now = own.and_then(|outputs| verdict(scene, seed, outputs));
        let kept = || recorded.get(scene.name.as_str()).copied().filter(|_| own.is_none());
        let Some(theirs) = now.as_deref().or_else(kept) else { continue };
        compared += 1;
        let ours = run(&mut machine, &pools, scene);
        let same = match &ours {
            Ok(bytes) => summary(scene, seed, bytes) == theirs,
            Err(_) => theirs == "illegal",
        };
        let detail = match (&ours, own) {
            (Ok(bytes), Some(theirs)) => differences(scene, bytes, theirs),
            (Ok(_), None) => String::new(),
            (Err(fault), _) => fault.clone(),
        };
        wrong.extend((!same).then(|| format!("{}: {detail}", scene.name)));
    }
    (compared, wrong)
}

#[test]
fn tensor_forms() {
    let step = if std::env::var_os("PTX_RECORD_TENSOR").is_some() { 1 } else { one_in(STEP) };
    let scenes = scenes(step, accepted);
    for (seed, text) in RECORDINGS {
        let (compared, wrong) = compare(&scenes, seed, text);
        println!("seed {seed}: {compared} of {} kernels compared with a GPU, {} differ", scenes.len(), wrong.len());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(compared > 500 / one_in(STEP) || text.is_empty(), "only {compared} kernels have recordings");
    }
}
