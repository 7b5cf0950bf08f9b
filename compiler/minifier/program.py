"""A graph with inputs, and programs that compute a part of another."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...dispatch.layers.graph.make_graph import described
from ...runtime.device import CPU
from ...runtime.generator import default_generator
from ...runtime.grad_mode import set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec

SEED = 0
"""Random seed of each run of a program."""


@dataclass(frozen=True)
class Program:
    """Graph without constants, whose output is a tuple, and a tensor for each of its inputs."""

    graph: Graph
    inputs: tuple[Any, ...]

    @property
    def steps(self) -> list[Node]:
        """The operators' calls."""
        return [n for n in self.graph.find_nodes(op="call_function") if n.target is not operator.getitem]

    @property
    def outputs(self) -> list[Node]:
        """The nodes among the results, each once."""
        return self.graph.output_node.all_input_nodes

    def copied_inputs(self) -> list[Any]:
        """Return copies of the inputs."""
        return [copied(tensor) for tensor in self.inputs]


def copied(tensor: Any) -> Any:
    """Return a copy of a tensor with the same geometry, without history."""
    spec = tensor._spec
    if spec.overlaps:
        return tensor.detach()
    made = ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)
    before = set_grad_enabled(False)
    try:
        return made.copy_(tensor.detach())
    finally:
        set_grad_enabled(before)


@contextmanager
def seeded(inputs: Sequence[Any]) -> Iterator[None]:
    """Seed the random generators, disable gradients, and restore the generators when the block ends."""
    generators = [default_generator(device) for device in {CPU, *(t._spec.device for t in inputs)}]
    states = [generator.state_bytes() for generator in generators]
    before = set_grad_enabled(False)
    try:
        for generator in generators:
            generator.manual_seed(SEED)
        yield
    finally:
        set_grad_enabled(before)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state_bytes(state)


def evaluated(program: Program) -> dict[Node, Any]:
    """Return the value of each node of a program, copied when it is computed."""
    values: dict[Node, Any] = {}
    current: dict[Node, Any] = {}
    input_values = iter(program.copied_inputs())
    with seeded(program.inputs):
        for node in program.graph.nodes:
            if node.op == "output":
                continue
            if node.op == "placeholder":
                current[node] = next(input_values)
            else:
                arguments = map_nodes(node.args, current.__getitem__)
                named = map_nodes(dict(node.kwargs), current.__getitem__)
                current[node] = node.target(*arguments, **named)
            value = current[node]
            values[node] = copied(value) if isinstance(value, TensorImpl) else value
    return values


def part_of(
    program: Program, values: dict[Node, Any], selected: Collection[Node], outputs: Sequence[Node]
) -> Program:
    """Return the program that computes some outputs by the kept steps; the results of other steps become inputs.

    Kept writes and random ops stay; other steps stay if an output needs them.
    """
    steps = {node for node in selected if node.op == "call_function"}
    steps |= {n for n in program.graph.nodes if n.target is operator.getitem and n.args[0] in steps}
    effects = [node for node in steps if node.is_impure]
    needed: set[Node] = set()
    pending = [*outputs, *effects]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes if node in steps else []
    made = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Any] = []
    in_order = [node for node in program.graph.nodes if node in needed]
    for node in in_order:
        if node not in steps:
            copies[node] = made.placeholder(node.name, described(values[node]._spec))
            inputs.append(values[node])
    for node in in_order:
        if node in steps:
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple([copies[node] for node in outputs]))
    return Program(made, tuple(inputs))


def is_tensor(node: Node) -> bool:
    """Return True if a node is a single tensor."""
    return isinstance(node.val, TensorSpec)
