"""Programs over arrays that are sharded on a mesh of four CPU devices: the right values, and no array is gathered. `test_jax.py` runs it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import test_jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import ptx_kernels

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
# The operation, how its arrays are split, and how the result is.
ROWS, WHOLE = P("data"), P()
CASES: list[tuple[str, list[P], P]] = [
    ("rms_norm", [P(("data", "model")), WHOLE], P(("data", "model"))),
    ("layer_norm", [P(("data", "model")), WHOLE, WHOLE], P(("data", "model"))),
    ("gelu", [P("data", "model")], P("data", "model")),
    ("silu", [P("data", "model")], P("data", "model")),
    ("relu", [P(None, "model")], P(None, "model")),
    ("softmax", [ROWS], ROWS),
    ("swiglu", [P("data", "model")] * 2, P("data", "model")),
    ("geglu", [P("data", "model")] * 2, P("data", "model")),
    ("matmul", [ROWS, P(None, "model")], P("data", None, "model")),
    ("batched_matmul", [P("data", "model"), ROWS], P("data", "model")),
    ("linear", [ROWS, P(None, "model"), P("model")], P("data", "model")),
    ("rotary", [P("data", "model")], P("data", "model")),
]
SHAPES = {"rms_norm": [(4, 3, 16), (16,)], "softmax": [(4, 8)], "gelu": [(4, 8)], "silu": [(4, 8)], "relu": [(4, 8)], "swiglu": [(4, 8)] * 2}
SHAPES |= {"geglu": [(4, 8)] * 2, "matmul": [(2, 6, 24), (24, 16)], "batched_matmul": [(2, 6, 24), (2, 24, 16)]}


def sharded(array: Any, spec: P) -> Any:
    return jax.device_put(array, NamedSharding(MESH, spec))


def check(call: Any, expected: Any, arrays: list[Any], specs: list[P], out: P, bound: float = 1e-5) -> None:
    """The call over sharded arrays is what `expected` makes of whole ones, keeps its result sharded, and gathers nothing."""
    parts = [sharded(array, spec) for array, spec in zip(arrays, specs)]
    compiled = jax.jit(call).lower(*parts).compile()
    assert "all-gather" not in compiled.as_text(), compiled.as_text()
    made = compiled(*parts)
    assert made.sharding.is_equivalent_to(NamedSharding(MESH, out), made.ndim), (made.sharding, out)
    np.testing.assert_allclose(np.float32(made), np.float32(expected(*arrays)), rtol=bound, atol=bound)


def check_gradients(call: Any, expected: Any, arrays: list[Any], specs: list[P], bound: float = 1e-4) -> None:
    every = tuple(range(len(arrays)))

    def loss(operation: Any) -> Any:
        return jax.jit(jax.grad(lambda *x: (operation(*x).astype(jnp.float32) ** 2).sum(), every))

    parts = [sharded(array, spec) for array, spec in zip(arrays, specs)]
    compiled = loss(call).lower(*parts).compile()
    assert "all-gather" not in compiled.as_text(), compiled.as_text()
    for mine, reference in zip(compiled(*parts), loss(expected)(*arrays)):
        reference = np.float32(reference)
        np.testing.assert_allclose(np.float32(mine), reference, rtol=bound, atol=bound * max(1.0, float(np.abs(reference).max())))


def main() -> None:
    for name, specs, out in CASES:
        ours, theirs, shapes = test_jax.OPERATIONS[name]
        arrays = [test_jax._random(*shape, seed=at) for at, shape in enumerate(SHAPES.get(name, shapes))]
        check(ours, theirs, arrays, specs, out)
        check_gradients(ours, theirs, arrays, specs)
    # Rows of targets go with those of the scores.
    scores, targets = test_jax._random(4, 12), jnp.array([0, 3, 11, 7])
    rows = [sharded(scores, ROWS), sharded(targets, ROWS)]
    lowered = jax.jit(lambda x, t: ptx_kernels.cross_entropy(x, t, reduction="none")).lower(*rows).compile()
    assert "all-gather" not in lowered.as_text()
    expected = -jax.nn.log_softmax(scores)[jnp.arange(4), targets]
    np.testing.assert_allclose(lowered(*rows), expected, rtol=1e-5, atol=1e-5)

    # Attention by batches and heads: four heads in two groups, and four that share one.
    for groups in (4, 2, 1):
        q, k, v = (test_jax._random(2, 16, heads, 16, seed=heads).astype(jnp.bfloat16) for heads in (4, groups, groups))
        heads = P("data", None, "model")
        specs = [heads, heads if groups > 1 else ROWS, heads if groups > 1 else ROWS]

        def whole(q: Any, k: Any, v: Any) -> Any:
            q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
            k, v = (jnp.repeat(x, 4 // groups, 2) for x in (k, v))
            scores = jnp.einsum("bshd,bthd->bhst", q, k) / 4.0
            scores = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -jnp.inf)
            return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)

        def attend(q: Any, k: Any, v: Any) -> Any:
            return ptx_kernels.attention(q, k, v, causal=True)

        check(attend, whole, [q, k, v], specs, heads, 2e-2)
        check_gradients(attend, whole, [q, k, v], specs, 5e-2)

    # A cache whose heads are split, and a step of its decoding.
    k, v = (test_jax._random(2, 5, 2, 16, seed=seed).astype(jnp.bfloat16) for seed in (5, 6))
    q, lengths, empty = test_jax._random(2, 1, 4, 16).astype(jnp.bfloat16), jnp.full(2, 5, jnp.int32), jnp.zeros((2, 8, 2, 16), jnp.bfloat16)

    def step(q: Any, k: Any, v: Any, caches: Any) -> Any:
        caches = ptx_kernels.attention_append(k, v, *caches, lengths)
        return ptx_kernels.attention_decode(q, *caches, lengths), caches

    heads = P(None, None, "model")
    split = [sharded(array, heads) for array in (q, k, v, empty, empty)]
    compiled = jax.jit(step, donate_argnums=3).lower(*split[:3], tuple(split[3:])).compile()
    assert "all-gather" not in compiled.as_text(), compiled.as_text()
    made, caches = compiled(*split[:3], tuple(split[3:]))
    assert caches[0].sharding.is_equivalent_to(NamedSharding(MESH, heads), 4)
    expected = ptx_kernels.attention(q, k, v)
    np.testing.assert_allclose(np.float32(made), np.float32(expected), rtol=2e-2, atol=2e-2)

    # What cannot be split is gathered, and right: columns of a norm, inner extents of a product, extents that the axes do not divide.
    x, w = test_jax._random(4, 16), test_jax._random(16)
    split = [sharded(x, P("data", "model")), sharded(w, P("model"))]
    np.testing.assert_allclose(jax.jit(ptx_kernels.rms_norm)(*split), test_jax._rms_norm(x, w), rtol=1e-5, atol=1e-5)
    a, b = test_jax._random(4, 24), test_jax._random(24, 16)
    split = [sharded(a, P("data", "model")), sharded(b, P("model", "data"))]
    np.testing.assert_allclose(jax.jit(ptx_kernels.matmul)(*split), test_jax._product(a, b), rtol=1e-5, atol=1e-5)

    def uneven(x: Any, w: Any) -> Any:
        part = jax.lax.with_sharding_constraint(x[:3], NamedSharding(MESH, P("data")))
        return jax.grad(lambda part, w: (ptx_kernels.rms_norm(part, w) ** 2).sum(), (0, 1))(part, w)

    expected = jax.grad(lambda x, w: (test_jax._rms_norm(x, w) ** 2).sum(), (0, 1))(x[:3], w)
    for mine, reference in zip(jax.jit(uneven)(sharded(x, ROWS), w), expected):
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
