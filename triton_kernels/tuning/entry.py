"""Measured entry for a question, as stored in the shipped tables' files and in the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...runtime.cuda.triton.kernel_key import NoKeyError
from ..budget import Configuration, declaration_of
from .question import declared, is_same

FORMAT = 1
"""Changes with the fields of an entry and with what a class of shapes is."""


@dataclass(frozen=True)
class Entry:
    """The best configuration of a kernel for a dtype and a class of shapes.

    Args:
        kernel: ``module:function``.
        source: hash of the code of the kernel and all that it reaches, without comments, docstrings, line numbers and
            the names of variables and functions. An entry of other code is ignored.
        dtype, shape: as `Question` has them.
        tile, warps, stages, ctas: the configuration.
        microseconds: the medians of all that were timed, by the configurations' text.
        device: the name of the device that they were timed on.
    """

    kernel: str
    source: str
    dtype: str
    shape: str
    tile: tuple[int, ...]
    warps: int
    stages: int
    microseconds: Mapping[str, float] = field(default_factory=dict)
    device: str = ""
    ctas: int = 1

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON data, without the blocks of a cluster where there is no cluster."""
        record = {
            "format": FORMAT,
            **vars(self),
            "tile": list(self.tile),
            "microseconds": dict(self.microseconds),
        }
        if self.ctas == 1:
            del record["ctas"]
        return record

    def configuration(self, capability: int) -> Configuration | None:
        """Return the declared configuration that the entry names, or None if the kernel no longer has it."""
        if self.source != source_of(self.kernel):
            return None
        named = Configuration(self.tile, self.warps, self.stages, ctas=self.ctas)
        for each in declared(self.kernel, self.dtype, capability):
            if is_same(each, named):
                return each
        return None

    def is_in_force(self, capability: int) -> bool:
        """Return True if launches take the entry's configuration, as a declared one or as their default.

        The first of the configurations that were timed was the launcher's default, which may be a smaller tile
        than any declared one.
        """
        if self.configuration(capability) is not None:
            return True
        default = next(iter(self.microseconds), None)
        was_default = default == str(Configuration(self.tile, self.warps, self.stages))
        return was_default and self.source == source_of(self.kernel)


def read_entry(record: object) -> Entry | None:
    """Return the entry in parsed JSON, or silently None for anything else, such as a damaged file."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return None
    texts = [record.get(name) for name in ("kernel", "source", "dtype", "shape", "device")]
    numbers = [record.get("warps"), record.get("stages"), record.get("ctas", 1)]
    tile, times = record.get("tile"), record.get("microseconds")
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        return None
    if (
        not isinstance(tile, list)
        or not all(type(size) is int for size in tile)
        or not isinstance(times, dict)
    ):
        return None
    if not all(type(time) in (int, float) for time in times.values()):
        return None
    kernel, source, dtype, shape, device = texts
    warps, stages, ctas = numbers
    return Entry(kernel, source, dtype, shape, tuple(tile), warps, stages, times, device, ctas)  # type: ignore[arg-type]


def source_of(kernel: str) -> str | None:
    """Return the hash of a declared kernel's source, or None for an undeclared or sourceless kernel."""
    declaration = declaration_of(kernel)
    if declaration is None:
        return None
    try:
        key: str = declaration.kernel.code_key
    except NoKeyError:
        return None
    return key
