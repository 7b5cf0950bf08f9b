"""Replay of a schedule as one function of tensors.

The function is generated Python source. It calls each operator's plan, chosen at its first run, without the
dispatcher, and each fused kernel on the operands' buffers. Values are released after their last use.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Attribute, Node
from ...dispatch.plans.view_kernel import ViewKernel, taker
from ...dispatch.tensor import blank_tensor
from ...runtime.dispatch_key import AUTOGRAD_BITS
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ..pointwise import bound_arguments
from ..schedule import Kernel, OperatorCall, Schedule

Replay = Callable[..., tuple[Any, ...]]
KernelMaker = Callable[[Kernel], Callable[..., tuple[Any, ...]]]


class Planned:
    """An operator's call at its first run: it asks for the plan, and leaves that in its place."""

    __slots__ = ("bound", "globals", "name", "node", "positions")

    def __init__(
        self, node: Node, bound: Sequence[Any], positions: Sequence[int], name: str, globals_: Any
    ) -> None:
        self.node, self.bound, self.positions = node, bound, positions
        self.name, self.globals = name, globals_

    def __call__(self, *runtime: Any) -> Any:
        entry = self.node.target._entry
        values = list(self.bound)
        for position, value in zip(self.positions, runtime, strict=True):
            values[position] = value
        keys = entry.key_set_of(values) & ~AUTOGRAD_BITS
        plan = entry.plan(keys, values)
        result = plan(*runtime)
        self.globals[self.name] = plan
        return result


def replay(schedule: Schedule, kernel_maker: KernelMaker, is_boxed: bool = False) -> tuple[Replay, str]:
    """Return a function from the graph's inputs to its results, and its source.

    Constants of the graph live as long as the function. Input tensors must not require grad.

    Args:
        kernel_maker: Make a fused kernel a function of its inputs' buffers.
        is_boxed: If True, the function takes a list of inputs, empties it, and releases each after its last use.
            Default: False.
    """
    writer = _Writer(schedule, kernel_maker, is_boxed)
    text = writer.text()
    made: Replay = defined("replay", text, "compiled graph", writer.globals)
    return made, text


class _Writer:
    def __init__(self, schedule: Schedule, kernel_maker: KernelMaker, is_boxed: bool) -> None:
        self.schedule = schedule
        self.is_boxed = is_boxed
        self.kernel_maker = kernel_maker
        self.globals: dict[str, Any] = {"blank_tensor": blank_tensor}
        self.names: dict[Node, str] = {}
        self.bytes: dict[Node, str] = {}
        self.lines: list[str] = []

    def text(self) -> str:
        """Return the source of ``def replay(...)``."""
        graph = self.schedule.graph
        inputs = graph.find_nodes(op="placeholder")
        for i, node in enumerate(inputs):
            self.names[node] = f"x{i}"
        for node in graph.find_nodes(op="get_attr"):
            self.names[node] = f"g_{node.name}"
            self.globals[f"g_{node.name}"] = graph.constants[node.target]
        last = self._last_uses()
        for i, step in enumerate(self.schedule.steps):
            if isinstance(step, OperatorCall):
                self._call(i, step.node)
            else:
                self._kernel(i, step)
            for node in last.get(i, ()):
                for known in (self.names, self.bytes):
                    if node in known:
                        self.lines.append(f"    {known[node]} = None")
        result = self._argument(graph.output_node.args[0])
        parameters = ", ".join(f"x{i}" for i in range(len(inputs)))
        head = f"def replay({parameters}):"
        if self.is_boxed:
            unpacked = [f"    {parameters}, = given"] if parameters else []
            head = "\n".join(["def replay(given):", *unpacked, "    given.clear()"])
        return "\n".join([head, *self.lines, f"    return {result}"]) + "\n"

    def _last_uses(self) -> dict[int, list[Node]]:
        """Return the last step that reads each value; results stay, and so do inputs that others hold."""
        last_step: dict[Node, int] = {}
        for i, step in enumerate(self.schedule.steps):
            read = step.node.all_input_nodes if isinstance(step, OperatorCall) else step.inputs
            made = [step.node] if isinstance(step, OperatorCall) else step.outputs
            last_step.update(dict.fromkeys((*read, *made), i))
        keep = set(self.schedule.graph.output_node.all_input_nodes)
        last_uses: dict[int, list[Node]] = {}
        for node, i in last_step.items():
            if node not in keep and node.op != "get_attr" and (self.is_boxed or node.op != "placeholder"):
                last_uses.setdefault(i, []).append(node)
        return last_uses

    def _call(self, i: int, node: Node) -> None:
        if node.target is operator.getitem:
            self.names[node] = f"v{i}"
            self.lines.append(f"    v{i} = {self._argument(node.args[0])}[{node.args[1]!r}]")
            return
        assert isinstance(node.target, OpOverload)
        entry = node.target._entry
        bound = bound_arguments(node)
        take = self._view(node, bound)
        if take is not None:
            self.globals[f"c{i}"] = take
            self.bytes[node] = f"v{i}"
            self.lines.append(f"    v{i} = c{i}({self._bytes_of(bound[0])})")
            return
        like = [v.val if isinstance(v, Node) else v for v in bound]
        positions = entry.runtime_positions(like)
        self.names[node] = f"v{i}"
        self.globals[f"c{i}"] = Planned(node, bound, positions, f"c{i}", self.globals)
        self.lines.append(f"    v{i} = c{i}({', '.join(self._argument(bound[p]) for p in positions)})")

    def _view(self, node: Node, bound: Sequence[Any]) -> Callable[[Any], Any] | None:
        """Return a function from a value's buffer to that of an internal view, or None.

        The view must be invisible outside and never written to. It needs no tensor, which would hold its base and
        share its version counter.
        """
        base, made = bound[0], node.val
        if not isinstance(base, Node) or not isinstance(base.val, TensorSpec) or self._is_told_apart(node):
            return None
        spec = base.val
        if spec.read_only or spec.is_inference or any(isinstance(value, Node) for value in bound[1:]):
            return None
        assert isinstance(node.target, OpOverload)
        kernel = node.target._entry.lookup(spec.call_keys & ~AUTOGRAD_BITS)
        if kernel.written is not None or not isinstance(kernel.planner, ViewKernel):
            return None
        return taker(spec, made, kernel.planner.geometry(spec, *bound[1:]))

    def _is_told_apart(self, node: Node) -> bool:
        """Return True if a view, or a view of it, is a result or is written to."""
        for user in node.users:
            if user.op == "output":
                return True
            if not isinstance(user.target, OpOverload):
                continue
            schema = user.target._entry.schema
            for value, argument in zip(bound_arguments(user), schema.arguments, strict=True):
                alias = argument.alias_info
                if alias is None or not (
                    value is node or (isinstance(value, tuple | list) and node in value)
                ):
                    continue
                if alias.is_write or self._is_told_apart(user):
                    return True
        return False

    def _kernel(self, i: int, kernel: Kernel) -> None:
        self.globals[f"k{i}"] = self.kernel_maker(kernel)
        arguments = ", ".join(self._bytes_of(node) for node in kernel.inputs)
        made = []
        for j, node in enumerate(kernel.outputs):
            self.bytes[node] = f"b{i}_{j}"
            made.append(f"b{i}_{j}")
        self.lines.append(f"    {', '.join(made)}, = k{i}({arguments})")

    def _bytes_of(self, node: Node) -> str:
        return self.bytes[node] if node in self.bytes else f"{self._tensor(node)}._data"

    def _tensor(self, node: Node) -> str:
        """Return a node's tensor; a kernel's result is wrapped when it is first needed as a tensor."""
        if node not in self.names:
            name = f"w{len(self.lines)}"
            self.globals[f"s{len(self.lines)}"] = node.val
            self.lines += [
                f"    {name} = blank_tensor()",
                f"    {name}._data = {self.bytes[node]}; {name}._spec = s{len(self.lines)}",
                f"    {name}._version_cell = {name}._autograd = {name}._view_base = None",
            ]
            self.names[node] = name
        return self.names[node]

    def _argument(self, value: Any) -> str:
        """Return an argument as source; a value that is not a node is a global."""
        if isinstance(value, Node):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            return f"({''.join(f'{self._argument(v)}, ' for v in value)})"
        if value is None or value.__class__ in (bool, int):
            return repr(value)
        if isinstance(value, Attribute | TensorImpl):
            raise RuntimeError(f"a graph that is compiled has no constants, got {value!r}")
        name = f"n{len(self.globals)}"
        self.globals[name] = value
        return name
