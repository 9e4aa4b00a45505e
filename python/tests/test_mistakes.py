"""Mistakes of somebody who writes kernels from text: each is an exception that names the mistake, and nothing is lost."""

from __future__ import annotations

import inspect
import json
import pathlib
import pickle
import threading
from typing import Any, Callable

import numpy as np
import pytest

import ptx_kernels

SCALE = """
#[ptx_kernel(arch = "sm_80", block = BLOCK, grid = N.div_ceil(BLOCK), unsafe(requires(N > 0)), instances = [(f32, 64)])]
fn scale<T, const BLOCK: u32>(x: Tile<T, (N,)>, lambda: T, out: TileMut<T, (N,)>) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < N {
        let (from, to, value): (Global<T>, GlobalMut<T>, T);
        (from, to) = (x.at(i), out.at(i));
        ptx! { ld.global.{T} value, [from]; mul.rn.{T} value, value, lambda; st.global.{T} [to], value; }
    }
}
"""

STORE = """
#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(N > 0)))]
fn store(x: Tile<f32, (N,)>, value: TYPE, out: TileMut<TYPE, (N,)>) {
    if tid.x < N {
        let to = out.at(tid.x);
        ptx! { st.global.BITS [to], value; }
    }
}
"""

BITS = {"f16": "b16", "f32": "f32", "f64": "f64", "u8": "u8", "i16": "s16", "u32": "u32", "i64": "s64", "u64": "u64"}


def _x() -> Any:
    return np.arange(4, dtype=np.float32)


def test_keywords_are_parameters_with_an_underscore() -> None:
    scale = ptx_kernels.kernel(SCALE)
    assert list(inspect.signature(scale["f32", 32]).parameters) == ["x", "lambda_", "out"]
    np.testing.assert_array_equal(scale(_x(), lambda_=3.0), 3 * _x())
    with pytest.raises(TypeError, match="unexpected keyword argument 'lambda'; its parameters are x, lambda_, out"):
        scale(_x(), **{"lambda": 3.0})
    taken = ptx_kernels.kernel(SCALE.replace("lambda: T", "lambda: T, lambda_: u32"))
    assert list(inspect.signature(taken["f32", 32]).parameters) == ["x", "lambda_", "lambda__", "out"]


def test_numbers_that_a_type_cannot_hold() -> None:
    stores = _stores()
    wrong: dict[str, list[Any]] = {
        "f16": [65520, 7e4, -1e40], "f32": [1e40, -3.5e38, np.float64(1e300)], "u8": [256, -1], "i16": [1 << 15, -40000], "u32": [-1, 1 << 32],
    }  # fmt: skip
    for ty, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="store: value: .* (is too large for float|is outside of)"):
                stores[ty](_x(), value)
    right: dict[str, list[Any]] = {
        "f16": [65504, 65519.9, float("inf")], "f32": [3.4028235e38, -float("inf"), float("nan"), 1e-60, np.float32(2)], "f64": [1e300],
        "u8": [255, True], "i16": [-(1 << 15)], "u32": [(1 << 32) - 1], "i64": [-(1 << 63)],
    }  # fmt: skip
    for ty, values in right.items():
        for value in values:
            made = stores[ty](_x(), value)
            np.testing.assert_array_equal(made, np.full(4, value, made.dtype))


def _stores() -> dict[str, Any]:
    return {ty: ptx_kernels.kernel(STORE.replace("TYPE", ty).replace("BITS", bits)) for ty, bits in BITS.items()}


def test_integers_of_64_bits() -> None:
    stores, x = _stores(), _x()
    ends: dict[str, tuple[int, int]] = {"i64": (-(1 << 63), (1 << 63) - 1), "u64": (0, (1 << 64) - 1)}
    for ty, (low, high) in ends.items():
        for value in [low, low + 1, high - 1, high, 1 << 62]:
            for given in [value, getattr(np, f"{'u' * (ty == 'u64')}int64")(value)]:
                made = stores[ty](x, given)
                assert made.dtype.name == f"{'u' * (ty == 'u64')}int64" and [int(one) for one in made] == [value] * 4
        for value in [low - 1, high + 1, 1 << 80, -(1 << 90)]:
            with pytest.raises(ValueError, match=f"store: value: {value} is outside of {low} to {high}"):
                stores[ty](x, value)
    with pytest.raises(TypeError, match="store: value: expected an int, found an int of more than 128 bits"):
        stores["u64"](x, 1 << 200)
    assert list(stores["u64"](x, np.uint64((1 << 64) - 1))) == [(1 << 64) - 1] * 4
    out = np.empty(4, np.uint64)
    stores["u64"].direct(x, (1 << 64) - 1, out)
    assert list(out) == [(1 << 64) - 1] * 4
    assert stores["f64"](x, 1 << 64)[0] == 2.0**64


def test_numbers_of_numpy() -> None:
    stores, x = _stores(), _x()
    subnormal, tie = 2.0**-24, 1 + 2.0**-11
    for value in [0.1, -0.0, subnormal, subnormal / 2, subnormal * 1.5, subnormal / 2 + 2.0**-60, tie, tie + 2.0**-40, 1e-310, 5e-324, float("inf")]:
        for ty, dtype in [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)]:
            for given in [value, np.float64(value), np.longdouble(value), dtype(value)]:
                made = stores[ty](x, given)
                np.testing.assert_array_equal(made.view(f"u{made.itemsize}"), np.full(4, dtype(value)).view(f"u{made.itemsize}"))
    for given in [np.float16(3), np.uint8(3), np.int64(3)]:
        assert stores["f32"](x, given)[0] == 3.0
    for given in [np.uint8(1), np.int64(1), np.bool_(True), True]:
        assert stores["u8"](x, given)[0] == 1
    for given in [np.bool_(True), True]:
        with pytest.raises(TypeError, match="store: value: expected a float, found a bool"):
            stores["f32"](x, given)
    for ty in ["f16", "f32", "f64"]:
        with pytest.raises(ValueError, match=f"store: value: .* is too large for float{ty[1:]}"):
            stores[ty](x, np.longdouble("1e4000"))
    assert np.isnan(stores["f32"](x, np.longdouble("nan"))[0])
    for given in [np.complex64(1 + 2j), np.str_("2"), np.bytes_(b"2"), np.datetime64(2, "s"), np.timedelta64(2, "s"), np.array(2.0), 2j, "2", None, [2]]:
        for ty in ["f32", "u8", "u64"]:
            with pytest.raises(TypeError, match="store: value: |store.. missing required argument 'value'"):
                stores[ty](x, given)
    for given in [np.float32(3), 3.0, np.float64(3)]:
        with pytest.raises(TypeError, match="store: value: expected an int, found a float"):
            stores["u8"](x, given)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert stores["f32"](x, ml_dtypes.bfloat16(1.5))[0] == 1.5
    assert stores["f16"](x, ml_dtypes.float8_e4m3fn(1.5))[0] == 1.5


def test_generic_arguments() -> None:
    scale = ptx_kernels.kernel(SCALE)
    for wrong, message in [
        (lambda: scale["BLOCK":32, "BLOCK":64], "got multiple values for its generic parameter 'BLOCK'"),
        (lambda: scale["f32", "T":"f16"], "got multiple values for its generic parameter 'T'"),
        (lambda: scale["BLOCK":32:64], 'is written "NAME":value'),
        (lambda: scale[:32], 'is written "NAME":value'),
        (lambda: scale[None], "and not None"),
        (lambda: scale["BLOK":32], "scale has no generic parameter 'BLOK'; it has T, BLOCK"),
        (lambda: scale(_x().astype(np.float64), 2.0), "BLOCK has no argument for T=f64"),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match=message):
            wrong()


def test_texts_and_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "k.rs"
    path.write_text(SCALE)
    scale = ptx_kernels.kernel_file(path)
    path.unlink()
    np.testing.assert_array_equal(scale["f32", 32](_x(), 2.0), 2 * _x())
    path.write_bytes(SCALE.replace("fn", "// é\nfn").encode("latin-1"))
    kernel, of_file = ptx_kernels.kernel, ptx_kernels.kernel_file
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: of_file(path), ValueError, r"`.*k.rs` is no text in UTF-8: byte 0xe9 in line 3"),
        (lambda: of_file(tmp_path), IsADirectoryError, "directory"),
        (lambda: of_file(3), TypeError, "os.PathLike"),  # type: ignore[arg-type]
        (lambda: kernel(path), TypeError, "found PosixPath; ptx_kernels.kernel_file reads a file"),  # type: ignore[arg-type]
        (lambda: kernel("k.rs"), TypeError, "found 'k.rs'; ptx_kernels.kernel_file reads a file"),
        (lambda: kernel(SCALE, target=80), TypeError, "target: expected a str"),  # type: ignore[arg-type]
        (lambda: kernel("__global__ void f() {}"), ptx_kernels.CompileError, "help: this is CUDA"),
        (lambda: kernel("def f(x): return x"), ptx_kernels.CompileError, "help: this is Python"),
        (lambda: kernel(".version 8.0\n.target sm_80"), ptx_kernels.CompileError, "help: this is PTX"),
        (lambda: ptx_kernels.ptx_file(path, "k", None), ValueError, "UTF-8"),  # type: ignore[arg-type]
    ]
    for call, kind, message in wrong:
        with pytest.raises(kind, match=message):
            call()


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 x)
.LIMIT 64
{
    .reg .b32 %r<2>;
    .reg .b64 %d<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [x];
    mul.wide.u32 %d2, %r1, 4;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r1;
    ret;
}
"""


def test_launches_are_whole(tmp_path: pathlib.Path) -> None:
    """No part of a launch is guessed: a call with too few threads would return wrong values."""
    with pytest.raises(TypeError, match="`scale` cannot be called from Python: its attribute has no `grid`; write `grid = 1`"):
        ptx_kernels.kernel(SCALE.replace("grid = N.div_ceil(BLOCK), ", ""))(_x(), 2.0)
    path, x = tmp_path / "k.ptx", np.zeros(64, np.uint32)
    for limit, block, message in [
        ("reqntid", 32, r"the entry needs blocks of 64 threads: it has `.reqntid`(.|\n)*help: write `block = 64`, or leave it out"),
        ("reqntid", "(32, 2)", "the entry needs blocks of 64 threads"), ("maxntid", "[64, 2]", "the entry takes blocks of at most 64 threads"),
    ]:  # fmt: skip
        path.write_text(PTX.replace("LIMIT", limit))
        with pytest.raises(ptx_kernels.CompileError, match=message):
            ptx_kernels.ptx_file(path, "fill", f"#[ptx_kernel(block = {block}, grid = 1)] (x: &mut [u32])")
    for limit, block in [("reqntid", ""), ("reqntid", "block = 64, "), ("reqntid", "block = (64, 1), "), ("maxntid", "block = (8, 8), ")]:
        path.write_text(PTX.replace("LIMIT", limit))
        for load in (ptx_kernels.ptx_file, ptx_kernels.load_transpiled):
            made = load(path, "fill", f"#[ptx_kernel({block}grid = 1)] (x: &mut [u32])")(x)
            assert made[7] == 7
        with pytest.raises(TypeError, match="`fill` cannot be called from Python: its attribute has no `grid`"):
            ptx_kernels.ptx_file(path, "fill", "#[ptx_kernel(block = 64)] (x: &mut [u32])" if limit == "maxntid" else "(x: &mut [u32])")


def test_figures_are_those_of_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    kernel, other = ptx_kernels.kernel(SCALE)["f32", 32], tmp_path / "ptxas"
    monkeypatch.setenv("PTXAS", str(other))
    with pytest.raises(NotImplementedError, match="ptxas` cannot be run: No such file or directory; set PTXAS to the program"):
        kernel.info()
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with pytest.raises(RuntimeError, match="ptxas` reports no registers of scale_f32_32"):
        kernel.info()


def test_differentiable_takes_kernels() -> None:
    scale = ptx_kernels.kernel(SCALE)
    for wrong in [None, SCALE, ptx_kernels.rms_norm]:
        with pytest.raises(TypeError, match="backward: expected a kernel from text, found"):
            ptx_kernels.differentiable(scale, wrong)  # type: ignore[arg-type]
    text = SCALE.replace("scale", "back").replace("(x: Tile", "(grad_out: Tile").replace(" out: TileMut", " grad_x: TileMut")
    back = ptx_kernels.kernel(text.replace("(x.at(i), out.at(i))", "(grad_out.at(i), grad_x.at(i))"))
    both = ptx_kernels.differentiable(scale, back)["f32", 32]
    assert repr(both).startswith("<ptx_kernels.Differentiable <ptx_kernels.Kernel scale[T=f32, BLOCK=32]>")
    assert (both.ptx(), both.rust, both.source, both.choices) == (scale["f32", 32].ptx(), scale.rust, scale.source, {"T": "f32", "BLOCK": "32"})
    assert both.explain("P0201") == ptx_kernels.explain("P0201")
    public = {name for name in dir(scale) if not name.startswith("_")}
    assert public - set(dir(both)) <= {"tuning"}, "a differentiable kernel answers as a kernel does"
    again = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(again(_x(), 2.0), 2 * _x())
    function = both.function(_x(), 2.0)
    assert pickle.loads(pickle.dumps(function)) is function and function.backward is not None


def test_tune_refuses_before_it_measures(tmp_path: pathlib.Path) -> None:
    scale, tune = ptx_kernels.kernel(SCALE), ptx_kernels.tune
    made: list[int] = []

    def arguments() -> Any:
        made.append(1)
        return [_x(), 2.0]

    space: Any = {"BLOCK": [32, 64]}
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: tune(SCALE, space, arguments), TypeError, "kernel: expected a kernel from text, found str"),  # type: ignore[arg-type]
        (lambda: tune(scale, {}, arguments), ValueError, "the space has no instances"),
        (lambda: tune(scale, {"BLOCK": "64"}, arguments), TypeError, "space: expected a list of values .* found '64'"),
        (lambda: tune(scale, {"BLOCK": 64}, arguments), TypeError, "space: .* found 64"),  # type: ignore[dict-item]
        (lambda: tune(scale, ["BLOCK"], arguments), TypeError, "space: .* found 'BLOCK'"),  # type: ignore[list-item]
        (lambda: tune(scale, None, arguments), TypeError, "space: .* found None"),  # type: ignore[arg-type]
        (lambda: tune(scale, space, (1,)), TypeError, "make_arguments: expected a function"),  # type: ignore[arg-type]
        (lambda: tune(scale, space, arguments, repeats=0), ValueError, "repeats: expected an integer from 1 on"),
        (lambda: tune(scale, space, arguments, records=tmp_path), IsADirectoryError, "a folder"),
        (lambda: tune(scale, space, arguments, records="/dev/full"), OSError, "a device or a pipe"),
    ]
    for call, kind, message in wrong:
        with pytest.raises(kind, match=message):
            call()
    assert not made
    with pytest.raises(ValueError, match="BLOCK=0: error: .P0609. `0` is no extent of a block"):
        tune(scale, {"BLOCK": [0]}, arguments)


def test_records_of_tune(tmp_path: pathlib.Path) -> None:
    scale, records = ptx_kernels.kernel(SCALE), tmp_path / "a" / "records.json"
    space: Any = {"T": [np.float32, "f32"], "BLOCK": [np.int64(32)]}
    for _ in range(2):
        found = ptx_kernels.tune(scale, space, lambda: (_x(), 2.0), records=records, repeats=1)
        assert found.choices == {"T": "f32", "BLOCK": "32"}
    records.write_text("notes of somebody")
    ptx_kernels.tune(scale, space, lambda: (_x(), 2.0), records=records, repeats=1)
    assert (records.parent / "records.json.old").read_text() == "notes of somebody"

    def of(block: int) -> None:
        ptx_kernels.tune(scale, {"T": ["f32"], "BLOCK": [block]}, lambda: (_x(), 2.0), records=records, repeats=1)

    threads = [threading.Thread(target=of, args=(32 * block,)) for block in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(records.read_text())) == 9
    assert sorted(path.name for path in records.parent.iterdir()) == ["records.json", "records.json.old"]
