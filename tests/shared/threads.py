"""Functions in other threads, and waiting for what comes in its own time."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

PATIENCE = 300.0
"""Seconds after which a test that waits for what never comes fails. What comes comes long before, on any machine."""


def in_thread(function: Callable[[], Result], name: str | None = None) -> Result:
    """Run the function in a new thread; return its result or raise its error."""
    return together(function, name=name)[0]


def together(*functions: Callable[[], Any], name: str | None = None) -> list[Any]:
    """Run the functions concurrently in new threads; return their results or raise the first error."""
    start = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def run(index: int, function: Callable[[], Any]) -> None:
        try:
            start.wait(PATIENCE)
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(index, function), name=name, daemon=True)
        for index, function in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    join(*threads)
    if errors:
        raise errors[0]
    return results


def join(*threads: threading.Thread) -> None:
    """Wait for threads to end. Raises AssertionError if one does not."""
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), f"{thread.name} does not end"


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for a condition that other threads make true; return False after a long timeout."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True
