"""Rules of elementwise operators with broadcasting; linear operators also accept partial sums."""

from __future__ import annotations

from collections.abc import Sequence

from ..placements import REPLICATE, Partial, Placement, Shard
from .rule import Invocation, Rule, Strategy

__all__ = ["POINTWISE", "RULES", "pointwise", "shards_of_broadcast"]


def shards_of_broadcast(shape: Sequence[int], shapes: Sequence[Sequence[int]]) -> list[tuple[Placement, ...]]:
    """Return the placements of the broadcast tensors for a shard along each dimension of the result."""
    result = []
    for dim, size in enumerate(shape):
        placements: list[Placement] = []
        for each in shapes:
            own = dim - (len(shape) - len(each))
            placements.append(REPLICATE if own < 0 or (each[own] == 1 and size != 1) else Shard(own))
        result.append(tuple(placements))
    return result


def _reductions(call: Invocation) -> list[Partial]:
    """Return the pending reductions of the arguments that commute with sums and factors."""
    reductions: list[Partial] = []
    for index in range(len(call.tensors)):
        now = call.current(index)
        if (
            isinstance(now, Partial)
            and (now.is_partial("sum") or now.is_partial("avg"))
            and now not in reductions
        ):
            reductions.append(now)
    return reductions


def _shards(call: Invocation) -> list[Strategy]:
    results = len(call.results)
    shape = call.results[0].shape if results else call.tensors[0].shape
    return [
        Strategy((Shard(dim),) * results, placements)
        for dim, placements in enumerate(shards_of_broadcast(shape, [each.shape for each in call.tensors]))
    ]


def pointwise(call: Invocation) -> list[Strategy]:
    """Return the strategies that shard the tensors along each dimension."""
    return _shards(call)


def _additive(call: Invocation) -> list[Strategy]:
    """Return the strategies of an operator that is linear in all its tensors together."""
    numbers = any(isinstance(call.get(name), int | float | complex) for name in ("other",))
    strategies = [
        Strategy((partial,) * len(call.results), (partial,) * len(call.tensors))
        for partial in _reductions(call)
        if not numbers or partial.is_partial("avg")
    ]
    return _shards(call) + strategies


def _partial_in(call: Invocation, linear_indices: Sequence[int]) -> list[Strategy]:
    """Return the strategies of an operator that is linear in one tensor if the others are replicated."""
    return [
        Strategy(
            (partial,) * len(call.results),
            tuple(partial if index == linear_index else REPLICATE for index in range(len(call.tensors))),
        )
        for partial in _reductions(call)
        for linear_index in linear_indices
        if call.current(linear_index) == partial
    ]


def _multiplicative(call: Invocation) -> list[Strategy]:
    """Linear in each of its tensors."""
    return _shards(call) + _partial_in(call, range(len(call.tensors)))


def _linear_in_first(call: Invocation) -> list[Strategy]:
    """Linear in its first tensor."""
    return _shards(call) + _partial_in(call, (0,))


def _converted(call: Invocation) -> list[Strategy]:
    """Return the strategies of a conversion, which is linear if the result is floating-point or complex."""
    exact = call.results[0].dtype.is_floating_point or call.results[0].dtype.is_complex
    return _shards(call) + (_partial_in(call, (0,)) if exact else [])


def _unchanged(call: Invocation) -> list[Strategy]:
    """Return the strategies of an operator that keeps its elements, including a pending reduction."""
    now = call.current(0)
    return [*_shards(call), Strategy((now,) * len(call.results), (now,))]


def _made_like(call: Invocation) -> list[Strategy]:
    """Place new elements that do not depend on the argument's elements."""
    now = call.current(0)
    return _shards(call) + [Strategy((REPLICATE,), (now,))] * isinstance(now, Partial)


def _filled(call: Invocation) -> list[Strategy]:
    """Return the strategies of an operator that overwrites all elements."""
    strategies = _shards(call)
    return [each for each in strategies if len(each.inputs) == len(call.tensors)]


def _copied(call: Invocation) -> list[Strategy]:
    """Return the strategies of a copy from one tensor to another."""
    now = call.current(0)
    both = [Strategy((now,) * len(call.results), (now, now))] if call.current(1) == now else []
    return _shards(call) + both


POINTWISE = Rule(pointwise)
_FAMILIES = (
    (_additive, "add.Tensor add_.Tensor sub.Tensor sub_.Tensor rsub.Tensor"),
    (_multiplicative, "mul.Tensor mul_.Tensor mul.Scalar mul_.Scalar"),
    (
        _linear_in_first,
        "div.Tensor div_.Tensor div.Scalar div_.Scalar neg neg_ native_dropout_backward threshold_backward "
        "gelu_backward silu_backward sigmoid_backward tanh_backward leaky_relu_backward "
        "softplus_backward logit_backward",
    ),
    (_converted, "_to_copy"),
    (_unchanged, "alias clone detach lift_fresh_copy positive zeros_like"),
    (_made_like, "empty_like full_like ones_like"),
    (_filled, "fill_.Scalar fill_.Tensor"),
    (_copied, "copy_"),
    (_unchanged, "zero_"),
    (
        pointwise,
        "masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar masked_fill_.Tensor where.self where.ScalarOther "
        "where.ScalarSelf where.Scalar clamp clamp_ clamp.Tensor "
        "resolve_conj resolve_neg isnan isinf isfinite angle",
    ),
)
RULES = {f"aten::{name}": Rule(strategies) for strategies, names in _FAMILIES for name in names.split()}
"""The rules of the family. Other operators with the tag `pointwise` have the one of shards."""
