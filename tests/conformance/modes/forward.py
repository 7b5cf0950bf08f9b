"""Each sample gives the values that PyTorch's operator gives; `reference` takes PyTorch's longer lists, with
more edge cases.

If the results differ only by rounding, triten's must be as near to the float64 result. Indices of equal
values may differ if PyTorch's documentation allows it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import OutsideError, copied
from ..nearness import as_near, widened
from ..operators import functional, values_are_free
from ..outcome import ValueDifference, compare_outcomes, outcome
from ..ties import differ_in_ties_alone
from .mode import Check, Mode, Settings, arguments, on_meta, ours_of, samples_of


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    for sample in samples_of(operator, settings):
        yield "sample", partial(check, operator, ours, settings, sample)


def reference_cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    torch.manual_seed(0)
    for sample in settings.some(operator.reference_inputs("cpu", settings.dtype)):
        yield "reference", partial(check, operator, ours, settings, sample)


def check(operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput) -> None:
    """Make the call in both libraries, each with its own arguments."""
    positional, named = arguments(sample)
    mine, mine_named = ours_of(operator, settings.conversion(), positional, named)
    if settings.meta:
        given_meta = on_meta(copied(positional)), on_meta(copied(named))
        if outcome(lambda: operator.op(*given_meta[0], **given_meta[1])).raised is not None:
            raise OutsideError("PyTorch's own Meta refuses it")
    positional, named = copied((positional, named))
    theirs = outcome(lambda: operator.op(*positional, **named))
    given = outcome(lambda: ours(*mine, **mine_named))
    try:
        compare_outcomes(theirs, given, free=values_are_free(operator), meta=settings.meta)
    except ValueDifference:
        positional, named = arguments(sample)
        if differ_in_ties_alone(operator, positional, named, theirs.value, given.value):
            return
        wide, wide_named = widened(copied((positional, named)))
        if not as_near(lambda: operator.op(*wide, **wide_named), theirs.value, given.value):
            raise


FORWARD = Mode("forward", lambda operator, settings: True, cases)
REFERENCE = Mode(
    "reference", lambda operator, settings: operator.reference_inputs_func is not None, reference_cases
)
