"""Version cells: lists `[version, mark, LENT]` that a tensor, its views and its detached aliases share.

- `version` counts in-place writes. The other items are added when they are needed.
- `mark` is an object. Tensors that share the cell and are no views hold it in the slot `_alias_mark`. Its reference
  count lets `may_have_views` answer without a search of all objects of the process.
- `LENT` records that the user has an ndarray over the memory.
"""

from __future__ import annotations

import sys
from typing import Any

LENT = object()
_LOCAL_REFERENCES = 2
"""References to an object held by a local variable and by the argument of `sys.getrefcount`."""


def mark_aliases(tensor: Any, cell: list[Any]) -> None:
    """Add a mark to a version cell. `tensor`, the first to be detached, holds it unless it is a view."""
    cell.append(object())
    if tensor._view_base is None:
        tensor._alias_mark = cell[1]  # that of the thread which came first


def share_version(alias: Any, tensor: Any) -> Any:
    """Return `alias` with the version cell of `tensor`, so that a write to one counts for both.

    `alias` is over the data of `tensor` and is no view of it. Inference tensors have no versions and stay as they are.
    """
    cell = tensor._version_cell
    if cell is None:
        if tensor._spec.is_inference:
            return alias
        cell = tensor._version_cell = [0]
    if len(cell) == 1:
        mark_aliases(tensor, cell)
    alias._version_cell, alias._alias_mark = cell, cell[1]
    return alias


def may_have_views(tensor: Any, holders: int = 1) -> bool:
    """Return False if all holders of the tensor's version cell are known not to be views of it.

    Args:
        tensor: The tensor whose views the caller would search.
        holders: The number of references to the cell that the caller knows, that of `tensor` included.
    """
    cell = tensor._version_cell
    if cell is None:
        return False
    others = sys.getrefcount(cell) - _LOCAL_REFERENCES - holders
    if others > 0 and len(cell) > 1:
        mark = cell[1]
        aliases = sys.getrefcount(mark) - _LOCAL_REFERENCES - 1  # `cell`
        others -= aliases - (getattr(tensor, "_alias_mark", None) is mark)
    return others > 0


def lend(tensor: Any) -> None:
    """Record that the user has an ndarray over the memory of a tensor, from `Tensor.numpy` or `from_numpy`.

    A resize would move the tensor to other memory and leave the ndarray behind, so storages refuse it from then on.
    """
    cell = tensor._version_cell
    if cell is None:
        if tensor._spec.is_inference:
            tensor._alias_mark = LENT
        else:
            tensor._version_cell = [0, object(), LENT]
    elif len(cell) == 1:
        cell += (object(), LENT)
    elif LENT not in cell:
        cell.append(LENT)


def is_lent(tensor: Any) -> bool:
    """Return True if the user has, or had, an ndarray over the memory of a tensor."""
    cell = tensor._version_cell
    return LENT in cell if cell is not None else getattr(tensor, "_alias_mark", None) is LENT
