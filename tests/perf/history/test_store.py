"""A store returns what was added, once, in the order of the commits, and refuses to change it."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from triten.perf import __main__ as command
from triten.perf.history import History, HistoryError
from triten.perf.history.identity import digest_of
from triten.perf.history.store import Name
from triten.perf.result_file import ROOT
from triten.perf.suite.results import Result, read_results
from triten.tests.perf.history.stored_runs import MACHINE, a_history, a_result, barred, commit


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return a function that runs the command in this process, in its own folder."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["perf", "history", *arguments])
        return Done(command.main(), *capsys.readouterr())

    return called


def test_a_stored_result_comes_back_unchanged(tmp_path: Path) -> None:
    result = barred(a_result(1, {"a": [1.0, 1 / 3, 2e-7], "b": []}))
    result.pairing, result.command = "p", ["run", "--quick"]
    with History(a_history(tmp_path / "h.sqlite", [result])) as history:
        [(run, found)] = history.results()
    assert found == result
    assert (run.commit, run.machine, run.rows, run.label) == (
        commit(1),
        "AMD EPYC, 2 cores",
        2,
        commit(1)[:9],
    )


def test_the_measured_results_of_this_tree_come_back_unchanged(tmp_path: Path) -> None:
    paths = [ROOT / "perf" / "results" / name for name in ("suite-cpu.json", "nvidia-h200-2026-11-26.json")]
    results = [read_results(path) for path in paths]
    with History(a_history(tmp_path / "h.sqlite", results)) as history:
        found = [result for _, result in history.results()]
    assert sorted(map(digest_of, found)) == sorted(map(digest_of, results))
    assert [found for found in found if found.settings["device"] == "cpu"] == [results[0]]


def test_the_same_content_is_added_once_and_a_later_state_replaces_a_partial_one(tmp_path: Path) -> None:
    whole = a_result(1, {"a": [1.0], "b": [2.0]})
    partial = replace(whole, rows=whole.rows[:1], complete=False)
    later_write = replace(whole, updated="2027-01-01T00:00:00+00:00")
    with History(tmp_path / "h.sqlite", create=True) as history:
        assert [history.add(each) for each in (partial, whole, partial, whole, later_write)] == [
            True, True, False, False, False,
        ]  # fmt: skip
        [run] = history.runs()
        assert (run.complete, run.rows) == (True, 2)
        assert len(history.runs(every_state=True)) == 2


def test_runs_are_in_the_order_of_the_commits_not_of_the_measurements(tmp_path: Path) -> None:
    results = [
        a_result(3, {"a": [1.0]}, day=1),
        a_result(1, {"a": [1.0]}, day=2),
        a_result(2, {"a": [1.0]}, day=3),
    ]
    with History(a_history(tmp_path / "h.sqlite", results)) as history:
        assert [run.commit for run in history.runs()] == [commit(1), commit(2), commit(3)]


@pytest.mark.parametrize("statement", ["UPDATE times SET median = 0", "DELETE FROM runs", "DELETE FROM rows"])
def test_stored_runs_cannot_be_changed(tmp_path: Path, statement: str) -> None:
    path = a_history(tmp_path / "h.sqlite", [a_result(1, {"a": [1.0]})])
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_two_processes_add_at_once(tmp_path: Path) -> None:
    for number in range(4):
        a_result(number, {"a": [1.0]}).write(tmp_path / f"{number}.json")
    files = [str(tmp_path / f"{number}.json") for number in range(4)]
    argv = [
        sys.executable,
        "-P",
        "-m",
        "triten.perf",
        "history",
        "add",
        "--history",
        str(tmp_path / "h.sqlite"),
        *files,
    ]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate()[0] for process in started)
    assert [process.returncode for process in started] == [0, 0]
    assert (said.count(": added"), said.count(": already there")) == (4, 4)


def test_aliases_rename_rows_of_old_runs(tmp_path: Path, history: Command) -> None:
    a_history(
        tmp_path / "h.sqlite",
        [a_result(1, {"a": [1.0]}), a_result(2, {"b": [1.0]}), a_result(3, {"c": [1.0]})],
    )
    names = {name: ("overhead", "pointwise", name) for name in "abc"}
    for old, new in (("a", "b"), ("b", "c")):
        done = history("alias", "--history", "h.sqlite", "--old", *names[old], "--new", *names[new])
        assert done.returncode == 0, done.stderr
    with History(tmp_path / "h.sqlite") as store:
        assert [result.rows[0].name for _, result in store.results()] == ["c", "c", "c"]
        assert store.aliases() == {Name(*names["a"]): Name(*names["c"]), Name(*names["b"]): Name(*names["c"])}
        assert {row[11] for row in store.timings()[1:]} == {"c"}
    refused = history("alias", "--history", "h.sqlite", "--old", *names["c"], "--new", *names["a"])
    assert refused.returncode == 2
    assert "leads back to the old name" in refused.stderr
    assert "overhead / pointwise / a is read as overhead / pointwise / c" in history(
        "alias", "--history", "h.sqlite"
    ).stdout  # fmt: skip


def test_an_alias_does_not_merge_two_rows_of_one_run(tmp_path: Path) -> None:
    with History(
        a_history(tmp_path / "h.sqlite", [a_result(1, {"a": [1.0], "b": [2.0]})]), create=True
    ) as store:
        store.add_alias(Name("overhead", "pointwise", "a"), Name("overhead", "pointwise", "b"))
        [(_, result)] = store.results()
    assert [(row.name, row.samples["triten"]) for row in result.rows] == [("a", [1.0]), ("b", [2.0])]


def test_files_are_added_listed_and_exported(tmp_path: Path, history: Command) -> None:
    for number in (1, 2):
        a_result(number, {"a": [float(number)]}, dirty=number == 2).write(tmp_path / f"{number}.json")
    (tmp_path / "other.json").write_text("{}")
    done = history("add", "1.json", "other.json", "2.json", "1.json")
    assert done.returncode == 2
    assert "other.json: no result of" in done.stderr
    assert done.stdout.splitlines() == ["1.json: added", "2.json: added", "1.json: already there"]
    listed = history("list").stdout
    assert f"{commit(2)[:9]}+" in listed
    assert "2 runs" in listed
    assert [run["commit"] for run in json.loads(history("list", "--output", "json").stdout)] == [
        commit(1),
        commit(2),
    ]
    assert history("export", "files").returncode == 0
    again = sorted(map(str, (tmp_path / "files").iterdir()))
    assert history("add", *again).stdout.count("already there") == 2
    assert history("export", "times.csv").returncode == 0
    lines = (tmp_path / "times.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2
    assert lines[0].startswith("run,time,started,commit_hash,dirty,machine")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no store of runs"),
        (b"no database at all, but long enough for a header", "damaged, or no store of runs"),
        (None, "no such file"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, history: Command, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "h.sqlite").write_bytes(content)
    done = history("list", "--history", "h.sqlite")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert content is None or (tmp_path / "h.sqlite").read_bytes() == content


def test_databases_of_others_and_of_other_versions_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(HistoryError, match="no store of runs"):
        History(tmp_path / "other.sqlite", create=True)
    path = a_history(tmp_path / "h.sqlite", [])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(HistoryError, match="version 2 of the store, but this triten reads version 1"):
        History(path)
    with pytest.raises(HistoryError, match="not a file"):
        History(tmp_path)


def test_text_that_utf_8_cannot_hold_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    with History(tmp_path / "h.sqlite", create=True) as history:
        with pytest.raises(HistoryError, match="surrogates not allowed"):
            history.add(Result(MACHINE, {}, {}, rows=a_result(1, {"\ud800": [1.0]}).rows))
        assert history.runs(every_state=True) == []


def test_a_report_reads_the_last_states_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = a_result(1, {"old": [1.0] * 7})
    path = a_history(
        tmp_path / "h.sqlite", [replace(whole, complete=False), whole, a_result(2, {"new": [2.0] * 7})]
    )
    with History(path, create=True) as history:
        history.add_alias(Name("overhead", "pointwise", "old"), Name("overhead", "pointwise", "new"))
    a_result(3, {"new": [3.0] * 7}).write(tmp_path / "third.json")

    def called(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["perf", "report", "--format", "json", *arguments])
        return Done(command.main(), *capsys.readouterr())

    data = json.loads(called("--history", str(path), str(tmp_path / "third.json")).stdout)
    assert [file["commit"] for file in data["files"]] == [commit(1), commit(2), commit(3)]
    assert [row["name"] for row in data["rows"]] == ["new"]
    assert "are required: FILE, --history FILE, or --profile FILE" in called().stderr
    assert called("--history", str(path), "-o", str(path)).returncode == 2
    empty = a_history(tmp_path / "empty.sqlite", [])
    assert "the store has no run" in called("--history", str(empty)).stderr


def test_values_that_were_not_written_by_the_store_are_reported(tmp_path: Path) -> None:
    path = a_history(tmp_path / "h.sqlite", [a_result(1, {"a": [1.0]})])
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER times_update; UPDATE times SET samples_json = '[1.0'")
    connection.close()
    with History(path) as history, pytest.raises(HistoryError, match="damaged: Expecting"):
        list(history.results())
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER runs_update; UPDATE runs SET versions_json = '{'")
    connection.close()
    with History(path) as history, pytest.raises(HistoryError, match="damaged: Expecting"):
        history.runs()
