"""Refusals: where PyTorch refuses an input, so does ours, by the same type, and every operand is as it was.

On Meta as PyTorch does on the CPU, or as its Meta does where that refuses by another type.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import triten as tt

from ..conversion import OutsideError, array_of_ours, copied, flat
from ..operators import functional
from ..outcome import Difference, compare_outcomes, outcome, refusal_differs, texts_agree
from .mode import Check, Mode, Settings, arguments, on_meta, ours_of, tensors_of


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    torch.manual_seed(0)
    for error_input in settings.some(operator.error_inputs("cpu")):
        yield "error input", partial(_check, operator, ours, settings, error_input.sample_input)


def _check(operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput) -> bool:
    positional, named = arguments(sample)
    mine, mine_named = ours_of(operator, settings.conversion(), positional, named)
    before = snapshot((mine, mine_named))
    positional, named = copied((positional, named))
    theirs = outcome(lambda: operator.op(*positional, **named))
    if theirs.raised is None:
        raise OutsideError("this build of PyTorch takes it")
    if settings.device != "cpu" and len({tensor.device for tensor in tensors_of((positional, named))}) > 1:
        raise OutsideError("operands of several devices, which one device is not")
    if settings.meta:
        positional, named = on_meta(copied((positional, named)))
        on_theirs = outcome(lambda: operator.op(*positional, **named))
        if on_theirs.raised is None:
            raise OutsideError("it takes values to see what is wrong, which PyTorch's Meta does not have")
    given = outcome(lambda: ours(*mine, **mine_named))
    if settings.meta and given.raised is not None and refusal_differs(theirs.raised, given.raised):
        theirs = on_theirs
    compare_outcomes(theirs, given)
    expect_untouched(before, (mine, mine_named))
    return texts_agree(theirs.raised, given.raised)


def snapshot(value: Any) -> list[tuple[tuple[int, ...], np.ndarray | None]]:
    """Return the shape and bytes of every tensor in `value`."""
    tensors = [leaf for leaf in flat(value) if isinstance(leaf, tt.Tensor)]
    return [(tuple(leaf.shape), None if leaf.is_meta else array_of_ours(leaf).copy()) for leaf in tensors]


def expect_untouched(before: list[Any], value: Any) -> None:
    """Raise Difference if a refused call wrote to, or resized, one of its operands."""
    for (shape, values), (shape_now, values_now) in zip(before, snapshot(value), strict=True):
        if shape != shape_now or (values is not None and values.tobytes() != values_now.tobytes()):
            raise Difference(f"an operand of shape {shape} is not as it was before the refusal")


ERRORS = Mode("errors", lambda operator, settings: operator.error_inputs_func is not None, cases)
