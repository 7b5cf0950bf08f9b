"""Stream-K matmuls: values, the same bits in any order of programs, counters, and the division of K steps."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.interpreter import semantics
from triten.runtime.cuda.triton.lazy_gluon import is_supported
from triten.triton_kernels.budget import Configuration
from triten.triton_kernels.products.stream_k import Division
from triten.triton_kernels.reduction.stream_counters import counters_of

ROUNDING = {tt.float16: 2.0**-11, tt.bfloat16: 2.0**-8}
"""The relative error of one rounding to nearest, half a unit in the last place."""


@pytest.fixture
def drawn(rng):
    """Return drawn(*sizes, dtype), which makes a CUDA tensor of normal numbers, and its values in float64."""

    def draw(*sizes, dtype=tt.float16):
        host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(dtype)
        return host.to("cuda"), host.to(tt.float64).numpy()

    return draw


def close(got, exact, magnitude, k):
    """Assert that a result differs from the exact one only by its rounding and that of float32 sums."""
    bound = ROUNDING[got.dtype] * np.abs(exact) + 2.0**-23 * (k + 4) * magnitude + 2.0**-24
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    assert (error <= bound).all(), f"{error.max()} of {bound.min()}"


def bits(tensor):
    return tensor.cpu().view(tt.int16).numpy()


@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda d: d.name)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize(
    "size", [(2, 1096, 40), (7, 1032, 136), (16, 2048, 64), (33, 1032, 200), (64, 1096, 72)], ids=str
)
def test_few_rows(drawn, kernels, size, is_transposed, dtype):
    m, k, n = size
    a, x = drawn(m, k, dtype=dtype)
    b, y = drawn(*((n, k) if is_transposed else (k, n)), dtype=dtype)
    b, y = (b.t(), y.T) if is_transposed else (b, y)
    close(tt.mm(a, b), x @ y, np.abs(x) @ np.abs(y), k)
    assert kernels == ["matmul_stream_k"]


@pytest.mark.parametrize("size", [(65, 1096, 40), (2, 896, 40)], ids=["rows", "steps"])
def test_many_rows_and_few_steps_are_left_to_the_persistent_kernel(drawn, kernels, size):
    m, k, n = size
    (a, x), (b, y) = drawn(m, k), drawn(n, k)
    close(tt.mm(a, b.t()), x @ y.T, np.abs(x) @ np.abs(y.T), k)
    assert kernels[0] == "matmul_persistent"


def test_columns_that_are_no_whole_vectors(drawn, kernels):
    (a, x), (b, y) = drawn(5, 1096), drawn(37, 1096)
    close(tt.mm(a, b.t()), x @ y.T, np.abs(x) @ np.abs(y.T), 1096)
    assert kernels == ["matmul_stream_k"]


@pytest.mark.parametrize("shape", [(40,), (16, 40), (1, 40)], ids=str)
@pytest.mark.parametrize("activation", [None, False, True], ids=["none", "relu", "gelu"])
def test_the_epilogue_follows_the_sum_of_all_parts(drawn, kernels, shape, activation):
    (c, z), (a, x), (b, y) = drawn(*shape), drawn(16, 1096), drawn(1096, 40)
    b, y = b * 0.03125, y * 0.03125
    total, magnitude = 0.5 * (x @ y) + 2 * z, np.abs(x) @ np.abs(y) + 2 * np.abs(z)
    kernels.clear()
    if activation is None:
        close(tt.addmm(c, a, b, beta=2, alpha=0.5), total, magnitude, 1096)
    else:
        got = tt._addmm_activation(c, a, b, beta=2, alpha=0.5, use_gelu=activation)
        expected = tt.from_numpy(total)
        expected = tt.nn.functional.gelu(expected) if activation else tt.relu(expected)
        close(got, expected.numpy(), 2 * magnitude, 1096)
    assert kernels == ["matmul_stream_k"]


def test_batches(drawn, kernels):
    (a, x), (b, y) = drawn(3, 4, 1096), drawn(3, 1096, 40)
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), 1096)
    assert kernels == ["matmul_stream_k"]


def test_a_sum_that_is_not_finite_stays_in_its_element(drawn):
    (a, x), (b, y) = drawn(4, 1096), drawn(40, 1096)
    a[1, 1000] = x[1, 1000] = np.inf
    a[2, 3] = x[2, 3] = np.nan
    got = tt.mm(a, b.t()).cpu().to(tt.float64).numpy()
    exact = x @ y.T
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    assert np.array_equal(got[1], exact[1])
    assert np.isfinite(got[[0, 3]]).all()


def test_8_bit_floats_and_their_scales(rng, kernels):
    a, b = (
        tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(tt.float8_e4m3fn)
        for sizes in ((6, 1120), (48, 1120))
    )
    x, y = a.to(tt.float64).numpy(), b.to(tt.float64).numpy().T
    s, t = tt.tensor(2.0, device="cuda"), tt.tensor(0.25, device="cuda")
    got = tt._scaled_mm(a.to("cuda"), b.to("cuda").t(), s, t, out_dtype=tt.bfloat16)
    close(got, 0.5 * (x @ y), np.abs(x) @ np.abs(y), 1120)
    assert kernels == ["matmul_stream_k"]


def test_tf32_of_operands_that_adjoin_along_k(rng, kernels, monkeypatch):
    monkeypatch.setattr(tt.backends.cuda.matmul, "allow_tf32", True)
    x, y = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((6, 1096), (40, 1096)))
    a, b = (tt.from_numpy(each).to("cuda") for each in (x, y))
    got = tt.mm(a, b.t()).cpu().double().numpy()
    magnitude = np.abs(x).astype(np.float64) @ np.abs(y.T)
    assert (np.abs(got - x.astype(np.float64) @ y.T) <= 2.0**-9 * magnitude).all()
    assert kernels == ["matmul_stream_k"]
    kernels.clear()
    tt.mm(a, b.t().contiguous())
    assert "matmul_stream_k" not in kernels


ORDERS = {
    "forwards": lambda count: np.arange(count),
    "backwards": lambda count: np.arange(count)[::-1],
    "odd ones first": lambda count: np.argsort(np.arange(count) % 2 == 0, kind="stable"),
    "drawn": lambda count: np.random.default_rng(1).permutation(count),
}


@pytest.fixture
def in_order(monkeypatch):
    """Return in_order(name), which makes the interpreter run the programs of launches one by one in that order."""
    begin = semantics.StrictBuilder.begin_program

    def choose(name):
        def begin_other(builder):
            builder.grid_idx = (int(ORDERS[name](builder.grid_dim[0])[builder.grid_idx[0]]), 0, 0)
            begin(builder)

        monkeypatch.setattr(semantics, "FIRST_SIZE", 1)
        monkeypatch.setattr(semantics.StrictBuilder, "begin_program", begin_other)

    return choose


def test_any_order_of_programs_gives_the_same_bits(drawn, kernels, in_order):
    (a, _), (b, _) = drawn(16, 2056), drawn(328, 2056)
    found = [bits(tt.mm(a, b.t()))]
    for name in ORDERS:
        in_order(name)
        found.append(bits(tt.mm(a, b.t())))
    assert kernels == ["matmul_stream_k"] * 5
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_counters_are_zero_after_a_launch(drawn):
    (a, _), (b, _) = drawn(16, 2056), drawn(328, 2056)
    tt.mm(a, b.t())
    tt.cuda.synchronize()
    memory = counters_of(driver(), a.device).current(3)
    counters = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int32 * 16).from_address(memory.address))
    assert not counters.any()


@pytest.mark.parametrize("tiles", [1, 3, 32, 48, 112, 224, 1002])
@pytest.mark.parametrize("steps", [8, 64, 224])
@pytest.mark.parametrize("slots", [3, 132])
def test_every_step_has_one_program_and_every_slot_one_part(tiles, steps, slots):
    division = Division(Configuration((64, 128, 64)), tiles, steps, max(-(-tiles * steps // slots), 1))
    assert division.programs <= slots
    assert (division.programs - 1) * division.share < tiles * steps <= division.programs * division.share
    held: set[int] = set()
    arrivals = dict.fromkeys(range(tiles), 0)
    for program in range(division.programs):
        begin = program * division.share
        end = min(begin + division.share, tiles * steps)
        for tile in range(begin // steps, -(-end // steps)):
            first, last = tile * steps // division.share, (tile * steps + steps - 1) // division.share
            assert first <= program <= last
            arrivals[tile] += 1
            if first != last:
                slot = 2 * program + (program == first)
                assert slot not in held
                held.add(slot)
    for tile, count in arrivals.items():
        assert count == (tile * steps + steps - 1) // division.share - tile * steps // division.share + 1
    assert division.is_split or not held
    assert len(held) <= 2 * division.programs


PLANS = """
import json, sys
import triten as tt
from triten.perf.ahead_of_time.recording import RecordingDriver
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.triton_kernels.products.stream_k_kernels import OTHER_KERNEL
from triten.triton_kernels.tuning import choice
from triten.triton_kernels.tuning.question import declared

cuda._driver = RecordingDriver(KNOWN[int(sys.argv[1])])
cuda._driver.has_gluon = bool(sys.argv[2])

def launched(m, n, k, dtype="bfloat16"):
    a, b = (tt.empty(size, dtype=getattr(tt, dtype), device="cuda") for size in ((m, k), (n, k)))
    cuda._driver.launched.clear()
    cuda._driver.grids.clear()
    tt.mm(a, b.t())
    return [[noted["kernel"].__name__, grid[0]] for noted, grid in zip(cuda._driver.launched, cuda._driver.grids)]

found = {"x".join(map(str, size)): launched(*size) for size in (
    (16, 6144, 4096), (2, 4096, 4096), (64, 28672, 4096), (8, 4096, 14336), (4, 128256, 4096), (16, 512, 4096),
    (16, 4096, 512), (513, 5120, 5120), (4096, 4096, 4096), (3000, 14336, 4096),
)}
row = tt.empty(1, 4096, dtype=tt.bfloat16, device="cuda")
square, tall = (tt.empty(size, 4096, dtype=tt.bfloat16, device="cuda") for size in (4096, 128256))
for name, right in (("a row", square), ("a row by columns", square.t()), ("a row, many columns", tall.t())):
    cuda._driver.launched.clear()
    tt.mm(row, right)
    found[name] = [noted["kernel"].__name__ for noted in cuda._driver.launched]
tt.backends.cuda.matmul.allow_tf32 = True
found["tf32"], found["tf32 of a row"] = (launched(m, 4096, 4096, "float32") for m in (16, 1))
tt.backends.cuda.matmul.allow_tf32 = False
questions = []
with choice.listening(lambda question, default: questions.append((question, default))):
    choice.make_plans_anew()
    launched(16, 6144, 4096)
    launched(513, 5120, 5120)
asked = [question for question, _ in questions if ":matmul_stream_k" in question.kernel]
with choice.forced(asked[0], OTHER_KERNEL):
    choice.make_plans_anew()
    found["left to others"] = launched(16, 6144, 4096)
tiles = []
for candidate in declared(asked[1].kernel, "bf16", 90):
    with choice.forced(asked[1], candidate):
        choice.make_plans_anew()
        tiles.append([candidate.tile, launched(513, 5120, 5120)])
found["tiles"] = tiles
print(json.dumps(found))
"""


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


@pytest.mark.parametrize("has_gluon", [True, False], ids=["Gluon", "Triton"])
def test_plans_on_sm_90(has_gluon):
    if has_gluon and not is_supported():
        pytest.skip("this Triton has no such Gluon")
    found = run(PLANS, "90", "yes" if has_gluon else "")
    tiles = {tuple(tile): launches for tile, launches in found.pop("tiles")}
    kernel = "matmul_stream_k_specialized" if has_gluon else "matmul_stream_k"
    # Every one of 132 multiprocessors has the same number of steps, but for the last one.
    assert found["16x6144x4096"] == [[kernel, 128]]
    assert found["2x4096x4096"] == [[kernel, 128]]
    assert found["64x28672x4096"] == [[kernel, 132]]
    assert found["8x4096x14336"] == [[kernel, 131]]
    assert found["4x128256x4096"] == [[kernel, 132]]
    assert found["a row"] == [kernel]
    assert found["tf32"] == [["matmul_stream_k", 128]]
    assert "matmul_stream_k" not in [name for name, _ in found["tf32 of a row"]], "vectors are not rounded"
    assert found["a row by columns"] == found["a row, many columns"] == ["matvec"]
    for size in ("16x512x4096", "16x4096x512", "513x5120x5120", "left to others"):
        assert found[size][0][0] == "matmul_persistent"
    for size in ("4096x4096x4096", "3000x14336x4096"):
        assert kernel not in [name for name, _ in found[size]]
    assert tiles.pop((0, 0, 0)) == [["matmul_persistent", 100]]
    assert all(launches == [[kernel, launches[0][1]]] and launches[0][1] > 128 for launches in tiles.values())


EMULATED = """
import json
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.products import stream_k, stream_k_kernels, warp_specialized_stream_k
from triten.triton_kernels.reduction.stream_counters import counters_of
from triten.triton_kernels.tuning.choice import make_plans_anew

rng = np.random.default_rng(5)
launched = []
driver().observe_launches(lambda name, grid, stream, launch: (launched.append([name, grid[0]]), launch()))

def drawn(*sizes):
    return tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(tt.bfloat16)

def held(call, a, b, row, rounding=2.0**-8):
    results = []
    near = [x.cuda() for x in (a, b, row)]
    for has_gluon in (True, False):
        driver().has_gluon = has_gluon
        make_plans_anew()
        results.append(call(*near).cpu())
    expected = call(*(x.double() for x in (a, b, row))).numpy()
    magnitude = np.abs(a.double().numpy()) @ np.abs(b.double().numpy()) + np.abs(row.double().numpy())
    error = np.abs(results[0].double().numpy() - expected)
    assert (error <= rounding * np.abs(expected) + 2.0**-20 * magnitude).all(), error.max()
    same = results[0].view(tt.int16).numpy() == results[1].view(tt.int16).numpy()
    assert same.all(), "Gluon and Triton differ"

# Two tiles of 9 steps on three multiprocessors: programs begin and end within tiles.
stream_k.multiprocessors, stream_k.MIN_STEPS = lambda device: 3, 1
held(lambda a, b, row: tt.addmm(row, a, b, alpha=2), drawn(5, 520), drawn(200, 520).t(), drawn(200))
# Two groups of warps with 64 rows each, whole tiles and parts of tiles; transposed operands.
stream_k.MAX_ROWS = 1024
stream_k.TILES = stream_k.TILES | {2: stream_k_kernels.MANY_ROWS}
stream_k.SPECIALIZED_FEW_ROWS = warp_specialized_stream_k.MANY_ROWS
held(lambda a, b, row: tt.relu(a @ b), drawn(200, 136).t(), drawn(200, 200), drawn(200))
# TF32, of numbers that it represents.
tt.backends.cuda.matmul.allow_tf32 = True
a, b = ((rng.standard_normal(sizes).astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        for sizes in ((5, 520), (200, 520)))
got = tt.mm(tt.from_numpy(a).cuda(), tt.from_numpy(b).cuda().t()).cpu().double().numpy()
error = np.abs(got - a.astype(np.float64) @ b.T)
assert (error <= 2.0**-20 * (np.abs(a).astype(np.float64) @ np.abs(b.T))).all(), error.max()
memory = counters_of(driver(), tt.device("cuda", 0)).current(8)
found = np.empty(16, np.int32)
driver().copy_device_to_host(found, memory.address, 0)
print(json.dumps([launched, found.tolist()]))
"""


@pytest.mark.skipif(not is_supported(), reason="this Triton has no such Gluon")
def test_warp_specialized_sums_have_the_bits_of_tritons():
    """Execute the sm_90 code of both kernels in the emulator, with its races, copies and barriers."""
    launched, counters = run(EMULATED, TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    names = [name for name, _ in launched if name.startswith("matmul")]
    assert names == ["matmul_stream_k_specialized", "matmul_stream_k"] * 2 + ["matmul_stream_k"]
    assert {grid for name, grid in launched if name.startswith("matmul")} == {3}
    assert not any(counters)


def fused(kernels, function, *arguments):
    """Return the compiled function's result, and the text of the only kernel that it launched."""
    compiled = tt.compile(function)
    compiled(*arguments)
    kernels.clear()
    return compiled(*arguments), list(kernels)


def test_a_fused_epilogue_gives_the_bits_of_the_matmul(drawn, kernels):
    (x, _), (w, _), (residual, _) = drawn(6, 1096), drawn(40, 1096), drawn(6, 40)
    eager = tt.relu(tt.mm(x, w.t()) * 0.125) + residual
    got, names = fused(kernels, lambda x, w, r: tt.relu(tt.mm(x, w.t()) * 0.125) + r, x, w, residual)
    assert np.array_equal(bits(got), bits(eager))
    assert len(names) == 1 and names[0] != "matmul_stream_k"


def test_a_fused_prologue_gives_the_bits_of_the_matmul(rng, drawn, kernels):
    (x, _), (scale, _) = drawn(6, 1104), drawn(40, 1)
    weight = tt.from_numpy(rng.integers(-8, 8, (40, 1104)).astype(np.int8)).to("cuda")

    def computed(x, weight, scale):
        return tt.relu(tt.mm(x, (weight.to(tt.float16) * scale).t()))

    eager = computed(x, weight, scale)
    got, names = fused(kernels, computed, x, weight, scale)
    assert np.array_equal(bits(got), bits(eager))
    assert len(names) == 1 and names[0] != "matmul_stream_k"
