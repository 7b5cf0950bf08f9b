"""The graph of pipes that read from each other (`torch.utils.data.graph`)."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """Return the graph of the pipes that a pipe reads from.

    The pipes are found among the attributes: pipes themselves, and those in lists, tuples, sets and dicts.

    Args:
        datapipe: The last pipe.

    Returns:
        A dict from the pipe's `id` to the pipe and the graph of its sources.

    Raises:
        RuntimeError: It is no pipe.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> from triten.utils.data.graph import traverse_dps
        >>> [(pipe, sources)] = traverse_dps(IterableWrapper(range(3)).batch(2)).values()
        >>> pipe, [source for source, _ in sources.values()]
        (BatcherIterDataPipe, [IterableWrapperIterDataPipe])
    """
    return _graph(datapipe, True, ())


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """Return the graph of the pipes that a pipe reads from; deprecated, `traverse_dps` replaces it.

    Args:
        datapipe: The last pipe.
        only_datapipe: If True, do as `traverse_dps`. Default: False, look into functions and other objects too.
    """
    changes = (
        ""
        if only_datapipe
        else (" And, the behavior will be changed to the equivalent of `only_datapipe=True`.")
    )
    warnings.warn(
        "`traverse` function is deprecated and will be removed after 1.13. Please use `traverse_dps` instead."
        + changes,
        FutureWarning,
        stacklevel=2,
    )
    return _graph(datapipe, bool(only_datapipe), ())


def _graph(datapipe: DataPipe, only_datapipe: bool, path: tuple[int, ...]) -> DataPipeGraph:
    if not isinstance(datapipe, IterDataPipe | MapDataPipe):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found")
    path = (*path, id(datapipe))
    sources: DataPipeGraph = {}
    for each in _pipes_in(_state_of(datapipe), only_datapipe, set(path)):
        sources.update(_graph(each, only_datapipe, path))
    return {id(datapipe): (datapipe, sources)}


def _state_of(datapipe: DataPipe) -> Any:
    state = datapipe.__getstate__()
    return list(state.values()) if isinstance(state, dict) else state


def _pipes_in(value: Any, only_datapipe: bool, seen: set[int]) -> Iterator[DataPipe]:
    """Yield the pipes in a value, each once, without those of `seen` and without looking into them."""
    if id(value) in seen:
        return
    seen.add(id(value))
    parts: list[Any] = []
    if isinstance(value, IterDataPipe | MapDataPipe):
        yield value
    elif isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, Collection) and not isinstance(value, str | bytes | range):
        is_plain = type(value).__module__ in ("builtins", "collections")
        parts = list(value) if is_plain or isinstance(value, tuple | list) else _attributes(value)
    elif not only_datapipe:
        parts = _attributes(value)
    for each in parts:
        yield from _pipes_in(each, only_datapipe, seen)


def _attributes(value: Any) -> list[Any]:
    """Return what an object refers to: its attributes, or the object and arguments that a function is bound to."""
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, type | types.ModuleType):
        return []
    return list(getattr(value, "__dict__", {}).values())
