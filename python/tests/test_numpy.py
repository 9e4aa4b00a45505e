"""NumPy on the CPU device: results, every kind of parameter, errors, wrong calls."""

from __future__ import annotations

import copy
import pathlib
import pickle
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import references
from conftest import WRONG

import ptx_kernels


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape, np.float32)


def test_importing_loads_no_framework() -> None:
    code = "import sys, ptx_kernels; sys.exit(any(name in sys.modules for name in ('torch', 'jax', 'tvm_ffi', 'cupy')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_operations() -> None:
    x, w, b = _random(3, 4, 24), _random(24), _random(24, seed=1)
    checks = [
        (ptx_kernels.rms_norm(x, w), references.rms_norm(x, w)),
        (ptx_kernels.rms_norm(x, eps=0.5), references.rms_norm(x, eps=0.5)),
        (ptx_kernels.layer_norm(x, w, b), references.layer_norm(x, w, b)),
        (ptx_kernels.layer_norm(x), references.layer_norm(x)),
        (ptx_kernels.softmax(x), references.softmax(x)),
        (ptx_kernels.softmax(x, 1), references.softmax(x, 1)),
        (ptx_kernels.gelu(x), references.gelu(x)),
        (ptx_kernels.gelu(x, "tanh"), references.gelu_tanh(x)),
        (ptx_kernels.silu(x), references.silu(x)),
        (ptx_kernels.relu(x), references.relu(x)),
        (ptx_kernels.swiglu(x, -x), references.silu(x) * -x),
        (ptx_kernels.geglu(x, -x), references.gelu(x) * -x),
    ]
    for found, expected in checks:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_matmul() -> None:
    a, b, bias = _random(2, 5, 24), _random(24, 16), _random(16)
    np.testing.assert_allclose(ptx_kernels.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ptx_kernels.matmul(a, b.T.copy().T), a @ b, rtol=1e-4, atol=1e-4)
    expected = np.maximum(a @ b + bias, 0.0)
    np.testing.assert_allclose(ptx_kernels.matmul(a, b, bias=bias, activation="relu"), expected, rtol=1e-4, atol=1e-4)
    batch = _random(2, 24, 16)
    np.testing.assert_allclose(ptx_kernels.matmul(a, batch), a @ batch, rtol=1e-4, atol=1e-4)
    half = ptx_kernels.matmul(a.astype(np.float16), b.astype(np.float16), out_dtype=np.float32)
    np.testing.assert_allclose(half, a @ b, rtol=2e-2, atol=2e-2)


def test_caches() -> None:
    q, k, v = (_random(1, 5, heads, 16, seed=heads).astype(np.float16) for heads in (4, 2, 2))
    k_cache, v_cache = (np.zeros((1, 8, 2, 16), np.float16) for _ in range(2))
    made = ptx_kernels.attention_append(k, v, k_cache, v_cache, np.array([5], np.int32))
    assert made[0] is k_cache and (k_cache[:, :5] == k).all() and (v_cache[:, 5:] == 0).all()
    found = ptx_kernels.attention_decode(q, k_cache, v_cache, np.array([5], np.int32))
    np.testing.assert_allclose(found, references.attention(q, k, v, causal=True), rtol=1e-2, atol=1e-2)
    bytes_of = [np.zeros((1, 8, 2, 16), np.uint8) for _ in range(2)]
    ptx_kernels.attention_append(np.ones_like(k), np.ones_like(v), *bytes_of, np.array([5], np.int32))
    assert (bytes_of[0][:, :5] == 0x38).all(), "one as e4m3"
    found = ptx_kernels.attention_decode_latent(q[:, -1:], k_cache[:, :, :1], np.array([5], np.int32), 8)
    expected = references.attention(q[:, -1:], k[:, :, :1], k[:, :, :1, :8])
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (_random(1, 20, heads, 16, seed=heads).astype(np.float16) for heads in (4, 2, 2))
    found = ptx_kernels.attention(q, k, v, causal=causal)
    np.testing.assert_allclose(found, references.attention(q, k, v, causal), rtol=1e-2, atol=1e-2)
    other = ptx_kernels.attention(*(t.transpose(0, 2, 1, 3) for t in (q, k, v)), causal=causal, layout="bhsd")
    np.testing.assert_allclose(other.transpose(0, 2, 1, 3), found)


def test_options_of_attention() -> None:
    q, k, v = (_random(1, 20, heads, 16, seed=heads).astype(np.float16) for heads in (4, 2, 2))
    bias = _random(1, 4, 20, 20).astype(np.float16)
    for window in ((3, 0), (None, 2), (4, 1)):
        expected = references.attention(q, k, v, window=window, bias=bias)
        np.testing.assert_allclose(ptx_kernels.attention(q, k, v, window=window, bias=bias), expected, rtol=1e-2, atol=1e-2)
    bounds = np.array([0, 3, 3, 20], np.int32)
    found = ptx_kernels.attention_varlen(q[0], k[0], v[0], bounds, bounds, 17, 17, causal=True, window=(5, 0))
    for low, high in ((0, 3), (3, 20)):
        expected = references.attention(*(t[:, low:high] for t in (q, k, v)), causal=True, window=(5, 0))
        np.testing.assert_allclose(found[low:high], expected[0], rtol=1e-2, atol=1e-2)
    decoded = ptx_kernels.attention_decode(q[:, -2:], k, v, np.array([20], np.int32), window=(5, None))
    expected = references.attention(q[:, -2:], k, v, causal=True, window=(5, 0))
    np.testing.assert_allclose(decoded, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_attention_of_e4m3(layout: str) -> None:
    e4m3 = pytest.importorskip("ml_dtypes").float8_e4m3fn
    q, k, v = (_random(2, 20, heads, 32, seed=heads).astype(e4m3) for heads in (4, 2, 2))
    factors = np.array([[0.5, 2.0], [1.0, 0.25]], np.float32)
    scaled = [t.astype(np.float32) * f for t, f in ((q, 1.5), (k, factors[:, None, :, None]), (v, 3.0))]
    expected = references.attention(*scaled, causal=True)
    if layout == "bhsd":
        q, k, v, expected = (t.transpose(0, 2, 1, 3) for t in (q, k, v, expected))
    options: dict[str, Any] = {"causal": True, "layout": layout, "q_descale": 1.5, "k_descale": factors, "v_descale": np.full((), 3.0, np.float32)}
    found = ptx_kernels.attention(q, k, v, out_dtype=np.float16, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)
    out = np.empty_like(found)
    assert ptx_kernels.attention(*(t.view(np.uint8) for t in (q, k, v)), out=out, **options) is out
    np.testing.assert_array_equal(out, found)


def test_matmul_of_8_bits() -> None:
    types = pytest.importorskip("ml_dtypes")
    a, b, scale = _random(2, 5, 32), _random(32, 16), np.abs(_random(2, 5)) + 0.5
    for dtype in (np.int8, types.float8_e4m3fn, types.float8_e5m2):
        x, y = (a * 4).astype(dtype), (b * 4).astype(dtype)
        product = x.astype(np.float32) @ y.astype(np.float32)
        found = ptx_kernels.matmul(x, y, out_dtype=np.float32)
        np.testing.assert_allclose(found, product, rtol=1e-3, atol=1e-3)
        found = ptx_kernels.matmul(x, y.T.copy().T, scale_a=scale, scale_b=0.5, activation="relu", out_dtype=np.float16)
        np.testing.assert_allclose(found, np.maximum(product * scale[..., None] * 0.5, 0.0), rtol=1e-2, atol=1e-2)


def test_more_of_matmul() -> None:
    a, b, residual = _random(2, 5, 24), _random(24, 16), _random(2, 5, 16)
    np.testing.assert_allclose(ptx_kernels.matmul(a, b, residual=residual), a @ b + residual, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ptx_kernels.matmul(a, b, tf32=True), a @ b, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(ptx_kernels.softmax(a, scale=0.5), references.softmax(0.5 * a), rtol=1e-5, atol=1e-5)


def test_norms_of_a_residual_stream() -> None:
    x, w, b, stream = _random(2, 3, 16), _random(16), _random(16, seed=1), _random(2, 3, 16, seed=1)
    before = stream.copy()
    out, after = ptx_kernels.add_rms_norm(x, stream, w)
    assert after is stream
    np.testing.assert_allclose(stream, before + x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(out, references.rms_norm(stream, w), rtol=1e-5, atol=1e-5)
    out, after = ptx_kernels.add_layer_norm(x, stream, w, b)
    np.testing.assert_allclose(out, references.layer_norm(before + 2 * x, w, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("paged", [False, True])
def test_attention_decode(paged: bool) -> None:
    q, k, v = (_random(2, n, heads, 16, seed=seed).astype(np.float16) for n, heads, seed in ((2, 4, 0), (40, 2, 1), (40, 2, 2)))
    lengths = [17, 40]
    caches, table = (k, v), None
    if paged:
        order = np.random.default_rng(3).permutation(10)
        caches = tuple(t.reshape(10, 8, 2, 16)[order].copy() for t in (k, v))
        table = np.argsort(order).reshape(2, 5).astype(np.int32)
    found = ptx_kernels.attention_decode(q, *caches, np.array(lengths, np.int32), block_table=table)
    for at, length in enumerate(lengths):
        expected = references.attention(*(t[at : at + 1] for t in (q, k[:, :length], v[:, :length])), causal=True)
        np.testing.assert_allclose(found[at : at + 1], expected, rtol=1e-2, atol=1e-2)


def test_cross_entropy() -> None:
    logits, targets = _random(6, 30), np.array([0, 5, -100, 29, 7, 1])
    losses = -np.log(references.softmax(logits))[np.arange(6), np.maximum(targets, 0)] * (targets != -100)
    for kind in (np.int64, np.int32):
        found = ptx_kernels.cross_entropy(logits, targets.astype(kind), reduction="none")
        np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ptx_kernels.cross_entropy(logits, targets), losses.sum() / 5, rtol=1e-5)
    assert ptx_kernels.cross_entropy(logits, targets).dtype == np.float32


def test_rotary() -> None:
    x, positions = _random(5, 2, 8), np.arange(5)
    angles = positions[:, None] / 10.0 ** np.arange(4)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., :4], x[..., 4:]
    c, s = cos[:, None], sin[:, None]
    expected = np.concatenate([first * c - second * s, second * c + first * s], -1)
    np.testing.assert_allclose(ptx_kernels.rotary(x, cos, sin, positions), expected, rtol=1e-5, atol=1e-5)


def test_outputs_that_are_passed() -> None:
    x = _random(4, 8)
    memory = np.full((4, 16), 7.0, np.float32)
    assert ptx_kernels.rms_norm(x, out=memory[:, 4:12]) is not None
    np.testing.assert_allclose(memory[:, 4:12], references.rms_norm(x), rtol=1e-5, atol=1e-5)
    assert (memory[:, :4] == 7.0).all() and (memory[:, 12:] == 7.0).all(), "what lies between the rows is others'"


def test_a_library(lib: Any) -> None:
    assert lib.add_one(np.arange(3.0, dtype=np.float32)).tolist() == [1.0, 2.0, 3.0]
    assert lib.scale(np.arange(4, dtype=np.float32)[::2], 3, sign="minus").tolist() == [0.0, -6.0]
    low, high = lib.both(np.array([2.0], np.float32))
    assert (low.item(), high.item()) == (1.0, 4.0)
    assert lib.layout(np.zeros((2, 3, 5, 4), np.float32)).tolist() == [6, 20, 5, 4, 4, 1]
    assert lib.layout(np.zeros((6, 5, 8), np.float32)[:, ::2, :4]).tolist() == [6, 40, 3, 16, 4, 1]
    for dtype in (np.float32, np.float16, np.int32, np.int64, np.uint8):
        x = np.arange(6).astype(dtype).reshape(2, 3)
        assert (lib.copy(x) == x).all() and lib.copy(x).dtype == dtype
    assert str(lib.scale).startswith("<ptx_kernels function scale(x, factor=2.0, twice=False, sign='plus', times=1, *, out=None)>")
    assert "with any stride" in lib.scale.__doc__ and "scale" in dir(lib)
    with pytest.raises(AttributeError, match="exports no function 'missing'"):
        lib.missing


def test_pickling(lib: Any) -> None:
    """As processes pass them to each other."""
    for each in (ptx_kernels.rms_norm, ptx_kernels.library(), ptx_kernels.library().rms_norm, lib, lib.scale):
        assert pickle.loads(pickle.dumps(each)) is each and copy.deepcopy(each) is each


def test_rows_without_elements() -> None:
    for shape in ((0, 8), (4, 0)):
        x, residual = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        assert ptx_kernels.add_rms_norm(x, residual)[0].shape == shape


def test_loading(tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError):
        ptx_kernels.load(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ImportError, match="does not load"):
        ptx_kernels.load(tmp_path / "text.so")


def test_names_of_libraries(lib: Any, tmp_path: Any) -> None:
    """A name stands for one library: programs that are kept name no file."""
    assert ptx_kernels.load(lib._path) is lib
    copy_of = shutil.copy(lib._path, tmp_path)
    with pytest.raises(ImportError, match="a library called 'ptx_ffi_test_library' is loaded already, from .*; rename one of the files"):
        ptx_kernels.load(copy_of)
    with pytest.raises(ImportError, match="operators called aten::… are not its own; rename the file"):
        ptx_kernels.load(shutil.copy(lib._path, tmp_path / "libaten.so"))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_rebuilt_library_runs_its_new_code(lib: Any, tmp_path: Any, in_place: bool) -> None:
    """Whether the linker writes a new file or the old one: new functions run the new code, those of the former load the old one."""
    old = pathlib.Path(lib._path).read_bytes()
    # PTX is compressed there; texts of errors are not.
    new = old.replace(b"sign: expected plus", b"sign: wanted a plus")
    assert new != old, "the error of scale"
    path, x = tmp_path / f"libmine_{in_place}.so", np.arange(5, dtype=np.float32)
    path.write_bytes(old)

    def is_old(library: ptx_kernels.Library) -> bool:
        with pytest.raises(ValueError) as raised:
            library.scale(x, sign="none")
        return "expected plus" in str(raised.value)

    first = ptx_kernels.load(path)
    assert is_old(first)
    if not in_place:
        path.unlink()
    path.write_bytes(new)
    second = ptx_kernels.load(path)
    assert is_old(first) and not is_old(second)
    assert pickle.loads(pickle.dumps(second)) is second


def test_read_only_arrays_are_inputs(lib: Any) -> None:
    """However they came to be read-only; nothing is copied."""
    x, w = _random(4, 8), _random(8)
    frozen = x.copy()
    frozen.flags.writeable = False
    inputs = [frozen, np.frombuffer(x.tobytes(), np.float32).reshape(4, 8), np.broadcast_to(x[0], (4, 8)), frozen[::2], frozen[:, :4], frozen[:0]]
    for each in inputs:
        weight = np.frombuffer(w[: each.shape[1]].tobytes(), np.float32)
        np.testing.assert_array_equal(ptx_kernels.rms_norm(each, weight), ptx_kernels.rms_norm(each.copy(), w[: each.shape[1]]))
        assert not each.flags.writeable
    np.testing.assert_array_equal(ptx_kernels.matmul(frozen, frozen.T), ptx_kernels.matmul(x, x.T))
    np.testing.assert_array_equal(lib.add_one(frozen[0]), x[0] + 1)


def test_inputs_of_any_layout(lib: Any) -> None:
    """As NumPy's own functions take them: what no kernel takes is copied."""
    x = _random(6, 8)
    fields = np.zeros((6, 8), [("tag", "i1"), ("x", "f4")])
    fields["x"] = x
    unaligned = np.ndarray((6, 8), np.float32, bytearray(1 + x.nbytes), 1)
    unaligned[:] = x
    mine = type("Mine", (np.ndarray,), {})
    layouts = [x[::-1], x[:, ::-1], x.T, np.asfortranarray(x), x[:, ::2], x[::3], fields["x"], unaligned, np.broadcast_to(np.float32(2), (6, 8)), x.view(mine)]
    for each in [*layouts, x[::-1, :0], x.reshape(2, 3, 8)[:, ::-1], x.reshape(2, 3, 8).transpose(1, 0, 2)]:
        plain = np.array(each)
        for function in (ptx_kernels.relu, ptx_kernels.rms_norm, ptx_kernels.softmax):
            np.testing.assert_array_equal(function(each), function(plain))
        other = plain.reshape(plain.size // max(plain.shape[-1], 1), plain.shape[-1]).T
        np.testing.assert_allclose(ptx_kernels.matmul(each, other), plain @ other, rtol=1e-5, atol=1e-5)
    assert lib.layout(np.zeros((3, 2, 5, 4), np.float32).transpose(1, 0, 2, 3)).tolist() == [6, 20, 5, 4, 4, 1]
    assert lib.add_one(x[0, ::-1]).tolist() == (x[0, ::-1] + 1).tolist()


def _places(x: Any) -> list[Any]:
    """The same elements, apart, backwards, in other orders, and from an odd address on."""
    apart = np.zeros([2 * size for size in x.shape], x.dtype)[tuple(slice(None, None, 2) for _ in x.shape)]
    inside = np.zeros([*x.shape[:-1], x.shape[-1] + 3], x.dtype)[..., 2:-1]
    unaligned = np.ndarray(x.shape, x.dtype, bytearray(1 + x.nbytes), 1)
    shifted = np.zeros(x.size + 1, x.dtype)[1:].reshape(x.shape)
    for place in (apart, inside, unaligned, shifted):
        place[...] = x
    return [apart, inside, unaligned, shifted, np.flip(np.flip(x).copy()), np.asfortranarray(x)]


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_attention_of_any_layout(layout: str) -> None:
    tensors = [_random(1, 4, 2, 16, seed=seed).astype(np.float16) for seed in range(3)]
    expected = ptx_kernels.attention(*tensors, layout=layout)
    packed = ptx_kernels.attention_varlen(*(t[0] for t in tensors), np.array([0, 1, 4], np.int32), np.array([0, 2, 4], np.int32), 3, 2)
    for at in range(3):
        for place in _places(tensors[at]):
            given = [*tensors[:at], place, *tensors[at + 1 :]]
            np.testing.assert_array_equal(ptx_kernels.attention(*given, layout=layout), expected)
            lengths = _places(np.array([0, 1, 4], np.int32))[0], _places(np.array([0, 2, 4], np.int32))[0]
            np.testing.assert_array_equal(ptx_kernels.attention_varlen(*(t[0] for t in given), *lengths, 3, 2), packed)


@pytest.mark.parametrize(
    "offsets, message",
    [
        ([0, 3, 2, 4], "offsets: 3 is followed by 2"),
        ([0, 2, 3, 5], "offsets: 5 is behind the 4 rows of a"),
        ([-1, 2, 3, 4], "offsets: -1 is negative"),
    ],
)
def test_groups_share_no_rows(offsets: list[int], message: str) -> None:
    a, b = np.zeros((4, 8), np.float32), np.zeros((3, 8, 8), np.float32)
    with pytest.raises(ValueError, match=message):
        ptx_kernels.grouped_matmul(a, b, np.array(offsets, np.int32))


def test_an_array_that_is_not_exported_is_named() -> None:
    class Refusing:
        __module__ = "another"
        shape, dtype = (4, 8), np.dtype(np.float32)

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no memory is given away")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    out = np.empty((4, 8), np.float32)
    with pytest.raises(BufferError, match="rms_norm: x: no memory is given away"):
        ptx_kernels.rms_norm(Refusing(), out=out)


@pytest.mark.parametrize(
    "how, error",
    [
        ("panic", RuntimeError),
        ("condition", ValueError),
        ("memory", MemoryError),
        ("unsupported", NotImplementedError),
        ("other", RuntimeError),
    ],
)
def test_failures(lib: Any, how: str, error: Any) -> None:
    with pytest.raises(error, match="fail: .*on purpose"):
        lib.fail(np.ones(2, np.float32), how)


def test_a_fault_of_the_kernel(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="(?s)stray_kernel.*W0101.*failures.rs"):
        lib.stray(np.ones(2, np.float32))


def test_messages(lib: Any) -> None:
    x, w, bits, targets = _random(4, 8), _random(8), np.zeros((4, 8), np.uint8), np.zeros(4, np.int64)
    read_only = np.ones((4, 8), np.float32)
    read_only.flags.writeable = False
    for call, error, message in [
        (lambda: ptx_kernels.rms_norm(x, w[:7]), ValueError, r"weight: dimension 0 \(n\) has 7 elements, and dimension 1 of x has 8"),
        (lambda: ptx_kernels.rms_norm(x.astype(np.float64)), TypeError, "x: expected a tensor of float32 or float16 or bfloat16"),
        (lambda: ptx_kernels.rms_norm(x, out=x), ValueError, "out: shares memory with x"),
        (lambda: ptx_kernels.rms_norm(x, out=read_only), ValueError, "out: the array is read-only"),
        (lambda: ptx_kernels.rms_norm(x, out=np.zeros((4, 8), np.float32)[::-1]), ValueError, "out: a negative stride"),
        (lambda: ptx_kernels.rms_norm([1.0]), TypeError, "x: expected an array, found list"),
        (lambda: ptx_kernels.rms_norm(None), TypeError, "x: expected an array, found None"),
        (lambda: ptx_kernels.relu(x.astype(object)), TypeError, "relu: x: arrays of object cannot be passed"),
        (lambda: ptx_kernels.relu(np.ma.array(x, mask=x > 0)), TypeError, "relu: x: a masked array, whose mask"),
        (lambda: ptx_kernels.rms_norm(x, w, x.astype(">f4")), TypeError, "rms_norm: eps: expected float, found ndarray"),
        (lambda: ptx_kernels.softmax(x, x), TypeError, "softmax: axis: expected an int, found ndarray"),
        (lambda: ptx_kernels.gelu(x, x), ValueError, "gelu: approximate: expected 'none' or 'tanh', found ndarray"),
        (lambda: ptx_kernels.matmul(x, x.T, activation=x), ValueError, "matmul: activation: expected 'relu', .* found ndarray"),
        (lambda: ptx_kernels.cross_entropy(x, targets, ignore_index=None), TypeError, "cross_entropy: ignore_index: expected an int, found None"),
        (lambda: ptx_kernels.cross_entropy(x, targets, reduction=x), ValueError, "cross_entropy: reduction: .* found ndarray"),
        (lambda: ptx_kernels.swiglu(x, None), TypeError, "up: expected an array, found None"),
        (lambda: ptx_kernels.matmul(x, [1.0]), TypeError, "matmul: b: expected an array, found list"),
        (lambda: ptx_kernels.matmul(bits.view(np.int8), bits.T.view(np.int8), scale_b="2"), TypeError, "scale_b: expected a number or an array"),
        (lambda: ptx_kernels.softmax(None), TypeError, "softmax: x: expected an array, found None"),
        (lambda: ptx_kernels.softmax(x, 0.5), TypeError, "softmax: axis: expected an int, found float"),
        (lambda: ptx_kernels.attention_varlen(None, x, x, x, x, 1, 1), TypeError, "q: expected an array, found None"),
        (lambda: ptx_kernels.attention_decode_latent(x, x, x, -4), ValueError, "v_elements: expected at least 1, found -4"),
        (lambda: ptx_kernels.add_rms_norm(x, None), TypeError, "residual: expected an array, found None"),
        (lambda: ptx_kernels.add_rms_norm(x[0, 0], x[0, 0]), ValueError, "x: expected at least 1 dimensions"),
        (lambda: ptx_kernels.cross_entropy(x, np.zeros(4, np.int32), ignore_index=1 << 32), ValueError, "outside of the targets' 32 bits"),
        (lambda: ptx_kernels.rms_norm(x, eps="small"), TypeError, "eps: expected a float, found a str"),
        (lambda: ptx_kernels.rms_norm(x.astype(complex)), TypeError, "arrays of complex128 cannot be passed"),
        (lambda: ptx_kernels.attention_decode(x, x, x, x), ValueError, "q: expected 4 dimensions"),
        (lambda: ptx_kernels.grouped_matmul(x, x, x), ValueError, "b: expected 3 dimensions"),
        (lambda: ptx_kernels.attention(x, x, x), ValueError, "q: expected 4 dimensions"),
        (lambda: ptx_kernels.attention(x, x, x, window=3), TypeError, "window: expected two numbers"),
        (lambda: ptx_kernels.attention(x, x, x, causal=True, window=(3, 1)), ValueError, "causal attention sees no key behind"),
        (lambda: ptx_kernels.attention(x, x, x, k_descale=2.0), ValueError, "k_descale: not possible for other types"),
        (lambda: ptx_kernels.attention(bits, x, x), TypeError, "k: expected a tensor of uint8, the type of q, found float32"),
        (lambda: ptx_kernels.attention(bits, bits, bits, bias=x), ValueError, "bias: not possible for float8_e4m3fn"),
        (lambda: ptx_kernels.attention(bits, bits, bits), ValueError, "q: expected 4 dimensions"),
        (lambda: ptx_kernels.matmul(x, x, scale_a=2.0), ValueError, "scale_a: not possible for other operands"),
        (lambda: ptx_kernels.matmul(x.astype(np.int8), x), TypeError, "b: expected a tensor of int8, the type of a, found float32"),
        (lambda: ptx_kernels.add_rms_norm(x, x[:2]), ValueError, "residual: expected shape"),
        (lambda: ptx_kernels.add_rms_norm(x[:, ::2], x[:, ::2]), ValueError, "residual: expected a contiguous tensor"),
        (lambda: lib.scale(x[0], times=256), ValueError, "times: 256 is outside of 0 to 255"),
        (lambda: lib.scale(x[0], times=1 << 70), (ValueError, TypeError, OverflowError), "scale|int"),
        (lambda: lib.scale(), TypeError, "missing required argument 'x'"),
        (lambda: lib.scale(x[0], color=1), TypeError, "unexpected keyword argument 'color'"),
        (lambda: lib.scale(x[0], 1.0, False, "plus", 1, 2), TypeError, "takes 5 positional arguments but 6 were given"),
        (lambda: lib.scale(x[0], x=x[0]), TypeError, "multiple values for argument 'x'"),
        (lambda: lib.scale(x[0], sign="times"), ValueError, "expected plus or minus, found times"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_messages_name_the_operation() -> None:
    """Not the function of the library behind it."""
    x, wrong, bits = _random(4, 8), _random(4, 8).astype(np.float64), np.zeros((4, 8), np.int8)
    rows, bytes_ = np.zeros((1, 2, 4, 16), np.float16), np.zeros((1, 2, 4, 16), np.uint8)
    for name, call in [
        ("gelu", lambda: ptx_kernels.gelu(wrong)),
        ("gelu", lambda: ptx_kernels.gelu(x, "tanh", out=x)),
        ("silu", lambda: ptx_kernels.silu(wrong)),
        ("relu", lambda: ptx_kernels.relu(x, out=x[:2])),
        ("swiglu", lambda: ptx_kernels.swiglu(x, x[:2])),
        ("geglu", lambda: ptx_kernels.geglu(x, wrong)),
        ("matmul", lambda: ptx_kernels.matmul(x, x.T, bias=x[0])),
        ("matmul", lambda: ptx_kernels.matmul(x, x.T, activation="relu", out=x[:, :4])),
        ("matmul", lambda: ptx_kernels.matmul(x[None], x[None])),
        ("matmul", lambda: ptx_kernels.matmul(bits, bits.T, scale_a=x)),
        ("attention", lambda: ptx_kernels.attention(rows, rows[:, :, :, :8], rows, layout="bhsd")),
        ("attention", lambda: ptx_kernels.attention(rows, rows, rows, layout="bhsd", out=rows)),
        ("attention", lambda: ptx_kernels.attention(bytes_, bytes_, bytes_, k_descale=x)),
        ("attention", lambda: ptx_kernels.attention(bytes_, bytes_, bytes_, k_descale=x, layout="bhsd")),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            call()


@pytest.mark.parametrize("function", list(ptx_kernels.library()), ids=lambda function: function.name)
def test_wrong_calls(function: Any) -> None:
    """500 calls with arguments that do not fit: an exception each, and nothing is written."""
    random = np.random.default_rng(len(function.name))
    refused = 0
    for _ in range(500):
        values: list[Any] = [WRONG[random.integers(len(WRONG))] for _ in function.params]
        outputs = {}
        for at in function.outputs:
            if random.random() < 0.5:
                shape = tuple(random.integers(1, 6, random.integers(0, 4)))
                values[at] = np.full(shape, 7.0, np.float32)
                outputs[at] = values[at]
        calls = [lambda: function.direct(*values[: random.integers(len(values) + 1)])]
        calls.append(lambda: ptx_kernels._operations.call(function, list(values)))
        try:
            calls[random.integers(2)]()
        except (TypeError, ValueError, RuntimeError, NotImplementedError, OverflowError, BufferError):
            refused += 1
            assert all((output == 7.0).all() for output in outputs.values())
    assert refused >= 495, "almost no random call fits"
