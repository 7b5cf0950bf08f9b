"""Tensors of which two in four elements are kept: their products, layers, moves and files, beside dense arithmetic."""

import copy
import io
import pickle

import numpy as np
import pytest

import triten as tt
from triten import nn
from triten.sparse import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

KINDS = [SparseSemiStructuredTensorCUTLASS, SparseSemiStructuredTensorCUSPARSELT]
CASES = [
    (kind, dtype)
    for kind in KINDS
    for dtype in ("float16", "bfloat16", "int8", "float32")
    if kind is SparseSemiStructuredTensorCUTLASS or dtype != "float32"
]


def matrix(rng, rows, columns, dtype, device="cpu"):
    """Return a 2:4 sparse matrix of small integers, or a 1:2 sparse one for float32."""
    each = 2 if dtype == "float32" else 4
    values = rng.integers(-4, 5, (rows, columns // each, each))
    values *= np.argsort(rng.random(values.shape), -1) < each // 2
    return tt.from_numpy(values.reshape(rows, columns)).to(device, getattr(tt, dtype))


def dense(rng, *shape, dtype="float16", device="cpu"):
    return tt.from_numpy(rng.integers(-4, 5, shape)).to(device, getattr(tt, dtype))


def same(got, exact):
    """Whether a result is the exact one, rounded to its dtype; 8-bit integers saturate."""
    exact = exact.cpu()
    exact = exact.clamp(-128, 127) if got.dtype is tt.int8 else exact
    return got.shape == exact.shape and bool((got.cpu() == exact.to(got.dtype)).all())


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_products_on_either_side(rng, device, kind, dtype):
    w = matrix(rng, 64, 128, dtype, device)
    packed = kind.from_dense(w)
    assert packed.shape == w.shape and packed.dtype is w.dtype and packed.device == w.device
    assert same(packed.to_dense(), w.double()) and packed.values().shape == (64, 64)
    exact = w.double()
    for m in (1, 7, 32):
        x, y = dense(rng, m, 128, dtype=dtype, device=device), dense(rng, 128, m, dtype=dtype, device=device)
        assert same(packed @ y, exact @ y.double())
        assert same(tt.mm(packed, x.t()), exact @ x.double().t())
        assert same(x @ packed.t(), x.double() @ exact.t())
        assert same(tt.matmul(y.t(), packed.t()), y.double().t() @ exact.t())
        bias = dense(rng, 64, dtype=dtype, device=device)
        assert same(tt.addmm(bias, x, packed.t()), x.double() @ exact.t() + bias.double())
        if dtype != "int8":
            assert same(nn.functional.linear(x, packed), x.double() @ exact.t())
            batch = x.expand(2, m, 128)
            assert same(nn.functional.linear(batch, packed, bias), batch.double() @ exact.t() + bias.double())


def test_the_class_follows_the_flag(monkeypatch):
    w = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 16] * 32)
    assert type(to_sparse_semi_structured(w.half())) is SparseSemiStructuredTensorCUSPARSELT
    with pytest.raises(RuntimeError, match=r"float32 is not a supported dtype"):
        to_sparse_semi_structured(w)
    monkeypatch.setattr(SparseSemiStructuredTensor, "_FORCE_CUTLASS", True)
    made = to_sparse_semi_structured(w)
    assert type(made) is SparseSemiStructuredTensorCUTLASS and same(made.to_dense(), w)
    with pytest.warns(FutureWarning, match="deprecated"):
        to_sparse_semi_structured(w, transposed=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer(rng, device, kind):
    layer = nn.Linear(64, 32, dtype=tt.float16, device=device)
    w, bias = matrix(rng, 32, 64, "float16", device), dense(rng, 32, device=device)
    layer.weight, layer.bias = nn.Parameter(kind.from_dense(w)), nn.Parameter(bias)
    assert (
        isinstance(layer.weight, nn.Parameter)
        and isinstance(layer.weight, kind)
        and kind.__name__ in repr(layer)
    )
    x = dense(rng, 2, 3, 64, device=device)
    made = layer(x)
    assert same(made.detach(), x.double() @ w.double().t() + bias.double())
    made.sum().backward()
    assert same(layer.bias.grad, tt.full((32,), 6.0)) and layer.weight.grad.shape == (32, 64)
    assert same(layer.weight.grad, x.double().sum((0, 1)).expand(32, 64))
    # The gradient of the input is a product with the weight as it stands, which is not packed so.
    with pytest.raises(NotImplementedError, match="operation is not supported"):
        layer(x.requires_grad_()).sum().backward()
    layer.weight = nn.Parameter(kind.prune_dense_static_sort(layer.weight.to_dense()))
    layer(x).sum().backward()
    assert same(x.grad, layer.weight.to_dense().double().sum(0).expand(2, 3, 64))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ["", "largest_abs_values_greedy", "causal1122"])
def test_pruned_matrices_are_packed_both_ways(rng, device, kind, algorithm):
    w = dense(rng, 64, 96, dtype="bfloat16", device=device)
    pruned = kind.prune_dense_static_sort(w, algorithm)
    kept = pruned.to_dense()
    assert bool(((kept == w) | (kept == 0)).all())
    for each in (kept, kept.t()):
        assert int((each.reshape(-1, 4) != 0).sum(1).max()) <= 2
    assert same(pruned.t().to_dense(), kept.t().double()) and pruned.t().shape == (96, 64)
    x = dense(rng, 5, 64, dtype="bfloat16", device=device)
    assert same(x @ pruned, x.double() @ kept.double())
    assert same(pruned.t() @ x.t(), kept.double().t() @ x.double().t())
    assert same(pruned @ dense(rng, 96, 3, dtype="bfloat16", device=device).zero_(), tt.zeros(64, 3))
    places = tt._sparse_semi_structured_apply_dense(w, pruned.compressed_swizzled_bitmask)
    assert same(places, kept.double())


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_it_together(rng, device, kind):
    w = matrix(rng, 32, 64, "float16", device)
    packed = kind.from_dense(w)
    for other in (
        packed.detach(),
        packed.clone(),
        copy.deepcopy(packed),
        packed.t().t(),
        packed.view(32, 64),
    ):
        assert type(other) is kind and same(other.to_dense(), w.double())
    assert packed.clone().packed.data_ptr() != packed.packed.data_ptr() == packed.detach().packed.data_ptr()
    assert same(packed.t().to_dense(), w.double().t())
    assert f"{packed}" == str(packed) == repr(packed) == f"{kind.__name__}(shape=triten.Size([32, 64]))"
    elsewhere = packed.to("cuda" if device == "cpu" else "cpu")
    assert (
        type(elsewhere) is kind
        and elsewhere.device != packed.device
        and same(elsewhere.to_dense(), w.double())
    )
    names, rest = packed.__tensor_flatten__()
    parts = {name: getattr(packed, name) for name in names}
    again = kind.__tensor_unflatten__(parts, rest, None, None)
    assert same(again.to_dense(), w.double()) and again.packed is packed.packed
    made = kind.from_dense(w.requires_grad_())
    assert made.requires_grad and not made.detach().requires_grad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_files(rng, device, kind, weights_only):
    layer = nn.Linear(64, 32, dtype=tt.float16, device=device)
    w = matrix(rng, 32, 64, "float16", device)
    layer.weight = nn.Parameter(kind.from_dense(w), requires_grad=False)
    buffer = io.BytesIO()
    tt.save(layer.state_dict(), buffer)
    buffer.seek(0)
    loaded = tt.load(buffer, weights_only=weights_only)
    assert type(loaded["weight"]) is kind and same(loaded["weight"].to_dense(), w.double())
    other = copy.deepcopy(layer)
    other.weight.packed.zero_()
    other.load_state_dict(loaded)
    assert same(other.weight.to_dense(), w.double())
    pruned = pickle.loads(pickle.dumps(kind.prune_dense_static_sort(w)))
    assert same(pruned.t().to_dense(), pruned.to_dense().double().t())


def test_a_file_is_checked():
    """A file that lies about its parts is refused."""
    from triten.sparse.semi_structured import rebuilt

    words = tt.zeros(32, 4, dtype=tt.int16)
    right = (tt.zeros(32, 32, dtype=tt.float16), words, None, None, None)
    kinds = [kind.__name__ for kind in KINDS]
    for given, message in (
        ((kinds[0], (32, 64), (right[0][:16], *right[1:]), (False, 0), False, False), "make no matrix"),
        ((kinds[0], (32, 32), right, (False, 0), False, False), r"a matrix of \[32, 64\], not of \[32, 32\]"),
        (
            (kinds[1], (32, 64), (tt.zeros(7).half(), None, None, None, None), (False, 0), False, False),
            "no matrix",
        ),
        ((kinds[0], (32, 64), (None,) * 5, (False, 0), False, False), "At least one of packed"),
        (("Int8Tensor", (32, 64), right, (False, 0), False, False), "expected one of SparseSemi"),
    ):
        with pytest.raises(ValueError, match=message):
            rebuilt(*given)

    class Lying:
        def __reduce__(self):
            return rebuilt, (kinds[0], (32, 32), right, (False, 0), False, True)

    buffer = io.BytesIO()
    tt.save({"weight": Lying()}, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="not of"):
        tt.load(buffer, weights_only=True)


def test_refusals():
    half = tt.zeros(32, 64, dtype=tt.float16)
    cutlass = SparseSemiStructuredTensorCUTLASS.from_dense(half)
    cusparselt = to_sparse_semi_structured(half)
    for act, error, words in (
        (
            lambda: to_sparse_semi_structured(half[0]),
            RuntimeError,
            "original_tensor.dim = 1 is not supported",
        ),
        (lambda: to_sparse_semi_structured(half.t()), RuntimeError, "is not contiguous"),
        (lambda: to_sparse_semi_structured(half.double()), RuntimeError, "float64 is not a supported dtype"),
        (lambda: to_sparse_semi_structured(half[:24]), RuntimeError, r"multiple of \(16, 16\)"),
        (lambda: to_sparse_semi_structured(half[:0]), RuntimeError, r"multiple of \(16, 16\)"),
        (lambda: SparseSemiStructuredTensorCUTLASS.from_dense(half[:16]), RuntimeError, r"of \(32, 64\)"),
        (lambda: to_sparse_semi_structured(half[:16].to(tt.int8)), RuntimeError, r"of \(32, 32\)"),
        (lambda: SparseSemiStructuredTensor.from_dense(half), NotImplementedError, "how it is packed"),
        (lambda: SparseSemiStructuredTensorCUTLASS((2, 2), *[None] * 5), ValueError, "At least one"),
        (lambda: cutlass @ cutlass, ValueError, "not supported by the hardware"),
        (lambda: cutlass.t() @ half, NotImplementedError, "operation is not supported"),
        (lambda: half.t() @ cusparselt, NotImplementedError, "operation is not supported"),
        (lambda: cutlass + 1, NotImplementedError, "only supports a specific set of operations"),
        (lambda: cutlass.view(64, 32), NotImplementedError, "except for the dummy case"),
        (lambda: cutlass.to(tt.float32), NotImplementedError, "dtype=triten.float32"),
        (lambda: cusparselt @ half.t().float(), NotImplementedError, "B.dtype=triten.float32"),
        (lambda: cutlass @ half.t().float(), RuntimeError, "the dtype of `values`"),
        (lambda: cutlass @ half, RuntimeError, r"\(32x64 and 32x64\)"),
        (lambda: tt.addmm(half[:, :32], half, cutlass.t()), NotImplementedError, "only bias dim=1"),
        (lambda: tt.addmm(half[0], cutlass, half.t()), NotImplementedError, "only operand B"),
        (lambda: tt.addmm(half[0, :32], half, cutlass.t(), beta=2), NotImplementedError, "got 2 and 1"),
        (lambda: cutlass.copy_(cusparselt), RuntimeError, "expected a SparseSemiStructuredTensorCUTLASS"),
    ):
        with pytest.raises(error, match=words):
            act()


def test_what_is_not_two_in_four_loses_elements(device):
    """As in PyTorch, which looks at the first two and the last of four."""
    row = tt.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 2.0, 3.0, 4.0, 1.0, 0.0, 3.0, 4.0, 1.0, 2.0, 3.0, 0.0] * 4)
    kept = tt.tensor([1.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 4.0, 1.0, 0.0, 0.0, 4.0, 1.0, 2.0, 0.0, 0.0] * 4)
    for kind in KINDS:
        packed = kind.from_dense(row.expand(32, 64).half().contiguous().to(device))
        assert same(packed.to_dense(), kept.expand(32, 64))


@pytest.mark.parametrize("kind", KINDS)
def test_meta(kind):
    packed = kind.from_dense(tt.empty(32, 64, dtype=tt.float16, device="meta"))
    assert packed.to_dense().shape == (32, 64) and packed.to_dense().device.type == "meta"
    assert nn.functional.linear(tt.empty(2, 3, 64, dtype=tt.float16, device="meta"), packed).shape == (
        2,
        3,
        32,
    )


def test_conversions(rng):
    from triten.sparse import _semi_structured_conversions as conversions

    w = matrix(rng, 64, 128, "float16")
    values, meta = conversions.sparse_semi_structured_from_dense_cutlass(w)
    assert (conversions.sparse_semi_structured_to_dense_cutlass(values, meta) == w).all()
    for given, words in (
        ((values[0], meta), "2-dimensional sparse tensor, got 1"),
        ((values, meta[0]), "2-dimensional meta tensor, got 1"),
        ((values, meta.to("meta")), "to be on cpu device"),
        ((values, meta.long()), "Invalid datatype"),
        ((values[:32], meta), "Number of rows"),
        ((values[:, :32], meta), "different from the 64"),
        ((values[:16], meta[:16]), "a multiple of 32 rows"),
    ):
        with pytest.raises(RuntimeError, match=words):
            conversions.sparse_semi_structured_to_dense_cutlass(*given)
    leaf = w.clone().requires_grad_()
    conversions.sparse_semi_structured_from_dense_cutlass(leaf)[0].sum().backward()
    assert leaf.grad is not None and ((leaf.grad == 1) | (w == 0)).all() and leaf.grad.sum() == 64 * 64
    tile = tt.tensor([[9.0, 1, 7, 4], [1, 2, 3, 0], [8, 3, 5, 4], [1, 2, 6, 2]])
    made = conversions._sparse_semi_structured_tile(tile)
    assert made is tile
    assert tile.tolist() == [[9, 0, 7, 0], [0, 2, 0, 0], [8, 0, 0, 4], [0, 2, 6, 0]]
