"""Sharing strategies of CPU tensors (`torch.multiprocessing.set_sharing_strategy`)."""

from __future__ import annotations

from ..runtime import shared_memory


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the strategies: ``file_descriptor`` and ``file_system``."""
    return set(shared_memory.STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the current strategy of this process."""
    return shared_memory.strategy()


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the strategy by which this process shares storages from now on.

    Args:
        new_strategy: ``file_descriptor`` or ``file_system``. ``file_descriptor``, the default, keeps an open descriptor
            for each shared storage: a process that dies leaves no file behind, but many storages may need a higher
            limit of open files. ``file_system`` keeps a named file in memory for each shared storage.

    Raises:
        AssertionError: The strategy is unknown.

    Example:
        >>> import triten as tt
        >>> tt.multiprocessing.get_sharing_strategy()
        'file_descriptor'
    """
    if new_strategy not in shared_memory.STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}"
        )
    shared_memory.set_strategy(new_strategy)
