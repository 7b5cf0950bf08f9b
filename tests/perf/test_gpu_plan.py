"""The plan of a GPU's first 30 minutes: its tasks, their budgets, and a rehearsal of all of them."""

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.perf import __main__ as perf
from triten.perf.gpu import plan, variants
from triten.runtime.cuda.occupancy import KNOWN
from triten.triton_kernels import launch
from triten.triton_kernels.tuning.measurement import Times
from triten.triton_kernels.tuning.table import read_table

BUDGETS = {"A": 4, "B": 7, "C": 8, "D": 8}
"""Minutes of each part."""


def options(folder: Path, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    plan.add_arguments(parser)
    return parser.parse_args(["--rehearse", "--folder", str(folder), *arguments])


def in_process(command, environment, seconds, log):
    """Run a command of the plan in this process, as the plan's process would."""
    arguments = list(command)[list(command).index("triten.perf") + 1 :]
    before, sys.argv = sys.argv, ["triten.perf", *arguments]
    try:
        with log.open("w") as file, contextlib.redirect_stdout(file):
            return perf.main()
    finally:
        sys.argv = before


@pytest.mark.parametrize("flushes", [(), ("read", "memset", "none")])
def test_each_part_keeps_its_budget_and_each_command_is_valid(flushes, tmp_path):
    found = plan.tasks(tmp_path, 90, flushes, rehearse=False)
    assert {task.part for task in found} == BUDGETS.keys()
    for part, minutes in BUDGETS.items():
        assert sum(task.seconds for task in found if task.part == part) <= 60 * minutes
    assert sum(task.name.startswith("flush") for task in found) == len(flushes)
    assert "--seconds 20.0" in " ".join(plan.with_budget(("gpu", "--seconds", "40"), 0.5))
    for task in plan.tasks(tmp_path, 90, (), rehearse=False):
        if task.command[0] in perf.MEASUREMENTS:
            parser = argparse.ArgumentParser()
            module = __import__(
                f"triten.perf{perf.MEASUREMENTS[task.command[0]][0]}", fromlist=["add_arguments"]
            )
            module.add_arguments(parser)
            assert parser.parse_args(task.command[1:]).seconds == task.seconds
    assert 90 in KNOWN and plan.precompilation(90, 12080)[3] == "90"


def test_the_whole_plan_is_rehearsed(tmp_path, capsys):
    """Check that each task runs, writes its file and is recorded, but for the check, which has its own rehearsal."""
    assert plan.run(options(tmp_path, "--tasks", "^(batch_norm|tune|tuned|variants|new)$"), in_process) == 0
    report = json.loads((tmp_path / "plan.json").read_text())
    assert [(each["part"], each["name"], each["status"]) for each in report["tasks"]] == [
        ("A", "batch_norm", "done"), ("B", "tune", "done"), ("B", "tuned", "done"), ("C", "variants", "done"),
        ("D", "new", "done"),
    ]  # fmt: skip
    assert report["rehearsal"] and report["commit"] and report["versions"]["triton"]
    for name in ("batch_norm", "tuned", "new"):
        section = json.loads((tmp_path / f"{name}.json").read_text())["bench"]
        assert section["complete"] and [row["verdict"] for row in section["rows"]] == ["rehearsed"] * len(
            section["rows"]
        )
    found = json.loads((tmp_path / "variants.json").read_text())
    assert (found["rows"], found["errors"]) == (1, {})
    assert "default" in {variant["result"] for variant in found["variants"]}
    assert {variant["question"] for variant in found["variants"]} >= set(variants.SWITCHES)
    table = next(tmp_path.glob("sm_*[0-9].json"), None)
    assert table is not None and isinstance(read_table(table), list)
    assert "a rehearsal" in (tmp_path / "variants.log").read_text()
    assert "D new: done" in capsys.readouterr().out


def test_a_task_that_fails_or_hangs_costs_only_itself(tmp_path):
    statuses = iter((0, 3, None))

    def run_command(command, environment, seconds, log):
        assert seconds > 0
        return next(statuses)

    assert plan.run(options(tmp_path, "--tasks", "^(batch_norm|tuned|new)$"), run_command) == 1
    report = json.loads((tmp_path / "plan.json").read_text())
    assert [each["status"] for each in report["tasks"]] == ["done", "failed", "timed out"]


def test_a_process_that_hangs_is_ended(tmp_path):
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    assert plan.run_process(command, {}, 1.0, tmp_path / "log") is None
    assert plan.run_process([sys.executable, "-c", "raise SystemExit(3)"], {}, 500.0, tmp_path / "log") == 3


def test_a_variant_is_ahead_by_more_than_3_percent_and_the_spread():
    steady, noisy = Times((100.0,) * 5), Times((80.0, 90.0, 96.0, 110.0, 120.0))
    named = [("default", steady), ("better", Times((96.0,) * 5)), ("same", Times((97.5,) * 5)), ("noisy", noisy),
             ("worse", Times((104.0,) * 5))]  # fmt: skip
    found = variants.judged("row", "kernel", named)
    assert [each.result for each in found] == [
        "default", "ahead", "within the noise", "within the noise", "behind",
    ]  # fmt: skip
    text = variants.text_of(found)
    assert "better" in text and "noisy" not in text
    assert "no variant is ahead" in variants.text_of(found[:1])


def test_the_switch_of_dependent_launch_is_put_back():
    before = launch.MIN_CAPABILITY
    with variants.without_dependent_launch():
        assert before == 90 < launch.MIN_CAPABILITY
    assert before == launch.MIN_CAPABILITY


def test_rows_come_in_the_order_of_the_families():
    names = [f"{row.group}: {row.name}" for row in variants.rows_of("", 1)]
    assert len(names) == len(set(names)) > 200
    assert names[0].startswith("softmax: softmax 4096x16384")
    assert names.index("attention: attention 2048, head 64") < names.index(
        "attention: attention 2048, head 128"
    )
    with contextlib.redirect_stderr(io.StringIO()):
        assert (
            variants.run(argparse.Namespace(rows="^nothing$", seconds=None, output=None, rehearse=True)) == 2
        )


def test_the_plan_and_the_variants_are_commands_of_gpu_too(monkeypatch, capsys):
    for name in ("plan", "variants"):
        monkeypatch.setattr(sys, "argv", ["triten.perf", "gpu", name, "--help"])
        with pytest.raises(SystemExit) as ended:
            perf.main()
        assert ended.value.code == 0
        assert "--rehearse" in capsys.readouterr().out
