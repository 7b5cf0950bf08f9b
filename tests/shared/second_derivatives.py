"""Second derivatives in every order of modes, against central differences of first gradients, in float64.

The function's results are summed with fixed weights, themselves and through a sine, so that no order of modes sees a
constant. The reference is the change of the gradient along one direction. Every order gives the Hessian times it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import triten as tt

RELATIVE, ABSOLUTE = 1e-4, 1e-6
STEP = 1e-5

Loss = Callable[..., Any]


class NotSmoothError(Exception):
    """The gradient does not change evenly: the function has an edge here, or differences are all noise."""


def loss_of(function: Callable[..., Any]) -> Loss:
    """Return the weighted sum of a function's floating-point results."""

    def loss(*values: Any) -> Any:
        total: Any = 0
        made = function(*values)
        for result in made if isinstance(made, tuple | list) else (made,):
            if not isinstance(result, tt.Tensor) or not (result.is_floating_point() or result.is_complex()):
                continue
            real = tt.view_as_real(result.resolve_conj()) if result.is_complex() else result
            flat = real.reshape(-1)
            weights = tt.linspace(0.5, 1.5, flat.numel(), dtype=tt.float64)
            total = total + ((flat + flat.sin()) * weights).sum()
        return total

    return loss


def _gradients(total: Any, leaves: Sequence[Any], **options: Any) -> list[Any]:
    """Return the gradients, with zeros for unused leaves."""
    if not isinstance(total, tt.Tensor) or not total.requires_grad:
        return [tt.zeros_like(leaf) for leaf in leaves]
    found = tt.autograd.grad(total, leaves, allow_unused=True, **options)
    return [tt.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def _inner(one: Sequence[Any], other: Sequence[Any]) -> Any:
    return sum(((a * b).sum() for a, b in zip(one, other, strict=True)), tt.zeros((), dtype=tt.float64))


def difference(loss: Loss, values: Sequence[Any], along: Sequence[Any], step: float) -> np.ndarray:
    """Return the gradient's directional derivative. Raises NotSmoothError if the two sides differ."""
    ends = []
    for sign in (1, -1, 0):
        moved = [(x + sign * step * v).detach().requires_grad_() for x, v in zip(values, along, strict=True)]
        ends.append(_flat(_gradients(loss(*moved), moved)))
    before, behind = ((end - ends[2]) / (sign * step) for end, sign in zip(ends, (1, -1), strict=False))
    scale = max(1.0, float(np.abs(ends[2]).max(initial=0)))
    if not np.allclose(before, behind, 0.05, 0.05 * scale):
        raise NotSmoothError(f"{before} to one side, {behind} to the other")
    return (ends[0] - ends[1]) / (2 * step)


def _flat(tensors: Sequence[Any]) -> np.ndarray:
    return np.concatenate([t.detach().numpy().reshape(-1) for t in tensors] or [np.zeros(0)])


def reverse_over_reverse(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Run backward through the gradients."""
    leaves = [x.clone().requires_grad_() for x in values]
    return _gradients(_inner(_gradients(loss(*leaves), leaves, create_graph=True), along), leaves)


def forward_over_reverse(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Compute the tangents of the gradients."""
    with tt.autograd.forward_ad.dual_level():
        leaves = [x.clone().requires_grad_() for x in values]
        duals = [tt.autograd.forward_ad.make_dual(x, v) for x, v in zip(leaves, along, strict=True)]
        found = [tt.autograd.forward_ad.unpack_dual(g).tangent for g in _gradients(loss(*duals), duals)]
    return [tt.zeros_like(x) if t is None else t for t, x in zip(found, values, strict=True)]


def reverse_over_forward(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Run backward through the tangent."""
    leaves = [x.clone().requires_grad_() for x in values]
    with tt.autograd.forward_ad.dual_level():
        duals = [tt.autograd.forward_ad.make_dual(x, v) for x, v in zip(leaves, along, strict=True)]
        total = loss(*duals)
        tangent = tt.autograd.forward_ad.unpack_dual(total).tangent if isinstance(total, tt.Tensor) else None
    return _gradients(tangent, leaves)


def mapped_forward_over_reverse(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Compute the Hessian-vector product as `tt.func.hessian` does."""
    places = tuple(range(len(values)))
    both = [tt.stack([2 * v, v]) for v in along]
    gradient = tt.func.grad(loss, places)
    made = tt.vmap(lambda *v: tt.func.jvp(gradient, tuple(values), v)[1])(*both)
    return [m[1] for m in made]


def mapped_reverse_over_forward(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Compute the Hessian-vector product as ``jacrev(jacfwd(...))`` does."""
    both = [tt.stack([2 * v, v]) for v in along]

    def total(*values: Any) -> Any:
        return tt.vmap(lambda *v: tt.func.jvp(loss, values, v)[1])(*both).sum()

    return [g / 3 for g in tt.func.grad(total, tuple(range(len(values))))(*values)]


def forward_over_forward(loss: Loss, values: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """Compute the second derivative along the direction, a number, by forward mode over forward mode."""
    given = tuple(along)
    return [tt.func.jvp(lambda *x: tt.func.jvp(loss, x, given)[1], tuple(values), given)[1]]


ORDERS = {
    "reverse over reverse": reverse_over_reverse,
    "forward over reverse": forward_over_reverse,
    "reverse over forward": reverse_over_forward,
    "forward over forward": forward_over_forward,
    "mapped forward over reverse": mapped_forward_over_reverse,
    "mapped reverse over forward": mapped_reverse_over_forward,
}


def disagreements(
    function: Callable[..., Any], values: Sequence[Any], orders: Sequence[str] = tuple(ORDERS)
) -> Iterator[tuple[str, str]]:
    """Yield the orders of modes with a wrong Hessian-vector product, and their result or error.

    Args:
        function: from float64 tensors to a tensor or several.
        values: the tensors.
        orders: which of `ORDERS`.

    Raises:
        NotSmoothError: There is no reference.
    """
    rng = np.random.default_rng(0)
    along = [tt.from_numpy(np.asarray(rng.uniform(-1, 1, tuple(x.shape)))) for x in values]
    loss = loss_of(function)
    values = [x.detach() for x in values]
    with np.errstate(all="ignore"):
        wanted = difference(loss, values, along, STEP)
        other = difference(loss, values, along, STEP / 4)
        if not np.allclose(wanted, other, RELATIVE, 10 * ABSOLUTE):
            raise NotSmoothError(f"differences of {STEP} and {STEP / 4} disagree: {wanted} and {other}")
        for order in orders:
            try:
                made = _flat(ORDERS[order](loss, values, along))
            except (RuntimeError, NotImplementedError) as error:
                yield order, f"{type(error).__name__}: {error}"
                continue
            right = np.atleast_1d(wanted @ _flat(along)) if order == "forward over forward" else wanted
            scale = max(1.0, float(np.abs(right).max(initial=0)))
            if not np.allclose(made, right, RELATIVE, 10 * ABSOLUTE * scale):
                yield order, f"{made} given, {right} expected"
