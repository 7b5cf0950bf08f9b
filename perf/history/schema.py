"""Tables of a store of runs. Runs, rows and times are append-only: triggers refuse to update or delete them.

Times are seconds, moments ISO 8601 in UTC. Columns that end in `_json` hold the objects of the result file
(`suite/results.py`) unchanged. The view `timings` joins everything that a dashboard plots.
"""

from __future__ import annotations

APPLICATION_ID = 0x74726974  # "trit"
VERSION = 1

RUN_COLUMNS = (
    "digest", "run_key", "started", "updated", "complete", "rehearsal", "commit_hash", "commit_time", "dirty",
    "machine", "host", "processor", "cores", "gpu", "python", "device", "pairing", "commit_json", "machine_json",
    "versions_json", "settings_json", "limits_json", "command_json",
)  # fmt: skip
KEY_COLUMNS = ("suite", "operator", "name", "size", "dtype", "device", "direction")
ROW_COLUMNS = ("run", "position", "benchmark", "threads", "bytes", "flops", "bar_peer", "bar_most", "note")
TIME_COLUMNS = ("row", "position", "library", "median", "low_quartile", "high_quartile", "samples_json")

_APPEND_ONLY = ("runs", "benchmarks", "rows", "times")

SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,       -- of the content: a file is added once
    run_key TEXT NOT NULL,             -- of start, machine, commit and command: states of one run share it
    started TEXT NOT NULL,
    updated TEXT NOT NULL,
    complete INTEGER NOT NULL,
    rehearsal INTEGER NOT NULL,
    commit_hash TEXT,
    commit_time TEXT,
    dirty INTEGER NOT NULL,
    machine TEXT NOT NULL,             -- processor, cores and GPU: runs with the same text are comparable
    host TEXT,
    processor TEXT,
    cores TEXT,
    gpu TEXT,
    python TEXT,
    device TEXT,
    pairing TEXT,
    commit_json TEXT NOT NULL,
    machine_json TEXT NOT NULL,
    versions_json TEXT NOT NULL,
    settings_json TEXT NOT NULL,
    limits_json TEXT NOT NULL,
    command_json TEXT NOT NULL
);
CREATE INDEX runs_of_key ON runs (run_key);
CREATE TABLE benchmarks (
    id INTEGER PRIMARY KEY,
    {", ".join(f"{name} TEXT NOT NULL" for name in KEY_COLUMNS)},
    UNIQUE ({", ".join(KEY_COLUMNS)})
);
CREATE TABLE rows (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs,
    position INTEGER NOT NULL,
    benchmark INTEGER NOT NULL REFERENCES benchmarks,
    threads INTEGER NOT NULL,
    bytes INTEGER,
    flops INTEGER,
    bar_peer TEXT,
    bar_most REAL,
    note TEXT NOT NULL,
    UNIQUE (run, benchmark)
);
CREATE INDEX rows_of_benchmark ON rows (benchmark);
CREATE TABLE times (
    row INTEGER NOT NULL REFERENCES rows,
    position INTEGER NOT NULL,
    library TEXT NOT NULL,
    median REAL,                       -- null if the list of samples is empty
    low_quartile REAL,
    high_quartile REAL,
    samples_json TEXT NOT NULL,
    PRIMARY KEY (row, library)
) WITHOUT ROWID;
CREATE TABLE aliases (
    old_suite TEXT NOT NULL, old_operator TEXT NOT NULL, old_name TEXT NOT NULL,
    suite TEXT NOT NULL, operator TEXT NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (old_suite, old_operator, old_name)
);
-- The last state of each run: a partial file that was added is replaced by the complete one.
CREATE VIEW last_runs AS
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY run_key ORDER BY complete DESC, updated DESC, id DESC) AS age
        FROM runs
    ) WHERE age = 1;
CREATE VIEW timings AS
    SELECT last_runs.id AS run, CAST(strftime('%s', coalesce(commit_time, started)) AS INTEGER) AS time,
        CAST(strftime('%s', started) AS INTEGER) AS started, commit_hash, dirty, machine, gpu, python, threads,
        coalesce(aliases.suite, benchmarks.suite) AS suite,
        coalesce(aliases.operator, benchmarks.operator) AS operator,
        coalesce(aliases.name, benchmarks.name) AS name,
        size, dtype, benchmarks.device AS device, direction, library, median, low_quartile, high_quartile
    FROM times JOIN rows ON rows.id = times.row JOIN benchmarks ON benchmarks.id = rows.benchmark
        JOIN last_runs ON last_runs.id = rows.run
        LEFT JOIN aliases ON aliases.old_suite = benchmarks.suite AND aliases.old_operator = benchmarks.operator
            AND aliases.old_name = benchmarks.name
    WHERE NOT rehearsal AND median IS NOT NULL;
{
    "".join(
        f'''
CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table}
    BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;'''
        for table in _APPEND_ONLY
        for event in ("UPDATE", "DELETE")
    )
}
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""
