"""The GPU check classifies fatal device errors correctly."""

import pytest
from gpu_check.device_errors import LOST, is_fatal, is_missing_library

import triten as tt
from triten.runtime.cuda.driver import is_simulated


@pytest.mark.parametrize("code", sorted(LOST))
def test_a_kernel_that_ran_wrong_takes_the_context_with_it(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("TRITEN_CUDA", "")
    assert not is_simulated()
    assert is_fatal(tt.AcceleratorError("CUDA error: misaligned address", code))
    monkeypatch.setenv("TRITEN_CUDA", "emulate")
    assert not is_fatal(tt.AcceleratorError("CUDA error: misaligned address", code))


def test_other_errors_do_not() -> None:
    for error in (RuntimeError("no"), tt.AcceleratorError("CUDA error: invalid argument", 1)):
        assert not is_fatal(error)
    assert is_fatal(RuntimeError("CUDA error: an illegal memory access was encountered"))


def test_a_library_that_is_missing() -> None:
    assert is_missing_library(RuntimeError("comes with the CUDA toolkit: pip install 'cupy-cuda13x[ctk]'"))
    assert not is_missing_library(RuntimeError("no"))
