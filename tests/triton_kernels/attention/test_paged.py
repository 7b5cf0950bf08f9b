"""Paged attention agrees with packed keys in float64: page sizes, windows, wrong tables."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.attention import tiles

attention = tt.ops.aten._varlen_attn
QUERIES, KEYS = (19, 0, 1, 40, 3), (50, 7, 33, 21, 0)
"""The fourth sequence has more queries than keys, the last one no keys."""
WINDOWS = [(-1, -1), (-1, 0), (7, 0), (20, 5), (0, 0)]
PAGE_SIZES = [16, 32, 5, 1, 20]
"""Tiles have 16 keys: of 16 and 32 each lies in one page."""
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small tiles, so that a sequence has several."""
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)


def starts(lengths: tuple[int, ...]) -> tt.Tensor:
    return tt.tensor([sum(lengths[:n]) for n in range(len(lengths) + 1)], dtype=tt.int32)


class Case:
    """Queries and keys, packed and in pages; table entries behind a sequence's last page are invalid."""

    def __init__(
        self,
        heads: int,
        heads_k: int,
        width: int,
        width_v: int,
        page_size: int,
        queries: tuple[int, ...] = QUERIES,
    ) -> None:
        rng = np.random.default_rng(3)
        self.queries = queries
        self.query = rng.standard_normal((sum(queries), heads, width))
        self.key, self.value = (rng.standard_normal((sum(KEYS), heads_k, n)) for n in (width, width_v))
        counts = [-(-n // page_size) for n in KEYS]
        numbers = rng.permutation(sum(counts) + 3)
        self.table = np.full((len(KEYS), max(counts) + 2), 1 << 30, np.int32)
        self.page_size = page_size
        self.pools = [
            np.full((len(numbers), page_size, *x.shape[1:]), np.nan) for x in (self.key, self.value)
        ]
        for sequence, count in enumerate(counts):
            own = self.table[sequence, :count] = numbers[sum(counts[:sequence]) :][:count]
            first, rows = sum(KEYS[:sequence]), KEYS[sequence]
            for pool, x in zip(self.pools, (self.key, self.value), strict=True):
                together = np.full((count * page_size, *x.shape[1:]), np.nan)
                together[:rows] = x[first : first + rows]
                pool[own] = together.reshape(count, *pool.shape[1:])

    def paged(
        self, device: str, dtype: tt.dtype, window: tuple[int, int], **options: int
    ) -> list[np.ndarray]:
        """Return the output and the sums."""
        query, key, value = (tt.from_numpy(x).to(device, dtype) for x in (self.query, *self.pools))
        used, table = (tt.tensor(x, dtype=tt.int32).to(device) for x in (KEYS, self.table.tolist()))
        bounds = starts(self.queries).to(device)
        found = attention(
            query, key, value, bounds, None, *window, seqused_k=used, block_table=table, **options
        )
        return [x.cpu().double().numpy() for x in found]

    def packed(self, window: tuple[int, int]) -> list[np.ndarray]:
        """Compute the attention of packed keys on the host in float64."""
        given = [tt.from_numpy(x) for x in (self.query, self.key, self.value)]
        return [x.numpy() for x in attention(*given, starts(self.queries), starts(KEYS), *window)]

    def check(self, dtype: tt.dtype, window: tuple[int, int]) -> None:
        expected, limit = self.packed(window), TOLERANCE[dtype]
        for mine, theirs in zip(self.paged("cuda", dtype, window), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=limit, atol=2 * limit)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_pages_and_windows(page_size: int, window: tuple[int, int]) -> None:
    Case(2, 2, 16, 16, page_size).check(tt.float16, window)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("page_size", [16, 5])
@pytest.mark.parametrize("heads", [(4, 2, 20, 24), (3, 1, 16, 40), (2, 2, 144, 8)], ids=str)
def test_heads(heads: tuple[int, int, int, int], page_size: int, dtype: tt.dtype) -> None:
    Case(*heads, page_size).check(dtype, (9, 0))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("heads", [(4, 2), (6, 2), (5, 1), (16, 1), (24, 1)], ids=str)
def test_heads_that_share_a_tile(heads: tuple[int, int], window: tuple[int, int]) -> None:
    """Share a tile between heads with the same keys, except for 24 heads; sequences have one query or a few."""
    Case(*heads, 16, 24, 16, (1, 0, 1, 1, 1)).check(tt.float16, window)
    Case(*heads, 16, 16, 5, (3, 1, 0, 6, 1)).check(tt.float16, window)


@pytest.mark.parametrize("page_size", [16, 5])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_on_the_host(window: tuple[int, int], page_size: int) -> None:
    case = Case(4, 2, 8, 12, page_size)
    for mine, theirs in zip(case.paged("cpu", tt.float64, window), case.packed(window), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("page_size", [16, 5])
def test_pages_that_no_query_sees_may_be_gone(page_size: int, device: str) -> None:
    case = Case(2, 2, 16, 16, page_size)
    window, dtype = (4, 0), tt.float64 if device == "cpu" else tt.float16
    whole = case.paged(device, dtype, window)
    for sequence, (queries, keys) in enumerate(zip(QUERIES, KEYS, strict=True)):
        case.table[sequence, : max(keys - queries - 4, 0) // page_size] = -1
    assert (case.table == -1).any()
    for mine, theirs in zip(case.paged(device, dtype, window), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("page_size", [16, 5])
@pytest.mark.parametrize("page", [-1, 1 << 30, -(1 << 31)])
def test_wrong_pages_are_reported(page: int, page_size: int, device: str) -> None:
    case = Case(2, 2, 16, 16, page_size)
    case.table[2, 1] = page

    def call() -> None:
        case.paged(device, tt.float16, (-1, 0))
        tt.cuda.synchronize()

    with pytest.raises(RuntimeError, match=r"varlen_attn.*block_table: expected pages within \[0, "):
        call()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_more_keys_than_pages_are_reported(device: str) -> None:
    pool = tt.ones(3, 4, 1, 16, dtype=tt.float16, device=device)
    bounds, used = (tt.tensor(x, dtype=tt.int32, device=device) for x in ([0, 1], [9]))
    table = tt.tensor([[0, 1]], dtype=tt.int32, device=device)

    def call(pool: tt.Tensor) -> None:
        query = tt.ones(1, 1, 16, dtype=tt.float16, device=device)
        attention(query, pool, pool, bounds, None, seqused_k=used, block_table=table)
        tt.cuda.synchronize()

    for given in (pool, pool[:0]):
        with pytest.raises(RuntimeError, match=r"varlen_attn.*seqused_k: expected"):
            call(given)


def test_a_pool_with_heads_before_rows_and_a_table_in_columns() -> None:
    case = Case(4, 2, 16, 16, 16)
    expected = case.paged("cuda", tt.float16, (-1, 0))
    query, key, value = (tt.from_numpy(x).to("cuda", tt.float16) for x in (case.query, *case.pools))
    key, value = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (key, value))
    used, table = (tt.tensor(x, dtype=tt.int32).to("cuda") for x in (KEYS, case.table.T.tolist()))
    bounds = starts(QUERIES).to("cuda")
    found = attention(query, key, value, bounds, None, -1, 0, seqused_k=used, block_table=table.T)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.cpu().double().numpy(), theirs)


def test_meta() -> None:
    pool = tt.empty(3, 4, 2, 8, dtype=tt.float16, device="meta")
    bounds, used = (tt.empty(n, dtype=tt.int32, device="meta") for n in (2, 1))
    query, table = pool.new_empty(5, 4, 8), tt.empty(1, 3, dtype=tt.int32, device="meta")
    out, sums = attention(query, pool, pool, bounds, None, seqused_k=used, block_table=table)
    assert (out.shape, sums.shape) == ((5, 4, 8), (4, 5))


def test_refusals() -> None:
    pool = tt.ones(3, 4, 2, 8, dtype=tt.float16, device="cuda")
    query = tt.ones(5, 4, 8, dtype=tt.float16, device="cuda")
    bounds, used = (tt.tensor(x, dtype=tt.int32, device="cuda") for x in ([0, 5], [4]))
    table = tt.tensor([[0, 1]], dtype=tt.int32, device="cuda")

    def call(query: tt.Tensor, key: tt.Tensor, value: tt.Tensor, **options: tt.Tensor) -> None:
        attention(query, key, value, bounds, None, **{"seqused_k": used, "block_table": table, **options})

    with pytest.raises(RuntimeError, match=r"expected block_table to be int32.*got triten\.int64"):
        call(query, pool, pool, block_table=table.long())
    with pytest.raises(RuntimeError, match=r"expected block_table to have 1 rows.*\[2, 2\]"):
        call(query, pool, pool, block_table=table.expand(2, -1))
    with pytest.raises(
        RuntimeError, match=r"shape \(pages, page size, heads, width\), but got .*\[12, 2, 8\]"
    ):
        call(query, pool.flatten(0, 1), pool.flatten(0, 1))
    with pytest.raises(RuntimeError, match=r"as many pages, page size and heads, which divide 4"):
        call(query, pool, pool[:, :2])
    with pytest.raises(RuntimeError, match="block_table needs seqused_k"):
        attention(query, pool, pool, bounds, None, block_table=table)
