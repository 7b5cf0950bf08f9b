"""The gate decides by its policy, on files, stores and commits, and prints Markdown, JSON and OpenMetrics."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from triten.perf import __main__ as command
from triten.perf.gate import sources
from triten.perf.gate.decision import decide
from triten.perf.gate.markdown import MAX_CHARACTERS, format_decision
from triten.perf.gate.openmetrics import format_openmetrics
from triten.perf.history import changes
from triten.perf.suite.results import Result
from triten.tests.perf.history.stored_runs import a_history, a_result, commit, row


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return a function that runs the command in this process, in its own folder."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["perf", "gate", *arguments])
        return Done(command.main(), *capsys.readouterr())

    return called


def measured(number: int, seed: int, noise: float = 0.003, **levels: float) -> Result:
    generator = random.Random(seed)
    rows = {
        name: [level * generator.lognormvariate(0, noise) for _ in range(9)] for name, level in levels.items()
    }
    return a_result(number, rows)


@pytest.mark.parametrize(
    ("level", "noise", "strict", "kind", "status"),
    [
        (1.0, 0.003, True, "unchanged", 0),
        (1.2, 0.003, False, "slower", 1),
        (0.8, 0.003, True, "faster", 0),
        (1.03, 0.003, True, "unchanged", 0),
        (1.0, 0.3, False, "inconclusive", 0),
        (1.0, 0.3, True, "inconclusive", 2),
    ],
)
def test_each_kind_has_its_status(level: float, noise: float, strict: bool, kind: str, status: int) -> None:
    found = decide(
        measured(1, 1, noise, a=1.0), measured(2, 2, noise, a=level), tolerance=0.05, strict=strict
    )
    assert (found.counts, found.status) == ({kind: 1}, status)


def test_one_slow_row_decides_and_too_few_samples_are_inconclusive() -> None:
    base, new = measured(1, 1, a=1.0, b=1.0, c=1.0), measured(2, 2, a=1.0, b=1.5, c=1.0)
    for result in (base, new):
        result.rows[2] = row("c", [1.0] * 3)
    found = decide(base, new, tolerance=0.05, strict=True)
    assert found.counts == {"slower": 1, "inconclusive": 1, "unchanged": 1}
    assert (found.status, found.outcome, found.rows[0].comparison.key.name) == (1, "failed", "b")


@pytest.mark.parametrize("level", [0.5, 2.0])
def test_two_runs_of_one_commit_never_differ_unless_files_do(level: float) -> None:
    base, new = measured(1, 1, a=1.0), measured(1, 2, a=level)
    found = decide(base, new, tolerance=0.05, strict=True)
    assert (found.counts, found.status) == ({"unchanged": 1}, 0)
    assert found.notes[0] == "both results are of one commit: all differences are noise"
    new.commit = {**(new.commit or {}), "dirty": True}
    assert decide(base, new, tolerance=0.05).counts == {"slower" if level > 1 else "faster": 1}


def test_a_row_that_no_longer_works_fails_the_gate() -> None:
    base, new = measured(1, 1, a=1.0, b=1.0), measured(2, 2, a=1.0)
    new.rows.append(replace(row("b", []), samples={}, note="WRONG: 0.1 from torch's"))
    found = decide(base, new, tolerance=0.05)
    assert (found.status, found.counts) == (1, {"broken": 1, "unchanged": 1})
    assert "## Performance: benchmarks fail" in format_decision(found)
    base.rows[1] = replace(base.rows[1], samples={}, note="WRONG: 0.1 from torch's")
    assert decide(base, new, tolerance=0.05).status == 0


def test_renamed_and_new_rows_are_named_and_do_not_decide() -> None:
    found = decide(measured(1, 1, a=1.0, old=1.0), measured(2, 2, a=1.0, new=9.0), tolerance=0.05)
    assert ([key.name for key in found.only_base], [key.name for key in found.only_new]) == (["old"], ["new"])
    assert found.status == 0
    text = format_decision(found)
    assert "1 only in the baseline" in text
    assert "1 only in the new result" in text


def test_other_versions_and_machines_are_noted() -> None:
    base, new = measured(1, 1, a=1.0), measured(2, 2, a=1.0)
    new.versions = {**new.versions, "numpy": "2.4"}
    new.machine = {**new.machine, "cores": 4}
    notes = decide(base, new, tolerance=0.05).notes
    assert "cores differs: 2, 4" in notes
    assert "versions differ: numpy 2.3 to 2.4" in notes


def test_markdown_shows_names_literally_and_fits_into_a_comment() -> None:
    hostile = "<img src=x> a | b `c` [d](e)\n\n# f"
    base = measured(1, 1, **{hostile: 1.0})
    new = measured(2, 2, **{hostile: 2.0})
    text = format_decision(decide(base, new, tolerance=0.05))
    assert "<img" not in text
    assert "\n# f" not in text
    assert r"a \| b \`c\` \[d\](e)" in text
    assert text.startswith(
        "## Performance: benchmarks became slower\n\n`000000000` against `000000000`: 1 slower."
    )
    many = {f"row {index} {'x' * 900}": 1.0 + index % 3 / 2 for index in range(400)}
    long = format_decision(
        decide(measured(1, 1, **dict.fromkeys(many, 1.0)), measured(2, 2, **many), tolerance=0.05)
    )
    assert len(long) <= MAX_CHARACTERS + 100
    assert long.endswith("More benchmarks are in the JSON output.\n")


def test_files_are_judged_and_written_in_each_format(gate: Command, tmp_path: Path) -> None:
    measured(1, 1, a=1.0).write(tmp_path / "base.json")
    measured(2, 2, a=1.2).write(tmp_path / "new.json")
    files = ("--baseline", "base.json", "--new", "new.json")
    done = gate(*files, "--openmetrics", "metrics.txt", "--save", "kept")
    assert done.returncode == 1, done.stderr
    assert "**Slower**" in done.stdout
    found = json.loads(gate(*files, "--output", "json").stdout)
    assert (found["format"], found["version"], found["status"], found["outcome"]) == (
        "triten.perf.gate",
        1,
        1,
        "failed",
    )
    assert (found["rows"][0]["kind"], found["base"]["commit"]["hash"]) == ("slower", commit(1))
    assert (tmp_path / "metrics.txt").read_text().endswith("# EOF\n")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["base.json", "new.json"]
    assert gate(*files, "--tolerance", "0.5").returncode == 0
    assert gate("--baseline", "kept/base.json", "--new", "kept/base.json", "--strict").returncode == 0


def test_openmetrics_text_is_read_by_prometheus() -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    name = 'a "quoted" \\ name\nof two lines'
    base, new = measured(1, 1, **{name: 1.0}), measured(2, 2, **{name: 2.0})
    decision = decide(base, new, tolerance=0.05)
    found = {
        family.name: family for family in parser.text_string_to_metric_families(format_openmetrics(decision))
    }
    seconds = {sample.labels["library"]: sample for sample in found["triten_benchmark_seconds"].samples}
    assert seconds["triten"].labels["row"] == name
    assert seconds["triten"].value == new.rows[0].summary().median
    assert seconds["torch"].value == 1.0
    [ratio] = found["triten_benchmark_ratio"].samples
    assert ratio.value == decision.rows[0].comparison.ratio.estimate
    assert {sample.labels["kind"]: sample.value for sample in found["triten_gate_rows"].samples}[
        "slower"
    ] == 1
    assert found["triten_gate_status"].samples[0].value == 1
    [run] = found["triten_benchmark_run"].samples
    assert run.labels == {"commit": commit(2)[:9], "baseline": commit(1)[:9], "machine": "AMD EPYC, 2 cores"}


def test_openmetrics_families_are_valid_where_no_row_is_compared() -> None:
    base, new = measured(1, 1, a=1.0), measured(2, 2)
    new.rows.append(replace(row("a", []), samples={}, note="FAILED in triten: RuntimeError"))
    text = format_openmetrics(decide(base, new, tolerance=0.05))
    assert 'triten_gate_rows{kind="broken"} 1.0' in text
    assert text.splitlines()[-1] == "# EOF"


def test_a_store_gives_the_last_comparable_run(gate: Command, tmp_path: Path) -> None:
    runs = [measured(1, 1, a=1.0), measured(2, 2, a=1.0), measured(3, 3, a=1.3)]
    runs[1].machine = {**runs[1].machine, "processor": "another"}
    a_history(tmp_path / "h.sqlite", runs)
    done = gate("--history", "h.sqlite", "--output", "json")
    found = json.loads(done.stdout)
    assert (found["base"]["commit"]["hash"], found["new"]["commit"]["hash"]) == (commit(1), commit(3))
    assert done.returncode == 1
    measured(4, 4, a=1.3).write(tmp_path / "new.json")
    found = json.loads(gate("--history", "h.sqlite", "--new", "new.json", "--output", "json").stdout)
    assert (found["base"]["commit"]["hash"], found["status"]) == (commit(3), 0)


def test_a_branch_chooses_among_the_runs_of_a_store(
    gate: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_history(tmp_path / "h.sqlite", [measured(number, number, a=1.0) for number in (1, 2, 3)])
    monkeypatch.setattr(sources, "branch_commits", lambda branch: [commit(1)])
    found = json.loads(gate("--history", "h.sqlite", "--baseline", "main", "--output", "json").stdout)
    assert found["base"]["commit"]["hash"] == commit(1)
    monkeypatch.setattr(sources, "branch_commits", lambda branch: [])
    done = gate("--history", "h.sqlite", "--baseline", "main")
    assert done.returncode == 2
    assert "no run of main is comparable" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository whose branch `main` went on after HEAD's branch left it."""
    root = tmp_path / "checkout"
    root.mkdir()

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(
            ["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    commit_empty = ("commit", "-q", "--allow-empty", "-m")
    git("init", "-q", "-b", "main")
    git(*commit_empty, "base")
    git("checkout", "-q", "-b", "topic")
    git(*commit_empty, "new")
    git("checkout", "-q", "main")
    git(*commit_empty, "later")
    git("checkout", "-q", "topic")
    for module in (sources, changes):
        monkeypatch.setattr(module, "ROOT", root)
    return root


def test_a_branch_is_measured_at_the_merge_base(
    gate: Command, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(base: str, new: str, **options: object) -> tuple[Result, Result]:
        for each in (base, new):
            said = subprocess.run(
                ["git", "-C", str(checkout), "log", "-1", "--format=%s", each], capture_output=True
            )
            asked.append(said.stdout.decode().strip())
        assert options == {"suites": ["overhead"], "rows": "add", "turns": 6}
        return measured(1, 1, a=1.0), measured(2, 2, a=1.0)

    monkeypatch.setattr(sources, "measure_commits", measure)
    done = gate("--baseline", "main", "--rows", "add", "--turns", "6")
    assert (done.returncode, asked) == (0, ["base", "new"])
    assert len(changes.branch_commits("main")) == 2
    ancestor = gate("--baseline", "topic", "--rows", "add")
    assert ancestor.returncode == 2
    assert "HEAD has no commit that 'topic' lacks" in ancestor.stderr


def test_a_slower_row_is_measured_again_and_the_second_time_decides(
    gate: Command, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(base: str, new: str, *, rows: str, **options: object) -> tuple[Result, Result]:
        asked.append(rows)
        sides = (
            measured(1, 1, a=1.0, b=1.0, c=1.0),
            measured(2, 2, a=1.0, b=2.0, c=2.0 if len(asked) == 1 else 1.0),
        )
        for side in sides:
            side.rows = [row for row in side.rows if re.search(rows, row.title)]
        return sides

    monkeypatch.setattr(sources, "measure_commits", measure)
    done = gate("--baseline", "main", "--output", "json")
    found = {row["name"]: row["kind"] for row in json.loads(done.stdout)["rows"]}
    assert found == {"a": "unchanged", "b": "slower", "c": "unchanged"}
    assert (done.returncode, len(asked), asked[0]) == (1, 2, "")
    assert "2 benchmarks are slower; they are measured again" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a baseline"),
        (("--baseline", "no-such-branch"), "is neither a branch or commit"),
        (("--baseline", "none.json"), "none.json: no such file"),
        (("--baseline", "main", "--new", "new.json"), "--baseline must be one too"),
        (("--baseline", "new.json", "--new", "other.json"), "no benchmark in common"),
        (
            ("--baseline", "new.json", "--new", "new.json", "--tolerance", "nan"),
            "--tolerance must not be negative",
        ),
        (("--baseline", "new.json", "--turns", "0"), "--turns must be positive"),
        (("--history", "none.sqlite"), "none.sqlite: no such file"),
        (("--baseline", "new.json", "--new", "new.json", "--relative-to", "cupy"), "timed beside cupy"),
    ],
)
def test_bad_input_is_refused_with_status_2(
    gate: Command, checkout: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    measured(1, 1, a=1.0).write(tmp_path / "new.json")
    measured(2, 1, b=1.0).write(tmp_path / "other.json")
    done = gate(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_baseline_file_is_measured_again_with_its_settings(gate: Command, tmp_path: Path) -> None:
    options = ["--suite", "allocator", "--quick", "--rehearse", "--peers", "--threads", "1", "-o"]
    argv = [sys.executable, "-P", "-m", "triten.perf", "run", *options, str(tmp_path / "base.json")]
    subprocess.run(argv, check=True, capture_output=True)
    done = gate("--baseline", "base.json", "--output", "json", "--tolerance", "1e9")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert len(found["rows"]) + len(found["only_base"]) >= 1
    assert found["only_new"] == [] or found["rows"]
