"""What a thread's modes and keys are, to be the same after a test as before."""

from typing import Any

from triten.runtime.local_dispatch_key_set import local, modes


def modes_and_keys() -> tuple[list[Any], int, int]:
    """The thread's modes, and its included and excluded keys."""
    return list(modes), local.included, local.excluded
