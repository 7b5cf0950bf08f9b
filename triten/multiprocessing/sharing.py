"""By which means tensors of the host are shared (`torch.multiprocessing.set_sharing_strategy`)."""

from __future__ import annotations

from ..runtime import shared_memory


def get_all_sharing_strategies() -> set[str]:
    """The strategies that there are: ``file_descriptor`` and ``file_system``."""
    return set(shared_memory.STRATEGIES)


def get_sharing_strategy() -> str:
    """The strategy by which storages are shared from now on."""
    return shared_memory.strategy()


def set_sharing_strategy(new_strategy: str) -> None:
    """Share storages by another strategy from now on, in this process.

    Args:
        new_strategy: ``file_descriptor``, the default, keeps a descriptor open for each shared storage: nothing is left
            behind by a process that dies, and many storages may need a higher limit of open files. ``file_system``
            keeps a named file in memory for each instead.

    Raises:
        AssertionError: there is no such strategy.

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
