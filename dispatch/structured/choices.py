"""Reports of kernel factories on the algorithms that they choose, and on the sizes that decide.

A factory with several kernels reports the selected one in its branch::

    chosen("rows in blocks", "the row of {} elements is contiguous and longer than {}", n, SHORT)

Without listeners, a report costs one check of an empty list. Only planning reports; a plan's kernels never do.
`layers/explain` listens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Listener(Protocol):
    """Receiver of reports on choices."""

    def on_choice(self, algorithm: str, because: str) -> None:
        """Receive the algorithm that a factory has taken."""

    def on_stub(self, name: str, device_type: str, factory: Callable[..., Any]) -> None:
        """Receive the name of a stub whose kernel a plan requests, and the `factory` that makes the kernel."""

    def on_launch_planned(self, kernel: Any, constants: Mapping[str, object]) -> None:
        """Receive a planned launch of a Triton kernel with these constants."""


listeners: list[Listener] = []
"""The listeners, in every thread; usually empty."""


def chosen(algorithm: str, because: str, *values: object) -> None:
    """Report the algorithm that a kernel factory selected.

    Args:
        algorithm: A few words that identify the algorithm in the factory's module.
        because: A plain sentence without a full stop, with a ``{}`` for each of `values`. It is formatted only if there
            are listeners.
        values: The sizes that decided.

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.structured.choices import chosen
        >>> chosen("one block", "{} elements fit a block of {}", 100, 128)  # nobody listens
    """
    if listeners:
        text = because.format(*values)
        for listener in listeners:
            listener.on_choice(algorithm, text)
