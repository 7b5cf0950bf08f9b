"""The costs of compiled programs, counted: launches of training steps, and bytes that fused kernels move."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten.compiler.schedule import plain_schedule
from triten.tests.compiler.traffic import least, moved

F = tt.nn.functional
PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler_internals.md"

if sys.platform != "linux" and importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)


def test_launches_of_training_steps_are_those_of_the_page() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.tests.compiler.launch_counts"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    page = PAGE.read_text(encoding="utf-8")
    for name, (eager, compiled, with_optimizer) in json.loads(done.stdout.splitlines()[-1]).items():
        assert compiled <= eager, name
        assert f"| {name} | {eager} | {compiled} | {with_optimizer} |" in page, (
            name,
            eager,
            compiled,
            with_optimizer,
        )


def chain(count: int) -> Callable[..., tt.Tensor]:
    def function(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        for i in range(count):
            a = (a + b, a * b, a - b, a.relu())[i % 4]
        return a

    return function


def softmax(x: tt.Tensor) -> tt.Tensor:
    exponentials = (x - x.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def normalized_sum(x: tt.Tensor, y: tt.Tensor, weight: tt.Tensor, bias: tt.Tensor) -> Any:
    total = x + y
    return F.layer_norm(total, total.shape[-1:], weight, bias), total


def adamw(p: tt.Tensor, grad: tt.Tensor, mean: tt.Tensor, square: tt.Tensor) -> Any:
    p = p * (1 - 1e-3 * 0.01)
    mean, square = mean * 0.9 + grad * 0.1, square * 0.999 + grad * grad * 0.001
    return p - 1e-3 * (mean / 0.1) / ((square / 0.001).sqrt() + 1e-8), mean, square


ROWS, ROW = (64, 1024), (1024,)
CHAINS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "relu chain": (lambda a, b, c: ((a + b) * c).relu(), (ROWS,) * 3),
    "5 operators": (chain(5), (ROWS,) * 2),
    "20 operators": (chain(20), (ROWS,) * 2),
    "softmax": (softmax, (ROWS,)),
    "layer_norm of a sum": (normalized_sum, (ROWS, ROWS, ROW, ROW)),
    "AdamW": (adamw, (ROWS,) * 4),
}


def explained(function: Callable[..., Any], *sizes: tuple[int, ...]) -> Any:
    with tt.no_grad():
        return tt.compiler.explain(function, *[tt.empty(size, device="cuda") for size in sizes])


@pytest.mark.parametrize("name", CHAINS)
def test_fused_kernels_move_hardly_more_than_the_least(name: str) -> None:
    function, sizes = CHAINS[name]
    found = explained(function, *sizes)
    (schedule,) = found.schedules
    assert 1 <= moved(schedule, found.sources) / least(schedule) <= 1.1
    one_by_one = moved(plain_schedule(schedule.graph), {})
    assert one_by_one / least(schedule) > 1.2


def test_a_row_that_no_program_holds_is_read_again() -> None:
    found = explained(softmax, (128, 60_000))
    (schedule,) = found.schedules
    assert moved(schedule, found.sources) / least(schedule) > 1.4
