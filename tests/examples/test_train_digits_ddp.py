"""The example of several processes learns what one process learns."""

import re
import subprocess
import sys
from pathlib import Path

from triten.tests.distributed.ranks import MPIEXEC, needs_mpi

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "distributed" / "train_digits_ddp.py"


@needs_mpi
def test_two_processes_learn_the_digits() -> None:
    done = subprocess.run(
        [str(MPIEXEC), "-n", "2", sys.executable, "-P", str(SCRIPT), "--epochs", "4"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = re.search(r"test accuracy: (\d+\.\d) %", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 95.0
