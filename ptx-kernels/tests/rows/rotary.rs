//! Rotary position embedding, forward and backward.

use crate::support::{Number, Random, compare, device, each_problem, rounded};
use ptx_kernels::rotary::{Angles, Float, Heads as QueriesAndKeys, Pairs, Rotary, rotary, rotary_backward, tables};
use ptx_launch::prelude::*;
use ptx_launch::{ErrorKind, Result, TensorMut, TensorRef};

/// Heads somewhere in a buffer.
#[derive(Clone, Copy)]
struct Heads {
    shape: [usize; 3],
    strides: [usize; 3],
    start: usize,
}

impl Heads {
    fn new(random: &mut Random, shape: [usize; 3]) -> Heads {
        let [tokens, heads, dim] = shape;
        let head = dim + random.one_of(&[0, 0, 8, 3]);
        let gap = random.one_of(&[0, 0, 16, 1]);
        // Heads of a token side by side, or tokens of a head.
        let strides = if random.below(2) == 0 { [heads * head + gap, head, 1] } else { [head, tokens * head + gap, 1] };
        Heads { shape, strides, start: random.one_of(&[0, 8, 16, 1]) }
    }

    fn at(&self, token: usize, head: usize, element: usize) -> usize {
        self.start + token * self.strides[0] + head * self.strides[1] + element
    }

    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let [tokens, heads, dim] = self.shape;
        (0..tokens * heads * dim).map(move |i| self.at(i / dim / heads, i / dim % heads, i % dim))
    }

    fn upload<T: Number>(&self, device: &Device, values: &[f64]) -> Result<Buffer<T>> {
        let [tokens, heads, dim] = self.shape;
        let end = if values.is_empty() { self.start } else { self.at(tokens - 1, heads - 1, dim - 1) };
        let mut data = vec![T::GUARD; end + 20];
        self.places().zip(values).for_each(|(at, value)| data[at] = T::rounded(*value));
        device.upload(&data)
    }

    fn read<'b, T: Number>(&self, buffer: &'b Buffer<T>) -> TensorRef<'b, T, 3> {
        TensorRef::strided(buffer.slice(self.start..).unwrap(), self.shape, self.strides).unwrap()
    }

    fn write<'b, T: Number>(&self, buffer: &'b mut Buffer<T>) -> TensorMut<'b, T, 3> {
        TensorMut::strided(buffer.slice_mut(self.start..).unwrap(), self.shape, self.strides).unwrap()
    }

    /// The values; every element around them still is a guard.
    fn values<T: Number>(&self, buffer: &Buffer<T>) -> Result<Vec<f64>> {
        let data = buffer.download()?;
        let mut free = vec![true; data.len()];
        self.places().for_each(|at| free[at] = false);
        let untouched = data.iter().zip(&free).all(|(value, free)| !free || *value == T::GUARD);
        assert!(untouched, "memory outside of {:?} was written", self.shape);
        Ok(self.places().map(|at| data[at].exact()).collect())
    }
}

/// The rotation of one head.
fn rotate(x: &[f64], angles: &[(f64, f64)], pairs: Pairs, turn: f64) -> Vec<f64> {
    let mut out = x.to_vec();
    for (i, (cos, sin)) in angles.iter().enumerate() {
        let (a, b) = match pairs {
            Pairs::Halves => (i, angles.len() + i),
            Pairs::Neighbors => (2 * i, 2 * i + 1),
        };
        out[a] = x[a] * cos - x[b] * sin * turn;
        out[b] = x[b] * cos + x[a] * sin * turn;
    }
    out
}

fn one<T: Number + Float<i64> + Float<u32>>(device: &Device, random: &mut Random) -> Result<()> {
    let pairs = random.one_of(&[Pairs::Halves, Pairs::Neighbors]);
    let half = random.one_of(&[1, 3, 4, 8, 16, 32, 33]);
    let dim = 2 * half + random.one_of(&[0, 0, 8, 1, 16]);
    let shape = [random.one_of(&[0, 1, 3, 5]), random.one_of(&[1, 2, 7]), dim];
    let [tokens, heads, _] = shape;
    let rows = 1 + random.below(50);
    let (cos, sin) = tables(10_000.0, half, rows);
    let positions: Vec<i64> = (0..tokens).map(|_| random.below(rows) as i64).collect();
    let (dcos, dsin, dpositions) = (device.upload(&cos)?, device.upload(&sin)?, device.upload(&positions)?);
    let angles = Angles {
        cos: dcos.tile([rows, half])?.into(),
        sin: dsin.tile([rows, half])?.into(),
        positions: dpositions.tile([tokens])?.into(),
    };
    let x = rounded::<T>(tokens * heads * dim, |_| random.normal());
    let (from, to) = (Heads::new(random, shape), Heads::new(random, shape));
    let dx = from.upload::<T>(device, &x)?;
    let expected = |turn: f64| -> Vec<f64> {
        let head = |i: usize| {
            let row = positions[i / heads] as usize * half;
            let table: Vec<_> = (row..row + half).map(|i| (f64::from(cos[i]), f64::from(sin[i]))).collect();
            rotate(&x[i * dim..][..dim], &table, pairs, turn)
        };
        (0..tokens * heads).flat_map(head).collect()
    };
    let name = format!("{pairs:?} {shape:?} {half} pairs");
    for (rotary, turn) in [(Rotary::new(pairs), 1.0), (Rotary::new(pairs).inverse(), -1.0)] {
        let mut out = to.upload::<T>(device, &vec![0.0; x.len()])?;
        rotary.apply(device, &angles, from.read(&dx), to.write(&mut out))?;
        compare::<T>(&name, &to.values(&out)?, &expected(turn), 1e-6, 1e-6);
    }
    let small = device.upload(&positions.iter().map(|at| *at as u32).collect::<Vec<_>>())?;
    let angles = Angles { cos: angles.cos, sin: angles.sin, positions: small.tile([tokens])?.into() };
    let mut out = to.upload::<T>(device, &vec![0.0; x.len()])?;
    Rotary::new(pairs).apply(device, &angles, from.read(&dx), to.write(&mut out))?;
    compare::<T>(&name, &to.values(&out)?, &expected(1.0), 1e-6, 1e-6);
    Ok(())
}

#[test]
fn rotations_are_right() {
    each_problem(|device, random| {
        one::<f32>(device, random)?;
        one::<f16>(device, random)?;
        one::<bf16>(device, random)
    });
}

#[test]
fn a_rotation_and_its_gradient_are_inverse() -> Result<()> {
    let device = device();
    let (cos, sin) = tables(500.0, 4, 9);
    let (cos, sin, positions) = (device.upload(&cos)?, device.upload(&sin)?, device.upload(&[8i64, 3])?);
    let (cos, sin, positions) = (cos.tile([9, 4])?.into(), sin.tile([9, 4])?.into(), positions.tile([2])?.into());
    let angles = Angles { cos, sin, positions };
    let values: Vec<f32> = (0..48).map(|i| i as f32).collect();
    let (q, k) = (device.upload(&values)?, device.upload(&values[..16])?);
    let (mut q1, mut k1, mut q2, mut k2) =
        (device.zeros::<f32>(48)?, device.zeros::<f32>(16)?, device.zeros::<f32>(48)?, device.zeros::<f32>(16)?);
    let (queries, keys) = ([2, 3, 8], [2, 1, 8]);
    let style = Pairs::Neighbors;
    let heads = QueriesAndKeys { q: q.tile(queries)?, k: k.tile(keys)? };
    let out = QueriesAndKeys { q: q1.tile_mut(queries)?, k: k1.tile_mut(keys)? };
    rotary(&device, style, &angles, heads, out)?;
    let out_grads = QueriesAndKeys { q: q1.tile(queries)?, k: k1.tile(keys)? };
    let grads = QueriesAndKeys { q: q2.tile_mut(queries)?, k: k2.tile_mut(keys)? };
    rotary_backward(&device, style, &angles, out_grads, grads)?;
    let same = |found: Vec<f32>| found.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(same(q2.download()?) && same(k2.download()?));
    assert!(q1.download()?.iter().zip(&values).any(|(a, b)| (a - b).abs() > 0.1));
    Ok(())
}

#[test]
fn positions_outside_of_the_tables_give_nan() -> Result<()> {
    let device = device();
    let (cos, sin) = tables(500.0, 4, 2);
    let (cos, sin, positions) = (device.upload(&cos)?, device.upload(&sin)?, device.upload(&[1i64, 2, -1, i64::MAX])?);
    let (cos, sin, positions) = (cos.tile([2, 4])?.into(), sin.tile([2, 4])?.into(), positions.tile([4])?.into());
    let angles = Angles { cos, sin, positions };
    let (x, mut out) = (device.upload(&[1.0f32; 32])?, device.zeros::<f32>(32)?);
    Rotary::new(Pairs::Halves).apply(&device, &angles, x.tile([4, 1, 8])?, out.tile_mut([4, 1, 8])?)?;
    assert!(out.download()?.iter().enumerate().all(|(at, x)| x.is_nan() == (at >= 8)));
    let error = Rotary::new(Pairs::Halves).apply(&device, &angles, x.tile([4, 2, 4])?, out.tile_mut([4, 2, 4])?);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Condition);
    Ok(())
}
