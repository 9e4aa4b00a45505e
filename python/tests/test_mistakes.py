"""Mistakes of somebody who writes kernels from text: each is an exception that names the mistake, and nothing is lost."""

from __future__ import annotations

import inspect
import json
import pathlib
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

BITS = {"f16": "b16", "f32": "f32", "f64": "f64", "u8": "u8", "i16": "s16", "u32": "u32", "i64": "s64"}


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
    stores = {ty: ptx_kernels.kernel(STORE.replace("TYPE", ty).replace("BITS", bits)) for ty, bits in BITS.items()}
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


def test_differentiable_takes_kernels() -> None:
    scale = ptx_kernels.kernel(SCALE)
    for wrong in [None, SCALE, ptx_kernels.rms_norm]:
        with pytest.raises(TypeError, match="backward: expected a kernel from text, found"):
            ptx_kernels.differentiable(scale, wrong)  # type: ignore[arg-type]
    back = ptx_kernels.kernel(SCALE.replace("scale", "back").replace("x:", "grad_out:").replace("out:", "grad_x:").replace("grad_grad_x", "grad_out"))
    assert repr(ptx_kernels.differentiable(scale, back)["f32", 32]).startswith("<ptx_kernels.Differentiable <ptx_kernels.Kernel scale[T=f32, BLOCK=32]>")


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
