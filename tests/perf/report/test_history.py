"""The history compares what each pair of runs has in common, and tells changes from noise."""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from triten.perf.report.changes import changes, noise
from triten.perf.report.data import report_data
from triten.perf.report.linking import linked_means, renames
from triten.perf.report.page import format_page
from triten.perf.report.runs import Run, read_history, run_of
from triten.perf.report.trends import is_partial
from triten.perf.step_profile.page_record import profile_records


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


synthetic_history = _load("synthetic_history")
LARGEST_PAGE = 1_500_000


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found: list[Path] = synthetic_history.write_history(tmp_path_factory.mktemp("history"))
    return found


@pytest.fixture(scope="module")
def data(paths: list[Path]) -> dict[str, Any]:
    return report_data(paths)


def suite_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in data["suites"] if each["suite"] == name]
    return dict(found)


def named(data: Mapping[str, Any], verdict: str) -> set[str]:
    return {data["rows"][each["row"]]["label"] for each in data["changes"] if each["verdict"] == verdict}


def test_partial_runs_leave_a_gap_in_the_suites_that_they_lack_and_nothing_else(data: dict[str, Any]) -> None:
    norms = suite_of(data, "norms")
    assert [run for run, each in enumerate(norms["history"]) if each is None] == [7, 18]
    cubes = suite_of(data, "matmul, cubes")
    assert all(each is not None and each["count"] == 8 for each in cubes["history"])
    totals = [each["means"].get("torch") if each else None for each in data["totals"]["history"]]
    assert [run for run, mean in enumerate(totals) if mean is None] == [7, 18]


def test_a_new_suite_begins_and_leaves_the_others_alone(data: dict[str, Any]) -> None:
    attention = suite_of(data, "attention")
    assert all(each is None for each in attention["history"][:12])
    assert all(each is not None for run, each in enumerate(attention["history"][12:], 12) if run != 18)
    before, after = (data["totals"]["history"][run]["means"]["torch"] for run in (11, 12))
    assert after == pytest.approx(before, rel=0.01), "a new suite is no change of the others"


def test_a_halved_time_doubles_the_speed_of_its_suite(data: dict[str, Any]) -> None:
    means = {
        run: each["means"]["torch"] for run, each in enumerate(suite_of(data, "norms")["history"]) if each
    }
    assert means[14] / means[15] == pytest.approx(2, rel=0.02)
    assert means[29] == pytest.approx(suite_of(data, "norms")["means"]["torch"]["mean"])


def test_renamed_benchmarks_keep_their_history(data: dict[str, Any]) -> None:
    softmax = [row for row in data["rows"] if row["suite"] == "softmax"]
    assert len(softmax) == 8 and not any(row["suite"] == "old softmax" for row in data["rows"])
    for row in softmax:
        assert row["renamed_from"] == [row["label"].replace("softmax: ", "old softmax: ", 1)]
        assert [run for run, point in enumerate(row["history"]) if point is None] == [7, 18]
    assert all(
        each is not None
        for run, each in enumerate(suite_of(data, "softmax")["history"])
        if run not in (7, 18)
    )


def test_a_benchmark_whose_baseline_takes_another_time_is_not_a_rename(
    paths: list[Path], tmp_path: Path
) -> None:
    runs = [run_of(*each) for each in read_history(paths[9:11])]
    assert len(renames(runs)) == 8
    content = json.loads(paths[9].read_text())
    for row in content["rows"]:
        row["samples"]["torch"] = [2 * sample for sample in row["samples"].get("torch", [])] or row[
            "samples"
        ]["triten"]
    changed = tmp_path / "before.json"
    changed.write_text(json.dumps(content))
    runs[0] = run_of(changed, read_history([changed])[0][1])
    assert renames(runs) == {}


def test_the_changes_of_the_last_run_are_those_that_were_planted(data: dict[str, Any]) -> None:
    assert named(data, "slower") == {
        row["label"] for row in data["rows"] if row["operator"].startswith("argmax")
    }
    assert named(data, "faster") == set()
    slower = [each for each in data["changes"] if each["verdict"] == "slower"]
    assert len(slower) == 2
    assert all(each["low"] <= synthetic_history.SLOWER <= each["high"] for each in slower)
    assert all(each["regression"] and each["base_file"] == 28 for each in slower)


@pytest.mark.parametrize("seed", range(4))
def test_noise_alone_changes_nothing(tmp_path: Path, seed: int) -> None:
    paths = synthetic_history.write_history(tmp_path, runs=12, seed=seed)
    data = report_data(paths[:-1])
    assert named(data, "slower") | named(data, "faster") == set()
    assert "no benchmark of 134 changed beyond the noise" in data["summary"]["sentences"][1]
    assert all(each["trend"]["torch"]["direction"] == "flat" for each in data["suites"] if each["means"])


def test_two_runs_of_one_commit_are_never_faster_or_slower(paths: list[Path], tmp_path: Path) -> None:
    repeat = synthetic_history.write_repeat(
        paths[-2], tmp_path / "repeat.json", started="2026-12-01T00:00:00+00:00"
    )
    data = report_data([paths[-2], repeat])
    assert [file["repeat"] for file in data["files"]] == [False, True]
    assert len(data["changes"]) == 134 and {each["verdict"] for each in data["changes"]} == {"no change"}
    (relu,) = [
        each for each in data["changes"] if data["rows"][each["row"]]["label"].endswith("relu float32")
    ]
    assert relu["ratio"] == pytest.approx(0.95)
    assert "the code is the same: every difference is noise" in data["summary"]["sentences"][1]


def test_two_commits_that_differ_by_the_same_noise_are_not_told_apart(
    paths: list[Path], tmp_path: Path
) -> None:
    other = {"hash": "f" * 40, "time": "2026-11-30T00:00:00+00:00", "dirty": False}
    data = report_data(
        [paths[-2], synthetic_history.write_repeat(paths[-2], tmp_path / "next.json", commit=other)]
    )
    assert named(data, "slower") | named(data, "faster") == set()


def test_the_noise_of_a_benchmark_is_that_of_its_history(paths: list[Path]) -> None:
    runs = [run_of(*each) for each in read_history(paths)]
    own = [{key: key for key in run.benchmarks} for run in runs]
    keys = {key: 28 for key in runs[-1].benchmarks if key.suite == "conv2d, ResNet-50"}
    found = noise(runs, own, keys)
    assert all(value == pytest.approx(synthetic_history.NOISE, rel=0.6) for value in found.values())


def test_runs_of_other_machines_are_not_compared(paths: list[Path]) -> None:
    runs: list[Run] = [run_of(*each) for each in read_history(paths[-2:])]
    runs[0] = replace(runs[0], machine={**runs[0].machine, "gpu": "NVIDIA B200"})
    assert changes(runs, [{key: key for key in run.benchmarks} for run in runs]) == []


def test_linked_means_recover_the_speed_of_runs_with_different_benchmarks() -> None:
    benchmarks = {"a": 0.5, "b": 2.0, "c": 8.0, "d": 1.0}
    speeds = [1.0, 1.5, 0.7, 1.2]
    held = ["abcd", "ab", "bc", "cd"]
    values = [
        {key: benchmarks[key] * speed for key in keys} for keys, speed in zip(held, speeds, strict=True)
    ]
    means = linked_means(values, "abcd")
    level = (0.5 * 2.0 * 8.0 * 1.0) ** (1 / 4)
    assert means == pytest.approx([level * speed for speed in speeds])
    assert linked_means([{"a": 3.0}, {}, {"b": 2.0}]) == [None, None, pytest.approx(2.0)]
    assert linked_means([{}]) == [None]


def test_a_group_that_grows_or_shrinks_has_no_partial_runs() -> None:
    for counts, partial in [
        ([5, 5, 20, 20], []),
        ([20, 20, 5, 5], []),
        ([20, 1, 20], [1]),
        ([20, 20, 2], [2]),
    ]:
        assert [run for run in range(len(counts)) if is_partial(counts, run)] == partial


def test_the_last_run_may_be_partial(paths: list[Path], tmp_path: Path) -> None:
    content = json.loads(paths[-1].read_text())
    content["rows"] = [row for row in content["rows"] if row["suite"] == "reductions"]
    partial = tmp_path / "partial.json"
    partial.write_text(json.dumps(content))
    data = report_data([*paths[-6:-1], partial])
    assert data["totals"]["rows"] == 134
    assert len(data["changes"]) == 16
    assert suite_of(data, "norms")["history"][-2]["count"] == 16


def test_dropped_benchmarks_leave_the_totals(paths: list[Path], tmp_path: Path) -> None:
    content = json.loads(paths[-1].read_text())
    content["rows"] = [row for row in content["rows"] if not row["operator"].startswith("argmax")]
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(content))
    data = report_data([*paths[-3:-1], kept])
    assert data["totals"]["rows"] == 132
    assert sum(not row["current"] for row in data["rows"]) == 2


def test_thirty_runs_and_a_long_profile_make_a_small_page(data: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    spans = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"aten::operator_{step % 97}",
            "pid": 1,
            "tid": 1,
            "ts": 50.5 * step,
            "dur": 40.25 + step % 11,
            "args": {"Call stack": f"/home/user/model_{step % 50}.py({step}): forward"},
        }
        for step in range(20_000)
    ]
    path.write_text(json.dumps({"traceEvents": spans}))
    page = format_page(data | {"profiles": profile_records([path])})
    assert len(page.encode()) < LARGEST_PAGE
