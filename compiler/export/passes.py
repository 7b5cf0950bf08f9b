"""Passes over exported programs: a program in, another one out (`torch.export.passes`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...nn.modules.parameter import Parameter
from ...runtime.device import device as Device
from ...runtime.traceback_filter import api_boundary
from ..dynamic_shapes.template import Template
from .dynamic_graph import DynamicGraph, without_results
from .graph_json import graph_from_json, graph_to_json
from .program import ExportedProgram

Location = str | Device | Mapping[str, str]


@api_boundary
def move_to_device_pass(ep: ExportedProgram, location: Location) -> ExportedProgram:
    """Move a program, with its tensors and those that its steps make (`torch.export.passes.move_to_device_pass`).

    The program keeps its captured operators, although the module might call others on the new device. An operator
    without a kernel there raises an error when a call reaches it. The new program also uses kernels that came with the
    old one.

    Args:
        ep: The program, which is not changed.
        location: The device for all; or a dict from devices to devices, in which ``"*"`` stands for any other.

    Raises:
        RuntimeError: A device is not available, or a step refuses its tensors' devices.

    Example:
        >>> import triten as tt
        >>> program = tt.export.export(tt.nn.Linear(2, 3), (tt.ones(1, 2),))
        >>> moved = tt.export.passes.move_to_device_pass(program, "meta")
        >>> moved.module()(tt.ones(1, 2, device="meta")).device
        device(type='meta')
    """
    device_for = _places(location)

    def moved_rows(rows: Any) -> Any:
        if isinstance(rows, dict):
            return {
                key: device_for(value) if key == "device" and isinstance(value, str) else moved_rows(value)
                for key, value in rows.items()
            }
        return [moved_rows(each) for each in rows] if isinstance(rows, list) else rows

    graph = graph_from_json(moved_rows(without_results(graph_to_json(ep.graph))))
    made: dict[int, Any] = {}

    def moved(tensor: Any) -> Any:
        known = made.get(id(tensor))
        if known is None:
            known = tensor.detach().to(device_for(str(tensor.device)))
            if isinstance(tensor, Parameter):
                known = Parameter(known, tensor.requires_grad)
            made[id(tensor)] = known
        return known

    state = {name: moved(tensor) for name, tensor in ep.state_dict.items()}
    constants = {name: moved(tensor) for name, tensor in ep.constants.items()}
    old = ep._dynamic
    dynamic = (
        None
        if old is None
        else DynamicGraph(
            Template(moved_rows(old.template.rows), old.template.expressions, old.template.decisions),
            old.ranges,
            old.dimension_names,
        )
    )
    program = ExportedProgram(
        graph,
        ep.graph_signature,
        state,
        constants,
        ep._in_spec,
        ep._out_spec,
        ep._paths,
        ep._identical,
        None,
        dynamic,
        ep._differentiable,
    )
    program.kernels = ep.kernels
    return program


def _places(location: Location) -> Callable[[str], str]:
    """Return a function from the name of a device to the name of its replacement."""
    if not isinstance(location, Mapping):
        target = str(_indexed(location))
        return lambda _: target
    replacements = {
        str(Device(old)) if old != "*" else old: str(_indexed(new)) for old, new in location.items()
    }

    def place(name: str) -> str:
        device = Device(name)
        return replacements.get(name) or replacements.get(device.type) or replacements.get("*") or name

    return place


def _indexed(location: str | Device) -> Device:
    """Return a device with an index: ``cuda`` is the first one."""
    device = Device(location)
    return Device("cuda", 0) if device.type == "cuda" and device.index is None else device


__all__ = ["move_to_device_pass"]
