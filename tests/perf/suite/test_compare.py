"""Comparisons detect differences and no others, and measure two commits alternately."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from triten.perf import __main__ as command
from triten.perf.suite import git_runs
from triten.perf.suite.compare import FASTER, SAME, SLOWER, UNKNOWN, compare_results
from triten.perf.suite.git_runs import GitError, checked_out, measure_commits
from triten.perf.suite.merging import merged
from triten.perf.suite.results import Bar, Limits, Result, Row

Compare = Callable[..., "Done"]


def result(pairing: str | None = None, note: str = "", **samples: list[float]) -> Result:
    rows = [
        Row("s", "o", name, "1", "float32", "cpu", samples={"triten": times, "torch": [1.0] * len(times)}, note=note)
        for name, times in samples.items()
    ]  # fmt: skip
    return Result({"host": "h"}, {}, {"confidence": 0.95}, rows=rows, pairing=pairing)


def noisy(centre: float, seed: int, count: int = 20) -> list[float]:
    generator = random.Random(seed)
    return [centre * generator.uniform(0.97, 1.03) for _ in range(count)]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Compare:
    """Return a function that runs the command in this process, in its own folder."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["perf", "compare", *arguments])
        return Done(command.main(), *capsys.readouterr())

    return called


@pytest.mark.parametrize(
    ("centre", "verdict", "regression"),
    [(1.0, SAME, False), (1.03, SLOWER, False), (1.2, SLOWER, True), (0.8, FASTER, False)],
)
def test_a_verdict_needs_an_interval_without_1_and_a_regression_the_threshold(
    centre: float, verdict: str, regression: bool
) -> None:
    [found] = compare_results(result(a=noisy(1.0, 1)), result(a=noisy(centre, 2)))
    assert (found.verdict, found.is_regression) == (verdict, regression)
    [lenient] = compare_results(result(a=noisy(1.0, 1)), result(a=noisy(centre, 2)), threshold=0.5)
    assert not lenient.is_regression


@pytest.mark.parametrize(("pairing", "count"), [("p", 7), ("p", 9), (None, 7), (None, 15)])
def test_of_files_that_do_not_differ_hardly_any_has_a_row_that_is_told_apart(
    pairing: str | None, count: int
) -> None:
    generator, rows, files = random.Random(11), 50, 60

    def times() -> list[float]:  # with the rare long ones that a busy machine has
        return [
            generator.lognormvariate(0, 0.05) * (3 if generator.random() < 0.02 else 1) for _ in range(count)
        ]

    def drawn() -> Result:
        return result(pairing, **{f"r{index}": times() for index in range(rows)})

    told_apart = sum(
        any(each.verdict != SAME for each in compare_results(drawn(), drawn())) for _ in range(files)
    )
    assert told_apart / files <= 0.05 + 2 * (0.05 * 0.95 / files) ** 0.5


def test_a_choice_of_rows_is_held_to_the_confidence_of_all() -> None:
    base, new = result(a=noisy(1.0, 1, 7)), result(a=noisy(1.025, 2, 7))
    [alone], [chosen] = compare_results(base, new), compare_results(base, new, compared=10_000)
    assert chosen.ratio.low < alone.ratio.low < alone.ratio.high < chosen.ratio.high


def test_too_few_samples_say_nothing() -> None:
    [found] = compare_results(result(a=[1.0] * 5), result(a=[2.0] * 5))
    assert (found.verdict, found.is_regression) == (UNKNOWN, False)


def test_samples_taken_in_turn_are_compared_in_pairs() -> None:
    drift = [1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0]
    slower = [1.1 * d for d in drift]
    [paired] = compare_results(result("p", a=drift), result("p", a=slower))
    assert (paired.verdict, paired.ratio.estimate) == (SLOWER, pytest.approx(1.1))
    for other in (None, "q"):
        [alone] = compare_results(result("p", a=drift), result(other, a=slower))
        assert alone.verdict == SAME


def test_a_peer_of_the_same_round_takes_out_the_machine() -> None:
    base, new = result(a=noisy(1.0, 1)), result(a=noisy(2.0, 2))
    slow = Row(**{**new.rows[0].__dict__, "samples": {k: [2 * s for s in v] if k == "torch" else v
                                                      for k, v in new.rows[0].samples.items()}})  # fmt: skip
    new.rows[:] = [slow]
    assert compare_results(base, new)[0].verdict == SLOWER
    assert compare_results(base, new, relative_to="torch")[0].verdict == SAME
    assert compare_results(base, new, relative_to="numpy") == []


def test_rows_of_one_side_are_left_out_and_named(compare: Compare, tmp_path: Path) -> None:
    result(a=noisy(1.0, 1), b=noisy(1.0, 2)).write(tmp_path / "base.json")
    result(a=noisy(1.3, 3), c=noisy(1.0, 4)).write(tmp_path / "new.json")
    done = compare("base.json", "new.json")
    assert done.returncode == 1, done.stderr
    assert "slower, by more than 5%" in done.stdout
    assert "1 benchmarks: 1 slower; geometric mean" in done.stdout
    assert "where nothing differs, no benchmark is told apart with a probability of 95%" in done.stdout
    assert "note: NEW was measured in one process" in done.stdout
    assert "only in BASE: 1 benchmarks, such as s: b 1 float32" in done.stdout
    assert compare("base.json", "new.json", "--threshold", "0.5").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base.json",), "expected two result files, BASE and NEW, got 1"),
        (("base.json", "none.json"), "none.json: no such file"),
        (("base.json", "damaged.json"), "damaged.json: damaged, or no result file"),
        (("base.json", "older.json"), "version 0 of the format is older than 1"),
        (("base.json", "other.json"), "the two results have no benchmark in common"),
        (
            ("base.json", "base.json", "--relative-to", "cupy"),
            "no benchmark in common that was timed beside cupy",
        ),
        (("base.json", "base.json", "--threshold", "-1"), "--threshold must not be negative"),
        (("base.json", "--git", "HEAD", "HEAD"), "two files or --git A B, not both"),
        (("--git", "HEAD", "no-such-commit", "--turns", "0"), "--turns must be positive"),
    ],
)
def test_bad_input_is_refused_with_status_2(
    compare: Compare, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result(a=[1.0] * 7).write(tmp_path / "base.json")
    result(b=[1.0] * 7).write(tmp_path / "other.json")
    text = (tmp_path / "base.json").read_text()
    (tmp_path / "damaged.json").write_text(text[:100])
    (tmp_path / "older.json").write_text(text.replace('"version": 1', '"version": 0'))
    done = compare(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_bars_that_were_met_and_are_missed_are_named(compare: Compare, tmp_path: Path) -> None:
    for name, time in (("base", 1.0), ("near", 1.9), ("new", 3.0)):
        [row] = result(a=noisy(time, 1, 9)).rows
        settings = {"confidence": 0.95, "processes": 9}
        rows = [Row(**{**row.__dict__, "bar": Bar("torch", 2.0)})]
        Result({"host": "h"}, {}, settings, rows=rows).write(tmp_path / f"{name}.json")
    same = compare("base.json", "near.json").stdout
    assert "of 1 benchmarks with a target, 0 changed from met to missed or back" in same
    assert "in one process" not in same
    assert (
        "of 1 benchmarks with a target, 1 changed from met to missed or back: s: a 1 float32"
        in compare("base.json", "new.json").stdout
    )


def test_runs_are_merged_by_their_medians() -> None:
    runs = [result(a=[1.0, 2.0, 9.0], b=[1.0]), result(a=[3.0, 4.0, 5.0])]
    torch = [1.0, 1.0]
    whole = merged(runs, everywhere=True, pairing="p")
    assert [(row.name, row.samples) for row in whole.rows] == [("a", {"triten": [2.0, 4.0], "torch": torch})]
    assert whole.pairing == "p"
    assert [(row.name, row.samples["triten"]) for row in merged(runs).rows] == [
        ("a", [2.0, 4.0]),
        ("b", [1.0]),
    ]


def test_a_run_that_failed_shows_in_the_merged_row_and_limits_are_the_best() -> None:
    runs = [result(a=[1.0, 2.0, 9.0]), result(note="WRONG: far", a=[3.0])]
    runs[0].limits, runs[1].limits = Limits(1e9, {"float32": 2.0}, 3e-8), Limits(2e9, {"float32": 1.0}, 5e-8)
    [row] = merged(runs).rows
    assert row.note == "WRONG: far"
    assert merged(runs).limits == Limits(2e9, {"float32": 2.0}, 4e-8)
    alone = Row(**{**runs[1].rows[0].__dict__, "samples": {}, "note": "WRONG: far"})
    [kept] = merged([runs[0], Result({}, {}, {}, rows=[alone])]).rows
    assert (kept.note, kept.samples["triten"]) == ("WRONG: far", [2.0])


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of two commits, whose working tree has a newer `perf` than both."""
    root = tmp_path / "checkout"
    (root / "perf").mkdir(parents=True)
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in (1, 2):
        (root / "source.py").write_text(f"x = {number}\n")
        (root / "perf" / "old.py").write_text("")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"commit {number}"], check=True)
        subprocess.run([*git, "tag", f"v{number}"], check=True)
    (root / "perf" / "old.py").unlink()
    (root / "perf" / "suite.py").write_text("new = True\n")
    monkeypatch.setattr(git_runs, "ROOT", root)
    return root


def test_a_commit_is_checked_out_under_the_suite_of_this_checkout(checkout: Path, tmp_path: Path) -> None:
    with checked_out("v1", tmp_path / "side") as folder:
        assert (folder / "triten" / "source.py").read_text() == "x = 1\n"
        assert [path.name for path in (folder / "triten" / "perf").iterdir()] == ["suite.py"]
    assert not (tmp_path / "side" / "triten").exists()
    listed = subprocess.run(["git", "-C", str(checkout), "worktree", "list"], capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
    with pytest.raises(GitError, match="'v3' is no commit"), checked_out("v3", tmp_path / "side"):
        pass


def test_two_commits_run_in_turn(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def measured(folder: Path, path: Path, suites: list[str], rows: str) -> Result:
        ran.append((folder / "triten" / "source.py").read_text().strip())
        return result(a=[float(len(ran))])

    monkeypatch.setattr(git_runs, "_measured", measured)
    base, new = measure_commits("v1", "v2", suites=["overhead"], turns=3)
    assert ran == ["x = 1", "x = 2", "x = 2", "x = 1", "x = 1", "x = 2"]
    assert base.rows[0].samples["triten"] == [1.0, 4.0, 5.0]
    assert new.rows[0].samples["triten"] == [2.0, 3.0, 6.0]
    assert base.pairing == new.pairing is not None
