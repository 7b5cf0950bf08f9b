"""Current `meta` of new nodes: that of the node being run, a stack, annotations (torch/fx/traceback.py)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .node import Node

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_stack_trace",
]

Function = TypeVar("Function", bound=Callable[..., Any])

KEPT_FIELDS = ("nn_module_stack", "source_fn_stack", "recompute", "from_node", "custom", "partitioner_tag")
"""What of the current `meta` a new node gets, beside the stack."""

_current: dict[str, Any] = {}
_preserves = False


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Have nodes that are made in the block get the current `meta` (`torch.fx.traceback.preserve_node_meta`).

    Example:
        >>> import triten as tt
        >>> from triten.fx.traceback import annotate, preserve_node_meta
        >>> def f(x):
        ...     with annotate({"part": "head"}):
        ...         return x + 1
        >>> with preserve_node_meta():
        ...     graph = tt.fx.symbolic_trace(f).graph
        >>> [node.meta.get("custom") for node in graph.nodes]
        [None, {'part': 'head'}, None]
    """
    global _preserves, _current
    before, saved = _preserves, dict(_current)
    _preserves = enable
    try:
        yield
    finally:
        _preserves, _current = before, saved


def has_preserved_node_meta() -> bool:
    """Return whether new nodes get the current `meta`."""
    return _preserves


def get_current_meta() -> dict[str, Any]:
    """Return the current `meta`."""
    return _current


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Make a node's `meta` the current one in the block, if it has any and `preserve_node_meta` asks for it."""
    global _current
    if not (_preserves and node.meta):
        yield
        return
    saved = _current
    _current = dict(node.meta)
    try:
        yield
    finally:
        _current = saved


def set_stack_trace(stack: list[str]) -> None:
    """Make lines the stack that nodes get, or none if the list is empty."""
    if _preserves:
        if stack:
            _current["stack_trace"] = "".join(stack)
        else:
            _current.pop("stack_trace", None)


def format_stack() -> list[str]:
    """Return the stack that new nodes get."""
    if _preserves:
        return [_current.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Add to the annotations, ``node.meta["custom"]``, that nodes made in the block get under `preserve_node_meta`."""
    had = "custom" in _current
    before = _current.get("custom", {})
    _current["custom"] = {**before, **annotation_dict}
    try:
        yield
    finally:
        if had:
            _current["custom"] = before
        else:
            _current.pop("custom", None)


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Function], Function]:
    """Decorate a function so that it runs in a block of `annotate`."""
    return annotate(annotation_dict)
