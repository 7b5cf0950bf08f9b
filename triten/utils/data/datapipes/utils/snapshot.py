"""Snapshots of pipes: going on from a number of samples (`torch.utils.data.datapipes.utils.snapshot`)."""

from __future__ import annotations

from typing import Any

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState

__all__: list[str] = []


def _simple_graph_snapshot_restoration(datapipe: Any, n_iterations: int, rng: Any = None) -> None:
    """Advance a pipe, and those that it reads, by so many samples; the next iterator goes on from there.

    Args:
        datapipe: The pipe. A pickled pipe has the number of samples it had yielded as `_number_of_samples_yielded`.
        n_iterations: The number of samples.
        rng: The generator of the pipes' seeds, in the state that it had at first. Default: None, the global one.

    Raises:
        RuntimeError: The pipe is restored already, or has fewer samples.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the graph if your graph "
            "has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    iterator = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(iterator)
        except StopIteration as error:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples available."
            ) from error
    datapipe._fast_forward_iterator = iterator
    datapipe._snapshot_state = _SnapshotState.Restored
