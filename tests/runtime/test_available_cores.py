"""Cores by affinity mask and CPU quota."""

import os
from pathlib import Path

import pytest

from triten.runtime import available_cores as module
from triten.runtime.available_cores import available_cores

CORES = 8


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)), raising=False)


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "wanted"),
    [
        ("", {}, CORES),
        ("0::/\n", {"cpu.max": "max 100000\n"}, CORES),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "3200000 100000\n"}, CORES),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        ("0::/not/mounted/here\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/../other\n", {"cpu.max": "500000 100000\n"}, 5),
        ("0::/\n", {"cpu.max": "broken"}, CORES),
        ("4:cpu,x:/a\n", {"cpu,x/a/cpu.cfs_quota_us": "250000", "cpu,x/a/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CORES),
        ("4:cpuset:/\n", {"cpuset/cpu.cfs_quota_us": "100000", "cpuset/cpu.cfs_period_us": "100000"}, CORES),
    ],
)  # fmt: skip
def test_the_smaller_of_mask_and_quota(
    groups: str, files: dict[str, str], wanted: int, tmp_path: Path
) -> None:
    written(tmp_path, {"cgroup": groups, **{f"mount/{name}": text for name, text in files.items()}})
    assert available_cores(str(tmp_path / "cgroup"), str(tmp_path / "mount")) == wanted


def test_without_a_mask_the_machine_s_cores_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    assert available_cores(str(tmp_path / "none"), str(tmp_path)) == 3
