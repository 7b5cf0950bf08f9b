"""Planted change points are found at their commits; noise alone and two runs of one commit make none."""

import json
import math
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from triten.perf import __main__ as command
from triten.perf.history import History
from triten.perf.history.change_points import energy_statistics, find_change_points
from triten.perf.history.changes import branch_commits, find_changes
from triten.perf.history.series import last_comparable, read_series
from triten.perf.refusal import RefusalError
from triten.perf.result_file import ROOT
from triten.tests.perf.history.stored_runs import NOISE, a_history, a_result, commit, noisy

HISTORIES = 20
LENGTH = 40


def drawn(seed: int, shift: float, spikes: float = 0.0) -> tuple[int, list[float]]:
    """Return the position of a shift, and a series of lognormal noise with this shift and rare spikes."""
    generator = random.Random(seed)
    position = generator.randrange(8, LENGTH - 8)
    values = [
        math.exp(generator.gauss(0, NOISE))
        * (shift if index >= position else 1.0)
        * (3.0 if generator.random() < spikes else 1.0)
        for index in range(LENGTH)
    ]
    return position, values


@pytest.mark.parametrize("shift", [1.05, 1 / 1.05])
def test_shifts_of_5_percent_are_found_in_noise_of_2_percent(shift: float) -> None:
    found = 0
    for seed in range(HISTORIES):
        position, values = drawn(seed, shift)
        found += any(
            point.first <= position <= point.last and (point.ratio > 1) == (shift > 1)
            for point in find_change_points(values)
        )
    assert found >= 18


@pytest.mark.parametrize("spikes", [0.0, 0.03])
def test_quiet_series_have_no_change_point(spikes: float) -> None:
    alarms = sum(bool(find_change_points(drawn(100 + seed, 1.0, spikes)[1])) for seed in range(HISTORIES))
    assert alarms <= 1


def test_one_spike_neither_makes_nor_hides_a_change_point() -> None:
    position, values = drawn(3, 1.1)
    quiet = [value / (1.1 if index >= position else 1.0) for index, value in enumerate(values)]
    for place in (4, LENGTH - 1):
        spiked = [3.0 * value if index == place else value for index, value in enumerate(quiet)]
        assert find_change_points(spiked) == []
    values[position - 4] *= 3.0
    [found] = find_change_points(values)
    assert found.first <= position <= found.last
    assert found.ratio == pytest.approx(1.1, rel=0.03)


def test_a_slowdown_that_is_fixed_later_is_two_change_points() -> None:
    generator = random.Random(1)
    values = [(1.1 if 12 <= index < 26 else 1.0) * math.exp(generator.gauss(0, NOISE)) for index in range(40)]
    worse, better = find_change_points(values)
    assert (worse.index, better.index) == (12, 26)
    assert worse.ratio == pytest.approx(1.1, rel=0.02)
    assert better.ratio == pytest.approx(1 / 1.1, rel=0.02)


def test_the_level_of_many_series_is_corrected() -> None:
    _, values = drawn(0, 1.05)
    [alone] = find_change_points(values)
    [among] = find_change_points(values, series=10)
    assert alone.index == among.index
    assert among.p_value == pytest.approx(10 * alone.p_value)


def test_small_shifts_are_left_out_and_a_spread_alone_is_no_shift() -> None:
    steady = [1.0, 1.0001] * 10 + [1.005, 1.0051] * 10
    assert len(find_change_points(steady, least_shift=0.001)) == 1
    assert find_change_points(steady) == []
    generator = random.Random(2)
    wider = [math.exp(generator.gauss(0, 0.005 if index < 20 else 0.08)) for index in range(40)]
    assert find_change_points(wider) == []


def test_no_change_point_lies_between_runs_of_one_commit() -> None:
    values = [1.0] * 6 + [2.0] * 6
    assert find_change_points(values, ["a"] * 12) == []
    [found] = find_change_points(values, ["a"] * 7 + ["b"] * 5)
    assert found.index == 7


def test_the_energy_statistic_is_the_one_of_the_paper() -> None:
    values = [0.1, 0.5, 0.2, 0.9, 1.4, 1.1, 0.8]
    left, right = values[:3], values[3:]
    m, n = len(left), len(right)
    between = 2 / (m * n) * sum(abs(x - y) for x in left for y in right)
    within = [
        sum(abs(x - y) for i, x in enumerate(side) for y in side[:i]) / math.comb(len(side), 2)
        for side in (left, right)
    ]
    expected = m * n / (m + n) * (between - sum(within))
    assert energy_statistics(np.array(values))[3] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "groups", "message"),
    [
        ([1.0, 0.0], None, "positive"),
        ([1.0, math.nan], None, "positive"),
        ([1.0], ["a", "b"], "as many elements"),
    ],
)
def test_values_are_checked(values: list[float], groups: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_change_points(values, groups)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of 30 commits: `a` is slower from commit 18 on, `c` is new, a dirty run is slow."""
    generator = random.Random(7)
    results = []
    for number in range(30):
        rows = {"a": noisy(generator, 1.1 if number >= 18 else 1.0), "b": noisy(generator, 1.0)}
        if number >= 25:
            rows["c"] = noisy(generator, 1.0)
        results.append(a_result(number, rows))
    results.append(a_result(5, {"a": [9.0] * 7, "b": [9.0] * 7}, day=1, dirty=True))
    results[20].versions["numpy"] = results[17].versions["numpy"] = "2.4"
    return a_history(tmp_path / "h.sqlite", results)


def test_a_change_names_its_commits(store: Path) -> None:
    with History(store) as history:
        series = read_series(history)
        [found] = find_changes(series)
    assert [(each.key.row.name, len(each.points)) for each in series] == [("a", 30), ("b", 30), ("c", 5)]
    assert (found.key.row.name, found.shift.index) == ("a", 18)
    assert found.commits == f"{found.good.commit}..{found.bad.commit}"
    assert int(found.good.commit, 16) < 18 <= int(found.bad.commit, 16)


def test_the_command_prints_changes(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["perf", "history", "changes", "--history", str(store), *arguments])
        return command.main(), capsys.readouterr().out

    status, said = called()
    assert status == 0
    assert "overhead: a 64x64 float32" in said
    assert "slower (noise" in said
    assert "1 change points in 2 series of at least 6 runs" in said
    assert called("--fail")[0] == 1
    assert called("--rows", "b 64", "--fail")[0] == 0
    [found] = json.loads(called("--output", "json", "--relative-to", "torch")[1])["changes"]
    assert (found["name"], found["points"]) == ("a", 30)
    assert found["ratio"] == pytest.approx(1.1, rel=0.03)
    assert called("--significance", "2")[0] == 2
    assert called("--machine", "another")[1].startswith("0 change points in 0 series")


def test_commits_of_a_branch_give_the_order(store: Path) -> None:
    with History(store) as history:
        [series] = read_series(history, rows=re.compile("a 64"), commits=[commit(3), commit(1)])
    assert [point.run.commit for point in series.points] == [commit(3), commit(1)]
    head = branch_commits("HEAD")
    assert len(head[-1]) == 40 or not (ROOT / ".git").exists()
    with pytest.raises(RefusalError, match="is no branch or commit"):
        branch_commits("no-such-branch")


def test_a_baseline_is_the_last_run_of_another_commit_on_the_same_machine(store: Path) -> None:
    new = a_result(29, {"a": [1.0]}, day=2)
    with History(store) as history:
        found = [run.commit for run, _ in last_comparable(history, new)]
        assert found[0] == commit(28)
        assert commit(29) not in found
        new.machine = {**new.machine, "processor": "another"}
        assert list(last_comparable(history, new)) == []
