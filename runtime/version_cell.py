"""Version cells: lists `[version]` or `[version, mark]` that a tensor, its views and its detached aliases share.

The first item counts in-place writes. The mark is an object that tensors hold that share the cell and are no views, in
the slot `_alias_mark`. Its reference count lets `may_have_views` answer without a search of all objects of the process.
"""

from __future__ import annotations

import sys
from typing import Any

_LOCAL_REFERENCES = 2
"""References to an object held by a local variable and by the argument of `sys.getrefcount`."""


def mark_aliases(tensor: Any, cell: list[Any]) -> None:
    """Add a mark to a version cell. `tensor`, the first to be detached, holds it unless it is a view."""
    cell.append(object())
    if tensor._view_base is None:
        tensor._alias_mark = cell[1]  # that of the thread which came first


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
