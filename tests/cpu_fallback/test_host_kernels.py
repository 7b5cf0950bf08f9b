"""Norms, distances and matmuls in one CPU kernel agree with their composites."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.record_kernels import record_kernels

ORDERS = (0, 0.5, 1, 2, 3, math.inf)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"vector_norm {p}": lambda a, b, p=p: tt.linalg.vector_norm(a, p) for p in (*ORDERS, -1, -math.inf)},
    "vector_norm, kept": lambda a, b: tt.linalg.vector_norm(a, 3, keepdim=True),
    "vector_norm of columns": lambda a, b: tt.linalg.vector_norm(a.mT, 2, dim=(0, 1), keepdim=True),
    "vector_norm of a number": lambda a, b: tt.linalg.vector_norm(a[0, 0], 6),
    **{f"norm of lines, {p}": lambda a, b, p=p: a.norm(p, -1) for p in ORDERS},
    "norm of lines, kept": lambda a, b: tt.linalg.vector_norm(tt.stack([a, b]), dim=(2,), keepdim=True),
    "norm of lines of one": lambda a, b: a[:, :1].contiguous().norm(dim=1),
    "linear": lambda a, b: tt.nn.functional.linear(a, b),
    "linear, with a bias": lambda a, b: tt.nn.functional.linear(a, b, b[:, 0]),
    "linear of a stack": lambda a, b: tt.nn.functional.linear(tt.stack([a, b]), b, b[:, 0]),
    "linear of a permuted stack": lambda a, b: tt.nn.functional.linear(tt.stack([a, b], 1), b),
    "linear of many": lambda a, b: tt.nn.functional.linear(
        a.repeat(3, 80, 20), b.repeat(20, 20), b[:, 0].repeat(20)
    ),
    "norm": lambda a, b: tt.linalg.norm(a),
    "norm, fro": lambda a, b: tt.linalg.norm(a, "fro"),
    "matrix_norm of batches": lambda a, b: tt.linalg.matrix_norm(tt.stack([a, b])[:, None], keepdim=True),
    "matrix_norm": lambda a, b: tt.linalg.matrix_norm(a, keepdim=True),
    **{f"dist {p}": lambda a, b, p=p: tt.dist(a, b, p) for p in (1, 2, 2.5)},
    "pairwise_distance": lambda a, b: tt.nn.functional.pairwise_distance(a, b),
    "pairwise_distance of vectors": lambda a, b: tt.nn.functional.pairwise_distance(a[0], b[0], keepdim=True),
    **{f"renorm along {d}": lambda a, b, d=d: tt.renorm(a, 2.5, d, 1.5) for d in (0, 1, -1)},
    **{f"cdist {p}": lambda a, b, p=p: tt.cdist(a, b, p) for p in ORDERS},
    "cdist of batches": lambda a, b: tt.cdist(tt.stack([a, b]), tt.stack([b, a])),
    "cdist by products": lambda a, b: tt.cdist(a.repeat(6, 1), b),
    **{f"pdist {p}": lambda a, b, p=p: tt.pdist(a, p) for p in ORDERS},
    **{
        f"pdist of many, {p}": lambda a, b, p=p: tt.pdist(a.repeat(1, 20).repeat(7, 1) + b[0, 0], p)
        for p in (1, 2)
    },
    **{
        f"cdist of many, {p}": lambda a, b, p=p: tt.cdist(a.repeat(40, 10), b.repeat(40, 10), p)
        for p in (1, 2)
    },
    "kron": lambda a, b: tt.kron(a, b.mT),
    "kron of columns": lambda a, b: tt.kron(a.mT, b[:2]),
    "kron of many": lambda a, b: tt.kron(a.repeat(3, 3), b),
    "kron of long rows": lambda a, b: tt.kron(a, b.repeat(1, 200)),
    "cross": lambda a, b: tt.cross(a[:, :3], b[:, 1:]),
    "cross of rows": lambda a, b: tt.linalg.cross(a[:3], b[2:], dim=-2),
    "fftshift": lambda a, b: tt.fft.fftshift(tt.stack([a, b]), dim=(0, -2)),
    "ifftshift": lambda a, b: tt.fft.ifftshift(a.mT),
    "roll": lambda a, b: tt.roll(a, (1, -3), (0, -1)),
    "roll of one dimension twice": lambda a, b: tt.roll(a, (1, 2), (1, 1)),
    "roll of all": lambda a, b: tt.roll(a, -7),
    "einsum": lambda a, b: tt.einsum("ij,Ab->ijAb", a, b),
    "matmul of stacks": lambda a, b: tt.stack([a, b]) @ tt.stack([b.mT, a.mT]),
    "matmul of transposed stacks": lambda a, b: (
        a.repeat(2, 3, 1, 1).transpose(0, 2) @ b.mT.repeat(5, 3, 1, 2)[:, :, :, :3]
    ),
    "matmul of copied stacks": lambda a, b: a.repeat(2, 3, 1, 1).transpose(1, 2) @ b.repeat(2, 5, 3, 1).mT,
    "matmul of one stack": lambda a, b: a.repeat(2, 3, 1, 1).transpose(0, 1) @ b.mT,
    "matmul of outer products": lambda a, b: a.repeat(2, 20, 20)[..., :1] @ b.repeat(2, 20, 20)[:, :1],
    "matmul of many": lambda a, b: a.repeat(2, 3, 40, 20) @ b.repeat(2, 3, 40, 20).mT,
    **{
        f"einsum {equation}": lambda a, b, e=equation: tt.einsum(e, a, b)
        for equation in (
            "ij,kj->ik",
            "ij,kj->ki",
            "ij,ij->",
            "ij,ij->i",
            "ij,ij->j",
            "ij,kl->",
            "ij,ik->jk",
            "ij,kj",
        )
    },
    **{
        f"einsum of stacks {equation}": lambda a, b, e=equation: tt.einsum(
            e, tt.stack([a, b]), tt.stack([b, a])
        )
        for equation in (
            "bij,bkj->bik",
            "bij,bkj->kib",
            "bij,ckj->bick",
            "bij,bij->b",
            "...ij,...kj->...ik",
            "bij,bij->bi",
        )
    },
    "einsum of many": lambda a, b: tt.einsum(
        "bhqd,bhkd->bqhk", a.repeat(2, 3, 20, 4), b.repeat(3, 2, 20, 4).transpose(0, 1)
    ),
    "multi_dot": lambda a, b: tt.linalg.multi_dot([a, b.mT, a.mT.contiguous().mT]),
    "addr": lambda a, b: tt.addr(tt.stack([a[0]] * 5), b[:, 0], b[0]),
    "addr of many": lambda a, b: tt.addr(a.repeat(20, 20), a.repeat(20, 1)[:, 0], b.repeat(1, 20)[0]),
}

TRANSFORMS = [f"{direction}{kind}" for kind in ("fft", "rfft", "hfft") for direction in ("", "i")]


OF_REAL_ONES = ("rfft", "ihfft")
OPERANDS = [
    (name, dtype)
    for name in TRANSFORMS
    for dtype in (tt.float32, tt.complex128)
    if not (dtype.is_complex and name in OF_REAL_ONES)
]


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
@pytest.mark.parametrize("n", [None, 3, 9])
@pytest.mark.parametrize(("name", "dtype"), OPERANDS, ids=str)
def test_a_transform_gives_what_the_composition_gives(
    name: str, n: int | None, norm: Any, dtype: Any
) -> None:
    x = tt.randn(4, 5, 6, dtype=dtype, generator=tt.Generator().manual_seed(0))
    one, several = getattr(tt.fft, name), getattr(tt.fft, f"{name}n")
    calls: list[Callable[[], Any]] = [
        lambda: one(x, n, 1, norm),
        lambda: one(x.transpose(0, 2), n, -1, norm),
        lambda: several(x, None if n is None else (n, 4), (0, -1) if n is None else None, norm),
        lambda: several(x.mT, None if n is None else (4, n), (2, 0), norm),
    ]
    for call in calls:
        with record_kernels():
            expected = call()
        made = call()
        assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
        eps = tt.finfo(dtype).eps
        np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=100 * eps, atol=100 * eps)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize(
    ("sizes", "dim"),
    [
        *(((3, 4, 5), dim) for dim in (None, 0, 2, -1, -3, (0, 1), (-3, 2), (1, 1))),
        *(((1,), 0), ((2,), -1), ((0, 3), 1), ((3, 0), 0)),
    ],
    ids=str,
)
def test_a_shift_gives_what_numpy_gives(name: str, sizes: tuple[int, ...], dim: Any) -> None:
    x = tt.arange(float(math.prod(sizes))).reshape(sizes)
    expected = getattr(np.fft, name)(x.numpy(), dim)
    np.testing.assert_array_equal(getattr(tt.fft, name)(x, dim).numpy(), expected)


@pytest.mark.parametrize("dim", [2, -3, (0, 2)], ids=str)
def test_a_shift_along_no_dimension_is_refused(dim: Any) -> None:
    for function in (tt.fft.fftshift, tt.fft.ifftshift):
        with pytest.raises(IndexError, match="Dimension out of range"):
            function(tt.ones(3, 4), dim)
        for x, none in ((tt.ones(3, 4), ()), (tt.tensor(1.0), None)):
            with pytest.raises(RuntimeError, match="`shifts` required"):
                function(x, none)


def test_a_large_transform_lies_where_every_result_does() -> None:
    x = tt.randn(64, 300, generator=tt.Generator().manual_seed(0))
    with record_kernels():
        expected = tt.fft.fft(x)
    made = tt.fft.fft(x)
    assert made.tolist() == expected.tolist()
    assert made.data_ptr() % 64 == 0


@pytest.mark.parametrize("values", ["plain", "repeated", "nan", "infinite"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_the_composition_gives(name: str, dtype: Any, values: str) -> None:
    generator = tt.Generator().manual_seed(0)
    a, b = (tt.randn(5, 4, dtype=dtype, generator=generator) for _ in range(2))
    if values == "repeated":
        a[1], b[0] = a[0], a[0]
    elif values != "plain":
        a[1, 2] = math.nan if values == "nan" else math.inf
    call = CALLS[name]
    with record_kernels():
        expected = call(a, b)
    made = call(a, b)
    assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert made._data.shape == made.shape
    eps = tt.finfo(dtype).eps
    # For equal rows the squares cancel to rounding error.
    least = 10 * math.sqrt(eps) if name == "cdist of many, 2" else 100 * eps
    np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=100 * eps, atol=least)


def test_products_of_columns_by_rows_have_the_zeros_of_a_sum() -> None:
    column, row = -tt.ones(2, 80, 1), tt.zeros(2, 1, 80)
    row[0, 0, 3], row[1, 0, 2] = 2.0, math.inf
    made = tt.bmm(column, row)
    assert made.tolist() == (column.double() @ row.double()).tolist()
    assert not tt.signbit(made[made == 0]).any()
    out = tt.empty(2, 80, 80)
    assert tt.bmm(column, row, out=out).tolist() == made.tolist()
