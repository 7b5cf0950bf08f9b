"""Reductions: parts along other dimensions are reduced where they are, those along reduced ones once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from ..placements import REPLICATE, NormPartial, Partial, Placement, Shard
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES", "reduced_dims"]

Combine = Callable[[Invocation, bool], Partial | None]
"""Function that returns the reduction pending after parts have been reduced; None if parts cannot be reduced.
The flag is True if all parts have the same size.
"""


def reduced_dims(call: Invocation, name: str = "dim") -> tuple[int, ...]:
    """Return the reduced dimensions; all if none are given."""
    ndim = call.tensors[0].ndim
    dim = call.get(name)
    if dim is None or dim == () or dim == []:
        return tuple(range(ndim))
    dims: Sequence[int] = (dim,) if isinstance(dim, int) else dim
    return tuple(each % ndim for each in dims) if ndim else ()


def _kept(call: Invocation, dims: Sequence[int], dim: int) -> int:
    """Return the position of a kept dimension in the result."""
    return dim if call.get("keepdim", False) else dim - sum(each < dim for each in dims)


def _reduction(combine: Combine, linear: bool = False) -> Callable[[Invocation], list[Strategy]]:
    def strategies(call: Invocation) -> list[Strategy]:
        dims = reduced_dims(call)
        results = len(call.results)
        result = []
        for dim in range(call.tensors[0].ndim):
            rest: tuple[Placement, ...] = (REPLICATE,) * (len(call.tensors) - 1)
            if dim not in dims:
                result.append(Strategy((Shard(_kept(call, dims, dim)),) * results, (Shard(dim), *rest)))
                continue
            partial = combine(call, call.is_even(0, dim))
            if partial is not None:
                result.append(Strategy((partial,) * results, (Shard(dim), *rest)))
        now = call.current(0)
        if linear and isinstance(now, Partial) and (now.is_partial("sum") or now.is_partial("avg")):
            result.append(Strategy((now,) * results, (now,)))
        return result

    return strategies


def _sum(call: Invocation, even: bool) -> Partial | None:
    return Partial("sum")


def _mean(call: Invocation, even: bool) -> Partial | None:
    return Partial("avg") if even else None


def _product(call: Invocation, even: bool) -> Partial | None:
    return Partial("product")


def _extreme(reduce_op: str) -> Combine:
    return lambda call, even: Partial(reduce_op) if even else None


def _logical(reduce_op: str) -> Combine:
    """Return the combine function of logical reductions, which reduce bools bitwise."""
    return lambda call, even: Partial(reduce_op)


def _norm(call: Invocation, even: bool) -> Partial | None:
    order = call["ord"] if "ord" in call.values else call.get("p", 2)
    order = 2 if order is None else order
    if order == inf:
        return Partial("max") if even else None
    if order == -inf:
        return Partial("min") if even else None
    return NormPartial(float(order)) if order != 0 else Partial("sum")


def _nothing(call: Invocation, even: bool) -> Partial | None:
    return None


_FAMILIES = (
    (Rule(_reduction(_sum, linear=True)), "sum sum.dim_IntList"),
    (Rule(_reduction(_mean, linear=True)), "mean mean.dim"),
    (Rule(_reduction(_product)), "prod prod.dim_int"),
    (Rule(_reduction(_extreme("max"))), "max amax"),
    (Rule(_reduction(_extreme("min"))), "min amin"),
    (Rule(_reduction(_logical("bor"))), "any any.dim any.dims"),
    (Rule(_reduction(_logical("band"))), "all all.dim all.dims"),
    (Rule(_reduction(_norm), by_value=True), "linalg_vector_norm"),
    (
        Rule(_reduction(_nothing)),
        "argmax argmin max.dim min.dim var.dim var.correction std.dim std.correction var_mean.correction median.dim "
        "nanmedian.dim mode logsumexp kthvalue aminmax var std",
    ),
)
RULES = {f"aten::{name}": rule for rule, names in _FAMILIES for name in names.split()}
"""The rules of the family."""
