"""Result files: named by device and day, a section for each command, never half written."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from triten.perf import result_file
from triten.perf.result_file import device_slug, read_result, result_path, source_version, write_section


def test_a_device_and_a_day_name_a_file() -> None:
    path = result_path("NVIDIA H100 80GB HBM3", datetime(2030, 1, 2, 23, 59, tzinfo=UTC))
    assert path.parts[-3:] == ("perf", "results", "nvidia-h100-80gb-hbm3-2030-01-02.json")
    assert device_slug("///") == "unknown"


def test_sections_live_beside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    write_section(path, "check", {"a": 1})
    write_section(path, "bench", {"b": 2})
    write_section(path, "check", {"a": 3})
    assert read_result(path) == {"check": {"a": 3}, "bench": {"b": 2}}
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


def test_a_write_that_fails_leaves_the_last_state(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_section(path, "check", {"a": 1})
    with pytest.raises(TypeError):
        write_section(path, "check", {"a": object()})
    assert read_result(path) == {"check": {"a": 1}}


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert read_result(path) == {}
    path.write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="expected a JSON object of sections, got list"):
        read_result(path)


def test_the_source_is_named_with_and_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(result_file, "ROOT", tmp_path)
    first = source_version()
    assert first.startswith("files ")
    assert source_version() == first
    (tmp_path / "a.py").write_text("x = 2")
    assert source_version() != first


@pytest.mark.parametrize(
    "data", [b"{", b"\xff", b"[" * 100_000, b"1" * 5000], ids=["part", "bytes", "deep", "long"]
)
def test_what_is_no_json_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"r.json: damaged, or no result file: not JSON"):
        read_result(path)
