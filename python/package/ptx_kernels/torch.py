"""PyTorch's operators `ptx_kernels::NAME`, and those of every library that is loaded: importing this registers them, so that programs of
`torch.export` find them. `import ptx_kernels` does so where PyTorch is imported already."""

from __future__ import annotations

from . import _torch as _torch
