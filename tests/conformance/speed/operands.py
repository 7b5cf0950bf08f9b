"""Small and large operands of an operator, from the samples of PyTorch's database.

Small ones are the first sample that has elements. Large ones are that sample grown: every size by one factor, so that
what fitted together still does, or the leading sizes alone, which makes a batch. `large.LARGE` names the operators
that either would make another problem, such as a convolution by a window of 100 x 100.
"""

import math
import re
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.testing._internal.opinfo.core import OpInfo

from ..conversion import flat
from ..modes.mode import Settings, arguments, samples_of
from ..operators import title
from .large import LARGE

RUNGS = tuple(1 << bits for bits in (12, 14, 16, 18, 20))
MOST = 4
KINDS = 8
"""How many samples are tried for one that grows."""
# Each matrix of a batch is worked on alone: more of them, not larger ones.
BATCHED = re.compile(
    r"(linalg\..*|cholesky.*|inverse|pinverse|qr|lu.*|logdet|matrix_exp|.*svd.*|triangular_solve|ormqr|geqrf)$"
)
FIRST_SAMPLES = 300
FEWEST = 16


class Operands(NamedTuple):
    """Positional and named arguments, as the database calls its operator."""

    positional: list[Any]
    named: dict[str, Any]

    def __str__(self) -> str:
        shown = [_text(value) for value in self.positional[:3]]
        return ", ".join(shown + [f"{name}={_text(value)}" for name, value in self.named.items()][:3])


def small(operator: OpInfo) -> Iterator[Operands]:
    """Yield the non-empty samples in order, those with few elements last."""
    tiny = []
    for sample in islice(samples_of(operator, Settings()), FIRST_SAMPLES):
        found = Operands(*arguments(sample))
        elements = [tensor.numel() for tensor in _tensors(found)]
        if not all(elements):
            continue
        if elements and max(elements) >= FEWEST:
            yield found
        else:
            tiny.append(found)
    yield from tiny


def large(operator: OpInfo) -> Iterator[Iterator[Operands]]:
    """Yield growing operands of up to about a million elements, by the most likely rule first."""
    if title(operator) in LARGE:
        torch.manual_seed(0)
        yield iter([Operands(*LARGE[title(operator)]())])
        return
    grow = [_by_one_factor, _by_batches]
    if BATCHED.match(operator.name):
        grow.reverse()
    for found in islice(small(operator), KINDS):
        for rule in grow if _tensors(found) else []:
            rungs = (rule(found, elements) for elements in RUNGS)
            yield (operands for operands in rungs if operands is not None)


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the call's duration; infinity if the operator refuses it."""
    try:
        call()
        start = time.perf_counter()
        call()
    except Exception:  # operands that the operator refuses are not operands of a comparison
        return math.inf
    return time.perf_counter() - start


def _by_one_factor(sample: Operands, elements: int) -> Operands | None:
    largest = max(_tensors(sample), key=torch.Tensor.numel)
    growing = sum(size > 1 for size in largest.shape)
    if not growing or largest.numel() >= elements:
        return sample if largest.numel() >= elements else None
    factor = int((elements / largest.numel()) ** (1 / growing))
    if factor < 2:
        return None
    return _grown(sample, elements, lambda shape: [size * factor if size > 1 else size for size in shape])


def _by_batches(sample: Operands, elements: int) -> Operands | None:
    largest = max(_tensors(sample), key=torch.Tensor.numel)
    if not largest.dim():
        return None
    batch, factor = largest.shape[0], elements // largest.numel()
    return _grown(
        sample,
        elements,
        lambda shape: (
            [shape[0] * factor, *shape[1:]] if shape and shape[0] == batch and len(shape) > 1 else shape
        ),
    )


def _grown(sample: Operands, elements: int, grow: Callable[[Any], Any]) -> Operands | None:
    if any(math.prod(grow(tensor.shape)) > MOST * elements for tensor in _tensors(sample)):
        return None
    torch.manual_seed(0)
    return Operands(
        *_mapped((sample.positional, sample.named), lambda tensor: _refilled(tensor, grow(tensor.shape)))
    )


def _refilled(tensor: torch.Tensor, shape: Any) -> torch.Tensor:
    """Return a tensor of `shape` whose values lie between those of `tensor`; integers and bools are sampled from it."""
    count = math.prod(shape)
    known = tensor.detach().reshape(-1)
    if not known.is_floating_point():
        return known[torch.randint(known.numel(), (count,))].reshape(shape)
    known = known.sort().values
    place = torch.rand(count) * (known.numel() - 1)
    low = place.long().clamp_(max=max(known.numel() - 2, 0))
    high = (low + 1).clamp_(max=known.numel() - 1)
    return torch.lerp(known[low], known[high], place - low).reshape(shape)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return value


def _tensors(operands: Operands) -> list[torch.Tensor]:
    return [leaf for leaf in flat([*operands]) if isinstance(leaf, torch.Tensor)]


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) or "0-d"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_text, value[:3]))})"
    return str(value)[:20]
