"""``mode="max-autotune"`` launches the fastest configuration, and results stay eager's."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.compiler.triton import pointwise, tuning
from triten.tests.compiler.beside_eager import drawn, same

Shape = tuple[int, int]


class Watch:
    """Timer that looks up its times by the last launch's block and warps."""

    def __init__(self) -> None:
        self.launched: list[Shape] = []
        self.times: dict[Shape, float] = {}
        self.runs = 0

    def __call__(self, device: Any) -> "Watch":
        return self

    def microseconds(self, work: Callable[[], object]) -> float:
        self.runs += 1
        work()
        return self.times.get(self.launched[-1] if self.launched else (0, 0), 10.0)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watch]:
    """Time simulated devices by the fixture, and store measurements in a folder of the test's own."""
    made = Watch()
    plan = pointwise.plan_launch

    def planned(kernel: Any, written: Any, block: int, warps: int) -> Any:
        launch, grid = plan(kernel, written, block, warps)
        enqueue = launch.enqueue

        def noted(*values: Any) -> None:
            made.launched.append((block, warps))
            enqueue(*values)

        launch.enqueue = noted
        return launch, grid

    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pointwise, "plan_launch", planned)
    monkeypatch.setattr(pointwise, "block_of", lambda kernel, written: 64)
    monkeypatch.setattr(tuning, "why_untimed", lambda device: None)
    monkeypatch.setattr(tuning, "timer_for", made)
    tuning._chosen.clear()
    tuning._asked.clear()
    yield made
    tuning._chosen.clear()
    tuning._asked.clear()


def chain(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
    return tt.relu((x + y) * 2)


@pytest.mark.parametrize("best", [(64, 4), (128, 8), (32, 2)])
def test_a_fused_kernel_takes_the_quickest_block_and_warps(watch: Watch, best: Shape) -> None:
    watch.times[best] = 5.0
    compiled = tt.compile(chain, fullgraph=True, mode="max-autotune-no-cudagraphs")
    x, y = drawn(20, 30, device="cuda"), drawn(20, 30, device="cuda", seed=1)
    same(compiled(x, y), chain(x, y))
    assert watch.runs
    watch.launched.clear()
    same(compiled(x, y), chain(x, y))
    assert watch.launched == [best]


def test_what_was_measured_is_kept(watch: Watch) -> None:
    watch.times[128, 4] = 5.0
    compiled = tt.compile(chain, fullgraph=True, options={"max_autotune": True})
    x, y = drawn(20, 30, device="cuda"), drawn(20, 30, device="cuda", seed=1)
    compiled(x, y)
    runs = watch.runs
    tt.compiler.reset()
    tuning._chosen.clear()
    watch.launched.clear()
    same(compiled(x, y), chain(x, y))
    assert watch.runs == runs and watch.launched == [(128, 4)]


def test_operators_are_timed_once_each_and_draw_no_numbers(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(run: Callable[[], Any], arguments: Any, timer: Any) -> None:
        asked.append(type(run()).__name__)

    monkeypatch.setattr(tuning, "tune", noted)
    module = tt.nn.Linear(8, 8).cuda()
    function = lambda x: module(module(x)).softmax(1)  # noqa: E731
    compiled = tt.compile(function, fullgraph=True, mode="max-autotune")
    x = drawn(4, 8, device="cuda")
    with tt.no_grad():
        tt.manual_seed(3)
        found = compiled(x)
        after = tt.rand(2, device="cuda")
        tt.manual_seed(3)
        same(tt.rand(2, device="cuda"), after)
        same(found, function(x))
    assert asked == ["Tensor", "Tensor"], "addmm and softmax; views have nothing to time"


def test_kernels_that_draw_are_not_timed(watch: Watch) -> None:
    f = lambda x: tt.nn.functional.dropout(x * 2, 0.5) + 1  # noqa: E731
    x = drawn(5, 8, device="cuda")
    tt.manual_seed(1)
    expected, after = f(x), tt.rand(1, device="cuda")
    tt.manual_seed(1)
    same(tt.compile(f, fullgraph=True, mode="max-autotune-no-cudagraphs")(x), expected)
    same(tt.rand(1, device="cuda"), after)
    assert not watch.runs


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_nothing_is_timed_where_times_say_nothing(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    def refused(device: Any) -> Any:
        raise AssertionError("something is timed")

    monkeypatch.setattr(tuning, "timer_for", refused)
    if device == "cuda" and tuning.why_untimed(tt.device("cuda")) is None:
        pytest.skip("a GPU is timed")
    compiled = tt.compile(chain, fullgraph=True, mode="max-autotune")
    for call in range(3):
        x, y = drawn(4, 3, device=device, seed=call), drawn(4, 3, device=device)
        same(compiled(x, y), chain(x, y))
    found = tt.compiler.explain(compiled, x, y)
    assert "nothing is timed, since" in found.tuning and found.tuning in str(found)
    assert tt.compiler.explain(chain, x, y).tuning == ""
