"""`gradcheck` and `gradgradcheck`: analytic gradients against central differences (torch/autograd/gradcheck.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.tensor_impl import TensorImpl
from .functional import grad


class GradcheckError(RuntimeError):
    """An analytic gradient differs from the numerical one."""


def _tensors(values: Any) -> list[Any]:
    if isinstance(values, TensorImpl):
        return [values]
    out = []
    for value in values:
        if isinstance(value, TensorImpl):
            out.append(value)
        elif isinstance(value, list | tuple):
            out += _tensors(value)
    return out


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether backward through `func` agrees with central differences at `inputs` (float64, contiguous).

    Raises GradcheckError where it does not, unless `raise_exception` is false; ValueError where no input requires
    grad.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([0.5, -1.5], dtype=tt.float64, requires_grad=True)
        >>> tt.autograd.gradcheck(lambda x: x.relu(), (x,))
        True
    """
    from ..composite.tensor_data import from_numpy

    args = (inputs,) if isinstance(inputs, TensorImpl) else tuple(inputs)
    sources = [t for t in _tensors(args) if t._spec.requires_grad]
    if not sources:
        raise ValueError("gradcheck expects all tensor inputs to require grad for at least one of them")
    for source in sources:
        if source._spec.dtype.name != "float64":
            raise ValueError(f"gradcheck needs float64 inputs, got {source.dtype}")
    outputs = [o for o in _tensors(func(*args)) if o._spec.requires_grad]
    rng = np.random.default_rng(0)
    seeds = [np.asarray(rng.standard_normal(output._spec.sizes)) for output in outputs]
    analytics = [  # before any difference: those write to the inputs, which the graph has saved
        grad(output, sources, from_numpy(seed).to(output.device), retain_graph=True, allow_unused=True)
        for output, seed in zip(outputs, seeds, strict=True)
    ]
    for number, (seed, found) in enumerate(zip(seeds, analytics, strict=True)):
        for which, (source, analytic) in enumerate(zip(sources, found, strict=True)):
            numeric = _numeric(func, args, source, number, seed, eps)
            exact = (
                np.zeros(source._spec.sizes)
                if analytic is None
                else np.asarray(analytic.detach().host_array())
            )
            if not np.allclose(exact, numeric, rtol=rtol, atol=atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {which},\nnumerical:{numeric}\n"
                    f"analytical:{exact}\n"
                )
    return True


def _numeric(func: Callable[..., Any], args: Any, source: Any, number: int, seed: Any, eps: float) -> Any:
    """The gradient of ``(seed * output).sum()`` with respect to one input by central differences."""
    values = source.detach()
    out = np.zeros(source._spec.numel)
    coordinates = list(np.ndindex(*source._spec.sizes))  # a reference, one evaluation for each coordinate
    for position, coordinate in enumerate(coordinates):
        before = values[coordinate].item()
        sides = []
        for step in (eps, -eps):
            values[coordinate] = before + step
            results = [o for o in _tensors(func(*args)) if o._spec.requires_grad]
            sides.append(float((np.asarray(results[number].detach().host_array()) * seed).sum()))
        values[coordinate] = before
        out[position] = (sides[0] - sides[1]) / (2 * eps)
    return out.reshape(source._spec.sizes)


def gradgradcheck(func: Callable[..., Any], inputs: Any, **tolerances: Any) -> bool:
    """`gradcheck` of the gradient of `func`."""
    args = (inputs,) if isinstance(inputs, TensorImpl) else tuple(inputs)

    def first(*given: Any) -> Any:
        outputs = [o for o in _tensors(func(*given)) if o._spec.requires_grad]
        total = sum((o * o).sum() for o in outputs)
        found = grad(
            total, [t for t in _tensors(given) if t._spec.requires_grad], create_graph=True, allow_unused=True
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(first, args, **tolerances)
