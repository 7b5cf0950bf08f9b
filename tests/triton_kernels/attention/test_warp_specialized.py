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

def grids_of_candidates():
    from triten.triton_kernels.tuning.choice import forced, listening, make_plans_anew
    from triten.triton_kernels.tuning.question import candidates

    asked = []
    with listening(lambda question, default: asked.append((question, default))):
        launched(64, 1900)
    grids = {}
    for candidate in candidates(*asked[0]):
        with forced(asked[0][0], candidate):
            make_plans_anew()
            launched(64, 1900)
        constants = cuda._driver.launched[-1]["constants"]
        grids[str(candidate)] = [cuda._driver.grids[-1][0], constants["BLOCK_M"], constants["BLOCK_N"]]
    return {"processors": cuda._driver.properties(0).multi_processor_count, "grids": grids}

if sys.argv[3:]:
    print(json.dumps(grids_of_candidates()))
    sys.exit()
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
names = ("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV", "PERSISTENT", "SLACK")
constants = dict(zip(names, SPECIALIZED_HEAD.tile)) | {"CAUSAL": True, "STAGES": SPECIALIZED_HEAD.stages}
constants |= {"items": None, "section": None}
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


def test_grids_of_the_forms_that_tuning_may_choose() -> None:
    found = run(PLANNING, "90", "3.9.0", "candidates")
    processors, wide, tall = found["processors"], 15 * 8 * 16, 10 * 8 * 16
    assert min(wide, tall) > processors
    assert found["grids"] == {
        "128x128x64x64x0x0 w4 s2": [wide, 128, 128],
        "128x128x64x64x0x0 w4 s4": [wide, 128, 128],
        "128x128x64x64x0x8 w4 s4": [wide, 128, 128],
        "128x128x64x64x1x0 w4 s4": [processors, 128, 128],
        "192x64x64x64x0x0 w4 s6": [tall, 192, 64],
        "192x64x64x64x1x0 w4 s6": [processors, 192, 64],
        # Configurations of other heads leave the default.
        "128x128x128x128x0x0 w4 s2": [wide, 128, 128],
        "128x128x128x128x1x0 w4 s2": [wide, 128, 128],
        "128x64x256x256x0x0 w4 s2": [wide, 128, 128],
    }


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
if "tile" in case:
    from triten.triton_kernels.attention import warp_specialized
    from triten.triton_kernels.budget import Configuration

    *tile, stages = case["tile"]
    warp_specialized.specialized_tile = lambda head: Configuration(tuple(tile), 4, stages)
    grid_of = warp_specialized.grid_of
    few = lambda grid: grid._replace(programs=min(grid.programs, case.get("programs", grid.programs)))
    warp_specialized.grid_of = lambda *arguments: few(grid_of(*arguments))
rng = np.random.default_rng(7)
dtype = getattr(tt, case["dtype"])
b, h, hk, length, keys, head = case["shape"]
wide = [
    tt.from_numpy(rng.standard_normal(sizes)).to(dtype)
    for sizes in ((b, h, length, head), (b, hk, keys, head), (b, hk, keys, head))
]
for place, index, value in case.get("planted", ()):
    wide[place][tuple(index)] = float(value)
wide[1] *= case.get("factor", 1)
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
if "tile" in case:
    again, *_ = operator(*near, None, True, 0.0, case["causal"], scale=case.get("scale"))
    assert again.cpu().double().numpy().tobytes() == out.tobytes(), "not the same bits again"
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
        # Three groups, of which the first skips two tiles behind its diagonal; fewer keys than queries.
        {"shape": (1, 1, 1, 200, 140, 64), "tile": (192, 64, 64, 64, 0, 0, 6), "causal": True},
        # Persistent: two thread blocks have three blocks of queries each.
        {"shape": (1, 3, 1, 200, 200, 64), "tile": (192, 64, 64, 64, 1, 0, 6), "causal": True, "programs": 2},
        {
            "shape": (1, 2, 2, 130, 200, 128),
            "tile": (128, 128, 128, 128, 1, 0, 2),
            "causal": False,
            "programs": 1,
        },
        # Scores of more than 8 powers of two: some tiles rescale, others do not.
        {"shape": (1, 1, 1, 70, 700, 64), "tile": (128, 128, 64, 64, 0, 8, 4), "causal": False, "factor": 4},
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_other_forms_beside_the_host(case: dict[str, object]) -> None:
    """Compare the forms that tuning may choose with the host; repeated runs are bitwise identical."""
    names = run(
        EMULATING, json.dumps({"dtype": "bfloat16"} | case), TRITEN_CUDA="emulate", TRITEN_EMULATE="90"
    )
    assert set(names) == {"attention_warp_specialized"}


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
