"""JAX: jit, grad, vmap, shard_map, command buffers; on the CPU device, and on a GPU where there is one."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import references
from conftest import has, needs_gpu

import ptx_kernels

if not has("jax"):
    pytest.skip("JAX is not installed", allow_module_level=True)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402


def _random(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed + sum(shape)).standard_normal(shape, np.float32))


def _rms_norm(x: Any, w: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * w + b


def _product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


_TARGETS = jnp.array([0, 3, -100, 11, 7])
_ANGLES = tuple(function(jnp.arange(6.0)[:, None] / 10.0 ** jnp.arange(4)) for function in (jnp.cos, jnp.sin))


def _cross_entropy(x: Any) -> Any:
    losses = -jax.nn.log_softmax(x)[jnp.arange(5), jnp.maximum(_TARGETS, 0)] * (_TARGETS != -100)
    return losses.sum() / 4.0


def _rotary(x: Any) -> Any:
    (first, second), (cos, sin) = jnp.split(x, 2, -1), (table[:, None] for table in _ANGLES)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


OPERATIONS = {
    "rms_norm": (ptx_kernels.rms_norm, _rms_norm, [(2, 3, 16), (16,)]),
    "layer_norm": (ptx_kernels.layer_norm, _layer_norm, [(4, 16), (16,), (16,)]),
    "gelu": (ptx_kernels.gelu, lambda x: jax.nn.gelu(x, approximate=False), [(3, 8)]),
    "silu": (ptx_kernels.silu, jax.nn.silu, [(3, 8)]),
    "relu": (ptx_kernels.relu, jax.nn.relu, [(3, 8)]),
    "softmax": (ptx_kernels.softmax, jax.nn.softmax, [(3, 8)]),
    "swiglu": (ptx_kernels.swiglu, lambda gate, up: jax.nn.silu(gate) * up, [(3, 8), (3, 8)]),
    "geglu": (ptx_kernels.geglu, lambda gate, up: jax.nn.gelu(gate, approximate=False) * up, [(3, 8), (3, 8)]),
    "matmul": (ptx_kernels.matmul, _product, [(2, 5, 24), (24, 16)]),
    "batched_matmul": (ptx_kernels.matmul, _product, [(2, 5, 24), (2, 24, 16)]),
    "linear": (lambda a, b, bias: ptx_kernels.matmul(a, b, bias=bias, activation="silu"), lambda a, b, bias: jax.nn.silu(_product(a, b) + bias),
               [(6, 24), (24, 16), (16,)]),
    "cross_entropy": (lambda x: ptx_kernels.cross_entropy(x, _TARGETS), _cross_entropy, [(5, 12)]),
    "rotary": (lambda x: ptx_kernels.rotary(x, *_ANGLES, jnp.arange(6, dtype=jnp.int32)), _rotary, [(6, 2, 8)]),
}  # fmt: skip
each_operation = pytest.mark.parametrize("name", OPERATIONS)


@each_operation
def test_forward_and_gradients(name: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    arrays = [_random(*shape, seed=at) for at, shape in enumerate(shapes)]
    np.testing.assert_allclose(ours(*arrays), theirs(*arrays), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(ours)(*arrays), theirs(*arrays), rtol=1e-5, atol=1e-5)

    def loss(operation: Any) -> Any:
        return lambda *arrays: (operation(*arrays) ** 2).sum()

    every = tuple(range(len(arrays)))
    found = jax.jit(jax.grad(loss(ours), every))(*arrays)
    expected = jax.grad(loss(theirs), every)(*arrays)
    for mine, reference in zip(found, expected):
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (_random(1, 16, heads, 16, seed=heads).astype(jnp.bfloat16) for heads in (4, 2, 2))

    def expected(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
        k, v = (jnp.repeat(x, 2, 2) for x in (k, v))
        scores = jnp.einsum("bshd,bthd->bhst", q, k) / 4.0
        scores = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -jnp.inf) if causal else scores
        return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return ptx_kernels.attention(q, k, v, causal=causal).astype(jnp.float32)

    np.testing.assert_allclose(jax.jit(ours)(q, k, v), expected(q, k, v), rtol=2e-2, atol=2e-2)
    found, wanted = (jax.jit(jax.grad(lambda *x: (call(*x) ** 2).sum(), (0, 1, 2)))(q, k, v) for call in (ours, expected))
    for mine, reference in zip(found, wanted):
        np.testing.assert_allclose(np.float32(mine), np.float32(reference), rtol=5e-2, atol=5e-2)


def test_options_of_attention() -> None:
    q, k, v = (_random(1, 16, heads, 16, seed=heads).astype(jnp.bfloat16) for heads in (4, 2, 2))
    bias = _random(1, 4, 16, 16).astype(jnp.bfloat16)
    rows = [np.float32(t) for t in (q, k, v)]
    found = jax.jit(lambda *x: ptx_kernels.attention(*x, window=(3, 0), bias=bias))(q, k, v)
    expected = references.attention(*rows, window=(3, 0), bias=np.float32(bias))
    np.testing.assert_allclose(np.float32(found), expected, rtol=2e-2, atol=2e-2)
    bounds = jnp.array([0, 5, 16], jnp.int32)

    def packed(q: Any, k: Any, v: Any) -> Any:
        return ptx_kernels.attention_varlen(q[0], k[0], v[0], bounds, bounds, 11, 11, causal=True)

    expected = np.concatenate([references.attention(*(t[:, low:high] for t in rows), causal=True)[0] for low, high in ((0, 5), (5, 16))])
    np.testing.assert_allclose(np.float32(jax.jit(packed)(q, k, v)), expected, rtol=2e-2, atol=2e-2)
    grads = jax.jit(jax.grad(lambda *x: (packed(*x).astype(jnp.float32) ** 2).sum(), (0, 1, 2)))(q, k, v)
    # The first tokens do not depend on the second sequence.
    whole = jax.grad(lambda *x: (ptx_kernels.attention(*x, causal=True).astype(jnp.float32) ** 2).sum(), (0, 1, 2))
    for mine, reference in zip(grads, whole(q[:, :5], k[:, :5], v[:, :5])):
        np.testing.assert_allclose(np.float32(mine[:, :5]), np.float32(reference), rtol=5e-2, atol=5e-2)


def test_attention_of_e4m3() -> None:
    q, k, v = (_random(1, 16, heads, 32, seed=heads).astype(jnp.float8_e4m3fn) for heads in (4, 2, 2))
    factors = jnp.array([[0.5, 2.0]], jnp.float32)
    attend = jax.jit(lambda *x: ptx_kernels.attention(*x, q_descale=0.5, k_descale=factors, v_descale=2.0))
    found = attend(q, k, v)
    assert found.dtype == jnp.bfloat16
    scaled = (np.float32(q) * 0.5, np.float32(k) * np.array([0.5, 2.0])[:, None], np.float32(v) * 2.0)
    bound = 1e-1 if jax.default_backend() == "gpu" else 2e-2
    np.testing.assert_allclose(np.float32(found), references.attention(*scaled), rtol=bound, atol=bound)
    with pytest.raises(TypeError, match="out_dtype is not possible in JAX"):
        ptx_kernels.attention(q, k, v, out_dtype=jnp.float16)
    with pytest.raises(TypeError, match="k: expected a tensor of float8_e4m3fn, the type of q, found float32"):
        ptx_kernels.attention(q, k.astype(jnp.float32), v)


def test_matmul_of_8_bits() -> None:
    a, b = (4 * _random(5, 32)).astype(jnp.int8), (4 * _random(32, 16)).astype(jnp.int8)
    found = jax.jit(lambda a, b: ptx_kernels.matmul(a, b, scale_a=0.5, scale_b=jnp.full(16, 2.0)))(a, b)
    np.testing.assert_allclose(np.float32(found), np.float32(a) @ np.float32(b), rtol=1e-2, atol=1e-2)


def test_a_residual_stream() -> None:
    x, w, stream = _random(2, 3, 16), _random(16), _random(2, 3, 16, seed=1)
    out, after = jax.jit(ptx_kernels.add_rms_norm)(x, stream, w)
    np.testing.assert_allclose(after, x + stream, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(out, references.rms_norm(x + stream, w), rtol=1e-5, atol=1e-5)


def test_a_function_of_a_library_with_saved_outputs(lib: Any) -> None:
    x, w = _random(2, 3, 5), _random(5)
    np.testing.assert_allclose(lib.rms_norm(x, w), references.rms_norm(x, w), rtol=1e-5, atol=1e-5)
    found = jax.grad(lambda x, w: (jax.jit(lib.rms_norm)(x, w) ** 2).sum(), (0, 1))(x, w)
    expected = jax.grad(lambda x, w: (_rms_norm(x, w) ** 2).sum(), (0, 1))(x, w)
    for mine, reference in zip(found, expected):
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)


def test_grouped_matmul() -> None:
    if jax.default_backend() == "gpu" and jax.devices()[0].compute_capability != "9.0":
        pytest.skip("grouped products need compute capability 9.0")
    a, b = _random(40, 16).astype(jnp.bfloat16), _random(3, 16, 24).astype(jnp.bfloat16)
    offsets = jnp.array([0, 11, 11, 40], jnp.int32)
    expected = np.concatenate([np.float32(a[:11]) @ np.float32(b[0]), np.float32(a[11:]) @ np.float32(b[2])])
    for call in (ptx_kernels.grouped_matmul, jax.jit(ptx_kernels.grouped_matmul)):
        np.testing.assert_allclose(np.float32(call(a, b, offsets)), expected, rtol=2e-2, atol=2e-2)
    with pytest.raises(TypeError, match="out_dtype is not possible in JAX"):
        ptx_kernels.grouped_matmul(a, b, offsets, out_dtype=jnp.float32)
    with pytest.raises((ValueError, RuntimeError), match="offsets: expected 4 numbers without gaps for 3 groups, found 3"):
        jax.block_until_ready(ptx_kernels.grouped_matmul(a, b, offsets[:3]))


def test_gradients_of_grouped_matmul() -> None:
    if jax.default_backend() == "gpu" and jax.devices()[0].compute_capability != "9.0":
        pytest.skip("grouped products need compute capability 9.0")
    a, b = _random(40, 16).astype(jnp.bfloat16), _random(3, 16, 24).astype(jnp.bfloat16)
    offsets, bounds = jnp.array([0, 11, 11, 40], jnp.int32), [(0, 11), (11, 11), (11, 40)]

    def ours(a: Any, b: Any) -> Any:
        return (ptx_kernels.grouped_matmul(a, b, offsets).astype(jnp.float32) ** 2).sum()

    def expected(a: Any, b: Any) -> Any:
        rows = [a[low:high].astype(jnp.float32) @ matrix.astype(jnp.float32) for (low, high), matrix in zip(bounds, b)]
        return (jnp.concatenate(rows) ** 2).sum()

    found, wanted = (jax.jit(jax.grad(loss, (0, 1)))(a, b) for loss in (ours, expected))
    for mine, reference in zip(found, wanted):
        reference = np.float32(reference)
        np.testing.assert_allclose(np.float32(mine), reference, rtol=2e-2, atol=2e-2 * np.abs(reference).max())


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn])
def test_a_cache_that_grows(dtype: Any) -> None:
    """Rows are appended in a program that donates its caches, and attention sees them all; of e4m3 as they were rounded."""
    q, k, v = (_random(2, n, heads, 16, seed=n).astype(jnp.bfloat16) for n, heads in ((1, 4), (12, 2), (12, 2)))
    ones = jnp.ones(2, jnp.float32)
    scales = {"k_scale": 0.5 * ones, "v_scale": 0.25 * ones} if dtype == jnp.float8_e4m3fn else {}

    def step(q: Any, k: Any, v: Any, caches: Any, lengths: Any) -> Any:
        caches = ptx_kernels.attention_append(k, v, *caches, lengths, **scales)
        return ptx_kernels.attention_decode(q, *caches, lengths, **scales), caches

    donating = jax.jit(step, donate_argnums=3)
    caches = tuple(jnp.zeros((2, 32, 2, 16), dtype) for _ in range(2))
    for first, last in ((0, 9), (9, 12)):
        kept = caches
        lengths = jnp.full(2, last, jnp.int32)
        arguments = (q, k[:, first:last], v[:, first:last])
        expected = jax.jit(step)(*arguments, caches, lengths)
        assert all(not cache.is_deleted() for cache in kept), "they are copied where they are not donated"
        found, caches = donating(*arguments, tuple(jnp.array(cache) for cache in caches), lengths)
        assert (np.float32(found) == np.float32(expected[0])).all() and caches[0].dtype == dtype
    rounded = [
        (x / scales[name][0]).astype(dtype).astype(jnp.float32) * scales[name][0] if scales else np.float32(x)
        for x, name in ((k, "k_scale"), (v, "v_scale"))
    ]
    np.testing.assert_allclose(np.float32(found), references.attention(np.float32(q), *rounded), rtol=2e-2, atol=2e-2)
    with pytest.raises(TypeError, match="needs v_cache="):
        ptx_kernels.library().attention_append(k, v, lengths, k_cache=jnp.zeros((2, 32, 2, 16), jnp.bfloat16))


def test_attention_decode_latent() -> None:
    q, cache = _random(2, 1, 4, 48).astype(jnp.bfloat16), _random(2, 24, 1, 48, seed=1).astype(jnp.bfloat16)
    lengths = jnp.array([24, 24], jnp.int32)
    decode = jax.jit(ptx_kernels.attention_decode_latent, static_argnums=3)
    rows = np.float32(cache)
    expected = references.attention(np.float32(q), rows, rows[..., :32])
    np.testing.assert_allclose(np.float32(decode(q, cache, lengths, 32)), expected, rtol=2e-2, atol=2e-2)


def test_attention_prefill() -> None:
    q, k, v = (_random(1, n, heads, 16, seed=n).astype(jnp.bfloat16) for n, heads in ((20, 4), (24, 2), (24, 2)))
    found = jax.jit(ptx_kernels.attention_prefill)(q, k, v, jnp.array([24], jnp.int32))
    expected = references.attention(*(np.float32(t) for t in (q, k, v)), causal=True)
    np.testing.assert_allclose(np.float32(found), expected, rtol=2e-2, atol=2e-2)


def test_attention_decode() -> None:
    q, k, v = (_random(2, n, heads, 16, seed=n).astype(jnp.bfloat16) for n, heads in ((1, 4), (24, 2), (24, 2)))
    decode = jax.jit(ptx_kernels.attention_decode)
    for lengths in ([9, 24], [24, 1]):
        found = np.float32(decode(q, k, v, jnp.array(lengths, jnp.int32)))
        for at, length in enumerate(lengths):
            one = [np.float32(t[at : at + 1]) for t in (q, k[:, :length], v[:, :length])]
            np.testing.assert_allclose(found[at : at + 1], references.attention(*one), rtol=2e-2, atol=2e-2)


def test_vmap() -> None:
    x, w = _random(2, 3, 8), _random(8)
    weights = jnp.stack([w, 2.0 * w])
    norm = ptx_kernels.rms_norm
    np.testing.assert_allclose(jax.vmap(norm, (1, None), 1)(x, w), _rms_norm(x, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(norm, (None, 0))(x, weights)[1], 2.0 * _rms_norm(x, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(norm)(x, weights), jax.vmap(_rms_norm)(x, weights), rtol=1e-5, atol=1e-5)

    def gradients(operation: Any) -> Any:
        return jax.vmap(jax.grad(lambda x, w: (operation(x, w) ** 2).sum(), (0, 1)), (0, None))(x, w)

    for mine, reference in zip(gradients(norm), gradients(_rms_norm)):
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)


def test_shard_map() -> None:
    from jax.sharding import Mesh, PartitionSpec

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        pytest.skip("this JAX has no jax.shard_map")
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rows = 2 * mesh.size
    x, w = _random(rows, 8), _random(8)
    spec = PartitionSpec("rows")
    sharded = shard_map(ptx_kernels.rms_norm, mesh=mesh, in_specs=(spec, PartitionSpec()), out_specs=spec, check_vma=False)
    np.testing.assert_allclose(jax.jit(sharded)(x, w), _rms_norm(x, w), rtol=1e-5, atol=1e-5)


def test_gradients_inside_shard_map() -> None:
    """The types of gradients have the axes of their inputs: with one device in the mesh, and with two in a process of its own."""
    script = """
import jax, numpy, sys
from jax.sharding import Mesh, PartitionSpec as P
import test_jax
from ptx_kernels import rms_norm
mesh, rows = Mesh(numpy.array(jax.devices()), ("rows",)), P("rows")
assert mesh.size == 2
x, w = test_jax._random(4, 8), test_jax._random(8)
loss = lambda norm: lambda x, w: (norm(x, w) ** 2).sum()
expected = jax.grad(loss(test_jax._rms_norm), (0, 1))(x, w)
inside = jax.shard_map(lambda x, w: jax.grad(loss(rms_norm), (0, 1))(x, w), mesh=mesh, in_specs=(rows, P()), out_specs=(rows, P()))
outside = jax.grad(loss(jax.shard_map(rms_norm, mesh=mesh, in_specs=(rows, P()), out_specs=rows)), (0, 1))
for found in (jax.jit(inside)(x, w), jax.jit(outside)(x, w)):
    for mine, reference in zip(found, expected):
        numpy.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)
"""
    if not hasattr(jax, "shard_map"):
        pytest.skip("this JAX has no jax.shard_map")
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=pathlib.Path(__file__).parent, env=environment)


def test_sharded_arrays() -> None:
    """Programs of `jax.jit` over arrays that are sharded by batch, rows, columns and heads gather none of them."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "sharded_jax.py"], check=True, cwd=pathlib.Path(__file__).parent, env=environment)


def test_the_interpreter_ends_while_devices_compute() -> None:
    """XLA waits for its threads at the end: a call of theirs returns to it."""
    code = """
import jax, jax.numpy as jnp, numpy as np, ptx_kernels
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("data",))
a = jax.device_put(jnp.ones((256, 256)), NamedSharding(mesh, P("data")))
b = jax.device_put(jnp.ones((256, 256)), NamedSharding(mesh, P()))
jax.jit(lambda a, b: ptx_kernels.matmul(a, b) + 1, out_shardings=NamedSharding(mesh, P()))(a, b)
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=100)


@each_operation
def test_check_grads(name: str) -> None:
    """Gradients of the first and the second order by differences, and forward mode."""
    ours, theirs, shapes = OPERATIONS[name]
    arrays = tuple(0.5 * _random(*shape, seed=at) + 0.05 for at, shape in enumerate(shapes))
    check_grads(ours, arrays, order=1, modes=["rev", "fwd"], atol=2e-2, rtol=2e-2, eps=1e-2)

    def twice(operation: Any) -> Any:
        every = tuple(range(len(arrays)))
        loss = jax.grad(lambda *x: (operation(*x) ** 2 * jnp.cos(x[0].sum())).sum(), every)
        return jax.grad(lambda *x: sum((part**2).sum() for part in loss(*x)), every)(*arrays)

    for mine, reference in zip(twice(ours), twice(theirs)):
        np.testing.assert_allclose(mine, reference, rtol=2e-3, atol=2e-3 * float(jnp.abs(reference).max()))


def test_derivatives_that_are_not_there(lib: Any) -> None:
    q, (x, w) = _random(1, 8, 2, 16).astype(jnp.bfloat16), (_random(4, 8), _random(8))

    def attend(q: Any) -> Any:
        return ptx_kernels.attention(q, q, q).astype(jnp.float32).sum()

    for loss, array, name in ((attend, q, "attention"), (lambda x: (lib.rms_norm(x, w) ** 2).sum(), x, "rms_norm")):
        with pytest.raises(NotImplementedError, match=f"{name} has no second derivative"):
            jax.grad(lambda y: (jax.grad(loss)(y) ** 2).astype(jnp.float32).sum())(array)
        with pytest.raises(NotImplementedError, match=f"{name} has no forward-mode derivative"):
            jax.jvp(loss, (array,), (array,))
    with pytest.raises(NotImplementedError, match="add_one has no gradient; export it with `backward"):
        jax.grad(lambda x: lib.add_one(x).sum())(w)


_KEPT = """
import jax, ptx_kernels, pathlib, sys
from jax import export
import ptx_kernels.jax
path = pathlib.Path(sys.argv[1])
if not (path / "kept").exists():
    program = export.export(jax.jit(lambda x: ptx_kernels.silu(x) + 1.0), disabled_checks=ptx_kernels.jax.export_checks())
    (path / "kept").write_bytes(program(jax.numpy.zeros((4, 8))).serialize())
print(float(export.deserialize((path / "kept").read_bytes()).call(jax.numpy.zeros((4, 8)))[0, 0]))
"""


@pytest.mark.skipif(not has("flatbuffers"), reason="jax.export needs flatbuffers")
def test_programs_outlive_their_process(tmp_path: pathlib.Path) -> None:
    """Another process calls what one exported, and finds what it compiled."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    cache["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    kept = []
    for _ in range(2):
        run = [sys.executable, "-c", _KEPT, str(tmp_path)]
        made = subprocess.run(run, check=True, capture_output=True, text=True, env={**os.environ, **cache})
        assert made.stdout == "1.0\n"
        kept.append(sorted(file.name for file in (tmp_path / "cache").glob("*-cache")))
    assert kept[0] and kept[0] == kept[1]


def test_types(lib: Any) -> None:
    for dtype in (jnp.float32, jnp.float16, jnp.bfloat16, jnp.int32, jnp.uint8):
        x = jnp.arange(6).astype(dtype).reshape(2, 3)
        found = lib.copy(x)
        assert found.dtype == dtype and found.shape == (2, 3) and bool((found == x).all())


def test_scalars(lib: Any) -> None:
    x = jnp.arange(4.0)
    assert lib.scale(x).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert jax.jit(lambda x: lib.scale(x, 3, twice=True, sign="minus", times=2))(x).tolist() == [0.0, -12.0, -24.0, -36.0]
    with pytest.raises(TypeError, match="scale: factor: must be known when the function is traced"):
        jax.jit(lambda x, factor: lib.scale(x, factor))(x, 2.0)
    with pytest.raises(TypeError, match="scale: sign: expected str, found int"):
        lib.scale(x, sign=3)


def test_errors(lib: Any) -> None:
    x, w = _random(2, 8), _random(8)
    with pytest.raises(ValueError, match=r"rms_norm: weight: dimension 0 \(n\) has 7 elements"):
        jax.jit(ptx_kernels.rms_norm)(x, w[:7])
    with pytest.raises(TypeError, match="weight: expected a tensor of float32, found float16"):
        ptx_kernels.rms_norm(x, w.astype(jnp.float16))
    with pytest.raises(TypeError, match="JAX arrays are immutable"):
        ptx_kernels.rms_norm(x, w, out=x)
    with pytest.raises(RuntimeError, match="INVALID_ARGUMENT: fail: on purpose"):
        jax.block_until_ready(lib.fail(w, "condition"))
    with pytest.raises(RuntimeError, match="INTERNAL: fail: panicked: on purpose"):
        jax.block_until_ready(lib.fail(w, "panic"))


@needs_gpu
def test_command_buffer() -> None:
    """Many calls in one program: XLA records them in a command buffer, and the result stays right when it is replayed."""
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")

    @jax.jit
    def chain(x: Any, w: Any) -> Any:
        for _ in range(20):
            x = ptx_kernels.rms_norm(x, w)
            x = ptx_kernels.silu(x) + 1.0
        return x

    def expected(x: Any, w: Any) -> Any:
        for _ in range(20):
            x = jax.nn.silu(_rms_norm(x, w)) + 1.0
        return x

    w = _random(64)
    for seed in range(4):
        x = _random(32, 64, seed=seed)
        np.testing.assert_allclose(chain(x, w), jax.jit(expected)(x, w), rtol=1e-4, atol=1e-4)


def _scale() -> Any:
    return ptx_kernels.kernel("""
        #[ptx_kernel(arch = "sm_80", block = 32, grid = N.div_ceil(32), unsafe(requires(N > 0)))]
        fn scale_for_jax(x: Tile<f32, (N,)>, factor: f32, out: TileMut<f32, (N,)>) {
            let i: u32 = ctaid.x * ntid.x + tid.x;
            if i < N {
                let (from, to, value): (Global<f32>, GlobalMut<f32>, f32);
                (from, to) = (x.at(i), out.at(i));
                ptx! { ld.global.f32 value, [from]; mul.rn.f32 value, value, factor; st.global.f32 [to], value; }
            }
        }
    """)


def test_derivatives_that_do_not_exist_name_the_operation() -> None:
    x, cache, scale = _random(4, 8), jnp.zeros((1, 8, 2, 64), jnp.float16), _scale()
    rows, lengths = cache[:, :1], jnp.array([3], jnp.int32)
    for name, call, at in [
        ("add_rms_norm", lambda x: ptx_kernels.add_rms_norm(x, x)[0], x),
        ("attention_append", lambda k: ptx_kernels.attention_append(k, k, cache, cache, lengths)[0], rows),
        ("attention_decode", lambda q: ptx_kernels.attention_decode(q, cache, cache, lengths), rows),
        ("matmul", lambda s: ptx_kernels.matmul(x.astype(jnp.int8), x.T.astype(jnp.int8), scale_a=s), x[:, 0]),
        ("scale_for_jax", lambda x: scale(x, 2.0), x[0]),
    ]:
        for derive in (jax.grad(lambda x: call(x).astype(jnp.float32).sum()), jax.jit(lambda x: jax.jvp(call, (x,), (x,))), jax.jacfwd(call)):
            with pytest.raises(NotImplementedError, match=f"{name} has no gradient"):
                derive(at)
        call(jax.lax.stop_gradient(at))


def test_updates_of_a_batch() -> None:
    x, residual, w = _random(3, 4, 8), _random(3, 4, 8, seed=1), _random(8)
    expected = [ptx_kernels.add_rms_norm(*each, w) for each in zip(x, residual)]
    found = jax.jit(jax.vmap(lambda x, residual: ptx_kernels.add_rms_norm(x, residual, w)))(x, residual)
    for number in range(2):
        np.testing.assert_array_equal(found[number], np.stack([each[number] for each in expected]))
    found = jax.vmap(lambda x: ptx_kernels.add_rms_norm(x, residual[0], w)[1])(x)
    np.testing.assert_array_equal(found, x + residual[0])


def test_forward_mode_of_a_batch() -> None:
    x = _random(2, 6, 2, 8)

    def both(function: Any) -> Any:
        forward = jax.jvp(jax.vmap(function), (x,), (jnp.cos(x),))
        return forward, jax.jvp(jax.vmap(jax.grad(lambda x: jnp.sin(function(x)).sum())), (x,), (jnp.cos(x),))

    found, expected = both(lambda x: ptx_kernels.rotary(x, *_ANGLES, jnp.arange(6))), both(lambda x: _rotary(x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected)


def test_numbers_are_those_of_the_call() -> None:
    """Zeros of both signs are equal; a number of more than 64 bits and one that is traced are errors."""
    scale, x = _scale(), jnp.ones(3)
    assert [float(np.copysign(1, scale(x, zero)[0])) for zero in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]
    q = jnp.zeros((1, 4, 1, 64), jnp.float16)
    with pytest.raises(OverflowError, match="attention: window_left: 1208925819614629174706176 has more than 64 bits"):
        ptx_kernels.attention(q, q, q, window=(1 << 80, 0))
    for wrong in (1e40, 10**40, np.float64(-1e40)):
        with pytest.raises(ValueError, match="scale_for_jax: factor: -?1e.40 is too large for float32"):
            jax.jit(lambda x, wrong=wrong: scale(x, wrong))(x)
    with pytest.raises(TypeError, match="attention: causal: must be known when the function is traced"):
        jax.jit(lambda causal: ptx_kernels.attention(q, q, q, causal=causal))(True)
    with jax.numpy_dtype_promotion("strict"):
        assert ptx_kernels.cross_entropy(_random(2, 8), jnp.array([1, -100], jnp.int32)).dtype == jnp.float32
