"""Derivatives in PyTorch that no kernel computes: from the operations' formulas, by PyTorch's own functions."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch.autograd import forward_ad

from ._formulas import FORMULAS, Formula, formula_of, forward_inputs
from ._function import Function


class _Torch:
    """The functions of PyTorch for formulas."""

    exp, erf, tanh, sigmoid, where, zeros_like, matmul = (
        torch.exp, torch.erf, torch.tanh, torch.sigmoid, torch.where, torch.zeros_like, torch.matmul,
    )  # fmt: skip

    @staticmethod
    def wide(x: Any) -> Any:
        return x.to(torch.float32)

    @staticmethod
    def cast(x: Any, like: Any) -> Any:
        return x.to(like.dtype)

    @staticmethod
    def classes(x: Any) -> Any:
        return (x.view(torch.int32) if x.dtype == torch.uint32 else x).to(torch.int64)

    @staticmethod
    def zeros(shape: Any, like: Any) -> Any:
        return like.new_zeros(shape)

    @staticmethod
    def mean(x: Any) -> Any:
        return x.mean(-1, keepdim=True)

    @staticmethod
    def sum(x: Any) -> Any:
        return x.sum(-1, keepdim=True)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        return torch.log_softmax(x, -1)

    @staticmethod
    def take(x: Any, classes: Any) -> Any:
        return x.gather(-1, classes.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def stack(parts: list[Any]) -> Any:
        return torch.stack(parts, -1)

    @staticmethod
    def concatenate(parts: list[Any]) -> Any:
        return torch.cat(parts, -1)


def is_transformed(tensors: Sequence[Any]) -> bool:
    """True inside of a transform of torch.func, and where a tensor has a tangent: PyTorch then needs functions of its own."""
    transform = torch._C._functorch.peek_interpreter_stack()
    if transform is not None and transform.key() != torch._C._functorch.TransformType.Functionalize:
        return True
    if forward_ad._current_level < 0:
        return False
    return any(isinstance(tensor, torch.Tensor) and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def by_formula(function: Function, values: Sequence[Any], outputs: Sequence[int]) -> list[Any] | None:
    """The outputs by the formula of the function, if it has one that gives them all."""
    formula = formula_of(function)
    if formula is None:
        return None
    made = formula(_Torch, **_named(function, values))
    return [made.get(function.params[at].name) for at in outputs]


def _named(function: Function, values: Sequence[Any]) -> dict[str, Any]:
    return {function.params[at].name: values[at] for at in function.inputs}


def gradient_formula(function: Function) -> Any:
    """A function from inputs by their names to results by their names that PyTorch can differentiate: the formula, or, for a backward function, the
    gradients of the forward function's formula."""
    formula = formula_of(function)
    if formula is not None:
        return lambda values: formula(_Torch, **values)
    forward = FORMULAS.get(function.name.removesuffix("_backward"))
    if not function.library.is_own or forward is None or not function.name.endswith("_backward"):
        return None
    source = getattr(function.library, function.name.removesuffix("_backward"))
    return lambda values: _pulled_back(source, function, forward, values)


def _pulled_back(source: Function, backward: Function, forward: Formula, values: dict[str, Any]) -> dict[str, Any]:
    """The gradients of the forward function, which can be differentiated again."""
    named, names = forward_inputs(_Torch, source, backward, values)
    leaves = {name: as_leaf(named[name]) for name in names}
    with torch.enable_grad():
        made = forward(_Torch, **{**named, **leaves})
        outputs = {name: value for name, value in made.items() if values.get(f"grad_{name}") is not None}
        found = torch.autograd.grad(
            list(outputs.values()), list(leaves.values()), [values[f"grad_{name}"] for name in outputs],
            create_graph=True, materialize_grads=True,
        )  # fmt: skip
    return {f"grad_{name}": grad for name, grad in zip(leaves, found)}


def as_leaf(tensor: Any) -> Any:
    """The tensor as an input of its own of a graph, behind which the graph that it is from goes on."""
    with torch.enable_grad():
        return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()


def differentiate(function: Function, values: dict[str, Any], wanted: Sequence[str], grads: dict[str, Any]) -> dict[str, Any]:
    """The gradients of a function's inputs by its formula; they can be differentiated again where PyTorch records that.

    Raises:
        NotImplementedError: there is no formula.
    """
    formula = gradient_formula(function)
    if formula is None:
        raise no_derivative(function)
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = {name: as_leaf(values[name]) for name in wanted}
        made = formula({**values, **leaves})
        if any(grad is not None and name not in made for name, grad in grads.items()):
            raise no_derivative(function)
        outputs = {name: value for name, value in made.items() if grads.get(name) is not None and value.requires_grad}
        if not outputs:
            return {}
        found = torch.autograd.grad(
            list(outputs.values()), list(leaves.values()), [grads[name] for name in outputs], create_graph=again, allow_unused=True
        )
    return dict(zip(leaves, found))


def no_derivative(function: Function) -> NotImplementedError:
    """The error for a derivative that does not exist."""
    if function.name.endswith("_backward"):
        forward = function.label.removesuffix("_backward")
        return NotImplementedError(f"{forward} has no second derivative: {function.label} has no gradient")
    return NotImplementedError(f"{function.label} has no gradient")
