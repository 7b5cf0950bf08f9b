"""Append-only store of benchmark runs in one SQLite file.

A run enters as a whole result of `python -m triten.perf run`, and comes back as the same `Result`. Adding the
same content twice has no effect. If a partial file was added, a later state of that run replaces it in every
view; the earlier state stays in the file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from ..refusal import RefusalError
from ..suite.confidence import summarise
from ..suite.results import Bar, Limits, Result, Row, RowKey
from .identity import digest_of, machine_name, moment_of, run_key
from .schema import (
    APPLICATION_ID,
    KEY_COLUMNS,
    ROW_COLUMNS,
    RUN_COLUMNS,
    SCHEMA,
    TIME_COLUMNS,
    VERSION,
)

# How long a command waits for another one that writes into the same file, in seconds.
LOCK_SECONDS = 30.0


class HistoryError(RefusalError):
    """Error of a store: the file is missing, is no store, or cannot be written; the message names it."""


class Name(NamedTuple):
    """Part of a row's key that a rename changes."""

    suite: str
    operator: str
    name: str


@dataclass(frozen=True)
class Run:
    """Head of a stored run. `result` of the store has its rows."""

    id: int
    digest: str
    started: str
    complete: bool
    rehearsal: bool
    commit: str | None
    commit_time: str | None
    dirty: bool
    machine: str
    device: str
    versions: Mapping[str, str]
    rows: int

    @property
    def label(self) -> str:
        """Nine digits of the commit, with a plus if files differed from it; without a commit, the start."""
        return self.started if self.commit is None else self.commit[:9] + ("+" if self.dirty else "")

    @property
    def moment(self) -> tuple[datetime, datetime]:
        """Time of the commit, then of the start: a history is of commits."""
        return moment_of(self.commit_time or self.started), moment_of(self.started)


class History:
    """Open store of runs. Use it as a context manager, or call `close`.

    Args:
        path: The SQLite file.
        create: If True, create a missing file. Default: False, which also opens the file read-only.

    Raises:
        HistoryError: if the file is missing, is no store, or belongs to another version of the format.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from triten.perf.history import History
        >>> from triten.perf.suite.results import Result, Row
        >>> row = Row("s", "add", "a + b", "1", "float32", "cpu", samples={"triten": [1.0, 2.0, 3.0]})
        >>> result = Result({"processor": "p", "cores": 2}, {}, {}, rows=[row])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with History(Path(folder) / "h.sqlite", create=True) as history:
        ...         history.add(result), history.add(result)
        ...         [history.result(run).rows == [row] for run in history.runs()]
        (True, False)
        [True]
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if not create and not path.exists():
            raise HistoryError(f"{path}: no such file; `python -m triten.perf history add` creates it")
        if path.exists() and not path.is_file():
            raise HistoryError(f"{path}: not a file")
        mode = "rwc" if create else "ro"
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=LOCK_SECONDS,
                isolation_level=None,
            )
        except (sqlite3.Error, OSError) as error:
            raise HistoryError(f"cannot open {path}: {error}") from None
        self._connection.row_factory = sqlite3.Row
        try:
            self._prepare(create)
        except BaseException:
            self._connection.close()
            raise
        self._aliases = self._read_aliases()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, result: Result) -> bool:
        """Store a result. Return False, without effect, if its content is already there."""
        digest = digest_of(result)
        with self._writing():
            if self._connection.execute("SELECT 1 FROM runs WHERE digest = ?", [digest]).fetchone():
                return False
            run = self._insert("runs", RUN_COLUMNS, _run_values(result, digest))
            for position, row in enumerate(result.rows):
                bar = row.bar or Bar(None, 0.0)
                max_ratio = bar.most if row.bar else None
                values = [
                    run, position, self._benchmark(row.key), row.threads, row.bytes, row.flops, bar.peer, max_ratio,
                    row.note,
                ]  # fmt: skip
                stored = self._insert("rows", ROW_COLUMNS, values)
                for order, (library, samples) in enumerate(row.samples.items()):
                    summary = summarise(samples) if samples else (None, None, None)
                    self._insert("times", TIME_COLUMNS, [stored, order, library, *summary, _json(samples)])
        return True

    def runs(self, *, every_state: bool = False) -> list[Run]:
        """Return the heads of the runs, the oldest commit first.

        Args:
            every_state: If True, include partial states that a later one replaced. Default: False.
        """
        counts = dict(self._query("SELECT run, count(*) FROM rows GROUP BY run").fetchall())
        source = "runs" if every_state else "last_runs"
        with self._decoding():
            return self._heads(source, counts)

    def _heads(self, source: str, counts: Mapping[int, int]) -> list[Run]:
        runs = [
            Run(
                row["id"], row["digest"], row["started"], bool(row["complete"]), bool(row["rehearsal"]),
                row["commit_hash"], row["commit_time"], bool(row["dirty"]), row["machine"], row["device"] or "",
                json.loads(row["versions_json"]), counts.get(row["id"], 0),
            )
            for row in self._query(f"SELECT * FROM {source}")
        ]  # fmt: skip
        return sorted(runs, key=lambda run: (*run.moment, run.id))

    def result(self, run: Run, *, renamed: bool = True) -> Result:
        """Return the stored result of a run.

        Args:
            renamed: If True, rows have the names that the aliases give them. Default: True. If a run has rows
                of the old and of the new name, the old one keeps its name.
        """
        with self._decoding():
            return self._result(run, renamed)

    def _result(self, run: Run, renamed: bool) -> Result:
        head = self._query("SELECT * FROM runs WHERE id = ?", [run.id]).fetchone()
        times: dict[int, dict[str, list[float]]] = {}
        for record in self._query(
            "SELECT times.* FROM times JOIN rows ON rows.id = times.row WHERE run = ? ORDER BY row, times.position",
            [run.id],
        ):
            times.setdefault(record["row"], {})[record["library"]] = json.loads(record["samples_json"])
        columns = ", ".join(f"benchmarks.{name}" for name in KEY_COLUMNS)
        rows = [
            Row(
                **{name: record[name] for name in (*KEY_COLUMNS, "threads", "bytes", "flops", "note")},
                samples=times.get(record["id"], {}),
                bar=Bar(record["bar_peer"], record["bar_most"]) if record["bar_most"] is not None else None,
            )
            for record in self._query(
                f"SELECT rows.*, {columns} FROM rows JOIN benchmarks ON benchmarks.id = rows.benchmark "
                "WHERE run = ? ORDER BY rows.position",
                [run.id],
            )
        ]  # fmt: skip
        return Result(
            json.loads(head["machine_json"]), json.loads(head["versions_json"]), json.loads(head["settings_json"]),
            json.loads(head["commit_json"]), json.loads(head["command_json"]),
            Limits(**json.loads(head["limits_json"])), self._renamed(rows) if renamed else rows,
            bool(head["complete"]), bool(head["rehearsal"]), head["pairing"], head["started"], head["updated"],
        )  # fmt: skip

    def results(self) -> Iterator[tuple[Run, Result]]:
        """Yield the last state of each run with its result, the oldest commit first."""
        for run in self.runs():
            yield run, self.result(run)

    def timings(self) -> list[tuple[object, ...]]:
        """Return the view `timings` as a table: the names of the columns, then a row for each time."""
        cursor = self._query("SELECT * FROM timings ORDER BY time, run, suite, operator, name, size, library")
        return [tuple(column[0] for column in cursor.description), *map(tuple, cursor)]

    def aliases(self) -> dict[Name, Name]:
        """Return the aliases: the new name by the old one."""
        return dict(self._aliases)

    def add_alias(self, old: Name, new: Name) -> None:
        """Read rows of one name under another from now on; earlier aliases for `old` are replaced.

        Raises:
            HistoryError: if the aliases would lead back to `old`.
        """
        trial = self._aliases | {old: new}
        if _resolved(new, trial) is None or old == new:
            raise HistoryError(
                f"an alias from {' / '.join(old)} to {' / '.join(new)} leads back to the old name"
            )
        with self._writing():
            # A chain a -> b -> c is stored as a -> c, so that views need one step.
            for before, after in trial.items():
                final = _resolved(after, trial) or after
                self._connection.execute(
                    "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?, ?, ?, ?)", [*before, *final]
                )
        self._aliases = self._read_aliases()

    def _prepare(self, create: bool) -> None:
        """Create the tables in an empty file, or check that the file is a store of this version."""
        try:
            if create:
                with self._writing():
                    if not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        for statement in _statements(SCHEMA):
                            self._connection.execute(statement)
            application, version = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
        except sqlite3.DatabaseError as error:
            raise HistoryError(f"{self.path}: damaged, or no store of runs: {error}") from None
        if application != APPLICATION_ID:
            raise HistoryError(
                f"{self.path}: no store of runs; `python -m triten.perf history add` creates one"
            )
        if version != VERSION:
            raise HistoryError(
                f"{self.path}: version {version} of the store, but this triten reads version {VERSION}: add the result "
                "files to a new store"
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write in one transaction, which another process sees whole or not at all."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise HistoryError(f"cannot write {self.path}: {error}") from None
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.DatabaseError | UnicodeEncodeError):
                raise HistoryError(f"cannot write {self.path}: {error}") from None
            raise

    def _query(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise HistoryError(f"cannot read {self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise HistoryError(f"{self.path}: damaged: {error}") from None

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """Report values that `add` has not written."""
        try:
            yield
        except (ValueError, TypeError, AttributeError) as error:
            raise HistoryError(f"{self.path}: damaged: {error}") from None

    def _insert(self, table: str, columns: Sequence[str], values: Sequence[object]) -> int:
        marks = ", ".join("?" * len(columns))
        done = self._connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values
        )
        return int(done.lastrowid or 0)

    def _benchmark(self, key: RowKey) -> int:
        condition = " AND ".join(f"{name} = ?" for name in KEY_COLUMNS)
        record = self._connection.execute(f"SELECT id FROM benchmarks WHERE {condition}", key).fetchone()
        return int(record["id"]) if record else self._insert("benchmarks", KEY_COLUMNS, key)

    def _read_aliases(self) -> dict[Name, Name]:
        records = self._query("SELECT * FROM aliases").fetchall()
        return {Name(*tuple(row)[:3]): Name(*tuple(row)[3:]) for row in records}

    def _renamed(self, rows: list[Row]) -> list[Row]:
        if not self._aliases:
            return rows
        taken = {row.key for row in rows}
        renamed = []
        for row in rows:
            new = self._aliases.get(Name(row.suite, row.operator, row.name))
            moved = row if new is None else replace(row, **new._asdict())
            if moved.key in taken and moved.key != row.key:
                moved = row
            taken.add(moved.key)
            renamed.append(moved)
        return renamed


def _run_values(result: Result, digest: str) -> list[object]:
    commit, machine = result.commit or {}, result.machine
    texts = [_text(machine.get(name)) for name in ("host", "processor", "cores", "gpu", "python")]
    return [
        digest, run_key(result), result.started, result.updated, result.complete, result.rehearsal, commit.get("hash"),
        _text(commit.get("time")), bool(commit.get("dirty")), machine_name(machine), *texts,
        _text(result.settings.get("device")), result.pairing, _json(result.commit), _json(machine),
        _json(result.versions), _json(result.settings), _json(asdict(result.limits)), _json(result.command),
    ]  # fmt: skip


def _resolved(name: Name, aliases: Mapping[Name, Name]) -> Name | None:
    """Follow the aliases to the last name; None if they form a cycle."""
    visited = {name}
    while name in aliases:
        name = aliases[name]
        if name in visited:
            return None
        visited.add(name)
    return name


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; triggers contain semicolons."""
    whole = ""
    for line in script.splitlines(keepends=True):
        whole += line
        if sqlite3.complete_statement(whole):
            yield whole
            whole = ""


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
