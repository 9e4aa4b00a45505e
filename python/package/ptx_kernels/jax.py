"""JAX's custom calls, and those of every library that is loaded: importing this registers them, so that programs of `jax.export` find them.
`import ptx_kernels` does so where JAX is imported already."""

from __future__ import annotations

from typing import Any

from . import _jax


def export_checks() -> list[Any]:
    """What `jax.export.export` needs as `disabled_checks=`: the custom calls of all libraries, whose names and meaning stay as they are."""
    return _jax.export_checks()
