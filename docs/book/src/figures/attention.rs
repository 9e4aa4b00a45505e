//! The overlap of products and exponentials in attention on Hopper: warp groups run their steps, and the tensor cores take products in the
//! order in which they are issued.
//!
//! Times are in units of 64 cycles of an SM, of tiles of 128 elements: the tensor cores multiply 2048 pairs of numbers in a cycle, and the SM has
//! 16 exponentials in one.

use super::chart::{BLUE, Bar, Chart, GREEN, ORANGE, PINK, VIOLET, YELLOW};
use std::collections::HashMap;

/// The end of a product or a work: its name, the number of its tile, and the warp group.
type Event = (&'static str, usize, usize);

/// A step of a warp group.
enum Step {
    /// Issues a product, and waits until the tensor cores begin it.
    Issue(&'static str, usize, usize),
    /// Waits for the end of what a warp group has issued or computed.
    Wait(Event),
    /// Computes for so long.
    Compute(&'static str, usize, usize),
}

/// Runs the steps of each warp group, which starts at its time; a row for each, and one for the tensor cores.
fn run(groups: &[(usize, Vec<Step>)]) -> Vec<Bar> {
    let mut ends: HashMap<Event, usize> = HashMap::new();
    let mut actors: Vec<(usize, usize)> = groups.iter().map(|(start, _)| (*start, 0)).collect();
    let (mut idle, mut bars) = (0, Vec::new());
    // The warp group that is first in time runs, of those whose next step does not wait for a step that is still to come.
    while let Some(group) = (0..groups.len())
        .filter(|group| match groups[*group].1.get(actors[*group].1) {
            Some(Step::Wait(event)) => ends.contains_key(event),
            step => step.is_some(),
        })
        .min_by_key(|group| actors[*group].0)
    {
        let (now, at) = &mut actors[group];
        match groups[group].1[*at] {
            Step::Wait(event) => *now = (*now).max(ends[&event]),
            Step::Issue(name, tile, length) => {
                *now = (*now).max(idle);
                idle = *now + length;
                ends.insert((name, tile, group), idle);
                let words = format!("{name}{tile}");
                bars.push(Bar { row: groups.len(), start: *now, length, color: color(group), words });
            }
            Step::Compute(name, tile, length) => {
                bars.push(Bar {
                    row: group,
                    start: *now,
                    length,
                    color: color_of(name),
                    words: format!("{name}{tile}"),
                });
                *now += length;
                ends.insert((name, tile, group), *now);
            }
        }
        *at += 1;
    }
    bars
}

/// The color of a warp group's products.
fn color(group: usize) -> &'static str {
    [BLUE, ORANGE][group % 2]
}

fn color_of(name: &str) -> &'static str {
    match name {
        "P" => GREEN,
        "dS" => VIOLET,
        "O" => YELLOW,
        _ => PINK,
    }
}

/// Rows for warp groups and the tensor cores.
fn chart(title: &str, bars: Vec<Bar>, groups: usize, unit: usize) -> Chart {
    let rows = (0..groups).map(|group| format!("warp group {group}")).chain(["tensor cores".to_owned()]);
    Chart { title: title.to_owned(), rows: rows.collect(), bars, foot: String::new(), unit, left: 96 }
}

/// A product of 64 queries and 128 keys with heads of 128, and the exponentials of its scores with their mask, sum and conversion.
const PRODUCT: usize = 8;
const SOFTMAX: usize = 12;

/// A warp group of the forward kernel: S of a tile and O += P · V of the one before are on the tensor cores together.
fn forward_steps(group: usize, tiles: usize) -> Vec<Step> {
    let mut steps = vec![Step::Issue("S", 0, PRODUCT), Step::Wait(("S", 0, group)), Step::Compute("P", 0, SOFTMAX)];
    for tile in 1..tiles {
        steps.extend([
            Step::Issue("S", tile, PRODUCT),
            Step::Issue("PV", tile - 1, PRODUCT),
            Step::Wait(("S", tile, group)),
            Step::Compute("P", tile, SOFTMAX),
            Step::Wait(("PV", tile - 1, group)),
        ]);
    }
    steps.push(Step::Issue("PV", tiles - 1, PRODUCT));
    steps
}

/// The same steps without any overlap.
fn forward_in_order(group: usize, tiles: usize) -> Vec<Step> {
    let steps = (0..tiles).flat_map(|tile| {
        [
            Step::Issue("S", tile, PRODUCT),
            Step::Wait(("S", tile, group)),
            Step::Compute("P", tile, SOFTMAX),
            Step::Issue("PV", tile, PRODUCT),
            Step::Wait(("PV", tile, group)),
        ]
    });
    steps.collect()
}

pub(super) fn forward() -> String {
    let tiles = 6;
    let alone = chart("", run(&[(0, forward_in_order(0, tiles))]), 1, 1).busy(1);
    let bars = run(&[(0, forward_steps(0, tiles)), (0, forward_steps(1, tiles))]);
    let mut chart = chart("Attention forward: two warp groups, exponentials beside products", bars, 2, 6);
    chart.foot = format!(
        "tensor cores busy {} %, of one warp group that does one step after the other {alone} %. S: Q · Kᵀ, P: exponentials, PV: O += P · V of a tile of keys",
        chart.busy(2)
    );
    chart.svg()
}

/// Products of 64 keys and 64 queries with heads of 128; a warp group has a half of dQ. Its work: exponentials with the addition of dQ, and dS.
const GRAD_PRODUCT: usize = 4;
const EXPONENTIALS: usize = 8;
const GRADIENT: usize = 4;

/// A warp group of the backward kernel: dV and dK lag one tile behind, dQ two.
fn backward_steps(group: usize, tiles: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for tile in 0..tiles {
        let dq = tile.checked_sub(2);
        if let Some(tile) = dq {
            steps.extend([Step::Wait(("dS", tile, 0)), Step::Wait(("dS", tile, 1))]);
        }
        steps.push(Step::Issue("S", tile, GRAD_PRODUCT));
        steps.extend(dq.map(|tile| Step::Issue("dQ", tile, GRAD_PRODUCT)));
        if let Some(before) = tile.checked_sub(1) {
            steps.extend([Step::Issue("dV", before, GRAD_PRODUCT), Step::Issue("dK", before, GRAD_PRODUCT)]);
        }
        steps.push(Step::Wait(("S", tile, group)));
        steps.push(Step::Compute("P", tile, EXPONENTIALS));
        steps.extend(tile.checked_sub(1).map(|before| Step::Wait(("dK", before, group))));
        steps.extend([
            Step::Issue("dP", tile, GRAD_PRODUCT),
            Step::Wait(("dP", tile, group)),
            Step::Compute("dS", tile, GRADIENT),
        ]);
    }
    let last = tiles - 1;
    for tile in [last - 1, last] {
        steps.extend([Step::Wait(("dS", tile, 0)), Step::Wait(("dS", tile, 1))]);
        if tile == last {
            steps.extend([Step::Issue("dV", last, GRAD_PRODUCT), Step::Issue("dK", last, GRAD_PRODUCT)]);
        }
        steps.push(Step::Issue("dQ", tile, GRAD_PRODUCT));
    }
    steps
}

pub(super) fn backward() -> String {
    let tiles = 5;
    // The second warp group begins when the first one's scores are there.
    let bars = run(&[(0, backward_steps(0, tiles)), (GRAD_PRODUCT + EXPONENTIALS, backward_steps(1, tiles))]);
    let mut chart = chart("Attention backward: dV and dK lag one tile behind, dQ two", bars, 2, 6);
    chart.foot = format!(
        "tensor cores busy {} %. P: exponentials and the addition of dQ; dS: the gradient of the softmax; a number is that of a tile of queries",
        chart.busy(2)
    );
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_run_beside_products() {
        let (alone, both) =
            (run(&[(0, forward_in_order(0, 6))]), run(&[(0, forward_steps(0, 6)), (0, forward_steps(1, 6))]));
        let end = |bars: &[Bar]| bars.iter().map(Bar::end).max();
        assert_eq!(end(&alone), Some(6 * (2 * PRODUCT + SOFTMAX)));
        // Two warp groups in less than the time of one that overlaps nothing, and a third more.
        assert!(end(&both) < Some(6 * (2 * PRODUCT + SOFTMAX) * 4 / 3));
    }

    #[test]
    fn the_tensor_cores_do_one_product_at_a_time() {
        let bars = run(&[(0, backward_steps(0, 5)), (12, backward_steps(1, 5))]);
        let products: Vec<&Bar> = bars.iter().filter(|bar| bar.row == 2).collect();
        assert_eq!(products.len(), 2 * 5 * 5);
        assert!(products.windows(2).all(|pair| pair[0].end() <= pair[1].start));
    }
}
