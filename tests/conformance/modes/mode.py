"""Definition of a mode, and the samples that modes share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import Conversion, flat
from ..operators import chosen, ordered

# Makes one comparison. Raises Difference, OutsideError or MissingError; False says that only a message's text differs.
Check = Callable[[], bool | None]


@dataclass(frozen=True)
class Settings:
    """Selection of samples, and triten's device."""

    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    max_samples: int = 0
    max_numel: int = 0

    @property
    def meta(self) -> bool:
        return self.device == "meta"

    def conversion(self, *, gradients: bool = False) -> Conversion:
        return Conversion(self.device, gradients=gradients, largest=self.max_numel)

    def some(self, samples: Any) -> Iterator[Any]:
        """Return the first `max_samples` samples, or all."""
        return islice(samples, self.max_samples or None)


@dataclass(frozen=True)
class Mode:
    """A way of asking: which operators it concerns, and what it asks of one.

    `entries` gives the database's entries whose names a pattern finds, and which take a dtype.
    """

    name: str
    applies: Callable[[Any, Settings], bool]
    cases: Callable[[Any, Settings], Iterator[tuple[str, Check]]]
    entries: Callable[[str, torch.dtype | None], Iterator[Any]] = chosen


def samples_of(operator: OpInfo, settings: Settings, *, requires_grad: bool = False) -> Iterator[SampleInput]:
    """Return the operator's samples, with a fixed seed."""
    torch.manual_seed(0)
    return settings.some(operator.sample_inputs("cpu", settings.dtype, requires_grad=requires_grad))


def arguments(sample: SampleInput) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and named arguments with which the database calls its operator."""
    return [sample.input, *sample.args], dict(sample.kwargs)


def ours_of(
    operator: OpInfo, convert: Conversion, positional: list[Any], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Convert the arguments to triten's, in triten's order."""
    if operator.name.endswith("polygamma") and "n" in named:
        positional, named = [*positional, named["n"]], {k: v for k, v in named.items() if k != "n"}
    return ordered(operator, [convert(value) for value in positional]), {
        name: convert(value) for name, value in named.items()
    }


def tensors_of(value: Any, kind: type = torch.Tensor) -> list[Any]:
    """Return the tensors in `value`: PyTorch's, or triten's if `kind` says so."""
    return [leaf for leaf in flat(value) if isinstance(leaf, kind)]


def on_meta(value: Any) -> Any:
    """Return a sample's value on PyTorch's Meta device, with its strides and offsets."""
    if isinstance(value, torch.Tensor):
        elements = value.untyped_storage().nbytes() // value.element_size()
        whole = torch.empty(elements, dtype=value.dtype, device="meta")
        return whole.as_strided(value.shape, value.stride(), value.storage_offset()).detach()
    if isinstance(value, torch.device):
        return torch.device("meta") if value.type == "cpu" else value
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(on_meta, value))
    if isinstance(value, dict):
        return {name: on_meta(item) for name, item in value.items()}
    return value
