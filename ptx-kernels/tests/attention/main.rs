//! Attention against `f64`: values, logarithms, gradients; nothing outside of the outputs is written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    unreachable_pub,
    reason = "tests"
)]

mod allocation;
mod append;
mod case;
#[path = "../counting/mod.rs"]
mod counting;
mod decode;
mod e4m3;
mod edges;
mod from_host;
#[path = "../from_text/mod.rs"]
mod from_text;
mod random;
mod reference;
mod speed;
#[path = "../thorough/mod.rs"]
mod thorough;

use case::{CANARY, Case, Data, Extras, Field, Float};
use ptx_kernels::attention::{self, Attention, Grads, Layout, Results, Saved};
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut, TensorRef};
use reference::Bounded;

/// The device of the tests: `PTX_DEVICE`, else the CPU under the watcher.
fn device() -> Device {
    match std::env::var("PTX_DEVICE") {
        Ok(name) => Device::named(&name).unwrap(),
        Err(_) => Device::cpu(),
    }
}

/// Compares a field on the device with the expected rows of one head; marks what it has seen.
fn compare<T: Float>(
    what: &str,
    case: &Case,
    field: &Field,
    memory: &mut [T],
    [sequence, head, tokens, dim]: [usize; 4],
    expected: &[Bounded],
) -> f64 {
    let mut worst: f64 = 0.0;
    for token in 0..tokens {
        for element in 0..dim {
            let place = field.place(sequence, token, head, element);
            let (found, Bounded { value, error }) = (memory[place].to(), expected[token * dim + element]);
            let difference = (found - value).abs();
            assert!(
                difference <= error,
                "{what}: sequence {sequence}, head {head}, token {token}, element {element}: {found}, not {value} ± {error} in {case:?}"
            );
            worst = worst.max(difference / error);
            memory[place] = T::from(CANARY);
        }
    }
    worst
}

/// The memory of a case on a device. The output has the shape of its gradient.
struct Run<'a, T> {
    case: &'a Case,
    data: &'a Data,
    inputs: [Buffer<T>; 4],
    out: Buffer<T>,
    lse: Buffer<f32>,
    grads: [Buffer<T>; 3],
}

impl<'a, T: Float> Run<'a, T> {
    fn new(device: &Device, case: &'a Case, data: &'a Data) -> Result<Self> {
        let inputs = [&data.q, &data.k, &data.v, &data.grad].map(|field| field.upload::<T>(device).unwrap());
        let canaries = |field: &Field| device.upload(&vec![T::from(CANARY); field.len()]).unwrap();
        let grads = [&data.q, &data.k, &data.v].map(canaries);
        let [strides, ..] = Self::lse_shape(case);
        let lse = device.upload(&vec![CANARY as f32; data.grad.batch() * strides[0]])?;
        Ok(Run { case, data, inputs, out: canaries(&data.grad), lse, grads })
    }

    /// Strides and shape of the logarithms, with gaps between heads.
    fn lse_shape(case: &Case) -> [[usize; 3]; 2] {
        let (batch, tokens) =
            if case.packed { (1, case.queries.iter().sum()) } else { (case.queries.len(), case.queries[0]) };
        [[case.heads * (tokens + 3), tokens + 3, 1], [batch, case.heads, tokens]]
    }

    fn forward(&mut self, device: &Device, options: &Attention<'_, T>) -> Result<()> {
        let [q, k, v, _] = &self.inputs;
        let (data, [strides, shape]) = (self.data, Self::lse_shape(self.case));
        let lse = Some(TensorMut::strided(&mut self.lse, shape, strides)?);
        let results = Results { out: data.grad.tensor_mut(&mut self.out)?, lse };
        options.forward(device, data.q.tensor(q)?, data.k.tensor(k)?, data.v.tensor(v)?, results)
    }

    fn backward(&mut self, device: &Device, options: &Attention<'_, T>) -> Result<()> {
        let [q, k, v, grad] = &self.inputs;
        let (data, [strides, shape]) = (self.data, Self::lse_shape(self.case));
        let saved = Saved {
            q: data.q.tensor(q)?,
            k: data.k.tensor(k)?,
            v: data.v.tensor(v)?,
            out: data.grad.tensor(&self.out)?,
            lse: TensorRef::strided(&self.lse, shape, strides)?,
            out_grad: data.grad.tensor(grad)?,
        };
        let [q, k, v] = &mut self.grads;
        let grads = Grads { q: data.q.tensor_mut(q)?, k: data.k.tensor_mut(k)?, v: data.v.tensor_mut(v)? };
        options.backward(device, &saved, grads, None)
    }

    /// Compares everything, and returns the largest error as a part of its bound.
    fn compare(&self) -> Result<f64> {
        let (case, data) = (self.case, self.data);
        let mut out = self.out.download()?;
        let mut logs = self.lse.download()?;
        let mut grads = Vec::new();
        for grad in &self.grads {
            grads.push(grad.download()?);
        }
        let mut worst = 0.0f64;
        for sequence in 0..case.queries.len() {
            let (m, n) = (case.queries[sequence], case.keys[sequence]);
            for head_k in 0..case.heads / case.group {
                let mut sums = [vec![Bounded::default(); n * case.dim], vec![Bounded::default(); n * case.dim_v]];
                for head in head_k * case.group..(head_k + 1) * case.group {
                    let mut exact = reference::head(case, data, sequence, head);
                    exact.round(case.unit());
                    worst = worst.max(compare(
                        "O",
                        case,
                        &data.grad,
                        &mut out,
                        [sequence, head, m, case.dim_v],
                        &exact.out,
                    ));
                    worst = worst.max(compare(
                        "dQ",
                        case,
                        &data.q,
                        &mut grads[0],
                        [sequence, head, m, case.dim],
                        &exact.grad_q,
                    ));
                    self.compare_logs(&mut logs, [sequence, head], &exact.lse);
                    for (sum, part) in sums.iter_mut().zip([&exact.grad_k, &exact.grad_v]) {
                        sum.iter_mut().zip(part).for_each(|(sum, part)| sum.add(part.value, part.error));
                    }
                }
                sums.iter_mut().flatten().for_each(|x| *x = x.rounded(case.unit()));
                worst =
                    worst.max(compare("dK", case, &data.k, &mut grads[1], [sequence, head_k, n, case.dim], &sums[0]));
                worst =
                    worst.max(compare("dV", case, &data.v, &mut grads[2], [sequence, head_k, n, case.dim_v], &sums[1]));
            }
        }
        let untouched = grads.iter().chain([&out]).flatten().all(|x| x.to() == CANARY);
        assert!(untouched && logs.iter().all(|x| *x == CANARY as f32), "something else is written: {case:?}");
        Ok(worst)
    }

    /// Compares the results of the forward pass alone.
    fn compare_forward(&self) -> Result<f64> {
        let (case, mut out, mut logs, mut worst) = (self.case, self.out.download()?, self.lse.download()?, 0.0f64);
        for (sequence, tokens) in case.queries.iter().enumerate() {
            for head in 0..case.heads {
                let mut exact = reference::forward(case, self.data, sequence, head);
                exact.round(case.unit());
                let place = [sequence, head, *tokens, case.dim_v];
                worst = worst.max(compare("O", case, &self.data.grad, &mut out, place, &exact.out));
                self.compare_logs(&mut logs, [sequence, head], &exact.lse);
            }
        }
        let untouched = out.iter().all(|x| x.to() == CANARY) && logs.iter().all(|x| *x == CANARY as f32);
        assert!(untouched, "something else is written: {case:?}");
        Ok(worst)
    }

    fn compare_logs(&self, logs: &mut [f32], [sequence, head]: [usize; 2], expected: &[Bounded]) {
        let ([strides, shape], case) = (Self::lse_shape(self.case), self.case);
        for (token, log) in expected.iter().enumerate() {
            let at = Case::starts(&case.queries)[sequence] as usize + token;
            let place = at / shape[2] * strides[0] + head * strides[1] + at % shape[2];
            let found = f64::from(std::mem::replace(&mut logs[place], CANARY as f32));
            let close = found == log.value || (found - log.value).abs() <= log.error;
            assert!(
                close,
                "logarithm: sequence {sequence}, head {head}, token {token}: {found}, not {log:?} in {case:?}"
            );
        }
    }
}

/// Runs a case, and returns the largest error as a part of its bound.
fn run<T: Float>(device: &Device, case: &Case) -> Result<f64> {
    let data = Data::new::<T>(case);
    let extras = Extras::<T>::new(device, case, &data)?;
    let options = extras.options(case, &data)?;
    let mut run = Run::<T>::new(device, case, &data)?;
    run.forward(device, &options)?;
    run.backward(device, &options)?;
    run.compare()
}

/// The same for the forward pass alone.
fn run_forward<T: Float>(device: &Device, case: &Case) -> Result<f64> {
    let data = Data::new::<T>(case);
    let extras = Extras::<T>::new(device, case, &data)?;
    let mut run = Run::<T>::new(device, case, &data)?;
    run.forward(device, &extras.options(case, &data)?)?;
    run.compare_forward()
}

fn check_forward(case: &Case) {
    let device = device();
    let worst = if case.half { run_forward::<f16>(&device, case) } else { run_forward::<bf16>(&device, case) };
    let worst = worst.unwrap_or_else(|error| panic!("{error} in {case:?}"));
    println!("forward: {worst:.3} of the bound: {case:?}");
}

fn check(case: &Case) {
    let device = device();
    let worst = if case.half { run::<f16>(&device, case) } else { run::<bf16>(&device, case) };
    let worst = worst.unwrap_or_else(|error| panic!("{error} in {case:?}"));
    println!("{worst:.3} of the bound: {case:?}");
}

#[test]
fn all_keys() {
    check(&Case { queries: vec![5; 2], keys: vec![70; 2], heads: 2, group: 2, ..Case::default() });
}

#[test]
fn causal_in_half_precision() {
    check(&Case { queries: vec![70], keys: vec![70], right: Some(0), half: true, ..Case::default() });
}

#[test]
fn packed_sequences_with_a_window_a_cap_and_a_bias() {
    check(&Case::with_every_option());
}

#[test]
fn the_hopper_kernel() {
    let case = Case { queries: vec![70], keys: vec![150], dim: 128, dim_v: 128, right: Some(0), ..Case::default() };
    check(&case);
    check(&Case { queries: vec![9], keys: vec![4], half: true, dim: 64, dim_v: 64, ..case.clone() });
    // The last tiles of keys are those of the last queries alone.
    let last = [(330, 331, 64), (200, 290, 128)];
    for (queries, keys, dim) in thorough::one_in(2, last) {
        check_forward(&Case { queries: vec![queries], keys: vec![keys], dim, dim_v: dim, ..case.clone() });
    }
    let narrow = Case { dim: 64, dim_v: 64, ..case };
    // Several work tiles for a block, and tiles of queries of several heads for one of keys.
    let several = Case { queries: vec![200; 2], keys: vec![140; 2], heads: 2, group: 2, ..narrow.clone() };
    // Its backward pass takes windows, too.
    let window = Case { queries: vec![150], keys: vec![140], left: Some(40), right: Some(3), ..narrow };
    thorough::one_in(2, [window, several]).for_each(|case| check(&case));
}

/// Every instance of the Hopper kernel that takes lengths, windows and a cap.
#[test]
fn the_hopper_kernel_with_masks() {
    let packed = Case { queries: vec![130, 0, 9, 70], keys: vec![90, 4, 0, 150], packed: true, ..Case::default() };
    for (dim, dim_v) in thorough::one_in(3, [(64, 64), (40, 24), (96, 96), (128, 72), (192, 128), (256, 256)]) {
        let cap = if dim == 96 { 5.0 } else { 0.0 };
        check_forward(&Case { dim, dim_v, heads: 2, group: 2, left: Some(60), right: Some(0), cap, ..packed.clone() });
    }
    let half = Case { half: true, ..packed.clone() };
    let more_blocks_than_work =
        Case { queries: vec![5, 0, 0, 0, 0], keys: vec![9, 3, 0, 4, 2], dim: 64, dim_v: 64, ..packed };
    let dense = Case { queries: vec![200], keys: vec![330], dim: 256, dim_v: 256, ..Case::default() };
    let wide = Case { left: Some(100), right: Some(7), top_left: true, layout: Layout::Bhsd, ..dense.clone() };
    let capped = Case { queries: vec![100], cap: 20.0, heads: 2, dim: 64, dim_v: 64, ..dense };
    thorough::one_in(2, [more_blocks_than_work, half, capped, wide]).for_each(|case| check_forward(&case));
}

/// Scores of later tiles exceed those of the first one by so much that exponentials relative to it are too large, or no numbers.
#[test]
fn the_hopper_kernel_with_scores_that_grow() {
    for (dim, half, scale) in
        thorough::one_in(3, [(64, true, 3.0), (64, false, 30.0), (128, true, 30.0), (128, false, 100.0)])
    {
        let case = Case { queries: vec![70], keys: vec![400], dim, dim_v: dim, half, ..Case::default() };
        for (left, right) in thorough::one_in(2, [(None, None), (None, Some(0)), (Some(300), Some(3))]) {
            check_forward(&Case { scale: Some(scale), left, right, ..case.clone() });
        }
    }
}

/// A bias on Hopper, of pairs and of single elements, beside every other option; rows whose first keys it hides.
#[test]
fn the_hopper_kernel_with_a_bias() {
    let case = Case { queries: vec![70, 70], keys: vec![300, 300], heads: 2, bias: 1, ..Case::default() };
    for (dim, dim_v) in thorough::one_in(5, [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)]) {
        check_forward(&Case { dim, dim_v, right: (dim == 128).then_some(0), ..case.clone() });
    }
    for bias in thorough::one_in(2, [2, 1]) {
        let odd = Case { queries: vec![33], keys: vec![151], bias, half: bias == 2, ..case.clone() };
        check_forward(&Case { cap: 7.0, left: Some(90), right: Some(4), ..odd.clone() });
        check_forward(&Case { top_left: true, right: Some(0), group: 2, scale: Some(2.0), ..odd });
    }
    check_forward(&Case { bias: 2, scale: Some(10.0), ..case });
}

/// Every instance of the Hopper kernels that takes lengths, windows and a cap, backward.
#[test]
fn the_hopper_gradients_with_masks() {
    let packed = Case { queries: vec![70, 0, 9], keys: vec![90, 4, 0], packed: true, ..Case::default() };
    for (dim, dim_v) in thorough::one_in(5, [(40, 24), (64, 64), (96, 128), (192, 128), (256, 256)]) {
        let cap = if dim == 40 { 5.0 } else { 0.0 };
        check(&Case { dim, dim_v, heads: 2, group: 2, left: Some(60), right: Some(0), cap, ..packed.clone() });
    }
    let dense = Case { queries: vec![70], keys: vec![150], left: Some(100), right: Some(7), ..Case::default() };
    let wide = Case { cap: 3.0, dim: 136, dim_v: 136, top_left: true, layout: Layout::Bhsd, ..dense.clone() };
    thorough::one_in(2, [Case { cap: 20.0, dim: 128, dim_v: 128, half: true, ..dense }, wide])
        .for_each(|case| check(&case));
}

/// The same with a bias, with a cap or without.
#[test]
fn the_hopper_gradients_with_a_bias() {
    let case = Case { queries: vec![70, 70], keys: vec![150, 150], heads: 2, bias: 1, ..Case::default() };
    for (dim, dim_v) in thorough::one_in(4, [(64, 64), (128, 128), (192, 128), (256, 256)]) {
        check(&Case { dim, dim_v, right: (dim == 128).then_some(0), ..case.clone() });
    }
    let odd = Case { queries: vec![33], keys: vec![151], bias: 2, half: true, group: 2, ..case.clone() };
    for (dim, cap) in thorough::one_in(3, [(40, 7.0), (136, 7.0), (96, 0.0)]) {
        check(&Case { dim, dim_v: dim, cap, left: Some(90), right: Some(4), ..odd.clone() });
    }
    check(&Case { queries: vec![9, 40], keys: vec![70, 20], packed: true, scale: Some(2.0), ..case });
}

/// A block goes from one work tile to the next, of several tiles of queries, of one, and of none.
#[test]
fn the_hopper_gradients_of_many_pieces() {
    let case = Case { queries: vec![150], keys: vec![300], heads: 2, right: Some(0), ..Case::default() };
    for dim in thorough::one_in(2, [64, 128]) {
        let (queries, keys) = (vec![150, 20, 0, 70], vec![140, 150, 30, 0]);
        let packed = Case { dim, dim_v: dim, queries, keys, packed: true, right: None, ..case.clone() };
        let whole = Case { dim, dim_v: dim, top_left: true, ..case.clone() };
        thorough::one_in(2, [packed, whole]).for_each(|case| check(&case));
    }
}

/// Of many heads, the kernel clears and rounds sums of dQ beside its work tiles.
#[test]
fn the_hopper_gradients_of_many_heads() {
    let case = Case { queries: vec![70; 3], keys: vec![100; 3], heads: 4, dim: 64, dim_v: 64, ..Case::default() };
    let grouped = Case { group: 2, right: Some(0), ..case.clone() };
    let wide =
        Case { queries: vec![70; 3], dim: 128, dim_v: 128, right: Some(0), layout: Layout::Bhsd, ..case.clone() };
    thorough::one_in(3, [grouped, case, wide]).for_each(|case| check(&case));
}

/// Values behind the end of a packed sequence are another one's, and do not count, even if they are no numbers.
#[test]
fn a_packed_sequence_of_nans_stays_alone() {
    let case = Case { queries: vec![70, 20], keys: vec![90, 60], packed: true, dim: 64, dim_v: 64, ..Case::default() };
    let (device, data) = (device(), Data::new::<bf16>(&case));
    let extras = Extras::<bf16>::new(&device, &case, &data).unwrap();
    let options = extras.options(&case, &data).unwrap();
    let [mut clean, mut spoiled] = [0; 2].map(|_| Run::<bf16>::new(&device, &case, &data).unwrap());
    for (input, tokens, own) in [(0, 90, 70), (1, 150, 90), (2, 150, 90), (3, 90, 70)] {
        let input = &mut spoiled.inputs[input];
        let mut elements = input.download().unwrap();
        let first = elements.len() / tokens * own;
        elements[first..].fill(bf16::NAN);
        input.write(&elements).unwrap();
    }
    let outs = [&mut clean, &mut spoiled].map(|run| {
        run.forward(&device, &options).unwrap();
        run.backward(&device, &options).unwrap();
        let [q, k, v] = run.grads.each_ref().map(|grad| grad.download().unwrap());
        [(run.out.download().unwrap(), 90, 70), (q, 90, 70), (k, 150, 90), (v, 150, 90)]
    });
    let [clean, spoiled] = outs;
    for ((clean, all, own), (spoiled, ..)) in clean.into_iter().zip(spoiled) {
        let own = clean.len() / all * own;
        assert_eq!(clean[..own], spoiled[..own]);
    }
}

/// The deterministic backward pass adds in the order of keys: its result is the same each time.
#[test]
fn deterministic_gradients() {
    for (dim, tokens, packed) in thorough::one_in(3, [(64, 150, false), (128, 150, true), (256, 80, true)]) {
        let (queries, keys) = (vec![tokens], vec![tokens]);
        let case = Case { queries, keys, heads: 2, dim, dim_v: dim, packed, right: Some(0), ..Case::default() };
        let (device, data) = (device(), Data::new::<bf16>(&case));
        let extras = Extras::<bf16>::new(&device, &case, &data).unwrap();
        let options = extras.options(&case, &data).unwrap().deterministic();
        let [first, second] = [0; 2].map(|_| {
            let mut run = Run::<bf16>::new(&device, &case, &data).unwrap();
            run.forward(&device, &options).unwrap();
            run.backward(&device, &options).unwrap();
            run.compare().unwrap();
            run.grads.map(|grad| grad.download().unwrap())
        });
        assert_eq!(first, second, "{case:?}");
    }
}

#[test]
fn queries_without_keys() {
    check(&Case { queries: vec![9], keys: vec![4], right: Some(0), bias: 2, dim: 128, ..Case::default() });
}

fn check_decode(decode: &decode::Decode) {
    let device = device();
    for portable in [false, true] {
        let worst = match (decode.case.half, decode.bytes) {
            (false, false) => decode.run::<bf16, bf16>(&device, portable),
            (true, false) => decode.run::<f16, f16>(&device, portable),
            (false, true) => decode.run::<bf16, E4m3>(&device, portable),
            (true, true) => decode.run::<f16, E4m3>(&device, portable),
        };
        let worst = worst.unwrap_or_else(|error| panic!("{error} in {decode:?}, portable {portable}"));
        println!("{worst:.3} of the bound, portable {portable}: {decode:?}");
    }
}

#[test]
fn decode_from_pages() {
    let case = Case {
        queries: vec![2; 2],
        keys: vec![0, 300],
        heads: 10,
        group: 10,
        right: Some(0),
        dim_v: 40,
        cap: 3.0,
        ..Case::default()
    };
    check_decode(&decode::Decode { case, capacity: 600, bytes: false, page_size: 3 });
}

#[test]
fn decode_from_a_contiguous_cache() {
    let case = Case { queries: vec![1], keys: vec![550], left: Some(400), half: true, ..Case::default() };
    check_decode(&decode::Decode { case, capacity: 1000, bytes: false, page_size: 0 });
}

#[test]
fn decode_from_a_cache_of_bytes() {
    let case = Case { queries: vec![3; 2], keys: vec![290, 70], heads: 8, group: 4, right: Some(0), ..Case::default() };
    check_decode(&decode::Decode { case, capacity: 320, bytes: true, page_size: 16 });
}

/// Rows of the lengths that have tensor maps, from boxes of 2 to 16 tokens.
#[test]
fn decode_by_tensor_maps() {
    for (dim, page_size, bytes) in
        [(64, 2, false), (64, 0, false), (128, 4, false), (128, 24, false), (128, 16, true), (256, 6, false)]
    {
        let case = Case {
            queries: vec![2; 3],
            keys: vec![150, 0, 37],
            heads: 6,
            group: 3,
            dim,
            dim_v: dim,
            left: Some(100),
            right: Some(0),
            half: page_size == 2,
            seed: page_size as u64,
            ..Case::default()
        };
        check_decode(&decode::Decode { case, capacity: 155, bytes, page_size });
    }
}

fn check_latent(decode: &decode::Decode) {
    let device = device();
    for portable in [false, true] {
        let worst = if decode.case.half {
            decode.run_latent::<f16>(&device, portable)
        } else {
            decode.run_latent::<bf16>(&device, portable)
        };
        let worst = worst.unwrap_or_else(|error| panic!("{error} in {decode:?}, portable {portable}"));
        println!("latent: {worst:.3} of the bound, portable {portable}: {decode:?}");
    }
}

#[test]
fn latent_decode() {
    let case = Case {
        queries: vec![2; 2],
        keys: vec![70, 0],
        heads: 40,
        group: 40,
        right: Some(0),
        dim: 576,
        dim_v: 512,
        scale: Some(0.1),
        ..Case::default()
    };
    let paged = decode::Decode { case: case.clone(), capacity: 90, bytes: false, page_size: 16 };
    let case = Case { queries: vec![1], keys: vec![600], half: true, ..case };
    let contiguous = decode::Decode { case: case.clone(), capacity: 640, bytes: false, page_size: 0 };
    let case = Case { queries: vec![3], heads: 24, group: 24, cap: 3.0, left: Some(250), dim_v: 264, ..case };
    let windowed = decode::Decode { case, capacity: 700, bytes: false, page_size: 7 };
    thorough::one_in(3, [paged, contiguous, windowed]).for_each(|decode| check_latent(&decode));
}

fn check_prefill(decode: &decode::Decode) {
    let device = device();
    let worst = if decode.case.half { decode.run_prefill::<f16>(&device) } else { decode.run_prefill::<bf16>(&device) };
    let worst = worst.unwrap_or_else(|error| panic!("{error} in {decode:?}"));
    println!("prefill: {worst:.3} of the bound: {decode:?}");
}

#[test]
fn a_chunk_of_queries_from_pages() {
    let case =
        Case { queries: vec![50; 2], keys: vec![70, 120], heads: 2, group: 2, right: Some(0), ..Case::default() };
    check_prefill(&decode::Decode { case: case.clone(), capacity: 140, bytes: false, page_size: 7 });
    let case = Case { dim: 96, dim_v: 80, cap: 3.0, left: Some(40), half: true, ..case };
    check_prefill(&decode::Decode { case, capacity: 130, bytes: false, page_size: 0 });
}

fn check_append(seed: u64) {
    let (append, device) = (append::random_append(seed), device());
    let all = [
        append.run::<bf16, bf16>(&device),
        append.run::<f16, f16>(&device),
        append.run::<bf16, E4m3>(&device),
        append.run::<f16, E4m3>(&device),
    ];
    all.into_iter().for_each(|one| one.unwrap_or_else(|error| panic!("{error} in {append:?}")));
}

#[test]
fn new_rows_go_to_their_places() {
    (1..8).for_each(check_append);
}

#[test]
fn kernels_from_text_are_the_same() {
    let texts = attention::modules().flat_map(|(name, module)| {
        module.texts().unwrap().into_iter().map(move |(arch, ptx)| (format!("{name}_{arch}"), ptx))
    });
    let texts: Vec<_> = texts.collect();
    from_text::compare(&["attention"], &["append"], &texts);
}

/// Every module, or the one that `PTX_MODULE` names, for every target. The figures are printed: registers, spills, shared memory.
#[test]
#[ignore = "needs ptxas: set PTXAS"]
fn ptxas_takes_every_module() {
    let ptxas = std::env::var("PTXAS").expect("PTXAS names the assembler");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("attention");
    std::fs::create_dir_all(&folder).unwrap();
    let only = std::env::var("PTX_MODULE").unwrap_or_default();
    for (name, module) in attention::modules().filter(|(name, _)| only.is_empty() || only == *name) {
        let ptx = module.texts().unwrap()[0].1;
        let file = folder.join(format!("{name}.ptx"));
        std::fs::write(&file, ptx).unwrap();
        let target = ptx.split_whitespace().skip_while(|word| *word != ".target").nth(1).unwrap();
        let targets: &[&str] = if target == "sm_80" { &["sm_80", "sm_89", "sm_90"] } else { &[target] };
        for target in targets {
            let object = folder.join(format!("{name}.{target}.cubin"));
            let command = std::process::Command::new(&ptxas)
                .args(["-v", "-arch", target])
                .arg(&file)
                .arg("-o")
                .arg(object)
                .output();
            let output = command.expect("ptxas runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} for {target}: {said}");
            println!("{name} for {target}\n{said}");
        }
    }
}

/// TFLOP/s, forward and backward, and GB/s of decode.
#[test]
#[ignore = "measures a GPU: set PTX_DEVICE"]
fn speed() {
    speed::print_decode(&device()).unwrap();
    speed::print_caches(&device()).unwrap();
    speed::print_rates(&device()).unwrap();
}

/// The loss whose gradient the output's gradient is: the sum of their products, over all heads.
fn loss(case: &Case, data: &Data) -> f64 {
    let heads = (0..case.queries.len()).flat_map(|sequence| (0..case.heads).map(move |head| (sequence, head)));
    let of = |(sequence, head): (usize, usize)| -> f64 {
        let grads = data.grad.rows(sequence, head, case.queries[sequence]).concat();
        reference::forward(case, data, sequence, head).out.iter().zip(grads).map(|(out, grad)| out.value * grad).sum()
    };
    heads.map(of).sum()
}

/// The exact gradients, which the kernels are compared with, against differences of the exact output.
#[test]
fn exact_gradients_are_those_of_differences() {
    let case = Case {
        queries: vec![4],
        keys: vec![5],
        heads: 2,
        group: 2,
        dim: 8,
        dim_v: 8,
        left: Some(2),
        right: Some(1),
        cap: 3.0,
        bias: 1,
        ..Case::default()
    };
    let mut data = Data::new::<bf16>(&case);
    let heads: Vec<_> = (0..2).map(|head| reference::head(&case, &data, 0, head)).collect();
    let step = 1e-4;
    for (tensor, tokens) in [(0, 4), (1, 5), (2, 5)] {
        for at in 0..tokens * 8 {
            let exact: f64 = match tensor {
                0 => heads[0].grad_q[at].value,
                1 => heads.iter().map(|head| head.grad_k[at].value).sum(),
                _ => heads.iter().map(|head| head.grad_v[at].value).sum(),
            };
            let mut moved = |by: f64| {
                let field = [&mut data.q, &mut data.k, &mut data.v].into_iter().nth(tensor).unwrap();
                *field.element(0, at / 8, 0, at % 8) += by;
                loss(&case, &data)
            };
            let (above, below) = (moved(step), moved(-2.0 * step));
            moved(step);
            let difference = (above - below) / (2.0 * step);
            assert!(
                (difference - exact).abs() < 1e-6 * (1.0 + exact.abs()),
                "tensor {tensor}, {at}: {difference}, not {exact}"
            );
        }
    }
}
