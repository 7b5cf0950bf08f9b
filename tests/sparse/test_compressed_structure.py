"""Tensors of compressed rows and columns: made, looked at, made of other layouts, sliced, on the CPU and on CUDA."""

from collections.abc import Callable

import pytest

import triten as tt

DENSE = [[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 5.0]]
LAYOUTS = ("csr", "csc", "bsr", "bsc")


COPIES = {
    "crow_indices": ("csr", "bsr"),
    "col_indices": ("csr", "bsr"),
    "ccol_indices": ("csc", "bsc"),
    "row_indices": ("csc", "bsc"),
    "indices": ("coo",),
    "values": ("coo", "csr", "csc", "bsr", "bsc"),
}


@pytest.mark.parametrize("part", COPIES)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc", "strided"])
def test_copies_of_parts(device: str, part: str, layout: str) -> None:
    whole = tt.tensor([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 4.0]], device=device)
    blocks = {"blocksize": (1, 2)} if layout.startswith("b") else {}
    x = whole if layout == "strided" else whole.to_sparse(layout=getattr(tt, f"sparse_{layout}"), **blocks)
    copy = getattr(tt, f"{part}_copy")
    if layout not in COPIES[part]:
        refused = (
            (NotImplementedError, "with coordinates")
            if layout == "coo"
            else (RuntimeError, "expected sparse")
        )
        with pytest.raises(refused[0], match=refused[1]):
            copy(x)
        return
    if layout == "coo":
        with pytest.raises(NotImplementedError, match="a coalesced one"):
            copy(tt.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), device=device))
    own, made = getattr(x, part)(), copy(x)
    assert tt.equal(made, own) and made.dtype is own.dtype and made.data_ptr() != own.data_ptr()
    out = tt.empty(0, dtype=own.dtype, device=device)
    assert copy(x, out=out) is out and tt.equal(out, own)


def test_the_gradient_of_copied_values(device: str) -> None:
    x = tt.tensor([[0.0, 2.0], [3.0, 0.0]], device=device).to_sparse_csr().requires_grad_()
    (tt.values_copy(x) * tt.tensor([5.0, 7.0], device=device)).sum().backward()
    assert x.grad is not None and x.grad.to_dense().tolist() == [[0.0, 5.0], [7.0, 0.0]]


def test_sizes_of_another_tensor(device: str) -> None:
    x = tt.sparse_coo_tensor([[1], [1]], [2.0], (2, 2), device=device)
    large = tt.eye(3, device=device).to_sparse()
    assert x.resize_as_sparse_(large) is x and x.to_dense().tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 0]]
    rows = tt.eye(2, device=device).to_sparse_csr()
    assert tt.resize_as_sparse_(rows, large.to_sparse_csr()).shape == (3, 3) and rows._nnz() == 3
    assert large.to_sparse_csr().to_sparse_coo().layout is tt.sparse_coo and large.to_sparse_coo() is large
    for self, other, words in (
        (large, tt.eye(2).to_sparse().to(device), "shrinking"),
        (rows, large, "same layout"),
        (large.to_dense(), large, "expected self of layout Sparse, got Strided"),
        (large, large.to_dense(), "expected the_template of layout Sparse, got Strided"),
    ):
        with pytest.raises(RuntimeError, match=words):
            tt.resize_as_sparse_(self, other)


def dense(device: str) -> tt.Tensor:
    return tt.tensor(DENSE, device=device)


def sparse(kind: str, x: tt.Tensor) -> tt.Tensor:
    method: Callable[..., tt.Tensor] = getattr(x, f"to_sparse_{kind}")
    return method((2, 2)) if kind.startswith("b") else method()


def test_parts_of_rows(device: str) -> None:
    x = tt.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3), device=device)
    assert x.layout is tt.sparse_csr
    assert x.is_sparse_csr
    assert (x._nnz(), x.sparse_dim(), x.dense_dim()) == (3, 2, 0)
    assert x.crow_indices().tolist() == [0, 2, 3]
    assert x.col_indices().tolist() == [0, 2, 1]
    assert x.values().tolist() == [1.0, 2.0, 3.0]
    assert x.to_dense().tolist() == [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]
    assert f"SparseCsr{device.upper()}" in str(tt.DispatchKeySet.from_raw_repr(x._spec.key_set))
    with pytest.raises(RuntimeError, match="ccol_indices expected sparse column compressed"):
        x.ccol_indices()


def test_sizes_follow_from_the_indices(device: str) -> None:
    assert tt.sparse_csr_tensor([0, 1, 2], [0, 3], [1.0, 2.0], device=device).shape == (2, 4)
    assert tt.sparse_csc_tensor([0, 1, 2], [0, 3], [1.0, 2.0], device=device).shape == (4, 2)
    blocks = tt.ones(2, 2, 3, device=device)
    assert tt.sparse_bsr_tensor([0, 1, 2], [0, 1], blocks, device=device).shape == (4, 6)
    assert tt.sparse_bsc_tensor([0, 1, 2], [0, 1], blocks, device=device).shape == (4, 6)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_indices_keep_their_dtype(device: str, index: str) -> None:
    dtype = getattr(tt, index)
    crow, col = (tt.tensor(part, dtype=dtype, device=device) for part in ([0, 1, 2], [1, 0]))
    x = tt.sparse_compressed_tensor(crow, col, tt.ones(2, device=device), (2, 2), layout=tt.sparse_csr)
    for y in (x, x.t(), x.to_sparse_csc(), x.neg(), x @ x, x + x.to_sparse_csc()):
        rows = y.layout is tt.sparse_csr
        assert (y.crow_indices() if rows else y.ccol_indices()).dtype is dtype
        assert (y.col_indices() if rows else y.row_indices()).dtype is dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 1, 3], [0, 1, 2], [1.0] * 3, (2, 3)), r"crow_indices\[..., 0\] == 0"),
        (([0, 1, 2], [0, 1, 2], [1.0] * 3, (2, 3)), r"crow_indices\[..., -1\] == nnz"),
        (([0, 4, 3], [0, 1, 2], [1.0] * 3, (2, 3)), r"0 <= crow_indices.* <= ncols"),
        (([0, 2, 1, 3], [0, 1, 2], [1.0] * 3, (3, 3)), r"0 <= crow_indices.* <= ncols"),
        (([0, 1, 3], [0, 1, 3], [1.0] * 3, (2, 3)), "0 <= col_indices < ncols"),
        (([0, 1, 3], [0, 1, -1], [1.0] * 3, (2, 3)), "0 <= col_indices < ncols"),
        (([0, 1, 3], [0, 1, 1], [1.0] * 3, (2, 3)), "sorted and distinct"),
        (([0, 1, 3], [0, 2, 1], [1.0] * 3, (2, 3)), "sorted and distinct"),
        (([0, 1, 3], [0, 1], [1.0] * 3, (2, 3)), r"must be equal to nnz \(=3\)"),
        (([0, 1, 3, 3], [0, 1, 2], [1.0] * 3, (2, 3)), r"number of rows \+ 1 \(=3\), but got 4"),
        (([0, 1, 3], [[0, 1, 2]], [1.0] * 3, (2, 3)), "dimensionalities must be equal"),
        ((0, [0], [1.0], (2, 3)), "dimensionality >= 1 but got 0"),
        (([0, 1, 3], [0, 1, 2], 1.0, (2, 3)), "values must have dimensionality"),
        (([0, 1, 3], [0, 1, 2], [1.0] * 3, (3,)), "tensor dimensionality must be sum"),
        (([0.0, 1.0, 3.0], [0.0, 1.0, 2.0], [1.0] * 3, (2, 3)), "dtype must be Int or Long"),
        (([0, 1, 3], [0, 1, 2], [1.0] * 3, (2, -3)), "negative size"),
        (([0, 0], [], [], (1, 2**62)), None),
        (([0, 0], tt.zeros(0, dtype=tt.int64), tt.zeros(0, 4), (1, 2**62, 4)), "overflow"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    arguments: tuple[list[int], list[int], list[float], tuple[int, ...]], message: str | None
) -> None:
    if message is None:
        outer, plain, *rest = arguments
        assert tt.sparse_csr_tensor(outer, tt.tensor(plain, dtype=tt.int64), *rest).shape == arguments[3]
        return
    with pytest.raises(RuntimeError, match=message):
        tt.sparse_csr_tensor(*arguments)


def test_mixed_dtypes_of_indices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same dtype, but got Int and Long"):
        tt.sparse_csr_tensor(tt.tensor([0, 1], dtype=tt.int32), tt.tensor([0]), [1.0], (1, 1))


def test_checks_may_be_left_out_and_asked_for(device: str) -> None:
    parts = ([0, 1], [5], [1.0])
    x = tt.sparse_csr_tensor(*parts, (1, 3), device=device, check_invariants=False)
    assert x.col_indices().tolist() == [5]
    with pytest.raises(RuntimeError, match="0 <= col_indices < ncols"):
        tt.sparse_csr_tensor(*parts, (1, 3), device=device, check_invariants=True)


def test_blocks_divide_the_matrix() -> None:
    with pytest.raises(RuntimeError, match=r"shape\[1\] \(=5\) must be divisible with blocksize\[1\] \(=2\)"):
        tt.sparse_bsr_tensor([0, 1, 2], [0, 1], tt.ones(2, 2, 2), (4, 5))
    with pytest.raises(RuntimeError, match="divisible by given blocksize"):
        dense("cpu").to_sparse_bsr((3, 2))


@pytest.mark.parametrize("source", ["strided", "coo", *LAYOUTS])
@pytest.mark.parametrize("target", ["coo", *LAYOUTS])
def test_every_layout_becomes_every_other(device: str, source: str, target: str) -> None:
    whole = dense(device)
    x = {"strided": whole, "coo": whole.to_sparse()}.get(source)
    x = sparse(source, whole) if x is None else x
    if source.startswith("b") and target in ("csr", "csc"):
        with pytest.raises(RuntimeError, match="expected SparseCsr or SparseCsc layout"):
            sparse(target, x)
        return
    y = x.to_sparse() if target == "coo" else sparse(target, x)
    assert y.layout is getattr(tt, f"sparse_{target}")
    assert y.to_dense().equal(whole)
    if target != "coo":
        tt.sparse_compressed_tensor(
            y._data.compressed, y._data.plain, y.values(), y.shape, layout=y.layout, check_invariants=True
        )


@pytest.mark.parametrize("kind", LAYOUTS)
def test_batches_and_dense_dimensions(device: str, kind: str) -> None:
    whole = tt.stack([dense(device), dense(device).flip(0)])
    x = sparse(kind, whole)
    assert x.values().shape[0] == 2
    assert x.to_dense().equal(whole)
    assert x[1].to_dense().equal(whole[1])
    assert x.mT.to_dense().equal(whole.mT)
    assert x.to_sparse().to_dense().equal(whole)
    method = getattr(whole.permute(1, 2, 0), f"to_sparse_{kind}")
    y = method((2, 2), dense_dim=1) if kind.startswith("b") else method(dense_dim=1)
    assert y.dense_dim() == 1
    assert y.to_dense().equal(whole.permute(1, 2, 0))
    assert y.select(2, 1).to_dense().equal(whole[1])


def test_matrices_of_a_batch_specify_equally_many() -> None:
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        tt.stack([dense("cpu"), tt.zeros(4, 4)]).to_sparse_csr()


@pytest.mark.parametrize("kind", LAYOUTS)
def test_rows_and_columns(device: str, kind: str) -> None:
    whole = dense(device)
    x = sparse(kind, whole)
    for i in range(-4, 4):
        assert x[i].to_dense().equal(whole[i])
        assert x[:, i].to_dense().equal(whole[:, i])
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 4"):
        x[4]
    with pytest.raises(RuntimeError):
        x[0:2]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_transposed_matrix_shares_its_parts(kind: str) -> None:
    x = sparse(kind, dense("cpu"))
    y = x.t()
    assert y.to_dense().equal(dense("cpu").t())
    x.values().mul_(2)
    assert y.to_dense().equal(dense("cpu").t() * 2)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_copies_and_likenesses(device: str, kind: str) -> None:
    whole = dense(device)
    x = sparse(kind, whole)
    copy = x.clone()
    copy.values().zero_()
    assert x.to_dense().equal(whole)
    assert copy.copy_(x).to_dense().equal(whole)
    assert x.double().dtype is tt.float64
    assert x.double().to_dense().equal(whole.double())
    assert tt.zeros_like(x)._nnz() == 0
    assert tt.zeros_like(x).to_dense().equal(tt.zeros_like(whole))
    assert tt.empty_like(x)._nnz() == x._nnz()
    for like in (tt.ones_like(x), tt.full_like(x, 1)):
        assert like.values().equal(tt.ones_like(x.values()))
    assert tt.randn_like(x).values().shape == x.values().shape
    meta = x.to("meta")
    assert (meta.layout, meta.shape, meta._nnz()) == (x.layout, x.shape, x._nnz())
    assert meta.to_dense().shape == x.shape
    with pytest.raises(RuntimeError, match="different layouts is not supported"):
        x.copy_(whole)


def test_rows_are_added_and_cut_off(device: str) -> None:
    x = dense(device).to_sparse_csr()
    assert x.clone().resize_(6, 5).to_dense()[:4, :4].equal(dense(device))
    short = x.clone().resize_(2, 4)
    assert (short._nnz(), short.to_dense().tolist()) == (3, DENSE[:2])
    with pytest.raises(RuntimeError, match="Resizing columns"):
        x.resize_(4, 2)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_values_at_the_places_of_a_mask(device: str, kind: str) -> None:
    whole, mask = dense(device), tt.ones(4, 4, device=device).tril()
    taken = whole.sparse_mask(sparse(kind, mask))
    assert taken.layout is getattr(tt, f"sparse_{kind}")
    lower = whole if kind.startswith("b") else whole.tril()
    inside = sparse(kind, mask).to_dense() if not kind.startswith("b") else tt.ones_like(whole)
    inside[:2, 2:] = 0
    assert taken.to_dense().equal(lower * inside)
    for other in (sparse(kind, whole), whole.to_sparse()):
        assert other.sparse_mask(sparse(kind, mask)).to_dense().equal(taken.to_dense())


def test_it_prints_as_in_pytorch() -> None:
    assert repr(dense("cpu").to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 2, 3, 3, 5]),\n"
        "       col_indices=tensor([0, 2, 2, 0, 3]),\n"
        "       values=tensor([1., 2., 3., 4., 5.]), size=(4, 4), nnz=5,\n"
        "       layout=triten.sparse_csr)"
    )


@pytest.mark.parametrize("kind", LAYOUTS)
def test_gradients_have_the_places_of_their_tensor(device: str, kind: str) -> None:
    whole, weights = dense(device), tt.arange(16.0, device=device).reshape(4, 4)
    x = sparse(kind, whole).requires_grad_()
    for make in (lambda: x.to_dense(), lambda: x.t().to_dense().t(), lambda: x.clone().to_dense()):
        x.grad = None
        (make() * weights).sum().backward()
        assert x.grad is not None
        assert x.grad.layout is x.layout
        assert x.grad.to_dense().equal(weights.sparse_mask(x.detach()).to_dense())
    x.grad = None
    (x.values() * 3).sum().backward()
    assert x.grad.values().equal(tt.full_like(x.values(), 3))
    strided = whole.clone().requires_grad_()
    (sparse(kind, strided).to_dense() * weights).sum().backward()
    assert strided.grad.equal(weights.sparse_mask(sparse(kind, whole)).to_dense())
    values = x.detach().values().clone().requires_grad_()
    parts = x._data
    made = tt.sparse_compressed_tensor(parts.compressed, parts.plain, values, (4, 4), layout=x.layout)
    (made.to_dense() * weights).sum().backward()
    assert values.grad.equal(weights.sparse_mask(x.detach()).values())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: tt.empty_like(x, layout=tt.sparse_csc),
            RuntimeError,
            r"different sparse layout is not supported \(self is SparseCsr but you requested SparseCsc\)",
        ),
        (
            lambda x: tt.empty_like(x, layout=tt.sparse_coo),
            RuntimeError,
            r"different sparse layout is not supported \(self is SparseCsr but you requested Sparse\)",
        ),
        (lambda x: x.untyped_storage(), NotImplementedError, "Cannot access storage of SparseCsrTensorImpl"),
        (
            lambda x: x.to_sparse_coo().storage(),
            NotImplementedError,
            "Cannot access storage of SparseTensorImpl",
        ),
        (
            lambda x: x.resize_(4),
            RuntimeError,
            r"Only batched sparse CSR matrices are supported, but got size \[4\]",
        ),
        (
            lambda x: x.copy_(tt.ones(2, 3).to_sparse_csr()),
            RuntimeError,
            "only sparse compressed tensors with the same number of specified elements are supported",
        ),
        (
            lambda x: tt.empty((5,), layout=tt.sparse_bsr),
            RuntimeError,
            r"Only batched sparse compressed \(non-block\) tensors are supported, but got size \[5\]",
        ),
        (
            lambda x: tt.empty((2, 4), layout=tt.sparse_bsr),
            RuntimeError,
            r"expected sparse compressed \(non-block\) tensor layout but got SparseBsr",
        ),
        (
            lambda x: x.to_sparse_coo() // x.to_sparse_coo(),
            RuntimeError,
            r"Sparse floor division requires a scalar or zero-dim dense tensor divisor \(got shape \[2, 3\]",
        ),
        (
            lambda x: x.to_sparse_coo() / tt.ones(2, 3),
            RuntimeError,
            r"Sparse division requires a scalar or zero-dim dense tensor divisor \(got shape \[2, 3\]",
        ),
    ],
)
def test_errors_are_those_of_torch(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(tt.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).to_sparse_csr())
