"""Check that a program's operators have the derivative of the exported module.

A program is captured without gradients. Code that matters only for the derivative (a block under `no_grad`, a detached
tensor, an `autograd.Function`) leaves no trace in the operators. So both the module and the program are captured with
their derivatives; a call of the program computes gradients if they are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...dispatch.autograd.grad_mode import enable_grad, no_grad
from ...dispatch.core.op_overload import find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.layers.pytree import TreeSpec, tree_structure
from ...nn.modules.module import Module
from ...runtime.tensor_impl import TensorImpl
from ..backends import interpreted
from ..capture.recording import Recording, capturing, record
from ..capture.unsupported import Unsupported
from ..optimized import OptimizedFunction
from ..options import Options
from ..results import given_back
from .execution import Run, inputs_among_results, is_write
from .lifting import Lifted
from .signature import InputKind, OutputKind

PARAMETERS, ARGUMENTS = "parameters", "arguments"
DETACH, CLONE, NORM, FUNCTIONAL_NORM, ATTENTION = map(
    find_overload,
    (
        "aten::detach",
        "aten::clone",
        "aten::_native_batch_norm_legit",
        "aten::_native_batch_norm_legit_functional",
        "aten::_scaled_dot_product_efficient_attention",
    ),
)
SAME_ELEMENTS = {"aten::detach": 0, "aten::alias": 0, "aten::copy": 1, "aten::clone": 0}
"""Operators whose derivative passes on the elements of an operand, with the operand's place."""


def differentiable_inputs(
    module: Module, leaves: Sequence[Any], in_spec: TreeSpec, lifted: Lifted, identical: frozenset[int]
) -> frozenset[str]:
    """Return the inputs of a program that may require grad: ``"parameters"``, or ``"arguments"``, too.

    Args:
        module: The exported module.
        leaves: Leaves of the arguments.
        in_spec: Their structure.
        lifted: The program.
        identical: The results that are inputs unchanged.
    """
    with no_grad():
        wanting = [_wanting(leaf) for leaf in leaves]
    for example_leaves, differentiable in (
        (wanting, frozenset((PARAMETERS, ARGUMENTS))),
        (leaves, frozenset((PARAMETERS,))),
    ):
        try:
            if _has_same_derivative(module, example_leaves, in_spec, lifted, identical):
                return differentiable
        except Unsupported:
            continue
    return frozenset()


def _wanting(leaf: Any) -> Any:
    """Return an argument that requires grad, if it can."""
    if not isinstance(leaf, TensorImpl) or leaf._spec.requires_grad or not leaf._spec.dtype.is_floating_point:
        return leaf
    tensor: Any = leaf
    return tensor.detach()._set_requires_grad()


def differentiable_program(
    graph: Graph, mutations: int, identical: frozenset[int]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that calls an exported graph's operators through the dispatcher, which differentiates them.

    Values written to inputs carry no gradient, as with modules' buffers.

    Args:
        graph: An exported graph, which is not changed.
        mutations: The number of its outputs that are written values; they come first.
        identical: The results that are inputs unchanged.

    Returns:
        A function from the graph's inputs to the user's results.
    """
    own = graph.copy()
    for node in own.find_nodes(op="call_function"):
        if node.target is FUNCTIONAL_NORM:
            _normalize_with_derivative(own, node)
        if node.target is ATTENTION:
            node.args = (*node.args[:4], True, *node.args[5:])  # the sums of exponentials are for backward
        if is_write(node):
            target, value = node.args[:2]
            with own.inserting_before(node):
                node.args = (target, own.call_function(DETACH, (value,), {}, value.val))
    sources = inputs_among_results(own, mutations)
    program = interpreted(own)

    def run(*inputs: Any) -> tuple[Any, ...]:
        results = list(program(*inputs)[mutations:])
        for index, source in sources.items():
            results[index] = given_back(inputs, source, index in identical)
        return tuple(results)

    return run


def differentiable(graph: Graph, mutations: int, identical: frozenset[int], is_traced: bool) -> Run:
    """Return a function from a graph's inputs to its user's results, which autograd differentiates.

    Args:
        graph, mutations, identical: See `differentiable_program`.
        is_traced: If True, call the operators through the dispatcher, where modes, tracers and profilers see them.
            Otherwise compile them with their derivative.
    """
    program = differentiable_program(graph, mutations, identical)
    called = (
        program if is_traced else OptimizedFunction(program, "triten", False, None, Options(dynamic=False))
    )
    return lambda inputs: called(*inputs)


def _normalize_with_derivative(graph: Graph, node: Node) -> None:
    """Replace batch norm that returns new statistics, without derivative, by batch norm that writes them."""
    x, weight, bias, mean, variance, *rest = node.args
    with graph.inserting_before(node):
        copies = [graph.call_function(CLONE, (each,), {}, each.val) for each in (mean, variance)]
        made = graph.call_function(NORM, (x, weight, bias, *copies, *rest), {}, node.val[:3])
    for user in list(node.users):
        if user.args[1] < 3:
            user.args = (made, user.args[1])
        else:
            user.replace_all_uses_with(copies[user.args[1] - 3])
            graph.erase_node(user)
    graph.erase_node(node)


def _has_same_derivative(
    module: Module, leaves: Sequence[Any], in_spec: TreeSpec, lifted: Lifted, identical: frozenset[int]
) -> bool:
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorImpl)]
    next_tensors = iter(tensors)
    inputs: list[Any] = []
    names: dict[int, str] = {}
    placeholders = lifted.graph.find_nodes(op="placeholder")
    kinds = {spec.arg.name: spec for spec in lifted.signature.input_specs}
    for node in placeholders:
        spec = kinds[node.name]
        inputs.append(
            next(next_tensors) if spec.kind is InputKind.USER_INPUT else lifted.held[spec.target or ""]
        )
        names[id(inputs[-1])] = node.name
    if len(names) < len(inputs):
        raise Unsupported("an input is given twice")
    mutations = sum(spec.kind is not OutputKind.USER_OUTPUT for spec in lifted.signature.output_specs)
    program = differentiable_program(lifted.graph, mutations, identical)
    with enable_grad():
        capturing.exports += 1
        try:
            eager = record(module, leaves, in_spec)
        finally:
            capturing.exports -= 1
        exported = record(program, inputs, tree_structure(((0,) * len(inputs), {})))
    numbers: dict[Any, int] = {}
    return bool(
        _Described(eager, tensors, names, numbers).all() == _Described(exported, inputs, names, numbers).all()
    )


class _Described:
    """Recording, described by the expressions of its results and gradients.

    Args:
        recording: The recording with its derivative.
        arguments: The input tensors.
        names: Names of the program's inputs, by identity.
        numbers: Numbers of expressions; two recordings share it, so that equal expressions have one number.
    """

    def __init__(
        self,
        recording: Recording,
        arguments: Sequence[Any],
        names: Mapping[int, str],
        numbers: dict[Any, int],
    ) -> None:
        self.recording, self.numbers = recording, numbers
        self.known: dict[Node, int] = {}
        inputs = [*arguments, *[location.read() for location in recording.held]]
        self.inputs = []
        for tensor in inputs:
            if id(tensor) not in names:
                raise Unsupported("the module holds a tensor that is no input of the program")
            self.inputs.append(names[id(tensor)])
        for i, node in enumerate(recording.graph.find_nodes(op="placeholder")):
            name = self.inputs[i] if i < len(inputs) else f"gradient {i - len(inputs)}"
            self.known[node] = self.number(name)

    def number(self, key: Any) -> int:
        """Return the number of an expression."""
        return self.numbers.setdefault(key, len(self.numbers))

    def all(self) -> Any:
        """Return the results, the gradients by stage and input, the writes, and the random ops."""
        recording = self.recording
        recording.graph.eliminate_dead_code()
        draws: list[Any] = []
        writes: dict[int, int] = {}
        for node in recording.graph.find_nodes(op="call_function"):
            if is_write(node):
                target, value = (self.known[each] for each in node.args[:2])
                self.known[node] = writes[target] = value
                continue
            key = self.expression(node)
            if not isinstance(key, int) and node.is_impure:
                draws.append(key)
                key = ("draw", len(draws), key)
            self.known[node] = key if isinstance(key, int) else self.number(key)
        every = [self.key(each) for each in recording.graph.output_node.args[0]]
        results, rest = every[: recording.results], every[recording.results :]
        # A result that is a written input is the written value.
        results = [("node", writes.get(each[1], each[1])) if each[0] == "node" else each for each in results]
        gradients = [self.inputs[i] for i in recording.gradients or ()]
        by_stage = []
        for arrivals in recording.arrivals:
            count = len(arrivals) + len(gradients)
            own, rest = rest[:count], rest[count:]
            by_stage.append((own[: len(arrivals)], dict(zip(gradients, own[len(arrivals) :], strict=True))))
        kinds = recording.differentiable, recording.stages, recording.arrivals, recording.aliases
        return results, by_stage, draws, writes, kinds, recording.identical

    def expression(self, node: Node) -> Any:
        """Return a step's expression as a key, or the number of the operand whose elements it returns."""
        name = node.target.name() if hasattr(node.target, "name") else node.target
        if name in SAME_ELEMENTS:
            return self.known[node.args[SAME_ELEMENTS[name]]]
        if name == "aten::add.Tensor" and not node.kwargs and all(isinstance(a, Node) for a in node.args):
            return self.sum_of(self.addends(node))
        if name == "aten::cat":
            parts, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
            dim %= len(parts[0].val.sizes)
            if all(_is(part, "aten::unsqueeze") and part.args[1] % part.val.ndim == dim for part in parts):
                return ("stack", dim, tuple([self.known[part.args[0]] for part in parts]))
            return ("cat", dim, tuple([self.known[part] for part in parts]))
        return (name, self.key(node.args), self.key(dict(node.kwargs)))

    def addends(self, node: Node) -> list[Node]:
        """Return the addends of a sum, with nested sums flattened."""
        return [
            inner
            for each in node.args
            for inner in (self.addends(each) if _is(each, "aten::add.Tensor") and not each.kwargs else [each])
        ]

    def sum_of(self, addends: Sequence[Node]) -> Any:
        """Return the key of a sum, in which the gradients of all parts of a tensor are one addend: that of the joined
        parts."""
        numbers: list[int] = []
        parts: dict[Any, dict[Any, int]] = {}
        for each in addends:
            if _is(each, "aten::select_backward"):
                gradient, sizes, dim, index = each.args
                parts.setdefault(("stack", tuple(sizes), dim % len(sizes)), {})[index % sizes[dim]] = (
                    self.known[gradient]
                )
            elif _is(each, "aten::slice_backward"):
                gradient, sizes, dim, start, end, step = each.args
                span = slice(start, end, step).indices(sizes[dim])
                parts.setdefault(("cat", tuple(sizes), dim % len(sizes)), {})[span] = self.known[gradient]
            else:
                numbers.append(self.known[each])
        for (kind, sizes, dim), number_of_part in parts.items():
            ordered = sorted(number_of_part.items())
            if kind == "stack":
                is_whole = [index for index, _ in ordered] == list(range(sizes[dim]))
            else:
                ends = [0, *[span[1] for span, _ in ordered]]
                is_whole = ends[-1] == sizes[dim] and all(
                    span[0] == before and span[2] == 1
                    for (span, _), before in zip(ordered, ends, strict=False)
                )
            whole = tuple([number for _, number in ordered])
            numbers.append(
                self.number((kind, dim, whole) if is_whole else (kind, sizes, dim, tuple(ordered)))
            )
        return numbers[0] if len(numbers) == 1 else ("sum", tuple(sorted(numbers)))

    def key(self, value: Any) -> Any:
        """Return an argument as a dict key, with numbers instead of nodes."""
        if isinstance(value, Node):
            return ("node", self.known[value])
        if isinstance(value, tuple | list):
            return tuple([self.key(each) for each in value])
        if isinstance(value, dict):
            return tuple([(name, self.key(each)) for name, each in value.items()])
        if isinstance(value, slice):
            return ("slice", self.key((value.start, value.stop, value.step)))
        return (type(value), value.hex() if isinstance(value, float) else value)


def _is(node: Any, name: str) -> bool:
    return isinstance(node, Node) and hasattr(node.target, "name") and node.target.name() == name


__all__ = ["differentiable", "differentiable_inputs", "differentiable_program"]
