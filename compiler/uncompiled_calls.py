"""Replacements of a `Compilation` for calls without a graph: the function in parts, or run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .splitting.split import Split, Splitter


class InParts:
    """A split function instead of a `Compilation`, for calls of tensors alone.

    Args:
        split: The function in parts.
        splitter: The splitter, which checks that the function has not changed.
    """

    written = ()

    def __init__(self, split: Split, splitter: Splitter | None) -> None:
        self._split, self._splitter = split, splitter

    def hold(self) -> tuple[Any, ...] | None:
        """Return no tensors; None if the function has changed."""
        return () if self._splitter is not None and self._splitter.is_current() else None

    def run(self, inputs: Sequence[Any]) -> Any:
        """Run the function in parts."""
        assert self._splitter is not None
        return self._split(*self._splitter.prefix, *inputs)

    def finish(self, result: Any) -> Any:
        """Return the result unchanged."""
        return result


class AsItIs:
    """A function that is neither captured nor split, instead of a `Compilation`, for calls of tensors alone.

    Args:
        function: The function.
    """

    written = ()

    def __init__(self, function: Callable[..., Any]) -> None:
        self.run = lambda inputs: function(*inputs)

    def hold(self) -> tuple[Any, ...]:
        """Return no tensors."""
        return ()

    def finish(self, result: Any) -> Any:
        """Return the result unchanged."""
        return result
