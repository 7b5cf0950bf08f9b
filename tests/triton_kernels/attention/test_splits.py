"""Keys in parts: how many there are, packed, paged and batched sequences, and the merge."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.attention import merge, splits, tiles, varlen
from triten.triton_kernels.attention.splits import cost, number_of_parts
from triten.triton_kernels.budget import Configuration
from triten.triton_kernels.tuning.choice import make_plans_anew

from .test_paged import Case, starts

QUERIES = (3, 1, 0, 6, 1)
KEYS = (50, 7, 33, 21, 0)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Split keys into parts of one tile of 16, at least two."""

    def two_or_more(programs: int, keys: int, block_n: int, processors: int) -> int:
        return max(keys // block_n, 2)

    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    monkeypatch.setattr(varlen, "number_of_parts", two_or_more)
    make_plans_anew()
    yield
    monkeypatch.undo()
    make_plans_anew()


@pytest.fixture
def names() -> Iterator[list[str]]:
    """Return the names of attention's launches, in order."""
    seen: list[str] = []

    def note(name: str, grid: object, stream: object, launch: Callable[[], None]) -> None:
        if "attention" in name or name == "merge":
            seen.append(name)
        launch()

    before = driver().observe_launches(note)
    yield seen
    driver().observe_launches(before)


@pytest.mark.parametrize(
    ("programs", "keys", "expected"),
    [
        (8, 512, 1),
        (8, 4096, 32),
        (8, 131072, 33),
        (72, 4096, 5),
        (128, 4096, 2),
        (512, 4096, 1),
        (1, 1 << 20, 261),
    ],
)
def test_parts_fill_the_multiprocessors(programs: int, keys: int, expected: int) -> None:
    assert number_of_parts(programs, keys, 64, 132) == expected


@pytest.mark.parametrize("programs", [1, 7, 66, 67, 131, 132, 133, 265, 1000])
@pytest.mark.parametrize("keys", [1, 100, 2048, 10000, 131072])
def test_no_other_number_of_parts_costs_less(programs: int, keys: int) -> None:
    found = number_of_parts(programs, keys, 64, 132)
    n_tiles = -(-keys // 64)
    assert found == 1 or keys // found >= splits.MIN_KEYS
    possible = range(1, max(min(keys // splits.MIN_KEYS, 264), 1) + 1)
    assert cost(programs, n_tiles, 132, found) == min(cost(programs, n_tiles, 132, n) for n in possible)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (20, 5), (7, 0)], ids=str)
@pytest.mark.parametrize("page_size", [16, 5])
@pytest.mark.parametrize("heads", [(3, 1, 16, 40)], ids=str)
def test_pages_in_parts(
    heads: tuple[int, int, int, int], page_size: int, window: tuple[int, int], names: list[str]
) -> None:
    case = Case(*heads, page_size, QUERIES)
    first = case.paged("cuda", tt.float16, window)
    assert names == ["varlen_attention", "merge"]
    for mine, again in zip(first, case.paged("cuda", tt.float16, window), strict=True):
        assert mine.tobytes() == again.tobytes()
    case.check(tt.float16, window)


@pytest.mark.usefixtures("parts")
def test_merges_of_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(4, 2, 16, 16, 16, QUERIES)
    whole = case.paged("cuda", tt.float16, (-1, -1))
    monkeypatch.setattr(merge, "MERGED", Configuration((1, 2, 16), 4))
    monkeypatch.setattr(merge, "interpreted", lambda: False)
    make_plans_anew()
    for mine, theirs in zip(case.paged("cuda", tt.float16, (-1, -1)), whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("page", [-1, 1 << 30])
@pytest.mark.parametrize("entry", [0, 2])
def test_wrong_pages_of_any_part_are_reported(entry: int, page: int) -> None:
    case = Case(2, 2, 16, 16, 16, QUERIES)
    case.table[0, entry] = page
    with pytest.raises(RuntimeError, match=r"varlen_attn.*block_table: expected pages within \[0, "):
        case.paged("cuda", tt.float16, (-1, 0))
        tt.cuda.synchronize()


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("window", [(-1, -1), (9, 0), (2, -1)], ids=str)
def test_packed_keys_in_parts(window: tuple[int, int], names: list[str]) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (
        tt.from_numpy(rng.standard_normal(n))
        for n in ((sum(QUERIES) + 2, 4, 16), (sum(KEYS) + 3, 2, 16), (sum(KEYS) + 3, 2, 24))
    )
    bounds = [starts(lengths) for lengths in (QUERIES, KEYS)]
    expected = tt.ops.aten._varlen_attn(q, k, v, *bounds, *window)
    found = tt.ops.aten._varlen_attn(
        *(x.to("cuda", tt.float16) for x in (q, k, v)), *(x.to("cuda") for x in bounds), *window
    )
    assert names == ["varlen_attention", "merge"]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.cpu().double().numpy(), theirs.numpy(), rtol=4e-3, atol=8e-3)


@pytest.mark.usefixtures("parts")
def test_one_part_keeps_a_sequence_whole(names: list[str]) -> None:
    case = Case(4, 2, 16, 16, 16, QUERIES)
    whole = case.paged("cuda", tt.float16, (-1, 0), num_splits=1)
    assert names == ["varlen_attention"]
    split = case.paged("cuda", tt.float16, (-1, 0), num_splits=3)
    assert names == ["varlen_attention", "varlen_attention", "merge"]
    for mine, theirs in zip(split, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)


@pytest.mark.usefixtures("parts")
def test_windows_of_batches_in_parts() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (tt.from_numpy(rng.standard_normal(n)) for n in ((2, 4, 3, 16), (2, 2, 90, 16), (2, 2, 90, 16)))
    expected = tt.ops.aten._sliding_window_attn(q, k, v, 60, 0)
    found = tt.ops.aten._sliding_window_attn(*(x.to("cuda", tt.float16) for x in (q, k, v)), 60, 0)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.cpu().double().numpy(), theirs.numpy(), rtol=4e-3, atol=8e-3)


@pytest.mark.parametrize("group", [64, 100])
def test_heads_of_more_than_one_tile_share_their_keys(group: int) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (
        tt.from_numpy(rng.standard_normal(n)) for n in ((1, group, 2, 16), (1, 1, 19, 16), (1, 1, 19, 16))
    )
    attend = tt.nn.functional.scaled_dot_product_attention
    expected = attend(q, k, v, enable_gqa=True)
    found = attend(*(x.to("cuda", tt.float32) for x in (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(found.cpu().double().numpy(), expected.numpy(), rtol=4e-6, atol=4e-6)


PLANNING = """
import json, os
os.environ["TRITEN_TUNING_STORE"] = "0"
import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.perf.ahead_of_time.recording import RecordingDriver

driver = cuda._driver = RecordingDriver(KNOWN[90])

def made(*sizes, dtype="bfloat16"):
    return tt.empty(sizes, dtype=getattr(tt, dtype), device="cuda")

def grids(run):
    driver.launched.clear()
    driver.grids.clear()
    run()
    return [
        [noted["kernel"].__name__, *grid[:2]]
        for noted, grid in zip(driver.launched, driver.grids)
        if "attention" in noted["kernel"].__name__ or noted["kernel"].__name__ == "merge"
    ]

def decode(batch, heads, heads_k, keys):
    query, pool = made(batch, heads, 1, 128), made(batch, heads_k, keys, 128)
    return grids(lambda: tt.nn.functional.scaled_dot_product_attention(query, pool, pool, enable_gqa=True))

def paged(batch, keys, page=64):
    query, pool = made(batch, 32, 128), made(batch * keys // page, page, 8, 128)
    starts, used, table = (made(*n, dtype="int32") for n in ((batch + 1,), (batch,), (batch, keys // page)))
    attend = lambda: tt.ops.aten._varlen_attn(
        query, pool, pool, starts, None, -1, 0, seqused_k=used, block_table=table
    )
    return grids(attend)

print(json.dumps({
    "one sequence": decode(1, 32, 8, 4096),
    "long": decode(1, 32, 8, 131072),
    "nine sequences": decode(9, 32, 8, 4096),
    "many sequences": decode(64, 32, 8, 4096),
    "128 heads share keys": decode(4, 128, 1, 4096),
    "paged": paged(1, 131072),
    "many paged": paged(64, 4096),
}))
"""


def test_launches_of_decoding() -> None:
    """Two blocks of one tile of queries and one part of its keys are resident on each of 132 multiprocessors."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLANNING], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        "one sequence": [["attention", 8, 32], ["merge", 32, 1]],
        "long": [["attention", 8, 33], ["merge", 32, 1]],
        "nine sequences": [["attention", 72, 5], ["merge", 72, 1]],
        "many sequences": [["attention", 512, 1]],
        "128 heads share keys": [["attention", 4, 32], ["merge", 512, 1]],
        "paged": [["varlen_attention", 16, 33], ["merge", 32, 1]],
        "many paged": [["varlen_attention", 552, 1]],
    }
