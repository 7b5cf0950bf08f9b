"""`gradcheck` and `gradgradcheck`: analytic gradients against central differences (torch/autograd/gradcheck.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from .gradients import grad

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..tensor import Tensor


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


@api_boundary
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
) -> bool:
    """Whether backward through `func` agrees with central differences at `inputs` (float64, contiguous).

    With `check_forward_ad` the tangents of forward mode are held against differences too, in one random direction of
    each input.

    Raises GradcheckError where it does not, unless `raise_exception` is false; ValueError where no input requires
    grad.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([0.5, -1.5], dtype=tt.float64, requires_grad=True)
        >>> tt.autograd.gradcheck(lambda x: x.relu(), (x,))
        True
    """
    args = (inputs,) if isinstance(inputs, TensorImpl) else tuple(inputs)
    sources = [t for t in _tensors(args) if t._spec.requires_grad]
    if not sources:
        raise ValueError("gradcheck expects all tensor inputs to require grad for at least one of them")
    for source in sources:
        if source._spec.dtype.name != "float64":
            raise ValueError(f"gradcheck needs float64 inputs, got {source.dtype}")
    outputs = [o for o in _tensors(func(*args)) if o._spec.requires_grad]
    seeds = [np.asarray(np.random.default_rng(0).standard_normal(o._spec.sizes)) for o in outputs]
    try:
        if check_backward_ad:
            _check_backward(func, args, sources, outputs, seeds, eps, rtol, atol)
        if check_forward_ad:
            _check_forward(func, args, sources, eps, rtol, atol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_backward(
    func: Callable[..., Any],
    args: Any,
    sources: Sequence[Tensor],
    outputs: Sequence[Tensor],
    seeds: Sequence[NDArray[Any]],
    eps: float,
    rtol: float,
    atol: float,
) -> None:
    from ..tensor_data import from_numpy

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
            _compare("Jacobian", number, which, numeric, exact, rtol, atol)


def _compare(
    what: str, number: int, which: int, numeric: Any, exact: NDArray[Any], rtol: float, atol: float
) -> None:
    if not np.allclose(exact, numeric, rtol=rtol, atol=atol, equal_nan=True):
        raise GradcheckError(
            f"{what} mismatch for output {number} with respect to input {which},\nnumerical:{numeric}\n"
            f"analytical:{exact}\n"
        )


def _check_forward(
    func: Callable[..., Any], args: Any, sources: Sequence[Tensor], eps: float, rtol: float, atol: float
) -> None:
    from ..tensor_data import from_numpy
    from .forward_ad import dual_level, make_dual, unpack_dual

    rng = np.random.default_rng(1)
    for which, source in enumerate(sources):
        direction = np.asarray(rng.standard_normal(source._spec.sizes))
        with dual_level():
            dual = make_dual(source, from_numpy(direction).to(source.device))
            found = [unpack_dual(o) for o in _tensors(func(*_replaced(args, source, dual)))]
            exact = [
                np.zeros(primal._spec.sizes) if tangent is None else np.asarray(tangent.detach().host_array())
                for primal, tangent in found
            ]
            differentiable = [p._spec.dtype.is_floating_point or p._spec.dtype.is_complex for p, _ in found]
        sides = []
        for step in (eps, -eps):
            moved = from_numpy(np.asarray(source.detach().host_array() + step * direction)).to(source.device)
            sides.append([
                np.asarray(o.detach().host_array()) for o in _tensors(func(*_replaced(args, source, moved)))
            ])  # fmt: skip
        for number, (plus, minus, tangent) in enumerate(zip(*sides, exact, strict=True)):
            if differentiable[number]:
                numeric = (plus - minus) / (2 * eps)
                _compare("Jacobian computed with forward mode", number, which, numeric, tangent, rtol, atol)


def _replaced(values: Any, old: Tensor, new: Tensor) -> Any:
    """Arguments with one tensor in another's place, in lists too."""
    if isinstance(values, list | tuple):
        return type(values)(_replaced(v, old, new) for v in values)
    return new if values is old else values


def _numeric(
    func: Callable[..., Any], args: Any, source: Tensor, number: int, seed: NDArray[Any], eps: float
) -> Any:
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


@api_boundary
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
