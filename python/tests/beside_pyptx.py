"""pyptx's examples for Hopper and Ampere beside those of examples/kernels, in one process and in turns: errors against float64, and microseconds of the kernels
alone (a CUDA graph) and of calls from PyTorch, `torch.compile` and `jax.jit`. Needs a Hopper GPU, PyTorch, JAX and pyptx; without a GPU it runs only the examples of
this repository, in small. Arguments choose examples by a part of their names; `--sweep` times instances of the kernels, too."""

from __future__ import annotations

import ast
import importlib
import os
import pathlib
import statistics
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import torch

EXAMPLES = pathlib.Path(os.environ.get("PTX_EXAMPLES", pathlib.Path(__file__).parents[1] / "examples" / "kernels"))
sys.path.insert(0, str(EXAMPLES))

import attention_hopper
import gemm_ampere
import gemm_hopper
import grouped_gemm_hopper
import rows

GPU = torch.cuda.is_available()
ROUNDS = 45
BURST = 4e-3 if GPU else 0.0


@dataclass
class Example:
    """A function of both, and their sizes."""

    name: str
    size: str
    ours: Callable[..., Any]
    # Makes pyptx's function, which needs pyptx and a GPU.
    theirs: Callable[[], Callable[..., Any]]
    inputs: list[torch.Tensor]
    reference: Callable[..., torch.Tensor]
    limit: float
    # Further inputs of pyptx's kernel, and the layout of its result.
    more: list[torch.Tensor] = field(default_factory=list)
    back: Callable[[Any], Any] = lambda result: result
    sweep: dict[str, Callable[..., Any]] = field(default_factory=dict)
    their_inputs: Callable[[list[torch.Tensor]], list[torch.Tensor]] = lambda inputs: inputs
    # A second size is called from PyTorch alone: to compile a function takes seconds.
    again: bool = False


def random(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    values = torch.Generator("cpu").manual_seed(sum(shape))
    made = torch.randn(shape, generator=values) * scale
    return made.to("cuda" if GPU else "cpu", dtype)


def small(shape: list[int], smaller: list[int]) -> list[int]:
    return shape if GPU else smaller


def row_examples(chip: str, shape: list[int]) -> list[Example]:
    """The four kernels over rows, for a chip, with the epsilon of pyptx's."""
    r, c = small(shape, [3, 512])
    kernels = rows.kernels({"ampere": "sm_80", "hopper": "sm_90a"}[chip])
    x, w, b, y = random(r, c), random(c), random(c), random(r, c, scale=0.5)
    functional = torch.nn.functional

    def build(module: str, name: str) -> Callable[[], Any]:
        return lambda: getattr(importlib.import_module(f"pyptx.examples.{chip}.{module}"), name)(r, c)

    def ours(name: str, instance: dict[str, int], **options: float) -> Callable[..., Any]:
        kernel = getattr(kernels, name).instance(T="f32", **instance)
        return lambda *inputs: kernel(*inputs, **options)

    found: list[Example] = []
    for name, inputs, reference, builder, options in [
        ("rms_norm", [x, w], lambda x, w: functional.rms_norm(x, (c,), w, 1e-6), "build_rms_norm", {"epsilon": 1e-6}),
        ("layer_norm", [x, w, b], lambda x, w, b: functional.layer_norm(x, (c,), w, b, 1e-5), "build_layer_norm", {"epsilon": 1e-5}),
        ("softmax", [x], lambda x: torch.softmax(x, -1), "build_softmax", {}),
        ("swiglu", [x, y], lambda g, u: functional.silu(g) * u, "build_fused_silu_mul", {}),
    ]:
        sweep = {
            f"BLOCK {block}": ours(name, {"BLOCK": block, "EACH": 4, "PARTS": c // (4 * block)}, **options)
            for block in (128, 256, 512, 1024)
            if c % (4 * block) == 0
        }
        mine = ours(name, rows.instance(c), **options)
        found.append(Example(f"{chip} {name}", f"{r}x{c}", mine, build(name, builder), inputs, reference, 1e-4, sweep=sweep))
    return found


def product(chip: str, kernel: Callable[..., Any], shape: list[int], theirs: Callable[[int, int, int], Any], **options: Any) -> Example:
    """A product of bf16 matrices, A · Bᵀ."""
    m, n, k = small(shape, [128, 128, 128])
    a, b = random(m, k, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16)
    name = options.pop("name")
    return Example(f"{chip} {name}", f"{m}x{n}x{k}", kernel, lambda: theirs(m, n, k), [a, b], lambda a, b: a @ b.T, options.pop("limit", 1e-4), **options)


def ampere_product(module: str, builder: str, shape: list[int]) -> Example:
    def theirs(m: int, n: int, k: int) -> Any:
        return getattr(importlib.import_module(f"pyptx.examples.ampere.{module}"), builder)(m, n, k)

    text = gemm_ampere.TEXT
    sweep = {
        "4 stages, a block": text.replace("STAGES: u32 = 3", "STAGES: u32 = 4").replace("min_blocks = 2", "min_blocks = 1"),
        "2 stages": text.replace("STAGES: u32 = 3", "STAGES: u32 = 2"),
        "bands of 4": text.replace("N / 128, 8)", "N / 128, 4)"),
        "bands of 16": text.replace("N / 128, 8)", "N / 128, 16)"),
    }
    return product("ampere", gemm_ampere.gemm, shape, theirs, name=module, sweep=compiled(sweep))


def compiled(texts: dict[str, str]) -> dict[str, Callable[..., Any]]:
    import ptx_kernels

    return {name: ptx_kernels.kernel(text) for name, text in texts.items()} if "--sweep" in sys.argv else {}


def hopper_product(shape: list[int]) -> Example:
    m, n, _ = small(shape, [128, 128, 128])

    def theirs(m: int, n: int, k: int) -> Any:
        return importlib.import_module("pyptx.examples.hopper.gemm_highperf_hopper").gemm_warp_specialized

    more = []
    if GPU:
        schedule = importlib.import_module("pyptx.examples.hopper.gemm_highperf_hopper").create_hilbert_schedule(m // 256, n // 256)
        more = [torch.tensor(schedule, dtype=torch.int32, device="cuda")]
    text = gemm_hopper.TEXT
    sweep = {
        "forward only": text.replace("1 - range.backward", "0"),
        "no stagger": text.replace("multiply_tile::<bf16, 3>", "multiply_tile::<bf16, 0>"),
        "raster 8, 1": text.replace("(M, N, 4, 8)", "(M, N, 8, 1)"),
        "raster 8, 4": text.replace("(M, N, 4, 8)", "(M, N, 8, 4)"),
        "64 clusters": text.replace("min(66)", "min(64)"),
    }
    options = {"limit": 6e-3, "more": more, "back": lambda c: c.T, "sweep": compiled(sweep)}
    return product("hopper", gemm_hopper.gemm, shape, theirs, name="gemm_highperf_hopper", **options)


def grouped(shape: list[int]) -> Example:
    g, m, n, k = small(shape, [2, 64, 64, 128])
    a, b = random(g, m, k, dtype=torch.bfloat16, scale=0.1), random(g, k, n, dtype=torch.bfloat16, scale=0.1)
    kernel = grouped_gemm_hopper.grouped_gemm

    def theirs() -> Any:
        return importlib.import_module("pyptx.examples.hopper.grouped_gemm").build_grouped_gemm(g, m, n, k)

    def flat(inputs: list[Any]) -> list[Any]:
        return [inputs[0].reshape(g * m, k), inputs[1].reshape(g * k, n)]

    sweep = {f"{block} {stages}": kernel.instance(BLOCK_M=block, BLOCK_N=64, STAGES=stages) for block in (64, 128) for stages in (4, 6, 8)}
    options = {"their_inputs": flat, "back": lambda c: c.reshape(g, m, n), "sweep": sweep}
    return Example("hopper grouped_gemm", f"{g}x{m}x{n}x{k}", kernel, theirs, [a, b], torch.bmm, 1e-4, **options)


def attention(module: str, builder: str, shape: list[int]) -> Example:
    m, n, d = small(shape, [128, 128, shape[2]])
    q, k, v = (random(rows, d, dtype=torch.bfloat16, scale=0.3) for rows in (m, n, n))

    def theirs() -> Any:
        build = getattr(importlib.import_module(f"pyptx.examples.hopper.experimental.{module}"), builder)
        return {"build_flash_attention_hopper": lambda: build(m, n, d), "build_flash_attention_parallel": lambda: build(m, n)}.get(builder, lambda: build(n))()

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.T / d**0.5, -1) @ v

    def turned(inputs: list[Any]) -> list[Any]:
        return [inputs[0], inputs[1].T.contiguous() if isinstance(inputs[1], torch.Tensor) else inputs[1].T, inputs[2]]

    kernel = attention_hopper.attention.instance(D=d)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return kernel(q, k, v, scale=d**-0.5)

    return Example(f"hopper {module}", f"{m}x{n}x{d}", ours, theirs, [q, k, v], reference, 1e-2, their_inputs=turned)


def again(make: Callable[[], list[Example]]) -> Callable[[], list[Example]]:
    return lambda: [replace(example, again=True) for example in make()] if GPU else []


def examples() -> list[Callable[[], list[Example]]]:
    return [
        lambda: [hopper_product([4096] * 3)],
        lambda: [grouped([8, 2048, 64, 2048])],
        lambda: row_examples("hopper", [2048, 8192]),
        lambda: [attention("flash_attention_hopper", "build_flash_attention_hopper", [2048, 2048, 64])],
        lambda: [attention("flash_attention_parallel", "build_flash_attention_parallel", [2048, 2048, 16])],
        lambda: [attention("flash_attention_wgmma_kloop", "build_flash_attention_kloop", [64, 1024, 16])],
        lambda: [ampere_product("gemm_highperf_ampere", "build_gemm_highperf", [4096] * 3)],
        lambda: [ampere_product("gemm_pipelined", "build_gemm_pipelined", [2048] * 3)],
        lambda: [ampere_product("gemm", "build_gemm", [1024] * 3)],
        lambda: row_examples("ampere", [2048, 8192]),
        again(lambda: [hopper_product([8192] * 3)]),
        again(lambda: [grouped([8, 512, 64, 512])]),
        again(lambda: row_examples("hopper", [256, 4096])),
        again(lambda: [attention("flash_attention_hopper", "build_flash_attention_hopper", [2048, 2048, 16])]),
        again(lambda: row_examples("ampere", [256, 4096])),
    ]


def error(result: Any, expected: torch.Tensor) -> float:
    """Relative to the largest value; infinite if a value is none."""
    if not isinstance(result, torch.Tensor):
        result = torch.from_dlpack(result)
    off = (result.double() - expected).abs().max() / expected.abs().max()
    return float("inf") if off.isnan() else float(off)


def wait(result: Any) -> None:
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
    elif GPU:
        torch.cuda.synchronize()


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """The mean time of a call in each round, in microseconds."""
    counts, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(3):
            wait(call())
        start = time.perf_counter()
        for _ in range(5):
            result = call()
        wait(result)
        counts[name] = max(1, int(BURST / ((time.perf_counter() - start) / 5)))
    order = list(calls)
    for _ in range(ROUNDS if GPU else 1):
        for name in order:
            start = time.perf_counter()
            for _ in range(counts[name]):
                result = calls[name]()
            wait(result)
            times[name].append((time.perf_counter() - start) / counts[name] * 1e6)
        order.reverse()
    return times


def graph_of(call: Callable[[], Any], times: int = 10) -> Callable[[], Any]:
    """A CUDA graph of calls: their kernels, without the host."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for _ in range(times):
            kept.append(call())
    return lambda: (graph.replay(), kept)[0]


def to_jax(tensor: torch.Tensor) -> Any:
    import jax
    import jax.numpy as jnp

    array = jax.dlpack.from_dlpack(tensor.contiguous())
    return array.astype(jnp.uint32) if tensor.dtype == torch.int32 else array


def modes(function: Callable[..., Any], inputs: list[torch.Tensor]) -> dict[str, Callable[[], Callable[[], Any]]]:
    """How each runtime calls a function: what makes the call."""

    def jit() -> Callable[[], Any]:
        import jax

        made, arrays = jax.jit(function), [to_jax(tensor) for tensor in inputs]
        return lambda: made(*arrays)

    def compile() -> Callable[[], Any]:
        made = torch.compile(function, fullgraph=True)
        return lambda: made(*inputs)

    found = {"eager": lambda: lambda: function(*inputs), "compile": compile, "jit": jit}
    return {"graph": lambda: graph_of(lambda: function(*inputs)), **found} if GPU else found


def compare(example: Example) -> None:
    exact = [tensor.double() if tensor.is_floating_point() else tensor for tensor in example.inputs]
    expected = example.reference(*exact)
    sides = {"ours": (modes(example.ours, example.inputs), lambda result: result)}
    if GPU:
        theirs = example.theirs()
        inputs = example.their_inputs(example.inputs) + example.more
        sides["pyptx"] = (modes(theirs, inputs), example.back)
    for mode in ("graph", "eager") if example.again else sides["ours"][0]:
        calls, errors = {}, {}
        for side, (made, back) in sides.items():
            try:
                call = made[mode]()
                if mode != "graph":
                    errors[side] = error(back(call()), expected)
                else:
                    wait(call())
                calls[side] = call
            except Exception as problem:  # One that does not work is a row of the table.
                print(f"{example.name:34} {example.size:16} {mode:8} {side}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        report(example, mode, in_turns(calls), errors)
    if GPU and "--sweep" in sys.argv and example.sweep:
        calls = {name: graph_of(lambda call=call: call(*example.inputs)) for name, call in example.sweep.items()}
        times = in_turns({"as it is": graph_of(lambda: example.ours(*example.inputs)), **calls})
        print(f"{'':34} sweep", *(f"{name}: {statistics.median(each) / 10:.2f}" for name, each in times.items()), sep="  ", flush=True)


def report(example: Example, mode: str, times: dict[str, list[float]], errors: dict[str, float]) -> None:
    """Medians. The ratio is that of neighbors: the clocks of host and GPU change within a run."""
    each = 10 if mode == "graph" else 1
    ours, theirs = (statistics.median(times.get(side, [float("nan")])) / each for side in ("ours", "pyptx"))
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times["pyptx"])) if len(times) == 2 else float("nan")
    off = "  ".join(f"{errors[side]:.1e}{'' if errors[side] <= example.limit else ' WRONG'}" for side in errors)
    print(f"{example.name:34} {example.size:16} {mode:8} {ours:9.2f} {theirs:9.2f} {ratio:6.3f}  {off}", flush=True)


def lines(path: pathlib.Path) -> int:
    """Lines of code: no blank ones, comments or docstrings."""
    text = path.read_text()
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            skipped.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in skipped]
    return sum(bool(line) and not line.startswith(("# ", "//")) for line in code)


def count_lines() -> None:
    import pyptx

    theirs = pathlib.Path(pyptx.__file__).parent / "examples"
    ours = {"rows": rows, "gemm_hopper": gemm_hopper, "grouped_gemm_hopper": grouped_gemm_hopper, "gemm_ampere": gemm_ampere, "attention_hopper": attention_hopper}
    for name, module in ours.items():
        print(f"lines of code  {name:40} {lines(pathlib.Path(module.__file__)):5}")
    for path in sorted([*theirs.glob("hopper/*.py"), *theirs.glob("ampere/*.py"), *theirs.glob("hopper/experimental/*.py")]):
        if path.name != "__init__.py":
            print(f"lines of code  pyptx {str(path.relative_to(theirs)):34} {lines(path):5}")


def main() -> None:
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    try:
        count_lines()
    except ImportError:
        print("pyptx is not installed")
    print(f"{'example':34} {'size':16} {'mode':8} {'ours us':>9} {'pyptx us':>9} {'ratio':>6}  errors")
    for make in examples():
        for example in make():
            if not wanted or any(part in example.name for part in wanted):
                try:
                    compare(example)
                except Exception as problem:  # The next one may work.
                    print(f"{example.name:34} {example.size:16} {type(problem).__name__}: {str(problem)[:300]}", flush=True)


if __name__ == "__main__":
    main()
