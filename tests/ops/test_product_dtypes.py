"""Matmul of float16 and bfloat16 with float32 results: `out_dtype`."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt

NARROW = [tt.float16, tt.bfloat16]


def meta(*sizes: int, dtype: tt.dtype = tt.bfloat16) -> tt.Tensor:
    return tt.ones(*sizes, dtype=dtype, device="meta")


@pytest.mark.parametrize("dtype", NARROW)
def test_results_are_not_rounded_to_the_operands_dtype(dtype: tt.dtype) -> None:
    x, y = tt.linspace(-1, 2, 35).view(5, 7).to(dtype), tt.linspace(2, -3, 42).view(7, 6).to(dtype)
    addend, wide = tt.linspace(-1, 1, 30).view(5, 6), x.float() @ y.float()
    a, b, c = x.cuda(), y.cuda(), addend.cuda()
    results = [
        (tt.mm(a, b, out_dtype=tt.float32), wide),
        (tt.mm(a, b, tt.float32, out=tt.empty(0, device="cuda")), wide),
        (tt.bmm(a[None], b[None], out_dtype=tt.float32)[0], wide),
        (tt.addmm(c, a, b, out_dtype=tt.float32, beta=2, alpha=3), 2 * addend + 3 * wide),
        (tt.addmm(c[0].to(dtype), a, b, out_dtype=tt.float32), addend[0].to(dtype) + wide),
        (tt.baddbmm(c[None], a[None], b[None], out_dtype=tt.float32, beta=0)[0], wide),
    ]
    for found, expected in results:
        assert found.dtype is tt.float32
        tt.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    assert tt.mm(a, b, out_dtype=dtype).dtype is dtype


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("mm", (meta(2, 3), meta(3, 4), tt.float64), "must be the same as input dtype or fp32"),
        ("bmm", (meta(1, 2, 3), meta(1, 3, 4), tt.float16), "must be the same as input dtype or fp32"),
        ("mm", (meta(2, 3, dtype=tt.float32), meta(3, 4, dtype=tt.float32), tt.bfloat16), "must be the same"),
        ("mm", (meta(2, 3), meta(3, 4, dtype=tt.float16), tt.float32), "to have the same dtype"),
        (
            "addmm",
            (meta(2, 4, dtype=tt.float16), meta(2, 3), meta(3, 4), tt.float32),
            "self dtype must match",
        ),
        (
            "baddbmm",
            (meta(4, dtype=tt.float64), meta(1, 2, 3), meta(1, 3, 4), tt.float32),
            "self dtype must match",
        ),
        ("mm", (meta(2, 3), meta(4, 4), tt.float32), "shapes cannot be multiplied"),
    ],
)
def test_what_is_refused(name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(tt, name)(*args)


def test_neither_the_cpu_nor_backward_has_them() -> None:
    with pytest.raises(NotImplementedError, match="Could not run 'aten::mm' on 'cpu'"):
        tt.mm(tt.ones(2, 2).half(), tt.ones(2, 2).half(), out_dtype=tt.float32)
    result = tt.mm(meta(2, 3).requires_grad_(), meta(3, 4), out_dtype=tt.float32)
    with pytest.raises(NotImplementedError, match="derivative for 'mm with out_dtype' is not implemented"):
        result.sum().backward()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        tt.mm(meta(2, 3), meta(3, 4), out_dtype=tt.float32, out=meta(2, 4))
