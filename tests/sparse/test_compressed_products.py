"""Products with sparse matrices of every layout beside dense ones, on the CPU and on CUDA."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import triten as tt

LAYOUTS = ("csr", "csc", "bsr", "bsc", "coo")
SAMPLED = tt.ops.aten.sparse_sampled_addmm
SPARSE_MM = tt.ops.aten._sparse_mm


def sparse(kind: str, x: tt.Tensor) -> tt.Tensor:
    if kind == "coo":
        return x.to_sparse()
    method: Callable[..., tt.Tensor] = getattr(x, f"to_sparse_{kind}")
    return method((2, 2)) if kind.startswith("b") else method()


def matrix(rows: int, columns: int, dtype: tt.dtype = tt.float64, seed: int = 0) -> tt.Tensor:
    """About a third of the elements, with an empty row."""
    generator = tt.Generator().manual_seed(seed)
    x = tt.randn(rows, columns, generator=generator, dtype=tt.float64)
    x[tt.rand(rows, columns, generator=generator) > 0.35] = 0
    x[rows // 2] = 0
    return (x * 4).to(dtype)


def full(*sizes: int, dtype: tt.dtype = tt.float64, seed: int = 1) -> tt.Tensor:
    return (tt.randn(*sizes, generator=tt.Generator().manual_seed(seed), dtype=tt.float64) * 4).to(dtype)


def same(x: tt.Tensor, y: tt.Tensor, tolerance: float = 1e-9) -> bool:
    a, b = x.to_dense().cpu(), y.to_dense().cpu()
    return a.shape == b.shape and bool(tt.allclose(a.double(), b.double(), atol=tolerance, rtol=tolerance))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_matrices_and_vectors_on_either_side(device: str, kind: str) -> None:
    a, b, c = matrix(6, 8), full(8, 5), full(3, 6)
    x = sparse(kind, a.to(device))
    right, left = b.to(device), c.to(device)
    for made, expected in (
        (x @ right, a @ b),
        (left @ x, c @ a),
        (x @ right[:, 0], a @ b[:, 0]),
        (left[0] @ x, c[0] @ a),
        (x.mv(right[:, 1]), a.mv(b[:, 1])),
        (x @ right[:, :1], a @ b[:, :1]),
        (tt.mm(x, right), a @ b),
        (SPARSE_MM(x, right), a @ b),
        (SPARSE_MM(left, x), c @ a),
    ):
        assert made.layout is tt.strided
        assert made.device.type == device
        assert same(made, expected)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_sums_with_products(device: str, kind: str) -> None:
    a, b, d = matrix(6, 8), full(8, 5), full(6, 5, seed=2)
    x, right, addend = sparse(kind, a.to(device)), b.to(device), d.to(device)
    assert same(tt.addmm(addend, x, right, beta=2, alpha=3), 2 * d + 3 * (a @ b))
    assert same(tt.addmm(addend[0], x, right), d[0] + a @ b)
    nothing = tt.full_like(addend, math.nan)
    assert same(tt.addmm(nothing, x, right, beta=0, alpha=0.5), (a @ b) / 2)
    assert same(tt.addmv(addend[:, 0], x, right[:, 0], beta=2, alpha=3), 2 * d[:, 0] + 3 * (a @ b[:, 0]))
    out = tt.empty(6, 5, dtype=tt.float64, device=device)
    assert tt.mm(x, right, out=out) is out
    assert same(out, a @ b)
    assert same(addend.clone().addmm_(x, right), d + a @ b)
    with pytest.raises(RuntimeError, match="not implemented for"):
        tt.addmm(sparse(kind, matrix(6, 6).to(device)), x, full(8, 6).to(device))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_times_sparse(device: str, kind: str) -> None:
    a, b = matrix(6, 8), matrix(8, 7, seed=3)
    x, y = sparse(kind, a.to(device)), sparse(kind, b.to(device))
    made = x @ y
    assert made.layout is (tt.sparse_coo if kind == "coo" else tt.sparse_csr)
    assert same(made, a @ b)
    assert same(SPARSE_MM(x, y), a @ b)
    assert SPARSE_MM(x, y).layout is x.layout
    if kind != "coo":
        made.crow_indices()
        tt.sparse_csr_tensor(
            made.crow_indices(), made.col_indices(), made.values(), made.shape, check_invariants=True
        )
        square = matrix(6, 6)
        z = sparse(kind, square.to(device))
        assert same(tt.addmm(z, z, z, beta=2, alpha=0.5), 2 * square + 0.5 * (square @ square))
        assert same(tt.addmm(square.to(device), z, z), square + square @ square)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
def test_batches(device: str, kind: str) -> None:
    one = matrix(6, 8)
    a, b, d = tt.stack([one, one.flip(0)]), full(2, 8, 3), full(2, 6, 3, seed=2)
    x, right = sparse(kind, a.to(device)), b.to(device)
    assert same(x.bmm(right), a @ b)
    assert same(b.mT.to(device).bmm(sparse(kind, a.mT.contiguous().to(device))), b.mT @ a.mT)
    assert same(tt.baddbmm(d.to(device), x, right, beta=2, alpha=3), 2 * d + 3 * (a @ b))


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16, tt.complex64, tt.int32], ids=str)
@pytest.mark.parametrize("kind", ["csr", "coo", "bsr"])
def test_dtypes(device: str, kind: str, dtype: tt.dtype) -> None:
    if dtype is tt.complex64:
        a, b = tt.complex(matrix(6, 8), matrix(6, 8, seed=5)), tt.complex(full(8, 3), full(8, 3, seed=6))
        made = sparse(kind, a.to(dtype).to(device)) @ b.to(dtype).to(device)
        assert made.dtype is dtype
        assert tt.allclose(made.cpu().to(tt.complex128), a @ b, rtol=1e-5, atol=1e-4)
        return
    a, b = matrix(6, 8, dtype), full(8, 3, dtype=dtype)
    made = sparse(kind, a.to(device)) @ b.to(device)
    assert made.dtype is dtype
    exact = a.double() @ b.double()
    # Sums are rounded once from float32; those of integers are exact.
    bits = {tt.float16: 11, tt.bfloat16: 8, tt.float32: 22}.get(dtype)
    tolerance = 0.0 if bits is None else 2.0**-bits * float(exact.abs().max())
    assert bool(((made.cpu().double() - exact).abs() <= tolerance).all())


def test_long_rows_are_cut_and_added_in_order(device: str) -> None:
    a = tt.zeros(4, 3000, dtype=tt.float64)
    a[0], a[2, ::2], a[3, :1024] = 1.0, 2.0, 3.0
    b = full(3000, 2)
    x = a.to(device).to_sparse_csr()
    made = x @ b.to(device)
    assert same(made, a @ b)
    assert made.equal(x @ b.to(device))


def test_nothing_specified_and_nothing_there(device: str) -> None:
    x = tt.zeros(3, 4, device=device).to_sparse_csr()
    assert (x @ tt.ones(4, 2, device=device)).tolist() == [[0.0, 0.0]] * 3
    assert (x @ tt.ones(4, 0, device=device)).shape == (3, 0)
    assert (tt.zeros(0, 4, layout=tt.sparse_csr, device=device) @ tt.ones(4, 2, device=device)).shape == (
        0,
        2,
    )
    empty = tt.zeros(3, 0, layout=tt.sparse_csr, device=device)
    assert (empty @ tt.ones(0, 2, device=device)).tolist() == [[0.0, 0.0]] * 3
    assert (x @ x.t())._nnz() == 0
    assert SAMPLED(x, tt.ones(3, 0, device=device), tt.ones(0, 4, device=device))._nnz() == 0


def test_infinities_meet_specified_elements_alone(device: str) -> None:
    x = tt.sparse_csr_tensor([0, 1, 2], [0, 1], [0.0, 1.0], (2, 3), device=device)
    made = (x @ tt.tensor([[math.inf], [2.0], [math.nan]], device=device)).tolist()
    assert math.isnan(made[0][0])
    assert made[1] == [2.0]


def parts_that_were_not_checked(device: str, crow: list[int], col: list[int]) -> tt.Tensor:
    return tt.sparse_csr_tensor(crow, col, tt.ones(len(col)), (2, 3), device=device, check_invariants=False)


@pytest.mark.parametrize(
    ("crow", "col", "message"),
    [
        ([0, 1, 2], [0, 7], "column index lies outside"),
        ([0, 1, 2], [0, -1], "column index lies outside"),
        ([0, 5, 2], [0, 1], "do not rise"),
        ([0, 1, 9], [0, 1], "do not rise"),
        ([-1, 1, 2], [0, 1], "do not rise"),
    ],
)
def test_indices_that_were_not_checked_reach_nothing(
    device: str, crow: list[int], col: list[int], message: str
) -> None:
    x = parts_that_were_not_checked(device, crow, col)
    with pytest.raises(RuntimeError, match=message):
        (x @ tt.ones(3, 2, device=device)).tolist()
    with pytest.raises(RuntimeError, match=message):
        tt.ops.aten._bsr_mm(
            x.crow_indices(), x.col_indices(), tt.ones(2, 2, 1, device=device), tt.ones(3, 2, device=device)
        ).tolist()


def test_indices_that_were_written_to_reach_nothing() -> None:
    col = tt.tensor([0, 1])
    x = tt.sparse_csr_tensor([0, 1, 2], col, [1.0, 2.0], (2, 3))
    col[1] = 1 << 40
    with pytest.raises(RuntimeError, match="column index lies outside"):
        x @ tt.ones(3, 2)


def test_pairs_out_of_range_are_refused(device: str) -> None:
    rows, columns = tt.tensor([0, 9], device=device), tt.tensor([0, 1], device=device)
    with pytest.raises(RuntimeError, match="lies outside"):
        tt.ops.aten._sampled_mm(
            rows, columns, tt.ones(2, 3, device=device), tt.ones(2, 3, device=device)
        ).tolist()


@pytest.mark.parametrize("kind", LAYOUTS)
def test_sampled_products(device: str, kind: str) -> None:
    mask, a, b = matrix(6, 8), full(6, 5), full(5, 8, seed=2)
    x = sparse(kind, mask.to(device))
    inside = (sparse(kind, mask).to_dense() != 0).double()
    if kind.startswith("b"):
        ones = x.clone()
        ones.values().fill_(1)
        inside = ones.to_dense().cpu()
    made = SAMPLED(x, a.to(device), b.to(device), beta=2, alpha=3)
    assert made.layout is x.layout
    assert same(made, inside * (2 * mask + 3 * (a @ b)))
    x.values().fill_(math.nan)
    assert same(SAMPLED(x, a.to(device), b.to(device), beta=0), inside * (a @ b))
    batch = tt.stack([mask, mask.flip(0)])
    if kind == "csr":
        made = SAMPLED(batch.to(device).to_sparse_csr(), full(2, 6, 5).to(device), full(2, 5, 8).to(device))
        assert same(made, (batch != 0) * (batch + full(2, 6, 5) @ full(2, 5, 8)))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_reduced_by_row(device: str, reduce: str) -> None:
    a, b = matrix(6, 8), full(8, 5)
    products = a.unsqueeze(2) * b
    filled = (a != 0).unsqueeze(2)
    if reduce in ("sum", "mean"):
        expected = products.sum(1)
        expected = expected / filled.sum(1).clamp(min=1) if reduce == "mean" else expected
    else:
        beyond = -math.inf if reduce == "amax" else math.inf
        expected = getattr(products.masked_fill(~filled, beyond), reduce)(1)
        expected = expected.masked_fill(~filled.any(1), 0.0)
    assert same(SPARSE_MM(a.to(device).to_sparse_csr(), b.to(device), reduce), expected)


def test_products_of_coordinates_stay_sparse(device: str) -> None:
    a, b = matrix(6, 8), full(8, 5)
    x = a.to(device).to_sparse()
    made = tt.hspmm(x, b.to(device))
    assert (made.sparse_dim(), made.dense_dim()) == (1, 1)
    assert made._nnz() == int((a != 0).any(1).sum())
    assert same(made, a @ b)
    assert same(tt.smm(x, b.to(device)), a @ b)
    addend = matrix(6, 5, seed=4)
    made = tt.sspaddmm(addend.to(device).to_sparse(), x, b.to(device), beta=2, alpha=3)
    assert same(made, 2 * addend + 3 * (a @ b))


@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_products_of_sparse_matrices_take_rows_in_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rows are taken together: the bits of the sums are the same, and so are their places."""
    from triten.dispatch.layers.sparse import sparse_by_sparse

    rng = np.random.default_rng(0)
    a, b = (
        tt.from_numpy(rng.standard_normal(size) * (rng.random(size) < 0.5)).float().to("cuda")
        for size in ((12, 90), (90, 30))
    )
    for empty in (0, 4, 5, 10, 11):
        a[empty] = 0
    x, y = (sparse(kind, each) for each in (a, b))
    blocks: list[int] = []
    taken = sparse_by_sparse._block
    monkeypatch.setattr(sparse_by_sparse, "_block", lambda *given: blocks.append(1) or taken(*given))
    whole = x @ y
    assert len(blocks) == 1
    for budget, least in ((1, 7), (1500, 4), (5000, 2)):
        monkeypatch.setattr(sparse_by_sparse, "PRODUCTS", budget)
        blocks.clear()
        made = x @ y
        assert least <= len(blocks) <= 12
        assert (made.values() == whole.values()).all() and (made.to_dense() == whole.to_dense()).all()
    monkeypatch.setattr(sparse_by_sparse, "PRODUCTS", 0)
    nothing = sparse(kind, tt.zeros(3, 90, device="cuda")) @ y
    assert nothing.shape == (3, 30) and nothing._nnz() == 0


@pytest.mark.parametrize(
    ("former", "name"), [("dsmm", "mm"), ("spmm", "mm"), ("hsmm", "hspmm"), ("saddmm", "sspaddmm")]
)
def test_former_names(device: str, former: str, name: str) -> None:
    x, y = matrix(6, 6).to(device).to_sparse(), full(6, 6).to(device)
    given = (x, x, y) if name == "sspaddmm" else (x, y)
    made, expected = getattr(tt, former)(*given), getattr(tt, name)(*given)
    assert made.layout is expected.layout and same(made, expected, 0)


def test_products_of_coordinates_in_out(device: str) -> None:
    a, b, addend = matrix(6, 8), full(8, 5), matrix(6, 5, seed=4)
    x, y = a.to(device).to_sparse(), b.to(device)
    out = tt.zeros(6, 5, dtype=tt.float64, device=device).to_sparse()
    assert tt.sspaddmm(addend.to(device).to_sparse(), x, y, beta=2, alpha=3, out=out) is out
    assert same(out, 2 * addend + 3 * (a @ b))
    dense = tt.empty(6, 5, dtype=tt.float64, device=device)
    assert tt.spmm(x, y, out=dense) is dense and same(dense, a @ b)
    assert tt.smm(x, y).layout is tt.sparse_coo and same(x.smm(y), a @ b)


def test_results_are_written_where_asked(device: str) -> None:
    a, b = matrix(6, 8).to(device), full(8, 8).to(device)
    x = a.to_sparse_csr()
    out = tt.zeros_like(x)
    assert SAMPLED.out(x, full(6, 5).to(device), full(5, 8).to(device), out=out) is out
    assert same(out, (a != 0) * (a + full(6, 5).to(device) @ full(5, 8).to(device)))
    sums = tt.zeros(6, 1, dtype=tt.float64, layout=tt.sparse_csr, device=device)
    assert tt.ops.aten._sparse_csr_sum.dim_dtype_out(x, [1], True, out=sums) is sums
    assert same(sums, a.sum(1, keepdim=True))
    product = tt.empty(6, 8, dtype=tt.float64, device=device)
    assert tt.ops.aten._sparse_addmm.out(product.zero_(), x, b, out=product) is product
    assert same(product, a @ b)
    rows = tt.sparse_coo_tensor(
        tt.empty(1, 0, dtype=tt.int64), tt.empty(0, 8, dtype=tt.float64), (6, 8), device=device
    )
    assert tt.hspmm(a.to_sparse(), b, out=rows) is rows
    assert same(rows, a @ b)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_systems(device: str, upper: bool, transpose: bool) -> None:
    a = matrix(6, 6) + tt.eye(6, dtype=tt.float64) * 9
    b = full(6, 2)
    solution = tt.triangular_solve(b.to(device), a.to(device).to_sparse_csr(), upper, transpose)[0]
    triangle = a.triu() if upper else a.tril()
    assert same((triangle.mT if transpose else triangle) @ solution.cpu(), b)
    for kind in ("csr", "bsr"):
        made = tt.triangular_solve(b.to(device), sparse(kind, a.to(device)), upper, transpose, True)[0]
        unit = triangle - tt.diag(triangle.diag()) + tt.eye(6, dtype=tt.float64)
        assert same((unit.mT if transpose else unit) @ made.cpu(), b)


@pytest.mark.parametrize("dtype", [tt.float32, tt.complex64])
def test_triangular_systems_stay_sparse_on_the_cpu(dtype: tt.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    a = (matrix(40, 40) / 8 + tt.eye(40, dtype=tt.float64) * 9).to(dtype)
    b = full(40, 3).to(dtype)
    x = a.to_sparse_csr()
    before = [part.clone() for part in (x.crow_indices(), x.col_indices(), x.values(), b)]
    with monkeypatch.context() as patched:
        patched.setattr(tt.Tensor, "to_dense", None)
        solution = tt.triangular_solve(b.t().contiguous().t(), x, True, True)[0]
    assert solution.dtype is dtype and bool(tt.allclose(a.triu().mT @ solution, b, rtol=1e-4, atol=1e-4))
    after = (x.crow_indices(), x.col_indices(), x.values(), b)
    assert all(bool((was == now).all()) for was, now in zip(before, after, strict=True))
    # A zero in the diagonal gives what the dense system does, and indices are looked at.
    a[3, 3] = 0
    got = tt.triangular_solve(b, a.to_sparse_csr())[0]
    assert (
        bool(tt.equal(got.isfinite(), tt.triangular_solve(b, a)[0].isfinite())) and not got.isfinite().all()
    )
    x.col_indices()[5] = 90
    with pytest.raises(RuntimeError, match="column index lies outside"):
        tt.triangular_solve(b, x)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_gradients_of_products(device: str, kind: str) -> None:
    """Of ``_sparse_mm`` a sparse operand's gradient has its places; of ``mm`` it is strided, as in PyTorch."""
    a, b = matrix(4, 4), full(4, 4)
    weights = full(4, 4, seed=9).to(device)
    functions: tuple[tuple[Callable[[tt.Tensor, tt.Tensor], tt.Tensor], bool], ...] = (
        (lambda x, y: x @ y, False),
        (lambda x, y: y @ x, False),
        (lambda x, y: tt.addmm(y, x, y, beta=2, alpha=3), False),
        (lambda x, y: (x @ y[0]).expand(4, 4), False),
        (lambda x, y: SPARSE_MM(x, y) if x.layout is not tt.strided else x @ y, True),
        (lambda x, y: SPARSE_MM(y, x) if x.layout is not tt.strided else y @ x, True),
    )
    for function, is_sparse in functions:
        x = sparse(kind, a.to(device)).requires_grad_()
        y, p, q = (v.to(device).clone().requires_grad_() for v in (b, a, b))
        (function(x, y) * weights).sum().backward()
        (function(p, q) * weights).sum().backward()
        assert x.grad.layout is (x.layout if is_sparse else tt.strided)
        expected = p.grad.sparse_mask(x.detach()) if is_sparse else p.grad
        assert same(x.grad, expected)
        assert same(y.grad, q.grad)


@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_a_sum_that_cancels_is_a_value_of_the_product(device: str, kind: str) -> None:
    """It has a place, as in PyTorch, and what comes back there reaches both factors."""
    a = tt.tensor([[1.0, 1, 0], [2, 0, 3], [0, 0, 0]], dtype=tt.float64)
    b = tt.tensor([[1.0, 2, 0], [-1, 0, 5], [0, 4, 0]], dtype=tt.float64)
    weights = tt.tensor([[5.0, 1, 1], [1, 1, 1], [1, 1, 1]], dtype=tt.float64, device=device)
    for place in (0, 1):
        factors = [sparse(kind, a.to(device)), sparse(kind, b.to(device))]
        leaf = factors[place].requires_grad_()
        product = factors[0] @ factors[1]
        assert product._nnz() == 5
        assert same(product, a @ b)
        (product.to_dense() * weights).sum().backward()
        expected = [[7.0, 0, 4], [3, -1, 4], [0, 0, 0]] if place == 0 else [[7.0, 3, 1], [5, 1, 1], [3, 3, 0]]
        assert leaf.grad.to_dense().tolist() == expected


def test_gradients_of_sampled_and_reduced_products(device: str) -> None:
    a, b, c = matrix(4, 4), full(4, 4), full(4, 4, seed=3)
    inside = (a != 0).double().to(device)
    x = a.to(device).to_sparse_csr().requires_grad_()
    y, z, p, q, r = (v.to(device).clone().requires_grad_() for v in (b, c, a, b, c))
    weights = full(4, 4, seed=9).to(device)
    (SAMPLED(x, y, z, beta=2, alpha=3).to_dense() * weights).sum().backward()
    (inside * (2 * p + 3 * (q @ r)) * weights).sum().backward()
    assert x.grad.layout is tt.sparse_csr
    for mine, theirs in ((x, p), (y, q), (z, r)):
        assert same(mine.grad, theirs.grad)
    for reduce in ("sum", "mean", "amax", "amin"):
        x, y = a.to(device).to_sparse_csr().requires_grad_(), b.to(device).clone().requires_grad_()
        p, q = (v.to(device).clone().requires_grad_() for v in (a, b))
        (SPARSE_MM(x, y, reduce) * weights).sum().backward()
        products = p.unsqueeze(2) * q
        filled = inside.bool().unsqueeze(2)
        if reduce in ("sum", "mean"):
            expected = products.sum(1)
            expected = expected / filled.sum(1).clamp(min=1) if reduce == "mean" else expected
        else:
            beyond = -math.inf if reduce == "amax" else math.inf
            kept = products.masked_fill(~filled, beyond)
            expected = getattr(kept, reduce)(1).masked_fill(~filled.any(1), 0.0)
        (expected * weights).sum().backward()
        assert same(x.grad, p.grad * inside)
        assert same(y.grad, q.grad)


def test_double_gradients() -> None:
    a, b = matrix(4, 4), full(4, 4)
    x, y = a.to_sparse_csr().requires_grad_(), b.clone().requires_grad_()
    p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
    mask = (a != 0).double()
    (of_y,) = tt.autograd.grad((SPARSE_MM(x, y) ** 2).sum(), y, create_graph=True)
    (of_q,) = tt.autograd.grad(((p @ q) ** 2).sum(), q, create_graph=True)
    assert same(of_y, of_q)
    (of_y**2).sum().backward()
    (of_q**2).sum().backward()
    assert x.grad.layout is tt.sparse_csr
    assert same(y.grad, q.grad)
    assert same(x.grad, p.grad * mask)


def test_meta_tensors_have_the_results_sizes() -> None:
    x = matrix(6, 8).to_sparse_csr().to("meta")
    dense = tt.empty(8, 3, dtype=tt.float64, device="meta")
    assert (x @ dense).shape == (6, 3)
    assert (x @ dense).device.type == "meta"
    assert (x @ x.t()).shape == (6, 6)
    assert (x @ x.t()).layout is tt.sparse_csr
    made = SAMPLED(
        x, tt.empty(6, 2, dtype=tt.float64, device="meta"), tt.empty(2, 8, dtype=tt.float64, device="meta")
    )
    assert (made.shape, made.layout, made._nnz()) == (x.shape, x.layout, x._nnz())
    assert (x + x).shape == x.shape
    assert SPARSE_MM(x, dense, "amax").shape == (6, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x @ tt.ones(3, 2), RuntimeError, "cannot be multiplied"),
        (lambda x: x @ tt.ones(8, 2, dtype=tt.float16), RuntimeError, "same dtype"),
        (lambda x: x.mv(tt.ones(3)), RuntimeError, "size mismatch"),
        (
            lambda x: x.bool() @ tt.ones(8, 2, dtype=tt.bool),
            NotImplementedError,
            "not implemented for 'Bool'",
        ),
        (lambda x: SAMPLED(x, tt.ones(5, 2), tt.ones(2, 8)), RuntimeError, "must match mat1.shape"),
        (lambda x: SAMPLED(x, tt.ones(6, 2), x), RuntimeError, "strided layout"),
        (lambda x: SPARSE_MM(x, tt.ones(8, 2), "prod"), RuntimeError, "reduce argument must be one of"),
        (
            lambda x: SPARSE_MM(x.to_sparse_csc(), tt.ones(8, 2), "sum"),
            RuntimeError,
            "expect self to be SparseCsr",
        ),
        (lambda x: x.bmm(tt.ones(8, 2)), RuntimeError, "must be a 3D tensor"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    call: Callable[[tt.Tensor], tt.Tensor], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(matrix(6, 8, tt.float32).to_sparse_csr())
