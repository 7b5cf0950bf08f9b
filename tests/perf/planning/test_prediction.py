"""The predictions of `plan` for the CPU are close to this machine's measurements.

Other work on the machine may slow either side, so the test interleaves both a few times: a wrong model is
wrong each time. The process has one thread, BLAS included, because threads that wait for each other on busy
cores take arbitrary time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.perf.planning.prediction import forget_measurements

PROGRAMS = Path(__file__).parent / "predicted_programs.py"
TRIES = 5
FACTOR = 2.0


@pytest.mark.parametrize("program", ["digits", "transformer", "residual_network", "small_calls"])
def test_the_predicted_time_is_within_a_factor_of_the_measured(program: str) -> None:
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-P", str(PROGRAMS), program, str(TRIES)]
    found = []
    with subprocess.Popen(command, env=os.environ | one_thread, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            predicted, measured = map(float, line.split())
            found.append(f"{1e3 * predicted:.3f} ms for {1e3 * measured:.3f}")
            if 1 / FACTOR <= predicted / measured <= FACTOR:
                process.kill()
                return
    pytest.fail(f"predicted for measured: {'; '.join(found)}")


def test_measurements_are_kept_by_the_number_of_threads_until_they_are_forgotten() -> None:
    x = tt.zeros(100, 100)

    def program(x: tt.Tensor) -> tt.Tensor:
        return (x.exp() + 1.0).sum()

    forget_measurements()
    first = tt.perf.plan(program, x, device="cpu")
    assert tt.perf.plan(program, x, device="cpu") == first
    before = tt.get_num_threads()
    try:
        tt.set_num_threads(before + 1)
        other = tt.perf.plan(program, x, device="cpu")
    finally:
        tt.set_num_threads(before)
    assert f"{before + 1} threads" in str(other)
    assert other.seconds != first.seconds
    assert tt.perf.plan(program, x, device="cpu") == first
    forget_measurements()
    assert tt.perf.plan(program, x, device="cpu").seconds != first.seconds
