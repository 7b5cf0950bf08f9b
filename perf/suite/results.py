"""Result file of `python -m triten.perf run`: JSON, with a row per workload, raw samples and derived values.

A file is one object. Times are seconds, sizes bytes, moments ISO 8601 in UTC. `null` means unknown or not
applicable.

    format      "triten.perf.run"
    version     1; a reader refuses another. A new field that may be left out does not change it.
    complete    whether all rows that were asked for are there; false while a run goes on and after Ctrl-C
    rehearsal   true: sizes are tiny or the device is simulated, and the times are meaningless
    started     moment;   updated: moment of the last write
    command     the arguments, as a list of strings
    machine     object: host, processor, cores, system, python; gpu, kernel_driver (null on the CPU)
    versions    object: version by library, including "triten" and the measured baselines
    commit      object: hash, time (of the commit), dirty (whether files differ from it); null outside a checkout
    settings    object: device, threads, confidence, precision, rounds, slice_seconds, row_seconds, quick,
                collector (whether the garbage collector was on while timing), graph (replays of CUDA graphs), flush
                (of the L2 before each run on CUDA: "read", "memset", "none"), tuning (object: the measured
                configurations in force: table, sha256, entries, valid, recorded), cores
                (list of the cores that threads were pinned to, the caller's first; null where the system cannot),
                blas_held (whether NumPy's BLAS was limited to the number of threads: OpenBLAS can be), processes
                (number whose medians are a row's samples; 1: samples are rounds. Unsure rows may have more)
    pairing     null, or a name that two files share whose samples were interleaved: the i-th of one beside the i-th
                of the other
    limits      object, measured in the same run:
        copy_bytes_per_second     bytes read and written by a copy that no cache holds; null if not measured
        matrix_flops_per_second   object: operations per second of a large matmul, by dtype
        empty_call_seconds        a call that does nothing: of a Python function on the CPU, of a pair of events on CUDA
    rows        list of objects:
        suite       such as "elementwise"
        operator    the operator, such as "add"; rows of one operator and several sizes make a curve
        name        distinguishes other rows of the operator, such as "a + b, out="
        size        label, such as "4096x4096"
        dtype       "float32", ...;  device: "cpu" or "cuda"
        direction   "forward", "backward", or "both"
        threads     of every library while this row was timed
        bytes       that must move: each operand read once, each result written once (`tt.perf.cost`); may be null
        flops       floating-point operations; may be null
        samples     object: list of seconds of one call, by library. "triten" and each baseline have as many, and the
                    i-th of all were taken in one round, or are the medians of one process. Empty if nothing was
                    measured (`note` says why).
        bar         null, or object: peer, most: the largest accepted ratio to the baseline; peer null: seconds
        note        "" or a remark: "missing in torch: ...", "WRONG: ..." (results differ: not timed)
        derived     object, derived values (this reader recomputes them and ignores the stored ones):
            summary         object by library: median, low_quartile, high_quartile, interquartile_range
            ratios          object by baseline: ratio (median over the rounds of triten's time over the baseline's:
                            below 1 triten is faster), low, high (its confidence interval; null below six rounds)
            bytes_per_second, flops_per_second      of triten, null without bytes or flops
            limit           "copy", "matrix" or "call": which of them takes longest for this row; null without limits
            of_limit        that time over triten's median. Above 1: the operands stayed in a cache.
            verdict         of the bar: "met" or "MISSED" if the confidence interval of the bounded value lies on
                            one side of it, "unsure" if it does not; else the note

Other fields of the object belong to other commands: `python -m triten.perf gpu` adds its own.

`suite`, `operator`, `name`, `size`, `dtype`, `device` and `direction` together identify a row: `Row.key`. No
two rows of a file share it. A file is replaced atomically: a reader sees the last complete state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..refusal import RefusalError
from ..result_file import utc_now, write_whole
from .confidence import Interval, Summary, median_interval, paired_ratio_interval, summarise

FORMAT = "triten.perf.run"
VERSION = 1
OURS = "triten"
MET, MISSED, UNSURE = "met", "MISSED", "unsure"
DIRECTIONS = ("forward", "backward", "both")
CONFIDENCE = 0.95
# Maximum size of a file to read. A run of everything writes half of it.
MAX_BYTES = 1 << 26


class ResultFileError(RefusalError):
    """A file that is no result, is damaged, is of another version, or cannot be written; the message names it."""


class RowKey(NamedTuple):
    """Identity of a row in every file."""

    suite: str
    operator: str
    name: str
    size: str
    dtype: str
    device: str
    direction: str

    def __str__(self) -> str:
        parts = (self.name, self.size, self.dtype, "" if self.direction == "forward" else self.direction)
        return f"{self.suite}: {' '.join(part for part in parts if part)}"


class Bar(NamedTuple):
    """Largest accepted ratio of triten's time to a baseline's, or without a baseline the maximum seconds."""

    peer: str | None
    most: float


@dataclass(frozen=True)
class Limits:
    """Limits of the machine, measured in the same run."""

    copy_bytes_per_second: float | None = None
    matrix_flops_per_second: Mapping[str, float] = field(default_factory=dict)
    empty_call_seconds: float | None = None

    def least_seconds(self, nbytes: int | None, flops: int | None, dtype: str) -> tuple[str, float] | None:
        """Return the limit that takes longest for this work, and its time; None if no limit is known.

        For a dtype whose matmul was not measured, the fastest measured rate applies.
        """
        times = {}
        if self.empty_call_seconds:
            times["call"] = self.empty_call_seconds
        if nbytes and self.copy_bytes_per_second:
            times["copy"] = nbytes / self.copy_bytes_per_second
        if flops and self.matrix_flops_per_second:
            peaks = self.matrix_flops_per_second
            times["matrix"] = flops / peaks.get(dtype, max(peaks.values()))
        if not times:
            return None
        limit = max(times, key=lambda name: times[name])
        return limit, times[limit]


@dataclass(frozen=True)
class Row:
    """One workload as it was measured."""

    suite: str
    operator: str
    name: str
    size: str
    dtype: str
    device: str
    direction: str = "forward"
    threads: int = 1
    bytes: int | None = None
    flops: int | None = None
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    bar: Bar | None = None
    note: str = ""

    @property
    def key(self) -> RowKey:
        """Identity of the row in every file."""
        return RowKey(
            self.suite, self.operator, self.name, self.size, self.dtype, self.device, self.direction
        )

    @property
    def title(self) -> str:
        """Text that `--rows` matches."""
        return f"{self.suite}: {self.operator}: {self.name} {self.size} {self.dtype} {self.direction}"

    def summary(self, library: str = OURS) -> Summary | None:
        """Median and quartiles of a library's samples; None if it was not measured."""
        samples = self.samples.get(library)
        return summarise(samples) if samples else None

    def ratio(self, peer: str, confidence: float = CONFIDENCE) -> Interval | None:
        """Compute the ratio of triten's time to the baseline's, paired by rounds; None unless both were
        measured.
        """
        ours, theirs = self.samples.get(OURS), self.samples.get(peer)
        return paired_ratio_interval(ours, theirs, confidence) if ours and theirs else None

    @property
    def peers(self) -> list[str]:
        """The measured libraries beside triten."""
        return [name for name in self.samples if name != OURS]

    @property
    def verdict(self) -> str:
        """Result of the bar: ``met``, ``MISSED`` or ``unsure``; the note without a bar or without its
        baseline.

        For a ratio near the bar, two runs of one program may be ``met`` and ``unsure``, or ``MISSED`` and
        ``unsure``.

        Example:
            >>> from triten.perf.suite.results import Bar, Row
            >>> def of(bar):
            ...     samples = {"triten": [1.0, 1.1, 0.9, 1.2, 0.8, 1.3]}
            ...     return Row("s", "o", "n", "1", "float32", "cpu", samples=samples, bar=Bar(None, bar))
            >>> of(2.0).verdict, of(1.25).verdict, of(0.7).verdict
            ('met', 'unsure', 'MISSED')
        """
        return self.verdict_at(CONFIDENCE)

    def verdict_at(self, confidence: float) -> str:
        """Return the result of the bar at this confidence."""
        bar, interval = self.bar, self._barred(confidence)
        if bar is None or interval is None or self.note.startswith("WRONG"):
            return self.note
        if interval.low is None or interval.high is None or interval.low <= bar.most < interval.high:
            return UNSURE
        return MET if interval.high <= bar.most else MISSED

    def _barred(self, confidence: float) -> Interval | None:
        if self.bar is None:
            return None
        if self.bar.peer is not None:
            return self.ratio(self.bar.peer, confidence)
        ours = self.samples.get(OURS)
        return median_interval(ours, confidence) if ours else None

    def derived(self, limits: Limits, confidence: float) -> dict[str, Any]:
        """Return the values derived from the samples, as in the file's `derived`."""
        summaries = {name: summarise(samples) for name, samples in self.samples.items() if samples}
        ratios = {peer: ratio for peer in self.peers if (ratio := self.ratio(peer, confidence))}
        ours = summaries.get(OURS)
        least = limits.least_seconds(self.bytes, self.flops, self.dtype) if ours else None
        return {
            "summary": {
                name: each._asdict() | {"interquartile_range": each.interquartile_range}
                for name, each in summaries.items()
            },
            "ratios": {
                peer: {"ratio": each.estimate, "low": each.low, "high": each.high} for peer, each in ratios.items()
            },
            "bytes_per_second": self.bytes / ours.median if ours and self.bytes else None,
            "flops_per_second": self.flops / ours.median if ours and self.flops else None,
            "limit": least[0] if least else None,
            "of_limit": least[1] / ours.median if ours and least else None,
            "verdict": self.verdict_at(confidence),
        }  # fmt: skip


@dataclass
class Result:
    """A whole file."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    commit: Mapping[str, Any] | None = None
    command: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    rows: list[Row] = field(default_factory=list)
    complete: bool = False
    rehearsal: bool = False
    pairing: str | None = None
    started: str = field(default_factory=utc_now)
    updated: str = field(default_factory=utc_now)

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return float(self.settings.get("confidence", CONFIDENCE))

    @property
    def by_key(self) -> dict[RowKey, Row]:
        """Rows by key."""
        return {row.key: row for row in self.rows}

    def as_json(self) -> dict[str, Any]:
        """Return the file's object."""
        head = {"format": FORMAT, "version": VERSION}
        body = {name: getattr(self, name) for name in _RESULT_FIELDS if name not in ("limits", "rows")}
        return (
            head
            | body
            | {"limits": asdict(self.limits), "rows": [self._row_as_json(row) for row in self.rows]}
        )

    def _row_as_json(self, row: Row) -> dict[str, Any]:
        written = {name: getattr(row, name) for name in _ROW_FIELDS} | {
            "samples": dict(row.samples),
            "bar": row.bar._asdict() if row.bar else None,
        }
        return written | {"derived": row.derived(self.limits, self.confidence)}

    def write(self, path: Path) -> None:
        """Replace the file at once. Raises OSError if that cannot be done."""
        self.updated = utc_now()
        write_whole(path, json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")


class ResultWriter:
    """A result that is written after each row, so that whatever cuts the run off leaves a valid file.

    Every method raises ResultFileError if the file cannot be written.
    """

    def __init__(self, result: Result, path: Path | None) -> None:
        self.result = result
        self.path = path
        self._write()

    def add(self, row: Row) -> None:
        """Store a finished row. Raise ValueError for a row whose key already exists."""
        if row.key in self.result.by_key:
            raise ValueError(f"two rows are named {row.key}")
        self.result.rows.append(row)
        self._write()

    def finish(self) -> None:
        """Say that all rows are there."""
        self.result.complete = True
        self._write()

    def _write(self) -> None:
        write_result(self.result, self.path)


def write_result(result: Result, path: Path | None) -> None:
    """Write the file, if one was asked for. Raises ResultFileError if it cannot be written."""
    if path is None:
        return
    try:
        result.write(path)
    except OSError as error:
        raise ResultFileError(f"cannot write {path}: {error.strerror}") from None


def read_results(path: Path) -> Result:
    """Read the result in a file.

    Raises:
        ResultFileError: if there is no such file, it is no result, is damaged, or was written by an older or newer
            version of this format.
    """
    try:
        with path.open("rb") as file:
            # In parts: a request for so much at once takes the memory for it.
            content = bytearray()
            while len(content) <= MAX_BYTES and (part := file.read(1 << 16)):
                content += part
    except FileNotFoundError:
        raise ResultFileError(f"{path}: no such file") from None
    except OSError as error:
        raise ResultFileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ResultFileError(f"{path}: no result file: it is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ResultFileError(
            f"{path}: damaged, or no result file: not UTF-8 at byte {error.start}"
        ) from None
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ResultFileError(f"{path}: damaged, or no result file: not JSON: {error}") from None
    return _Reader(path).result(record)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


Check = Callable[[Any], bool]

# No machine counts or measures more, and with these bounds no quotient or sum of a file's numbers overflows.
MAX_COUNTED = 2**63 - 1
MIN_MEASURED, MAX_MEASURED = 1e-30, 1e30


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNTED


def _is_positive(value: Any) -> bool:
    # Compared as it is: Python's integers know no largest float, and NaN is in no interval.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and MIN_MEASURED <= value <= MAX_MEASURED
    )


def _is_share(value: Any) -> bool:
    return _is_positive(value) and value < 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


_RESULT_FIELDS: dict[str, tuple[str, Check]] = {
    "complete": ("true or false", _is_flag),
    "rehearsal": ("true or false", _is_flag),
    "started": ("a moment", _is_text),
    "updated": ("a moment", _is_text),
    "command": ("a list of strings", lambda value: isinstance(value, list) and all(map(_is_text, value))),
    "machine": ("an object", _is_object),
    "versions": ("an object of strings", lambda value: _is_object(value) and all(map(_is_text, value.values()))),
    "commit": ("an object with a hash, or null",
               lambda value: value is None or (_is_object(value) and _is_text(value.get("hash")))),
    "settings": ("an object whose confidence is between 0 and 1", lambda value: _is_object(value)
                 and _is_share(value.get("confidence", CONFIDENCE))),
    "pairing": ("a string or null", _or_null(_is_text)),
    "limits": ("an object", _is_object),
    "rows": ("a list", lambda value: isinstance(value, list)),
}  # fmt: skip
_LIMIT_FIELDS: dict[str, tuple[str, Check]] = {
    "copy_bytes_per_second": ("a positive number or null", _or_null(_is_positive)),
    "matrix_flops_per_second": (
        "an object of positive numbers", lambda value: _is_object(value) and all(map(_is_positive, value.values()))
    ),
    "empty_call_seconds": ("a positive number or null", _or_null(_is_positive)),
}  # fmt: skip
_ROW_FIELDS: dict[str, tuple[str, Check]] = {
    **dict.fromkeys(("suite", "operator", "name", "size", "dtype", "device"), ("a string", _is_text)),
    "direction": (f"one of {', '.join(DIRECTIONS)}", lambda value: value in DIRECTIONS),
    "threads": ("a positive whole number", lambda value: _is_count(value) and value > 0),
    "bytes": ("a whole number below 2**63, or null", _or_null(_is_count)),
    "flops": ("a whole number below 2**63, or null", _or_null(_is_count)),
    "samples": ("an object", _is_object),
    "bar": ("an object with peer and most, or null", lambda value: value is None or (
        _is_object(value) and set(value) == {"peer", "most"} and _or_null(_is_text)(value["peer"])
        and _is_positive(value["most"]))),
    "note": ("a string", _is_text),
}  # fmt: skip


class _Reader:
    """Validator of a file's object, which reports each violation of the format."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def result(self, record: Any) -> Result:
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ResultFileError(
                f'{self._path}: no result of `python -m triten.perf run`: "format" is not "{FORMAT}"'
            )
        version = record.get("version")
        if not _is_count(version):
            raise self._damage("version", "a whole number", version)
        if version != VERSION:
            age = "older" if version < VERSION else "newer"
            remedy = "measure again" if version < VERSION else "read it with a newer triten"
            raise ResultFileError(
                f"{self._path}: version {version} of the format is {age} than {VERSION}, which is read here: {remedy}"
            )
        head = self._fields(record, _RESULT_FIELDS, "")
        limits = Limits(**self._fields(head.pop("limits"), _LIMIT_FIELDS, "limits."))
        rows = [self._row(row, f"rows[{index}]") for index, row in enumerate(head.pop("rows"))]
        keys: set[RowKey] = set()
        for index, row in enumerate(rows):
            if row.key in keys:
                raise self._damage(f"rows[{index}]", "a row of its own", str(row.key))
            keys.add(row.key)
        return Result(**head, limits=limits, rows=rows)

    def _row(self, record: Any, path: str) -> Row:
        if not isinstance(record, dict):
            raise self._damage(path, "an object", record)
        fields = self._fields(record, _ROW_FIELDS, f"{path}.")
        lengths = set()
        for library, samples in fields["samples"].items():
            samples_path = f"{path}.samples.{library}"
            if not isinstance(samples, list):
                raise self._damage(samples_path, "a list of seconds", samples)
            for index, sample in enumerate(samples):
                if not _is_positive(sample):
                    raise self._damage(f"{samples_path}[{index}]", "positive seconds", sample)
            lengths.add(len(samples))
        if len(lengths) > 1:
            raise self._damage(f"{path}.samples", "as many of each library", sorted(lengths))
        if fields["bar"] is not None:
            fields["bar"] = Bar(**fields["bar"])
        return Row(**fields)

    def _fields(
        self, record: Mapping[str, Any], fields: Mapping[str, tuple[str, Check]], path: str
    ) -> dict[str, Any]:
        taken = {}
        for name, (expected, check) in fields.items():
            if name not in record:
                raise ResultFileError(f"{self._path}: damaged: {path}{name} is missing")
            if not check(record[name]):
                raise self._damage(f"{path}{name}", expected, record[name])
            taken[name] = record[name]
        return taken

    def _damage(self, path: str, expected: str, value: Any) -> ResultFileError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return ResultFileError(f"{self._path}: damaged: {path}: expected {expected}, got {shown}")
