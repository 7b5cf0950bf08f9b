"""Warp-specialized matmuls: the supported calls, their results, and the compiled loop."""

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


def run(program: str, *arguments: str, **variables: str) -> Any:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment | {"TRITEN_TUNING_STORE": "0"} | variables,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


PLANNING = """
import json, sys
import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.triton import lazy_gluon
from triten.perf.ahead_of_time.recording import RecordingDriver

capability, version = int(sys.argv[1]), sys.argv[2]
lazy_gluon.triton_identity = lambda: (version, "a hash")
cuda._driver = RecordingDriver(KNOWN[capability])

def empty(*sizes, dtype="bfloat16"):
    return tt.empty(sizes, dtype=getattr(tt, dtype), device="cuda")

def launched(call):
    cuda._driver.launched.clear()
    call()
    return [noted["kernel"].__name__ for noted in cuda._driver.launched]

def rounded(a):
    tt.backends.cuda.matmul.allow_tf32 = True
    tt.mm(a, a.t())
    tt.backends.cuda.matmul.allow_tf32 = False

def scaled(dtype):
    if capability < 89:
        return
    a, one = empty(4096, 4096, dtype="float8_e4m3fn"), empty(1, dtype="float32")
    tt._scaled_mm(a, a.t(), one, one, out_dtype=dtype)

square = empty(4096, 4096)
half = empty(4096, 4096, dtype="float16")
if sys.argv[3:] == ["tuned"]:
    from triten.triton_kernels.products.warp_specialized_kernels import TILES
    from triten.triton_kernels.tuning import choice

    questions, columns = [], []
    with choice.listening(lambda question, default: questions.append(question)):
        launched(lambda: tt.mm(square, square))
    for one in TILES[2]:
        with choice.forced(questions[0], one):
            choice.make_plans_anew()
            names = launched(lambda: tt.mm(square, square))
            columns.append([names, cuda._driver.launched[0]["constants"]["BLOCK_N"]])
    print(json.dumps({"asked": [question.kernel for question in questions], "columns": columns}))
    sys.exit()
print(json.dumps({
    "mm": launched(lambda: tt.mm(square, square)),
    "mm, transposed": launched(lambda: tt.mm(half.t(), half.t())),
    "addmm of a row": launched(lambda: tt.addmm(square[0], square, square, alpha=2, beta=3)),
    "bmm": launched(lambda: tt.bmm(empty(64, 512, 512), empty(64, 512, 512))),
    "linear and gelu": launched(lambda: tt.ops.aten._addmm_activation(half[0], half, half, use_gelu=True)),
    "addmm of a tile": launched(lambda: tt.addmm(square, square, square)),
    "few tiles": launched(lambda: tt.mm(square[:1024], square)),
    "one row": launched(lambda: tt.mm(square[:1], square)),
    "tf32": launched(lambda: rounded(empty(4096, 4096, dtype="float32"))),
    "8 bits": launched(lambda: scaled(tt.bfloat16)),
    "8 bits to float32": launched(lambda: scaled(tt.float32)),
    "float32": launched(lambda: tt.mm(empty(4096, 4096, dtype="float32"), empty(4096, 4096, dtype="float32"))),
    "odd rows, packed again": launched(lambda: tt.mm(empty(4096, 4095), empty(4095, 4096))),
    "odd rows of the result": launched(lambda: tt.mm(square, empty(4095, 4096).t())),
}))
"""
KERNELS = {("90", "3.9.0"): "matmul_warp_specialized", ("100", "3.9.0"): "matmul_tensor_memory"}
SERVED = ("mm", "mm, transposed", "addmm of a row", "bmm", "linear and gelu", "odd rows, packed again")
MORE_IN_TENSOR_MEMORY = ("tf32", "8 bits", "8 bits to float32")


@pytest.mark.parametrize(
    ("capability", "version"),
    [("90", "3.9.0"), ("90", "3.8.0"), ("80", "3.9.0"), ("100", "3.9.0"), ("100", "3.8.0"), ("120", "3.9.0")],
)
def test_which_calls_it_serves(capability: str, version: str) -> None:
    found = run(PLANNING, capability, version)
    kernel = KERNELS.get((capability, version))
    served = (*SERVED, *MORE_IN_TENSOR_MEMORY) if capability == "100" else (*SERVED, "tf32")
    for call, names in found.items():
        own = set(names) & set(KERNELS.values())
        assert own == ({kernel} if kernel is not None and call in served else set()), (call, names)


def test_the_tuner_chooses_among_its_tiles() -> None:
    found = run(PLANNING, "90", "3.9.0", "tuned")
    assert found["asked"] == [
        "triten.triton_kernels.products.warp_specialized_kernels:matmul_warp_specialized"
    ]
    assert found["columns"] == [[["matmul_warp_specialized"], 256], [["matmul_warp_specialized"], 128]]


def test_the_interpreter_takes_tritons_form(kernels: list[str]) -> None:
    assert not driver().has_gluon
    a = tt.ones(64, 64, dtype=tt.float16, device="cuda")
    assert tt.mm(a, a).cpu().eq(64).all()
    assert "matmul_persistent" in kernels


EMULATING = """
import json, sys
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.products.bulk import IN_GLUON

case = json.loads(sys.argv[1])
form = IN_GLUON[driver().properties(0).design]
form.MIN_WAVES = 0
form.multiprocessors = lambda device: case["programs"]
if "tile" in case:
    form.TILES = {bytes_: tiles[case["tile"]:][:1] for bytes_, tiles in form.TILES.items()}
names = []
driver().observe_launches(lambda name, grid, stream, launch: (names.append([name, grid[0]]), launch()))
rng = np.random.default_rng(7)
dtype = getattr(tt, case["dtype"])
batch, m, n, k = case["shape"]

def drawn(*sizes, transposed=False):
    if transposed:
        return drawn(*sizes[:-2], sizes[-1], sizes[-2]).transpose(-1, -2)
    return tt.from_numpy(rng.standard_normal(sizes)).to(dtype)

lead = () if batch == 0 else (batch,)
a = drawn(*lead, m, k, transposed=case["transposed"][0])
b = drawn(*lead, k, n, transposed=case["transposed"][1])
for operand, index, value in case.get("planted", ()):
    (a, b)[operand][tuple(index)] = float(value)
row = drawn(n)
how = case.get("how", "mm")

def computed(a, b, row):
    if how == "mm":
        return a @ b
    if how == "addmm":
        return tt.addmm(row, a, b, beta=-2, alpha=0.5)
    return tt.ops.aten._addmm_activation(row, a, b, use_gelu=how == "gelu")

near = [x.to("cuda") for x in (a, b, row)]
out, again = computed(*near), computed(*near)
launched = list(names)
out, again = out.cpu(), again.cpu()
assert out.double().numpy().tobytes() == again.double().numpy().tobytes(), "not the same bits again"
with np.errstate(all="ignore"):
    expected = computed(*(x.double() for x in (a, b, row))).numpy()
    magnitude = np.abs(a.double().numpy()) @ np.abs(b.double().numpy()) + 2 * np.abs(row.double().numpy())
unit = 2.0**-11 if case["dtype"] == "float16" else 2.0**-8
out = out.double().numpy()
assert np.array_equal(np.isnan(out), np.isnan(expected))
rounded = tt.from_numpy(expected).to(dtype).double().numpy()
whole = np.isfinite(rounded)
assert np.array_equal(out[~whole], rounded[~whole], equal_nan=True)
error = np.abs(out - expected)[whole] - unit * np.abs(expected)[whole]
assert (error <= 2.0**-20 * magnitude[whole] + 2.0**-24).all(), error.max()
print(json.dumps(launched[:1]))
"""


@needs_gluon
@pytest.mark.parametrize(
    "case",
    [
        # batch (0 for matrices), m, n, k
        {"shape": (0, 128, 256, 64), "transposed": (0, 0), "dtype": "float16", "programs": 1},
        {"shape": (0, 8, 8, 8), "transposed": (0, 1), "dtype": "bfloat16", "programs": 1},
        {"shape": (0, 200, 328, 200), "transposed": (0, 0), "dtype": "bfloat16", "programs": 1},
        {"shape": (0, 328, 600, 456), "transposed": (1, 1), "dtype": "float16", "programs": 2},
        {
            "shape": (0, 72, 520, 1032),
            "transposed": (1, 0),
            "dtype": "bfloat16",
            "programs": 2,
            "how": "addmm",
        },
        {"shape": (0, 136, 1032, 16), "transposed": (0, 1), "dtype": "float16", "programs": 3, "how": "gelu"},
        {"shape": (0, 264, 264, 136), "transposed": (0, 1), "dtype": "float16", "programs": 1, "how": "relu"},
        {"shape": (3, 136, 264, 200), "transposed": (0, 0), "dtype": "bfloat16", "programs": 2},
        {"shape": (0, 328, 264, 456), "transposed": (1, 0), "dtype": "bfloat16", "programs": 2, "tile": 1},
        {
            "shape": (0, 136, 392, 40),
            "transposed": (0, 1),
            "dtype": "float16",
            "programs": 2,
            "tile": 1,
            "how": "addmm",
        },
        {
            "shape": (0, 136, 264, 72),
            "transposed": (0, 0),
            "dtype": "float16",
            "programs": 2,
            "planted": [(0, (3, 5), "nan"), (1, (71, 263), "inf"), (0, (135, 0), "-inf"), (0, (130, 7), 6e4)],
        },
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_executed_beside_the_host(case: dict[str, Any]) -> None:
    """Execute the sm_90 code in the emulator, with its races, copies and barriers, and compare it with
    float64.
    """
    [[name, grid]] = run(EMULATING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    assert (name, grid) == ("matmul_warp_specialized", case["programs"])


@needs_gluon
@pytest.mark.parametrize(
    "case",
    [
        # tile 0 has 256 rows, 1 and 2 have 128
        {"shape": (0, 8, 8, 8), "transposed": (0, 1), "dtype": "bfloat16", "programs": 1, "tile": 2},
        {"shape": (0, 328, 600, 456), "transposed": (1, 1), "dtype": "float16", "programs": 2, "tile": 0},
        {
            "shape": (0, 72, 520, 1032),
            "transposed": (1, 0),
            "dtype": "bfloat16",
            "programs": 1,
            "tile": 1,
            "how": "addmm",
        },
        {
            "shape": (0, 264, 520, 16),
            "transposed": (0, 1),
            "dtype": "float16",
            "programs": 1,
            "tile": 0,
            "how": "gelu",
        },
        {
            "shape": (0, 136, 392, 40),
            "transposed": (0, 1),
            "dtype": "float16",
            "programs": 2,
            "tile": 2,
            "how": "relu",
        },
        {"shape": (3, 136, 264, 200), "transposed": (0, 0), "dtype": "bfloat16", "programs": 2, "tile": 1},
        {
            "shape": (0, 136, 264, 72),
            "transposed": (0, 0),
            "dtype": "float16",
            "programs": 2,
            "tile": 2,
            "planted": [(0, (3, 5), "nan"), (1, (71, 263), "inf"), (0, (135, 0), "-inf"), (0, (130, 7), 6e4)],
        },
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_sums_in_tensor_memory_executed_beside_the_host(case: dict[str, Any]) -> None:
    """Execute the sm_100 code in the emulator, with its tensor memory."""
    [[name, grid]] = run(EMULATING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="100")
    assert (name, grid) == ("matmul_tensor_memory", case["programs"])


SCALING = """
import json, sys
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.products.bulk import IN_GLUON

case = json.loads(sys.argv[1])
form = IN_GLUON[driver().properties(0).design]
form.MIN_WAVES = 0
form.multiprocessors = lambda device: 1
form.TILES = {bytes_: tiles[case["tile"]:][:1] for bytes_, tiles in form.TILES.items()}
names = []
driver().observe_launches(lambda name, grid, stream, launch: (names.append(name), launch()))
rng = np.random.default_rng(3)
m, n, k = case["shape"]
left, right = (getattr(tt, name) for name in case["dtypes"])
a = tt.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).to(left)
b = tt.from_numpy(rng.standard_normal((n, k)).astype(np.float32)).to(right).t()
if case["how"] == "tf32":
    tt.backends.cuda.matmul.allow_tf32 = True
    out = tt.mm(a.cuda(), b.cuda())
    # The lower 13 bits do not count.
    wide = [(x.contiguous().numpy().view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
            for x in (a, b)]
    scale = 1.0
else:
    by = (m, 1), (1, n)
    scales = [tt.from_numpy(rng.uniform(0.5, 2, sizes if case["how"] == "rows" else (1,)).astype(np.float32))
              for sizes in by]
    given = {"out_dtype": getattr(tt, case["out"])}
    if case["how"] == "rows":
        given["bias"] = tt.from_numpy(rng.standard_normal(n)).to(tt.bfloat16).cuda()
    if case["out"] == "float8_e4m3fn":
        given["scale_result"] = tt.tensor(3.0).cuda()
    out = tt._scaled_mm(a.cuda(), b.cuda(), *[x.cuda() for x in scales], **given)
    wide = [x.double().numpy() for x in (a, b)]
    scale = scales[0].double().numpy() * scales[1].double().numpy()
exact = wide[0] @ wide[1] * scale
magnitude = np.abs(wide[0]) @ np.abs(wide[1]) * scale
if case["how"] == "rows":
    exact = exact + given["bias"].cpu().double().numpy()
if case["out"] == "float8_e4m3fn":
    exact = np.clip(exact * 3.0, -448, 448)
    magnitude = magnitude * 3.0
found = out.cpu().double().numpy()
unit = {"bfloat16": 2.0**-8, "float32": 2.0**-24, "float8_e4m3fn": 2.0**-4}[case["out"]]
error = np.abs(found - exact) - unit * np.abs(exact)
assert (error <= 2.0**-20 * magnitude + 2.0**-10 * (unit == 2.0**-4)).all(), error.max()
print(json.dumps(names))
"""


@needs_gluon
@pytest.mark.parametrize(
    "case",
    [
        {
            "dtypes": ("float32", "float32"),
            "shape": (264, 272, 72),
            "tile": 0,
            "how": "tf32",
            "out": "float32",
        },
        {
            "dtypes": ("float8_e4m3fn",) * 2,
            "shape": (264, 272, 144),
            "tile": 1,
            "how": "one",
            "out": "bfloat16",
        },
        {
            "dtypes": ("float8_e5m2", "float8_e4m3fn"),
            "shape": (136, 528, 272),
            "tile": 2,
            "how": "one",
            "out": "float32",
        },
        {
            "dtypes": ("float8_e4m3fn",) * 2,
            "shape": (264, 272, 80),
            "tile": 0,
            "how": "rows",
            "out": "bfloat16",
        },
        {
            "dtypes": ("float8_e4m3fn",) * 2,
            "shape": (72, 272, 80),
            "tile": 1,
            "how": "one",
            "out": "float8_e4m3fn",
        },
    ],
    ids=lambda case: "-".join(map(str, case.values())),
)
def test_eight_bits_and_tf32_executed_beside_the_host(case: dict[str, Any]) -> None:
    names = run(SCALING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="100")
    assert "matmul_tensor_memory" in names


@needs_gluon
@pytest.mark.parametrize(("shape", "tile"), [((264, 272, 72), 0), ((136, 392, 40), 1)])
def test_tf32_executed_beside_the_host(shape: tuple[int, int, int], tile: int) -> None:
    """Check that the sm_90 kernel multiplies 32-bit elements as TF32, and stores all columns."""
    case = {"dtypes": ("float32", "float32"), "shape": shape, "tile": tile, "how": "tf32", "out": "float32"}
    names = run(SCALING, json.dumps(case), TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    assert names == ["matmul_warp_specialized"]


COMPILING = """
import json, sys
from pathlib import Path
import triton
from triten.perf.ahead_of_time.disassembly import disassemble
from triten.runtime.cuda.triton.compile import compile_kernel
from triten.runtime.cuda.triton.lazy_gluon import shared_descriptor
from triten.triton_kernels.products.warp_specialized_kernels import TILES, matmul_warp_specialized

one, transposed, addend = TILES[2][int(sys.argv[1])], sys.argv[2] == "True", sys.argv[3] == "True"
m, n, k = one.tile
rows = (k, m // 2) if transposed else (m // 2, k)
types = {"a": shared_descriptor("bf16", 1, *rows), "b": shared_descriptor("bf16", 1, n, k)}
types |= {"addend": "*bf16"} if addend else {}
types |= {"out": shared_descriptor("bf16", 1, m // 2, 64)} | dict.fromkeys(("m", "n", "k", "batches"), "i32")
constants = {} if addend else {"addend": None}
constants |= {"sz": 0, "sn": 1, "alpha": None, "beta": None, "ADDEND": addend, "ACTIVATION": "gelu"}
constants |= {"A_BATCHED": False, "B_BATCHED": False, "A_TRANSPOSED": transposed, "B_TRANSPOSED": True}
constants |= {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "STAGES": one.stages}
binary = compile_kernel(
    matmul_warp_specialized, types, constants, frozenset(("addend",) if addend else ()), 90,
    {"num_warps": 4, "num_stages": one.stages, "enable_fp_fusion": False, "enable_reflect_ftz": False},
)
sass, usage = disassemble(binary.cubin, Path(triton.__file__).parent / "backends" / "nvidia" / "bin")
print(json.dumps({"sass": sass, "warps": binary.num_warps, "columns": n}))
"""


@needs_gluon
@pytest.mark.parametrize(("which", "transposed", "addend"), [(0, False, True), (1, True, False)])
def test_a_step_is_issued_before_the_one_before_is_done(which: int, transposed: bool, addend: bool) -> None:
    """Check the loops in SASS: only the end of a tile waits for the step just issued, and its stores follow."""
    found = run(COMPILING, str(which), str(transposed), str(addend))
    assert found["warps"] == 12
    sass, columns = str(found["sass"]), int(found["columns"])
    assert not re.search(r"\b(LDL|STL)\b", sass), "registers are spilled"
    assert {"0xf0", "0x18"} <= set(re.findall(r"USETMAXREG\.\w+\.CTAPOOL (?:UP\d, )?(0x\w+)", sass))
    order = re.findall(r"HGMMA\.64x\d+x16|gsb0, 0x\d|STSM|UTMASTG", sass)
    step = [f"HGMMA.64x{columns}x16"] * 4 + ["gsb0, 0x1"]
    part = ["STSM"] * 4 + ["UTMASTG"]
    group = [*step, "gsb0, 0x0", *part * (columns // 64)]
    assert order == group * 2, "a loop for each group of warps, and its stores"
    # A tile's last place in the ring is free before its epilogue is computed.
    for behind in sass.split("gsb0, 0x0")[1:]:
        assert len(re.findall(r"\b(?:FMUL|FFMA)\b", behind.partition("SYNCS.ARRIVE")[0])) == 0
    # Copies are a loop of their own, which waits for nothing but a free place.
    copies = sass.rpartition("UTMASTG")[2]
    assert copies.count("UTMALDG") == 3 and "HGMMA" not in copies
