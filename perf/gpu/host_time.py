"""Host time: a small call against PyTorch's and its parts, a launch, the allocator."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ...runtime.cuda.driver import Grid, LaunchObserver, driver
from ..interleaved import Slice, measure, statement_slice
from .peer import Peer
from .rows import OURS, PEER, Row

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

GROUP = "host time"
ELEMENTS = 16
SMALL_CALLS = (
    ("a + b, 16 elements", "a + b"),
    ("a * 2.0, 16 elements", "a * 2.0"),
    ("a.sum(), 16 elements", "a.sum()"),
    ("a.relu_(), 16 elements", "a.relu_()"),
    ("empty(16)", "lib.empty(16, device=device)"),
    ("a.view(4, 4)", "a.view(4, 4)"),
)


def idle_first(work: Slice, synchronize: Callable[[], None]) -> Slice:
    """Wrap a slice to start on an idle device without waiting for its work, to measure host time alone."""

    def timed(count: int) -> float:
        synchronize()
        return work(count)

    return timed


def small_calls(peer: Peer, rounds: int, slice_seconds: float) -> Iterator[Row]:
    """Yield a row for each small call, interleaved with PyTorch's."""
    a, b = peer.randn((ELEMENTS,), "float32"), peer.randn((ELEMENTS,), "float32")
    contests: dict[str, dict[str, Slice]] = {}
    for name, statement in SMALL_CALLS:
        ours = {"lib": tt, "device": "cuda", "a": a.ours, "b": b.ours}
        contests[name] = {OURS: idle_first(statement_slice(statement, ours), tt.cuda.synchronize)}
        if peer.library is not None:
            theirs = {"lib": peer.library, "device": peer.device, "a": a.theirs, "b": b.theirs}
            contests[name][PEER] = idle_first(statement_slice(statement, theirs), peer.synchronize)
    measured = measure(contests, rounds=rounds, slice_seconds=slice_seconds)
    for name, seconds in measured.items():
        row = Row(GROUP, name, times={who: [1e6 * s for s in times] for who, times in seconds.items()})
        if name == SMALL_CALLS[0][0]:
            row.breakdown = breakdown(a.ours, b.ours, rounds, slice_seconds)
        yield row
    yield from runtime_calls(rounds, slice_seconds)


class Intercepted:
    """The launches of a block of code, kept; `run` says whether they still run."""

    def __init__(self, run: bool) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._run = run
        self._before: LaunchObserver | None = None

    def __enter__(self) -> Intercepted:
        self._before = driver().observe_launches(self._seen if self._run else self._dropped)
        return self

    def _seen(self, name: str, grid: Grid, stream: int, launch: Callable[[], None]) -> None:
        self.calls.append((name, grid, stream))
        launch()

    def _dropped(self, *_: object) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        driver().observe_launches(self._before)


def breakdown(a: Any, b: Any, rounds: int, slice_seconds: float) -> dict[str, float]:
    """Return the microseconds of `a + b` in plan, allocation and launch; the plan includes all other code.

    The launch is what the call saves when launches do nothing; the allocation is measured by itself. Empty if the
    call's launch cannot be intercepted.
    """
    with Intercepted(run=True) as intercepted:
        a + b
    if not intercepted.calls:
        return {}
    whole = cost("a + b", {"a": a, "b": b}, rounds, slice_seconds)
    with Intercepted(run=False):
        without = cost("a + b", {"a": a, "b": b}, rounds, slice_seconds)
    allocation = cost("allocate(64, device)", allocation_names(), rounds, slice_seconds)
    return {"plan": without - allocation, "allocation": allocation, "launch": whole - without}


def allocation_names() -> dict[str, object]:
    """Return the names that a statement needs to allocate and free."""
    allocator = tt.library.get_allocator("cuda")
    return {"allocate": allocator.allocate, "device": tt.device("cuda", tt.cuda.current_device())}


def cost(statement: str, names: dict[str, object], rounds: int, slice_seconds: float) -> float:
    """Median host microseconds of a statement."""
    return statistics.median(costs(statement, names, rounds, slice_seconds))


def costs(statement: str, names: dict[str, object], rounds: int, slice_seconds: float) -> list[float]:
    """Host microseconds of a statement, one for each round."""
    work = idle_first(statement_slice(statement, names), tt.cuda.synchronize)
    seconds = measure({"": {OURS: work}}, rounds=rounds, slice_seconds=slice_seconds)
    return [1e6 * s for s in seconds[""][OURS]]


def runtime_calls(rounds: int, slice_seconds: float) -> Iterator[Row]:
    """Measure the allocator alone, and a planned launch with nine arguments alone."""
    yield Row(GROUP, "malloc + free of a cached size",
              times={OURS: costs("allocate(64, device)", allocation_names(), rounds, slice_seconds)})  # fmt: skip
    enqueue, arguments, operands = nine_argument_launch()
    names = {"launch": enqueue, "arguments": arguments}
    yield Row(GROUP, "launch of 9 arguments",
              times={OURS: costs("launch(*arguments)", names, rounds, slice_seconds)})  # fmt: skip
    del operands


def nine_argument_launch() -> tuple[Callable[..., None], tuple[Any, ...], list[Any]]:
    """Return a planned launch of a kernel with nine non-constant arguments, the arguments, and their tensors."""
    from ...triton_kernels.launch import Launch
    from .nine_arguments import nine_arguments

    x, y, out = (tt.zeros(ELEMENTS, device="cuda") for _ in range(3))
    pointers = dict.fromkeys(("a", "b", "out"), "*fp32")
    signature = {**pointers, "n": "i32", **dict.fromkeys("pqrst", "fp32")}
    launch = Launch(x.device, nine_arguments, signature, {"BLOCK": ELEMENTS})
    addresses = [tensor.data_ptr() for tensor in (x, y, out)]
    arguments = ((1, 1, 1), *addresses, ELEMENTS, 1.5, 2.5, 3.5, 4.5, 5.5)
    launch(*arguments)
    return launch.enqueue, arguments, [x, y, out]


def wall_clock(step: Callable[[], object], synchronize: Callable[[], None], count: int) -> float:
    """Microseconds of a step, the device's work included: `count` of them between two moments of idleness."""
    synchronize()
    started = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter() - started) / count * 1e6
