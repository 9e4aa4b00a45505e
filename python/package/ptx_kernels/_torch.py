"""Calls with PyTorch's tensors: eager, under torch.compile and torch.library, with gradients.

In eager mode a plain call is native (`python/door`): it allocates its outputs and goes straight to the library. This file takes the others. Everything that looks
into a call (torch.compile, functorch, dispatch modes, tensor subclasses) sees operators of torch.library instead: ``NAME``, which returns its outputs,
``NAME_saved``, which also returns what the gradients need, and ``NAME_out``, which writes into tensors.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from typing import Any, Iterable, Sequence

import torch
from torch.autograd import forward_ad, profiler

from . import _function, _native, _native_library
from ._formulas import ELEMENTWISE, ROWS, row_alignment
from ._function import Function, Param, needs_copy, results, to_python
from ._torch_derivatives import by_formula, differentiate, is_transformed

_DTYPES = {
    getattr(torch, name): name
    for name in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    )
    if hasattr(torch, name)
}  # fmt: skip
_TORCH_TYPES = {name: dtype for dtype, name in _DTYPES.items()}
_SCALARS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "bytes": "str"}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Types of devices whose memory the library reads. A call with tensors on `meta` gives their shapes.
_PLACES = ("cpu", "cuda")


class Operators:
    """The operators of a function, and what eager calls look up."""

    def __init__(self, function: Function) -> None:
        self.function = function
        library = function.library
        self.namespace: str = library._name
        self.backward = function.backward
        self.saved = [*function.main_outputs, *(at for at in function.saved_outputs() if at not in function.main_outputs)]
        self.gradients = function.gradient_inputs()
        self.all_outputs = function.outputs
        self.saved_here = self.saved_outputs()
        # Below, what each call would derive from the functions: names, what the backward function reads, and where that and numbers are.
        self.names = [param.name for param in function.params]
        self.read = frozenset() if self.backward is None else frozenset(self.backward.params[at].name for at in self.backward.tensors)
        self.kept = [at for at, param in enumerate(function.params) if param.is_tensor and param.name in self.read]
        self.scalars = [at for at, param in enumerate(function.params) if not param.is_tensor]
        self.differentiable_inputs = [at for at, _ in self.gradients]
        # The outputs whose gradient the backward function does not read.
        self.silent = [at for at in function.main_outputs if f"grad_{self.names[at]}" not in self.read]
        # The native ways in, and what takes the calls that those do not.
        self.forward_slowly = _Differentiable.forward
        self.op_recording = self._recording("op", function.main_outputs)
        self.op_saved_recording = self._recording("op_saved", self.saved_here)
        # The native ways get no set of dispatch keys, whose conversion takes a tenth of a call.
        self.op_slowly = functools.partial(self.op_recording, None)
        self.op_saved_slowly = functools.partial(self.op_saved_recording, None)
        self.op_out_slowly = functools.partial(self._recording_into, None)
        self.ways = self._ways()
        function.quick, function.quick_apply = self.ways.get("call"), self.ways.get("apply")
        if self.namespace not in _LIBRARIES:
            _LIBRARIES[self.namespace] = torch.library.Library(self.namespace, "DEF")
        self._define()
        namespace = getattr(torch.ops, self.namespace)
        self.op = getattr(namespace, function.operator).default
        self.op_saved = getattr(namespace, f"{function.operator}_saved").default
        self.op_out = getattr(namespace, f"{function.operator}_out").default

    def _ways(self) -> dict[str, Any]:
        """The native ways into the function, where PyTorch has what they need."""
        found = self.function.library.addresses(self.function) if _HAS_DOORS else None
        made = NotImplemented if found is None else _native.door((self, *found))
        return {} if made is NotImplemented else dict(zip(("call", "op", "op_saved", "op_out", "apply"), made))

    @functools.cached_property
    def recorder(self) -> Any:
        """What autograd calls for a call that the door reads: a class of this function alone, so that a call keeps only what others do not share, and its ``apply``."""
        made: Any = _Recorder(self.function.name, (_Native,), {})
        # The class of the contexts.
        made._backward_cls.state = self
        made._backward_cls.numbers = {self.names[at]: self.function.params[at].default for at in self.scalars}
        # Without what `apply` of the class adds for transforms of torch.func, which are refused before.
        return made, super(torch.autograd.Function, made).apply  # type: ignore[misc]

    def _define(self) -> None:
        function, library = self.function, _LIBRARIES[self.namespace]
        inputs = ", ".join(_schema(function.params[at]) for at in function.inputs)
        for suffix, outputs in (("", function.main_outputs), ("_saved", self.saved_outputs())):
            returned = ", ".join("Tensor" for _ in outputs)
            name = function.operator + suffix
            library.define(f"{name}({inputs}) -> ({returned})", tags=(torch.Tag.pt2_compliant_tag,))
            for key in ("CUDA", "CPU"):
                library.impl(name, self._functional(outputs, run=True), key)
            qualified = f"{self.namespace}::{name}"
            torch.library.register_fake(qualified, self._functional(outputs, run=False), lib=library)
            self._define_recording(name, f"op{suffix}", self.op_saved_recording if suffix else self.op_recording)
        # All parameters in the order of Rust, as the library's function takes them.
        every = ", ".join(_schema(param, f"a{at}" if param.written else None) for at, param in enumerate(function.params))
        name = f"{function.operator}_out"
        library.define(f"{name}({every}) -> ()", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CUDA", "CPU"):
            library.impl(name, self._run_into, key)
        torch.library.register_fake(f"{self.namespace}::{name}", self._check_into, lib=library)
        self._define_recording(name, "op_out", self._recording_into)

    def _define_recording(self, name: str, way: str, recording: Any) -> None:
        """The operator where PyTorch may record derivatives: native, where that is possible."""
        library = _LIBRARIES[self.namespace]
        if way in self.ways:
            library.impl(name, self.ways[way], "Autograd")
        else:
            library.impl(name, recording, "Autograd", with_keyset=True)

    def saved_outputs(self) -> list[int]:
        """A function without gradients is perhaps one: then all its outputs are asked for."""
        return self.saved if self.backward is not None else self.all_outputs

    def _functional(self, outputs: Sequence[int], run: bool) -> Any:
        function = self.function

        def functional(*inputs: Any) -> Any:
            values = _unsigned(function, self.spread(inputs))
            make_outputs(function, values, outputs)
            if run:
                run_directly(function, values)
            made = [values[at] for at in outputs]
            return made[0] if len(made) == 1 else tuple(made)

        return functional

    def _check_into(self, *values: Any) -> None:
        shapes, dtypes = described(self.function, values)
        self.function.infer(shapes, dtypes)

    def _run_into(self, *values: Any) -> None:
        run_directly(self.function, _unsigned(self.function, list(values)))

    # Gradients

    def _recording(self, attribute: str, outputs: Sequence[int]) -> Any:
        """The operator where PyTorch may record derivatives. Every operator has one, so that none hides the path to its inputs."""

        def recording(keyset: Any, *inputs: Any) -> Any:
            op = getattr(self, attribute)
            if is_transformed(inputs):
                made = by_formula(self.function, self.spread(inputs), outputs)
                if made is not None and None not in made:
                    return made[0] if len(made) == 1 else tuple(made)
                _refuse_transforms(self.function, inputs)
            if torch.is_grad_enabled():
                for at in tensors:
                    if (value := inputs[at]) is not None and value.requires_grad:
                        made = _Recorded.apply(self, op, keyset, outputs, *inputs)
                        return made[0] if len(made) == 1 else made
            return run(*inputs) if _is_last(keyset) else _below(op, keyset, inputs)

        run = self._functional(outputs, run=True)
        tensors = [at for at, position in enumerate(self.function.inputs) if self.function.params[position].is_tensor]
        return recording

    def _recording_into(self, keyset: Any, *values: Any) -> None:
        """The same for the operator that writes into tensors, which take no part in gradients."""
        _refuse_transforms(self.function, values)
        if torch.is_grad_enabled():
            _check_outputs(self.function, values)
        if _is_last(keyset):
            self._run_into(*values)
        else:
            _below(self.op_out, keyset, values)

    def spread(self, inputs: Sequence[Any]) -> list[Any]:
        """The values of all parameters, from those of the inputs."""
        values: list[Any] = [None] * len(self.function.params)
        for at, value in zip(self.function.inputs, inputs):
            values[at] = value
        return values

    def _gradient(self) -> Function:
        """The backward function, where there is one."""
        if self.backward is None:
            raise RuntimeError(f"{self.function.label} has no gradient")
        return self.backward

    def save(self, ctx: Any, values: Sequence[Any]) -> None:
        """Keeps what the backward function reads."""
        ctx.save_for_backward(*[values[at] for at in self.kept])
        outputs = self.function.main_outputs
        # Where the one output has no gradient, nothing has one.
        if len(outputs) > 1:
            ctx.kinds = {at: (value.shape, value.dtype, value.device) for at in outputs if (value := values[at]) is not None}
        given = _unsigned(self.function, list(values))
        ctx.numbers = {self.names[at]: given[at] for at in self.scalars}

    def pull_back(self, ctx: Any, needed: Sequence[bool], grads: dict[int, Any], backward: "Operators | None") -> dict[int, Any]:
        """The gradients of the inputs that need one, by the backward function: as an operator, which can be differentiated, or directly."""
        params = self.function.params
        if all(grad is None for grad in grads.values()):
            return {}
        function = self._gradient()
        any_order = function.library.is_own and function.name in ROWS
        known = {params[at].name: value for at, value in zip(self.kept, ctx.saved_tensors)}
        for at, grad in grads.items():
            if at not in self.function.main_outputs:
                continue
            if grad is None:
                shape, dtype, device = ctx.kinds[at]
                grad = torch.zeros(shape, dtype=dtype, device=device)
            known[f"grad_{params[at].name}"] = grad if any_order else grad.contiguous()
        wanted = [(at, grad) for at, grad in self.gradients if needed[self.function.inputs.index(at)]]
        missing = [
            name for at in function.tensors
            if (name := function.params[at].name) not in known and not self._recomputes(name)
        ]  # fmt: skip
        if missing:
            raise TypeError(f"{function.label}: nothing is called {missing[0]!r} in {self.function.label}")
        values: list[Any] = [None] * len(function.params)
        for at in function.inputs:
            name = function.params[at].name
            values[at] = known[name] if name in known else ctx.numbers.get(name, function.params[at].default)
        if any(values[at] is None and not function.params[at].optional for at in function.tensors):
            self._recompute(ctx, known, function, values)
        if backward is not None:
            passed = _signed(function, values)
            made = backward.op_saved(*[passed[at] for at in function.inputs])
            every = made if isinstance(made, (tuple, list)) else (made,)
            gradients = dict(zip(backward.saved_outputs(), every))
        else:
            made_here = [grad for _, grad in wanted]
            made_here += [at for at in function.main_outputs if at not in made_here]
            gradients = _make_and_run(function, values, made_here)
        return {at: gradients[grad] for at, grad in wanted}

    def _recomputes(self, name: str) -> bool:
        return any(self.function.params[at].name == name for at in self.saved)

    def _recompute(self, ctx: Any, known: dict[str, Any], function: Function, values: list[Any]) -> None:
        """Computes outputs that the operator without saved outputs did not keep."""
        params = self.function.params
        every = _signed(self.function, [known.get(param.name, ctx.numbers.get(param.name)) for param in params])
        made = self.op_saved(*[every[at] for at in self.function.inputs])
        made = made if isinstance(made, (tuple, list)) else (made,)
        for at, value in zip(self.saved, made):
            if known.get(params[at].name) is None:
                known[params[at].name] = value
        for at in function.tensors:
            values[at] = known.get(function.params[at].name, values[at])

    def without_gradient(self, outputs: dict[int, Any]) -> list[Any]:
        """Outputs whose gradient the backward function does not read, and integers: PyTorch is told so."""
        return [
            value for at, value in outputs.items()
            if not value.is_floating_point() or (self.backward is not None and f"grad_{self.names[at]}" not in self.read)
        ]  # fmt: skip


_LIBRARIES: dict[str, Any] = {}


def _schema(param: Param, alias: str | None = None) -> str:
    if not param.is_tensor:
        kind = _SCALARS[param.kind] + ("?" if param.optional else "")
        return f"{kind} {param.name}"
    name = "Tensor" if alias is None else f"Tensor({alias}!)"
    return f"{name}{'?' if param.optional else ''} {param.name}"


def operators(function: Function) -> Operators:
    """The operators of a function."""
    state: Operators = function.torch_state
    return state


def define(functions: Iterable[Function]) -> None:
    """Defines the operators of functions: before anything is traced, so that torch.compile finds them."""
    for function in functions:
        if function.torch_state is None:
            function.torch_state = Operators(function)


def _signed(function: Function, values: Sequence[Any]) -> Sequence[Any]:
    """The values as operators have them: their integers have a sign, so that a larger one is the negative number of the same bits."""
    if not function.has_wide:
        return values
    wide = [param.is_wide and value is not None and value >= 1 << 63 for param, value in zip(function.params, values)]
    return [value - (1 << 64) if is_wide else value for is_wide, value in zip(wide, values)]


def _unsigned(function: Function, values: list[Any]) -> list[Any]:
    """The numbers that the integers of operators stand for."""
    if not function.has_wide:
        return values
    wide = [param.is_wide and value is not None and value < 0 for param, value in zip(function.params, values)]
    return [value + (1 << 64) if is_wide else value for is_wide, value in zip(wide, values)]


def described(function: Function, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    tensors = [value if param.is_tensor else None for param, value in zip(function.params, values)]
    shapes = [None if tensor is None else tensor.shape for tensor in tensors]
    dtypes = [None if tensor is None else _DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch.")) for tensor in tensors]
    return shapes, dtypes


def make_outputs(function: Function, values: list[Any], outputs: Sequence[int]) -> None:
    """Allocates the outputs that are missing."""
    missing = [at for at in outputs if values[at] is None]
    if not missing:
        return
    made = function.infer(*described(function, values))
    first = next(values[at] for at in function.tensors if values[at] is not None)
    for at in missing:
        if at not in made:
            raise function.missing_shape(at)
        shape, name = made[at]
        values[at] = _empty(function, values, shape, _TORCH_TYPES[name], first.device)


def _make_and_run(function: Function, values: list[Any], outputs: Sequence[int]) -> dict[int, Any]:
    """Calls a function that makes these outputs: natively, where that is possible."""
    if function.quick is not None:
        made = function.quick([... if at in outputs else value for at, value in enumerate(values)])
        if made is not NotImplemented:
            return dict(zip(sorted(outputs), made if isinstance(made, tuple) else (made,)))
    make_outputs(function, values, outputs)
    run_directly(function, values)
    return {at: values[at] for at in outputs}


def _empty(function: Function, values: Sequence[Any], shape: Any, dtype: Any, device: Any) -> Any:
    """A new output. Those of functions of single elements lie in memory as the first input does."""
    if function.name in ELEMENTWISE and function.library.is_own:
        first = values[function.tensors[0]]
        if not first.is_contiguous() and _permutation(first) is not None:
            return torch.empty_like(first, dtype=dtype)
    return torch.empty(shape, dtype=dtype, device=device)


def call(function: Function, values: list[Any]) -> Any:
    """Calls a function with tensors."""
    place = _first(function, values).device.type
    if place in _PLACES and torch.is_autocast_enabled(place):
        _autocast(function, values)
    if torch.compiler.is_compiling():
        return _call_operators(function, values)
    to_python(function, values)
    _check_tensors(function, values)
    if torch.is_grad_enabled():
        _check_outputs(function, values)
    plain = place in _PLACES and all(type(values[at]) in _PLAIN for at in function.tensors if values[at] is not None)
    if is_transformed([values[at] for at in function.tensors]):
        return _call_transformed(function, values)
    if not plain or torch._C._len_torch_dispatch_stack() > 0 or any(_is_functional(values[at]) for at in function.tensors):
        return _call_operators(function, values)
    if torch.autograd.profiler._is_profiler_enabled:
        with torch.profiler.record_function(f"{operators(function).namespace}::{function.operator}"):
            return _call_directly(function, values)
    return _call_directly(function, values)


def _is_functional(value: Any) -> bool:
    """True for a tensor of `torch.func.functionalize`, which has no memory."""
    return isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)


def _call_transformed(function: Function, values: list[Any]) -> Any:
    """A call inside of a transform: by the formula, which has every derivative; else by the operators."""
    if all(values[at] is None for at in function.outputs):
        made = by_formula(function, values, function.main_outputs)
        if made is not None and len(made) == 1:
            return made[0]
        if made is not None and function.library.is_own:
            return tuple(made)
    _refuse_transforms(function, values)
    return _call_operators(function, values)


def _first(function: Function, values: Sequence[Any]) -> Any:
    """The first tensor: there is one."""
    for at in function.tensors:
        if hasattr(values[at], "is_cuda"):
            return values[at]
    raise TypeError(f"{function.label}() takes at least one tensor")


def _check_tensors(function: Function, values: Sequence[Any]) -> None:
    first = None
    for param, value in zip(function.params, values):
        if not param.is_tensor and isinstance(value, torch.Tensor):
            raise TypeError(f"{function.label}: {param.name}: expected {param.kind}, found a tensor")
        if not param.is_tensor or (value is None and (param.optional or param.written)):
            continue
        if not isinstance(value, torch.Tensor):
            found = "None" if value is None else type(value).__name__
            raise TypeError(f"{function.label}: {param.name}: expected a torch.Tensor, found {found}")
        if value.layout is not torch.strided or value.is_nested or value.is_quantized:
            raise TypeError(f"{function.label}: {param.name}: expected a dense tensor, found a sparse, nested or quantized one")
        if first is None:
            first = (param.name, value)
        elif value.is_meta != first[1].is_meta:
            raise ValueError(f"{function.label}: {param.name}: is on {value.device}, and {first[0]} is on {first[1].device}")


def _refuse_transforms(function: Function, values: Sequence[Any]) -> None:
    """PyTorch would take a derivative that is not there for zero."""
    if not is_transformed(values):
        return
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    transform = torch._C._functorch.peek_interpreter_stack()
    kinds = torch._C._functorch.TransformType
    if transform is None or transform.key() == kinds.Jvp:
        raise NotImplementedError(f"{function.label} has no forward-mode derivative; use torch.autograd.grad")
    if transform.key() == kinds.Grad and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise NotImplementedError(f"{function.label} has no gradient in torch.func; use torch.autograd.grad")


def _check_outputs(function: Function, values: Sequence[Any]) -> None:
    """Outputs that are passed take no part in gradients."""
    for at in (*function.tensors, *function.outputs):
        if (value := values[at]) is not None and value.requires_grad:
            break
    else:
        return
    given = [at for at in function.outputs if values[at] is not None]
    if given and (any(values[at].requires_grad for at in given) or _wants_gradients(function, values)):
        names = ", ".join(f"{function.params[at].name}=" for at in given)
        raise RuntimeError(f"{function.label}: {names} cannot be written where gradients are computed; use torch.no_grad()")


def _wants_gradients(function: Function, values: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    wanting = [at for at in function.tensors if values[at] is not None and values[at].requires_grad]
    if wanting and function.backward is not None:
        known = [at for at, _ in operators(function).gradients]
        for at in wanting:
            if at not in known:
                raise RuntimeError(f"{function.label}: {function.params[at].name} has no gradient; detach() it")
    return bool(wanting)


def _call_directly(function: Function, values: list[Any]) -> Any:
    given = any(values[at] is not None for at in function.outputs)
    if not given and _wants_gradients(function, values):
        if function.backward is None:
            raise RuntimeError(f"{function.label} has no gradient; use torch.no_grad(), or detach() its inputs")
        made = _Differentiable.apply(function, *[values[at] for at in function.inputs])
        return made[0] if len(made) == 1 else made
    make_outputs(function, values, function.main_outputs)
    run_directly(function, values)
    if given:
        torch.autograd.graph.increment_version([values[at] for at in function.outputs if values[at] is not None])
    return results(function, values)


def run_directly(function: Function, values: list[Any]) -> None:
    """Calls the library. Inputs whose elements lie as no kernel takes them are copied, as PyTorch does."""
    passed = values
    for at in (*function.tensors, *function.outputs):
        value = values[at]
        if value is not None and (not value.is_contiguous() or value.is_neg() or value.data_ptr() % 16):
            passed = _laid_out(function, values)
            break
    first = passed[function.tensors[0]]
    if first is not None and first.numel() >= MOST and function.library.is_own and function.name in ELEMENTWISE:
        for part in _parts(function, passed):
            function.direct(*part)
        return
    function.direct(*passed)


# A launch of the kernels counts fewer elements than this. More are several launches.
MOST = 1 << 31


def _parts(function: Function, values: list[Any]) -> Any:
    """The arguments of a function of single elements, in parts that a launch takes; each begins where vectors may."""
    flat = [value.view(-1) if param.is_tensor and value is not None else value for param, value in zip(function.params, values)]
    size = MOST // 2
    for start in range(0, flat[function.tensors[0]].numel(), size):
        yield [value[start : start + size] if isinstance(value, torch.Tensor) else value for value in flat]


def _laid_out(function: Function, values: list[Any]) -> list[Any]:
    # Memory with the opposite signs, of the imaginary part of a conjugate.
    passed = [value.resolve_neg() if isinstance(value, torch.Tensor) else value for value in values]
    if inverted := [at for at in function.outputs if passed[at] is not values[at]]:
        raise ValueError(f"{function.label}: {function.params[inverted[0]].name}: its memory has the opposite signs; pass a tensor with is_neg() false")
    own = function.library.is_own
    written = [values[at] for at in function.outputs if values[at] is not None]
    # Elements may lie in any order, the same one everywhere: that of the outputs, which cannot be copied.
    alike = all(value.ndim == written[0].ndim for value in passed if isinstance(value, torch.Tensor))
    order = _permutation(written[0]) if own and function.name in ELEMENTWISE and alike else None
    if order is not None and all(value.permute(order).is_contiguous() for value in written):
        passed = [value.permute(order) if param.is_tensor and value is not None else value for param, value in zip(function.params, passed)]
    for at in function.tensors:
        tensor, param = passed[at], function.params[at]
        if tensor is None:
            continue
        size = tensor.element_size()
        if needs_copy(param, tensor.shape, tensor.stride(), tensor.data_ptr() // size, row_alignment(function, param, size)):
            passed[at] = tensor.clone(memory_format=torch.contiguous_format)
    return passed


def _permutation(tensor: Any) -> list[int] | None:
    """The order of dimensions in which a tensor is contiguous, if there is one."""
    order = sorted(range(tensor.ndim), key=lambda at: (-tensor.stride(at), at))
    return order if tensor.permute(order).is_contiguous() else None


class _Differentiable(torch.autograd.Function):
    """A call whose gradients its backward function computes."""

    @staticmethod
    def forward(ctx: Any, function: Function, *inputs: Any) -> Any:
        state = operators(function)
        values = state.spread(inputs)
        make_outputs(function, values, state.saved)
        run_directly(function, values)
        state.save(ctx, values)
        ctx.set_materialize_grads(False)
        ctx.state = state
        ctx.mark_non_differentiable(*state.without_gradient({at: values[at] for at in function.main_outputs}))
        return tuple(values[at] for at in function.main_outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found = _pull_back(ctx, ctx.needs_input_grad[1:], grads)
        return (None, *[found.get(at) for at in ctx.state.function.inputs])


def _pull_back(ctx: Any, needed: Sequence[bool], grads: Sequence[Any]) -> dict[int, Any]:
    """The gradients of the inputs that need one, by those of the outputs."""
    state: Operators = ctx.state
    # Where PyTorch records the gradients, they come from operators, whose derivatives it finds; where it asks for several at once, it calls these for each.
    again = operators(state._gradient()) if torch.is_grad_enabled() or any(map(_is_batch, grads)) else None
    given = dict(zip(state.function.main_outputs, grads))
    if torch.autograd.profiler._is_profiler_enabled:
        with torch.profiler.record_function(f"{state.namespace}::{state._gradient().name}"):
            return state.pull_back(ctx, needed, given, again)
    return state.pull_back(ctx, needed, given, again)


def _is_batch(grad: Any) -> bool:
    """True for gradients that are asked for at once, by `torch.autograd.grad(…, is_grads_batched=True)` or vmap: they have no memory, but each of them has."""
    functorch = torch._C._functorch
    return grad is not None and (functorch.is_legacy_batchedtensor(grad) or functorch.is_batchedtensor(grad))


class _Native(_Differentiable):
    """The same for plain, contiguous inputs: the door of the function makes the outputs, and keeps what its gradient reads. It passes the tensors alone."""

    forward = staticmethod(_native.forward)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        function = ctx.state.function
        needed = dict(zip(function.tensors, ctx.needs_input_grad))
        found = _pull_back(ctx, [needed.get(at, False) for at in function.inputs], grads)
        return tuple([found.get(at) for at in function.tensors])


_Recorder = _native.metaclass(type(torch.autograd.Function))


class _Recorded(torch.autograd.Function):
    """A call of an operator that PyTorch records: its gradients come from the backward function, from the formula, or are an error."""

    @staticmethod
    def forward(ctx: Any, state: Operators, op: Any, keyset: Any, outputs: Sequence[int], *inputs: Any) -> Any:
        made = _below(op, keyset, inputs)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        values = state.spread(inputs)
        for at, value in zip(outputs, made):
            values[at] = value
        ctx.set_materialize_grads(False)
        ctx.state, ctx.outputs = state, outputs
        ctx.mark_non_differentiable(*state.without_gradient(dict(zip(outputs, made))))
        if state.backward is not None:
            state.save(ctx, values)
        else:
            tensors = state.function.tensors
            ctx.save_for_backward(*[values[at] for at in tensors])
            ctx.numbers = [None if at in tensors else values[at] for at in range(len(values))]
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        state, given = ctx.state, dict(zip(ctx.outputs, grads))
        function, needed = state.function, ctx.needs_input_grad[4:]
        if state.backward is not None:
            found = state.pull_back(ctx, needed, given, operators(state.backward))
            return (None, None, None, None, *[found.get(at) for at in function.inputs])
        values = list(ctx.numbers)
        for at, value in zip(function.tensors, ctx.saved_tensors):
            values[at] = value
        names = [param.name for param in function.params]
        named = {names[at]: values[at] for at in function.inputs}
        wanted = [names[at] for at, is_needed in zip(function.inputs, needed) if is_needed]
        by_name = differentiate(function, named, wanted, {names[at]: grad for at, grad in given.items()})
        return (None, None, None, None, *[by_name.get(names[at]) for at in function.inputs])


_BACKENDS = frozenset([torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA])
_BELOW = torch._C._after_autograd_keyset
# By the bits of a set of dispatch keys: the answer of ``_is_last``.
_last: dict[int, bool] = {}


def _is_last(keyset: Any) -> bool:
    """True where the next one to see an operator is a device: PyTorch's own way there takes longer than the rest of a call."""
    if keyset is None:
        return False
    bits = keyset.raw_repr()
    found = _last.get(bits)
    if found is None:
        found = _last[bits] = (keyset & torch._C._after_ADInplaceOrView_keyset).highestPriorityTypeId() in _BACKENDS
    return found


def _below(op: Any, keyset: Any, inputs: Sequence[Any]) -> Any:
    """The operator without a record. Without a set of dispatch keys PyTorch finds the next one again."""
    with torch._C._AutoDispatchBelowAutograd():
        return op(*inputs) if keyset is None else op.redispatch(keyset & _BELOW, *inputs)


def _call_operators(function: Function, values: list[Any]) -> Any:
    from . import _torch_sharding

    # DTensor reads the strategies of operators; it may have been imported after them.
    _torch_sharding.ready()
    state = operators(function)
    passed = _signed(function, values)
    inputs = [passed[at] for at in function.inputs]
    if any(values[at] is not None for at in function.outputs):
        make_outputs(function, values, function.main_outputs)
        state.op_out(*[value if param.is_tensor else number for param, value, number in zip(function.params, values, passed)])
        return results(function, values)
    if function.backward is not None and _wants_gradients(function, values):
        made = state.op_saved(*inputs)
        made = made if isinstance(made, (tuple, list)) else (made,)
        made = made[: len(function.main_outputs)]
        return made[0] if len(made) == 1 else tuple(made)
    return state.op(*inputs)


def _autocast(function: Function, values: list[Any]) -> None:
    """Under autocast, tensors that share a type parameter take the type of the first one."""
    first: dict[int, Any] = {}
    for at in function.tensors:
        number, value = function.params[at].dtype, values[at]
        if not isinstance(number, int) or not hasattr(value, "is_cuda") or not value.is_floating_point():
            continue
        dtype = first.setdefault(number, value.dtype)
        if value.dtype != dtype:
            values[at] = value.to(dtype)


def _use_doors() -> bool:
    """Gives the native library what calls need of PyTorch. False where PyTorch is older than DLPack's exchange interface."""
    codes = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
    types = []
    for dtype, name in _DTYPES.items():
        kind = name.rstrip("0123456789")
        types.append((codes[kind], int(name[len(kind) :]), {"dtype": dtype}))
    return _native.use_torch({
        "Tensor": torch.Tensor,
        # The class of C below it.
        "TensorBase": torch.Tensor.__base__,
        "Parameter": torch.nn.Parameter,
        "modes": torch._C._len_torch_dispatch_stack,
        "forward_ad": vars(forward_ad),
        "profiler": vars(profiler),
        "grad_enabled": torch.is_grad_enabled,
        "increment_version": torch._C._increment_version,
        "empty_like": torch.empty_like,
        "types": types,
        **_addresses(),
    })  # fmt: skip


def _addresses() -> dict[str, int]:
    """The addresses of functions of C that calls need, which no call through Python is as quick as. Those that this PyTorch does not have, or that answer
    otherwise than Python's functions, are not among them."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    found: dict[str, int] = {}
    for name, library, symbol, result, expected in [
        ("is_grad_enabled", "libtorch_cpu.so", "aoti_torch_grad_mode_is_enabled", ctypes.c_bool, torch.is_grad_enabled),
        # c10::impl::TorchDispatchModeTLS::stack_len()
        ("count_modes", "libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", ctypes.c_int64, torch._C._len_torch_dispatch_stack),
    ]:
        try:
            function = getattr(ctypes.CDLL(os.path.join(folder, library)), symbol)
        except (OSError, AttributeError):
            continue
        function.restype, function.argtypes = result, []
        agrees = True
        for enabled in (True, False):
            with torch.set_grad_enabled(enabled):
                agrees = agrees and function() == expected()
            with _Mode() if enabled else contextlib.nullcontext():
                agrees = agrees and function() == expected()
        if agrees:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


class _Mode(torch.utils._python_dispatch.TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


_HAS_DOORS = _use_doors()
_function.is_compiling = torch.compiler.is_dynamo_compiling
_native_library.when_loaded(define)
