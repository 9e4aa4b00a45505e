"""Kernels from text with JAX: jit, vmap, shard_map, gradients, export."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import has
from test_kernels import ADD, SAXPY, SCALE, SQUARE, WIDE

if not has("jax"):
    pytest.skip("JAX is not installed", allow_module_level=True)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import ptx_kernels  # noqa: E402
import ptx_kernels.jax  # noqa: E402

X: Any = jnp.arange(300, dtype=jnp.float32)


def test_jit() -> None:
    scale, add = ptx_kernels.kernel(SCALE), ptx_kernels.kernel(ADD, "add")
    np.testing.assert_array_equal(scale(X, 3.0), 3 * X)
    run = jax.jit(lambda x: (scale(add["BLOCK":32, "EACH":4](x), 2.0) + 1, add(x.astype(jnp.int32))))
    first, second = run(X)
    np.testing.assert_array_equal(first, 2 * (X + 4) + 1)
    np.testing.assert_array_equal(second, X + 2)
    with pytest.raises(TypeError, match="scale: x: expected a tensor of float32, found int32"):
        jax.jit(lambda x: scale(x, 2.0))(X.astype(jnp.int32))


def test_written_memory_is_returned() -> None:
    saxpy = ptx_kernels.kernel(SAXPY)
    y = jnp.ones(300)
    made = jax.jit(lambda x, y: saxpy(2.0, x, y, 300))(X, y)
    np.testing.assert_array_equal(made, 2 * X + 1)
    np.testing.assert_array_equal(y, 1.0)
    np.testing.assert_array_equal(ptx_kernels.kernel(SCALE)(X, 2.0, out=y), 2 * X)


def test_vmap_and_shard_map() -> None:
    scale = ptx_kernels.kernel(SCALE)
    x = jnp.arange(60.0, dtype=jnp.float32).reshape(4, 15)
    np.testing.assert_array_equal(jax.vmap(lambda row: scale(row, 2.0))(x), 2 * x)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    spec = jax.sharding.PartitionSpec("rows")
    mapped = jax.shard_map(lambda x: scale(x.ravel(), 2.0).reshape(x.shape), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(jax.jit(mapped)(x), 2 * x)


def test_gradients() -> None:
    module = ptx_kernels.kernels(SQUARE)
    square = ptx_kernels.differentiable(module.square, module.square_grad)
    np.testing.assert_array_equal(jax.grad(lambda x: (3 * square(x)).sum())(X), 6 * X)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: square(x).sum()))(X), 2 * X)


def test_programs_are_exported() -> None:
    from jax import export

    scale = ptx_kernels.kernel(SCALE)
    program = export.export(jax.jit(lambda x: scale(x, 2.0)), disabled_checks=ptx_kernels.jax.export_checks())(X)
    np.testing.assert_array_equal(export.deserialize(program.serialize()).call(X), 2 * X)


def test_integers_of_64_bits_without_a_sign() -> None:
    both = ptx_kernels.kernels(WIDE)
    wide = ptx_kernels.differentiable(both.wide, both.wide_grad)
    for factor in [5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, np.uint64(1 << 63)]:
        for run in [wide, jax.jit(wide, static_argnums=1)]:
            np.testing.assert_array_equal(run(X, factor), X * np.float32(factor))
        grad = jax.grad(lambda x: wide(x, factor).sum())  # noqa: B023
        np.testing.assert_array_equal(grad(X), np.full(300, np.float32(factor)))
    for wrong in [-1, np.int64(-1)]:
        with pytest.raises(ValueError, match="wide: factor: -1 is outside of 0 to 18446744073709551615"):
            wide(X, wrong)
    with pytest.raises(OverflowError, match="wide: factor: 18446744073709551616 has more than 64 bits"):
        wide(X, 1 << 64)
