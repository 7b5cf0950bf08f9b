"""The warp-specialized forward pass: its supported calls, and its compiled loop."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.triton.lazy_gluon import is_supported

needs_gluon = pytest.mark.skipif(not is_supported(), reason="this Triton has no such Gluon")

PLANNING = """
import json, os, sys
os.environ["TRITEN_TUNING_STORE"] = "0"
import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import TARGETS
from triten.runtime.cuda.triton import lazy_gluon
from triten.perf.ahead_of_time.recording import RecordingDriver

capability, version = int(sys.argv[1]), sys.argv[2]
lazy_gluon.triton_identity = lambda: (version, "a hash")
cuda._driver = RecordingDriver(TARGETS[capability])

def launched(head, length, dtype="bfloat16", mask=None, head_v=None, causal=True):
    shapes = [(8, 16, length, head), (8, 4, 2048, head), (8, 4, 2048, head_v or head)]
    q, k, v = (tt.empty(shape, dtype=getattr(tt, dtype), device="cuda") for shape in shapes)
    cuda._driver.launched.clear()
    tt.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=True)
    return [noted["kernel"].__name__ for noted in cuda._driver.launched]

print(json.dumps({
    "head 128": launched(128, 2048),
    "head 96, float16": launched(96, 2048, "float16", causal=False),
    "head 64, 65 queries": launched(64, 65, causal=False),
    "head 256": launched(256, 300),
    "head 32": launched(32, 2048),
    "few queries": launched(128, 64, causal=False),
    "float32": launched(128, 2048, "float32"),
    "masked": launched(128, 2048, mask=tt.empty((2048, 2048), dtype=tt.bool, device="cuda"), causal=False),
    "wide values": launched(64, 2048, head_v=128),
}))
"""
KERNELS = {
    ("90", "3.9.0"): (
        "attention_warp_specialized",
        ("head 128", "head 96, float16", "head 64, 65 queries", "head 256"),
    ),
    ("100", "3.9.0"): ("attention_tensor_memory", ("head 128", "head 96, float16")),
}
"""The kernel for a device and a Triton, and which calls it serves."""

COMPILING = """
import json, sys
from pathlib import Path
import triton
from triten.perf.ahead_of_time.disassembly import disassemble
from triten.runtime.cuda.triton.compile import compile_kernel
from triten.triton_kernels.attention.tiles import SPECIALIZED_HEAD
from triten.triton_kernels.attention.warp_specialized import operand_types
from triten.triton_kernels.attention.warp_specialized_kernels import attention_warp_specialized

types = operand_types("bf16", SPECIALIZED_HEAD) | {"draws_seed": "*i64", "draws_offset": "*i64", "logsumexp": "*fp32"}
types |= dict.fromkeys(("length_q", "length_k", "heads", "group"), "i32") | {"scale": "fp32"}
names = ("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV")
constants = dict(zip(names, SPECIALIZED_HEAD.tile)) | {"CAUSAL": True, "STAGES": SPECIALIZED_HEAD.stages}
binary = compile_kernel(
    attention_warp_specialized, types, constants, frozenset(("logsumexp",)), 90,
    {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True, "enable_reflect_ftz": True},
)
sass, usage = disassemble(binary.cubin, Path(triton.__file__).parent / "backends" / "nvidia" / "bin")
print(json.dumps({"sass": sass, "warps": binary.num_warps}))
"""


def run(program: str, *arguments: str, **variables: str) -> Any:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment | variables,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("capability", "version"),
    [("90", "3.9.0"), ("90", "3.8.0"), ("80", "3.9.0"), ("100", "3.9.0"), ("100", "3.8.0")],
)
def test_which_calls_it_serves(capability: str, version: str) -> None:
    found = run(PLANNING, capability, version)
    kernel, served = KERNELS.get((capability, version), ("", ()))
    for call, names in found.items():
        assert (names == [kernel]) == (call in served), (call, names)
        assert names in ([kernel], ["attention_bulk"], ["attention"]), call


def test_the_interpreter_takes_tritons_form() -> None:
    assert not driver().has_gluon
    q, k, v = (tt.ones(1, 1, 80, 64, dtype=tt.float16, device="cuda") for _ in range(3))
    out = tt.nn.functional.scaled_dot_product_attention(q, k, v)
    assert out.cpu().eq(1).all()


EMULATING = """
import json, math, sys
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.attention import forward

forward.MIN_SPAN = 1 << 20  # few programs would split their keys, which pointers do
names = []
driver().observe_launches(lambda name, grid, stream, launch: (names.append(name), launch()))
case = json.loads(sys.argv[1])
rng = np.random.default_rng(7)
dtype = getattr(tt, case["dtype"])
b, h, hk, length, keys, head = case["shape"]
wide = [
    tt.from_numpy(rng.standard_normal(sizes)).to(dtype)
    for sizes in ((b, h, length, head), (b, hk, keys, head), (b, hk, keys, head))
]
for place, index, value in case.get("planted", ()):
    wide[place][tuple(index)] = float(value)
near = [x.to("cuda") for x in wide]
if case.get("inner"):
    near = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in near]
operator = tt.ops.aten._scaled_dot_product_efficient_attention.default
out, logsumexp, *_ = operator(*near, None, True, 0.0, case["causal"], scale=case.get("scale"))
names = [name for name in names if "attention" in name]
out, logsumexp = out.cpu().double().numpy(), logsumexp.cpu().numpy()[..., :length]

q, k, v = (x.double().numpy() for x in wide)
k, v = (np.repeat(x, h // hk, 1) for x in (k, v))
with np.errstate(all="ignore"):
    scores = q @ k.swapaxes(-1, -2) * (case.get("scale") or 1 / math.sqrt(head))
    if case["causal"]:
        scores = np.where(np.tril(np.ones((length, keys), bool)), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    sums = weights.sum(-1, keepdims=True)
    expected = weights / np.where(sums == 0, 1, sums) @ v
    statistics = np.where(sums == 0, 0, top + np.log(sums))[..., 0]
tolerance = 2e-3 if case["dtype"] == "float16" else 1.6e-2
np.testing.assert_allclose(logsumexp, statistics, rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
print(json.dumps(names))
"""


@needs_gluon
@pytest.mark.parametrize(
    "case",
    [
        # B, H, heads of keys, L, S, E
        {"shape": (1, 1, 1, 128, 128, 64), "causal": False, "dtype": "float16"},
        {"shape": (2, 2, 1, 190, 430, 64), "causal": False, "dtype": "bfloat16"},
        {"shape": (1, 4, 2, 300, 300, 128), "causal": True, "dtype": "bfloat16"},
        {"shape": (1, 1, 1, 260, 90, 128), "causal": True, "dtype": "float16", "scale": 0.3},
        {"shape": (1, 1, 1, 70, 520, 96), "causal": True, "dtype": "float16", "inner": True},
        {"shape": (1, 1, 1, 200, 210, 256), "causal": True, "dtype": "bfloat16"},
        {"shape": (1, 1, 1, 130, 200, 200), "causal": False, "dtype": "float16"},
        {
            # A NaN among the queries, and an infinite value.
            "shape": (1, 1, 1, 130, 140, 64),
            "causal": False,
            "dtype": "float16",
            "planted": [(0, (0, 0, 3, 1), "nan"), (2, (0, 0, 139, 5), "inf")],
        },
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_executed_beside_the_host(case: dict[str, object]) -> None:
    """Execute the sm_90 code in the emulator, with its races, copies and barriers, and compare it with the
    CPU.
    """
    names = run(EMULATING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    assert names == ["attention_warp_specialized"]


@needs_gluon
@pytest.mark.parametrize(
    "case",
    [
        {"shape": (1, 1, 1, 256, 128, 64), "causal": False, "dtype": "float16"},
        {"shape": (2, 2, 1, 190, 430, 64), "causal": True, "dtype": "bfloat16"},
        {"shape": (1, 2, 2, 300, 300, 128), "causal": True, "dtype": "bfloat16"},
        {"shape": (1, 1, 1, 260, 90, 128), "causal": True, "dtype": "float16", "scale": 0.3},
        {"shape": (1, 1, 1, 140, 600, 96), "causal": False, "dtype": "float16", "inner": True},
        {
            # A NaN among the queries, and an infinite value.
            "shape": (1, 1, 1, 130, 140, 64),
            "causal": False,
            "dtype": "float16",
            "planted": [(0, (0, 0, 3, 1), "nan"), (2, (0, 0, 139, 5), "inf")],
        },
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_scores_in_tensor_memory_executed_beside_the_host(case: dict[str, object]) -> None:
    """Execute the sm_100 code in the emulator, with its tensor memory, and compare it with the CPU."""
    names = run(EMULATING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="100")
    assert names == ["attention_tensor_memory"]


BACKWARD = """
import json, sys
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.attention import forward

forward.MIN_SPAN = 1 << 20
names = []
driver().observe_launches(lambda name, grid, stream, launch: (names.append(name), launch()))
case = json.loads(sys.argv[1])
rng = np.random.default_rng(11)
dtype = getattr(tt, case["dtype"])
b, h, hk, length, keys, head = case["shape"]
query, key = (b, h, length, head), (b, hk, keys, head)
wide = [tt.from_numpy(rng.standard_normal(sizes)).to(dtype) for sizes in (query, key, key, query)]
wanted = case.get("wanted", [True, True, True])

def gradients(tensors):
    leaves = [x.detach().requires_grad_(w) for x, w in zip(tensors, wanted)]
    out = tt.nn.functional.scaled_dot_product_attention(
        *leaves, is_causal=case["causal"], scale=case.get("scale"), enable_gqa=h != hk
    )
    out.backward(tensors[3])
    return [None if x.grad is None else x.grad.cpu().double().numpy() for x in leaves]

first, again = (gradients([x.to("cuda") for x in wide]) for _ in range(2))
expected = gradients([x.double() for x in wide])
tolerance = 4e-3 if case["dtype"] == "float16" else 3e-2
for mine, same, theirs in zip(first, again, expected):
    assert (mine is None) == (theirs is None)
    if mine is not None:
        assert mine.tobytes() == same.tobytes(), "not the same bits again"
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max())
print(json.dumps([name for name in names if "backward" in name][: len(names) // 2]))
"""
BY_KEYS, BY_QUERIES = (f"attention_backward_{side}_warp_specialized" for side in ("keys", "queries"))


@needs_gluon
@pytest.mark.parametrize(
    ("case", "kernels"),
    [
        ({"shape": (1, 1, 1, 128, 128, 64), "causal": False, "dtype": "float16"}, [BY_KEYS, BY_QUERIES]),
        ({"shape": (1, 2, 2, 200, 300, 64), "causal": True, "dtype": "bfloat16"}, [BY_KEYS, BY_QUERIES]),
        ({"shape": (1, 4, 2, 300, 200, 128), "causal": True, "dtype": "float16"}, [BY_KEYS, BY_QUERIES]),
        (
            {"shape": (1, 2, 1, 160, 333, 128), "causal": False, "dtype": "bfloat16", "scale": -0.1},
            [BY_KEYS, BY_QUERIES],
        ),
        ({"shape": (2, 1, 1, 66, 210, 96), "causal": False, "dtype": "float16"}, [BY_KEYS, BY_QUERIES]),
        (
            {
                "shape": (1, 1, 1, 70, 70, 64),
                "causal": True,
                "dtype": "float16",
                "wanted": [True, False, False],
            },
            [BY_QUERIES],
        ),
        (
            {
                "shape": (1, 1, 1, 70, 70, 64),
                "causal": True,
                "dtype": "float16",
                "wanted": [False, True, False],
            },
            ["attention_backward_keys"],
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values() if isinstance(value, dict) else value)),
)
def test_gradients_beside_the_host(case: dict[str, object], kernels: list[str]) -> None:
    """Compare the gradients with the host; repeated runs are bitwise identical."""
    names = run(BACKWARD, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    assert names[: len(kernels)] == kernels


@needs_gluon
def test_products_run_while_softmax_does() -> None:
    """Check the overlap in SASS: a whole softmax stands between the issue of the matmul with the values and
    its wait.
    """
    found = run(COMPILING)
    assert found["warps"] == 12
    sass = str(found["sass"])
    assert not re.search(r"\b(LDL|STL)\b", sass), "registers are spilled"
    assert {"0xf0", "0x18"} <= set(re.findall(r"USETMAXREG\.\w+\.CTAPOOL (?:UP\d, )?(0x\w+)", sass))
    overlapped = re.findall(r"DEPBAR\.LE gsb0, 0x1 ;(.*?)DEPBAR\.LE gsb0, 0x0 ;", sass, re.S)
    assert len(overlapped) == 2, "a loop for each group of warps"
    for instructions in overlapped:
        # 64 weights of a thread, and by how much two rows shrink.
        assert len(re.findall(r"\bMUFU\.EX2\b", instructions)) == 66
        assert len(re.findall(r"\bFFMA\b", instructions)) >= 64
        assert "HGMMA" not in instructions
    before = [part.rpartition("DEPBAR.LE")[2] for part in sass.split("DEPBAR.LE gsb0, 0x1 ;")[:2]]
    for instructions in before:
        # The scores, 128 numbers deep, then the values, 128 keys deep: eight instructions of 16 each.
        assert instructions.count("HGMMA.64x128x16.F32.BF16") == 16
