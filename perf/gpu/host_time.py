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
    ("a.add_(b)", "a.add_(b)"),
    ("a.exp()", "a.exp()"),
    ("a > b", "a > b"),
    ("where", "lib.where(a > 0, a, b)"),
    ("a.clone()", "a.clone()"),
    ("a.to(bfloat16)", "a.to(lib.bfloat16)"),
    ("zeros(16)", "lib.zeros(16, device=device)"),
    ("cat of 2", "lib.cat((a, b))"),
    ("a[3:9]", "a[3:9]"),
    ("a.max(0)", "a.max(0)"),
    ("m @ m, 4x4", "m @ m"),
    ("linear 4x4", "F.linear(m, m, v)"),
    ("softmax 4x4", "F.softmax(m, 1)"),
    ("layer_norm 4x4", "F.layer_norm(m, (4,), v, v)"),
    ("gelu, 16 elements", "F.gelu(a)"),
    ("autograd step: linear, relu, sum, backward", "F.relu(F.linear(m, w, v)).sum().backward()"),
    (".item()", "s.item()"),
)
SETUP = "m = a.clone().view(4, 4)\nv = a[:4].clone()\ns = a.sum()\nw = a.clone().view(4, 4).requires_grad_()"
"""Operands of the small calls beside `a` and `b`."""
COPIES = (1 << 12, 1 << 20, 1 << 26)
"""Bytes of copies between host and device."""
GRAPH_NODES = 20


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
        ours = names_for(tt, "cuda", a.ours, b.ours)
        contests[name] = {OURS: idle_first(statement_slice(statement, ours), tt.cuda.synchronize)}
        if peer.library is not None:
            theirs = names_for(peer.library, peer.device, a.theirs, b.theirs)
            contests[name][PEER] = idle_first(statement_slice(statement, theirs), peer.synchronize)
    measured = measure(contests, rounds=rounds, slice_seconds=slice_seconds)
    for name, seconds in measured.items():
        row = Row(GROUP, name, times={who: [1e6 * s for s in times] for who, times in seconds.items()})
        if name == SMALL_CALLS[0][0]:
            row.breakdown = breakdown(a.ours, b.ours, rounds, slice_seconds)
        yield row
    yield from runtime_calls(rounds, slice_seconds)
    yield from copies(peer, rounds, slice_seconds)
    yield from graph_launches(peer, rounds, slice_seconds)


def names_for(library: ModuleType, device: str, a: Any, b: Any) -> dict[str, Any]:
    """Return the names of a library's statements. Statements may write to `a`, so it is a copy."""
    names = {
        "lib": library,
        "F": importlib.import_module(f"{library.__name__}.nn.functional"),
        "device": device,
        "a": a.clone(),
        "b": b,
    }
    exec(SETUP, names)
    return names


def contest(
    peer: Peer,
    name: str,
    statements: dict[str, tuple[str, dict[str, Any]]],
    rounds: int,
    slice_seconds: float,
) -> Row:
    """Time one statement of each library, each with the wait for its work."""
    synchronizers = {OURS: tt.cuda.synchronize, PEER: peer.synchronize}
    slices = {
        who: idle_first(statement_slice(statement, names), synchronizers[who])
        for who, (statement, names) in statements.items()
    }
    seconds = measure({name: slices}, rounds=rounds, slice_seconds=slice_seconds)[name]
    return Row(GROUP, name, times={who: [1e6 * s for s in times] for who, times in seconds.items()})


def copies(peer: Peer, rounds: int, slice_seconds: float) -> Iterator[Row]:
    """Yield copies from pinned and pageable memory to the device and back, each waited for."""
    for nbytes in COPIES if not peer.rehearsal else COPIES[:1]:
        for pinned in (True, False):
            for to_device in (True, False):
                statements = {}
                for who, library in ((OURS, tt), (PEER, peer.library)):
                    if library is None or (library is not tt and peer.rehearsal):
                        continue
                    host = library.zeros(nbytes, dtype=library.uint8)
                    host = host.pin_memory() if pinned else host
                    device = library.zeros(nbytes, dtype=library.uint8, device="cuda")
                    target, source = (device, host) if to_device else (host, device)
                    wait = library.cuda.synchronize
                    names = {"target": target, "source": source, "wait": wait}
                    statements[who] = ("target.copy_(source, non_blocking=True); wait()", names)
                name = f"copy of {nbytes} bytes, {'pinned' if pinned else 'pageable'}, "
                row = contest(
                    peer,
                    name + ("to the device" if to_device else "to the host"),
                    statements,
                    rounds,
                    slice_seconds,
                )
                row.nbytes = nbytes
                yield row


def graph_launches(peer: Peer, rounds: int, slice_seconds: float) -> Iterator[Row]:
    """Yield the launch of a CUDA graph of many small kernels."""
    statements = {}
    for who, library in ((OURS, tt), (PEER, peer.library)):
        if library is None or (library is not tt and peer.rehearsal):
            continue
        x = library.zeros(ELEMENTS, device="cuda")
        x.add_(1)
        library.cuda.synchronize()
        graph = library.cuda.CUDAGraph()
        with library.cuda.graph(graph):
            for _ in range(GRAPH_NODES):
                x.add_(1)
        statements[who] = ("graph.replay()", {"graph": graph, "x": x})
    yield contest(peer, f"launch of a graph of {GRAPH_NODES} kernels", statements, rounds, slice_seconds)


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
