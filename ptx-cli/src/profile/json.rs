//! The report as one JSON object.

use super::advice::worst;
use super::report::{Line, Report, Sheet};
use ptx_interp::profile::{Counts, Sample};
use serde_json::{Map, Value, json};

/// The whole report.
pub(super) fn object(report: &Report) -> Value {
    let chip = report.chip;
    let family = |(name, count): &(&str, u64)| ((*name).to_owned(), Value::from(*count));
    let form = |(form, instructions, flops): &(String, u64, u64)| json!({ "form": form, "instructions": instructions, "flops": flops });
    let finding = |found: &super::advice::Finding| {
        json!({
            "line": found.line.number,
            "text": found.line.text.trim(),
            "cycles": found.cycles,
            "message": found.sentence,
            "help": found.help,
        })
    };
    json!({
        "file": report.file,
        "entry": report.entry,
        "target": report.target,
        "grid": report.grid,
        "block": report.block,
        "cluster": report.cluster,
        "chip": chip.name,
        "totals": counters(&report.totals),
        "lines": report.lines.iter().map(|l| line(report.file, "source", l)).collect::<Vec<_>>(),
        "source_lines": report.origins.iter().flat_map(source_lines).collect::<Vec<_>>(),
        "worst": worst(&report.lines, 3).iter().map(finding).collect::<Vec<_>>(),
        "mix": report.mix.iter().map(family).collect::<Map<_, _>>(),
        "tensor": report.tensor.iter().map(form).collect::<Vec<_>>(),
        "sample": report.sample.as_ref().map(sample),
        "occupancy": occupancy(report),
        "roofline": roofline(report),
    })
}

fn counters(counts: &Counts) -> Map<String, Value> {
    counts.entries().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// The lines of a file from which the PTX was compiled.
fn source_lines(sheet: &Sheet) -> impl Iterator<Item = Value> {
    sheet.lines.iter().map(|l| line(&sheet.path, "inlined_at", l))
}

fn line(file: &str, origin: &str, line: &Line) -> Value {
    let mut object = counters(&line.counts);
    object.insert("file".to_owned(), file.into());
    object.insert("line".to_owned(), line.number.into());
    object.insert("text".to_owned(), line.text.trim().into());
    object.insert("function".to_owned(), line.function.as_str().into());
    object.insert("forms".to_owned(), line.forms.clone().into());
    let from = line.from.iter().map(|at| json!({ "file": at.path, "line": at.line }));
    object.insert(origin.to_owned(), from.collect());
    object.into()
}

fn occupancy(report: &Report) -> Value {
    let occupancy = &report.occupancy;
    let resources = report.resources.as_ref();
    let limit = |(name, blocks): (&str, u64)| (name.replace(' ', "_"), Value::from(blocks));
    json!({
        "chip": report.chip.name,
        "threads_per_block": report.needs.threads,
        "registers_per_thread": resources.ok().map(|found| found.registers),
        "registers_unknown_because": resources.err(),
        "spill_store_bytes": resources.ok().map(|found| found.spill_stores),
        "spill_load_bytes": resources.ok().map(|found| found.spill_loads),
        "shared_bytes_per_block": report.needs.shared,
        "blocks_per_multiprocessor": occupancy.blocks,
        "warps_per_multiprocessor": occupancy.warps,
        "most_warps_per_multiprocessor": occupancy.most_warps,
        "occupancy": occupancy.warps as f64 / occupancy.most_warps.max(1) as f64,
        "waves": report.waves(),
        "limited_by": occupancy.limits[0].0,
        "limits": report.limits().map(limit).collect::<Map<_, _>>(),
    })
}

fn roofline(report: &Report) -> Value {
    let chip = report.chip;
    let roofline = &report.roofline;
    let time = |(name, seconds): &(&str, f64)| ((*name).to_owned(), Value::from(*seconds));
    json!({
        "flops": roofline.flops,
        "bytes": roofline.bytes,
        "l2_bytes": roofline.l2_bytes,
        "intensity": roofline.intensity(),
        "bound_by": roofline.times[0].0,
        "least_seconds": roofline.times.iter().map(time).collect::<Map<_, _>>(),
        "peaks": {
            "bandwidth": chip.bandwidth, "fp64": chip.fp64, "fp32": chip.fp32, "tensor": chip.tensor,
        },
    })
}

fn sample(sample: &Sample) -> Value {
    let error = |(name, error): &(&str, f64)| ((*name).to_owned(), Value::from(*error));
    json!({
        "blocks_run": sample.ran,
        "blocks": sample.blocks,
        "standard_errors": sample.errors.iter().map(error).collect::<Map<_, _>>(),
    })
}
