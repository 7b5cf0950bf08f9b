"""`plan`: the prediction of a program on a device, from its run on Meta tensors and a model of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, overload

from . import host_time, rates, timing
from .communication.data_sheets import interconnect_of
from .communication.interconnect import Interconnect
from .data_sheets import DATA_SHEETS, OF_BANDWIDTH, OF_PEAK, DataSheet
from .parallel.distributed_plan import DistributedPlan
from .parallel.mesh import mesh_of
from .parallel.prediction import predict
from .parallel.strategies import Strategy, TensorParallel
from .parallel.timeline_recorder import TimelineRecorder
from .processor import Processor
from .recording import RecordedCall, Recording, record
from .shown import shown_seconds

CPU_NAME = "cpu"
COLLECTIVES = "_c10d_functional"
"""Namespace of operators whose time comes from the interconnect."""


@dataclass
class OperatorPlan:
    """Predicted cost of all calls of one operator: bytes moved, floating-point operations, seconds.

    `work_seconds` come from the roofline. `overhead_seconds` are the fixed costs of a call.
    """

    name: str
    calls: int = 0
    flops: int = 0
    bytes: int = 0
    work_seconds: float = 0.0
    overhead_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Sum of work and overhead."""
        return self.work_seconds + self.overhead_seconds


@dataclass(frozen=True)
class Plan:
    """A row for each operator in the order of the first calls, autograd's own time, memory, and what it rests on.

    `peak_bytes` is the most that is alive at once, of which `given_bytes` are the arguments' (inputs, parameters,
    buffers, states of optimisers) and stay.
    """

    device: str
    operators: tuple[OperatorPlan, ...]
    backward_nodes: int
    autograd_seconds: float
    peak_bytes: int
    given_bytes: int
    basis: tuple[str, ...]

    @property
    def calls(self) -> int:
        """Calls of all operators."""
        return sum(row.calls for row in self.operators)

    @property
    def flops(self) -> int:
        """Floating-point operations of all operators."""
        return sum(row.flops for row in self.operators)

    @property
    def bytes(self) -> int:
        """Bytes moved by all operators."""
        return sum(row.bytes for row in self.operators)

    @property
    def work_seconds(self) -> float:
        """The rooflines of all calls."""
        return sum(row.work_seconds for row in self.operators)

    @property
    def overhead_seconds(self) -> float:
        """The overheads of all calls, and autograd's time."""
        return sum(row.overhead_seconds for row in self.operators) + self.autograd_seconds

    @property
    def seconds(self) -> float:
        """Predicted time: the sum of work and overhead."""
        return self.work_seconds + self.overhead_seconds

    def __str__(self) -> str:
        rows = [(row.name, row.calls, row.flops, row.bytes, row.seconds) for row in self.operators]
        if self.backward_nodes:
            rows.append(("(autograd's nodes)", self.backward_nodes, 0, 0, self.autograd_seconds))
        rows.append(("all", self.calls, self.flops, self.bytes, self.seconds))
        width = max(len("operator"), *(len(row[0]) for row in rows))
        lines = [f"{'operator':<{width}}{'calls':>8}{'flops':>18}{'bytes':>16}{'us':>14}"]
        lines += [
            f"{name:<{width}}{calls:>8,}{flops:>18,}{nbytes:>16,}{1e6 * seconds:>14,.1f}"
            for name, calls, flops, nbytes, seconds in rows
        ]
        lines.append(f"peak memory {self.peak_bytes:,} bytes, {self.given_bytes:,} of them given")
        lines.append(
            f"predicted time on {self.device}: {shown_seconds(self.seconds)} "
            f"({shown_seconds(self.work_seconds)} of work, {shown_seconds(self.overhead_seconds)} of overhead)"
        )
        return "\n".join([*lines, *self.basis])


class Model(Protocol):
    """Model of a device, which predicts calls."""

    def roofline_and_overhead(self, key: str, call: RecordedCall) -> tuple[float, float]:
        """Seconds of one call: of its work, and of being called."""

    def backward_node_seconds(self) -> float:
        """Seconds of autograd for a node."""

    def basis(self, peak_bytes: int) -> list[str]:
        """Describe the basis of the prediction for the reader."""


class Gpu:
    """Model of a GPU by its data sheet, with host times measured on this machine."""

    def __init__(self, sheet: DataSheet) -> None:
        self.sheet = sheet

    def roofline_and_overhead(self, key: str, call: RecordedCall) -> tuple[float, float]:
        """Seconds of one call: its roofline, and the host's time, with a launch where there is work."""
        launch = 0.0 if call.is_free else host_time.launch_seconds() or 0.0
        work = 0.0 if call.is_free else self.sheet.roofline_seconds(call)
        return work, host_time.call_seconds(key, call) + launch

    def backward_node_seconds(self) -> float:
        """Seconds of the host for a node of autograd."""
        return host_time.backward_node_seconds()

    def basis(self, peak_bytes: int) -> list[str]:
        """Describe which figures come from the data sheet, and which were measured."""
        sheet, launch = self.sheet, host_time.launch_seconds()
        lines = [
            f"work: data sheet of {sheet.name}, {sheet.bytes_per_second / 1e9:,.0f} GB/s, taken to sustain "
            f"{OF_BANDWIDTH:.0%} of the bandwidth and {OF_PEAK:.0%} of the peak rates; no GPU was measured",
            "overhead: host time of each call, measured on this machine on Meta tensors, "
            + (
                "launches not measured (no CUDA driver answers here) and left out"
                if launch is None
                else f"and {1e6 * launch:.2f} us for a launch, measured with this machine's driver"
            ),
        ]
        if peak_bytes > sheet.memory_bytes:
            lines.append(f"does not fit: {sheet.name} has {sheet.memory_bytes:,.0f} bytes of memory")
        return lines


@overload
def plan(
    fn: Callable[..., object],
    /,
    *meta_args: Any,
    device: str = CPU_NAME,
    mesh: None = None,
    interconnect: None = None,
    strategies: None = None,
    **kwargs: Any,
) -> Plan: ...


@overload
def plan(
    fn: Callable[..., object],
    /,
    *meta_args: Any,
    device: str = CPU_NAME,
    mesh: Any,
    interconnect: Interconnect | str,
    strategies: Mapping[str, Strategy | None] | None = None,
    **kwargs: Any,
) -> DistributedPlan: ...


def plan(
    fn: Callable[..., object],
    /,
    *meta_args: Any,
    device: str = CPU_NAME,
    mesh: Any = None,
    interconnect: Interconnect | str | None = None,
    strategies: Mapping[str, Strategy | None] | None = None,
    **kwargs: Any,
) -> Plan | DistributedPlan:
    """Predict time and memory of `fn(*meta_args, **kwargs)` on a device, without computing it and without the
    device.

    The function runs on Meta tensors as under `tt.perf.cost`. Backward passes and optimizer steps inside it
    count. The plan has calls, floating-point operations, bytes and predicted seconds for each operator, and
    the peak of live bytes. Live bytes count by storage. Arguments, parameters and optimizer states are live
    from the beginning. Results are live until Python drops them or the graph that saved them is freed.
    Workspaces of kernels, and the time of Python between the calls, are not included.

    The time of a call is the longer of memory time and compute time, plus its overhead:

    - ``"a100"``, ``"h100"``, ``"h200"``, ``"b200"``, ``"l40s"``, ``"rtx5090"``: bandwidth and peak rate come
      from the data sheet, by dtype. Float32 uses TF32 if `set_float32_matmul_precision` or the convolutions'
      flag allows it. The sustained shares of both are assumed (``triten.perf.planning.data_sheets``); nothing
      was measured on a GPU. The overhead is measured on this machine: the host time of the same call on Meta
      tensors, and the time of a launch if a CUDA driver is available. Without a driver, launches are left
      out. In reality, host and GPU overlap: the time lies between the larger of `work_seconds` and
      `overhead_seconds` and their sum, which is `seconds`.
    - ``"cpu"``: everything is measured on this machine with the current number of threads. The measurements
      are the bandwidth of a copy, and rates and overhead of each kind of work in the program (operator,
      dtypes, layout of operands). They use small operands, and take some milliseconds per kind, once per
      process.

    With a `mesh`, the plan describes a step on many devices connected by an `interconnect`. It has bytes and
    seconds of collectives, their exposed and overlapped parts, the step's time, scaling efficiency, and
    memory by rank. `fn` is then the work of a single rank in one step, and the result is a `DistributedPlan`.
    Nothing communicates. Collectives that `fn` itself calls (``_c10d_functional``) count, too.

    Args:
        fn: A function of tensors, or a module.
        meta_args, kwargs: Its arguments: tensors of any device, which are neither read nor changed; modules
            and optimizers, which are copied.
        device: Name of the device. Default: ``"cpu"``.
        mesh: Names and sizes of dimensions, such as ``{"dp": 8, "tp": 4}``, or a DeviceMesh. Ranks of the
            last dimension are consecutive, and nodes hold consecutive ranks.
        interconnect: An `Interconnect`, or the name of a machine (``"dgx_h100"``), of a link, or of two links
            joined by ``+`` (``"pcie5+ethernet100"``: nodes of 8 devices).
            `triten.perf.planning.communication.data_sheets` lists them with their sources.
        strategies: Strategy of each dimension: `DataParallel`, `FullyShard`, `TensorParallel`, `Pipeline`, or
            None if the program itself communicates. Default: by the names ``dp``, ``fsdp`` and ``pp``.

    Raises:
        ValueError: for another device; for a mesh, an interconnect or a strategy that does not fit; for a
            tensor that requires grad and is no argument, as `tt.perf.cost`; for products of a dtype that the
            GPU does not multiply.
        NotImplementedError, RuntimeError: as Meta tensors raise them, for what depends on values, such as
            `item`.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Sequential(tt.nn.Linear(16, 32), tt.nn.ReLU(), tt.nn.Linear(32, 10))
        >>> found = tt.perf.plan(model, tt.empty(8, 16, device="meta"), device="h100")
        >>> found.flops, found.given_bytes, found.peak_bytes
        (13904, 4008, 6056)
        >>> found.seconds > found.overhead_seconds > 0
        True
        >>> step = lambda model, x: model(x).sum().backward()
        >>> many = tt.perf.plan(
        ...     step, model, tt.empty(8, 16, device="meta"), device="h100", mesh={"dp": 16}, interconnect="dgx_h100"
        ... )
        >>> [(row.collective, row.algorithm, row.calls, int(row.bytes)) for row in many.collectives]
        [('all_reduce', 'hierarchical', 1, 3496)]
    """
    model: Model
    if device == CPU_NAME:
        model = Processor()
    elif device in DATA_SHEETS:
        model = Gpu(DATA_SHEETS[device])
    else:
        choices = ", ".join(map(repr, (CPU_NAME, *DATA_SHEETS)))
        raise ValueError(f"plan(): device must be one of {choices}, got {device!r}")
    if mesh is None:
        if interconnect is not None or strategies is not None:
            raise ValueError("plan(): interconnect and strategies need a mesh")
        recording = record(fn, meta_args, kwargs)
        return _plan_of(device, model, recording, _seconds_of(model, recording))
    if interconnect is None:
        raise ValueError("plan(): mesh needs an interconnect, the name of one or an Interconnect")
    network = interconnect_of(interconnect) if isinstance(interconnect, str) else interconnect
    placed = mesh_of(mesh, strategies, network)
    columns = placed.of(TensorParallel)
    recorder = TimelineRecorder(columns[1].plan if columns else {})
    recording = record(fn, meta_args, kwargs, recorder)
    timeline = recorder.finish()
    seconds = _seconds_of(model, recording)
    single = _plan_of(device, model, recording, seconds)
    node = model.backward_node_seconds() if recording.backward_nodes else 0.0
    return predict(single, timeline, seconds, node, placed, network, model.basis)


def _seconds_of(model: Model, recording: Recording) -> dict[str, tuple[float, float]]:
    """Seconds of work and of being called, by the key of a call."""
    return {
        key: (0.0, 0.0) if call.func.namespace == COLLECTIVES else model.roofline_and_overhead(key, call)
        for key, call in recording.calls.items()
    }


def _plan_of(
    device: str, model: Model, recording: Recording, seconds: Mapping[str, tuple[float, float]]
) -> Plan:
    rows: dict[str, OperatorPlan] = {}
    for key, call in recording.calls.items():
        row = rows.setdefault(call.func.name(), OperatorPlan(call.func.name()))
        work, overhead = seconds[key]
        row.calls += call.count
        row.flops += call.count * call.work.flops
        row.bytes += call.count * call.work.bytes
        row.work_seconds += call.count * work
        row.overhead_seconds += call.count * overhead
    nodes = recording.backward_nodes
    autograd_seconds = nodes * model.backward_node_seconds() if nodes else 0.0
    return Plan(
        device, tuple(rows.values()), nodes, autograd_seconds, recording.peak_bytes, recording.given_bytes,
        tuple(model.basis(recording.peak_bytes)),
    )  # fmt: skip


def forget_measurements() -> None:
    """Measure this machine anew at the next plan: its load or its number of processors may have changed."""
    rates.forget()
    host_time.forget()
    timing.node_seconds.cache_clear()
