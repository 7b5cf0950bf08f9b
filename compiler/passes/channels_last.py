"""Layout conversion of chains of convolutions on CUDA to channels-last, if it moves fewer bytes.

Before::

    graph(%x : float32[8, 64, 56, 56], %w : float32[64, 64, 3, 3]):
        %convolution : float32[8, 64, 56, 56] = aten.convolution(%x, %w, ...)
        %relu : float32[8, 64, 56, 56] = aten.relu(%convolution)
        %convolution_1 : float32[8, 64, 56, 56] = aten.convolution(%relu, %w, ...)
        %relu_1 : float32[8, 64, 56, 56] = aten.relu(%convolution_1)
        %convolution_2 : float32[8, 64, 56, 56] = aten.convolution(%relu_1, %w, ...)
        return [%convolution_2]

After::

    graph(%x : float32[8, 64, 56, 56], %w : float32[64, 64, 3, 3]):
        %clone : float32[8, 64, 56, 56] = aten.clone(%x, memory_format=channels_last)
        %convolution : float32[8, 64, 56, 56] = aten.convolution(%clone, %w, ...)
        %relu : float32[8, 64, 56, 56] = aten.relu(%convolution)
        %convolution_1 : float32[8, 64, 56, 56] = aten.convolution(%relu, %w, ...)
        %relu_1 : float32[8, 64, 56, 56] = aten.relu(%convolution_1)
        %convolution_2 : float32[8, 64, 56, 56] = aten.convolution(%relu_1, %w, ...)
        %clone_1 : float32[8, 64, 56, 56] = aten.clone(%convolution_2, memory_format=contiguous_format)
        return [%clone_1]

A convolution of contiguous planes copies its input to channels-last and returns planes, which the next convolution
copies again. Channels-last inputs need no copies. So a chain is converted once at its start, and once at its end for
outside readers, if this moves fewer bytes.

The order of sums stays the same, since these convolutions are excluded:

- 1x1 convolutions, which would be matmuls of other matrices;
- depthwise convolutions;
- small convolutions, which copy nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...dispatch.layers.graph.make_graph import make_graph
from ...dispatch.tensor import blank_tensor
from ...runtime.memory_format import channels_last, channels_last_strides, contiguous_format
from ...runtime.tensor_spec import TensorSpec
from ..channel_norms import OPERATOR, channel_norm_call, is_channels_last
from ..epilogues import product_call

CONVOLUTION = "aten::convolution"
VECTOR = 16
"""The bytes of a result's channels must be a multiple of this."""


def choose_channels_last(graph: Graph) -> bool:
    """Convert chains of convolutions for which it pays off. Return True if there is one."""
    saved = {n: b for n in graph.find_nodes(op="call_function") if (b := bytes_of_copy(n)) is not None}
    if not any(saved.values()):
        return False
    results = set(graph.output_node.all_input_nodes)
    changed = False
    for chain in _chains(graph, saved):
        entering, leaving = _ends(chain, results)
        cost = sum(cost_of(node) for node in entering) + sum(2 * nbytes(node) for node in leaving)
        if sum(saved.get(node, 0) for node in chain) <= cost:
            continue
        specs = _specs_of(chain, entering)
        if specs is not None:
            _convert(graph, chain, entering, leaving, specs)
            changed = True
    return changed


def bytes_of_copy(node: Node) -> int | None:
    """Return the bytes that channels-last saves for a convolution; None if sums may change."""
    if not isinstance(node.target, OpOverload) or node.target._entry.name != CONVOLUTION:
        return None
    call = product_call(node)
    if call is None or not all(_is_picture(each.val) for each in (node, call.values[0])) or call.values[6]:
        return None
    if node.val.sizes[1] * node.val.itemsize % VECTOR:
        return None
    from ...triton_kernels.convolution.convolution import copies_input

    planned, _ = call.planned({operand: operand.val for operand in node.all_input_nodes})
    if not copies_input(planned):
        return None
    channels_last_args = {**planned.args, "input": pixels_of(planned.args["input"])}
    again = copies_input(planned._replace(args=channels_last_args, outputs=(pixels_of(planned.outputs[0]),)))
    return 0 if again else 2 * nbytes(call.values[0])


def cost_of(node: Node) -> int:
    """Return the bytes moved to convert an input of a chain.

    Pointwise steps and norms that make it would have been fused into the convolution's copy. Unless they read a
    matmul's result, they become a kernel of their own, which writes the converted tensor.
    """
    made, is_computed = node, False
    while made.op == "call_function":
        norm = channel_norm_call(made)
        if norm is None and not _is_pointwise(made):
            break
        is_computed = True
        operands = [norm.input] if norm is not None else _pictures(made)
        if len(operands) != 1:
            break
        made = operands[0]
    is_epilogue = made.op == "call_function" and product_call(made) is not None
    return 2 * nbytes(node) * (2 if is_computed and not is_epilogue else 1)


def pixels_of(spec: TensorSpec) -> TensorSpec:
    """Return the channels-last spec of the same sizes."""
    return spec.replace(sizes=spec.sizes, strides=channels_last_strides(spec.sizes))


def nbytes(node: Node) -> int:
    """Return the bytes of a step's result."""
    size: int = node.val.numel * node.val.itemsize
    return size


def _is_picture(spec: Any) -> bool:
    """Return True for a contiguous 4-dim CUDA tensor whose channels-last layout would differ."""
    if not isinstance(spec, TensorSpec) or spec.ndim != 4 or not spec.is_contiguous or not spec.numel:
        return False
    return spec.device.type == "cuda" and is_channels_last(pixels_of(spec))


def _chains(graph: Graph, convolutions: Mapping[Node, int]) -> Iterator[list[Node]]:
    """Yield chains of convolutions and pointwise steps that read one another, each in order."""
    chain_of: dict[Node, list[Node]] = {}
    for node in graph.find_nodes(op="call_function"):
        is_norm = _norm_of(node) is not None
        if node in convolutions:
            inside = [operand for operand in _pictures(node) if operand in chain_of]
        elif is_norm or _is_pointwise(node):
            inside = [operand for operand in _pictures(node) if operand in chain_of]
            if not inside:
                continue
        else:
            continue
        chain: list[Node] = []
        for other in {id(chain_of[operand]): chain_of[operand] for operand in inside}.values():
            chain += other
        for member in chain:
            chain_of[member] = chain
        # A norm's statistics have no readers.
        chain += [node.args[0], node] if is_norm else [node]
        chain_of[node] = chain
    index_of = {node: i for i, node in enumerate(graph.nodes)}
    for chain in {id(each): each for each in chain_of.values()}.values():
        yield sorted(chain, key=index_of.__getitem__)


def _norm_of(node: Node) -> Node | None:
    """Return the input of the batch norm by running statistics whose result a step takes, or None."""
    call = channel_norm_call(node)
    return None if call is None or not _is_picture(node.val) else call.input


def _is_pointwise(node: Node) -> bool:
    if not isinstance(node.target, OpOverload) or not _is_picture(node.val) or node.is_impure:
        return False
    return "pointwise" in node.target._entry.tags


def _pictures(node: Node) -> list[Node]:
    """Return the operands that a step reads element by element."""
    norm = _norm_of(node)
    if norm is not None:
        return [norm]
    if node.target._entry.name == CONVOLUTION:
        return [node.args[0]]
    return [n for n in node.all_input_nodes if _is_picture(n.val) and n.val.sizes == node.val.sizes]


def _ends(chain: list[Node], results: set[Node]) -> tuple[list[Node], list[Node]]:
    """Return the inputs of a chain, and its steps that are read outside."""
    inside = set(chain)
    read = dict.fromkeys(
        operand for node in chain if not isinstance(node.val, tuple) for operand in _pictures(node)
    )
    entering = [node for node in read if node not in inside]
    leaving = [n for n in chain if n in results or any(user not in inside for user in n.users)]
    return entering, leaving


def _specs_of(chain: list[Node], entering: list[Node]) -> dict[Node, Any] | None:
    """Return the specs of a chain's steps from their Meta kernels; None if a step does not keep channels-last."""
    specs: dict[Node, Any] = {node: pixels_of(node.val) for node in entering}
    for node in chain:
        if not isinstance(node.target, OpOverload):
            specs[node] = specs[node.args[0]][node.args[1]]
        else:
            specs[node] = _result_of(node, specs)
        made = specs[node][0] if isinstance(specs[node], tuple) else specs[node]
        if not is_channels_last(made):
            return None
    return specs


def _result_of(node: Node, specs: Mapping[Node, Any]) -> Any:
    """Return the specs of a step's results for operands of these specs."""
    operands = node.all_input_nodes

    def called(*tensors: Any) -> Any:
        stand_ins = dict(zip(operands, tensors, strict=True))
        return node.target(
            *map_nodes(node.args, stand_ins.__getitem__),
            **map_nodes(dict(node.kwargs), stand_ins.__getitem__),
        )

    blanks = []
    for each in operands:
        made = blank_tensor()
        made._spec, made._data = specs.get(each, each.val).replace(requires_grad=False), None
        made._version_cell = made._autograd = made._view_base = None
        blanks.append(made)
    outputs = [each.val for each in make_graph(called, "fake")(*blanks).graph.output_node.args[0]]
    return tuple(outputs) if isinstance(node.val, tuple | list) else outputs[0]


def _convert(
    graph: Graph, chain: list[Node], entering: list[Node], leaving: list[Node], specs: Mapping[Node, Any]
) -> None:
    """Put a chain between its conversions."""
    clone, inside = find_overload("aten::clone"), set(chain)
    for node in entering:
        readers = [user for user in chain if user in node.users and node in _read_by(user)]
        with graph.inserting_before(readers[0]):
            made = graph.call_function(clone, (node,), {"memory_format": channels_last}, val=specs[node])
        for reader in readers:
            reader.replace_input_with(node, made)
    plain = {node: node.val for node in leaving}
    for node in chain:
        node.val = specs[node]
    for node in leaving:
        outside = [user for user in node.users if user not in inside]
        with graph.inserting_after(node):
            back = graph.call_function(clone, (node,), {"memory_format": contiguous_format}, val=plain[node])
        for user in outside:
            user.replace_input_with(node, back)


def _read_by(node: Node) -> list[Node]:
    """Return the operands that a step of a chain reads element by element; for a norm, its input."""
    if isinstance(node.val, tuple | list) and node.target._entry.name == OPERATOR:
        return [node.args[0]]
    return _pictures(node) if isinstance(node.val, TensorSpec) else []
