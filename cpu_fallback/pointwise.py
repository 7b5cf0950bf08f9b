"""Pointwise kernels: a table of NumPy functions, and one path that casts, computes and rounds.

A row is an operator's stub and the function of arrays that computes it in the common dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.tensor_spec import TensorSpec
from .error_state import IGNORE, raises_flags, reset_state, set_state
from .widen import NARROW, compute_np

MAX_CONSTANTS = 256


def constant_cache(np_dtype: Any) -> Callable[[Any], Any]:
    """A function from a Python number to a 0-d array of a dtype, remembered by value (0.0 and NaN are not)."""
    known: dict[Any, Any] = {}

    def constant(value: Any) -> Any:
        found = known.get(value)
        if found is None:
            if np_dtype.kind in "iu":
                info = np.iinfo(np_dtype)
                wrapped = int(value)
                if not info.min <= wrapped <= info.max:
                    span = 1 << info.bits
                    wrapped = (wrapped - info.min) % span + info.min
                found = np.array(wrapped, np_dtype)
            else:
                found = np.array(value, np_dtype)
            if value != 0 and value == value and len(known) < MAX_CONSTANTS:
                known[value] = found
        return found

    return constant


def pointwise(function: Callable[..., Any]) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of a NumPy ufunc or a function ``f(*arrays, out=None)`` over the common dtype."""

    def factory(call: StructuredCall) -> PlannedKernel:
        return planned(call, function)

    return factory


def planned(call: StructuredCall, function: Callable[..., Any]) -> PlannedKernel:
    """A kernel that brings every operand to the common dtype, calls `function`, and stores with a cast."""
    iterator = call.iterator
    assert iterator is not None
    common = iterator.common_dtype
    np_common = compute_np(common)
    operands = [call.args[name] for name in call.runtime]
    out_spec = call.outputs[0]
    plain = common not in NARROW and all(
        isinstance(o, TensorSpec) and o.np_dtype == np_common for o in operands
    )
    flags = raises_flags(np_common)
    same_result = isinstance(function, np.ufunc) and _keeps(
        function, np_common, len(operands), out_spec.np_dtype
    )
    if plain and same_result:
        return PlannedKernel(_into(function, len(operands)), function, flags, any_shape=True)
    prepare = [_preparer(o, np_common) for o in operands]
    out_np = out_spec.np_dtype

    def into(out: Any, *inputs: Any) -> None:
        token = set_state(IGNORE)
        try:
            ready = [p(x) for p, x in zip(prepare, inputs, strict=True)]
            np.copyto(out, function(*ready), casting="unsafe")
        finally:
            reset_state(token)

    def into_ufunc(out: Any, *inputs: Any) -> None:
        token = set_state(IGNORE)
        try:
            function(*[p(x) for p, x in zip(prepare, inputs, strict=True)], out=out)
        finally:
            reset_state(token)

    def fresh(*inputs: Any) -> Any:
        token = set_state(IGNORE)
        try:
            made = function(*[p(x) for p, x in zip(prepare, inputs, strict=True)])
            return made if made.dtype == out_np else made.astype(out_np)
        finally:
            reset_state(token)

    return PlannedKernel(into_ufunc if same_result else into, fresh)


def _keeps(function: np.ufunc, np_dtype: Any, arity: int, out: Any) -> bool:
    """Whether a ufunc over this dtype gives exactly the output's dtype."""
    try:
        resolved = function.resolve_dtypes((np_dtype,) * arity + (None,))
    except TypeError:
        return False
    return bool(resolved[-1] == out and all(r == np_dtype for r in resolved[:-1]))


def _preparer(operand: Any, np_common: Any) -> Callable[[Any], Any]:
    if isinstance(operand, TensorSpec):
        if operand.np_dtype == np_common:
            return _itself
        return lambda array: array.astype(np_common)
    return constant_cache(np_common)


def _itself(array: Any) -> Any:
    return array


def _into(function: Any, arity: int) -> Callable[..., Any]:
    """A ufunc with its output first."""
    if arity == 1:
        return lambda out, a: function(a, out)
    return lambda out, a, b: function(a, b, out)


def relu(a: Any) -> Any:
    """max(a, 0), NaN kept."""
    return np.maximum(a, np.zeros((), a.dtype))


def add(call: StructuredCall) -> PlannedKernel:
    """self + alpha * other; the scale is left out where it is 1, and bool adds as or."""
    if "alpha" not in call.runtime:
        return planned(call, np.add)

    def scaled(a: Any, b: Any, alpha: Any) -> Any:
        return np.add(a, np.multiply(alpha, b))

    return planned(call, scaled)


def threshold_backward(grad: Any, a: Any, threshold: Any) -> Any:
    """grad where a > threshold, else 0."""
    return np.where(a <= threshold, np.zeros((), grad.dtype), grad)


UNARY: dict[str, Callable[..., Any]] = {
    "relu_stub": relu,
}

for _stub, _function in UNARY.items():
    register_stub(_stub, "cpu", pointwise(_function))
register_stub("add_stub", "cpu", add)
register_stub("threshold_backward_stub", "cpu", pointwise(threshold_backward))
