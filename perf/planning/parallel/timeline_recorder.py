"""Recorder of a `Timeline` while a program runs on Meta tensors, by hooks on its modules and callbacks of
`record`.
"""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ....dispatch.autograd.node import AccumulateGrad, Node, next_sequence
from ....dispatch.layers.pytree import tree_leaves
from ....dispatch.tensor import Tensor
from ....nn import Module, ModuleList, Sequential
from ....optim import Optimizer
from ....runtime.storage import root_of
from ...costs.watching import Seen, tensors_of
from .timeline import Event, Kind, Lifetime, PlannedParameter, Timeline, set_phases

FUNCTIONAL = "_c10d_functional::"
COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
"""Collectives of the cost model by the names that programs' operators have, without ``_``, ``_out``, ``_coalesced``."""


class State(NamedTuple):
    """State of the program: the unit, whether it has ended, and the enclosing tensor parallel layers."""

    unit: int = 0
    is_over: bool = False
    region: int = -1


class TimelineRecorder:
    """Listener of `record`; `finish` returns the timeline."""

    def __init__(self, layers: Mapping[str, str]) -> None:
        self._layers = layers
        self._timeline = Timeline()
        self._state = State()
        self._marks: list[tuple[int, State]] = [(0, self._state)]
        self._states: list[State] = []  # of the events
        self._lifetime_states: list[State] = []
        self._living: dict[int, tuple[weakref.ref[Any], Lifetime]] = {}
        self._given: set[int] = set()
        self._by_identity: dict[int, int] = {}
        self._by_root: dict[int, int] = {}
        self._used_in: dict[int, State] = {}
        self._order: list[int] = []
        self._units: list[str] = []
        self._outputs: dict[int, int] = {}
        self._region_inputs: list[int] = []
        self._open_layer = ""
        self._sequences: list[tuple[int, int]] = []
        self._previous = (0, State())
        self._optimizers: list[Optimizer] = []

    # Callbacks of `record`.

    def begin(self, program: object, tensors: Iterable[Tensor]) -> None:
        """Register the program and its stand-in tensors before the run.

        Raise ValueError for a tensor parallel layer that matches no module.
        """
        leaves = tree_leaves(program)
        modules = [leaf for leaf in leaves if isinstance(leaf, Module)]
        self._optimizers = [leaf for leaf in leaves if isinstance(leaf, Optimizer)]
        matched: set[str] = set()
        for module in modules:
            module.register_forward_pre_hook(lambda *_: self._set(State()))
            for name, unit in _units(module, ""):
                self._hook_unit(name, unit)
            for name, layer in module.named_modules():
                style = self._style(name)
                if style:
                    matched.add(style[0])
                    self._hook_layer(name, layer, style[1])
        missing = [pattern for pattern in self._layers if pattern not in matched]
        if missing:
            raise ValueError(
                f"plan(): TensorParallel names {missing[0]!r}, which no module of the program is called"
            )
        for module in modules:
            self._take_parameters(module)
        for tensor in tensors:
            root = root_of(tensor._data)
            if id(root) not in self._given:
                self._given.add(id(root))
                self._timeline.other_given += root.nbytes

    def called(self, key: str, call: Seen) -> None:
        """Record the call of an operator."""
        for tensor in tensors_of(list(call.arguments.values())):
            self._used_in.setdefault(self._by_root.get(id(root_of(tensor._data)), -1), self._state)
        if call.func.name().startswith(FUNCTIONAL):
            self._communicates(call)
        else:
            self._add(Event(Kind.CALL, key=key))
        for tensor in call.results:
            self._see(tensor)

    def node_begins(self, node: Node) -> None:
        """Record that backward is about to visit a node."""
        sequence = node.sequence
        if not isinstance(node, AccumulateGrad):
            previous, before = self._previous
            state = self._marks[bisect.bisect(self._marks, sequence, key=lambda mark: mark[0]) - 1][1]
            if 0 <= before.region != state.region and sequence < previous:
                self._state = before._replace(region=-1)
                self._add(Event(Kind.REDUCE, nbytes=self._region_inputs[before.region]))
            self._state = state
            self._previous = (sequence, state)
        self._sequences.append(
            (len(self._timeline.events), 0 if isinstance(node, AccumulateGrad) else sequence)
        )
        self._add(Event(Kind.NODE))

    def node_ended(self, node: Node) -> None:
        """Backward has visited it."""
        if isinstance(node, AccumulateGrad):
            self._accumulated(node.variable)
        self._sequences.append((len(self._timeline.events) - 1, 0))

    def finish(self) -> Timeline:
        """Return the timeline after the program has run.

        Raise ValueError for a column-wise layer without a following row-wise layer.
        """
        if self._open_layer:
            raise ValueError(
                f"plan(): TensorParallel divides {self._open_layer!r} column-wise, and no row-wise layer follows it"
            )
        timeline = self._timeline
        positions = {unit: position for position, unit in enumerate(self._order, 1)}
        last = self._order[-1] if self._order else 0

        def position_of(state: State) -> int:
            if state.unit == last and state.is_over:
                return len(positions) + 1
            return positions.get(state.unit, 0)

        for event, state in zip(timeline.events, self._states, strict=True):
            event.position, event.divided = position_of(state), state.region >= 0
        for lifetime, state in zip(timeline.lifetimes, self._lifetime_states, strict=True):
            lifetime.position = position_of(state)
        for number, parameter in enumerate(timeline.parameters):
            if parameter.position == 0:
                parameter.position = position_of(self._used_in.get(number, State()))
            else:
                parameter.position = positions.get(parameter.position, 0)
        timeline.units = [self._units[unit - 1] for unit in self._order]
        timeline.boundaries = {
            positions[unit]: nbytes for unit, nbytes in self._outputs.items() if unit in positions
        }
        self._take_states()
        set_phases(timeline.events, self._sequences)
        for lifetime in timeline.lifetimes:
            if lifetime.parameter >= 0:
                lifetime.position = timeline.parameters[lifetime.parameter].position
                lifetime.divided = timeline.parameters[lifetime.parameter].divided
        return timeline

    # Modules.

    def _style(self, name: str) -> tuple[str, str] | None:
        for pattern, style in self._layers.items():
            if fnmatchcase(name, pattern):
                return pattern, style
        return None

    def _hook_unit(self, name: str, module: Module) -> None:
        self._units.append(name)
        number = len(self._units)

        def enter(*_: object) -> None:
            if number not in self._order:
                self._order.append(number)
            self._set(self._state._replace(unit=number, is_over=False))

        def leave(module: object, args: object, output: object) -> None:
            self._outputs[number] = _nbytes(output)
            self._set(self._state._replace(is_over=True))

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)

    def _hook_layer(self, name: str, module: Module, style: str) -> None:
        def enter(module: object, args: object) -> None:
            if not self._open_layer:
                self._open_layer = name
                self._region_inputs.append(_nbytes(args))
                self._set(self._state._replace(region=len(self._region_inputs) - 1))

        def leave(module: object, args: object, output: object) -> None:
            if not self._open_layer:
                raise ValueError(
                    f"plan(): TensorParallel divides {name!r} row-wise, and no column-wise layer comes before it"
                )
            for tensor in tensors_of(output):
                entry = self._living.get(id(root_of(tensor._data)))
                if entry is not None:
                    entry[1].divided = False
            self._open_layer = ""
            self._set(self._state._replace(region=-1))
            self._add(Event(Kind.REDUCE, nbytes=_nbytes(output)))

        if style == "colwise":
            module.register_forward_pre_hook(enter)
        else:
            module.register_forward_hook(leave)

    def _take_parameters(self, module: Module) -> None:
        names = {name: number for number, name in enumerate(self._units, 1)}
        for name, parameter in module.named_parameters():
            root = root_of(parameter._data)
            if id(root) in self._given:
                continue
            self._given.add(id(root))
            owner, _, leaf = name.rpartition(".")
            style = self._style(owner)
            parts = name.split(".")
            unit = next(
                (names[prefix] for n in range(1, len(parts)) if (prefix := ".".join(parts[:n])) in names), 0
            )
            number = len(self._timeline.parameters)
            self._by_identity[id(parameter)] = number
            self._by_root[id(root)] = number
            self._timeline.parameters.append(
                PlannedParameter(
                    name, root.nbytes, parameter.requires_grad, unit,
                    style is not None and (style[1] == "colwise" or leaf != "bias"),
                )
            )  # fmt: skip

    def _take_states(self) -> None:
        """Record the sizes of each parameter's optimizer states, including states that the program created."""
        argument_bytes = self._timeline.other_given
        for optimizer in self._optimizers:
            for parameter, states in optimizer.state.items():
                number = self._by_identity.get(id(parameter), -1)
                for tensor in tensors_of(states):
                    root = root_of(tensor._data)
                    entry = self._living.get(id(root))
                    if entry is not None:
                        entry[1].is_state = True
                    elif id(root) in self._given:
                        argument_bytes -= root.nbytes
                    if number >= 0:
                        planned = self._timeline.parameters[number]
                        if tuple(tensor.shape) == tuple(parameter.shape):
                            planned.state_bytes += root.nbytes
                        else:
                            planned.other_state_bytes += root.nbytes
        self._timeline.other_given = argument_bytes

    # Events.

    def _set(self, state: State) -> None:
        self._state = state
        self._marks.append((next_sequence(), state))

    def _add(self, event: Event) -> None:
        self._timeline.events.append(event)
        self._states.append(self._state)

    def _accumulated(self, leaf: Any) -> None:
        number = self._by_identity.get(id(leaf), -1)
        if leaf is None or number < 0:
            return
        self._add(Event(Kind.GRADIENT, number=number))
        grad = leaf._autograd.grad
        root = root_of(grad._data) if isinstance(grad, Tensor) else None
        entry = self._living.get(id(root))
        if entry is not None and entry[1].parameter < 0:
            reference, lifetime = entry
            lifetime.death = len(self._timeline.events)
            gradient = self._new_lifetime(lifetime.nbytes)
            gradient.parameter = number
            self._living[id(root)] = (reference, gradient)

    def _communicates(self, call: Seen) -> None:
        name = call.func._opname.removesuffix("_")
        for suffix in ("_out", "_coalesced"):
            name = name.removesuffix(suffix)
        if name in COLLECTIVES:
            inputs = _nbytes([value for key, value in call.arguments.items() if key != "out"])
            whole = _nbytes(list(call.results)) if name == "all_gather_into_tensor" else inputs
            results = [id(root_of(tensor._data)) for tensor in call.results]
            self._add(Event(
                Kind.COLLECTIVE, nbytes=whole, collective=COLLECTIVES[name], number=results[0] if results else -1,
                group=str(call.arguments.get("group_name", "")),
            ))  # fmt: skip
        elif name == "wait_tensor":
            waited = [id(root_of(tensor._data)) for tensor in tensors_of(list(call.arguments.values()))]
            self._add(Event(Kind.WAIT, number=waited[0] if waited else -1))

    def _see(self, tensor: Tensor) -> None:
        root = root_of(tensor._data)
        number = id(root)
        if number in self._given or number in self._living:
            return
        lifetime = self._new_lifetime(root.nbytes)
        self._living[number] = (weakref.ref(root, self._forget(number)), lifetime)

    def _new_lifetime(self, nbytes: int) -> Lifetime:
        lifetime = Lifetime(len(self._timeline.events), nbytes, 0, self._state.region >= 0)
        self._timeline.lifetimes.append(lifetime)
        self._lifetime_states.append(self._state)
        return lifetime

    def _forget(self, number: int) -> Callable[[object], None]:
        def forget(_: object) -> None:
            _, lifetime = self._living.pop(number)
            lifetime.death = len(self._timeline.events)

        return forget


def _units(module: Module, prefix: str) -> Iterable[tuple[str, Module]]:
    """Yield the modules of the outermost lists, with their names."""
    for name, child in module.named_children() if not isinstance(module, ModuleList | Sequential) else ():
        yield from _units(child, f"{prefix}{name}.")
    if isinstance(module, ModuleList | Sequential):
        for name, child in module.named_children():
            yield f"{prefix}{name}", child


def _nbytes(values: object) -> int:
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors_of(values))
