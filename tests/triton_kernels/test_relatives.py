"""Plans for devices that take the kernels of another design, without compilation."""

import json
import os
import subprocess
import sys

import pytest

from triten.runtime.cuda.device_properties import design_of
from triten.runtime.cuda.occupancy import RELATIVES, TARGETS

PLANNING = """
import json, os, sys
os.environ["TRITEN_TUNING_STORE"] = "0"
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import RELATIVES
from triten.perf.ahead_of_time import samples
from triten.perf.ahead_of_time.recording import RecordingDriver, record
cuda._driver = RecordingDriver(RELATIVES[int(sys.argv[1])])
entries, faults = record(samples, cuda._driver)
names = sorted({entry.request.kernel.rpartition(":")[2] for entry in entries})
print(json.dumps({"faults": faults, "names": names}))
"""


def test_relatives_are_like_a_target() -> None:
    for capability, device in RELATIVES.items():
        assert capability not in TARGETS
        like = TARGETS[design_of(capability)]
        assert {(t, name) for t, name in like.matrix.items() if t != "fp64"} <= set(device.matrix.items())
        assert device.registers == like.registers
        assert device.shared_per_block <= like.shared_per_block
        assert device.tensor_memory == like.tensor_memory


@pytest.mark.parametrize("capability", RELATIVES)
def test_every_sample_is_planned(capability: int) -> None:
    """Plan every sample; on sm_103 and sm_120 matmuls once had no tile, and every call raised an error."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLANNING, str(capability)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["faults"] == []
    bulk = {"matmul_persistent", "attention_bulk", "convolve_bulk"}
    assert bulk & set(found["names"]) == (bulk if design_of(capability) == 100 else set())
    assert {"matmul", "attention", "convolve", "sort_rows", "fused_adam"} <= set(found["names"])
