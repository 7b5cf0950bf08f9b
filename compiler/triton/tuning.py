"""Autotuning for ``mode="max-autotune"``: blocks and warps of fused kernels, and configurations of operators' kernels.

Candidates are timed on the device once, when a graph is compiled. The results are kept with those of `autotune`
(`triton_kernels/tuning/records.py`), for fused kernels by their source. On simulated devices nothing is timed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.generated import functions as ops
from ...dispatch.layers.autocast.mode import autocast
from ...dispatch.layers.graph.graph import Node, map_nodes
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cuda import driver as drivers
from ...runtime.device import device as Device
from ...runtime.generator import Generator
from ...runtime.grad_mode import set_grad_enabled
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.budget import Configuration
from ...triton_kernels.tuning.autotune import failures, tune
from ...triton_kernels.tuning.entry import Entry
from ...triton_kernels.tuning.measurement import WARM_UP, measure, winner
from ...triton_kernels.tuning.question import shape_class
from ...triton_kernels.tuning.records import device_name, records
from ...triton_kernels.tuning.timer import EventTimer, Timer
from ..schedule import FusedKernel, OperatorCall, Schedule

WIDENINGS = ((1, 4), (1, 8), (2, 8), (2, 4), (0.5, 4), (0.5, 2))
"""Candidates of a fused kernel: factors of its block, and numbers of warps. The default comes first."""
MIN_BLOCK = 16

timer_for: Callable[[Device], Timer] = EventTimer
"""Timer factory for a device."""

_chosen: dict[tuple[str, str, str], Configuration] = {}
_asked: set[Any] = set()
"""The calls of operators for which candidates were timed in this process."""


def why_untimed(device: Device) -> str | None:
    """Return the reason why nothing is timed on a device; None if kernels are timed."""
    if device.type != "cuda":
        return f"kernels of {device.type} have no candidates"
    if drivers.is_simulated():
        return "times of simulated devices say nothing of a real one"
    return None


def configuration_of(
    kernel: FusedKernel,
    source: str,
    block: int,
    launched: Callable[[int, int], Callable[..., Any]],
) -> Configuration:
    """Return the fastest block and number of warps of a fused kernel, and time the candidates if it is unknown.

    Args:
        kernel: The kernel.
        source: Its text.
        block: Its block without tuning.
        launched: Make a function of the inputs' buffers, for a block and a number of warps.
    """
    device: Device = kernel.domain.device
    properties = drivers.driver().properties(device.resolved_index)
    name = f"triten.compiler:{kernel.name}"
    widest = max((node.val for node in (*kernel.inputs, *kernel.outputs)), key=lambda spec: spec.itemsize)
    key = (
        hashlib.sha256(source.encode()).hexdigest()[:32],
        widest.dtype.triton_name,
        shape_class(kernel.domain.sizes),
    )
    known = _chosen.get(key)
    if known is not None:
        return known
    stored_records = records()
    every = [Configuration((max(int(block * wider), MIN_BLOCK),), warps) for wider, warps in WIDENINGS]
    every = list(dict.fromkeys(every))
    for entry in () if stored_records is None else stored_records.read(device_name(properties), name):
        configuration = Configuration(entry.tile, entry.warps)
        if (entry.source, entry.dtype, entry.shape) == key and configuration in every:
            _chosen[key] = configuration
            return configuration
    inputs = [allocator_of(node.val)() for node in kernel.inputs]
    usable, times = _timed(device, every, lambda each: launched(each.tile[0], each.warps), inputs)
    configuration = usable[winner(times)]
    if stored_records is not None:
        medians = {
            str(each): round(measurement.median, 3) for each, measurement in zip(usable, times, strict=True)
        }
        measured = Entry(
            name,
            *key,
            configuration.tile,
            configuration.warps,
            configuration.stages,
            medians,
            properties.name,
        )
        stored_records.write(device_name(properties), measured)
    _chosen[key] = configuration
    return configuration


def _timed(
    device: Device,
    every: Sequence[Configuration],
    made: Callable[[Configuration], Callable[..., Any]],
    inputs: Sequence[Any],
) -> tuple[list[Configuration], Any]:
    """Return the candidates that can be launched, and their times. The first candidate must be launchable."""
    usable: list[Configuration] = []
    runs: list[Callable[[], Any]] = []
    for each in every:
        function = made(each)
        try:
            function(*inputs)
        except failures():
            if not usable:
                raise
            continue
        usable.append(each)
        runs.append(lambda function=function: function(*inputs))  # type: ignore[misc]
    timer = timer_for(device)

    def take(candidate: int, count: int) -> list[float]:
        for _ in range(WARM_UP):
            runs[candidate]()
        return [timer.microseconds(runs[candidate]) for _ in range(count)]

    return usable, measure(len(usable), take)


def tune_operators(schedule: Schedule) -> None:
    """Time the configurations of the kernels that a schedule's operators launch, each call separately.

    This remakes the plans of all operators, and graphs compiled earlier are compiled again at their next call. A call
    that cannot be timed, as under a profiler or if memory is short, keeps its configuration.
    """
    for step in schedule.steps:
        if isinstance(step, OperatorCall) and _may_be_timed(step.node):
            node = step.node
            call = node.target, repr(map_nodes((node.args, dict(node.kwargs)), lambda given: given.val))
            if call not in _asked:
                _asked.add(call)
                _tune_call(node)


def _may_be_timed(node: Node) -> bool:
    if not isinstance(node.target, OpOverload) or node.is_impure:
        return False
    schema = node.target._entry.schema
    specs = [n.val for n in node.all_input_nodes]
    is_view = any(r.alias_info is not None for r in schema.returns)
    return not is_view and bool(specs) and all(isinstance(spec, TensorSpec) for spec in specs)


def _tune_call(node: Node) -> None:
    generator = Generator(node.all_input_nodes[0].val.device).manual_seed(0)
    before = set_grad_enabled(False)
    try:
        with autocast("cuda", enabled=False):
            tensors = {operand: _filled(operand.val, generator) for operand in node.all_input_nodes}
            args, kwargs = map_nodes((node.args, dict(node.kwargs)), tensors.__getitem__)
            with suppress(RuntimeError):
                tune(lambda: node.target(*args, **kwargs), list(tensors.values()), timer_for)
    finally:
        set_grad_enabled(before)


def _filled(spec: TensorSpec, generator: Generator) -> Any:
    """Return a tensor of a spec: normal numbers, or zeros, which are valid indices."""
    made = ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)
    if not spec.dtype.is_floating_point or spec.itemsize == 1 or spec.overlaps:
        return made.zero_()
    return made.normal_(generator=generator)
