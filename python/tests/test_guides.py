"""The Python code of the guides, block by block as a reader runs it, and the examples of kernels."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
from typing import Any

import pytest

import ptx_kernels

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "python" / "examples" / "kernels"
BOOK = ROOT / "docs" / "book" / "text"
GUIDES = [BOOK / "guides" / "notebook.md", BOOK / "guides" / "pyptx.md", BOOK / "tutorial" / "first-kernel.md", ROOT / "docs" / "python.md"]
# Code for a GPU, for another library, or for a library that the reader builds is compiled alone.
ELSEWHERE = ("import torch", "from pyptx", "ptx_kernels.load(", "from jax import export")


class Shell:
    """As much of IPython as the magic needs."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.execution_count = 1
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self.magics[magic_name] = function

    def push(self, names: dict[str, Any]) -> None:
        self.names.update(names)

    def run(self, block: str) -> None:
        first, _, rest = block.partition("\n")
        if first == "%load_ext ptx_kernels":
            ptx_kernels.load_ipython_extension(self)
        elif first.startswith("%%ptx"):
            self.magics["ptx"](first.removeprefix("%%ptx"), rest)
        else:
            code = compile(block, "<guide>", "exec")
            if not any(word in block for word in ELSEWHERE):
                exec(code, self.names)
        self.execution_count += 1


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_code_of_a_guide_runs(path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)
    shell = Shell({"__name__": "guide"})
    for block in blocks:
        shell.run(block)
    assert blocks and "error" not in capsys.readouterr().err


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_row_kernels_are_right(target: str) -> None:
    for columns in (256, 2048):
        errors = _example("rows").check(target, 3, columns)
        assert len(errors) == 6 and max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize(("name", "shape"), [("gemm_ampere", (128, 256, 192)), ("gemm_hopper", (300, 264, 200)), ("grouped_gemm_hopper", (2, 130, 136, 72))])
def test_matrix_products_are_right(name: str, shape: tuple[int, ...]) -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert _example(name).check(*shape, lambda array: jnp.asarray(array, jnp.bfloat16)) == 0


@pytest.mark.parametrize("shape", [(72, 200, 16), (64, 128, 64)])
def test_attention_is_right(shape: tuple[int, ...]) -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert _example("attention_hopper").check(*shape, lambda array: jnp.asarray(array, jnp.bfloat16)) < 2e-3


@pytest.mark.skipif(not (os.environ.get("PTXAS") or shutil.which("ptxas")), reason="no ptxas")
def test_examples_assemble_without_spills() -> None:
    products = [_example(name).gemm for name in ("gemm_ampere", "gemm_hopper")]
    rows = [kernel for target in ("sm_80", "sm_90a") for kernel in _example("rows").kernels(target)]
    for kernel in [*products, _example("grouped_gemm_hopper").grouped_gemm, _example("attention_hopper").attention, *rows]:
        figures = kernel.info()
        assert figures["spill_store_bytes"] == 0 and figures["occupancy"]["blocks"] > 0, (kernel, figures)


def test_transpiled_files_are_kernels(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "twice.ptx"
    with pytest.raises(ptx_kernels.CompileError, match="twice.ptx:2:23"):
        path.write_text(".version 8.0 .target sm_80 .address_size 64\n.visible .entry k() { addd.u32 %r1, 1, 2; }")
        ptx_kernels.load_transpiled(path, "k", "()")
