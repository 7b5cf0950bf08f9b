"""`autotune` from end to end: a fake timer, real operators in the interpreter, and the next launch."""

import warnings

import numpy as np
import pytest

import triten as tt
from triten.tests.shared.operands import SGD
from triten.triton_kernels.optimizers import fused
from triten.triton_kernels.tuning import choice
from triten.triton_kernels.tuning.autotune import tune as tune_by
from triten.triton_kernels.tuning.timer import EventTimer

CANDIDATES = [((512,), 4), ((1024,), 8), ((1024,), 4)]
"""Of fused_sgd in float32, the default first."""


@pytest.fixture
def launched(monkeypatch):
    """Record the configurations of planned launches, the last one last; the kernels choose as on a GPU."""
    made = []
    launch = fused.Launch

    def noted(device, kernel, signature, constexprs, **options):
        found = launch(device, kernel, signature, constexprs, **options)
        shape = ((constexprs["BLOCK"],), options["num_warps"])
        if shape in broken:
            raise RuntimeError("out of resource: shared memory")

        def call(*values):
            made.append(shape)
            found(*values)
            if shape in wrong:
                wrong[shape](*values)

        return call

    broken, wrong = set(), {}
    noted.broken, noted.wrong = broken, wrong
    monkeypatch.setattr(fused, "Launch", noted)
    monkeypatch.setattr(fused, "interpreted", lambda: False)
    choice.make_plans_anew()
    made_with = made
    yield made_with, noted
    choice.make_plans_anew()


def tune(run, arguments, timer, turns=2, runs=2):
    """Run `autotune` with fewer runs, since the times of a fake timer are all alike."""
    return tune_by(run, arguments, timer, turns, runs)


class FakeTimer:
    """Timer that returns the time of the last launched configuration."""

    def __init__(self, launched, times):
        self.launched, self.times, self.runs = launched, times, 0

    def __call__(self, device):
        assert device.type == "cuda"
        return self

    def microseconds(self, work):
        work()
        self.runs += 1
        return self.times[self.launched[-1]]


def step(sizes=(3, 700), dtype=None):
    """Return parameters and gradients, and a step over them."""
    p = [tt.ones(size, device="cuda", dtype=dtype) for size in sizes]
    g = [tt.full((size,), 2.0, device="cuda", dtype=dtype) for size in sizes]
    return p, g, lambda p, g: tt._fused_sgd_(p, g, [], **SGD)


@pytest.mark.parametrize("fastest", CANDIDATES, ids=str)
def test_the_fastest_candidate_is_launched_from_then_on(launched, store, fastest):
    made, _ = launched
    p, g, run = step()
    run(p, g)
    assert made[-1] == CANDIDATES[0]
    times = {each: 5.0 if each == fastest else 10.0 for each in CANDIDATES}
    report = tune(lambda: run(p, g), (p, g), FakeTimer(made, times))
    (finding,) = report.findings
    assert (finding.chosen.tile, finding.chosen.warps) == fastest
    assert finding.question.dtype == "fp32"
    run(p, g)
    assert made[-1] == fastest
    # Another class of shapes is another question.
    other = step((100_000,))
    other[2](*other[:2])
    assert made[-1] == CANDIDATES[0]
    # A process that starts later has only the disk.
    choice.forget()
    choice.make_plans_anew()
    run(p, g)
    assert made[-1] == fastest
    (path,) = store.directory.rglob("*.json")
    assert "Triton_interpreter-sm_90" in path.parts


def test_what_is_not_remembered_holds_for_the_process(launched, store, monkeypatch):
    made, _ = launched
    monkeypatch.setenv("TRITEN_TUNING_STORE", "0")
    p, g, run = step()
    times = dict(zip(CANDIDATES, (10.0, 10.0, 1.0), strict=True))
    tune(lambda: run(p, g), (p, g), FakeTimer(made, times))
    run(p, g)
    assert made[-1] == CANDIDATES[2]
    assert not store.directory.exists()
    choice.forget()
    choice.make_plans_anew()
    run(p, g)
    assert made[-1] == CANDIDATES[0]


def test_nothing_is_timed_outside_of_autotune(launched, monkeypatch):
    made, _ = launched
    monkeypatch.setattr(EventTimer, "microseconds", lambda *_: pytest.fail("timed"))
    p, g, run = step()
    for _ in range(3):
        run(p, g)
    assert set(made) == {CANDIDATES[0]}
    assert len(made) == 3


def test_a_gain_within_the_noise_changes_nothing(launched):
    made, _ = launched
    p, g, run = step()
    times = dict(zip(CANDIDATES, (10.0, 9.9, 10.5), strict=True))
    report = tune(lambda: run(p, g), (p, g), FakeTimer(made, times))
    assert report.findings[0].chosen.tile == (512,)
    run(p, g)
    assert made[-1] == CANDIDATES[0]


def test_arguments_that_are_written_to_are_restored(launched):
    made, _ = launched
    p, g, run = step()
    versions = [t._version for t in g]
    tune(lambda: run(p, g), (p, g), FakeTimer(made, dict.fromkeys(CANDIDATES, 1.0)))
    assert all(t.tolist() == [1.0] * t.numel() for t in p)
    assert all(t.tolist() == [2.0] * t.numel() for t in g)
    assert [t._version for t in g] == versions


def test_other_effects_are_refused_and_arguments_restored(launched):
    made, _ = launched
    p, g, run = step()
    with pytest.raises(
        RuntimeError, match="autotune: the function gives another result when it is run again"
    ):
        tune(lambda: (run(p, g), p[0].clone())[1], (), FakeTimer(made, {}))
    total = []
    with pytest.raises(RuntimeError, match="2 results instead of 1"):
        tune(lambda: total.append(1) or [tt.ones(1)] * len(total), (), FakeTimer(made, {}))

    def failing(x):
        x.add_(1)
        raise KeyError("mine")

    x = tt.zeros(2)
    with pytest.raises(KeyError, match="mine"):
        tune(lambda: failing(x), (x,), FakeTimer(made, {}))
    assert x.tolist() == [0.0, 0.0]


def test_random_numbers_are_the_same_in_each_run(launched):
    made, _ = launched
    p, g, run = step((64,))

    def noisy():
        g[0].normal_()
        run(p, g)
        return tt.rand(3), tt.rand(3, device="cuda")

    tt.manual_seed(3)
    expected = (tt.rand(3).tolist(), tt.rand(3).tolist())
    tt.manual_seed(3)
    first = tt.rand(3).tolist()
    report = tune(noisy, (p, g), FakeTimer(made, dict.fromkeys(CANDIDATES, 1.0)))
    assert len(report.findings) == 1
    assert (first, tt.rand(3).tolist()) == expected


def test_candidates_that_fail_are_skipped_with_the_reason(launched):
    made, noted = launched
    noted.broken.add(CANDIDATES[1])
    p, g, run = step()
    times = dict(zip(CANDIDATES, (10.0, 1.0, 5.0), strict=True))
    with pytest.warns(RuntimeWarning, match="1024 w8 s3 is skipped: RuntimeError: out of resource"):
        report = tune(lambda: run(p, g), (p, g), FakeTimer(made, times))
    (finding,) = report.findings
    assert (finding.chosen.tile, finding.chosen.warps) == CANDIDATES[2]
    assert [(c.tile, c.warps) for c in finding.skipped] == [CANDIDATES[1]]
    assert "skipped: RuntimeError: out of resource" in str(report)


def test_a_candidate_whose_results_are_wrong_cannot_win(launched):
    made, noted = launched
    p, g, run = step()
    noted.wrong[CANDIDATES[2]] = lambda *_: p[1].mul_(1.001)
    times = dict(zip(CANDIDATES, (10.0, 9.0, 1.0), strict=True))
    with pytest.warns(RuntimeWarning, match="1024 w4 s3 is skipped: 700 elements|of 700 elements differ"):
        report = tune(lambda: run(p, g), (p, g), FakeTimer(made, times))
    assert (report.findings[0].chosen.tile, report.findings[0].chosen.warps) == CANDIDATES[1]


def test_each_kernel_is_asked_about_once_and_tuned_on_its_own(launched):
    made, _ = launched
    one, two = step((3,)), step((5,), tt.bfloat16)

    def both():
        for p, g, run in (one, two, one):
            run(p, g)

    times = dict.fromkeys([*CANDIDATES, ((2048,), 8)], 10.0) | {((1024,), 4): 8.0, ((1024,), 8): 9.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = tune(both, (one[:2], two[:2]), FakeTimer(made, times))
    assert [(f.question.dtype, f.chosen.tile, f.chosen.warps) for f in report.findings] == [
        ("fp32", (1024,), 4),
        ("bf16", (1024,), 4),
    ]


def test_the_report_can_be_printed(launched):
    made, _ = launched
    p, g, run = step()
    timer = FakeTimer(made, dict(zip(CANDIDATES, (10.0, 20.0, 5.0), strict=True)))
    text = str(tune(lambda: run(p, g), (p, g), timer, turns=2, runs=3))
    assert text.splitlines()[0] == "fused_sgd fp32 at 724 2 on cuda:0"
    assert "512 w4 s3                     10.00 us +- 0.00 (6 runs) default" in text
    assert "1024 w8 s3                    20.00 us +- 0.00 (3 runs)" in text
    assert "1024 w4 s3                     5.00 us +- 0.00 (6 runs) chosen" in text
    assert str(tune(lambda: tt.ones(2) + 1, (), timer)) == "no launch had a choice of configurations"


def test_what_autotune_refuses(launched):
    made, _ = launched
    with pytest.raises(RuntimeError, match="TRITEN_CUDA asks for simulated devices"):
        tt.triton_kernels.autotune(tt.add, tt.ones(2), tt.ones(2))
    timer = FakeTimer(made, {})
    with pytest.raises(RuntimeError, match="autotune: another autotune is running"):
        tune(lambda: tune(lambda: None, (), timer), (), timer)
    x = tt.ones(3, device="cuda")
    x = x + 1
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        x + 1
        with pytest.raises(RuntimeError, match="autotune: a graph is being captured"):
            tune(lambda: x + 1, (), timer)
    with (
        tt.profiler.profile(activities=[tt.profiler.ProfilerActivity.CPU]),
        pytest.raises(RuntimeError, match="autotune: a profiler is running"),
    ):
        tune(lambda: x + 1, (), timer)
    assert str(tune(lambda: x + 1, (), timer)) == "no launch had a choice of configurations"


def test_without_a_device(monkeypatch):
    monkeypatch.setattr("triten.runtime.cuda.driver.is_available", lambda: False)
    with pytest.raises(RuntimeError, match="autotune: there is no CUDA device to time on"):
        tt.triton_kernels.autotune(tt.add, tt.ones(2), tt.ones(2))


def test_events_time_what_runs_after_the_flush(monkeypatch):
    """Check that events record a time and that the flush runs; in the interpreter the time itself has no
    meaning.
    """
    monkeypatch.setattr("triten.triton_kernels.tuning.timer.FLUSH_BYTES", 1 << 10)
    x = tt.ones(10, device="cuda")
    timer = EventTimer(x.device)
    assert timer._flush.how == "read"
    assert timer._flush.nbytes >= 2 * tt.cuda.get_device_properties(0).L2_cache_size > 0
    flushed = []
    flush = timer._flush
    monkeypatch.setattr(timer, "_flush", lambda: (flushed.append(True), flush()))
    seen = []
    assert timer.microseconds(lambda: seen.append((len(flushed), (x + 1).sum()))) > 0
    assert seen[0][0] == 1
    np.testing.assert_allclose(seen[0][1].item(), 20.0)
