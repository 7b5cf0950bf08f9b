"""Replacement of copies to inputs by in-place operators.

Before::

    graph(%n : int64[], %p : float32[4], %g : float32[4]):
        %add : int64[] = aten.add.Tensor(%n, 1)
        %copy_ : int64[] = aten.copy_(%n, %add)
        return []

After::

    graph(%n : int64[], %p : float32[4], %g : float32[4]):
        %add_ : int64[] = aten.add_.Tensor(%n, 1)
        return []

A capture has the functional form of each in-place operator, and copies at its end. If no other step reads an input
that is copied to, the in-place form needs no memory of its own and no copy. So the update of all parameters is one
launch again. Pointwise steps that may fuse with others keep their form.
"""

from __future__ import annotations

import operator
from typing import Any

from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.functionalization.form import functional_form
from ...dispatch.layers.graph.graph import Graph, Node

_writing: dict[str, str | None] = {}
Dispatcher.singleton().on_change.append(_writing.clear)


def write_in_place(graph: Graph) -> bool:
    """Replace copies to inputs by in-place operators. Return True if any is replaced."""
    copies = {
        node.args[0]: node
        for node in graph.find_nodes(op="call_function")
        if _name(node) == "aten::copy_" and not node.users and node.args[0].op == "placeholder"
    }
    changed = False
    for node in graph.find_nodes(op="call_function") if copies else ():
        name = _name(node)
        if name is None or node.is_impure:
            continue
        writing = writing_form(name)
        if writing is not None:
            changed = _rewrite(graph, node, find_overload(writing), copies) or changed
    return changed


def writing_form(name: str) -> str | None:
    """Return the in-place form of an operator: ``aten::add_.Tensor`` of ``aten::add.Tensor``; None if there is none.

    Example:
        >>> from triten.compiler.passes.in_place import writing_form
        >>> writing_form("aten::_fused_sgd"), writing_form("aten::mm")
        ('aten::_fused_sgd_', None)
    """
    if name not in _writing:
        base = name.partition(".")[0]
        packets = Dispatcher.singleton().packets
        candidates = [*packets.get(f"{base}_", ()), *packets.get(base.removesuffix("_functional"), ())]
        _writing[name] = next((each for each in candidates if _functional_name(each) == name), None)
    return _writing[name]


def _functional_name(name: str) -> str | None:
    entry = Dispatcher.singleton().find_schema_or_throw(name)
    if not entry.schema.is_mutable or entry.schema.out_arguments:
        return None
    try:
        return functional_form(entry).name
    except RuntimeError:
        return None


def _rewrite(graph: Graph, node: Node, target: OpOverload, copies: dict[Node, Node]) -> bool:
    """Replace a step by its in-place form, if each written tensor is an input that is copied to after it."""
    schema = target._entry.schema
    bound = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    written = [bound.get(a.name) for a in schema.arguments if a.is_write]
    if len(bound) > len(schema.arguments) or any(value is None for value in written):
        return False
    count = len(node.target._entry.schema.returns)
    results = _results(node, count)
    if results is None:
        return False
    pairs: list[tuple[Node, Node]] = []
    for value, result in zip(written, results[count - len(written) :], strict=True):
        written_pairs = _pairs(value, result)
        if written_pairs is None:
            return False
        pairs += written_pairs
    inputs = [source for source, _ in pairs]
    if not inputs or len(set(inputs)) < len(inputs):
        return False
    for source, result in pairs:
        copy = copies.get(source)
        if (
            copy is None
            or copy.args[1] is not result
            or set(source.users) - {graph.output_node} != {node, copy}
        ):
            return False
        if result is not node and len(result.users) > 1:
            return False
        if graph.output_node in result.users:
            return False  # of memory of its own
        if source.val is not result.val or times_read(node, source) != 1:
            return False
    if "pointwise" in node.target._entry.tags and not _is_alone(node, copies):
        return False
    with graph.inserting_before(node):
        num_results = len(results) - len(written)
        val = node.val[:num_results] if num_results else node.val
        made = graph.call_function(target, node.args, dict(node.kwargs), val)
    for source, _ in pairs:
        graph.erase_node(copies.pop(source))
    for result in results[:num_results]:
        if result is not None:
            result.args = (made, result.args[1])
    if results[0] is node and schema.returns:
        node.replace_all_uses_with(made)  # which is the input, after the write
    _erase(graph, node, made)
    return True


def _is_alone(node: Node, copies: dict[Node, Node]) -> bool:
    """Return True if a pointwise step reads only inputs, and only its copy and steps on lists read it."""
    return all(operand.op == "placeholder" for operand in node.all_input_nodes) and all(
        user in copies.values() or _name(user) is None or "pointwise" not in user.target._entry.tags
        for user in node.users
    )


def _results(node: Node, count: int) -> list[Node | None] | None:
    """Return the steps that take each result; None if a result has several, or a step reads all results."""
    if count == 1:
        return [node]
    getters: list[Node | None] = [None] * count
    for user in node.users:
        if user.target is not operator.getitem or getters[user.args[1]] is not None:
            return None
        getters[user.args[1]] = user
    return getters


def _pairs(value: Any, result: Node | None) -> list[tuple[Node, Node]] | None:
    """Return the written tensors, each with the step that takes its new elements; None if one is missing."""
    if isinstance(value, Node):
        return None if result is None else [(value, result)]
    if not isinstance(value, list | tuple) or not all(isinstance(each, Node) for each in value):
        return None
    if not value:
        return []
    taken = {} if result is None else {user.args[1]: user for user in result.users if _takes(user)}
    if result is None or len(taken) != len(result.users) or len(taken) != len(value):
        return None
    return [(each, taken[i]) for i, each in enumerate(value)]


def _takes(node: Node) -> bool:
    return node.target is operator.getitem


def times_read(node: Node, source: Node) -> int:
    """Return how often a step has another step among its arguments."""
    counts = 0
    pending: list[Any] = [*node.args, *node.kwargs.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += value
        else:
            counts += value is source
    return counts


def _erase(graph: Graph, node: Node, made: Node) -> None:
    """Take a step out, with those that take its results and are not read."""
    for user in list(node.users):
        for inner in list(user.users):
            if inner.target is operator.getitem and not inner.users:
                graph.erase_node(inner)
        if user is not made and not user.users:
            graph.erase_node(user)
    graph.erase_node(node)


def _name(node: Node) -> str | None:
    return node.target.name() if isinstance(node.target, OpOverload) else None
