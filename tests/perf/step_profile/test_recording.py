"""`tt.perf.profile_step` and `python -m triten.perf profile SCRIPT --step FILE` record one training step."""

import json
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.planning import host_time
from triten.perf.step_profile.page_record import profile_records

SCRIPT = """
import sys
import triten as tt

model = tt.nn.Linear(4, 2)
optimizer = tt.optim.SGD(model.parameters(), lr=0.1)


def step(number):
    optimizer.zero_grad()
    model(tt.ones(8, 4)).square().mean().backward()
    optimizer.step()
    print("step", number)


for number in range(int(sys.argv[1])):
    step(number)
print("done")
"""


def test_a_step_is_recorded_with_its_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("call_seconds", 2e-6), ("launch_seconds", 3e-6), ("backward_node_seconds", 1e-6)):
        monkeypatch.setattr(host_time, name, lambda *_, seconds=seconds: seconds)
    model = tt.nn.Linear(16, 8)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    calls = []

    def step(model: tt.nn.Module, optimizer: tt.optim.Optimizer, x: tt.Tensor) -> None:
        calls.append(x.device.type)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    found = tt.perf.profile_step(step, model, optimizer, tt.ones(32, 16), warmup=1, predict="h200")
    assert calls.count("cpu") == 1 + 5 + 3 * 2 and calls.count("meta") == 1
    assert found.plan is not None and found.plan.device == "h200" and found.seconds > 0
    path = tmp_path / "step.json"
    found.save(path)
    (record,) = profile_records([path])
    rows = {row["name"]: row for row in record["operators"]}
    for name, calls_of_one_step in (("aten::addmm", 1), ("aten::mm", 1), ("aten::mean", 1)):
        assert rows[name]["calls"] == calls_of_one_step == rows[name]["predicted_calls"]
    (memory,) = record["memory"]
    gradients = [
        site for site in memory["sites"] if site["name"].startswith("aten::mm, step (test_recording.py")
    ]
    assert [site["most"] for site in gradients] == [8 * 16 * 4]
    # The plan counts the gradient of the loss, a scalar that triten allocates once for all steps.
    assert memory["peak"] == found.plan.peak_bytes - found.plan.given_bytes - 4
    assert "predicted us" in str(found)
    assert json.loads(path.read_text())["traceEvents"], "Perfetto reads this list"


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"warmup": -1}])
def test_numbers_of_steps_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected steps >= 1 and warmup >= 0"):
        tt.perf.profile_step(lambda: None, **wrong)


def perf(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["perf", *arguments])
    return command.main()


def test_a_step_of_an_unchanged_script_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, trace = tmp_path / "train.py", tmp_path / "step.json"
    script.write_text(SCRIPT)
    assert perf(monkeypatch, "profile", "--step", str(trace), "--after", "2", str(script), "100") == 0
    said = capsys.readouterr().out
    assert "step 3" in said and "step 4" not in said and "done" not in said
    assert "aten::addmm" in said and "without it" in said
    (record,) = profile_records([trace])
    rows = {row["name"]: row["calls"] for row in record["operators"]}
    assert rows["aten::addmm"] == rows["aten::_fused_sgd_"] == 1
    assert {"<module> (train.py:17)", "ProfilerStep"} < set(record["flame"]["names"])
    page = tmp_path / "step.html"
    assert perf(monkeypatch, "report", "--profile", str(trace), "-o", str(page)) == 0
    assert "Profile of a training step" in page.read_text()


def test_a_script_with_too_few_steps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, trace = tmp_path / "train.py", tmp_path / "step.json"
    script.write_text(SCRIPT)
    assert perf(monkeypatch, "profile", "--step", str(trace), str(script), "5") == 2
    assert "made 5 optimizer steps, and --after 3 needs 6" in capsys.readouterr().err
    assert not trace.exists()
    with tt.profiler.profile():  # the recording that began has ended
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--after", "0"], "--after must be at least 1"),
        (["-o", "samples.json"], "-o is the file of the samples"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    arguments = ["profile", "--step", str(tmp_path / "step.json"), *options, str(script)]
    assert perf(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err
