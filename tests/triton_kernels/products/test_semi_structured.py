"""Matmuls with 2:4 sparse matrices agree with float64, and have the expected packing."""

import numpy as np
import pytest

import triten as tt

DTYPES = ["float16", "bfloat16", "float32", "int8"]
KEPT = {
    (): (2, 3),
    (0,): (0, 2),
    (1,): (1, 2),
    (2,): (2, 3),
    (3,): (2, 3),
    (0, 1): (0, 1),
    (0, 2): (0, 2),
    (0, 3): (0, 3),
    (1, 2): (1, 2),
    (1, 3): (1, 3),
    (2, 3): (2, 3),
    (0, 1, 2): (0, 1),
    (0, 1, 3): (0, 1),
    (0, 2, 3): (0, 3),
    (1, 2, 3): (1, 3),
    (0, 1, 2, 3): (0, 1),
}
"""The columns that are kept of four, by those that are not 0: the table of encodings in PyTorch's conversions."""


def sparse(rng, rows, columns, dtype):
    """Return a 2:4 sparse matrix of small integers; float32 has one nonzero in two."""
    each = 2 if dtype == "float32" else 4
    values = rng.integers(-9, 10, (rows, columns // each, each))
    values *= np.argsort(rng.random(values.shape), -1) < each // 2
    return tt.from_numpy(values.reshape(rows, columns)).to(getattr(tt, dtype))


def whole(rng, *shape, dtype):
    return tt.from_numpy(rng.integers(-9, 10, shape)).to(getattr(tt, dtype))


def rounded(exact, dtype):
    """Round sums of products of small integers, which float32 has without error, to a dtype."""
    exact = exact.clamp(-128, 127) if dtype is tt.int8 else exact
    return exact.to(dtype).double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 64, 64), (5, 64, 128), (40, 96, 192)], ids=str)
def test_products(rng, device, dtype, size):
    m, n, k = size
    k = 2 * k if dtype == "int8" else k
    w, x, bias = sparse(rng, n, k, dtype), whole(rng, k, m, dtype=dtype), whole(rng, n, dtype=dtype)
    exact = w.double() @ x.double()
    values, meta = (part.to(device) for part in tt._to_sparse_semi_structured(w.to(device)))
    packed = tt._cslt_compress(w.to(device))
    outputs = [w.dtype, tt.int32, tt.float16] if dtype == "int8" else [w.dtype, tt.float32]
    for dense in (x.to(device), x.t().contiguous().to(device).t(), x.to(device).repeat(1, 2)[:, ::2]):
        if dense.stride(1) == 2:
            exact = w.double() @ dense.cpu().double()
        for out in outputs:
            given = None if out is w.dtype else out
            got = tt._sparse_semi_structured_mm(values, meta, dense, out_dtype=given)
            assert got.dtype is out and got.shape == (n, m)
            assert (got.cpu().double() == rounded(exact, out)).all()
        got = tt._sparse_semi_structured_addmm(bias.to(device), values, meta, dense)
        sums = exact + bias.double()[:, None]
        assert (got.cpu().double() == rounded(sums, w.dtype)).all()
        got = tt._sparse_semi_structured_linear(dense.t(), values, meta, bias=bias.to(device))
        assert (got.cpu().double() == rounded(sums, w.dtype).t()).all()
        for transposed in (False, True):
            got = tt._cslt_sparse_mm(packed, dense, bias.to(device), transpose_result=transposed)
            assert (
                got.cpu().double() == (rounded(sums, w.dtype).t() if transposed else rounded(sums, w.dtype))
            ).all()


def test_factors(rng, device):
    w, x, bias = (
        sparse(rng, 64, 64, "float16"),
        whole(rng, 64, 3, dtype="float16"),
        whole(rng, 64, dtype="float16"),
    )
    exact = w.double() @ x.double()
    values, meta = tt._to_sparse_semi_structured(w.to(device))
    got = tt._sparse_semi_structured_addmm(bias.to(device), values, meta, x.to(device), alpha=0.5, beta=2)
    assert (got.cpu().double() == rounded(0.5 * exact + 2 * bias.double()[:, None], tt.float16)).all()
    nan = tt.full((64,), float("nan"), dtype=tt.float16, device=device)
    got = tt._sparse_semi_structured_addmm(nan, values, meta, x.to(device), beta=0)
    assert (got.cpu().double() == rounded(exact, tt.float16)).all()
    alpha = tt.tensor(0.25, device=device)
    got = tt._cslt_sparse_mm(tt._cslt_compress(w.to(device)), x.to(device), bias.to(device), alpha)
    assert (got.cpu().double() == rounded(0.25 * exact + bias.double()[:, None], tt.float16)).all()
    w = sparse(rng, 64, 128, "int8")
    x = whole(rng, 128, 3, dtype="int8")
    got = tt._cslt_sparse_mm(tt._cslt_compress(w.to(device)), x.to(device), None, alpha * 2, tt.int32)
    assert (got.cpu().double() == (0.5 * (w.double() @ x.double())).round()).all()


def test_sums_of_integers_are_exact(device):
    k = 4096
    w = tt.tensor([[-128, 0, 0, -128] * (k // 4)] * 16, dtype=tt.int8, device=device)
    x = tt.full((k, 2), -128, dtype=tt.int8, device=device)
    x[5] = 127
    values, meta = tt._to_sparse_semi_structured(w)
    got = tt._sparse_semi_structured_mm(values, meta, x, out_dtype=tt.int32)
    assert got.unique().tolist() == [128 * 128 * (k // 2)]
    assert tt._sparse_semi_structured_mm(values, meta, x).unique().tolist() == [127]
    assert tt._sparse_semi_structured_mm(values, meta, -(x // 2)).unique().tolist() == [-128]


def test_sums_of_halves_are_wide(rng, device):
    """Accumulate in float32: 2048 ones and a half would stay 2048 in float16."""
    w = tt.tensor([[1.0, 0.0, 0.0, 1.0] * 1024] * 32, dtype=tt.float16, device=device)
    values, meta = tt._to_sparse_semi_structured(w)
    got = tt._sparse_semi_structured_mm(
        values, meta, tt.full((4096, 1), 1.5, dtype=tt.float16, device=device)
    )
    assert got.unique().tolist() == [3072.0]


def test_edges(device):
    w = tt.tensor(
        [[float("nan"), 0.0, 0.0, -0.0] + [0.0] * 60, [1.0, 0.0, 0.0, 2.0] * 16] + [[0.0] * 64] * 30
    )
    values, meta = tt._to_sparse_semi_structured(w.half().to(device))
    x = tt.ones(64, 2, dtype=tt.float16, device=device)
    got = tt._sparse_semi_structured_mm(values, meta, x)
    assert got[0].isnan().all() and got[1:].sum(1).tolist() == [96.0] + [0.0] * 30
    x[1, 0] = float("inf")
    got = tt._sparse_semi_structured_mm(values, meta, x)
    # A dropped element is 0, and 0 times infinity is NaN, as in the dense matmul.
    assert got[1, 0].isnan() and got[1, 1].item() == 48.0
    assert tt._sparse_semi_structured_mm(values, meta, x[:, :0]).shape == (32, 0)
    nothing = tt._to_sparse_semi_structured(w[:, :0].half().to(device))
    assert tt._sparse_semi_structured_mm(*nothing, x[:0]).tolist() == [[0.0, 0.0]] * 32


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_kept(device, dtype):
    """Keep the right elements for every pattern of zeros, in every position of a word."""
    each = 2 if dtype == "float32" else 4
    patterns = [
        columns for columns in KEPT if each == 4 or len(columns) == len([c for c in columns if c < 2])
    ]
    rng = np.random.default_rng(0)
    rows, columns = 64, 128
    dense, kept = np.zeros((rows, columns)), np.zeros((rows, columns))
    bits = np.zeros((rows, columns // each), np.int64)
    for row in range(rows):
        for group in range(columns // each):
            there = patterns[rng.integers(len(patterns))]
            numbers = rng.integers(1, 100, each)
            for column in there:
                dense[row, group * each + column] = numbers[column]
            # One of two floats stands for two halves of four.
            taken = KEPT[there] if each == 4 else ((0, 1) if 0 in there else (2, 3))
            for column in taken if each == 4 else (taken[0] // 2,):
                kept[row, group * each + column] = dense[row, group * each + column]
            bits[row, group] = taken[0] | taken[1] << 2
    values, meta = tt._to_sparse_semi_structured(tt.from_numpy(dense).to(device, getattr(tt, dtype)))
    assert values.shape == (rows, columns // 2)
    size = 4 if dtype == "int8" else 2
    words = (bits.reshape(rows, -1, 2 * size) << np.arange(0, 8 * size, 4)).sum(-1)
    words = words.astype(f"uint{8 * size}").view(f"int{8 * size}")
    assert (meta.cpu().numpy().reshape(-1) == by_offsets(words)).all()
    compressed = tt._cslt_compress(tt.from_numpy(dense).to(device, getattr(tt, dtype)))
    assert compressed.numel() * 16 == rows * columns * (10 if dtype == "int8" else 9)
    for got in (expanded(values, meta), expanded(compressed, None, columns)):
        assert (got.double().cpu().numpy() == kept).all()


def by_offsets(words):
    """Store interleaved words by their offsets: CUTLASS, `reorder_meta` and `ColumnMajorInterleaved<2>`."""
    rows, columns = words.shape
    group, apart = (32, 4) if words.dtype.itemsize == 2 else (16, 2)
    memory = np.zeros(rows * columns, words.dtype)
    for row in range(rows):
        for column in range(columns):
            to_row = row // group * group + row % 8 * apart + row % group // 8
            to_column = column
            if to_row % 2 == 0 and column % 2 == 1:
                to_row, to_column = to_row + 1, column - 1
            elif to_row % 2 == 1 and column % 2 == 0:
                to_row, to_column = to_row - 1, column + 1
            memory[to_column // 2 * rows * 2 + to_row * 2 + to_column % 2] = words[row, column]
    return memory


def expanded(values, meta, columns=None):
    if meta is None:
        one = tt.eye(columns, dtype=values.dtype, device=values.device)
        return tt._cslt_sparse_mm(values, one)
    from triten.sparse._semi_structured_conversions import sparse_semi_structured_to_dense_cutlass

    return sparse_semi_structured_to_dense_cutlass(values, meta)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"values": tt.zeros(32)}, "`values` to be a 2D tensor, got 1D"),
        ({"values": tt.zeros(32, 32, dtype=tt.float16).t()}, "`values` to be contiguous"),
        ({"values": tt.zeros(32, 32, dtype=tt.float64)}, "`values` to be of int8"),
        ({"mat2": tt.zeros(64, 3)}, "dtype of `values`, triten.float16, got triten.float32"),
        ({"mat2": tt.zeros(60, 3, dtype=tt.float16)}, r"\(32x64 and 60x3\)"),
        ({"meta": tt.zeros(32, 4, dtype=tt.int32)}, "`meta` to be of int16"),
        ({"meta": tt.zeros(32, 2, dtype=tt.int16)}, "a word for each 16 columns"),
        ({"out_dtype": tt.int32}, "out_dtype of float16, float32 for triten.float16, got triten.int32"),
    ],
)
def test_refusals(other, words):
    given = {
        "values": tt.zeros(32, 32, dtype=tt.float16),
        "meta": tt.zeros(32, 4, dtype=tt.int16),
        "mat2": tt.zeros(64, 3, dtype=tt.float16),
        "out_dtype": None,
    } | other
    with pytest.raises(RuntimeError, match=words):
        tt._sparse_semi_structured_mm(
            given["values"], given["meta"], given["mat2"], out_dtype=given["out_dtype"]
        )


def test_other_refusals():
    half = tt.zeros(32, 64, dtype=tt.float16)
    for act, words in (
        (lambda: tt._to_sparse_semi_structured(half[0]), "2-dimensional dense tensor, got 1"),
        (lambda: tt._to_sparse_semi_structured(half.double()), "Invalid datatype"),
        (lambda: tt._to_sparse_semi_structured(half[:16]), "rows of dense matrix 16 must be divisible by 32"),
        (
            lambda: tt._to_sparse_semi_structured(half[:, :48]),
            "columns of dense matrix 48 must be divisible by 32",
        ),
        (lambda: tt._cslt_compress(half[:, :8]), "multiple of 16 columns"),
        (lambda: tt._cslt_compress(half.double()), "Unsupported dtype"),
        (lambda: tt._cslt_sparse_mm(half[0], half), "9 elements for each 16"),
        (
            lambda: tt._cslt_sparse_mm(tt._cslt_compress(half), half.t(), out_dtype=tt.float32),
            "only available for int8",
        ),
        (lambda: tt._cslt_sparse_mm(tt._cslt_compress(half), half.t().float()), "dtype of `compressed_A`"),
        (lambda: tt._sparse_semi_structured_tile(half, "smallest"), 'Unknown algorithm "smallest"'),
        (lambda: tt._sparse_semi_structured_tile(half.float()), "only `float16` and `bfloat16`"),
        (lambda: tt._sparse_semi_structured_tile(half[:24]), "multiple of 32"),
        (lambda: tt._sparse_semi_structured_tile(half.t()), "contiguous"),
        (lambda: tt._sparse_semi_structured_apply(half, tt.zeros(4, 4, 8)), r"shape \[4, 8, 8\]"),
    ):
        with pytest.raises(RuntimeError, match=words):
            act()
    values, meta = tt._to_sparse_semi_structured(half)
    with pytest.raises(RuntimeError, match="activation"):
        tt._sparse_semi_structured_linear(half, values, meta, activation="gelu")
    with pytest.raises(RuntimeError, match=r"`bias` of .* sizes \[32\]"):
        tt._sparse_semi_structured_addmm(half[0], values, meta, half.t())
    with pytest.raises(RuntimeError, match="same device"):
        tt._sparse_semi_structured_mm(values, meta, half.t().to("cuda"))


@pytest.mark.parametrize("activation", [None, "none", "relu", "silu"])
def test_activations(rng, device, activation):
    w, x = sparse(rng, 32, 64, "bfloat16"), whole(rng, 2, 3, 64, dtype="bfloat16")
    values, meta = tt._to_sparse_semi_structured(w.to(device))
    got = tt._sparse_semi_structured_linear(x.to(device), values, meta, activation=activation).cpu()
    linear = (x.double() @ w.double().t()).to(tt.bfloat16)
    expected = {"relu": tt.relu, "silu": tt.nn.functional.silu}.get(activation, lambda y: y)(linear)
    assert got.shape == (2, 3, 32) and (got == expected).all()


def greedily(tile, rooms=None):
    """Return the elements of a 4x4 tile that the greedy selection keeps, from the largest on."""
    kept, in_row, in_column = np.zeros((4, 4), bool), [0] * 4, [0] * 4
    flat = [(tile[r, c], r * 4 + c) for r in range(4) for c in range(4)]
    order = sorted(flat, reverse=True)
    if rooms is not None:
        order = sorted(order, key=lambda each: each[1] // 4)
    for _, at in order:
        row, column = divmod(at, 4)
        if in_row[row] < (2 if rooms is None else rooms[row]) and in_column[column] < 2:
            kept[row, column] = True
            in_row[row] += 1
            in_column[column] += 1
    return kept


@pytest.mark.parametrize(
    "algorithm", ["", "largest_values_greedy", "largest_abs_values_greedy", "causal1122"]
)
def test_tiles(rng, device, algorithm):
    x = tt.from_numpy(rng.integers(-20, 20, (64, 96))).half()
    wide = x.double().numpy()
    ranked = np.abs(wide) if "abs" in algorithm else wide
    kept = np.zeros(wide.shape, bool)
    for r in range(0, 64, 4):
        for c in range(0, 96, 4):
            rooms = (1, 1, 2, 2) if algorithm == "causal1122" else None
            kept[r : r + 4, c : c + 4] = greedily(ranked[r : r + 4, c : c + 4], rooms)
    packed, meta, packed_t, meta_t, masks = tt._sparse_semi_structured_tile(x.to(device), algorithm)
    assert (expanded(packed, meta).cpu().double().numpy() == wide * kept).all()
    assert (expanded(packed_t, meta_t).cpu().double().numpy() == (wide * kept).T).all()
    both = tt._sparse_semi_structured_tile(x.to(device), algorithm, use_cutlass=False)
    assert (expanded(both[0], None, 96).cpu().double().numpy() == wide * kept).all()
    assert (expanded(both[2], None, 64).cpu().double().numpy() == (wide * kept).T).all()
    assert (both[4] == masks).all()
    other = tt.from_numpy(rng.integers(1, 20, (64, 96))).half()
    dense = tt._sparse_semi_structured_apply_dense(other.to(device), masks)
    assert (dense.cpu().double().numpy() == other.double().numpy() * kept).all()
    ways = tt._sparse_semi_structured_apply(other.to(device), masks)
    assert (expanded(ways[0], meta) == dense).all() and (expanded(ways[1], meta_t) == dense.t()).all()


def test_the_order_of_masks(device):
    """Order masks least significant bit first, two rows of a 4x4 tile to a byte, tiles by rows of 8x8."""
    from triten.sparse._semi_structured_conversions import _compute_compressed_swizzled_bitmask

    x = tt.zeros(16, 8, device=device)
    x[8:10, :2], x[10:12, 2:4], x[8 + 4, 5] = 1, 1, 1
    masks = _compute_compressed_swizzled_bitmask(x)
    assert masks.shape == (2, 1, 4, 2)
    assert masks[1, 0].tolist() == [[51, 204], [0, 0], [0, 0], [2, 0]] and not masks[0].any()


def test_meta():
    half = tt.empty(32, 64, dtype=tt.float16, device="meta")
    values, meta = tt._to_sparse_semi_structured(half)
    assert values.shape == (32, 32) and meta.shape == (32, 4) and meta.dtype is tt.int16
    assert tt._sparse_semi_structured_mm(values, meta, half.t(), out_dtype=tt.float32).shape == (32, 32)
    assert tt._cslt_compress(half).shape == (32 * 64 * 9 // 16,)
    assert tt._sparse_semi_structured_tile(half)[4].shape == (4, 8, 8)
