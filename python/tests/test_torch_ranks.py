"""Operations of process groups, in processes of their own."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys

import pytest
from conftest import needs_torch

pytestmark = [needs_torch, pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux")]


def _run(ranks: int, *arguments: str) -> list[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = pathlib.Path(__file__).parent / "ranks_torch.py"
    started = [subprocess.Popen([sys.executable, str(script), str(rank), str(ranks), port, *arguments]) for rank in range(ranks)]
    try:
        return [process.wait(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_operations_of_a_group(ranks: int) -> None:
    assert _run(ranks) == [0] * ranks


def test_a_rank_that_ends_is_an_error_of_the_others() -> None:
    assert _run(3, "fail") == [0, 7, 0]
