"""Peak live bytes agree with hand counts and with NumPy's allocations."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.host.replay import replay
from triten.compiler.liveness import peak_bytes
from triten.compiler.pipeline import kernel_for
from triten.compiler.schedule import fused_schedule, plain_schedule
from triten.tests.compiler.beside_eager import drawn

F = tt.nn.functional

COUNTS: dict[str, tuple[Callable[..., Any], int, int]] = {
    # A tensor of (4, 4) has 64 bytes.
    "a chain": (lambda x: (x.exp() + 1).relu(), 2 * 64, 64),
    "two readers": (lambda x: (h := x @ x, h @ h + h @ x)[1], 3 * 64, 3 * 64),
    "views": (lambda x: (x @ x).t().view(4, 2, 2).select(0, 1).sum(), 64 + 4, 64 + 4),
    "several results of one": (lambda x: x.max(0)[0] * 2, 16 + 32, 16 + 32),
    "results stay": (lambda x: (x @ x, x @ x @ x), 3 * 64, 3 * 64),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    function, one_by_one, fused = COUNTS[name]
    graph = tt.func.make_graph(function)(drawn(4, 4)).graph
    assert (peak_bytes(plain_schedule(graph)), peak_bytes(fused_schedule(graph))) == (one_by_one, fused)


@pytest.mark.parametrize("fuses", [False, True])
def test_the_count_is_what_is_allocated(fuses: bool) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        h = F.gelu(x @ x) * 2
        h = F.layer_norm(h @ x, (256,)) + h
        return (h.t() @ x).tanh().exp()

    x = drawn(256, 256)
    graph = tt.func.make_graph(f)(x).graph
    schedule = (fused_schedule if fuses else plain_schedule)(graph)
    program = replay(schedule, kernel_for)[0]
    program(x)
    tracemalloc.start()
    try:
        program(x)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = program(x)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # Kernels have scratch of their own: for their operators, and for the steps of a block.
    assert peak_bytes(schedule) <= peak <= peak_bytes(schedule) + 3 * 256 * 256 * 4
    assert len(result) == 1


def test_explain_says_it() -> None:
    layers = [tt.nn.Sequential(tt.nn.Linear(64, 64), tt.nn.GELU()) for _ in range(6)]
    found = tt.compiler.explain(tt.nn.Sequential(*layers), drawn(128, 64))
    assert found.peak_bytes < 0.75 * found.eager_peak_bytes
    assert f"eager {found.eager_peak_bytes:,}, compiled {found.peak_bytes:,}" in str(found)
