"""Recorders: the functions that plans of differentiable operators call, written when a plan is made.

A row of `generated/autograd` says what an operator's node keeps (`recorded`). The recorder is written out for the
operator, so that a call runs straight-line code. It takes the edges of the inputs, makes the call below autograd,
fills in the node and links the results to it. Its free variables hold what the plan knows of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...runtime.grad_mode import grad_disabled, is_grad_enabled
from ...runtime.instance_attributes import blank_like
from ...runtime.sparse_data import blocksize_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.written_code import defined
from ..core.inference import saves_refused
from ..core.kernel_function import Plan
from ..core.operator_entry import BELOW_AUTOGRAD, PYTHON_BIT, OperatorEntry
from ..schema.function_schema import local_name
from ..schema.types import is_list_type
from ..tensor import Tensor, blank_tensor
from .inplace import check_inplace, inplace_edge, rebase_history
from .node import AutogradMeta, Node, edge_of, next_sequence, save_result, saved_version, set_history
from .node_attributes import add_saved_attributes
from .recording import (
    clone_before_write,
    gradient_refused,
    is_discrete,
    partly_scaled,
    reads_inference_tensors_only,
    requires_grad,
    spec_of,
    version_of,
)

_GLOBALS = {
    "AutogradMeta": AutogradMeta,
    "Tensor": Tensor,
    "blank_like": blank_like,
    "blank_tensor": blank_tensor,
    "blocksize_of": blocksize_of,
    "check_inplace": check_inplace,
    "clone_before_write": clone_before_write,
    "edge_of": edge_of,
    "grad_disabled": grad_disabled,
    "inplace_edge": inplace_edge,
    "is_grad_enabled": is_grad_enabled,
    "next_sequence": next_sequence,
    "rebase_history": rebase_history,
    "requires_grad": requires_grad,
    "save_result": save_result,
    "saved_version": saved_version,
    "set_history": set_history,
    "spec_of": spec_of,
    "version_of": version_of,
}
"""The names that recorders call."""


class Recording(NamedTuple):
    """Contents of the nodes of an operator.

    `saves` maps each argument that a formula needs whole to the inputs whose gradients need it. `specs` and
    `blocksizes` are arguments whose specs or block sizes alone are needed, `statics` those that are no tensors,
    `results` the results that are needed.
    """

    node: type[Node]
    inputs: Sequence[str]
    saves: Mapping[str, Sequence[str]]
    specs: Sequence[str]
    blocksizes: Sequence[str]
    statics: Sequence[str]
    results: Sequence[str]
    refused: Sequence[str]
    differentiable: Sequence[bool]
    has_silent_inputs: bool


def recorded(
    node: type[Node],
    *,
    inputs: str,
    saves: Mapping[str, str] | None = None,
    specs: str = "",
    blocksizes: str = "",
    statics: str = "",
    results: str = "",
    refused: str = "",
    differentiable: Sequence[bool] = (),
    has_silent_inputs: bool = False,
) -> RecordingPlanner:
    """Return the planner of an operator's Autograd keys, and of its in-place form's.

    Args:
        node: The class of the operator's nodes.
        inputs: The arguments that have a gradient, in the schema's order; names here stand between spaces.
        saves: The arguments that formulas need whole, each with the inputs whose gradients need it.
        specs: Tensors of whose specs alone formulas make use.
        blocksizes: Tensors of whose block sizes alone formulas make use.
        statics: Arguments that formulas need and that are no tensors.
        results: Results that formulas need.
        refused: Tensors without a derivative. A call is refused if one of them requires grad.
        differentiable: For each result, whether it has a gradient. Default: all have one.
        has_silent_inputs: If True, some tensors get no gradient, so that a call may need no node.
    """
    recording = Recording(
        node,
        inputs.split(),
        {name: users.split() for name, users in (saves or {}).items()},
        specs.split(),
        blocksizes.split(),
        statics.split(),
        results.split(),
        refused.split(),
        differentiable,
        has_silent_inputs,
    )
    return RecordingPlanner(recording)


class RecordingPlanner:
    """Planner of the Autograd keys of an operator and of its in-place form."""

    def __init__(self, recording: Recording) -> None:
        self.__module__ = recording.node.__module__
        self.recording = recording
        self._recorders: dict[str, Recorder] = {}

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return the plan of a call."""
        if key_set & PYTHON_BIT and op.name == _WHOLE:
            return _whole_planner()._recorder_of(op).plan(op, key_set, args)
        return self._recorder_of(op).plan(op, key_set, args)

    def _recorder_of(self, op: OperatorEntry) -> Recorder:
        recorder = self._recorders.get(op.name)
        if recorder is None:
            recorder = self._recorders[op.name] = Recorder(self.recording, op)
        return recorder


_WHOLE = "aten::convolution"
"""Operator whose backward is one operator if a mode or a subclass sees it."""


def _whole_planner() -> RecordingPlanner:
    """Return the planner of a convolution that a mode or a subclass sees, imported with the first one."""
    from .whole_convolution import plan_convolution

    return plan_convolution


class Recorder:
    """The recorders of an operator, by the number of arguments that a plan is called with."""

    __slots__ = ("_dtype", "_inputs", "_kept", "_recording", "_refused", "_written")

    def __init__(self, recording: Recording, op: OperatorEntry) -> None:
        arguments = [a for a in op.schema.arguments if not a.is_out]
        index_of = {a.name: i for i, a in enumerate(arguments)}
        lists = {a.name for a in arguments if is_list_type(a.type)}
        inplace = op.schema.is_inplace
        self._recording = recording
        add_saved_attributes(recording.node, recording, op.schema)
        self._refused = [(index_of[name], name) for name in recording.refused]
        self._inputs = [index_of[name] for name in recording.inputs]
        self._dtype = index_of.get("dtype") if not inplace else None
        self._kept = [
            (index_of[name], [index_of[user] for user in users])
            for name, users in recording.saves.items()
            if name not in lists and not (inplace and name == "self")
        ]
        if len(recording.inputs) == 1 and recording.inputs[0] in lists:
            self._kept = []
        self._written: dict[
            int | tuple[int, ...], tuple[Callable[..., Plan], list[tuple[int, Callable[[Any], Any]]]]
        ] = {}

    def plan(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return the plan of a call: the one below autograd, and the recording around it."""
        inner = op.plan(key_set & BELOW_AUTOGRAD, args)
        for position, name in self._refused:
            if requires_grad(args[position]):
                return gradient_refused(op, inner, name)
        if self._dtype is not None and is_discrete(args[self._dtype]):
            return inner
        if self._recording.has_silent_inputs and not any(requires_grad(args[i]) for i in self._inputs):
            return inner
        if reads_inference_tensors_only(op, args):
            return inner
        positions = op.runtime_positions(args)
        count = len(positions)
        kept_as: int | tuple[int, ...] = count
        if count != len(op.positions) and count != len(op.positions) - len(op.bakeable):
            if not key_set & PYTHON_BIT:
                return partly_scaled(op, key_set, args)
            kept_as = tuple(positions)  # a handler sees which scales are given
        written = self._written.get(kept_as)
        if written is None:
            text = RecorderText(self._recording, op, positions)
            name = f"plan_{op.name.partition('::')[2].replace('.', '_')}"
            names = {**_GLOBALS, self._recording.node.__name__: self._recording.node}
            names["__name__"] = self._recording.node.__module__
            make = defined(name, text.written(name), f"record {op.name}", names)
            written = self._written[kept_as] = (make, text.known)
        make, known = written
        # Planning fixes these specs and values, so the call does not check them.
        record: Plan = make(inner, *[value_of(args[position]) for position, value_of in known])
        if not self._kept:
            return record
        saved_values = [
            args[i] if any(requires_grad(args[user]) for user in users) else None for i, users in self._kept
        ]
        return saves_refused(record, saved_values)


class RecorderText:
    """Text of a recorder that is called with the arguments at `positions`.

    `known` names for each free variable except `inner` the argument and the computation.
    """

    def __init__(self, recording: Recording, op: OperatorEntry, positions: Sequence[int]) -> None:
        schema = op.schema
        arguments = [a for a in schema.arguments if not a.is_out]
        names = [a.name for a in arguments]
        self.recording = recording
        self.returns = schema.returns
        self.inplace = schema.is_inplace
        self.is_masked = "output_mask" in names
        self.lists = {a.name for a in arguments if is_list_type(a.type)}
        self.parameters = [local_name(names[i]) for i in positions]
        self.list_input = recording.inputs[0] if recording.inputs[0] in self.lists else ""
        if len(recording.inputs) > 1:
            self.list_input = ""
        known: list[tuple[str, int, Callable[[Any], Any]]] = []

        def know(variables: Iterable[tuple[str, str]], value_of: Callable[[Any], Any]) -> None:
            known.extend((variable, names.index(name), value_of) for variable, name in variables)

        written = {"self"} if self.inplace else set()
        plain = [n for n in recording.inputs if n not in self.lists and n not in written]
        tensors = [n for n in recording.saves if n not in self.lists and n not in written]
        know(((f"needs_{local_name(n)}", n) for n in plain), requires_grad)
        know(((f"{n}_spec", n) for n in recording.specs if n not in self.lists), spec_of)
        if not self.list_input:
            know(((f"{n}_is_tensor", n) for n in tensors), _is_tensor)
        statics = [(local_name(n), n) for n in recording.statics]
        know((pair for pair in statics if pair[0] not in self.parameters), _itself)
        self.variables = [variable for variable, _, _ in known]
        self.known = [(position, value_of) for _, position, value_of in known]

    def written(self, name: str) -> str:
        """Return the function `name`, which makes a recorder from its free variables."""
        body = "\n        ".join(self.lines())
        return (
            f"def {name}({', '.join(['inner', *self.variables])}):\n"
            f"    def record({', '.join(self.parameters)}):\n        {body}\n    return record\n"
        )

    def lines(self) -> list[str]:
        """Return the statements of the recorder."""
        call = ", ".join(self.parameters)
        lines = ["if grad_disabled and not is_grad_enabled():", f"    return inner({call})"]
        lines += ["check_inplace(self_)"] * self.inplace
        lines.append(f"edges = {self._edges()}")
        made = [f"node = {self.recording.node.__name__}()", *self._specs()]
        linked = ["node.next_edges = edges", "node.sequence = next_sequence()", "node.hooks = None"]
        saved = self._saved()
        if self.inplace:
            if "self" in self.recording.saves:
                users = sorted(self.recording.saves["self"])
                lines.append(f"original = clone_before_write(self_) if {self._needed(users)} else None")
            # Versions from before the write, so that a saved argument that is, or overlaps, self is stale.
            lines += [*made, *saved, f"inner({call})", *linked]
        else:
            lines += [f"out = inner({call})", *made, *linked, *saved]
        lines += [f"node.{local_name(n)} = {local_name(n)}" for n in self.recording.statics]
        lines += self._history() if len(self.returns) == 1 else self._histories()
        return [*lines, "return self_" if self.inplace else "return out"]

    def _edges(self) -> str:
        if self.list_input:
            return f"tuple([edge_of(t) if requires_grad(t) else None for t in {local_name(self.list_input)}])"
        edges = []
        for name in self.recording.inputs:
            local = local_name(name)
            if name == "self" and self.inplace:
                edges.append("inplace_edge(self_)")
            else:
                # `edge_of` inlined, for a tensor that is not a view and has its edge
                edge = f"({local}._autograd.edge if {local}._view_base is None else None)"
                edges.append(f"({edge} or edge_of({local})) if needs_{local} else None")
        return f"({', '.join(edges)}{',' if len(edges) == 1 else ''})"

    def _needed(self, inputs: Iterable[str]) -> str:
        """Return the condition that one of some inputs requires grad."""
        return " or ".join(
            "edges[0] is not None" if self.inplace and name == "self" else f"needs_{local_name(name)}"
            for name in inputs
        )

    def _specs(self) -> list[str]:
        return [
            f"node.{n}_spec = " + (f"spec_of({local_name(n)})" if n in self.lists else f"{n}_spec")
            for n in self.recording.specs
        ] + [f"node.{n}_blocksize = blocksize_of({local_name(n)})" for n in self.recording.blocksizes]

    def _saved(self) -> list[str]:
        """Return the statements that keep arguments, each with its version."""
        lines = []
        for name, users in self.recording.saves.items():
            local = local_name(name)
            source = "original" if self.inplace and name == "self" else local
            if name in self.lists:
                lines += [
                    f"node.{local} = list({source})",
                    f"node.{local}_version = [saved_version(t) for t in {source}]",
                ]
            elif self.list_input:
                lines += [f"node.{local} = {source}", f"node.{local}_version = version_of({source})"]
            else:
                lines += [f"if {self._needed(users)}:", f"    node.{local} = {source}"]
                if source == "original":
                    lines.append(f"    node.{local}_version = 0")
                else:
                    lines += [
                        f"    cell = {source}._version_cell if {name}_is_tensor else None",
                        f"    node.{local}_version = 0 if cell is None else cell[0]",
                    ]
        return lines

    def _history(self) -> list[str]:
        """Return the statements that link the only result to the node."""
        if self.inplace:
            lines = ["node.specs = (self_._spec.detached,)", "rebase_history(self_, node)"]
        else:
            # `set_history` inlined: every recorded call runs it.
            lines = ["spec = out._spec", "node.specs = (spec,)", *_linked("out", "spec.twin", 0)]
        may_be_view = not self.inplace and self.returns[0].alias_info is not None
        if may_be_view:
            lines += _versioned("out")
        if not self.recording.results:
            return lines
        if not self.inplace and not may_be_view:
            return [*lines, *_result("result", "out", "spec")]
        return [
            *lines,
            f"node.result = kept = save_result({'self_' if self.inplace else 'out'})",
            "cell = kept._version_cell",
            "node.result_version = cell[0] if cell else saved_version(kept)",
        ]

    def _histories(self) -> list[str]:
        """Return the statements that link several results to the node."""
        count = len(self.returns)
        if self.is_masked:
            lines = ["node.specs = tuple([spec_of(o) for o in out])"]
        else:
            lines = [
                f"{', '.join(f'out{i}' for i in range(count))} = out",
                f"node.specs = ({', '.join(f'out{i}._spec' for i in range(count))})",
            ]
        for i in range(count):
            if self.recording.differentiable and not self.recording.differentiable[i]:
                continue
            if self.is_masked:  # A result that the mask excludes is None.
                lines += [f"if out[{i}] is not None:", f"    set_history(out[{i}], node, {i})"]
            else:
                lines += [*_linked(f"out{i}", f"out{i}._spec.twin", i), *_versioned(f"out{i}")]
        names = [r.name or f"result{i}" for i, r in enumerate(self.returns)]
        for name in self.recording.results:
            i = names.index(name)
            if self.is_masked:
                lines += [
                    f"node.{name} = save_result(out[{i}])",
                    f"node.{name}_version = saved_version(node.{name})",
                ]
            else:
                lines += _result(name, f"out{i}", f"out{i}._spec.detached")
        return lines


def _linked(out: str, spec: str, number: int) -> list[str]:
    return [
        f"{out}._spec = {spec}",
        f"{out}._autograd = meta = AutogradMeta()",
        f"meta.edge = (node, {number})",
        "meta.grad = None",
    ]


def _versioned(out: str) -> list[str]:
    return [f"if {out}._view_base is not None:", f"    meta.version = {out}._version_cell[0]"]


def _result(name: str, out: str, spec: str) -> list[str]:
    """Return the statements of `save_result`, with the version; `saved_version` refuses an inference tensor."""
    return [
        f"kept = blank_tensor() if {out}.__class__ is Tensor else blank_like({out})",
        f"kept._data = {out}._data",
        f"kept._spec = {spec}",
        "kept._autograd = kept._view_base = None",
        f"cell = {out}._version_cell",
        "if cell is None:",
        f"    cell = {out}._version_cell = [saved_version({out}) if {out}._spec.is_inference else 0]",
        "kept._version_cell = cell",
        f"node.{name} = kept",  # complete by now: saved-tensor hooks may see the node here
        f"node.{name}_version = cell[0]",
    ]


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorImpl)


def _itself(value: Any) -> Any:
    return value


__all__ = ["RecorderText", "Recording", "RecordingPlanner", "recorded"]
