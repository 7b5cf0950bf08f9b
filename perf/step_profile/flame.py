"""Flame graph of a trace: time by call path, from the program's functions to operators, launches and kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .trace import LAUNCH_CATEGORIES, Frame, Span, Trace

KINDS = ("function", "module", "range", "operator", "autograd", "launch", "kernel")
# Smaller shares of both times are left out: they would be narrower than a pixel.
MIN_SHARE = 1 / 2500
MAX_NODES = 4000
STEP = "ProfilerStep#"


@dataclass(slots=True)
class _Node:
    name: str
    kind: str
    host: int = 0
    device: int = 0
    children: dict[tuple[str, str], _Node] = field(default_factory=dict)

    def child(self, name: str, kind: str) -> _Node:
        key = (name, kind)
        if key not in self.children:
            self.children[key] = _Node(name, kind)
        return self.children[key]


def kind_of(span: Span) -> str:
    """Return the kind of a span, one of `KINDS`."""
    if span.category == "python_function":
        return "module"
    if span.category == "user_annotation":
        return "range"
    if span.category in LAUNCH_CATEGORIES:
        return "launch"
    if span.category != "cpu_op":
        return "kernel"
    return "autograd" if span.is_backward else "operator"


def flame_graph(trace: Trace) -> dict[str, Any]:
    """Return the tree in the order of a walk: names, and for each node its name, kind, depth, and times in ns.

    Equal paths are added up. The functions of a call stack that an enclosing span does not have are between
    that span and its child.
    """
    root = _Node(trace.name, "range")
    for track in trace.tracks:
        for span in () if track.is_device else track.roots:
            _add(root, span, [])
    for work in trace.spans(is_device=True):
        if work.launch is None:
            root.child(work.name, "kernel").device += work.duration
    _sum(root)
    names: dict[str, int] = {}
    nodes: list[list[int]] = []
    least_host, least_device = root.host * MIN_SHARE, root.device * MIN_SHARE

    def walk(node: _Node, depth: int) -> None:
        if len(nodes) >= MAX_NODES:
            return
        index = names.setdefault(node.name, len(names))
        nodes.append([index, KINDS.index(node.kind), depth, node.host, node.device])
        for child in sorted(node.children.values(), key=lambda each: -max(each.host, each.device)):
            if child.host > least_host or child.device > least_device:
                walk(child, depth + 1)

    walk(root, 0)
    return {"kinds": list(KINDS), "names": list(names), "nodes": [value for node in nodes for value in node]}


def _add(node: _Node, span: Span, above: list[Frame]) -> None:
    """Add a span below the node of its parent, whose call stack is `above`."""
    frames = span.frames() or above
    common = 0
    while common < min(len(frames), len(above)) and _is_same(frames[common], above[common]):
        common += 1
    for frame in frames[common:]:
        node = node.child(frame.name, "function")
    # The steps of a schedule are one: "ProfilerStep#3".
    node = node.child(span.name.partition("#")[0] if span.name.startswith(STEP) else span.name, kind_of(span))
    node.host += span.self_time
    for work in span.launched:
        node.child(work.name, "kernel").device += work.duration
    for child in span.children:
        _add(node, child, frames)


def _is_same(frame: Frame, other: Frame) -> bool:
    return (frame.file, frame.function) == (other.file, other.function)


def _sum(node: _Node) -> None:
    for child in node.children.values():
        _sum(child)
        node.host += child.host
        node.device += child.device
