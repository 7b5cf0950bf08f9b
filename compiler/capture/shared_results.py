"""Objects, memory and version counters that results of a captured function share with inputs and each other.

Results are identified by their indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...dispatch.autograd.creation import Creation, creation_of, is_unrecorded
from ...runtime.tensor_impl import TensorImpl
from .objects import Identities
from .unsupported import Unsupported


def identities(results: Sequence[Any], handles: Sequence[Any]) -> set[int]:
    """Return the results that are arguments, or held tensors, unchanged."""
    arguments = Identities(handles)
    return {
        i
        for i, leaf in enumerate(results)
        if isinstance(leaf, TensorImpl)
        and (leaf in arguments or getattr(leaf._data, "storage", None) is None)
    }


def repeated_results(results: Sequence[Any]) -> dict[int, int]:
    """Return the results that are the same tensor as an earlier one, with that result's index."""
    first = {id(leaf): i for i, leaf in reversed(list(enumerate(results)))}
    return {
        i: first[id(leaf)]
        for i, leaf in enumerate(results)
        if isinstance(leaf, TensorImpl) and first[id(leaf)] != i
    }


def bases_of_views(results: Sequence[Any]) -> dict[int, int | None]:
    """Return the results that are not views, with None, and those that are views of another one, with its index."""
    indices = {id(leaf): i for i, leaf in reversed(list(enumerate(results))) if isinstance(leaf, TensorImpl)}
    bases: dict[int, int | None] = {}
    for i, leaf in enumerate(results):
        if isinstance(leaf, TensorImpl):
            base = leaf._view_base
            if base is None or id(base) in indices:
                bases[i] = None if base is None else indices[id(base)]
    return bases


def own_versions(results: Sequence[Any]) -> dict[int, int]:
    """Return the results that share memory, but no version counter, with an input or an earlier result, as with
    `data`.

    Each has the index of the first result with its counter.
    """
    usual: dict[int, Any] = {}
    first: dict[int, int] = {}
    versions: dict[int, int] = {}
    for i, leaf in enumerate(results):
        storage = getattr(leaf._data, "storage", None) if isinstance(leaf, TensorImpl) else None
        whole = leaf if storage is None or storage.origin is None else storage.origin
        if storage is not None and not leaf._spec.is_inference and not whole._spec.is_inference:
            cell = leaf.version_cell()
            if usual.setdefault(id(storage), whole.version_cell()) is not cell:
                versions[i] = first.setdefault(id(cell), i)
    return versions


def views_of_inputs(results: Sequence[Any], inputs: Sequence[Any]) -> list[int]:
    """Return the results with gradients that are, or view, a tensor that the function was given or holds.

    The caller takes them from that tensor again, outside of the graph's single autograd node.
    """
    input_storages = {id(handle._data.storage) for handle in inputs}
    views = []
    for i, leaf in enumerate(results):
        if not isinstance(leaf, TensorImpl) or not leaf._spec.requires_grad:
            continue
        storage = getattr(leaf._data, "storage", None)
        if storage is None or storage.origin is not None or id(storage) in input_storages:
            if storage is not None and storage.is_written:
                raise Unsupported("a result with a gradient views a tensor that the function writes to")
            views.append(i)
    return views


def unrecorded_views(results: Sequence[Any]) -> list[int]:
    """Return the results that require grad without history: views, made in no_grad, of a tensor that requires grad."""
    return [i for i, leaf in enumerate(results) if isinstance(leaf, TensorImpl) and is_unrecorded(leaf)]


def is_alone(leaf: object) -> bool:
    """Return True for a tensor that is not a view."""
    return isinstance(leaf, TensorImpl) and leaf._view_base is None


def views_of_each_other(results: Sequence[Any], indices: Sequence[int]) -> dict[int, int]:
    """Return the results that are views of others, with their bases' indices. The caller takes them outside of the
    graph."""
    index_of = {id(results[i]): i for i in indices}
    bases = {i: index_of.get(id(results[i]._view_base)) for i in indices}
    return {i: base for i, base in bases.items() if base is not None}


def shadows(results: Sequence[Any], indices: Sequence[int]) -> dict[int, int]:
    """Return the results without a gradient over the memory of one that has one, such as its detached copy."""
    storages = {id(results[i]._data.storage): i for i in indices}
    bases = {
        i: storages.get(id(getattr(leaf._data, "storage", None)))
        for i, leaf in enumerate(results)
        if isinstance(leaf, TensorImpl) and not leaf._spec.requires_grad
    }
    return {i: base for i, base in bases.items() if base is not None}


def marks_of_views(results: Sequence[Any], indices: Iterable[int]) -> dict[int, tuple[Creation, str | None]]:
    """Return the reason that forbids writes to views, and the operator that made them, such as `chunk`."""
    marks = {i: (creation_of(results[i]), getattr(results[i]._autograd, "made_by", None)) for i in indices}
    return {i: (creation, made_by) for i, (creation, made_by) in marks.items() if creation is not None}
