"""`export`: a module captured ahead of time, with its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.layers.pytree import TreeSpec, tree_flatten
from ...nn.modules.module import Module
from ...runtime.layout import strided
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..capture.recording import Recording, capturing, record
from ..capture.unsupported import Unsupported
from ..dynamic_shapes.observed_size import Observations, observed_sizes
from ..optimized_module import OptimizedModule
from .argument_names import argument_names, positional_names
from .differentiability import differentiable_inputs
from .dynamic_graph import DynamicGraph
from .dynamic_shapes import DynamicSizes, dynamic_sizes
from .graph_json import blank_tensor_of, graph_to_json
from .lifting import PLAIN, Lifted, lift
from .program import ExportedProgram
from .signature import InputKind
from .size_probes import Captured, dynamic_graph, resized

CONSTANTS = (bool, int, float, complex, str, type(None))


@api_boundary
def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """Export a module as a program of operators that runs without the module's source (`torch.export.export`).

    The module runs once on fake tensors, which records the operators that it calls. Shapes, Python values and the mode
    (`train` or `eval`) are constants of the graph. Parameters, buffers and other tensors that the module uses become
    inputs of the graph. Buffers and arguments that it writes to are written at the end. The graph has no derivative:
    if its operators have that of the module, `ExportedProgram.module` differentiates them.

    Args:
        mod: The module. A module compiled by `tt.compile` is unwrapped.
        args: Example arguments, with tensors in any nesting of tuples, lists, dicts and registered classes.
        kwargs: Example keyword arguments. Default: None.
        dynamic_shapes: Dynamic dimensions: for each argument, by name or in order, None, a dict from dimensions to
            `Dim`, or a list of these. Default: None, all static. The module is captured at several sizes, and numbers
            in its graph become expressions of the names.
        strict: No effect: the module is always captured in one way.
        preserve_module_call_signature: Must be empty.

    Raises:
        ValueError: `mod` is not a module, or `args` is not a tuple.
        tt.compiler.Unsupported: The module cannot be captured; the message has the reason and the line. Or it behaves
        differently at other sizes that `dynamic_shapes` allows.
        NotImplementedError: A size is computed from another, or there is a call signature to preserve.

    Example:
        >>> import triten as tt
        >>> program = tt.export.export(tt.nn.ReLU(), (tt.ones(2),))
        >>> print(program.graph)
        graph(%input_1 : float32[2]):
            %relu : float32[2] = aten.relu(%input_1)
            return [%relu]
        >>> program.module()(tt.tensor([-1.0, 1.0]))
        tensor([0., 1.])
        >>> program.module()(tt.ones(3))
        Traceback (most recent call last):
        RuntimeError: argument input: expected shape [2], got [3]
    """
    if isinstance(mod, OptimizedModule):
        mod = mod._orig_mod
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `triten.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise ValueError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}.")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature is not supported")
    named = dict(kwargs or {})
    names = argument_names(mod.forward, args, named)
    leaves, in_spec = tree_flatten((args, named))
    for leaf, (_, path) in zip(leaves, names, strict=True):
        if not isinstance(leaf, (TensorImpl, *CONSTANTS)):
            raise Unsupported(f"argument {path} is a {type(leaf).__name__}, no tensor, number or string")
        if isinstance(leaf, TensorImpl) and (type(leaf) not in PLAIN or leaf._spec.layout is not strided):
            raise Unsupported(
                f"argument {path} is no plain tensor, but a {type(leaf).__name__} of {leaf._spec.layout}"
            )
    # A tensor passed twice becomes two inputs, since later calls may pass different tensors.
    tensor_ids: set[int] = set()
    distinct = []
    with no_grad():
        for leaf in leaves:
            again = isinstance(leaf, TensorImpl) and id(leaf) in tensor_ids
            distinct.append(leaf.detach() if again else leaf)
            tensor_ids.add(id(leaf))
    recording, lifted = _captured(mod, distinct, in_spec, [name for name, _ in names])
    dynamic = None
    if dynamic_shapes:
        sizes = dynamic_sizes(dynamic_shapes, args, named, positional_names(mod.forward, len(args)))
        if sizes.dims:
            dynamic = _dynamic(mod, distinct, in_spec, names, sizes, _described(recording, lifted))
    state, constants = _tensors(lifted)
    return ExportedProgram(
        lifted.graph,
        lifted.signature,
        state,
        constants,
        in_spec,
        recording.structure,
        [path for _, path in names],
        recording.identical,
        (args, named),
        dynamic,
        differentiable_inputs(mod, distinct, in_spec, lifted, recording.identical),
    )


def _captured(
    mod: Module, leaves: Sequence[Any], in_spec: TreeSpec, names: Sequence[str]
) -> tuple[Recording, Lifted]:
    """Capture a module on these leaves."""
    with no_grad():
        capturing.exports += 1
        try:
            recording = record(mod, leaves, in_spec)
        finally:
            capturing.exports -= 1
    recording.graph.eliminate_dead_code()
    return recording, lift(recording, mod, leaves, names)


def _tensors(lifted: Lifted) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state dict and the constants of a program."""
    state: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for spec in lifted.signature.input_specs:
        if spec.target is None:
            continue
        tensor = lifted.held[spec.target]
        if spec.kind is InputKind.CONSTANT_TENSOR:
            constants[spec.target] = tensor.detach().clone()
        else:
            (constants if spec.persistent is False else state)[spec.target] = tensor
    for name, first in lifted.names.items():
        (state if first in state else constants)[name] = lifted.held[first]
    return state, constants


def _described(recording: Recording, lifted: Lifted, observations: Observations | None = None) -> Captured:
    """Return a description of a capture, to compare with captures at other sizes, and the sizes that the code
    observed."""
    signature = lifted.signature
    outputs = [(spec.kind, type(spec.arg), spec.target) for spec in signature.output_specs]
    # A tensor that the module makes of numbers may be made of sizes.
    literals = [each.holder.tolist() for each in recording.held if each.kind == "literal"]
    rest = (signature.input_specs, outputs, recording.identical, recording.structure, literals)
    return Captured(graph_to_json(lifted.graph), rest, capturing.codes, observations)


def _dynamic(
    mod: Module,
    leaves: Sequence[Any],
    in_spec: TreeSpec,
    names: Sequence[tuple[str, str]],
    dynamic: DynamicSizes,
    example: Captured,
) -> DynamicGraph:
    """Return the graph with named sizes, from captures on fake tensors of other sizes."""
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorImpl)]
    sizes: dict[str, int] = {}
    for index, named in zip(tensors, dynamic.dimension_names, strict=True):
        for dimension, name in named.items():
            size = leaves[index].shape[dimension]
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"dynamic_shapes: argument {names[index][1]} has {size} in dimension {dimension}, '{name}', and "
                    f"another one {sizes[name]}"
                )

    def capture(point: Mapping[str, int], observes: bool) -> Captured:
        resized_leaves = list(leaves)
        for index, named in zip(tensors, dynamic.dimension_names, strict=True):
            spec = resized(leaves[index]._spec, named, point, names[index][1])
            resized_leaves[index] = blank_tensor_of(spec) if named else leaves[index]
        with observed_sizes() if observes else nullcontext() as observations:
            captured = _captured(mod, resized_leaves, in_spec, [name for name, _ in names])
        return _described(*captured, observations)

    return dynamic_graph(capture, example, dynamic, sizes)


__all__ = ["export"]
