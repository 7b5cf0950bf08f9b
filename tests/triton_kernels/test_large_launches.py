"""Every kernel family plans launches that a GPU takes at the largest sizes that fit into its memory."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from triten.perf.ahead_of_time.compilation import compiling_environment
from triten.tests.triton_kernels import large_launches
from triten.tests.triton_kernels.large_launches import CASES, INT32_MAX, CheckedKernel
from triten.triton_kernels.normalization.channel_norm_kernels import normalise_channels

PROGRAM = "triten.tests.triton_kernels.large_launches"


@pytest.fixture(scope="module")
def faults_by_case() -> dict[str, list[str]]:
    """Plan all cases in one process, since a process has one driver."""
    # Not as in the interpreter, which plans other blocks.
    done = subprocess.run(
        [sys.executable, "-P", "-m", PROGRAM], env=compiling_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert list(found) == list(CASES)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_takes_the_launches(case: str, faults_by_case: dict[str, list[str]]) -> None:
    assert faults_by_case[case] == []


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> CheckedKernel:
    """Return a recorded kernel with 32-bit offsets: a pointer and a size."""
    request = {
        "kernel": normalise_channels,
        "constants": {"INDEX": "int32"},
        "signature": {"x": "*bf16", "n": "i32"},
    }
    monkeypatch.setattr(large_launches, "faults", [])
    monkeypatch.setattr(large_launches, "sizes", {64: 2 * 2**31, 128: 2 * 2**31 + 2})
    return CheckedKernel(SimpleNamespace(launched=[], grids=[]), request, "normalise_channels")  # type: ignore[arg-type]


def test_a_grid_beyond_the_limits_is_a_fault(checked: CheckedKernel) -> None:
    checked.launch((2**31 - 1, 65535, 65535), 0, 64, 1)
    assert large_launches.faults == []
    for grid in ((1, 65536, 1), (1, 1, 65536), (2**31, 1, 1)):
        with pytest.raises(RuntimeError, match="expected a grid of at most"):
            checked.launch(grid, 0, 64, 1)


def test_offsets_of_32_bits_are_a_fault_beyond_32_bits(checked: CheckedKernel) -> None:
    checked.launch((1, 1, 1), 0, 64, INT32_MAX)
    assert large_launches.faults == []
    checked.launch((1, 1, 1), 0, 128, INT32_MAX + 1)
    assert large_launches.faults == [
        "normalise_channels: offsets of 32 bits into 2147483649 elements of x",
        "normalise_channels: n is 32 bits wide, but 2147483648",
    ]


def test_an_error_while_planning_is_a_fault() -> None:
    def case() -> None:
        raise NotImplementedError("no kernel")

    driver = SimpleNamespace(launched=[], grids=[])
    assert large_launches.faults_of(driver, case) == ["NotImplementedError: no kernel"]  # type: ignore[arg-type]
    assert large_launches.faults_of(driver, lambda: None) == ["nothing was launched"]  # type: ignore[arg-type]
