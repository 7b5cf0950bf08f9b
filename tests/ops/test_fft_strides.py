"""Fourier transforms have the strides of PyTorch 2.13: transformed dimensions are innermost."""

from typing import Any

import pytest

import triten as tt

SIZES = (3, 4, 5, 6)


def by_definition(sizes: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Order the dimensions: the others as they were, then the transformed ones."""
    order = [d for d in range(len(sizes)) if d not in dims] + sorted(dims[:-1]) + [dims[-1]]
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d], step = step, step * sizes[d]
    return tuple(strides)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("where", ["cpu", "cuda", "meta"])
def test_transformed_dimensions_lie_innermost(where: str, dims: tuple[int, ...]) -> None:
    x, real = tt.zeros(SIZES, dtype=tt.complex64, device=where), tt.zeros(SIZES, device=where)
    assert tt._fft_c2c(x, dims, 0, True).stride() == by_definition(SIZES, dims)
    halved = tuple(n // 2 + 1 if d == dims[-1] else n for d, n in enumerate(SIZES))
    assert tt._fft_r2c(real, dims, 0, True).stride() == by_definition(halved, dims)
    assert tt._fft_r2c(real, dims, 0, False).stride() == by_definition(SIZES, dims)
    sizes = tuple(7 if d == dims[-1] else n for d, n in enumerate(SIZES))
    assert tt._fft_c2r(x, dims[-1:], 0, 7).stride() == by_definition(sizes, dims[-1:])


CASES: list[tuple[Any, tuple[int, ...]]] = [
    (lambda x: tt.fft.fft(x, dim=0), (1, 90, 18, 3)),
    (lambda x: tt.fft.fft(x, dim=1), (120, 1, 24, 4)),
    (lambda x: tt.fft.fftn(x, dim=(0, 2)), (5, 90, 1, 15)),
    (lambda x: tt.fft.fft(x.permute(2, 0, 3, 1), dim=0), (1, 120, 5, 30)),
    (lambda x: tt.fft.fft(x, n=7, dim=1), (210, 1, 42, 7)),
    (lambda x: tt.fft.fft(x[:, ::2], dim=2), (60, 30, 1, 5)),
    (lambda x: tt.fft.irfftn(x, dim=(3, 1)), (180, 1, 36, 6)),
    (lambda x: tt.fft.hfft(x, dim=2), (192, 48, 1, 8)),
    (lambda x: tt.fft.rfft(x.real, dim=1), (90, 1, 18, 3)),
    (lambda x: tt.fft.ihfftn(x.real, dim=(0, 1)), (1, 3, 54, 9)),
]
"""Calls on a contiguous complex tensor of `SIZES`, and what PyTorch's strides are."""


@pytest.mark.parametrize("number", range(len(CASES)))
def test_public_transforms_lie_as_pytorchs(device: str, number: int) -> None:
    call, strides = CASES[number]
    x = tt.randn(SIZES, dtype=tt.complex64, generator=tt.Generator().manual_seed(1)).to(device)
    made = call(x)
    assert made.stride() == strides
    # By the other way, over a tensor that lies otherwise.
    turned = x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    tt.testing.assert_close(made, call(turned), check_stride=False)


def test_a_transform_over_no_dimension_keeps_strides(device: str) -> None:
    x = tt.zeros(2, 3, 4, dtype=tt.complex64, device=device).permute(2, 0, 1)
    assert tt._fft_c2c(x, (), 0, True).stride() == x.stride()
