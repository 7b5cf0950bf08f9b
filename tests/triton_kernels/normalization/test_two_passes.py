"""Rows that are read twice: the compiled loads keep them in the caches for the second pass, and only for it."""

import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

COMPILING = """
import json, sys
from triten.perf.ahead_of_time.recording import RecordingDriver, request_for
from triten.perf.ahead_of_time.request import decode, find
from triten.perf.ahead_of_time.sample import empty, gradients, tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.triton.compile import compile_kernel

F = tt.nn.functional
driver = cuda._driver = RecordingDriver(KNOWN[80])
x, target = empty(64, 65536, dtype="bfloat16"), empty(64, dtype="int64")
CALLS = {
    "softmax": lambda: gradients(lambda a: tt.softmax(a, 1), x),
    "rms_norm": lambda: gradients(lambda a: F.rms_norm(a, [65536]), x),
    "smoothed": lambda: F.cross_entropy(x, target, label_smoothing=0.1),
    "read once": lambda: F.cross_entropy(x, target),
}
for call, run in CALLS.items():
    driver.launched.clear()
    run()
    for noted in driver.launched:
        request = request_for(noted, driver.target, [])
        name = request.kernel.rpartition(":")[2]
        if name not in ("softmax", "softmax_backward", "normalise_rows", "normalise_rows_backward", "cross_entropy"):
            continue
        constants = {key: decode(value) for key, value in request.constants.items()}
        compiled = compile_kernel(
            find(request.kernel), request.signature, constants, frozenset(request.divisible), 80, request.options
        )
        print(json.dumps([call, name, compiled.asm["ptx"]]))
"""


def test_the_first_pass_stays_cached_until_the_second():
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    environment |= {"TRITEN_TUNING_STORE": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMPILING], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for line in done.stdout.splitlines():
        call, kernel, ptx = json.loads(line)
        vectors = re.findall(r"ld\.global(\S*)\.v4\.b32", ptx)
        found[call, kernel] = [re.search(r"evict_\w+|$", each)[0] for each in vectors]
    twice = ["evict_last", "evict_first"]
    assert found["read once", "cross_entropy"] == [""]
    assert found["smoothed", "cross_entropy"] == twice
    assert found["softmax", "softmax"] == twice
    assert found["rms_norm", "normalise_rows"] == [each for each in twice for _ in range(2)]
    # The gradient and the row.
    assert found["softmax", "softmax_backward"] == [each for each in twice for _ in range(2)]
    assert found["rms_norm", "normalise_rows_backward"] == [each for each in twice for _ in range(4)]
