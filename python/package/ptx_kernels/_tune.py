"""The choice of a kernel's generic arguments by measuring, with records on disk."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import pathlib
import statistics
import threading
import time
import warnings
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ._kernels import CompileError, Kernel, argument, compiler_version, expect_kernel

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

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
        TypeError, ValueError: an argument of this function is wrong, or no instance runs; the message has the reason of each.
        OSError: there can be no such file of records. A decision that cannot be written at the end is a warning.
    """
    expect_kernel("tune", "kernel", kernel)
    if not callable(make_arguments):
        raise TypeError(f"tune(): make_arguments: expected a function, found {type(make_arguments).__name__}")
    if not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"tune(): repeats: expected an integer from 1 on, found {repeats!r}")
    candidates = _candidates(space)
    if not candidates:
        raise ValueError(f"{kernel.name}: the space has no instances")
    file = None if records is None else _records_file(records)
    args, kwargs = _arguments(make_arguments())
    key = _key(kernel, candidates, args, kwargs)
    known = _read(file, key)
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
    try:
        _write(file, key, best[1], times)
    except OSError as error:
        warnings.warn(f"{kernel.name}: the decision is not recorded: {error}", stacklevel=2)
    return _chosen(kernel, best[1], times)


def _candidates(space: Any) -> list[dict[str, str]]:
    """The instances of a space, with the arguments as text."""
    wrong = "tune(): space: expected a list of values for each parameter, such as {\"BLOCK\": [64, 128]}, or a list of instances, found"
    if isinstance(space, Mapping):
        if odd := [values for values in space.values() if isinstance(values, (str, bytes)) or not isinstance(values, Iterable)]:
            raise TypeError(f"{wrong} {odd[0]!r}")
        choices: list[Any] = [dict(zip(space, values)) for values in itertools.product(*space.values())] if space else []
    elif isinstance(space, Iterable) and not isinstance(space, (str, bytes)):
        choices = list(space)
    else:
        raise TypeError(f"{wrong} {space!r}")
    if odd := [choice for choice in choices if not isinstance(choice, Mapping)]:
        raise TypeError(f"{wrong} {odd[0]!r}")
    return [{str(name): argument(value) for name, value in choice.items()} for choice in choices]


def _chosen(kernel: Kernel, choice: Mapping[str, Any], times: dict[str, float]) -> Kernel:
    found = kernel.instance(**choice)
    found.tuning = times
    return found


def _arguments(made: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
        return made
    return (tuple(made) if isinstance(made, (tuple, list)) else (made,)), {}


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


# Threads of this process take turns; so do processes, where files have locks.
_writing = threading.Lock()


def _records_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """The file of records, before anything is measured.

    Raises:
        OSError: it cannot be one.
    """
    to = pathlib.Path(os.fsdecode(path))
    if to.is_dir():
        raise IsADirectoryError(errno.EISDIR, "the records are a folder, and not a file", str(to))
    if to.exists() and not to.is_file():
        # A device may have no end, and would be replaced.
        raise OSError(errno.EINVAL, "the records are a device or a pipe, and not a file", str(to))
    to.parent.mkdir(parents=True, exist_ok=True)
    return to


def _read_all(path: pathlib.Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []
    except (OSError, ValueError):
        return []


def _read(path: pathlib.Path | None, key: str) -> dict[str, Any] | None:
    for record in [] if path is None else _read_all(path):
        try:
            if record["key"] == key and record["checksum"] == _checksum(record):
                return record
        except (KeyError, TypeError):
            continue
    return None


def _write(to: pathlib.Path | None, key: str, choice: Mapping[str, Any], times: dict[str, float]) -> None:
    if to is None:
        return
    record: dict[str, Any] = {"key": key, "choice": dict(choice), "times": times}
    record["checksum"] = _checksum(record)
    with _turn(to):
        known = _read_all(to)
        if not known and to.exists() and to.stat().st_size > 0:
            # What somebody else wrote is kept.
            os.replace(to, to.with_name(f"{to.name}.old"))
        records = [other for other in known if other.get("key") != key] + [record]
        # Others read the old file or the new one, never a part.
        beside = to.with_name(f"{to.name}.{os.getpid()}")
        beside.write_text(json.dumps(records, indent=1), encoding="utf-8")
        os.replace(beside, to)


@contextlib.contextmanager
def _turn(to: pathlib.Path) -> Iterator[None]:
    """The only writer of a file of records."""
    with _writing:
        if fcntl is None:
            yield
            return
        # The folder has the lock: the file is replaced.
        folder = os.open(to.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
