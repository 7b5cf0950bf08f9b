"""Indices that are free among equal values, where PyTorch's documents leave open which one is given."""

from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo

from .conversion import array_of_ours, flat

# The position of `dim` among an operator's arguments.
DIMENSION = {"argsort": 1, "kthvalue": 2, "median": 1, "mode": 1, "nanmedian": 1, "sort": 1, "topk": 2}


def differ_in_ties_alone(
    operator: OpInfo, positional: list[Any], named: dict[str, Any], theirs: Any, ours: Any
) -> bool:
    """Return True if both results index equal values and triten's indices do not repeat."""
    if operator.name not in DIMENSION or named.get("stable") or _is_stable(operator, positional):
        return False
    place = DIMENSION[operator.name]
    dim = named.get("dim", positional[place] if len(positional) > place else -1)
    *values, want = flat(theirs)
    *own_values, got = flat(ours)
    indices = torch.from_numpy(array_of_ours(got).copy())
    for value, own in zip(values, own_values, strict=True):
        if not torch.equal(value.double().nan_to_num(0), _double(own).nan_to_num(0)):
            return False
    operand = positional[0]
    if indices.shape != want.shape or not operand.dim():
        return False
    if indices.dim() < operand.dim():
        indices, want = indices.unsqueeze(dim), want.unsqueeze(dim)
    if bool(((indices < 0) | (indices >= operand.shape[dim])).any()):
        return False
    ordered = indices.sort(dim).values
    if bool((ordered.diff(dim=dim) == 0).any()):
        return False
    picked, expected = operand.gather(dim, indices), operand.gather(dim, want)
    return bool(((picked == expected) | ((picked != picked) & (expected != expected))).all())


def _double(tensor: Any) -> torch.Tensor:
    return torch.from_numpy(array_of_ours(tensor).astype("float64"))


def _is_stable(operator: OpInfo, positional: list[Any]) -> bool:
    """Return True if a positional bool asks for a stable order (``sort(x, stable, dim)``)."""
    return operator.name in {"sort", "argsort"} and len(positional) > 1 and positional[1] is True
