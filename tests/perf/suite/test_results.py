"""The result file reads back as written; an invalid file is refused with the place of the error."""

import json
import tracemalloc
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from triten.perf.suite.results import (
    Bar,
    Limits,
    Result,
    ResultFileError,
    ResultWriter,
    Row,
    read_results,
)

LIMITS = Limits(1e9, {"float32": 1e10, "float64": 5e9}, 1e-7)
ROW = Row(
    "elementwise", "add", "a + b", "1000", "float32", "cpu", threads=2, bytes=12000, flops=1000,
    samples={"triten": [2e-5] * 7, "torch": [1e-5] * 7}, bar=Bar("torch", 1.0),
)  # fmt: skip


def a_result(*rows: Row) -> Result:
    return Result({"host": "h"}, {"triten": "0"}, {"confidence": 0.95}, limits=LIMITS, rows=list(rows))


def written(tmp_path: Path, *rows: Row) -> tuple[Path, dict[str, Any]]:
    path = tmp_path / "r.json"
    a_result(*rows).write(path)
    return path, json.loads(path.read_text())


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    rows = (ROW, Row("overhead", "t", "a.T", "16x16", "float32", "cpu", note="missing in torch: no T"))
    path, _ = written(tmp_path, *rows)
    found = read_results(path)
    assert found.rows == list(rows)
    assert found.limits == LIMITS
    assert found.as_json()["rows"] == a_result(*rows).as_json()["rows"]


def test_what_follows_from_the_samples_stands_beside_them(tmp_path: Path) -> None:
    _, found = written(tmp_path, ROW)
    derived = found["rows"][0]["derived"]
    assert derived["summary"]["torch"] == {
        "median": 1e-5, "low_quartile": 1e-5, "high_quartile": 1e-5, "interquartile_range": 0.0,
    }  # fmt: skip
    assert derived["ratios"] == {"torch": {"ratio": 2.0, "low": 2.0, "high": 2.0}}
    assert derived["bytes_per_second"] == pytest.approx(6e8)
    assert derived["flops_per_second"] == pytest.approx(5e7)
    assert (derived["limit"], derived["verdict"]) == ("copy", "MISSED")
    assert derived["of_limit"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("nbytes", "flops", "dtype", "limit", "seconds"),
    [
        (None, None, "float32", "call", 1e-7),
        (10**6, 10**6, "float32", "copy", 1e-3),
        (10**6, 10**8, "float32", "matrix", 1e-2),
        (10**6, 10**8, "float64", "matrix", 2e-2),
        (10**6, 10**8, "bfloat16", "matrix", 1e-2),
    ],
)
def test_the_limit_is_what_takes_longest(
    nbytes: int | None, flops: int | None, dtype: str, limit: str, seconds: float
) -> None:
    assert LIMITS.least_seconds(nbytes, flops, dtype) == (limit, pytest.approx(seconds))
    assert Limits().least_seconds(nbytes, flops, dtype) is None


def test_every_row_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    writer = ResultWriter(a_result(), path)
    assert read_results(path).rows == []
    writer.add(ROW)
    assert (read_results(path).rows, read_results(path).complete) == ([ROW], False)
    with pytest.raises(ValueError, match="two rows are named elementwise: a \\+ b 1000 float32"):
        writer.add(ROW)
    writer.finish()
    assert read_results(path).complete
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROW)
    tracemalloc.start()
    try:
        read_results(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 21
    finally:
        tracemalloc.stop()


def test_a_write_that_fails_leaves_the_last_state(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROW)
    broken = a_result(ROW)
    broken.machine = {"host": object()}
    with pytest.raises(TypeError):
        broken.write(path)
    assert read_results(path).rows == [ROW]


def changed(found: dict[str, Any], place: list[Any], value: Any) -> dict[str, Any]:
    found = deepcopy(found)
    inner = found
    for step in place[:-1]:
        inner = inner[step]
    if value is KeyError:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return found


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["format"], "other", '"format" is not "triten.perf.run"'),
        (["version"], 0, "version 0 of the format is older than 1"),
        (["version"], 2, "version 2 of the format is newer than 1"),
        (["version"], "1", "version: expected a whole number, got '1'"),
        (["rows"], {}, "rows: expected a list, got {}"),
        (["rows", 0], 3, r"rows\[0\]: expected an object, got 3"),
        (["rows", 0, "samples"], KeyError, r"rows\[0\].samples is missing"),
        (["rows", 0, "samples", "torch", 2], "x", r"rows\[0\].samples.torch\[2\]: expected positive seconds, got 'x'"),
        (["rows", 0, "samples", "torch", 2], 0.0, "expected positive seconds, got 0.0"),
        (["rows", 0, "samples", "torch", 2], True, "expected positive seconds, got True"),
        (["rows", 0, "samples", "torch"], [1.0], r"rows\[0\].samples: expected as many of each library, got \[1, 7\]"),
        (["rows", 0, "samples", "torch"], 1.0, "expected a list of seconds, got 1.0"),
        (["rows", 0, "direction"], ["up"], "direction: expected one of forward, backward, both"),
        (["rows", 0, "bytes"], -1, r"rows\[0\].bytes: expected a whole number below 2\*\*63, or null, got -1"),
        (["rows", 0, "bytes"], 2**63, r"rows\[0\].bytes: expected a whole number below 2\*\*63, or null, got 92233"),
        (["rows", 0, "flops"], 10**400, r"rows\[0\].flops: expected a whole number below 2\*\*63, or null, got 1000"),
        (["rows", 0, "samples", "torch", 2], 10**400, "expected positive seconds, got 1000"),
        (["rows", 0, "samples", "torch", 2], 1e300, r"expected positive seconds, got 1e\+300"),
        (["rows", 0, "samples", "torch", 2], 5e-324, "expected positive seconds, got 5e-324"),
        (["rows", 0, "bar"], {"peer": "torch", "most": 10**400}, "bar: expected an object with peer and most"),
        (["limits", "empty_call_seconds"], 10**400, "limits.empty_call_seconds: expected a positive number"),
        (["rows", 0, "bar"], {"peer": "torch"}, "bar: expected an object with peer and most"),
        (["rows", 0, "threads"], 0, "threads: expected a positive whole number, got 0"),
        (["limits", "copy_bytes_per_second"], "fast", "limits.copy_bytes_per_second: expected a positive number"),
        (["limits", "matrix_flops_per_second"], [1], "limits.matrix_flops_per_second: expected an object"),
        (["settings"], {"confidence": "high"}, "settings: expected an object whose confidence"),
        (["commit"], {"hash": 1}, "commit: expected an object with a hash, or null"),
        (["command"], "run", "command: expected a list of strings"),
        (["machine"], KeyError, "damaged: machine is missing"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_refused_with_its_place(
    tmp_path: Path, place: list[Any], value: Any, message: str
) -> None:
    path, found = written(tmp_path, ROW)
    path.write_text(json.dumps(changed(found, place, value)))
    with pytest.raises(ResultFileError, match=message) as refusal:
        read_results(path)
    assert str(refusal.value).startswith(str(path))


def test_the_largest_numbers_that_are_read_can_be_derived_from(tmp_path: Path) -> None:
    path, found = written(tmp_path, ROW)
    for samples in ([1e30] * 7, [1e-30] * 7):
        found["rows"][0] |= {"bytes": 2**63 - 1, "flops": 2**63 - 1, "samples": {"triten": samples}}
        path.write_text(json.dumps(found))
        read_results(path).write(path)  # refuses what is no JSON: infinities


def test_two_rows_of_one_name_are_damage(tmp_path: Path) -> None:
    path, found = written(tmp_path, ROW)
    path.write_text(json.dumps(found | {"rows": found["rows"] * 2}))
    with pytest.raises(ResultFileError, match=r"rows\[1\]: expected a row of its own"):
        read_results(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"[1]", "no result of `python -m triten.perf run`"),
        (b"NaN", "NaN is no JSON"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ResultFileError, match=message):
        read_results(path)
    with pytest.raises(ResultFileError):
        read_results(tmp_path)


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROW)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ResultFileError, match="damaged, or no result file: not JSON"):
        read_results(path)


def test_a_wrong_row_meets_no_bar() -> None:
    row = Row(
        "s",
        "o",
        "n",
        "1",
        "float32",
        "cpu",
        samples={"triten": [1.0] * 7, "torch": [2.0] * 7},
        bar=Bar("torch", 1.0),
    )
    assert row.verdict == "met"
    assert Row(**{**row.__dict__, "note": "WRONG: differs"}).verdict == "WRONG: differs"
    assert Row(**{**row.__dict__, "bar": Bar("torch", 0.4)}).verdict == "MISSED"


def test_a_bar_without_a_peer_is_seconds() -> None:
    row = Row("s", "o", "n", "1", "float32", "cpu", samples={"triten": [1.0] * 7}, bar=Bar(None, 1.0))
    assert row.verdict == "met"
    assert Row(**{**row.__dict__, "bar": Bar(None, 0.9)}).verdict == "MISSED"
