"""Matmuls with epilogues, compiled for real targets: no register spills, and vectorized stores of rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

PROGRAM = """
import json
import sys
from pathlib import Path

import triton
import triten as tt
from triten.perf.ahead_of_time.disassembly import count_instructions, disassemble
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.recording_driver import RecordingDriver
from triten.runtime.cuda.triton.compile import chosen_options, compile_kernel

F = tt.nn.functional


def layer(x, w, b, r):
    return r + F.gelu(F.linear(x, w, b))


def block(x, w, s, r):
    return F.relu(F.batch_norm(F.conv2d(x, w, padding=1), s, s, s, s) + r)


def quantized(x, w, s, b):
    return F.relu(F.linear(x, w.to(x.dtype) * s, b))


def long(x, w, b, r):
    return layer(x, w, b, r)


def large(x, w, b, r):
    y = F.silu(F.linear(x, w, b))
    return y, y + r


def pixels(x, w, b, r):
    return F.gelu(F.conv2d(x, w, b, padding=1)) * r + r


def depthwise(x, w, s, r):
    return F.relu6(F.batch_norm(F.conv2d(x, w, padding=1, groups=96), s, s, s, s)) + r


def depthwise_planes(x, w, s, r):
    return depthwise(x, w, s, r)


def drawn(x, w, b, r):
    left, mask = tt.native_dropout(F.relu(F.linear(x, w, b)), 0.1, True)
    return left + r, mask


def drawn_of_floats(x, w, b, r):
    return drawn(x, w, b, r)


def dense(x, w, s, t):
    y = F.conv2d(F.relu(F.batch_norm(x, s, s, s, s)), w)
    return F.relu(F.batch_norm(y, t, t, t, t))


def dense_planes(x, w, s, t):
    return dense(x, w, s, t)


def laid_out(x, w, s, v):
    return F.conv2d(F.relu(F.batch_norm(x, s, s, s, s)), w.to(x.dtype) * v, padding=1)


def last(*given):
    return [each.to(memory_format=tt.channels_last) if each.ndim == 4 else each for each in given]


def empty(*shape, dtype=tt.bfloat16):
    return tt.empty(*shape, device="cuda", dtype=dtype)


tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
found = {}
for target in [each for each in KNOWN.values() if each.name == sys.argv[1]]:
    driver = cuda._driver = RecordingDriver(target)
    tt.compiler.reset()
    calls = {
        large: (empty(4096, 4096), empty(4096, 4096), empty(4096), empty(4096, 4096)),
        layer: (empty(2048, 256), empty(2048, 256), empty(2048), empty(2048, 2048)),
        block: (empty(8, 64, 16, 16), empty(64, 64, 3, 3), empty(64), empty(8, 64, 16, 16)),
        quantized: (empty(384, 1024), empty(5120, 1024, dtype=tt.int8), empty(5120, 1), empty(5120)),
        long: (empty(16, 8192), empty(512, 8192), empty(512), empty(16, 512)),
        pixels: last(empty(64, 256, 32, 32), empty(264, 256, 3, 3), empty(264), empty(64, 264, 32, 32)),
        dense: last(empty(16, 512, 28, 28), empty(128, 512, 1, 1), empty(512), empty(128)),
        dense_planes: (empty(16, 512, 32, 32), empty(128, 512, 1, 1), empty(512), empty(128)),
        laid_out: (
            empty(16, 256, 28, 28), empty(128, 256, 3, 3, dtype=tt.int8), empty(256), empty(128, 1, 1, 1),
        ),
        drawn: (empty(4096, 4096), empty(1024, 4096), empty(1024), empty(4096, 1024)),
        drawn_of_floats: [
            empty(*each, dtype=tt.float32) for each in ((2048, 256), (2048, 256), (2048,), (2048, 2048))
        ],
        depthwise: last(empty(64, 96, 56, 56), empty(96, 1, 3, 3), empty(96), empty(64, 96, 56, 56)),
        depthwise_planes: (empty(64, 96, 56, 56), empty(96, 1, 3, 3), empty(96), empty(64, 96, 56, 56)),
    }
    for function, operands in calls.items():
        if (function is block or function is large) and target.name == "sm_80":
            continue
        if function is not large and target.name == "sm_100":
            continue
        driver.launched.clear()
        tt.compile(function, fullgraph=True)(*operands)
        request = driver.launched[0 if function is laid_out else -1]
        binary = compile_kernel(
            request["kernel"], request["signature"], request["constants"], request["divisible"],
            target.capability, chosen_options(request["options"]),
        )
        instructions = count_instructions(disassemble(binary.cubin, tools)[0])
        widest = max(instructions.widths.get("STG", {0: 0}))
        found[function.__name__] = [cuda.kernel_name(request["kernel"]), instructions.spills, widest]
print(json.dumps(found))
"""


BLOCK = "convolution_native_batch_norm_legit_no_training_add_relu"
DENSE = "native_batch_norm_legit_no_training_3_more_relu"
DEPTHWISE = "convolution_native_batch_norm_legit_no_training_clamp_add"
BOTH = {
    "layer": ("addmm_gelu_add", 128),
    "long": ("addmm_gelu_add", 64),  # four elements a lane
    "pixels": ("convolution_gelu_mul_add", 128),
    "laid_out": ("to_copy_3_more_convolution", 128),
    "drawn": ("addmm_relu_native_dropout_add", 128),
    "drawn_of_floats": ("addmm_relu_native_dropout_add", 128),
    "dense": (DENSE, 128),
    "dense_planes": (DENSE, 128),
    "depthwise": (DEPTHWISE, 128),
    # A plane's rows are no whole vectors for the compiler; neighbouring lanes have neighbouring pixels.
    "depthwise_planes": (DEPTHWISE, 16),
}
KERNELS = {
    "sm_80": BOTH | {"quantized": ("addmm_relu", 128)},  # there int8 would be added up in another order
    "sm_90": BOTH
    | {
        "block": (BLOCK, 128),
        "quantized": ("to_copy_mul_addmm_relu", 128),
        "large": ("addmm_silu_add", 32),  # two elements a lane lie side by side
    },
    "sm_100": {"large": ("addmm_silu_add", 128)},
}
"""By target and function: its kernel, and the bits of its widest stores."""


@pytest.mark.parametrize("target", KERNELS)
def test_nothing_spills(tmp_path: Path, target: str) -> None:
    """Compile a target's kernels in one process: a fixture would compile in every worker of pytest-xdist."""
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-P", str(program), target],
        capture_output=True,
        text=True,
        env={**clean, "TRITEN_CACHE_DIR": str(tmp_path), "TRITEN_TUNING_STORE": "0"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {name: [kernel, 0, widest] for name, (kernel, widest) in KERNELS[target].items()}
