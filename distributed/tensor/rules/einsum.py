"""Sharding rules by letters: a shard along a letter gives a shard of the result, or a partial sum if the
result lacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..placements import REPLICATE, Partial, Placement, Shard
from .rule import Invocation, Strategy

__all__ = ["einsum", "lettered"]

SUM = Partial("sum")


def lettered(
    call: Invocation, inputs: Sequence[str], outputs: Sequence[str], whole: str = "", linear: bool = True
) -> list[Strategy]:
    """Return one strategy per letter.

    Args:
        call: The operator and its arguments.
        inputs: For each tensor argument, one letter per dimension.
        outputs: For each result, one letter per dimension.
        whole: Letters of dimensions that cannot be sharded.
        linear: If True, a tensor without a letter is a sum over it. Otherwise such letters are not sharded.
    """
    strategies = []
    for letter in dict.fromkeys("".join(inputs)):
        if letter in whole or not (linear or all(letter in each for each in outputs)):
            continue
        strategies.append(
            Strategy(
                tuple(Shard(each.index(letter)) if letter in each else SUM for each in outputs),
                tuple(Shard(each.index(letter)) if letter in each else REPLICATE for each in inputs),
            )
        )
    return strategies


def _partials(call: Invocation) -> list[Strategy]:
    """Return the strategies of an operator that is linear in each tensor if the others are replicated."""
    strategies = []
    for index in range(len(call.tensors)):
        now = call.current(index)
        if isinstance(now, Partial) and (now.is_partial("sum") or now.is_partial("avg")):
            inputs: list[Placement] = [REPLICATE] * len(call.tensors)
            inputs[index] = now
            strategies.append(Strategy((now,) * len(call.results), tuple(inputs)))
    return strategies


def einsum(equation: str) -> Callable[[Invocation], list[Strategy]]:
    """Return the strategies of an einsum, which is linear in each of its tensors.

    Args:
        equation: Equation, as for `tt.einsum`.

    Example:
        >>> from triten.distributed.tensor.rules.einsum import einsum
        >>> from triten.distributed.tensor.rules.rule import Invocation
        >>> for strategy in einsum("mk,kn->mn")(Invocation("aten::mm", {}, [], [])):
        ...     print(*strategy.inputs, "->", *strategy.outputs)
        S(0) R -> S(0)
        S(1) S(0) -> P(sum)
        R S(1) -> S(1)
    """
    left, _, right = equation.partition("->")
    inputs, outputs = left.split(","), right.split(",")
    return lambda call: lettered(call, inputs, outputs) + _partials(call)
