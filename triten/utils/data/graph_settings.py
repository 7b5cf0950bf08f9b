"""Settings of all pipes of a graph: shares, shuffling and seeds (`torch.utils.data.graph_settings`)."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from ...runtime.scalar_type import int64
from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .graph import DataPipe, DataPipeGraph, traverse_dps

if TYPE_CHECKING:
    from ...dispatch.random import Generator

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[DataPipe]:
    """Return the pipes of a graph, each once."""
    pipes: dict[int, DataPipe] = {}

    def add(graph: DataPipeGraph) -> None:
        for number, (pipe, sources) in graph.items():
            if number not in pipes:
                pipes[number] = pipe
                add(sources)

    add(graph)
    return list(pipes.values())


def _has_methods(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: DataPipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group: int = SHARDING_PRIORITIES.DEFAULT,
) -> DataPipe:
    """Set the share of this copy of a graph at its pipes with a method `apply_sharding`, such as `sharding_filter`.

    Args:
        datapipe: The last pipe.
        num_of_instances: The number of copies.
        instance_id: The number of this copy, from 0.
        sharding_group: The group that the copies belong to, for pipes that take it.

    Returns:
        The pipe.

    Raises:
        RuntimeError: One such pipe reads from another one.
    """

    def apply(graph: DataPipeGraph, earlier: Any) -> None:
        for pipe, sources in graph.values():
            applied: Any = None
            if _has_methods(pipe, "apply_sharding"):
                if earlier is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding "
                        f"already applied to {earlier} while trying to apply to {pipe}"
                    )
                applied = pipe
                takes_group = len(inspect.signature(applied.apply_sharding).parameters) > 2
                group = {"sharding_group": sharding_group} if takes_group else {}
                applied.apply_sharding(num_of_instances, instance_id, **group)
            apply(sources, earlier if applied is None else applied)

    apply(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Enable or disable shuffling at all pipes of a graph that shuffle.

    Args:
        datapipe: The last pipe.
        shuffle: True or False. Default: None, which changes nothing.

    Returns:
        The pipe. Without one that shuffles and with True, the pipe's `shuffle` with a warning.
    """
    if shuffle is None:
        return datapipe
    pipes: list[Any] = list(get_all_graph_pipes(traverse_dps(datapipe)))
    shufflers = [pipe for pipe in pipes if _has_methods(pipe, "set_shuffle", "set_seed")]
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
            "that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: DataPipe, rng: Generator | None) -> DataPipe:
    """Set the seed of all pipes of a graph that have one.

    Args:
        datapipe: The last pipe.
        rng: The generator of the seeds; None for the global one.

    Returns:
        The pipe.
    """
    pipes: list[Any] = list(get_all_graph_pipes(traverse_dps(datapipe)))
    for pipe in pipes:
        if _has_methods(pipe, "set_seed"):
            pipe.set_seed(int(_ops.empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng: Generator | None) -> DataPipe:
    """Set the seeds of a graph; deprecated, `apply_random_seed` replaces it."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. Please use "
        "`apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)
