"""Layouts: operands that are transposed, sliced, expanded or channels-last give what contiguous ones do."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import OutsideError, copied
from ..operators import functional, values_are_free
from ..outcome import compare_outcomes, outcome
from .mode import Check, Mode, Settings, arguments, ours_of, samples_of

SAMPLES = 10
# A slice repeated makes a singular matrix, whose decomposition is anything.
SINGULAR = re.compile(
    r"(linalg\..*|qr|pinverse|inverse|cholesky.*|matrix_exp|logdet|slogdet|lu.*|svd|geqrf|ormqr)$"
)
# These operators return memory outside of their operand.
BEYOND = re.compile(r"(resize_|resize_as_|as_strided.*)$")


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order) if tensor.dim() > 1 else tensor


def _stepped(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to a view with step 2 along the last dimension and a storage offset."""
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    memory = tensor.new_ones((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3))
    view = memory[..., 3::2]
    view.copy_(tensor)
    return view


def _column(tensor: torch.Tensor, step: int) -> torch.Tensor:
    """Copy a tensor to one column of rows of `step` elements."""
    return torch.stack([tensor] * step, -1)[..., step // 2]


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """Expand the first slice of the outermost dimension to all of them."""
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() and tensor.shape[0] > 1 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": _transposed,
    "reversed": _reversed,
    "stepped": _stepped,
    **{f"stepped by {step}": partial(_column, step=step) for step in (4, 8, 16)},
    "expanded": _expanded,
    "channels last": _channels_last,
}


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    for number, sample in enumerate(samples_of(operator, settings)):
        if number >= (settings.max_samples or SAMPLES):
            break
        for label in LAYOUTS:
            if label == "expanded" and SINGULAR.match(operator.name):
                continue
            yield f"layout {label}", partial(_check, operator, ours, settings, sample, label)


def _check(operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput, label: str) -> None:
    positional, named = arguments(sample)
    operands, laid_named, changed = laid(positional, LAYOUTS[label]), laid(named, LAYOUTS[label]), False
    for before, after in zip(_tensors((positional, named)), _tensors((operands, laid_named)), strict=True):
        changed |= before.stride() != after.stride() or before.storage_offset() != after.storage_offset()
    if not changed:
        raise OutsideError("no operand has that layout")
    mine, mine_named = ours_of(operator, settings.conversion(), operands, laid_named)
    operands, laid_named = copied((operands, laid_named))
    theirs = outcome(lambda: operator.op(*operands, **laid_named))
    given = outcome(lambda: ours(*mine, **mine_named))
    compare_outcomes(theirs, given, free=values_are_free(operator), meta=settings.meta)


def laid(value: Any, layout: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Copy a sample's value with its tensors in another layout."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise OutsideError(str(value.layout))
        return layout(value.detach().resolve_conj().resolve_neg().clone())
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(laid(item, layout) for item in value)
    if isinstance(value, dict):
        return {name: laid(item, layout) for name, item in value.items()}
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in _tensors(item)] if isinstance(value, list | tuple) else []


LAYOUT = Mode("layouts", lambda operator, settings: not BEYOND.match(operator.name), cases)
