"""Unmutated calls: the samples of PyTorch's operators as cases, each with the shapes and dtypes of its results."""

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import torch

import triten as tt

from ....conformance.conversion import flat
from ....conformance.modes.mode import arguments
from ....conformance.operators import FACTORED, MissingError, chosen, functional, ordered, title
from .values import encoded, reached

DTYPES = (
    *(torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
LARGEST = 512
MAX_MADE, MAX_KEPT = 24, 24


@dataclass(frozen=True)
class Base:
    """One sample as a case, and its results: shapes and names of dtypes; None where one is no tensor."""

    case: dict[str, Any]
    results: tuple[tuple[tuple[int, ...], str], ...] | None
    is_single: bool


@functools.cache
def operators() -> list[tuple[Any, str]]:
    """Return the database's operators that both libraries have under the same name, with that name."""
    found = []
    for operator in chosen(""):
        call = _name(operator)
        if call is not None and operator.name not in FACTORED:
            found.append((operator, call))
    return sorted(found, key=lambda pair: title(pair[0]))


def _name(operator: Any) -> str | None:
    name = operator.name.removeprefix("torch.")
    if name.startswith("__"):
        return None  # Python calls it, and takes another type's where it gives NotImplemented
    try:
        ours = functional(operator)
    except MissingError:
        return None
    for call in (name, f"{name}_", f"Tensor.{name}", f"Tensor.{name}_"):
        try:
            if reached(tt, call) == ours and callable(reached(torch, call)):
                return call
        except AttributeError:
            continue
    return None


@functools.lru_cache(1024)
def bases(number: int, dtype: torch.dtype) -> list[Base]:
    """Return the first small samples of one operator and dtype that PyTorch accepts."""
    operator, call = operators()[number]
    if dtype not in operator.supported_dtypes("cpu"):
        return []
    torch.manual_seed(0)
    found = []
    try:
        for sample in itertools.islice(operator.sample_inputs("cpu", dtype), MAX_MADE):
            base = _base(operator, call, sample)
            if base is not None:
                found.append(base)
            if len(found) == MAX_KEPT:
                break
    except (
        Exception
    ):  # the database cannot make samples of every dtype that it lists, and fails in ways of its own
        return found
    return found


def _base(operator: Any, call: str, sample: Any) -> Base | None:
    positional, named = arguments(sample)
    if sum(leaf.numel() for leaf in flat((positional, named)) if isinstance(leaf, torch.Tensor)) > LARGEST:
        return None
    if operator.name.endswith("polygamma") and "n" in named:
        positional = [*positional, named.pop("n")]
    positional = ordered(operator, positional)
    case: dict[str, Any] = {"call": call, "device": "cpu", "backward": False, "storages": []}
    storages: dict[Any, int] = {}
    try:
        case["arguments"] = [encoded(case, value, storages) for value in positional]
        case["named"] = {name: encoded(case, value, storages) for name, value in named.items()}
        result = reached(torch, call)(*positional, **named)
    except Exception:  # whatever the sample needs that a case has not
        return None
    results = flat(result)
    if not results or not all(isinstance(leaf, torch.Tensor) for leaf in results):
        return Base(case, None, False)
    shapes = tuple((tuple(leaf.shape), str(leaf.dtype).removeprefix("torch.")) for leaf in results)
    return Base(case, shapes, isinstance(result, torch.Tensor))
