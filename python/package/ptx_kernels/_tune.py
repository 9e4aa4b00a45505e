"""The choice of a kernel's generic arguments by measuring, with records on disk."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import pathlib
import statistics
import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from ._kernels import CompileError, Kernel, compiler_version

# Bytes that are written between measurements on a GPU, so that a kernel does not find its data in the cache.
_COLD = 256 << 20


def tune(
    kernel: Kernel,
    space: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]],
    make_arguments: Callable[[], Any],
    *,
    records: str | os.PathLike[str] | None = None,
    repeats: int = 20,
) -> Kernel:
    """The fastest instance of a kernel.

    Every instance is compiled and called; those that do not compile, or that refuse the arguments, are left out. On a GPU, times are those of events
    with a cold cache. The median counts.

    Args:
        kernel: a generic kernel.
        space: the values of each parameter, whose combinations are tried, or a list of instances.
        make_arguments: makes the arguments of a call, as a tuple, or as a tuple and a dictionary. It is called once for each instance.
        records: a file of decisions. A decision counts while the kernel's text, the space, the compiler's version, the device and the shapes of the
            arguments are those of the record, and its checksum is right; else the instances are measured again.
        repeats: measurements of an instance.

    Returns:
        The instance; its attribute ``tuning`` has the median times in seconds by instance.

    Raises:
        ValueError: no instance runs; the message has the reason of each.
    """
    if isinstance(space, Mapping):
        candidates = [dict(zip(space, values)) for values in itertools.product(*space.values())]
    else:
        candidates = [dict(choice) for choice in space]
    if not candidates:
        raise ValueError(f"{kernel.name}: the space has no instances")
    args, kwargs = _arguments(make_arguments())
    key = _key(kernel, candidates, args, kwargs)
    known = _read(records, key)
    if known is not None:
        return _chosen(kernel, known["choice"], known["times"])
    times: dict[str, float] = {}
    refused: list[str] = []
    best: tuple[float, dict[str, Any]] | None = None
    for at, candidate in enumerate(candidates):
        if at > 0:
            args, kwargs = _arguments(make_arguments())
        name = ", ".join(f"{parameter}={value}" for parameter, value in candidate.items())
        try:
            times[name] = _measure(kernel.instance(**candidate), args, kwargs, repeats)
        except (CompileError, ValueError, TypeError, NotImplementedError, RuntimeError) as error:
            refused.append(f"{name}: {error}")
            continue
        if best is None or times[name] < best[0]:
            best = (times[name], candidate)
    if best is None:
        raise ValueError(f"{kernel.name}: no instance runs\n" + "\n".join(refused))
    _write(records, key, best[1], times)
    return _chosen(kernel, best[1], times)


def _chosen(kernel: Kernel, choice: Mapping[str, Any], times: dict[str, float]) -> Kernel:
    found = kernel.instance(**choice)
    found.tuning = times
    return found


def _arguments(made: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
        return made
    return (made if isinstance(made, tuple) else (made,)), {}


def _measure(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any], repeats: int) -> float:
    """The median time of a call in seconds."""
    first = next((value for value in (*args, *kwargs.values()) if hasattr(value, "shape")), None)
    kernel(*args, **kwargs)
    if getattr(first, "is_cuda", False):
        return _measure_on_gpu(lambda: kernel(*args, **kwargs), repeats)
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        made = kernel(*args, **kwargs)
        # What JAX returns may be under way.
        getattr(made, "block_until_ready", lambda: None)()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _measure_on_gpu(call: Callable[[], Any], repeats: int) -> float:
    import torch

    cold = torch.empty(_COLD, dtype=torch.int8, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for begin, end in events:
        cold.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return float(statistics.median(begin.elapsed_time(end) for begin, end in events)) / 1000


# Records


def _key(kernel: Kernel, candidates: Sequence[Mapping[str, Any]], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    def described(value: Any) -> str:
        if hasattr(value, "shape"):
            return f"{value.dtype}{tuple(value.shape)}"
        return repr(value)

    given = [described(value) for value in args] + [f"{name}={described(value)}" for name, value in sorted(kwargs.items())]
    parts = [kernel.source.text, kernel.source.target, kernel.name, repr(kernel.choices), repr(candidates), compiler_version(), _device(args), *given]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _device(args: Sequence[Any]) -> str:
    """The name of the device that calls with these arguments run on."""
    for value in args:
        if getattr(value, "is_cuda", False):
            import torch

            return f"{torch.cuda.get_device_name(value.device)} {torch.version.cuda}"
        if type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
            return str(next(iter(value.devices())).device_kind)
        if type(value).__module__.partition(".")[0] == "cupy":
            return str(value.device)
    return "cpu"


def _checksum(record: Mapping[str, Any]) -> str:
    text = json.dumps([record["key"], record["choice"], record["times"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_all(path: pathlib.Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []
    except (OSError, ValueError):
        return []


def _read(path: str | os.PathLike[str] | None, key: str) -> dict[str, Any] | None:
    if path is None:
        return None
    for record in _read_all(pathlib.Path(path)):
        try:
            if record["key"] == key and record["checksum"] == _checksum(record):
                return record
        except (KeyError, TypeError):
            continue
    return None


def _write(path: str | os.PathLike[str] | None, key: str, choice: Mapping[str, Any], times: dict[str, float]) -> None:
    if path is None:
        return
    to = pathlib.Path(path)
    record: dict[str, Any] = {"key": key, "choice": {name: _plain(value) for name, value in choice.items()}, "times": times}
    record["checksum"] = _checksum(record)
    records = [other for other in _read_all(to) if other.get("key") != key] + [record]
    to.parent.mkdir(parents=True, exist_ok=True)
    # Others read the old file or the new one, never a part.
    beside = to.with_name(f"{to.name}.{os.getpid()}")
    beside.write_text(json.dumps(records, indent=1), encoding="utf-8")
    os.replace(beside, to)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, str, bool)) else str(value)
