"""The native library: calls with PyTorch's tensors (`python/door`)."""

from typing import Any

def use_torch(parts: dict[str, Any], /) -> bool:
    """Keeps what calls need of PyTorch. False if its class has no exchange interface of this version."""

def door(parts: tuple[Any, int, int, int], /) -> Any:
    """The ways into a function, from an ``Operators`` and addresses: call, op, op_saved, op_out, apply, and the door itself."""

def metaclass(base: Any, /) -> Any:
    """The metaclass of classes that record calls, below that of PyTorch's functions."""

# The forward function of a recorded call: the context, the door, inputs.
forward: Any
