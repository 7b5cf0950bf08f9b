"""What serves calls without a graph, in the place of a `Compilation`: the function in parts, or as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .splitting.split import Split, Splitter


class InParts:
    """A split function in the place of a `Compilation`, for calls of tensors alone.

    Args:
        split: the function in parts.
        splitter: knows whether it is still the function.
    """

    written = ()

    def __init__(self, split: Split, splitter: Splitter | None) -> None:
        self._split, self._splitter = split, splitter

    def hold(self) -> tuple[Any, ...] | None:
        """No tensors; None if the function is another one by now."""
        return () if self._splitter is not None and self._splitter.is_current() else None

    def run(self, inputs: Sequence[Any]) -> Any:
        """The result."""
        assert self._splitter is not None
        return self._split(*self._splitter.prefix, *inputs)

    def finish(self, result: Any) -> Any:
        """The result as it is."""
        return result


class AsItIs:
    """A function that no graph holds and that is not split in the place of a `Compilation`, for calls of tensors alone.

    Args:
        function: the function.
    """

    written = ()

    def __init__(self, function: Callable[..., Any]) -> None:
        self.run = lambda inputs: function(*inputs)

    def hold(self) -> tuple[Any, ...]:
        """No tensors."""
        return ()

    def finish(self, result: Any) -> Any:
        """The result as it is."""
        return result
