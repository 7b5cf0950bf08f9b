"""Statistics of a mapped file are those of the same numbers in memory."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import triten as tt

Load = Callable[[str], ModuleType]


def test_parts_give_the_statistics_of_the_whole(
    load_example: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load_example("memory_mapped")
    monkeypatch.setattr(example, "PART", 300)
    path = tmp_path / "measurements.f32"
    example.write_file(path, 1000)
    rows = np.fromfile(path, np.float32).reshape(1000, 8).astype(np.float64)
    mapped = tt.from_file(str(path), size=8000, dtype=tt.float32).view(1000, 8)
    moments = example.moments_of(mapped, "cpu")
    assert moments.count == 1000
    np.testing.assert_allclose(moments.mean.numpy(), rows.mean(0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(moments.covariance.numpy(), np.cov(rows.T), rtol=1e-6)
    np.testing.assert_array_equal(moments.low.numpy(), rows.min(0))
    np.testing.assert_array_equal(moments.high.numpy(), rows.max(0))
    medians = example.medians_of(mapped, moments, "cpu").numpy()
    assert np.all(np.abs(medians - np.median(rows, 0)) <= (rows.max(0) - rows.min(0)) / 500)


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc"
)
def test_the_file_is_not_held_in_memory(load_example: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("memory_mapped").main(["--megabytes", "32"])
    printed = capsys.readouterr().out
    assert len(re.findall(r"^ +\d (?: +-?\d+\.\d{3}){6}$", printed, re.MULTILINE)) == 8
    assert printed.splitlines()[-1].startswith("1,048,576 rows, 32 MB, in ")
