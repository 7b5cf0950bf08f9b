"""`export`: a module captured ahead of time, with its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.layers.pytree import tree_flatten
from ...nn.modules.module import Module
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..capture.recording import capturing, record
from ..capture.unsupported import Unsupported
from ..passes import run_passes
from .argument_names import argument_names
from .lifting import lift
from .program import ExportedProgram
from .signature import InputKind

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
    """A module as a program of operators that runs without the module's source (`torch.export.export`).

    The module is run once on fake tensors, which records the operators that it calls. Shapes, Python values and the
    mode (`train` or `eval`) are fixed in the graph. Parameters, buffers and other tensors that the module uses become
    inputs of the graph; buffers and arguments that it writes to are written at the end. No gradients are recorded.

    Args:
        mod: the module.
        args: of a call, with tensors in any nesting of tuples, lists, dicts and registered classes.
        kwargs: of the call, by name.
        dynamic_shapes: not supported yet but for None: each shape is fixed.
        strict: has no effect: the module is always captured in one way.
        preserve_module_call_signature: must be empty.

    Raises:
        ValueError: `mod` is no module, or `args` no tuple.
        tt.compiler.Unsupported: the module does what no graph holds; the message has the reason and the line.
        NotImplementedError: for dynamic shapes, and for a call signature to preserve.

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
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `triten.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise ValueError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}.")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature is not supported")
    if dynamic_shapes:
        raise NotImplementedError("export: dynamic_shapes is not supported: each shape is fixed in the graph")
    named = dict(kwargs or {})
    names = argument_names(mod.forward, args, named)
    leaves, in_spec = tree_flatten((args, named))
    for leaf, (_, path) in zip(leaves, names, strict=True):
        if not isinstance(leaf, (TensorImpl, *CONSTANTS)):
            raise Unsupported(f"argument {path} is a {type(leaf).__name__}, no tensor, number or string")
    # A tensor that is given twice is two inputs, which later calls may give different tensors.
    seen: set[int] = set()
    distinct = []
    with no_grad():
        for leaf in leaves:
            again = isinstance(leaf, TensorImpl) and id(leaf) in seen
            distinct.append(leaf.detach() if again else leaf)
            seen.add(id(leaf))
        capturing.exports += 1
        try:
            recording = record(mod, distinct, in_spec)
        finally:
            capturing.exports -= 1
    run_passes(recording.graph)
    lifted = lift(recording, mod, leaves, [name for name, _ in names])
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
    )


__all__ = ["export"]
