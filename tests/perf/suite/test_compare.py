"""Comparisons: what differs is told from what does not, and two commits are measured in turn."""

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
from triten.perf.suite.git_runs import GitError, checked_out, measure_commits, merged
from triten.perf.suite.results import Result, Row

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
    """The command in this process, in a folder of its own."""
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


@pytest.mark.parametrize(("pairing", "count"), [("p", 6), ("p", 7), ("p", 12), (None, 15)])
def test_of_rows_that_do_not_differ_no_more_are_told_apart_than_the_confidence_allows(
    pairing: str | None, count: int
) -> None:
    generator, rows = random.Random(11), 400 if pairing else 25

    def times() -> list[float]:  # with the rare long ones that a busy machine has
        return [
            generator.lognormvariate(0, 0.05) * (3 if generator.random() < 0.05 else 1) for _ in range(count)
        ]

    base = result(pairing, **{f"r{index}": times() for index in range(rows)})
    new = result(pairing, **{f"r{index}": times() for index in range(rows)})
    told_apart = sum(each.verdict != SAME for each in compare_results(base, new))
    assert told_apart / rows <= 0.05 + 2 * (0.05 * 0.95 / rows) ** 0.5


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
    assert "1 rows: 1 slower; geometric mean" in done.stdout
    assert "of rows that do not differ, up to 0.1 of 1 are told apart by chance" in done.stdout
    assert "only in BASE: 1 rows, such as s: b 1 float32" in done.stdout
    assert compare("base.json", "new.json", "--threshold", "0.5").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base.json",), "expected two result files, BASE and NEW, got 1"),
        (("base.json", "none.json"), "none.json: no such file"),
        (("base.json", "damaged.json"), "damaged.json: damaged, or no result file"),
        (("base.json", "older.json"), "version 0 of the format is older than 1"),
        (("base.json", "other.json"), "the two results have no row in common"),
        (("base.json", "base.json", "--relative-to", "cupy"), "no row in common that was timed beside cupy"),
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


def test_runs_are_merged_by_their_medians() -> None:
    whole = merged([result(a=[1.0, 2.0, 9.0], b=[1.0]), result(a=[3.0, 4.0, 5.0])], "p")
    assert [(row.name, row.samples) for row in whole.rows] == [("a", {"triten": [2.0, 4.0]})]
    assert whole.pairing == "p"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits, whose `perf` in the working tree is newer than both."""
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
