"""Pointwise operators and sums of compressed rows and columns beside dense arithmetic, on the CPU and on CUDA."""

import math
from collections.abc import Callable

import pytest

import triten as tt

DENSE = [[1.5, 0.0, -2.0, 0.0], [0.0, 0.0, 0.25, 0.0], [0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, -0.75]]
OTHER = [[0.0, 3.0, 2.0, 0.0], [0.0, 0.0, 4.0, 0.0], [0.0, 5.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0]]
LAYOUTS = ("csr", "csc", "bsr", "bsc")
UNARY = (
    "abs",
    "neg",
    "sin",
    "tanh",
    "expm1",
    "sign",
    "floor",
    "relu",
    "sqrt",
    "isnan",
    "signbit",
    "angle",
    "erf",
)


def sparse(kind: str, x: tt.Tensor) -> tt.Tensor:
    method: Callable[..., tt.Tensor] = getattr(x, f"to_sparse_{kind}")
    return method((2, 2)) if kind.startswith("b") else method()


def same(x: tt.Tensor, y: tt.Tensor) -> bool:
    return bool(tt.allclose(x.to_dense().double(), y.to_dense().double(), equal_nan=True))


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_that_keep_zero(device: str, kind: str, name: str) -> None:
    whole = tt.tensor(DENSE, device=device)
    x = sparse(kind, whole)
    function = getattr(tt, name)
    made = function(x)
    assert (made.layout, made._nnz(), made.dtype) == (x.layout, x._nnz(), function(whole).dtype)
    assert same(made, function(whole))
    if made.dtype is x.dtype and name != "angle":
        written = x.clone()
        assert getattr(written, f"{name}_")() is written
        assert same(written, made)
        out = tt.zeros_like(x)
        assert function(x, out=out) is out
        assert same(out, made)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_sums(device: str, kind: str) -> None:
    whole, other = (tt.tensor(x, device=device) for x in (DENSE, OTHER))
    x, y = sparse(kind, whole), sparse(kind, other)
    assert same(x + y, whole + other)
    assert (x + y).layout is x.layout
    assert same(tt.add(x, y, alpha=-2), whole - 2 * other)
    assert (x + x)._nnz() == x._nnz()
    for made in (whole + y, y + whole, tt.add(whole, y, alpha=1)):
        assert made.layout is tt.strided
        assert same(made, whole + other)
    assert same(tt.add(y, whole, alpha=3), other + 3 * whole)
    for target in ("csr", "csc", "coo"):
        if not kind.startswith("b"):
            assert same(x + (other.to_sparse() if target == "coo" else sparse(target, other)), whole + other)
    written = whole.clone()
    assert written.add_(y) is written
    assert same(written, whole + other)
    written = x.clone()
    assert same(written.add_(y), whole + other)
    with pytest.raises(RuntimeError, match="same size"):
        x + 1
    with pytest.raises(RuntimeError, match="same shape"):
        x + sparse(kind, tt.eye(2, device=device))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_products_of_elements(device: str, kind: str) -> None:
    whole, other = (tt.tensor(x, device=device) for x in (DENSE, OTHER))
    x, y = sparse(kind, whole), sparse(kind, other)
    assert same(x * y, whole * other)
    assert (x * y).layout is x.layout
    for made in (x * other, other * x):
        assert (made.layout, made._nnz()) == (x.layout, x._nnz())
        assert same(made, whole * other)
    assert same(x * other[0], whole * other[0])
    assert same(x * 2, whole * 2)
    assert same(2 * x, whole * 2)
    assert same(x * tt.tensor(2.0, device=device), whole * 2)
    assert (x.int() * 2.5).dtype is tt.float32
    assert same(x.clone().mul_(3), whole * 3)
    assert same(x * other.to_sparse(), whole * other)


def test_zero_times_what_is_not_finite() -> None:
    x = tt.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr()
    made = x * tt.tensor([[math.inf, math.nan], [math.inf, math.nan]])
    assert made.values().tolist()[1] == math.inf
    assert math.isnan(made.values().tolist()[0])
    assert made._nnz() == 2


@pytest.mark.parametrize("kind", LAYOUTS)
def test_batches(device: str, kind: str) -> None:
    whole = tt.tensor([DENSE, DENSE[::-1]], device=device)
    x, y = sparse(kind, whole), sparse(kind, whole.mT)
    assert same(x + x, whole * 2)
    assert same(x * y, whole * whole.mT)
    assert same(x * whole.mT, whole * whole.mT)
    assert same(-x, -whole)
    united = (whole != 0) | (whole.mT != 0)
    if kind.startswith("b") or united[0].sum() == united[1].sum():
        assert same(x + y, whole + whole.mT)


def test_values_are_written_in_place(device: str) -> None:
    x = tt.tensor(DENSE, device=device).to_sparse_csr()
    assert x.fill_(3) is x
    assert x.values().tolist() == [3.0] * 5
    x.normal_(100.0, 0.0)
    assert x.values().tolist() == [100.0] * 5
    assert x.zero_()._nnz() == 0


def test_sums_over_dimensions(device: str) -> None:
    whole = tt.tensor(DENSE, device=device)
    x = whole.to_sparse_csr()
    assert x.sum().item() == whole.sum().item()
    assert x.int().sum().dtype is tt.int64
    for dim in (0, 1, (0, 1)):
        made = x.sum(dim, keepdim=True)
        assert made.layout is tt.sparse_csr
        assert same(made, whole.sum(dim, keepdim=True))
        assert same(tt.ops.aten._sparse_csr_sum(x, dim, keepdim=True), made)
    product = tt.ops.aten._sparse_csr_prod
    assert product(x, [1], keepdim=True).values().tolist() == [-3.0, 0.25, -0.375]
    assert product(x, [0], keepdim=True).values().tolist() == [0.75, -0.5, -0.75]
    assert product(x, [0, 1], keepdim=True).values().tolist() == [0.28125]
    assert product(x.int(), [1], keepdim=True).dtype is tt.int64
    with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
        x.sum(0)
    with pytest.raises(RuntimeError, match="only compressed sparse format supported"):
        whole.to_sparse_csc().sum(0, keepdim=True)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_gradients(device: str, kind: str) -> None:
    whole, other = (tt.tensor(x, device=device) for x in (DENSE, OTHER))
    weights = tt.arange(16.0, device=device).reshape(4, 4)
    functions: tuple[Callable[[tt.Tensor, tt.Tensor], tt.Tensor], ...] = (
        lambda x, y: x + x * 2,
        lambda x, y: x * y,
        lambda x, y: y + x,
        lambda x, y: (-x).abs(),
        lambda x, y: x.relu(),
    )
    for function in functions:
        x, y = sparse(kind, whole).requires_grad_(), other.clone().requires_grad_()
        a, b = whole.clone().requires_grad_(), other.clone().requires_grad_()
        (function(x, y).to_dense() * weights).sum().backward()
        (function(a, b) * weights).sum().backward()
        expected = a.grad if x.grad.layout is tt.strided else a.grad.sparse_mask(x.detach())
        assert same(x.grad, expected)
        assert (y.grad is None) == (b.grad is None)
        if y.grad is not None:
            assert same(y.grad, b.grad)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_gradient_of_a_factor_is_a_number(device: str, kind: str) -> None:
    whole, factor = tt.tensor(DENSE, device=device), tt.tensor(2.0, device=device, requires_grad=True)
    x = sparse(kind, whole).requires_grad_()
    (x * factor).to_dense().sum().backward()
    assert factor.grad.item() == whole.sum().item()
    assert x.grad.values().equal(tt.full_like(x.values(), 2.0))


def test_an_operator_without_a_sparse_kernel_is_refused(device: str) -> None:
    x = tt.tensor(DENSE, device=device).to_sparse_csr()
    for call in (x.exp, lambda: x / 2, lambda: x - x, lambda: x.view(16)):
        with pytest.raises(NotImplementedError, match=f"SparseCsr{device.upper()}"):
            call()
