"""Kernels from text with NumPy: results, instances, errors with their places, wrong calls, threads, forks, the end of the interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import pathlib
import pickle
import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from conftest import WRONG

import ptx_kernels

SCALE = """
/// Multiplies every element.
#[ptx_kernel(arch = "sm_80", block = 128, grid = N.div_ceil(128), unsafe(requires(N > 0)))]
fn scale(x: Tile<f32, (N,)>, factor: f32, out: TileMut<f32, (N,)>) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < N {
        let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(i), out.at(i));
        let value: f32;
        ptx! { ld.global.f32 value, [from]; mul.rn.f32 value, value, factor; st.global.f32 [to], value; }
    }
}
"""

SAXPY = """
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, y.len() >= n)))]
fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let (px, py) = (x.at(i), y.at(i));
        let (vx, vy): (f32, f32);
        ptx! { ld.global.f32 vx, [px]; ld.global.f32 vy, [py]; fma.rn.f32 vy, alpha, vx, vy; st.global.f32 [py], vy; }
    }
}
"""

# Adds `EACH` to every element, in blocks of any size and with any type.
ADD = """
#[ptx_module(arch = "sm_80")]
mod kernels {
    const ONE: u32 = 1;

    #[ptx_kernel(instances = [(f32, 64, 1), (i32, 32, 2)], block = BLOCK, grid = N.div_ceil(BLOCK), unsafe(requires(N > 0)))]
    fn add<T, const BLOCK: u32, const EACH: u32>(x: Tile<T, (N,)>, out: TileMut<T, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, to) = (x.at(i), out.at(i));
            let mut value: T;
            ptx! { ld.global.{T} value, [from]; }
            value += EACH as T;
            ptx! { st.global.{T} [to], value; }
        }
    }

    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(N > 0)))]
    fn first(x: Tile<f32, (N,)>, out: TileMut<f32, (ONE,)>) {
        let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(0), out.at(0));
        let value: f32;
        if tid.x == 0 { ptx! { ld.global.f32 value, [from]; st.global.f32 [to], value; } }
    }
}
"""

SHAPE = """
#[ptx_module(arch = "sm_80", params(Line { factor: f32, offset: f32 }))]
mod kernels {
    #[ptx_kernel(block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn line(x: Tile<f32, (N,)>, line: Line, out: TileMut<f32, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(i), out.at(i));
            let (value, factor, offset): (f32, f32, f32);
            factor = line.factor;
            offset = line.offset;
            ptx! { ld.global.f32 value, [from]; fma.rn.f32 value, value, factor, offset; st.global.f32 [to], value; }
        }
    }
}
"""

FIELDS = """
#[ptx_module(arch = "sm_80")]
mod kernels {
    struct Inputs<T> { q: Tile<T, (N,)>, factor: f32 }

    #[ptx_kernel(instances = [(u32), (i32)], block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn product<T>(inputs: Inputs<T>, out: TileMut<f32, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let q: Global<T> = inputs.q;
            let (from, to) = (q.at(i), out.at(i));
            let (number, mut value, factor): (T, f32, f32);
            factor = inputs.factor;
            ptx! { ld.global.{T} number, [from]; cvt.rn.f32.{T} value, number; }
            value *= factor;
            ptx! { st.global.f32 [to], value; }
        }
    }
}
"""

# The square of every element, and its gradient.
SQUARE = """
#[ptx_module(arch = "sm_80")]
mod kernels {
    #[ptx_kernel(instances = [(f32)], block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn square<T>(x: Tile<T, (N,)>, out: TileMut<T, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, to) = (x.at(i), out.at(i));
            let mut value: T;
            ptx! { ld.global.{T} value, [from]; }
            value *= value;
            ptx! { st.global.{T} [to], value; }
        }
    }

    #[ptx_kernel(instances = [(f32)], block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn square_grad<T>(x: Tile<T, (N,)>, grad_out: Tile<T, (N,)>, grad_x: TileMut<T, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, by, to) = (x.at(i), grad_out.at(i), grad_x.at(i));
            let mut value: T;
            let factor: T;
            ptx! { ld.global.{T} value, [from]; ld.global.{T} factor, [by]; }
            value = (value + value) * factor;
            ptx! { st.global.{T} [to], value; }
        }
    }
}
"""

# A factor of 64 bits without a sign, also in the gradient.
WIDE = """
#[ptx_module(arch = "sm_80")]
mod kernels {
    fn scaled(value: f32, factor: u64) -> f32 {
        let by: f32;
        ptx! { cvt.rn.f32.u64 by, factor; }
        value * by
    }

    #[ptx_kernel(block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn wide(x: Tile<f32, (N,)>, factor: u64, out: TileMut<f32, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, to) = (x.at(i), out.at(i));
            let value: f32;
            ptx! { ld.global.f32 value, [from]; }
            let made = scaled(value, factor);
            ptx! { st.global.f32 [to], made; }
        }
    }

    #[ptx_kernel(block = 64, grid = N.div_ceil(64), unsafe(requires(N > 0)))]
    fn wide_grad(grad_out: Tile<f32, (N,)>, factor: u64, grad_x: TileMut<f32, (N,)>) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < N {
            let (from, to) = (grad_out.at(i), grad_x.at(i));
            let value: f32;
            ptx! { ld.global.f32 value, [from]; }
            let made = scaled(value, factor);
            ptx! { st.global.f32 [to], made; }
        }
    }
}
"""

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 out, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %d<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.u32 %p, %r4, %r5;
    @%p bra done;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [out];
    mul.wide.u32 %d3, %r4, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f1, [%d4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%d5], %f2;
done:
    ret;
}
"""
SIGNATURE = "#[ptx_kernel(block = 64, grid = n.div_ceil(64), unsafe(requires(x.len() >= n, out.len() >= n)))] (x: &[f32], out: &mut [f32], n: u32)"


def _x(count: int = 300) -> Any:
    return np.arange(count, dtype=np.float32)


def test_outputs_are_made_or_passed() -> None:
    scale, x = ptx_kernels.kernel(SCALE), _x()
    np.testing.assert_array_equal(scale(x, 3.0), 3 * x)
    np.testing.assert_array_equal(scale(x, factor=3), 3 * x)
    out = np.empty_like(x)
    assert scale(x, 3.0, out=out) is out and (out == 3 * x).all()
    out[:] = 0
    assert scale(x, 3.0, out) is out and (out == 3 * x).all()
    assert scale.__doc__ == "Multiplies every element." and "factor" in str(scale.__signature__)
    x.flags.writeable = False
    np.testing.assert_array_equal(scale(x, 2.0), 2 * x)


def test_memory_without_a_shape_is_passed() -> None:
    saxpy, x, y = ptx_kernels.kernel(SAXPY), _x(), np.ones(300, np.float32)
    assert saxpy(2.0, x, y, 300) is y
    assert list(inspect.signature(saxpy).parameters) == ["alpha", "x", "y", "n"]
    np.testing.assert_array_equal(y, 2 * x + 1)
    # Any number of dimensions, and lengths of their own.
    y = np.ones((2, 5), np.float32)
    saxpy(2.0, x, y, n=10)
    np.testing.assert_array_equal(y.ravel(), 2 * x[:10] + 1)
    with pytest.raises(ValueError, match=r"saxpy: `saxpy` is launched with .*n = 11[\s\S]*y.len\(\) >= n"):
        saxpy(2.0, x, y, 11)


def test_instances_are_chosen_while_the_program_runs() -> None:
    add = ptx_kernels.kernel(ADD, "add")
    x = _x()
    np.testing.assert_array_equal(add(x), x + 1)
    assert (add(x.astype(np.int32)) == x + 2).all(), "the constants of the instance with this type"
    np.testing.assert_array_equal(add.instance(BLOCK=96, EACH=7)(x), x + 7)
    np.testing.assert_array_equal(add["BLOCK":96, "EACH":7](x.astype(np.uint32)), (x + 7).astype(np.uint32))
    np.testing.assert_array_equal(add["f32", 96, 5](x), x + 5)
    assert ".entry add_" in add.instance(T="float32").ptx() and "BLOCK=96" in repr(add.instance(BLOCK=96))
    with pytest.raises(TypeError, match="add has no generic parameter 'block'; it has T, BLOCK, EACH"):
        add.instance(block=3)
    with pytest.raises(TypeError, match=r"add: BLOCK has no argument for T=f64; choose one: add.instance\(BLOCK=…\)"):
        add(x.astype(np.float64))
    with pytest.raises(ptx_kernels.CompileError, match="`many` is no constant"):
        add.instance(T="f32", BLOCK="many", EACH=1)
    module = ptx_kernels.kernels(ADD)
    assert [kernel.name for kernel in module] == ["add", "first"] and module.first(x + 4)[0] == 4
    with pytest.raises(ValueError, match="several kernels; choose one with name=.*add, first"):
        ptx_kernels.kernel(ADD)


def test_structs_are_bytes() -> None:
    class Line(ctypes.Structure):
        _fields_ = [("factor", ctypes.c_float), ("offset", ctypes.c_float)]

    line, x = ptx_kernels.kernel(SHAPE), _x()
    np.testing.assert_array_equal(line(x, Line(2.0, 0.5)), 2 * x + np.float32(0.5))
    np.testing.assert_array_equal(line(x, np.array([2.0, 0.5], np.float32).tobytes()), 2 * x + np.float32(0.5))
    with pytest.raises(ValueError, match="line: line: expected 8 bytes, found 4"):
        line(x, b"1234")
    with pytest.raises(TypeError, match="line: line: expected the bytes of a struct, found float"):
        line(x, 1.0)


def test_structs_of_arguments_are_their_fields() -> None:
    text = SHAPE.replace(", params(Line { factor: f32, offset: f32 })", "")
    line, x = ptx_kernels.kernel(text.replace("mod kernels {", "mod kernels { struct Line { factor: f32, offset: f32 }")), _x()
    np.testing.assert_array_equal(line(x, 2.0, 0.5), 2 * x + np.float32(0.5))
    np.testing.assert_array_equal(line(x, line_offset=0.5, line_factor=2.0), 2 * x + np.float32(0.5))


def test_fields_of_arguments_choose_types() -> None:
    """The type parameter of a field is that of the tensor that is passed for it, by position and by the field's name."""
    product, x = ptx_kernels.kernel(FIELDS), np.arange(-2, 3, dtype=np.int32)
    high = x.astype(np.uint32)
    for values, expected in ((x, 2 * x), (high, 2.0 * high)):
        expected = expected.astype(np.float32)
        np.testing.assert_array_equal(product(values, 2.0), expected)
        np.testing.assert_array_equal(product(inputs_factor=2.0, inputs_q=values), expected)
        np.testing.assert_array_equal(product(values, inputs_factor=2.0, out=np.empty(5, np.float32)), expected)
    np.testing.assert_array_equal(product.instance(T="i32")(inputs_q=x, inputs_factor=2.0), 2.0 * x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'inputs'"):
        product(inputs=x)


def test_ptx_of_other_compilers(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "twice.ptx"
    path.write_text(PTX)
    twice = ptx_kernels.ptx_file(path, "twice", SIGNATURE)
    x, out = _x(), np.zeros(300, np.float32)
    assert twice(x, out, 300) is out
    np.testing.assert_array_equal(out, 2 * x)
    assert twice.ptx() == PTX
    path.write_text(PTX.replace("add.f32", "and.f32"))
    with pytest.raises(ptx_kernels.CompileError, match=r"twice.ptx:23:8") as raised:
        ptx_kernels.ptx_file(path, "twice", SIGNATURE)
    assert raised.value.problems[0].line == 23
    path.write_text(PTX)
    with pytest.raises(ptx_kernels.CompileError, match="signature has 1 parameters, the entry in the PTX 3"):
        ptx_kernels.ptx_file(path, "twice", "(x: &[f32])")
    with pytest.raises(ptx_kernels.CompileError, match="no entry `thrice`"):
        ptx_kernels.ptx_file(path, "thrice", SIGNATURE)
    with pytest.raises(ValueError, match="parameters in parentheses"):
        ptx_kernels.ptx_file(path, "twice", "x: &[f32]")


def test_structs_stand_in_front_of_a_signature(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "twice.ptx"
    path.write_text(PTX.replace(".param .u32 n", ".param .align 4 .b8 n[4]"))
    struct, signature = "#[repr(C)] struct Size { n: u32 } ", SIGNATURE.replace("n: u32", "size: Size")
    for condition in ("grid = n", ">= n"):
        signature = signature.replace(condition, condition[:-1] + "size.n")
    twice, x, out = ptx_kernels.ptx_file(path, "twice", struct + signature), _x(), np.zeros(300, np.float32)
    np.testing.assert_array_equal(twice(x, out, np.uint32(300).tobytes()), 2 * x)
    with pytest.raises(ValueError, match=r"size.n = 300"):
        twice(x, np.zeros(5, np.float32), np.uint32(300).tobytes())


def test_mistakes_have_the_place_in_this_file() -> None:
    with pytest.raises(ptx_kernels.CompileError) as raised:
        ptx_kernels.kernel("""
            #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(N > 0)))]
            fn wrong(x: TileMut<f32, (N,)>) { ptx! { fence.proxy.async; } }
        """)
    error = raised.value
    line = next(at for at, text in enumerate(open(__file__), 1) if "fn wrong" in text)
    assert f"{__file__}:{line}:54" in str(error) and "            ^^^^^" in str(error) and "help: " in str(error)
    [problem] = error.problems
    assert (problem.code, problem.line, problem.column) == ("P0401", line, 54)
    assert "needs target sm_90" in problem.message and problem.help
    assert "P0401" in ptx_kernels.explain("P0401")
    with pytest.raises(ValueError, match="there is no code P9999"):
        ptx_kernels.explain("P9999")
    # A text that is not in this file has a name of its own.
    with pytest.raises(ptx_kernels.CompileError, match="<kernel>:1:"):
        ptx_kernels.kernel("".join(["fn", " no("]))
    with pytest.raises(ptx_kernels.CompileError, match="mine.rs:1:"):
        ptx_kernels.kernel("fn k(", file="mine.rs")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.problems == error.problems


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a device without an end")
def test_files_have_an_end() -> None:
    with pytest.raises(ValueError, match="more than 256 MiB"):
        ptx_kernels.kernel_file("/dev/zero")


def test_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "k.rs"
    path.write_text(SCALE)
    np.testing.assert_array_equal(ptx_kernels.kernel_file(path)(_x(), 2.0), 2 * _x())
    path.write_text(SCALE.replace("mul.rn.f32", "mul.xx.f32"))
    with pytest.raises(ptx_kernels.CompileError, match=r"k.rs:9:\d+"):
        ptx_kernels.kernel_file(path)
    with pytest.raises(FileNotFoundError):
        ptx_kernels.kernel_file(tmp_path / "none.rs")


def test_kernels_are_pickled() -> None:
    add = pickle.loads(pickle.dumps(ptx_kernels.kernel(ADD, "add").instance(BLOCK=32, EACH=9)))
    np.testing.assert_array_equal(add(_x()), _x() + 9)
    scale = ptx_kernels.kernel(SCALE)
    assert pickle.loads(pickle.dumps(scale.function())) is scale.function()


def test_watched_calls_raise_findings() -> None:
    racy = ptx_kernels.kernel("""
        #[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(N > 0)))]
        fn racy(out: TileMut<u32, (N,)>) {
            let to: GlobalMut<u32> = out.at(0);
            let i: u32 = tid.x;
            ptx! { st.global.u32 [to], i; }
        }
    """)
    out = np.zeros(1, np.uint32)
    line = next(at for at, text in enumerate(open(__file__), 1) if "[to], i; }" in text)

    def finds() -> Any:
        return pytest.raises(RuntimeError, match=rf"race[\s\S]*{os.path.basename(__file__)}:{line}")

    # Every call is watched where the environment has PTX_DEVICE=cpu.
    always = os.environ.get("PTX_DEVICE", "").strip().lower() == "cpu"
    outside = finds if always else contextlib.nullcontext
    with outside():
        racy(out=out)
    with ptx_kernels.watched(), finds():
        racy(out=out)
    with outside():
        racy(out=out)
    far = ptx_kernels.kernel(SAXPY.replace("x.len() >= n, ", ""))
    with pytest.raises(RuntimeError, match="no allocation holds"):
        far(1.0, _x(3), _x(64), 64)


def test_instances_are_tuned(tmp_path: pathlib.Path) -> None:
    add, x, records = ptx_kernels.kernel(ADD, "add"), _x(), tmp_path / "tune.json"
    made = []

    def arguments() -> Any:
        made.append(1)
        return (x,)

    space = {"BLOCK": [32, 64, 2048], "EACH": [3], "T": ["f32"]}
    best = ptx_kernels.tune(add, space, arguments, records=records, repeats=2)
    assert (best(x) == x + 3).all() and len(made) == 3
    # A block of 2048 threads is refused by the device.
    assert len(best.tuning) == 2 and all(time > 0 for time in best.tuning.values())
    again = ptx_kernels.tune(add, space, arguments, records=records, repeats=2)
    assert again.choices == best.choices and again.tuning == best.tuning and len(made) == 4, "from the record"
    # A record that was changed does not count, and neither does one for another text, space, or shape.
    records.write_text(records.read_text().replace('"EACH": "3"', '"EACH": "4"'))
    assert ptx_kernels.tune(add, space, arguments, records=records, repeats=1).choices["EACH"] == "3" and len(made) == 7
    ptx_kernels.tune(add, space, lambda: (x[:10],), records=records, repeats=1)
    ptx_kernels.tune(ptx_kernels.kernel(ADD + " ", "add"), space, arguments, records=records, repeats=1)
    assert len(made) == 10
    records.write_text("no JSON")
    ptx_kernels.tune(add, [{"BLOCK": 32, "EACH": 1}], arguments, records=records, repeats=1)
    with pytest.raises(ValueError, match="add: no instance runs\nBLOCK=2048, EACH=1, T=f32: error: .P0609"):
        ptx_kernels.tune(add, [{"BLOCK": 2048, "EACH": 1, "T": "f32"}], arguments)


def test_notebooks() -> None:
    class Shell:
        execution_count = 7

        def __init__(self) -> None:
            self.magics: dict[str, Any] = {}
            self.names: dict[str, Any] = {}

        def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
            assert magic_kind == "cell"
            self.magics[magic_name] = function

        def push(self, names: dict[str, Any]) -> None:
            self.names.update(names)

    shell = Shell()
    ptx_kernels.load_ipython_extension(shell)
    shell.magics["ptx"]("", ADD)
    assert (shell.names["add"](_x()) == _x() + 1).all() and "first" in shell.names


def test_errors_in_notebooks_have_colors() -> None:
    from ptx_kernels import _notebook

    class Shell:
        execution_count = 7

        def register_magic_function(self, function: Any, **_: str) -> None:
            self.ptx = function

    shell = Shell()
    _notebook.load(shell)

    def shown(cell: str, line: str = "") -> str:
        with pytest.raises(ptx_kernels.CompileError) as raised:
            shell.ptx(line, cell)
        return "\n".join(raised.value._render_traceback_())  # type: ignore[attr-defined]

    text = shown(SCALE.replace("mul.rn", "mull.rn"))
    assert "\033[1;31merror" in text and "cell 7:10:" in text and "\033[1;31m^^^" in text
    # A generic kernel has the errors of its first instance.
    assert "cell 7:" in shown(ADD.replace("EACH as T", "missing"))
    for cell, line, message in [
        (SCALE, "--target sm_90", "a target such as `sm_90a` may stand behind `%%ptx`, and this is `--target sm_90`"),
        ("// nothing", "", "cell 7 has no kernel"),
        (SCALE + SCALE, "", "several kernels that are called 'scale'"),
        ("#[ptx_kernel(arch = \"sm_90\", block = 1)] fn m(a: TensorMap) {}", "", "its parameter `a` is a TensorMap"),
    ]:
        assert message in shown(cell, line)


def _many() -> list[Any]:
    """Ten kernels, each with arguments of a right call."""
    x, y = _x(64), np.ones(64, np.float32)
    add = ptx_kernels.kernel(ADD, "add")
    typed = {"float32": "f32", "float64": "f64", "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64"}
    every = [(add.instance(T=name, BLOCK=32, EACH=1), [x.astype(dtype)]) for dtype, name in typed.items()]
    return [
        *every, (ptx_kernels.kernel(SCALE), [x, 2.0]), (ptx_kernels.kernel(SAXPY), [2.0, x, y, 64]),
        (ptx_kernels.kernel(SHAPE), [x, b"\0" * 8]), (ptx_kernels.kernel(ADD, "first"), [x]),
    ]  # fmt: skip


def test_wrong_calls_raise_and_launch_nothing() -> None:
    values = random.Random(0)
    kernels = _many()
    untouched = np.full(64, 7.0, np.float32)
    raised = 0
    while raised < 500:
        kernel, right = values.choice(kernels)
        args, kwargs = list(right), {}
        for _ in range(values.randint(1, 2)):
            place = values.randint(0, len(args) + 1)
            wrong = values.choice(WRONG)
            if place < len(args):
                args[place] = wrong
            elif place == len(args):
                args = args[: values.randint(0, len(args))]
            else:
                kwargs = {values.choice(["out", "x", "nothing", "y"]): wrong}
        kwargs.setdefault("out", untouched)
        before = [np.array(value, copy=True) if isinstance(value, np.ndarray) else value for value in args]
        try:
            kernel(*args, **kwargs)
        except (TypeError, ValueError, BufferError) as error:
            raised += 1
            assert str(error)
            assert (untouched == 7.0).all()
            for value, kept in zip(args, before):
                if isinstance(value, np.ndarray) and value.dtype != object:
                    np.testing.assert_array_equal(value, kept)
        else:
            # A change that fits: the arguments were right, after all.
            untouched[:] = 7.0
            kernels = [(k, [np.ones_like(a) if a is right[-2:][0] and k.name == "saxpy" else a for a in r]) for k, r in kernels]


def test_mutated_texts_are_errors_with_a_place() -> None:
    count = 10_000 if os.environ.get("PTX_THOROUGH") else 150
    values = random.Random(1)
    texts = [SCALE, SAXPY, ADD, SHAPE]
    tokens = ["(", ")", "{", "}", ";", ",", "fn", "let", "0", "-1", "x", "f32", "u64", "ptx!", "<", "#[", "\"", "'", "1e", "unsafe", "\0", "é", "N", "instances = ["]
    for turn in range(count):
        text = values.choice(texts)
        for _ in range(values.randint(1, 4)):
            at, width = values.randrange(len(text)), values.randint(0, 8)
            text = text[:at] + values.choice(["", values.choice(tokens), text[at : at + width] * 2]) + text[at + width :]
        try:
            for kernel in ptx_kernels.kernels(text, file="m.rs"):
                kernel.instance(**{name: value for (name, is_type), value in zip(kernel._generics, ("f32", 32, 1))})
        except ptx_kernels.CompileError as error:
            assert error.problems and all(problem.line > 0 for problem in error.problems), (turn, text, str(error))
        except TypeError as error:
            assert "cannot be called from Python" in str(error) or "generic parameter" in str(error), (turn, text)


def test_threads_compile_and_launch() -> None:
    turns = 1000 if os.environ.get("PTX_THOROUGH") else 12
    failures: list[Any] = []

    def work(thread: int) -> None:
        try:
            x = _x(40)
            for turn in range(turns):
                each = thread * turns + turn
                add = ptx_kernels.kernel(ADD, "add").instance(T="i32", BLOCK=32, EACH=each)
                assert (add(x.astype(np.int32)) == x + each).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_compiles_and_launches() -> None:
    code = f"""
import os, threading, numpy as np, ptx_kernels
text = {ADD!r}
def check(each):
    x = np.arange(40, dtype=np.int32)
    assert (ptx_kernels.kernel(text, "add").instance(T="i32", BLOCK=32, EACH=each)(x) == x + each).all()
stop = False
def work(thread):
    turn = 0
    while not stop:
        check(1000 * thread + turn); turn += 1
threads = [threading.Thread(target=work, args=(at + 1,), daemon=True) for at in range(2)]
[thread.start() for thread in threads]
for turn in range(5):
    child = os.fork()
    if child == 0:
        check(turn); check(100000 + turn)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_the_interpreter_ends_while_a_thread_compiles() -> None:
    code = f"""
import threading, time, numpy as np, ptx_kernels
text = {ADD!r}
def work():
    turn = 0
    while True:
        ptx_kernels.kernel(text, "add").instance(T="f32", BLOCK=32, EACH=turn)(np.ones(3, np.float32)); turn += 1
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_no_rust_toolchain_is_needed() -> None:
    """The first page of the guide, in an environment without cargo and rustc."""
    code = f"""
import shutil, numpy, ptx_kernels
assert shutil.which("cargo") is None and shutil.which("rustc") is None
scale = ptx_kernels.kernel({SCALE!r})
assert (scale(numpy.ones(5, numpy.float32), 2.0) == 2).all()
try:
    ptx_kernels.kernel({SCALE!r}.replace("mul.rn", "mull.rn"))
except ptx_kernels.CompileError as error:
    assert error.problems[0].line == 9 and error.problems[0].column == 45, error
"""
    environment = {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
