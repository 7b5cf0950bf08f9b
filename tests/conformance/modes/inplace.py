"""In-place forms: the functional form's values, and refusals where a dtype cannot be cast or memory overlaps."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import OutsideError, copied
from ..operators import in_place, ordered, values_are_free
from ..outcome import Difference, compare_outcomes, compare_values, outcome
from .errors import expect_untouched, snapshot
from .mode import Check, Mode, Settings, arguments, samples_of

SAMPLES = 20
LABELS = ("plain", "int32", "expanded", "shifted argument", "leaf")
# PyTorch's result is not defined where it does not refuse these.
UNDEFINED = {"expanded", "shifted argument"}


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = in_place(operator)
    for number, sample in enumerate(samples_of(operator, settings)):
        if number >= (settings.max_samples or SAMPLES):
            break
        for label in LABELS:
            yield f"in-place {label}", partial(_check, operator, ours, settings, sample, label)


def _check(operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput, label: str) -> None:
    positional, named = copied(arguments(sample))
    if not isinstance(positional[0], torch.Tensor):
        raise OutsideError("a list")
    positional = _prepared(positional, label)
    convert = settings.conversion(gradients=label == "leaf")
    mine = [convert(value) for value in positional]
    target = mine[0]
    mine_named = {name: convert(value) for name, value in named.items()}
    if operator.name in ("polygamma", "special.polygamma"):
        mine = [mine[0], *mine[1:]]
    elif operator.name != "where":
        mine = ordered(operator, mine)
    before = snapshot((mine, mine_named))
    theirs = outcome(lambda: operator.inplace_variant(*positional, **named))
    if theirs.raised is None and label in UNDEFINED:
        raise OutsideError("PyTorch does not refuse")
    given = outcome(lambda: ours(*mine, **mine_named))
    free = values_are_free(operator)
    compare_outcomes(theirs, given, free=free, meta=settings.meta, computed=settings.dtype)
    if theirs.raised is not None:
        return expect_untouched(before, (mine, mine_named))
    compare_values(
        positional[0], target, free=free, meta=settings.meta, computed=settings.dtype, what="operand"
    )
    if theirs.value is positional[0] and given.value is not target:
        raise Difference("what is returned is not the operand")
    return None


def _prepared(positional: list[Any], label: str) -> list[Any]:
    target, *rest = positional
    if label == "int32":
        return [target.to(torch.int32), *rest]
    if label == "leaf":
        if not (target.is_floating_point() or target.is_complex()):
            raise OutsideError("no leaf of whole numbers")
        return [target.detach().requires_grad_(), *rest]
    if label == "expanded":
        if target.numel() < 2:
            raise OutsideError("too small to overlap itself")
        return [target.reshape(-1).clone()[:1].expand(target.shape), *rest]
    if label == "shifted argument":
        for place, value in enumerate(rest):
            same = isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (
                target.shape,
                target.dtype,
            )
            if same and target.numel() > 1:
                memory = torch.cat([value.reshape(-1), value.new_ones(1)])
                shifted = memory[1:].view(value.shape)
                others = [shifted if n == place else v for n, v in enumerate(rest)]
                return [memory[:-1].view(target.shape), *others]
        raise OutsideError("no argument of the operand's shape")
    return positional


INPLACE = Mode("inplace", lambda operator, settings: operator.inplace_variant is not None, cases)
