"""Documentation of an operator: the `docs` of an entry, as a frozen dataclass.

One entry documents a name: its function, its method, its ``out=`` form and its in-place form, whose docstrings
`docstrings` makes of it. It stands on the name's first entry.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .location import Location, ModelError

REQUIRED = ("summary", "returns", "example")
LONGEST_SUMMARY = 110

HOW_TO_WRITE = """\
docs:
  summary: Compute what the name says, in one sentence of at most 110 characters.
  formula: exp(x_i) / sum_j exp(x_j)          # where there is one
  args:
    input: Its meaning, shape and dtype; one such line for each parameter, under its Python name.
  returns: Shape and dtype of the result, or of each one.
  raises:                                     # what was seen to be raised
    IndexError: "`dim` is out of range."
  notes: Edges such as nan, empty tensors, ties.  # where they surprise
  example: |
    >>> tt.name(tt.tensor([1.0]))
    tensor([1.])"""
"""What to write for an operator that has no documentation."""


@dataclass(frozen=True)
class OperatorDocs:
    """Documentation of a name.

    `args` and `raises` are pairs in the order in which they were written. `lacks` says what is refused though one
    would expect it, `source` where the definition comes from, by default PyTorch's operator of that name.
    `example_in_place` stands for the in-place form's example where it does not follow from `example`. An alias has
    `alias_of` alone: the name whose documentation is its own.
    """

    summary: str = ""
    formula: str = ""
    args: tuple[tuple[str, str], ...] = ()
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    lacks: str = ""
    notes: str = ""
    source: str = ""
    example: str = ""
    example_in_place: str = ""
    alias_of: str = ""

    def to_fields(self) -> dict[str, Any]:
        """Return the YAML fields that this documentation was parsed from."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: dict(v) if isinstance(v, tuple) else v for name, v in values.items() if v}

    @staticmethod
    def from_fields(fields: Any, location: Location) -> OperatorDocs:
        """Parse an entry's `docs`. Raises ModelError for unknown, missing or malformed fields."""
        known = [each.name for each in dataclasses.fields(OperatorDocs)]
        if not isinstance(fields, Mapping):
            raise ModelError(f"{location}: docs are fields such as\n{HOW_TO_WRITE}")
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise ModelError(f"{location}: docs have unknown fields {unknown}; known are {known}")
        if "alias_of" in fields:
            if len(fields) > 1:
                raise ModelError(f"{location}: docs with alias_of have no other fields")
            return OperatorDocs(alias_of=_text(fields["alias_of"], "alias_of", location))
        missing = [name for name in REQUIRED if not fields.get(name)]
        if missing:
            raise ModelError(f"{location}: docs have no {' and no '.join(missing)}; write\n{HOW_TO_WRITE}")
        read: dict[str, Any] = {
            name: (_pairs if name in ("args", "raises") else _text)(value, name, location)
            for name, value in fields.items()
        }
        made = OperatorDocs(**read)
        _check(made, location)
        return made


def _text(value: Any, name: str, location: Location) -> str:
    if not isinstance(value, str):
        raise ModelError(f"{location}: docs: {name} is text, got {value!r}; quote it")
    return value.strip("\n") if name.startswith("example") else value.strip()


def _pairs(value: Any, name: str, location: Location) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise ModelError(f"{location}: docs: {name} is a mapping to text, got {value!r}")
    return tuple((str(key), _text(text, f"{name}: {key}", location)) for key, text in value.items())


def _check(docs: OperatorDocs, location: Location) -> None:
    summary = docs.summary
    if not summary.endswith(".") or "\n" in summary or len(summary) > LONGEST_SUMMARY:
        raise ModelError(
            f"{location}: docs: the summary is one sentence of at most {LONGEST_SUMMARY} characters with a full "
            f"stop, got {len(summary)}: {summary}"
        )
    for name, _ in docs.raises:
        if re.fullmatch(r"[\w.]+", name) is None:
            raise ModelError(f"{location}: docs: raises names exceptions, not {name!r}")
    for name in ("example", "example_in_place"):
        text: str = getattr(docs, name)
        if text and not text.startswith(">>> "):
            raise ModelError(f"{location}: docs: {name} starts with '>>> '")


__all__ = ["HOW_TO_WRITE", "LONGEST_SUMMARY", "OperatorDocs"]
