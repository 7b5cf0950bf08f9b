"""Both kinds of graphs keep the order of nodes, their users and their number alike while they change."""

from typing import Any

import pytest

import triten as tt
from triten import fx
from triten.dispatch.layers.graph.graph import Graph
from triten.dispatch.layers.graph.linked_nodes import NodeList

GRAPHS: dict[str, Any] = {"operators": Graph, "fx": fx.Graph}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> Any:
    """Return a graph of an input and a chain of five calls."""
    made = GRAPHS[request.param]()
    node = made.placeholder("x")
    for _ in range(5):
        node = made.call_function(tt.ops.aten.relu.default, (node,))
    return made


def names(nodes: Any) -> list[str]:
    return [node.name for node in nodes]


def test_order_and_number(graph: Any) -> None:
    assert isinstance(graph.nodes, NodeList) and len(graph.nodes) == 6
    assert sorted(names(graph.nodes)) == sorted(names(reversed(graph.nodes)))
    assert names(reversed(graph.nodes)) == names(graph.nodes)[::-1]
    assert names(reversed(list(reversed(graph.nodes)))) == names(graph.nodes)
    first, *_, last = graph.nodes
    assert first.next.prev is first and last.next is first.prev


def test_users_follow_the_arguments(graph: Any) -> None:
    x, first, second, *_ = graph.nodes
    second.args = (x,)
    assert list(x.users) == [first, second] and not first.users and second.all_input_nodes == [x]
    second.replace_input_with(x, first)
    assert list(x.users) == [first] and list(first.users) == [second]


def test_nodes_may_be_erased_while_they_are_walked(graph: Any) -> None:
    seen = []
    for node in reversed(graph.nodes):
        seen.append(node.name)
        if not node.users and node.op == "call_function" and len(graph.nodes) > 3:
            graph.erase_node(node)
    assert len(seen) == 6 and len(graph.nodes) == 3
    assert names(graph.nodes) == names(list(graph.nodes)) and all(node.graph is graph for node in graph.nodes)


def test_the_next_nodes_may_be_erased_while_they_are_walked(graph: Any) -> None:
    seen = []
    for node in graph.nodes:
        seen.append(node)
        if len(seen) == 2:
            for later in list(graph.nodes)[:1:-1]:
                graph.erase_node(later)
    assert len(seen) == len(graph.nodes) == 2


def test_a_moved_node_is_at_one_place(graph: Any) -> None:
    x, first, *_, last = graph.nodes
    x.append(last)
    assert list(graph.nodes)[:3] == [x, last, first] and len(graph.nodes) == 6
    first.prepend(x)
    assert list(graph.nodes)[:3] == [last, x, first] and len(graph.nodes) == 6


def test_an_erased_node_can_be_put_back(graph: Any) -> None:
    *_, before, last = graph.nodes
    graph.erase_node(last)
    assert len(graph.nodes) == 5
    before.append(last)
    assert list(graph.nodes)[-1] is last and len(graph.nodes) == 6
