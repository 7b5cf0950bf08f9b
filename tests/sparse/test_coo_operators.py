"""Pointwise operators, shapes and reductions of tensors of coordinates beside the same on dense ones."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

from .conftest import Draw

UNARY = (
    *(
        "abs",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "erf",
        "erfinv",
        "expm1",
        "floor",
        "frac",
        "isinf",
        "isnan",
    ),
    *(
        "isneginf",
        "isposinf",
        "log1p",
        "neg",
        "relu",
        "round",
        "sgn",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "tan",
    ),
    *("tanh", "trunc", "deg2rad", "rad2deg", "conj_physical", "nan_to_num"),
)

SHAPES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(2, 0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze at the end": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "select": lambda x: x.select(1, 2),
    "item": lambda x: x[1],
    "items": lambda x: x[1, 2],
    "item behind": lambda x: x[:, -1],
    "index_select": lambda x: x.index_select(1, tt.tensor([2, 0, 2], device=x.device)),
    "narrow_copy": lambda x: x.narrow_copy(1, 1, 2),
    "cat": lambda x: tt.cat([x, x], 1),
    "stack": lambda x: tt.stack([x, x], 1),
    "sum": lambda x: x.sum(),
    "sum over one": lambda x: x.sum(1),
    "sum over two": lambda x: x.sum((0, 2)),
    "sum that keeps": lambda x: x.sum(1, keepdim=True),
    "sparse.sum": lambda x: tt.sparse.sum(x, 1) if x.is_sparse else x.sum(1),
    "norm": lambda x: x.norm(),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(tt.float64),
    "pow": lambda x: x**2,
    "div": lambda x: x / 2,
    "floor_divide": lambda x: x // 2,
    "by a number": lambda x: x * 3,
    "with a dense one": lambda x: x * tt.arange(5.0, device=x.device),
    "with a dense one in front": lambda x: tt.arange(5.0, device=x.device) * x,
    "a dense one and it": lambda x: tt.ones(3, 4, 5, device=x.device) + x,
    "a dense one without it": lambda x: tt.ones(3, 4, 5, device=x.device) - x,
}


def dense(x: tt.Tensor) -> tt.Tensor:
    return x.to_dense() if x.layout is not tt.strided else x


@pytest.mark.parametrize("name", UNARY)
def test_functions_that_keep_zero(draw: Draw, name: str) -> None:
    x = draw((3, 4), dtype=tt.float64) / 10
    function: Any = getattr(tt, name)
    found = function(x)
    assert found.layout is tt.sparse_coo
    tt.testing.assert_close(found.to_dense(), function(x.to_dense()), equal_nan=True)


@pytest.mark.parametrize("name", SHAPES)
def test_results_are_those_of_dense_tensors(draw: Draw, name: str) -> None:
    x = draw((3, 4, 5), nnz=20)
    function = SHAPES[name]
    tt.testing.assert_close(dense(function(x)), function(x.to_dense()), rtol=1e-6, atol=1e-6)


HYBRID: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0, 2),
    "unsqueeze": lambda x: x.unsqueeze(2),
    "select": lambda x: x.select(2, 1),
    "item": lambda x: x[1],
    "index_select": lambda x: x.index_select(2, tt.tensor([1, 0], device=x.device)),
    "narrow_copy": lambda x: x.narrow_copy(2, 1, 1),
    "cat along a dense dimension": lambda x: tt.cat([x, x], 2),
    "sum over dense": lambda x: x.sum(2),
    "sum over sparse": lambda x: x.sum((0, 1)),
    "sum over both": lambda x: x.sum((0, 2)),
    "with a dense one": lambda x: x * tt.arange(2.0, device=x.device),
}


@pytest.mark.parametrize("name", HYBRID)
def test_results_of_tensors_with_dense_dimensions(draw: Draw, name: str) -> None:
    x = draw((3, 4, 2), dense_dim=1, nnz=9)
    function = HYBRID[name]
    tt.testing.assert_close(dense(function(x)), function(x.to_dense()))


@pytest.mark.parametrize("coalesced", [False, True])
def test_two_sparse_tensors(draw: Draw, coalesced: bool) -> None:
    x, y = (draw((3, 4), coalesced=coalesced) for _ in range(2))
    a, b = x.to_dense(), y.to_dense()
    for found, expected in (
        (x + y, a + b),
        (x - y, a - b),
        (tt.add(x, y, alpha=3), tt.add(a, b, alpha=3)),
        (x * y, a * b),
    ):
        assert found.layout is tt.sparse_coo
        assert found.to_dense().equal(expected)


def test_in_place_and_out(draw: Draw) -> None:
    x, y = draw((3, 4)), draw((3, 4))
    expected = x.to_dense() + y.to_dense()
    version = x._version
    x.add_(y)
    assert x._version == version + 1
    assert x.to_dense().equal(expected)
    out = tt.zeros(1, layout=tt.sparse_coo, device=x.device)
    assert tt.mul(x, 2, out=out) is out
    assert out.to_dense().equal(expected * 2)
    whole = tt.ones(3, 4, device=x.device)
    whole.add_(y, alpha=2)
    assert whole.equal(1 + 2 * y.to_dense())
    with pytest.raises(RuntimeError, match="abs_ requires coalesced input"):
        draw((1, 1)).abs_()
    assert x.zero_()._nnz() == 0


@pytest.mark.parametrize("dtype", [tt.int32, tt.int64, tt.bool, tt.float16, tt.complex64], ids=str)
def test_dtypes(draw: Draw, dtype: tt.dtype) -> None:
    x = draw((3, 4), dtype=dtype)
    assert x.coalesce().to_dense().equal(x.to_dense())
    assert x.sum().dtype is x.to_dense().sum().dtype
    assert x.to(tt.float32).dtype is tt.float32


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_leaves_out_what_is_not_specified(draw: Draw, dim: int, log: bool) -> None:
    x = draw((3, 4, 2), dense_dim=1, coalesced=True)
    found = (tt.sparse.log_softmax if log else tt.sparse.softmax)(x, dim)
    ones = tt.sparse_coo_tensor(x.indices(), tt.ones_like(x.values()), x.shape)
    whole = x.to_dense().masked_fill(ones.to_dense() == 0, -tt.inf)
    expected = (tt.log_softmax if log else tt.softmax)(whole, dim).sparse_mask(x)
    tt.testing.assert_close(found.values(), expected.values())


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x + 1, RuntimeError, "add\\(sparse, dense\\)"),
        (lambda x: x + tt.ones(3, 4, device=x.device), RuntimeError, "add\\(sparse, dense\\)"),
        (lambda x: tt.ones(4, device=x.device) + x, RuntimeError, "same size"),
        (lambda x: x / x, RuntimeError, "Sparse division"),
        (lambda x: x**0, RuntimeError, "zeroth power"),
        (lambda x: x.expand(2, 3, 4), RuntimeError, "expand is unsupported"),
        (lambda x: x.view(12), NotImplementedError, "aten::view"),
        (lambda x: x.reshape(12), RuntimeError, "view"),
        (lambda x: x.contiguous(), RuntimeError, "memory format"),
        (lambda x: x.numpy(), TypeError, "to_dense"),
        (lambda x: x.data_ptr(), RuntimeError, "storage"),
        (lambda x: x.untyped_storage(), NotImplementedError, "storage"),
        (lambda x: x.nbytes, RuntimeError, "nbytes is not defined"),
        (lambda x: x.indices(), RuntimeError, "uncoalesced"),
        (lambda x: x.values(), RuntimeError, "uncoalesced"),
        (lambda x: x == x, NotImplementedError, "aten::eq"),
        (lambda x: x[0:1], NotImplementedError, "slice"),
        (lambda x: x.transpose(0, 2), IndexError, "Dimension out of range"),
        (lambda x: x.select(0, 3), IndexError, "out of range"),
        (lambda x: x.index_select(0, tt.tensor([3], device=x.device)), IndexError, "out of range"),
        (lambda x: tt.cat([x, tt.ones(3, 4, device=x.device)]), RuntimeError, "position 1"),
        (lambda x: x.clone().copy_(tt.ones(3, 4, device=x.device)), RuntimeError, "copy_"),
        (lambda x: tt.zeros(3, 4, device=x.device).copy_(x), RuntimeError, "copy_"),
        (lambda x: x.sparse_resize_((2, 4), 2, 0), RuntimeError, "shrinking"),
        (lambda x: x.sparse_resize_((3, 4), 1, 1), RuntimeError, "changing the number"),
        (lambda x: x.norm(dim=0), RuntimeError, "full reductions"),
        (lambda x: tt.ones_like(x), NotImplementedError, "fill_"),
        (lambda x: tt.ones(2, layout=tt.sparse_coo), RuntimeError, "not implemented for sparse layout"),
    ],
)
def test_what_has_no_sparse_form_is_refused(
    draw: Draw, function: Callable[[tt.Tensor], object], error: type[Exception], message: str
) -> None:
    x = draw((3, 4))
    with pytest.raises(error, match=message):
        function(x)
    assert x._nnz() == 7


def test_an_index_that_was_never_checked_reaches_no_memory() -> None:
    x = tt._sparse_coo_tensor_unsafe(tt.tensor([[0, 9]]), tt.ones(2), (2,))
    for function in (tt.Tensor.to_dense, lambda x: tt.ones(2) + x, lambda x: x * tt.ones(2)):
        with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
            function(x)


def test_meta_tensors_know_shapes_and_layouts() -> None:
    x = tt.zeros(3, 4, layout=tt.sparse_coo, device="meta")
    for found, size in (
        (x + x, (3, 4)),
        (x.t(), (4, 3)),
        (x * 2, (3, 4)),
        (x.sum(0), (4,)),
        (x.abs(), (3, 4)),
    ):
        assert found.layout is tt.sparse_coo
        assert found.is_meta
        assert found.shape == size
    assert x.to_dense().layout is tt.strided


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("to", "source"), [("int64", "float32"), ("float32", "complex64"), ("int32", "float64")]
)
def test_a_result_that_does_not_fit_in_place_is_refused(name, dense, to, source):
    to, source = getattr(tt, to), getattr(tt, source)
    target = tt.tensor([1, 2]).to(to)
    before = target.clone()
    target = target if dense else target.to_sparse()
    operation = "mul" if name == "mul_" else "add"
    wide = tt.promote_types(to, source).scalar_name
    message = f"Can't convert result type {wide} to output .* in {operation} operation"
    with pytest.raises(RuntimeError, match=message):
        getattr(target, name)(tt.tensor([1.5, 0.0]).to(source).to_sparse())
    assert tt.equal(target if dense else target.to_dense(), before)


def test_sums_into_a_wider_or_narrower_dtype_of_a_kind():
    narrow = tt.ones(2, dtype=tt.int8).to_sparse()
    assert tt.ones(2, dtype=tt.int64).add_(narrow, alpha=1000).tolist() == [1001, 1001]
    wide = tt.tensor([0.5, 0.0], dtype=tt.float64).to_sparse()
    made = tt.ones(2).add_(wide)
    assert made.dtype is tt.float32 and made.tolist() == [1.5, 1.0]


@pytest.mark.parametrize("other", [tt.bool, tt.int64])
def test_bools_are_not_subtracted(other):
    x, y = tt.ones(2, dtype=tt.bool), tt.ones(2, dtype=other)
    words = "two bool tensors" if other is tt.bool else "a bool tensor"
    for call in (
        lambda: x - y.to_sparse(),
        lambda: x.to_sparse() - y.to_sparse(),
        lambda: y.to_sparse().sub_(x.to_sparse()),
    ):
        with pytest.raises(
            RuntimeError, match=f"Subtraction, the `-` operator, with {words} is not supported"
        ):
            call()


def test_a_divisor_is_a_number():
    x = tt.ones(2)
    for divisor in (x, x.to_sparse()):
        with pytest.raises(
            RuntimeError, match=r"zero-dim dense tensor divisor \(got shape \[2\] for divisor\)"
        ):
            x.to_sparse() / divisor


@pytest.mark.parametrize("call", (lambda x, v: x.mv(v), lambda x, v: x @ v, lambda x, v: tt.addmv(v, x, v)))
def test_a_matrix_with_a_dense_dimension_times_a_vector_is_refused(
    call: Callable[[tt.Tensor, tt.Tensor], tt.Tensor],
) -> None:
    with pytest.raises(RuntimeError, match="expected mat without dense dimensions, got 1"):
        call(tt.eye(4).to_sparse(1), tt.ones(4))
