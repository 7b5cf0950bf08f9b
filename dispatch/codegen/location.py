"""Where a declaration stands, and the error of one that cannot be."""

from __future__ import annotations

from dataclasses import dataclass


class ModelError(ValueError):
    """A declaration that cannot be; the message starts with its place."""


@dataclass(frozen=True)
class Location:
    """An entry of a YAML file: the operator that it declares, or its line where that cannot be read.

    Generated code holds it, so that it does not name the line, which changes with every entry above.
    """

    file: str
    line: int
    operator: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.operator}" if self.operator else f"{self.file}:{self.line}"


__all__ = ["Location", "ModelError"]
